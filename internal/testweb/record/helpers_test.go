package record

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testneed"
	"github.com/orbweaver/orbweaver/internal/testweb"
)

const samples = "../../../../shared/data/warc"

// needSamples skips the test if there is no sample collection. With CI=true it fails the test instead.
func needSamples(t testing.TB) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(samples, "index.jsonl")); err != nil {
		testneed.Missing(t, err)
	}
}

// rec returns a record. lines are additional header lines, each with its end.
func rec(kind, url, date, lines, content string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "WARC/1.1\r\nWARC-Type: %s\r\nWARC-Target-URI: %s\r\nWARC-Date: %s\r\n%s", kind, url, date, lines)
	if !strings.Contains(lines, "Content-Type:") {
		fmt.Fprintf(&b, "Content-Type: application/http;msgtype=%s\r\n", kind)
	}
	fmt.Fprintf(&b, "Content-Length: %d\r\n\r\n%s\r\n\r\n", len(content), content)
	return b.String()
}

const date = "2024-05-06T07:08:09Z"

// response returns a response record.
func response(url, content string) string { return rec("response", url, date, "", content) }

// ok returns a 200 response with a body.
func ok(body string) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

// zipped compresses each record into a gzip member of its own.
func zipped(records ...string) string {
	var b bytes.Buffer
	for _, r := range records {
		z := gzip.NewWriter(&b)
		z.Write([]byte(r))
		z.Close()
	}
	return b.String()
}

// write writes each content to a file and returns the names.
func write(t testing.TB, contents ...string) (names []string) {
	t.Helper()
	dir := t.TempDir()
	for i, c := range contents {
		name := filepath.Join(dir, fmt.Sprintf("%d.warc", i))
		must.Do(t, os.WriteFile(name, []byte(c), 0o644))
		names = append(names, name)
	}
	return names
}

func open(t testing.TB, cfg Config, contents ...string) *Archive {
	t.Helper()
	a := must.Get(Open(write(t, contents...), cfg))(t)
	t.Cleanup(func() { a.Close() })
	return a
}

// ask requests a URL from the archive.
func ask(t testing.TB, a *Archive, url string) (string, testweb.Reply) {
	t.Helper()
	l := locate(url)
	n, ok := a.Find(l.host)
	if !ok {
		t.Fatalf("no host %q for %s", l.host, url)
	}
	b, r := a.Answer([]byte("in front"), testweb.Query{Host: n, Secure: l.secure, Port: l.port, Target: l.target})
	if !bytes.HasPrefix(b, []byte("in front")) {
		t.Fatalf("%s: Answer overwrote the beginning of dst: %.20q", url, b)
	}
	return string(b[len("in front"):]), r
}
