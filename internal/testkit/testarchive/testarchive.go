// Package testarchive answers: what would a crawl have archived if servers had sent this?
//
//	URL, time, response -> package warc -> crawl directory with an index
//
// Only tests import this package.
package testarchive

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/warc"
)

// Began is the time of a capture whose key names none.
var Began = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)

// Write writes a crawl directory and returns it. A key is a URL, or a URL, " @" and a time of 14
// digits. A response is a whole HTTP message, or a media type, a line feed and the body of a
// response with status 200. Equal bodies become revisit records, in the order of time.
func Write(tb testing.TB, responses map[string]string) string {
	tb.Helper()
	dir := tb.TempDir()
	w, _, err := warc.Open(warc.Config{Dir: dir})
	if err != nil {
		tb.Fatal(err)
	}
	type capture struct {
		url, response string
		at            time.Time
	}
	var all []capture
	for _, key := range slices.Sorted(maps.Keys(responses)) {
		c := capture{response: responses[key], at: Began}
		var when string
		var ok bool
		if c.url, when, ok = strings.Cut(key, " @"); ok {
			if c.at, err = time.Parse("20060102150405", when); err != nil {
				tb.Fatal(err)
			}
		}
		all = append(all, c)
	}
	slices.SortStableFunc(all, func(a, b capture) int { return a.at.Compare(b.at) })
	for _, c := range all {
		if !strings.HasPrefix(c.response, "HTTP/") {
			mime, body, ok := strings.Cut(c.response, "\n")
			if !ok {
				tb.Fatalf("%s: a response needs a media type, a line feed and a body", c.url)
			}
			c.response = fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: %s\r\n\r\n%s", mime, body)
		}
		head := strings.Index(c.response, "\r\n\r\n") + len("\r\n\r\n")
		x := warc.Exchange{URL: c.url, Began: c.at, Request: []byte("GET / HTTP/1.1\r\n\r\n"),
			Response: text{strings.NewReader(c.response), c.response}, HTTP: true, HeadLen: head}
		if strings.Contains(c.response[:head], "\r\nX-Test-Truncated: ") {
			x.Truncated = "length"
		}
		if _, err := w.Write(&x); err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	if err := warc.BuildIndex(nil, dir); err != nil {
		tb.Fatal(err)
	}
	return dir
}

// text is a warc.Body in memory.
type text struct {
	*strings.Reader
	s string
}

func (t text) Bytes() ([]byte, bool) { return []byte(t.s), true }
