package testweb

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"strings"
	"sync"
	"time"
)

// A TLSFault names what is wrong with a host's certificate.
type TLSFault string

// The faults. CutTLS closes the connection instead of a handshake.
const (
	SelfSigned TLSFault = "self-signed"
	Expired    TLSFault = "expired"
	WrongName  TLSFault = "wrong-name"
	CutTLS     TLSFault = "cut"
)

// maxCerts bounds the certificates kept; beyond it they are made anew.
const maxCerts = 10_000

// authority is a certificate authority that lives as long as the Web.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	leaf *ecdsa.PrivateKey // of all hosts: they are one server
	pem  []byte
	born time.Time

	mu    sync.Mutex // guards certs
	certs map[string]*tls.Certificate
}

func newAuthority(now time.Time) (*authority, error) {
	a := &authority{certs: map[string]*tls.Certificate{}, born: now}
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, err
	}
	if a.leaf, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, err
	}
	t := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Orbweaver test web authority"},
		NotBefore: now.Add(-24 * time.Hour), NotAfter: now.AddDate(1, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, &a.key.PublicKey, a.key)
	if err != nil {
		return nil, err
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return nil, err
	}
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return a, nil
}

// certificate is the one for host, made when it is first asked for.
func (a *authority) certificate(host string, fault TLSFault) (*tls.Certificate, error) {
	k := string(fault) + " " + host
	a.mu.Lock()
	defer a.mu.Unlock()
	if c := a.certs[k]; c != nil {
		return c, nil
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	name := host
	if fault == WrongName {
		name = "elsewhere.example"
	}
	t := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: a.born.Add(-24 * time.Hour), NotAfter: a.born.AddDate(0, 6, 0),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if ip := net.ParseIP(name); ip != nil {
		t.IPAddresses = []net.IP{ip}
	} else {
		t.DNSNames = []string{name}
	}
	if fault == Expired {
		t.NotBefore, t.NotAfter = a.born.AddDate(-1, 0, 0), a.born.Add(-time.Hour)
	}
	parent, key := a.cert, a.key
	if fault == SelfSigned {
		parent, key = t, a.leaf
	}
	der, err := x509.CreateCertificate(rand.Reader, t, parent, &a.leaf.PublicKey, key)
	if err != nil {
		return nil, err
	}
	c := &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: a.leaf}
	if len(a.certs) >= maxCerts {
		clear(a.certs)
	}
	a.certs[k] = c
	return c, nil
}

// tlsConfig picks the certificate by the name that the client asks for; a
// client that names none gets that of the address it connected to.
func (w *Web) tlsConfig(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	name := strings.ToLower(strings.TrimSuffix(hello.ServerName, "."))
	fault := TLSFault("")
	if name == "" {
		name = hello.Conn.LocalAddr().(*net.TCPAddr).IP.String()
	} else if st := w.sites[name]; st != nil {
		fault = st.TLS
	} else if oh, ok := w.origin(name); ok {
		fault = oh.TLS
	} else {
		return nil, fmt.Errorf("no site %q", name)
	}
	if fault == CutTLS {
		hello.Conn.Close()
		return nil, net.ErrClosed
	}
	c, err := w.ca.certificate(name, fault)
	if err != nil {
		return nil, err
	}
	return &tls.Config{Certificates: []tls.Certificate{*c}, NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12}, nil
}
