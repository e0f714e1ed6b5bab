package testweb

import (
	"container/list"
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

// A TLSFault names a fault of a host's certificate or TLS handshake.
type TLSFault string

// The faults. With CutTLS the server closes the connection instead of shaking hands.
const (
	SelfSigned TLSFault = "self-signed"
	Expired    TLSFault = "expired"
	WrongName  TLSFault = "wrong-name"
	CutTLS     TLSFault = "cut"
)

// maxCerts bounds the cached certificates, at about a kilobyte each. The least recently used ones are dropped.
const maxCerts = 32_768

// authority is a certificate authority. Its keys exist as long as the Web.
type authority struct {
	cert     *x509.Certificate
	key      *ecdsa.PrivateKey
	leaf     *ecdsa.PrivateKey // key of all hosts, because one server serves them
	pem      []byte
	born     time.Time
	template *certTemplate // nil until newAuthority has made it

	mu    sync.Mutex // guards the fields below
	certs map[string]*list.Element
	order list.List // of namedCert, the most recently used one in front
	limit int
}

type namedCert struct {
	key  string
	cert *tls.Certificate
}

func newAuthority(now time.Time) (*authority, error) {
	a := &authority{certs: map[string]*list.Element{}, limit: maxCerts, born: now}
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
	some, err := a.issue("host.example", "")
	if err != nil {
		return nil, err
	}
	if a.template, err = newCertTemplate(some.Certificate[0]); err != nil {
		return nil, err
	}
	return a, nil
}

// certificate returns the certificate for host, and issues it at the first request. Two concurrent requests may issue
// it twice; one of the two is kept.
func (a *authority) certificate(host string, fault TLSFault) (*tls.Certificate, error) {
	key := string(fault) + " " + host
	a.mu.Lock()
	e := a.certs[key]
	if e != nil {
		a.order.MoveToFront(e)
	}
	a.mu.Unlock()
	if e != nil {
		return e.Value.(namedCert).cert, nil
	}
	c, err := a.issue(host, fault)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if e := a.certs[key]; e != nil {
		return e.Value.(namedCert).cert, nil
	}
	for len(a.certs) >= a.limit {
		old := a.order.Back()
		a.order.Remove(old)
		delete(a.certs, old.Value.(namedCert).key)
	}
	a.certs[key] = a.order.PushFront(namedCert{key, c})
	return c, nil
}

// issue issues a new certificate.
func (a *authority) issue(host string, fault TLSFault) (*tls.Certificate, error) {
	const maxCommonName = 64 // bytes (RFC 5280, appendix A.1)
	if a.template != nil && fault == "" && len(host) <= maxCommonName && net.ParseIP(host) == nil {
		return a.template.issue(host, a.key, a.leaf)
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
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: a.leaf}, nil
}

// tlsConfig keeps TLS cheap for the server: elliptic curves without a post-quantum key exchange, records of full size,
// and session tickets.
func (w *Web) tlsConfig() *tls.Config {
	return &tls.Config{
		GetCertificate:              w.certificate,
		NextProtos:                  []string{"http/1.1"},
		MinVersion:                  tls.VersionTLS12,
		CurvePreferences:            []tls.CurveID{tls.X25519, tls.CurveP256},
		DynamicRecordSizingDisabled: true,
		VerifyConnection: func(s tls.ConnectionState) error { // crypto/tls calls it for every handshake, resumed or not
			if s.DidResume {
				w.tlsResumed.Add(1)
			} else {
				w.tlsFull.Add(1)
			}
			return nil
		},
	}
}

// certificate returns the certificate for the name that the client asks for. If the client names none, or an address,
// it gets the certificate of the address to which it connected.
func (w *Web) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	name := strings.ToLower(strings.TrimSuffix(hello.ServerName, "."))
	fault := TLSFault("")
	if name == "" || net.ParseIP(name) != nil {
		name = w.ips.name(hello.Conn.(*recordWriter).local)
	} else if st := w.sites[name]; st != nil {
		fault = st.TLS
	} else if oh, ok := w.origin(name); ok {
		fault = oh.TLS
	} else {
		return nil, fmt.Errorf("TLS handshake: this test web has no host %q", name)
	}
	if fault == CutTLS {
		hello.Conn.Close()
		return nil, net.ErrClosed
	}
	return w.ca.certificate(name, fault)
}
