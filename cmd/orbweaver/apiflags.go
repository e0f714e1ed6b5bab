package main

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/orbweaver/orbweaver/internal/node/admin"
	"github.com/orbweaver/orbweaver/internal/node/membership"
	"github.com/orbweaver/orbweaver/internal/store/crawldir"
)

// noAPI is the value of --api for no API.
const noAPI = "none"

// freePort is where the API listens without --api.
var freePort = "127.0.0.1:0"

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
	case f.APICert != "" && (f.API == "" || f.API == noAPI):
		return bad("--api-cert %s: the API has no address of yours; add --api ADDR", f.APICert)
	case f.API == "" || f.API == noAPI:
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

// open opens the listener of the API; it is nil with --api none. Without --api, a listener that cannot be opened is a
// note, and the crawl has no API.
func (f APIFlags) open(c *membership.Config, note func(text string)) (net.Listener, error) {
	if f.API == noAPI {
		return nil, nil
	}
	ln, err := admin.Reserve(cmp.Or(f.API, freePort), f.secure(c))
	switch {
	case err == nil:
		return ln, nil
	case f.API == "":
		note(fmt.Sprintf("warning: %v; \"orbweaver ctl\" and the console cannot reach this crawl", err))
		return nil, nil
	}
	return nil, bad("--%v", err)
}

// rehearse opens and closes the listener of the API, and says what it would be.
func (f APIFlags) rehearse(c *membership.Config) (text string, err error) {
	text = cmp.Or(f.API, "127.0.0.1, any free port")
	if f.API != "" && f.API != noAPI {
		text += ": free"
	}
	ln, err := f.open(c, func(warning string) { text = warning })
	if ln != nil {
		err = ln.Close()
	}
	return text, err
}

// greeting says how to ask the crawl in dir, whose API listens at addr.
func (f APIFlags) greeting(dir string, addr net.Addr) string {
	scheme := "http"
	if ap, err := netip.ParseAddrPort(addr.String()); f.APICert != "" || err == nil && !ap.Addr().IsLoopback() {
		scheme = "https"
	}
	return fmt.Sprintf("to look at the crawl: orbweaver ctl status%s, or %s://%s/ with the token in %s", dirFlag(dir),
		scheme, here(addr.String()), filepath.Join(dir, crawldir.APIFile))
}
