package testweb

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
	"go.uber.org/goleak"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serving runs a Web for the duration of a test.
func serving(t testing.TB, cfg Config) *Web {
	t.Helper()
	w, err := New(cfg)
	must.Do(t, err)
	stop := w.Start()
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// client returns an http.Client that trusts and finds only w, and does not follow redirects.
func client(t testing.TB, w *Web) *http.Client {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(w.CAPEM()) {
		t.Fatal("no certificate in CAPEM")
	}
	tr := &http.Transport{
		DialContext: w.DialContext, TLSClientConfig: &tls.Config{RootCAs: pool}, DisableCompression: true,
	}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
}

func get(t testing.TB, c *http.Client, url string, header ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequest("GET", url, nil)
	must.Do(t, err)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := c.Do(req)
	if err != nil {
		t.Fatalf("get %s: %v", url, err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("get %s: %v", url, err)
	}
	return res, string(b)
}

func write(t testing.TB, dir, name, text string) {
	t.Helper()
	f := filepath.Join(dir, name)
	must.Do(t, os.MkdirAll(filepath.Dir(f), 0o755))
	must.Do(t, os.WriteFile(f, []byte(text), 0o644))
}

func TestFolder(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	write(t, dir, "index.html", "<title>home</title>"+strings.Repeat("text ", 100))
	write(t, dir, "robots.txt", "User-agent: *\nDisallow: /secret\n")
	write(t, dir, "sub/index.html", "<meta charset=utf-8>")
	write(t, dir, "empty/a.png", "\x89PNG")
	write(t, dir, "page.html.en", "english")
	write(t, dir, "page.html.fr", "français")
	write(t, dir, "ja.html.ja.utf8", "日本")
	write(t, dir, "latin.txt", "caf\xe9")
	write(t, dir, ".hidden", "no")
	write(t, outside, "shared.js", "1")
	write(t, filepath.Dir(dir), "above.txt", "no")
	must.Do(t, os.Symlink(filepath.Join(outside, "shared.js"), filepath.Join(dir, "s.js")))
	var packed bytes.Buffer
	z := gzipWriter(&packed)
	io.WriteString(z, "unpacked")
	z.Close()
	write(t, dir, "notes.html.gz", packed.String())

	w := serving(t, Config{Gzip: true, Folders: []Folder{
		{Host: "a.example", Dir: dir}, {Host: "b.example", Prefix: "/docs/2.4", Dir: dir, Listing: true},
		{Host: "c.example", Dir: dir, Scheme: "https"}, {Host: "d.example", Index: "<title>made up</title>"},
		{Host: "d.example", Prefix: "sub", Dir: dir}}})
	c := client(t, w)
	for _, tt := range []struct {
		url    string
		status int
		ctype  string
		body   string // a part of the body, or the Location
	}{
		{"http://a.example/", 200, "text/html; charset=utf-8", "home"},
		{"https://a.example/", 200, "text/html; charset=utf-8", "home"},
		{"http://a.example/index.html?x=1", 200, "text/html; charset=utf-8", "home"},
		{"http://a.example/sub", 301, "", "/sub/"},
		{"http://a.example/sub/", 200, "text/html", "utf-8"},
		{"http://a.example/empty/", 404, "text/html; charset=utf-8", "Not found"},
		{"http://a.example/empty/a.png", 200, "image/png", "PNG"},
		{"http://a.example/page.html", 200, "text/html; charset=utf-8", "english"},
		{"http://a.example/page.html.fr", 200, "text/html; charset=utf-8", "français"},
		{"http://a.example/ja.html", 200, "text/html; charset=utf-8", "日本"},
		{"http://a.example/latin.txt", 200, "text/plain; charset=iso-8859-1", "caf"},
		{"http://a.example/notes.html", 200, "text/html; charset=utf-8", "unpacked"},
		{"http://a.example/s.js", 200, "text/javascript; charset=utf-8", "1"},
		{"http://a.example/.hidden", 404, "", ""},
		{"http://a.example/../above.txt", 404, "", ""},
		{"http://a.example/%2e%2e/above.txt", 404, "", ""},
		{"http://a.example/sub/..%2f..%2fabove.txt", 404, "", ""},
		{"http://a.example/index.html/", 404, "", ""},
		{"http://b.example/docs/2.4/sub/", 200, "text/html", "utf-8"},
		{"http://b.example/docs/2.4", 301, "", "/docs/2.4/"},
		{"http://b.example/docs/2.4/empty/", 200, "text/html; charset=utf-8", `<a href="a.png">`},
		{"http://b.example/", 404, "", ""},
		{"http://c.example/sub/?q", 301, "", "https://c.example/sub/?q"},
		{"https://c.example/sub/?q", 200, "text/html", ""},
		{"http://d.example/", 200, "text/html; charset=utf-8", "made up"},
		{"http://d.example/x", 404, "", ""},
		{"http://d.example/sub/latin.txt", 200, "", "caf"},
	} {
		res, body := get(t, c, tt.url)
		if res.StatusCode != tt.status {
			t.Errorf("%s: got status %d, want %d", tt.url, res.StatusCode, tt.status)
		}
		if got := res.Header.Get("Content-Type"); tt.ctype != "" && got != tt.ctype {
			t.Errorf("%s: got type %q, want %q", tt.url, got, tt.ctype)
		}
		if tt.status == 301 {
			body = res.Header.Get("Location")
		}
		if !strings.Contains(body, tt.body) {
			t.Errorf("%s: got %q, want %q in it", tt.url, body, tt.body)
		}
	}

	hourAgo := time.Now().Add(-time.Hour)
	must.Do(t, os.Chtimes(filepath.Join(dir, "index.html"), hourAgo, hourAgo))
	res, body := get(t, c, "http://a.example/", "Accept-Encoding", "gzip, br")
	if res.Header.Get("Content-Encoding") != "gzip" || !strings.HasPrefix(body, "\x1f\x8b") {
		t.Errorf("gzip accepted: got encoding %q", res.Header.Get("Content-Encoding"))
	}
	if res, _ := get(t, c, "http://a.example/", "Accept-Encoding",
		"gzip;q=0"); res.Header.Get("Content-Encoding") != "" {
		t.Error("gzip refused: got gzip")
	}
	for _, h := range [][2]string{
		{"If-None-Match", res.Header.Get("Etag")}, {"If-Modified-Since", res.Header.Get("Last-Modified")},
	} {
		if got, _ := get(t, c, "http://a.example/", h[0], h[1], "Accept-Encoding", "gzip"); got.StatusCode != 304 {
			t.Errorf("%s: got %d, want 304", h[0], got.StatusCode)
		}
	}
}

// With a suffix, the files of a folder are found without it as well.
func TestSuffix(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"about.html": "about", "both": "plain", "both.html": "html",
		"v1.2.html": "dots", "in/index.html": "index", "in.html": "no"} {
		write(t, dir, name, text)
	}
	w := serving(t, Config{Folders: []Folder{{Host: "a.example", Dir: dir, Suffix: ".html"},
		{Host: "b.example", Dir: dir}}})
	c := client(t, w)
	for _, tt := range []struct{ url, want string }{
		{"http://a.example/about", "200 text/html; charset=utf-8 about"},
		{"http://a.example/about.html", "200 text/html; charset=utf-8 about"},
		{"http://a.example/both", "200 text/plain; charset=utf-8 plain"},
		{"http://a.example/v1.2", "200 text/html; charset=utf-8 dots"},
		{"http://a.example/in/", "200 text/html; charset=utf-8 index"},
		{"http://a.example/none", "404"},
		{"http://a.example/about/", "404"},
		{"http://b.example/about", "404"},
	} {
		res, body := get(t, c, tt.url)
		got := fmt.Sprint(res.StatusCode, " ", res.Header.Get("Content-Type"), " ", body)
		if !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.url, got, tt.want)
		}
	}
	for s, want := range map[string]bool{".html": true, "html": false, ".": false, "": false, "./x": false,
		".a.b": false, ".htm": true} {
		if ValidSuffix(s) != want {
			t.Errorf("%q: got %v", s, !want)
		}
	}
}

