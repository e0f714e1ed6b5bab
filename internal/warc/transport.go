package warc

import (
	"crypto/tls"
	"slices"
)

// A Transport is how an exchange crossed the network. A zero field is unknown, and gets no line in the records.
type Transport struct {
	// HTTP is the version of HTTP as WARC-Protocol names it: "http/1.0" or "http/1.1". Other values are left out.
	HTTP string
	// TLS and Cipher are the version and the cipher suite, in the numbers of crypto/tls.
	TLS, Cipher uint16
}

// The values of WARC-Protocol that this package writes (IIPC, WARC extensions).
var (
	httpProtocols = []string{"http/1.0", "http/1.1"}
	tlsProtocols  = map[uint16]string{tls.VersionTLS10: "tls/1.0", tls.VersionTLS11: "tls/1.1",
		tls.VersionTLS12: "tls/1.2", tls.VersionTLS13: "tls/1.3"}
)

// cipherSuites has the names that IANA gives to the cipher suites that crypto/tls knows.
var cipherSuites = func() map[uint16]string {
	m := map[uint16]string{}
	for _, c := range slices.Concat(tls.CipherSuites(), tls.InsecureCipherSuites()) {
		m[c.ID] = c.Name
	}
	return m
}()

// transport adds the lines of WARC-Protocol, the highest layer first, and of WARC-Cipher-Suite.
func (g *group) transport(t Transport) {
	if slices.Contains(httpProtocols, t.HTTP) {
		g.field(fieldProtocol, t.HTTP)
	}
	if name := tlsProtocols[t.TLS]; name != "" {
		g.field(fieldProtocol, name)
	}
	if name := cipherSuites[t.Cipher]; name != "" {
		g.field(fieldCipher, name)
	}
}

const (
	fieldProtocol = "WARC-Protocol"
	fieldCipher   = "WARC-Cipher-Suite"
)

// Transport returns what the record says of how its exchange crossed the network. Values that this package does not
// write are unknown.
func (rec *Record) Transport() (t Transport) {
	for _, f := range rec.Header {
		switch {
		case !hasPrefixFold(f.Name, fieldProtocol) || len(f.Name) != len(fieldProtocol):
		case slices.Contains(httpProtocols, f.Value):
			t.HTTP = f.Value
		default:
			for version, name := range tlsProtocols {
				if name == f.Value {
					t.TLS = version
				}
			}
		}
	}
	if suite := rec.Header.Value(fieldCipher); suite != "" {
		for id, name := range cipherSuites {
			if name == suite {
				t.Cipher = id
			}
		}
	}
	return t
}
