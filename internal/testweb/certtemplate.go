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
	"slices"
)

// A certTemplate is the common part of the certificates of all hosts, in DER. x509.CreateCertificate costs more than a
// whole handshake, mostly for encoding the same parts again and for checking its own signature.
type certTemplate struct {
	front, middle []byte   // version; algorithm, issuer and validity
	key           []byte   // public key
	extensions    [][]byte // all but the host's name
	algorithm     []byte   // of the signature
}

// signedPart is the part of a certificate that is signed (RFC 5280, 4.1).
type signedPart struct {
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

// newCertTemplate makes a certTemplate from the certificate of any host.
func newCertTemplate(cert []byte) (*certTemplate, error) {
	c, err := x509.ParseCertificate(cert)
	if err != nil {
		return nil, err
	}
	var n signedPart
	if _, err := asn1.Unmarshal(c.RawTBSCertificate, &n); err != nil {
		return nil, fmt.Errorf("parse the first certificate: %w", err)
	}
	m := &certTemplate{front: n.Version.FullBytes, algorithm: n.Algorithm.FullBytes, key: n.Key.FullBytes}
	m.middle = slices.Concat(n.Algorithm.FullBytes, n.Issuer.FullBytes, n.Validity.FullBytes)
	for _, e := range n.Extensions {
		if !bytes.HasPrefix(e.Bytes, oidNames) {
			m.extensions = append(m.extensions, e.FullBytes)
		}
	}
	return m, nil
}

// issue issues the certificate of a host, with the public key of leaf, signed by signer.
func (m *certTemplate) issue(host string, signer, leaf *ecdsa.PrivateKey) (*tls.Certificate, error) {
	serial := make([]byte, 16)
	rand.Read(serial)
	serial[0] = serial[0]&0x3f | 0x40 // positive, and without leading zeros
	subject := der(0x30, der(0x31, der(0x30, oidCommon, der(0x0c, []byte(host)))))
	names := der(0x30, oidNames, der(0x04, der(0x30, der(0x82, []byte(host)))))
	extensions := der(0xa3, der(0x30, append(slices.Clip(m.extensions), names)...))
	tbs := der(0x30, m.front, der(0x02, serial), m.middle, subject, m.key, extensions)
	digest := sha256.Sum256(tbs)
	signature, err := ecdsa.SignASN1(rand.Reader, signer, digest[:])
	if err != nil {
		return nil, err
	}
	cert := der(0x30, tbs, m.algorithm, der(0x03, []byte{0}, signature))
	return &tls.Certificate{Certificate: [][]byte{cert}, PrivateKey: leaf}, nil
}

// der encodes one element in DER. Its content must have less than 64 KiB.
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
