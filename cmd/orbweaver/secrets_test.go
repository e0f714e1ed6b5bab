package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A sink is a web on several loopback addresses, which records the requests.
type sink struct {
	mu    sync.Mutex // guards asked
	asked []*http.Request
	pages map[string]http.HandlerFunc // by path
}

// listen serves the sink at a loopback address and returns its origin.
func (s *sink) listen(t *testing.T, ip string) string {
	t.Helper()
	l, err := net.Listen("tcp", ip+":0")
	if err != nil {
		t.Skipf("this machine has no loopback address %s: %v", ip, err)
	}
	srv := httptest.NewUnstartedServer(s)
	srv.Listener.Close()
	srv.Listener = l
	srv.Start()
	t.Cleanup(srv.Close)
	return srv.URL
}

func (s *sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked = append(s.asked, r)
	s.mu.Unlock()
	if page := s.pages[r.URL.Path]; page != nil {
		page(w, r)
		return
	}
	http.NotFound(w, r)
}

// values returns the values of a field in the requests to an origin, sorted, each once. "" stands for none.
func (s *sink) values(origin, field string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var vs []string
	for _, r := range s.asked {
		if "http://"+r.Host == origin {
			vs = append(vs, r.Header.Get(field))
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(vs)))
}

// page answers with HTML.
func page(html string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, html)
	}
}

// orbweaver runs the program and compares its exit code.
func orbweaver(t *testing.T, code int, args ...string) (output string) {
	t.Helper()
	var out bytes.Buffer
	if got := run(args, &out, &out); got != code {
		t.Fatalf("%q: exit code %d, want %d\n%s", args, got, code, out.String())
	}
	return out.String()
}

// hides fails if a file of a crawl directory contains a secret. It also looks into compressed records.
func hides(t *testing.T, dir string, secrets ...string) {
	t.Helper()
	look := func(name string, b []byte) {
		for _, s := range secrets {
			if bytes.Contains(b, []byte(s)) {
				t.Errorf("%s contains the secret %s", name, s)
			}
		}
	}
	files := 0
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		b, err := os.ReadFile(name)
		look(name, b)
		if strings.HasSuffix(name, ".warc.gz") {
			look(name, records(t, name))
		}
		return err
	})
	if err != nil || files == 0 {
		t.Fatalf("%s: %d files, %v", dir, files, err)
	}
}

// records returns the decompressed content of a WARC file.
func records(t *testing.T, name string) []byte {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// --header goes to every host. The value of a secret one is in no file, and --resume asks for it again.
func TestHeader(t *testing.T) {
	web := &sink{}
	a, b := web.listen(t, "127.0.0.1"), web.listen(t, "127.0.0.2")
	web.pages = map[string]http.HandlerFunc{"/": page(`<a href="/1">1</a> <a href="` + b + `/2">2</a>`)}
	dir := filepath.Join(t.TempDir(), "crawl")
	flags := []string{"crawl", "--quiet", "--allow-private", "--delay", "0s", "--scope", "any", "--dir", dir}
	secret := []string{"--header", "Accept-Language: de", "--header", "X-API-Key: s3cret"}
	orbweaver(t, 0, append(append(flags, secret...), a+"/")...)
	for _, origin := range []string{a, b} {
		if got := web.values(origin, "X-API-Key"); !slices.Equal(got, []string{"s3cret"}) {
			t.Errorf("%s got the keys %q", origin, got)
		}
		if got := web.values(origin, "Accept-Language"); !slices.Equal(got, []string{"de"}) {
			t.Errorf("%s got the languages %q", origin, got)
		}
	}
	hides(t, dir, "s3cret")
	found, _ := filepath.Glob(filepath.Join(dir, "archive", "*.warc.gz"))
	if len(found) != 1 {
		t.Fatalf("archives: %q", found)
	}
	all := string(records(t, found[0]))
	for _, field := range []string{"X-API-Key: [redacted]", "Accept-Language: de"} {
		if n := strings.Count(all, "\r\n"+field+"\r\n"); n != 5 {
			t.Errorf("%d request records with %s, want 5:\n%s", n, field, all)
		}
	}
	orbweaver(t, 0, "warc", "verify", dir)

	resume := []string{"crawl", "--quiet", "--resume", "--dir", dir}
	if out := orbweaver(t, 4, resume...); !strings.Contains(out, "--header: crawl.yaml has no value of X-API-Key") {
		t.Errorf("resumed without the key: %s", out)
	}
	orbweaver(t, 0, append(append(resume, secret...), a+"/3")...)
	if got := web.values(a, "X-API-Key"); !slices.Equal(got, []string{"s3cret"}) {
		t.Errorf("after the resume: %q", got)
	}
	hides(t, dir, "s3cret")
}
