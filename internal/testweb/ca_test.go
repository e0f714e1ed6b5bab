package testweb

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

func TestCertificateCache(t *testing.T) {
	a, err := newAuthority(time.Now())
	must.Do(t, err)
	a.limit = 3
	of := func(host string) *tls.Certificate {
		t.Helper()
		c, err := a.certificate(host, "")
		must.Do(t, err)
		return c
	}
	first, second := of("a.example"), of("b.example")
	of("c.example")
	if of("a.example") != first {
		t.Error("the certificate of a.example was issued again")
	}
	of("d.example") // this drops b.example
	if len(a.certs) != 3 || a.order.Len() != 3 {
		t.Errorf("got %d and %d certificates, want 3", len(a.certs), a.order.Len())
	}
	if of("a.example") != first || of("b.example") == second {
		t.Error("the cache did not drop the least recently used certificate")
	}
}

// TestTLSResumption: a client that comes again resumes its session, whichever host's certificate it saw.
func TestTLSResumption(t *testing.T) {
	w := serving(t, Config{
		Origin: &fakeOrigin{hosts: 10, pages: 10, size: 100}, Sites: []Site{{Host: "cut.example", TLS: CutTLS}},
	})
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(w.CAPEM())
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		w.Reset(Promise{})
		tr := &http.Transport{
			DialContext: w.DialContext, DisableKeepAlives: true,
			TLSClientConfig: &tls.Config{
				RootCAs: pool, ClientSessionCache: tls.NewLRUClientSessionCache(100), MaxVersion: version,
			},
		}
		c := &http.Client{Transport: tr}
		for i := range 3 {
			for h := range 2 {
				res, err := c.Get(fmt.Sprintf("https://h%d.made.example/%d", h, i))
				must.Do(t, err)
				io.Copy(io.Discard, res.Body)
				res.Body.Close()
			}
		}
		if _, err := c.Get("https://cut.example/"); err == nil {
			t.Error("cut.example: got an answer")
		}
		if got, want := w.Report().TLS, (TLSReport{Full: 2, Resumed: 4}); got != want {
			t.Errorf("version %x: got %+v, want %+v", version, got, want)
		}
	}
}

// TestCertTemplate: a certificate from the template equals the one that crypto/x509 makes.
func TestCertTemplate(t *testing.T) {
	a, err := newAuthority(time.Now())
	must.Do(t, err)
	hosts := []string{"a.example", "x", strings.Repeat("long.", 12) + "test", strings.Repeat("more", 15) + ".example"}
	for _, host := range hosts {
		parse := func() *x509.Certificate {
			c, err := a.issue(host, "")
			must.Do(t, err)
			p, err := x509.ParseCertificate(c.Certificate[0])
			if err != nil {
				t.Fatalf("%s: %v", host, err)
			}
			if err := p.CheckSignatureFrom(a.cert); err != nil {
				t.Errorf("%s: %v", host, err)
			}
			if err := p.VerifyHostname(host); err != nil {
				t.Error(err)
			}
			return p
		}
		got := parse()
		m := a.template
		a.template = nil
		want := parse()
		a.template = m
		if got.SerialNumber.Cmp(want.SerialNumber) == 0 || got.SerialNumber.Sign() <= 0 {
			t.Errorf("%s: serial %v", host, got.SerialNumber)
		}
		for _, c := range []*x509.Certificate{got, want} {
			c.Raw, c.RawTBSCertificate, c.Signature, c.SerialNumber = nil, nil, nil, nil
			c.RawSubject, c.Subject.Names = nil, nil // crypto/x509 encodes the text with another type
			slices.SortFunc(c.Extensions, func(a, b pkix.Extension) int {
				return strings.Compare(a.Id.String(), b.Id.String())
			})
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", host, got, want)
		}
	}
}

func BenchmarkIssue(b *testing.B) {
	a, err := newAuthority(time.Now())
	must.Do(b, err)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := a.issue("a.example", ""); err != nil {
			b.Fatal(err)
		}
	}
}
