package gen

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/testweb"
)

// TestServed: what a client gets from a testweb.Web is what Answer said.
func TestServed(t *testing.T) {
	s := smallWild(11)
	w := newWeb(t, s)
	web, err := testweb.New(testweb.Config{Origin: w})
	if err != nil {
		t.Fatal(err)
	}
	stop := web.Start()
	defer func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	}()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(web.CAPEM())
	tr := &http.Transport{DialContext: web.DialContext, TLSClientConfig: &tls.Config{RootCAs: pool}}
	defer tr.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	n := 0
	for h := range int64(60) {
		p := w.Pages(h) - 1
		if w.fate(w.source(h), p) != fine || w.death(h) != alive {
			continue
		}
		req, err := http.NewRequestWithContext(ctx, "GET", w.URL(h, p), nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		want, _ := fetched(t, w, h, p, false)
		if err != nil || resp.StatusCode != 200 || !resp.Uncompressed || !bytes.Equal(got, want) {
			t.Fatalf("%s: %v, %s, %d bytes instead of %d", req.URL, err, resp.Status, len(got), len(want))
		}
		n++
	}
	if n < 30 {
		t.Errorf("%d pages were fetched", n)
	}
}