func TestAddresses(t *testing.T) {
	w := serving(t, Config{Sites: []Site{
		{Host: "A.example"}, {Host: "b.example"}, {Host: "c.example", Addr: "127.9.9.9"},
		{Host: "d.example", Addr: "127.9.9.9"},
	}})
	a, _ := w.Lookup("a.example")
	b, _ := w.Lookup("b.EXAMPLE.")
	c, _ := w.Lookup("c.example")
	d, _ := w.Lookup("d.example")
	if a == b || !a.IsLoopback() || !b.IsLoopback() || c.String() != "127.9.9.9" || d != c {
		t.Errorf("got %v %v %v %v", a, b, c, d)
	}
	again, err := New(Config{Sites: []Site{{Host: "a.example"}}})
	must.Do(t, err)
	defer again.Close()
	if a2, _ := again.Lookup("a.example"); a2 != a {
		t.Errorf("got %v in a second Web, want %v", a2, a)
	}
	two, err := New(Config{Addresses: 2, Sites: []Site{{Host: "a"}, {Host: "b"}, {Host: "c"}}})
	must.Do(t, err)
	defer two.Close()
	x, _ := two.Lookup("a")
	y, _ := two.Lookup("b")
	z, _ := two.Lookup("c")
	if x == y || x != z {
		t.Errorf("over two addresses: got %v %v %v", x, y, z)
	}
	for _, bad := range []Config{
		{Sites: []Site{{Host: ""}}}, {Sites: []Site{{Host: "a"}, {Host: "A"}}},
		{Sites: []Site{{Host: "a", Addr: "10.0.0.1"}}}, {Folders: []Folder{{Host: "a", Dir: "/nowhere"}}},
	} {
		if w, err := New(bad); err == nil {
			w.Close()
			t.Errorf("New(%+v): no error", bad)
		}
	}
}

