package testweb

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"fmt"
)

// A mold is what the certificates of all hosts have in common, in DER:
// x509.CreateCertificate costs more than a whole handshake, most of it for
// putting the same parts together and checking its own signature.
type mold struct {
	front, middle []byte   // version; and algorithm, issuer, validity
	key           []byte   // the public key
	extensions    [][]byte // all but the names
	algorithm     []byte
}

// nameless is the part of a certificate before its signature (RFC 5280, 4.1).
type nameless struct {
	Version    asn1.RawValue `asn1:"tag:0"`
	Serial     asn1.RawValue
	Algorithm  asn1.RawValue
	Issuer     asn1.RawValue
	Validity   asn1.RawValue
	Subject    asn1.RawValue
	Key        asn1.RawValue
	Extensions []asn1.RawValue `asn1:"explicit,tag:3"`
}

var (
	oidNames  = []byte{0x06, 3, 0x55, 0x1d, 17} // subjectAltName
	oidCommon = []byte{0x06, 3, 0x55, 0x04, 3}  // commonName
)

// newMold takes the certificate of some host apart.
func newMold(cert []byte) (*mold, error) {
	c, err := x509.ParseCertificate(cert)
	if err != nil {
		return nil, err
	}
	var n nameless
	if _, err := asn1.Unmarshal(c.RawTBSCertificate, &n); err != nil {
		return nil, fmt.Errorf("take a certificate apart: %w", err)
	}
	m := &mold{front: n.Version.FullBytes, algorithm: n.Algorithm.FullBytes, key: n.Key.FullBytes}
	m.middle = append(append(append(m.middle, n.Algorithm.FullBytes...), n.Issuer.FullBytes...), n.Validity.FullBytes...)
	for _, e := range n.Extensions {
		if !bytes.HasPrefix(e.Bytes, oidNames) {
			m.extensions = append(m.extensions, e.FullBytes)
		}
	}
	return m, nil
}

// cast makes the certificate of a host, signed by key.
func (m *mold) cast(host string, signer, leaf *ecdsa.PrivateKey) (*tls.Certificate, error) {
	serial := make([]byte, 16)
	rand.Read(serial)
	serial[0] = serial[0]&0x3f | 0x40 // positive, and as long as it looks
	subject := der(0x30, der(0x31, der(0x30, oidCommon, der(0x0c, []byte(host)))))
	names := der(0x30, oidNames, der(0x04, der(0x30, der(0x82, []byte(host)))))
	tbs := der(0x30, m.front, der(0x02, serial), m.middle, subject, m.key, der(0xa3, der(0x30, append(m.extensions[:len(m.extensions):len(m.extensions)], names)...)))
	digest := sha256.Sum256(tbs)
	signature, err := ecdsa.SignASN1(rand.Reader, signer, digest[:])
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der(0x30, tbs, m.algorithm, der(0x03, []byte{0}, signature))}, PrivateKey: leaf}, nil
}

// der is one element of DER, of at most 64 KiB.
func der(tag byte, parts ...[]byte) []byte {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	b := make([]byte, 0, n+4)
	switch b = append(b, tag); {
	case n < 0x80:
		b = append(b, byte(n))
	case n < 0x100:
		b = append(b, 0x81, byte(n))
	default:
		b = append(b, 0x82, byte(n>>8), byte(n))
	}
	for _, p := range parts {
		b = append(b, p...)
	}
	return b
}
