package warc

import (
	"bytes"
	"crypto/sha1"
	"crypto/tls"
	"encoding/base32"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

// linesOf archives exchanges, and returns the index lines of the Writer by URL. It fails the test unless a scan of the
// WARC file gives the same lines.
func linesOf(t testing.TB, xs ...*Exchange) map[string]Line {
	t.Helper()
	mem := testdisk.NewMem()
	cfg := testConfig("/c")
	cfg.FS = mem
	writeAll(t, cfg, xs)
	build := func() string {
		must.Do(t, BuildIndex(mem, "/c"))
		var all []byte
		for l, err := range Lines(mem, Place{Dir: "/c"}, "") {
			must.Do(t, err)
			all = l.AppendTo(all)
		}
		return string(all)
	}
	ours := build()
	must.Do(t, mem.RemoveAll("/c/state/index"))
	if again := build(); again != ours {
		t.Errorf("the indexer writes\n%s\nthe Writer\n%s", again, ours)
	}
	lines := map[string]Line{}
	for line := range strings.Lines(ours) {
		l, err := ParseLine([]byte(line))
		must.Do(t, err)
		lines[l.URL] = l
	}
	return lines
}

func TestKeysOfCommonCrawl(t *testing.T) {
	told := page("http://a.example/", "HTTP/1.1 200 OK\nContent-Type: text/html; charset=latin1", lorem)
	told.Metadata = append(told.Metadata, Field{FieldCharset, "UTF-8"}, Field{FieldLanguages, "deu,eng"})
	copied := page("http://a.example/copy", "HTTP/1.1 200 OK\nContent-Type: text/html; charset=latin1", lorem)
	cut := page("http://a.example/cut", "HTTP/1.1 200 OK\nContent-Type: text/plain", "cut")
	cut.Truncated = "length"
	none := page("http://a.example/none", "HTTP/1.1 200 OK\nContent-Type: text/plain; charset=klingon", "none")
	none.Metadata, none.PayloadType = nil, ""
	bad := page("http://a.example/bad", "HTTP/1.1 200 OK\nLocation: /not-followed", "bad")
	bad.Metadata = []Field{{FieldCharset, "x\r\ny: z"}, {FieldLanguages, "en"}}
	bad.PayloadType = "text/html\r\nX: y"
	lines := linesOf(t, told, copied, cut, none, bad,
		page("https://a.example/dir/moved", "HTTP/1.1 301 Moved\nLocation: ../\u00fc?q=\"\u0001x", ""))
	for url, want := range map[string]Line{
		told.URL:                      {Charset: "UTF-8", Languages: "deu,eng", Detected: "text/html"},
		copied.URL:                    {Charset: "windows-1252"},
		cut.URL:                       {Truncated: "length", Detected: "text/plain"},
		none.URL:                      {},
		bad.URL:                       {},
		"https://a.example/dir/moved": {Redirect: "https://a.example/%C3%BC?q=%22%01x"},
	} {
		l := lines[url]
		got := Line{Charset: l.Charset, Languages: l.Languages, Truncated: l.Truncated, Redirect: l.Redirect,
			Detected: l.Detected}
		if got != want {
			t.Errorf("%s: got %+v, want %+v", url, got, want)
		}
	}
}

// A line tells how the crawl came to the URL, and of what the page is a copy: no reader needs the record for it.
func TestOwnKeys(t *testing.T) {
	seed := page("http://a.example/", "HTTP/1.1 200 OK\nContent-Type: text/html", lorem)
	seed.Metadata = []Field{{"seed", ""}, {FieldCategory, "sports and  games, \u00fc"}}
	again := page("http://a.example/again", "HTTP/1.1 203 OK\nContent-Type: text/html", lorem)
	again.Metadata = []Field{{FieldVia, seed.URL}, {FieldHops, "LE"}}
	same := page("http://a.example/same", "HTTP/1.1 200 OK", "of another archive")
	same.Same = &Original{URL: "http://b.example/\u00fc", Date: testTime}
	unchanged := page("http://a.example/unchanged", "HTTP/1.1 304 Not Modified", "")
	unchanged.NotModified = &Original{URL: "http://a.example/unchanged", Date: testTime}
	nameless := page("http://a.example/nameless", "HTTP/1.1 304 Not Modified", "")
	nameless.NotModified = &Original{Date: testTime}
	near := page("http://a.example/near", "HTTP/1.1 200 OK", "nearly the same")
	near.Metadata = append(near.Metadata, Field{FieldNear, seed.URL})
	via := near.Metadata[0].Value
	long := page("http://a.example/long", "HTTP/1.1 200 OK", "long")
	long.Metadata = []Field{{FieldVia, "http://a.example/" + strings.Repeat("x", maxRedirect)},
		{FieldHops, strings.Repeat("L", maxRedirect)}, {"outlink", strings.Repeat("x", maxTold)}, {FieldCategory, "x"}}
	const coding = "HTTP/1.1 200 OK\nTransfer-Encoding: chunked"
	coded := page("http://a.example/coded", coding, chunked("in chunks", 4))
	cut := page("http://a.example/cut", coding, "5\r\nx")
	copied := page("http://a.example/copied", coding, chunked("in chunks", 3))
	bare := page("http://a.example/bare", coding, chunked("without a metadata record", 4))
	bare.Metadata = nil
	sum := sha1.Sum([]byte("in chunks"))
	lines := linesOf(t, seed, again, same, unchanged, nameless, near, long, coded, cut, copied, bare)
	for url, want := range map[string]Line{
		seed.URL:      {Status: "200", Category: "sports and  games, \u00fc"},
		again.URL:     {Hops: "LE", Via: seed.URL, Fetched: "203", Duplicate: seed.URL},
		same.URL:      {Hops: "L", Via: via, Fetched: "200", Duplicate: "http://b.example/%C3%BC"},
		unchanged.URL: {Hops: "L", Via: via, Fetched: "304", Duplicate: unchanged.URL},
		nameless.URL:  {Hops: "L", Via: via, Fetched: "304"},
		near.URL:      {Status: "200", Hops: "L", Via: via, Near: seed.URL},
		long.URL:      {Status: "200", Hops: strings.Repeat("L", maxRedirect)},
		coded.URL:     {Status: "200", Hops: "L", Via: via, Body: base32.StdEncoding.EncodeToString(sum[:])},
		cut.URL:       {Status: "200", Hops: "L", Via: via},
		copied.URL:    {Hops: "L", Via: via, Fetched: "200", Duplicate: coded.URL},
		bare.URL:      {Status: "200"},
	} {
		l := lines[url]
		got := Line{Status: l.Status, Hops: l.Hops, Via: l.Via, Fetched: l.Fetched, Duplicate: l.Duplicate,
			Near: l.Near, Category: l.Category, Body: l.Body}
		if got != want {
			t.Errorf("%s: got %+v, want %+v", url, got, want)
		}
	}
}

// Whatever a server sends, a record keeps its lines, and an index line is the same from the Writer and from a scan.
func TestHostileTold(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		hostile := rapid.OneOf(rapid.String(), rapid.StringMatching("[a-z/;=,\"\\\\ \t\r\n\x01\u00fc-]{0,40}"),
			rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
			rapid.SampledFrom([]string{strings.Repeat("x", 10<<10), "utf-8", "http://[", "//b.example/\x7f",
				"text/html"}))
		line := func(name string) string {
			return strings.NewReplacer("\r", "", "\n", "").Replace(hostile.Draw(rt, name))
		}
		x := page("http://a.example/", fmt.Sprintf("HTTP/1.1 %d X\nContent-Type: %s\nLocation: %s",
			rapid.SampledFrom([]int{200, 301, 302, 404}).Draw(rt, "status"), line("type"), line("location")), "body")
		x.PayloadType, x.Truncated = hostile.Draw(rt, "payload"), hostile.Draw(rt, "truncated")
		x.Over = Transport{hostile.Draw(rt, "http"), rapid.Uint16().Draw(rt, "tls"), rapid.Uint16().Draw(rt, "cipher")}
		x.Metadata = []Field{{FieldCharset, hostile.Draw(rt, "charset")},
			{FieldLanguages, hostile.Draw(rt, "languages")}, {hostile.Draw(rt, "name"), hostile.Draw(rt, "value")},
			{FieldVia, hostile.Draw(rt, "via")}, {FieldHops, hostile.Draw(rt, "hops")},
			{FieldCategory, hostile.Draw(rt, "category")}, {FieldNear, hostile.Draw(rt, "near")},
			{"outlink", strings.Repeat("x", rapid.IntRange(0, maxTold).Draw(rt, "outlink"))},
			{FieldVia, hostile.Draw(rt, "second via")}}
		original := &Original{URL: hostile.Draw(rt, "original"), Date: testTime}
		switch rapid.IntRange(0, 2).Draw(rt, "kind") {
		case 0:
			x.NotModified = original
		case 1:
			x.Same = original
		}
		if lines := linesOf(t, x); len(lines) != 1 {
			rt.Errorf("%d lines, want 1: %v", len(lines), lines)
		}
	})
}