// TestLoopbackOnly: the port is closed on the machine's other addresses.
func TestLoopbackOnly(t *testing.T) {
	w := serving(t, Config{})
	as, err := net.InterfaceAddrs()
	must.Do(t, err)
	for _, a := range as {
		ip := a.(*net.IPNet).IP
		if ip.To4() == nil || ip.IsLoopback() {
			continue
		}
		c, err := net.DialTimeout("tcp", net.JoinHostPort(ip.String(), fmt.Sprint(w.HTTPPort())), time.Second)
		if err != nil {
			continue
		}
		fmt.Fprint(c, "GET / HTTP/1.0\r\n\r\n")
		c.SetReadDeadline(time.Now().Add(5 * time.Second))
		if n, _ := c.Read(make([]byte, 1)); n > 0 {
			t.Errorf("the server answers on %s", ip)
		}
		c.Close()
	}
	if got, want := loopbackOnly("0.0.0.0:53"), "127.0.0.1:53"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestNames(t *testing.T) {
	w := serving(t, Config{TTL: 7 * time.Second, Sites: []Site{
		{Host: "a.example"}, {Host: "f.example", DNS: ServerFail}, {Host: "x.example", DNS: NoDomain},
		{Host: "e.example", DNS: NoData}, {Host: "t.example", DNS: NoAnswer},
	}})
	addr, _ := w.Lookup("a.example")
	for _, network := range []string{"udp", "tcp"} {
		for _, tt := range []struct {
			name  string
			qtype uint16
			rcode int
			addr  string
		}{
			{"a.example.", dns.TypeA, dns.RcodeSuccess, addr.String()},
			{"A.eXample.", dns.TypeA, dns.RcodeSuccess, addr.String()},
			{"a.example.", dns.TypeAAAA, dns.RcodeSuccess, ""},
			{"b.example.", dns.TypeA, dns.RcodeNameError, ""},
			{"x.example.", dns.TypeA, dns.RcodeNameError, ""},
			{"f.example.", dns.TypeA, dns.RcodeServerFailure, ""},
			{"e.example.", dns.TypeA, dns.RcodeSuccess, ""},
			{"t.example.", dns.TypeA, -1, ""},
		} {
			m := new(dns.Msg)
			m.SetQuestion(tt.name, tt.qtype)
			c := dns.Client{Net: network, Timeout: time.Minute}
			if tt.rcode < 0 {
				c.Timeout = 100 * time.Millisecond
			}
			in, _, err := c.Exchange(m, w.DNSAddr())
			if tt.rcode < 0 {
				if err == nil {
					t.Errorf("%s %s: got an answer, want none", network, tt.name)
				}
				continue
			}
			must.Do(t, err)
			got := ""
			if len(in.Answer) > 0 {
				got = in.Answer[0].(*dns.A).A.String()
				if ttl := in.Answer[0].Header().Ttl; ttl != 7 {
					t.Errorf("got TTL %d, want 7", ttl)
				}
			}
			if in.Rcode != tt.rcode || got != tt.addr {
				t.Errorf("%s %s: got %d %q, want %d %q", network, tt.name, in.Rcode, got, tt.rcode, tt.addr)
			}
		}
	}
	if got := w.Report().DNSQueries; got < 16 {
		t.Errorf("got %d queries, want 16 or more", got)
	}
}

func TestCertificates(t *testing.T) {
	ok := Pages(map[string]string{"/": "hello"})
	w := serving(t, Config{Sites: []Site{
		{Host: "good.example", Handler: ok}, {Host: "self.example", TLS: SelfSigned, Handler: ok},
		{Host: "old.example", TLS: Expired, Handler: ok}, {Host: "wrong.example", TLS: WrongName, Handler: ok},
		{Host: "cut.example", TLS: CutTLS, Handler: ok},
	}})
	c := client(t, w)
	if _, body := get(t, c, "https://good.example/"); body != "hello" {
		t.Errorf("got %q", body)
	}
	for host, want := range map[string]string{
		"self": "unknown authority", "old": "expired", "wrong": "not wrong.example", "cut": "",
	} {
		_, err := c.Get("https://" + host + ".example/")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q in it", host, err, want)
		}
	}
}

