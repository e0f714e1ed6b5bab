package main

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
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

	"github.com/orbweaver/orbweaver/internal/testkit/must"
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
	f := must.Get(os.Open(name))(t)
	defer f.Close()
	z := must.Get(gzip.NewReader(f))(t)
	all := must.Get(io.ReadAll(z))(t)
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

// A login is a site that shows its page only to requests with a session. POST is not needed: the first page sets the
// session's second cookie.
func (s *sink) login(next string) {
	s.pages = map[string]http.HandlerFunc{
		"/": func(w http.ResponseWriter, r *http.Request) {
			http.SetCookie(w, &http.Cookie{Name: "second", Value: "fr3sh", Path: "/"})
			page(`<a href="/private">1</a> <a href="/away">2</a>`)(w, r)
		},
		"/private": func(w http.ResponseWriter, r *http.Request) {
			first, err := r.Cookie("session")
			second, err2 := r.Cookie("second")
			user, password, _ := r.BasicAuth()
			if err != nil || err2 != nil || first.Value != "c00kie" || second.Value != "fr3sh" ||
				user != "me" || password != "passw0rd" {
				http.Error(w, "forbidden", http.StatusForbidden)
				return
			}
			page("private")(w, r)
		},
		"/away": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, next+"/target", http.StatusFound) },
	}
}

// Cookies and credentials go to the hosts that they belong to, and not with a redirect to another host. No file of the
// crawl has them.
func TestLogin(t *testing.T) {
	here, there := &sink{}, &sink{}
	a, b := here.listen(t, "127.0.0.1"), there.listen(t, "127.0.0.2")
	here.login(b)
	tmp := t.TempDir()
	write := func(name, text string) string {
		name = filepath.Join(tmp, name)
		must.Do(t, os.WriteFile(name, []byte(text), 0o600))
		return name
	}
	cookies := write("cookies.txt", "127.0.0.1\tFALSE\t/\tFALSE\t0\tsession\tc00kie\n")
	auth := write("netrc", "machine "+a+" login me password passw0rd\n")
	secrets := []string{"c00kie", "passw0rd", base64.StdEncoding.EncodeToString([]byte("me:passw0rd"))}
	dir := filepath.Join(tmp, "crawl")
	out := orbweaver(t, 0, "crawl", "--allow-private", "--delay", "0s", "--scope", "any", "--dir", dir, "--json",
		"--api", "127.0.0.1:0", "--cookie-file", cookies, "--auth-file", auth, a+"/")
	for _, s := range secrets {
		if strings.Contains(out, s) {
			t.Errorf("the output contains %s:\n%s", s, out)
		}
	}
	log, err := os.ReadFile(filepath.Join(dir, "logs", "crawl.log"))
	if err != nil || !strings.Contains(string(log), " 200 ") || strings.Contains(string(log), " 403 ") {
		t.Errorf("crawl.log: %v\n%s", err, log)
	}
	for _, field := range []string{"Cookie", "Authorization"} {
		if got := there.values(b, field); len(got) != 1 || got[0] != "" {
			t.Errorf("%s got %s: %q", b, field, got)
		}
	}
	hides(t, dir, secrets...)
	found, _ := filepath.Glob(filepath.Join(dir, "archive", "*.warc.gz"))
	all := string(records(t, found[0]))
	if !strings.Contains(all, "\r\nAuthorization: [redacted]\r\nCookie: [redacted]\r\n") {
		t.Errorf("no request record with redacted fields:\n%s", all)
	}
	orbweaver(t, 0, "warc", "verify", dir)

	// A later run reads the files again. It knows only the cookies of the file.
	orbweaver(t, 0, "crawl", "--resume", "--quiet", "--dir", dir, a+"/more")
	if got := here.values(a, "Cookie"); !slices.Contains(got, "session=c00kie") {
		t.Errorf("cookies %q", got)
	}
	must.Do(t, os.Remove(auth))
	out = orbweaver(t, 4, "crawl", "--resume", "--quiet", "--dir", dir, a+"/even-more")
	if !strings.Contains(out, "--auth-file "+auth+": no such file or directory; a crawl that continues "+
		"reads the file again: restore it, or name another one") {
		t.Errorf("without the file: %s", out)
	}

	// Without --cookies the crawl sends none back.
	here.asked = nil
	orbweaver(t, 0, "crawl", "--quiet", "--allow-private", "--delay", "0s", "--dir", dir+"2", a+"/")
	if got := here.values(a, "Cookie"); !slices.Equal(got, []string{""}) {
		t.Errorf("cookies without --cookies: %q", got)
	}
	here.asked = nil
	orbweaver(t, 0, "crawl", "--quiet", "--allow-private", "--delay", "0s", "--dir", dir+"3", "--cookies", a+"/")
	if got := here.values(a, "Cookie"); !slices.Equal(got, []string{"", "second=fr3sh"}) {
		t.Errorf("cookies with --cookies: %q", got)
	}
	// crawl.yaml with secrets in the section hosts: does not have them; the file is needed again.
	config := write("settings.yaml", "hosts:\n  "+strings.TrimPrefix(a, "http://")+":\n    delay: 1s\n")
	out = orbweaver(t, 4, "crawl", "--config", config, a+"/")
	if !strings.Contains(out, "without scheme, port and path") {
		t.Errorf("a delay of a port: %s", out)
	}
	config = write("settings.yaml", "hosts:\n  "+a+":\n    auth: basic me:passw0rd\n    header: 'X-Key: c00kie'\n")
	flags := []string{"--quiet", "--dir", dir + "4", a + "/"}
	orbweaver(t, 0, append([]string{"crawl", "--allow-private", "--delay", "0s", "--config", config}, flags...)...)
	if got := here.values(a, "X-Key"); !slices.Contains(got, "c00kie") {
		t.Errorf("X-Key: %q", got)
	}
	hides(t, dir+"4", secrets...)
	out = orbweaver(t, 4, append([]string{"crawl", "--resume"}, flags...)...)
	if !strings.Contains(out, "auth: crawl.yaml does not have the value, because it is a secret; give the settings "+
		"file again with --config") {
		t.Errorf("resumed without the secret: %s", out)
	}
	orbweaver(t, 0, append([]string{"crawl", "--resume", "--config", config}, flags...)...)
}

