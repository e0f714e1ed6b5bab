package main

import (
	"crypto/tls"
	"net"
	"net/netip"
	"os"

	"github.com/orbweaver/orbweaver/internal/node/admin"
	"github.com/orbweaver/orbweaver/internal/node/membership"
)

// APIFlags say where and how a crawl answers operators.
type APIFlags struct {
	API     string `name:"api" help:"${api}" placeholder:"ADDR"`
	APICert string `name:"api-cert" help:"${api_cert}" placeholder:"FILE"`
	APIKey  string `name:"api-key" help:"${api_key}" placeholder:"FILE"`
}

// secure reports whether the API has a certificate. c is nil if the crawl has one agent.
func (f APIFlags) secure(c *membership.Config) bool {
	return f.APICert != "" || c != nil && c.Keys != ""
}

// check refuses an address, a certificate or a key that cannot be used.
func (f APIFlags) check(c *membership.Config) error {
	switch {
	case f.APIKey != "" && f.APICert == "":
		return bad("--api-key %s: there is no certificate for it; add --api-cert", f.APIKey)
	case f.APICert != "" && f.API == "":
		return bad("--api-cert %s: there is no API; add --api ADDR", f.APICert)
	case f.API == "":
		return nil
	}
	if ap, err := netip.ParseAddrPort(f.API); err == nil && !ap.Addr().IsLoopback() && !f.secure(c) {
		return bad("--api %s: an address other than loopback requires TLS; add --api-cert and --api-key", f.API)
	}
	if err := admin.CheckAddr(f.API, f.secure(c)); err != nil {
		return bad("--%v", err)
	}
	_, err := f.certificate()
	return err
}

// certificate returns the certificate of --api-cert, or nil without the flag.
func (f APIFlags) certificate() (*tls.Certificate, error) {
	if f.APICert == "" {
		return nil, nil
	}
	certPEM, err := os.ReadFile(f.APICert)
	if err != nil {
		return nil, bad("--api-cert %s: %v; name a PEM file with a certificate", f.APICert, cause(err))
	}
	key, keyPEM := f.APICert, certPEM
	if f.APIKey != "" {
		key = f.APIKey
		if keyPEM, err = os.ReadFile(f.APIKey); err != nil {
			return nil, bad("--api-key %s: %v; name a PEM file with a private key", f.APIKey, cause(err))
		}
	}
	cert, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, bad("--api-cert %s: no PEM certificate that fits a private key in %s; name a file of each",
			f.APICert, key)
	}
	return &cert, nil
}

// reserve opens the listener of the API.
func (f APIFlags) reserve(c *membership.Config) (net.Listener, error) {
	ln, err := admin.Reserve(f.API, f.secure(c))
	if err != nil {
		return nil, bad("--%v", err)
	}
	return ln, nil
}
