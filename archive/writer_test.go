package archive

import (
	"bytes"
	"compress/gzip"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/andybalholm/brotli"
)

var (
	testTime = time.Date(2024, 5, 6, 7, 8, 9, 123e6, time.UTC)
	testAddr = netip.MustParseAddr("192.0.2.7")
	testInfo = []Field{{"software", "orbweaver/test"}, {"robots", "obey"}, {"operator", "test@example.org"}}
)

func testConfig(dir string) Config {
	return Config{Dir: dir, Prefix: "test", Agent: "a1", Info: testInfo, Now: func() time.Time { return testTime }}
}

// page is an exchange with a response of this header and body.
func page(url, head, body string) *Exchange {
	head = strings.ReplaceAll(head, "\n", "\r\n") + "\r\n\r\n"
	return &Exchange{
		URL: url, Addr: testAddr, Began: testTime,
		Request:  []byte("GET / HTTP/1.1\r\nHost: example.com\r\n\r\n"),
		Response: Bytes(head + body), HTTP: true, HeadLen: len(head),
		Metadata: []Field{{"via", "http://example.com/"}, {"hopsFromSeed", "L"}},
	}
}

func gzipped(s string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write([]byte(s))
	z.Close()
	return b.String()
}

func brotlied(s string) string {
	var b bytes.Buffer
	z := brotli.NewWriter(&b)
	z.Write([]byte(s))
	z.Close()
	return b.String()
}

// chunked cuts s into chunks of n bytes.
func chunked(s string, n int) string {
	const hex = "0123456789abcdef"
	var b strings.Builder
	for len(s) > 0 {
		k := min(n, len(s), 255)
		b.WriteString(string([]byte{hex[k>>4], hex[k&15]}) + "\r\n" + s[:k] + "\r\n")
		s = s[k:]
	}
	b.WriteString("0\r\n\r\n")
	return b.String()
}

var lorem = "<html><head><title>A page</title></head><body>" + strings.Repeat("<p>The quick brown fox jumps over the lazy dog.</p>\n", 40) + "</body></html>"

// everyKind are exchanges of every sort a crawl meets.
func everyKind() []*Exchange {
	plain := page("http://example.com/", "HTTP/1.1 200 OK\nContent-Type: text/html; charset=utf-8", lorem)
	late := *plain
	late.Began = testTime.Add(3 * time.Second)
	copyOf := page("http://example.com/copy", "HTTP/1.1 200 OK\nContent-Type: text/html; charset=utf-8\nX-Other: 1", lorem)
	cut := page("http://example.com/cut", "HTTP/1.1 200 OK\nContent-Type: text/html\nContent-Length: 100000", lorem)
	cut.Truncated = "length"
	garbage := &Exchange{URL: "http://example.com/garbage", Addr: testAddr, Began: testTime, Request: plain.Request, Response: Bytes("SSH-2.0-OpenSSH_9.9\r\n\x00\xff\n\nx")}
	nothing := &Exchange{URL: "http://example.com/nothing", Began: testTime, Request: plain.Request, Metadata: []Field{{"note", "nothing\r\ncame"}}}
	same := page("http://example.com/", "HTTP/1.1 304 Not Modified\nETag: \"x\"", "")
	same.NotModified = &Original{URL: plain.URL, Date: plain.Began}
	odd := page("http://example.com/odd", "HTTP/1.1 200 OK\nContent-Type: text/html\n \t\nX: y", "body")
	lf := &Exchange{URL: "http://example.com/lf", Began: testTime, Response: Bytes("HTTP/1.0 200 OK\nContent-Type: text/plain\n\nline\n"), HTTP: true, HeadLen: 43}
	lf.HeadLen = strings.Index(string(lf.Response.(Bytes)), "\n\n") + 2
	return []*Exchange{
		plain, &late, copyOf, cut, garbage, nothing, same, odd, lf,
		page("http://example.com/chunked", "HTTP/1.1 200 OK\nContent-Type: text/html\nTransfer-Encoding: chunked", chunked(lorem+"1", 100)),
		page("http://example.com/chunked-gzip", "HTTP/1.1 200 OK\nContent-Type: text/html\nContent-Encoding: gzip\nTransfer-Encoding: chunked", chunked(gzipped(lorem+"2"), 50)),
		page("http://example.com/chunked-trailer", "HTTP/1.1 200 OK\nContent-Type: text/html\nTransfer-Encoding: chunked", strings.TrimSuffix(chunked(lorem+"3", 77), "\r\n")+"X-Trailer: 1\r\n\r\n"),
		page("http://example.com/chunked-broken", "HTTP/1.1 200 OK\nContent-Type: text/html\nTransfer-Encoding: chunked", "zz\r\nnot chunked at all"),
		page("http://example.com/gzip?b=2&a=1", "HTTP/1.1 200 OK\nContent-Type: text/html\nContent-Encoding: gzip", gzipped(lorem+"4")),
		page("https://example.com/br", "HTTP/1.1 200 OK\nContent-Type: text/html\nContent-Encoding: br", brotlied(lorem+"5")),
		page("https://example.com:8443/a.png", "HTTP/1.1 200 OK\nContent-Type: image/png", "\x89PNG\r\n\x1a\n"+strings.Repeat("\x01\x02", 70000)),
		page("http://www.example.com/empty", "HTTP/1.1 204 No Content", ""),
		page("http://example.com/moved", "HTTP/1.1 301 Moved Permanently\nLocation: /new", ""),
		page("http://example.com/error", "HTTP/1.1 500 Oops\nContent-Type: text/html", "sorry"),
		page("http://example.com/notype", "HTTP/1.1 200 OK\nX-A: \xe9\"\\", "no type"),
		page("http://example.com/oddtype", "HTTP/1.1 200 OK\nContent-Type: t\xc3\xa9xt/\"x\\ ;y", "odd type"),
		page("http://example.com/nostatus", "HTTP/1.1", "no status"),
		page("http://[2001:db8::1]/", "HTTP/1.1 200 OK\nContent-Type: text/plain", "six"),
	}
}

// writeAll archives the exchanges and returns where they went.
func writeAll(t testing.TB, cfg Config, xs []*Exchange) []Written {
	t.Helper()
	w, _, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var ws []Written
	for _, x := range xs {
		done, err := w.Write(x)
		if err != nil {
			t.Fatal(err)
		}
		ws = append(ws, done)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return ws
}

func warcFiles(t testing.TB, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "archive", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestSmoke(t *testing.T) {
	dir := t.TempDir()
	writeAll(t, testConfig(dir), everyKind())
	if err := BuildIndex(nil, dir); err != nil {
		t.Fatal(err)
	}
	b, _ := os.ReadFile(indexPath(dir))
	t.Logf("%v\n%s", warcFiles(t, dir), b)
	os.RemoveAll("/tmp/arc/out")
	os.CopyFS("/tmp/arc/out", os.DirFS(dir))
}