// One odd line of a cookie file does not stop the crawl: the crawl says which one it skips. A page behind a redirect to
// itself that sets a cookie is fetched with cookies, and without them the message says how.
func TestCookieWall(t *testing.T) {
	web := &sink{pages: map[string]http.HandlerFunc{"/": func(w http.ResponseWriter, r *http.Request) {
		if c, err := r.Cookie("seen"); err == nil && c.Value == "1" {
			page("behind the wall")(w, r)
			return
		}
		w.Header().Set("Set-Cookie", "seen=1")
		http.Redirect(w, r, "/", http.StatusFound)
	}}}
	a := web.listen(t, "127.0.0.1")
	dir := filepath.Join(t.TempDir(), "crawl")
	flags := []string{"crawl", "--quiet", "--allow-private", "--delay", "0s", a + "/"}
	out := orbweaver(t, 16, append(flags, "--dir", dir)...)
	if !strings.Contains(out, "lead back to themselves") || !strings.Contains(out, "--cookies sends it back") {
		t.Errorf("without cookies: %s", out)
	}
	cookies := filepath.Join(t.TempDir(), "cookies.txt")
	text := "127.0.0.1\tFALSE\t/\tFALSE\t0\tname[0]\tMünchen\nodd s3cret line\n"
	must.Do(t, os.WriteFile(cookies, []byte(text), 0o600))
	web.asked = nil
	out = orbweaver(t, 0, append(flags, "--dir", dir+"2", "--cookie-file", cookies)...)
	if !strings.Contains(out, "cookies.txt, line 2: 1 of 7 fields") || !strings.Contains(out, "the line is skipped") ||
		strings.Contains(out, "s3cret") {
		t.Errorf("with an odd line: %s", out)
	}
	want := []string{"name[0]=München", "name[0]=München; seen=1"}
	if got := web.values(a, "Cookie"); !slices.Equal(got, want) {
		t.Errorf("cookies %q, want %q", got, want)
	}
}

// Credentials for a host without scheme go over https alone.
func TestCredentialsOverTLS(t *testing.T) {
	web := &sink{pages: map[string]http.HandlerFunc{"/": page("")}}
	a := web.listen(t, "127.0.0.1")
	auth := filepath.Join(t.TempDir(), "netrc")
	must.Do(t, os.WriteFile(auth, []byte("machine 127.0.0.1 bearer t0ken"), 0o600))
	secure := httptest.NewTLSServer(web)
	defer secure.Close()
	orbweaver(t, 0, "crawl", "--quiet", "--allow-private", "--delay", "0s", "--auth-file", auth, "--insecure",
		"--connect-to", "127.0.0.1:443:"+strings.TrimPrefix(secure.URL, "https://"), "--dir",
		filepath.Join(t.TempDir(), "crawl"), a+"/", "https://127.0.0.1/")
	if got := web.values(a, "Authorization"); !slices.Equal(got, []string{""}) {
		t.Errorf("over http: %q", got)
	}
	if got := web.values("http://127.0.0.1", "Authorization"); !slices.Equal(got, []string{"Bearer t0ken"}) {
		t.Errorf("over https: %q", got)
	}
}
