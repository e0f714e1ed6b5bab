package gateway

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"fmt"
	"math/big"
	"time"
)

// An Authority vouches to the browsers of one run for all servers. Its key is in memory only, so nobody else can use
// it.
type Authority struct {
	cert tls.Certificate
	pin  string
}

// NewAuthority makes an authority whose certificate is valid from now for ten years. The browser does not look at the
// names in the certificate, because it trusts its key (see Pin).
func NewAuthority(now time.Time) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("the key for the browser: %w", err)
	}
	form := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Orbweaver, this run only"},
		NotBefore: now.Add(-24 * time.Hour), NotAfter: now.AddDate(10, 0, 0), BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, form, form, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("the certificate for the browser: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("the certificate for the browser: %w", err)
	}
	sum := sha256.Sum256(leaf.RawSubjectPublicKeyInfo)
	return &Authority{tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf},
		base64.StdEncoding.EncodeToString(sum[:])}, nil
}

// Pin names the authority's key, as --ignore-certificate-errors-spki-list wants it: the SHA-256 of its
// SubjectPublicKeyInfo, in base64.
func (a *Authority) Pin() string { return a.pin }