// Records tell how their exchange crossed the network, and a reader understands it.
func TestTransport(t *testing.T) {
	for _, c := range []struct {
		over Transport
		want string // its lines
	}{
		{Transport{}, ""},
		{Transport{HTTP: "http/1.0"}, "WARC-Protocol: http/1.0\r\n"},
		{Transport{HTTP: "h2\r\nX: y", TLS: 7, Cipher: 7}, ""},
		{Transport{"http/1.1", tls.VersionTLS13, tls.TLS_AES_256_GCM_SHA384},
			"WARC-Protocol: http/1.1\r\nWARC-Protocol: tls/1.3\r\nWARC-Cipher-Suite: TLS_AES_256_GCM_SHA384\r\n"},
		{Transport{"http/1.1", tls.VersionTLS12, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256},
			"WARC-Protocol: http/1.1\r\nWARC-Protocol: tls/1.2\r\n" +
				"WARC-Cipher-Suite: TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256\r\n"},
		{Transport{"", tls.VersionTLS10, tls.TLS_RSA_WITH_RC4_128_SHA},
			"WARC-Protocol: tls/1.0\r\nWARC-Cipher-Suite: TLS_RSA_WITH_RC4_128_SHA\r\n"},
	} {
		dir := t.TempDir()
		cfg := testConfig(dir)
		cfg.Level = -1
		x := page("https://a.example/", "HTTP/1.1 200 OK\nContent-Type: text/html", lorem)
		x.Over = c.over
		writeAll(t, cfg, []*Exchange{x})
		b := must.Get(os.ReadFile(warcFiles(t, dir)[0]))(t)
		if n := strings.Count(string(b), "WARC-IP-Address: 192.0.2.7\r\n"+c.want+"WARC-"); n != 2 {
			t.Errorf("%+v: %d records have the lines %q, want 2", c.over, n, c.want)
		}
		r := NewReader(bytes.NewReader(b))
		must.Get(r.Next())(t)
		rec := must.Get(r.Next())(t)
		want := c.over
		if c.want == "" {
			want = Transport{}
		}
		if got := rec.Transport(); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
}

// Every record names the warcinfo record of its file, also if many write while files fill up.
func TestWarcinfoID(t *testing.T) {
	for _, workers := range []int{1, 8} {
		dir := t.TempDir()
		cfg := testConfig(dir)
		cfg.MaxBytes, cfg.largeBytes = 9000, 6000
		w, _, err := Open(cfg)
		must.Do(t, err)
		var wg sync.WaitGroup
		for k := range workers {
			wg.Go(func() {
				for i := range 40 {
					x := page(fmt.Sprintf("http://h%d.example/%d", k, i), "HTTP/1.1 200 OK\nContent-Type: image/gif",
						strings.Repeat(fmt.Sprintf("%d %d ", k, i), 1+i*40))
					if i%4 == 0 {
						x.Response = lazy{x.Response.(Bytes)}
					}
					if _, err := w.Write(x); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		must.Do(t, w.Close())
		files, ids := warcFiles(t, dir), map[string]bool{}
		for _, file := range files {
			verifyClean(t, file)
			r := NewReader(bytes.NewReader(must.Get(os.ReadFile(file))(t)))
			id := must.Get(r.Next())(t).Header.Value("WARC-Record-ID")
			ids[id] = true
			for rec, err := r.Next(); rec != nil; rec, err = r.Next() {
				must.Do(t, err)
				if got := rec.Header.Value("WARC-Warcinfo-ID"); got != id {
					t.Fatalf("a %s record names %q, its file is %q", rec.Type(), got, id)
				}
			}
		}
		if len(files) < 10 || len(ids) != len(files) {
			t.Errorf("%d files with %d IDs, want more, with an ID each", len(files), len(ids))
		}
	}
}