func TestControl(t *testing.T) {
	var lines bytes.Buffer
	pages := Pages(map[string]string{"/": "home", "/old": "->/"})
	w := serving(t, Config{Log: &lines, Sites: []Site{{Host: "a.example", Handler: pages}}})
	c := client(t, w)
	get(t, c, "http://a.example/old")
	get(t, c, "http://a.example/")
	get(t, c, "http://a.example/")
	c.CloseIdleConnections()
	until(t, "ended", func() bool { return w.Report().Active == 0 })
	_, body := get(t, http.DefaultClient, "http://"+w.ControlAddr()+"/.testweb/report")
	var r Report
	must.Do(t, json.Unmarshal([]byte(body), &r))
	if r.Requests != 3 || r.Pages != 2 || r.Repeated != 1 || r.Twice["http://a.example/"] != 2 || r.Status[302] != 1 {
		t.Errorf("got %+v", r)
	}
	if _, body := get(t, http.DefaultClient, "http://"+w.ControlAddr()+"/.testweb/ca.pem"); body != string(w.CAPEM()) {
		t.Error("ca.pem is not the authority's certificate")
	}
	_, body = get(t, http.DefaultClient, "http://"+w.ControlAddr()+"/.testweb/log")
	n := 0
	for s := bufio.NewScanner(strings.NewReader(body)); s.Scan(); n++ {
		if f := strings.Split(s.Text(), "\t"); len(f) != 8 || f[6] != "ok" {
			t.Errorf("log line %q", s.Text())
		}
	}
	if n != 3 {
		t.Errorf("got %d log lines, want 3", n)
	}
	for query, want := range map[string]string{
		"dely=5s":             `no parameter "dely"; there are delay, ip-delay, site-delay and views`,
		"delay=5":             `parameter delay: "5" is not a duration such as 500ms, or 0`,
		"ip-delay=-1s":        `parameter ip-delay: "-1s" is not a duration`,
		"delay=1s&delay=2s":   "parameter delay: given more than once",
		"site-delay=1s&x=%zz": "the parameters cannot be read",
	} {
		res, err := http.Post("http://"+w.ControlAddr()+"/.testweb/reset?"+query, "", nil)
		must.Do(t, err)
		text, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != http.StatusBadRequest || !strings.Contains(string(text), want) {
			t.Errorf("reset?%s: got %d %q, want 400 %s", query, res.StatusCode, text, want)
		}
	}
	res, err := http.PostForm("http://"+w.ControlAddr()+"/.testweb/reset", url.Values{"delay": {"3s"}})
	must.Do(t, err)
	res.Body.Close()
	if r := w.Report(); r.Requests != 0 || len(w.Fetched()) != 0 || w.track.promised().HostDelay != 3*time.Second {
		t.Errorf("after reset: got %+v", r)
	}
	http.DefaultClient.CloseIdleConnections()
	if got := strings.Count(lines.String(), "\n"); got != 3 {
		t.Errorf("got %d lines in the file, want 3", got)
	}
}

func TestRunEndsWithClientsHanging(t *testing.T) {
	hang := func(c *RawConn, req *http.Request) bool { c.Hang(); return true }
	w, err := New(Config{Sites: []Site{
		{Host: "a.example", Rules: []Rule{{Hang: true}}}, {Host: "r.example", Raw: hang},
	}})
	must.Do(t, err)
	stop := w.Start()
	c := client(t, w)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	done := make(chan error, 2)
	for _, h := range []string{"a", "r"} {
		go func() {
			req, _ := http.NewRequestWithContext(ctx, "GET", "http://"+h+".example/", nil)
			_, err := c.Do(req)
			done <- err
		}()
	}
	for w.Report().Active < 2 {
		time.Sleep(time.Millisecond)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := <-done; err == nil || ctx.Err() != nil {
			t.Errorf("got %v, want a lost connection", err)
		}
	}
}

// A port that the user may not open is refused with what to do.
func TestPortNotPermitted(t *testing.T) {
	err := notOpened("http-port", "80", &net.OpError{Op: "listen", Err: os.NewSyscallError("bind", syscall.EACCES)})
	const want = "http-port 80: this user may not open the port; choose one from 1024 on, or run testweb as root"
	if err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
