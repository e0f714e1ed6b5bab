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

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testweb"
)

// TestServed: a client of a testweb.Web gets the response that Answer returns.
func TestServed(t *testing.T) {
	s := smallWild(11)
	w := newWeb(t, s)
	web, err := testweb.New(testweb.Config{Origin: w})
	must.Do(t, err)
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
		must.Do(t, err)
		resp, err := tr.RoundTrip(req)
		must.Do(t, err)
		got, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		want, _ := fetched(t, w, h, p, false)
		if err != nil || resp.StatusCode != 200 || !resp.Uncompressed || !bytes.Equal(got, want) {
			t.Fatalf("%s: %v, %s, got %d bytes, want %d", req.URL, err, resp.Status, len(got), len(want))
		}
		n++
	}
	if n < 30 {
		t.Errorf("only %d pages were fetched, want at least 30", n)
	}
}

// TestChangesAreServed: over HTTP a web serves its validators and confirms them, in the loop of testweb and in
// net/http, and the report tells how fresh the copies are.
func TestChangesAreServed(t *testing.T) {
	// No page changes during the test, because the shortest mean time is a day.
	w := newWeb(t, Spec{Seed: 4, Hosts: 40, PagesMean: 3, MaxPages: 5, PageBytes: 1, Topics: 1, Languages: 1,
		Changes: &Changes{Start: time.Now(), Day: 1000 * time.Hour, Neither: -1, ETagOnly: 0.3, ModifiedOnly: 0.3,
			Rates: []Rate{{0.8, webDay, 30 * webDay}}}})
	web, err := testweb.New(testweb.Config{Origin: w, Changes: w})
	must.Do(t, err)
	stop := web.Start()
	defer func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	}()
	tr := &http.Transport{DialContext: web.DialContext}
	defer tr.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	get := func(url string, fields http.Header) *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
		must.Do(t, err)
		req.Header = fields
		resp, err := tr.RoundTrip(req)
		must.Do(t, err)
		must.Get(io.Copy(io.Discard, resp.Body))(t)
		resp.Body.Close()
		return resp
	}
	pages, confirmed := int64(0), int64(0)
	for host := range w.Hosts() {
		for page := range w.Pages(host) {
			url := w.URL(host, page)
			first := get(url, http.Header{})
			pages++
			if etag := first.Header.Get("Etag"); etag != "" {
				get(url, http.Header{"If-None-Match": {etag}})
				// net/http handles requests with two such fields.
				if r := get(url, http.Header{"If-None-Match": {`"other"`, etag}}); r.StatusCode != 304 {
					t.Fatalf("%s: two If-None-Match fields: got %s, want 304", url, r.Status)
				}
				confirmed += 2
			}
			if m := first.Header.Get("Last-Modified"); m != "" {
				if r := get(url, http.Header{"If-Modified-Since": {m}}); r.StatusCode != 304 {
					t.Fatalf("%s: If-Modified-Since %s: got %s, want 304", url, m, r.Status)
				}
				confirmed++
			}
		}
	}
	if err := stop(); err != nil { // after it every answer has been counted
		t.Fatal(err)
	}
	r := web.Report().Fresh
	if r == nil || r.Copies != pages || r.Served != pages || r.Confirmed != confirmed || r.Wrong != 0 ||
		r.Now.Fresh != 1 || r.Mean.Age != 0 {
		t.Errorf("got %+v, want %d fresh copies and %d confirmed", r, pages, confirmed)
	}
	if confirmed < pages {
		t.Errorf("got %d confirmed, want at least %d", confirmed, pages)
	}
}
