package replay

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/output/captures"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testarchive"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

func TestOriginNames(t *testing.T) {
	s := New(Config{Addr: "127.0.0.1:8080"})
	long := strings.Repeat("long-name.", 15) + "example.org"
	for _, u := range []string{"https://www.example.org/a?b", "http://a-b.example:8081/", "http://[2001:db8::1]/x",
		"http://[2001:db8::1]:81/x", "https://xn--bcher-kva.example/", "http://xn.example/", "http://a_b.example/",
		"https://" + long + "/"} {
		want := weburl.MustParse(u)
		host, ok := s.contentHost(want, "20260102030405")
		if !ok {
			t.Errorf("%s has no content host", u)
			continue
		}
		for label := range strings.SplitSeq(host, ".") {
			if len(label) > maxLabel || strings.HasPrefix(label, "xn--") {
				t.Errorf("%s: a browser refuses the label %s", u, label)
			}
		}
		got, ok := s.placeOf(host+":8080", want.RequestURI())
		if !ok || got != (place{want, "20260102030405"}) {
			t.Errorf("%s -> %s -> %v, %v", u, host, got, ok)
		}
	}
	if _, ok := s.contentHost(weburl.MustParse("http://"+strings.Repeat("a.", 120)+"org/"), "20260102030405"); ok {
		t.Error("a host name of more than 253 bytes is accepted")
	}
}

// request sends a request to the handler without a network.
func request(s http.Handler, host, target string, header ...string) *http.Response {
	r := httptest.NewRequest("GET", target, nil)
	r.Host, r.RequestURI = host, target
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Result()
}

func newServer(t *testing.T, responses map[string]string) *Server {
	t.Helper()
	dir := testarchive.Write(t, responses)
	return New(Config{Archive: captures.New(nil, warc.Places(dir), nil), Addr: "127.0.0.1:8080", Token: "token"})
}

func TestRefusals(t *testing.T) {
	s := newServer(t, map[string]string{"http://a.example/": "text/html\nhello",
		"http://a.example/sw.js": "text/javascript\n1"})
	host, _ := s.contentHost(weburl.MustParse("http://a.example/"), "20260504030201")
	host += ":8080"
	for _, c := range []struct {
		name, host, target string
		header             []string
		want               int
	}{
		{"the viewer", "127.0.0.1:8080", "/token/", nil, 200},
		{"without the token", "127.0.0.1:8080", "/", nil, 404},
		{"another token", "127.0.0.1:8080", "/tokem/", nil, 404},
		{"another name of the viewer", "localhost:8080", "/token/", nil, 421},
		{"a name that leads to loopback", "attacker.example:8080", "/token/", nil, 421},
		{"the viewer, from another site", "127.0.0.1:8080", "/token/info",
			[]string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"the viewer, from a link", "127.0.0.1:8080", "/token/",
			[]string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Dest", "document"}, 200},
		{"content", host, "/", []string{"Sec-Fetch-Dest", "iframe"}, 200},
		{"content without the secret", "0" + host[1:], "/", []string{"Sec-Fetch-Dest", "iframe"}, 421},
		{"content at another port", strings.TrimSuffix(host, "0") + "1", "/",
			[]string{"Sec-Fetch-Dest", "iframe"}, 421},
		{"content outside of the frame", host, "/", []string{"Sec-Fetch-Dest", "document"}, 303},
		{"content for an old browser", host, "/", nil, 403},
		{"a service worker", host, "/sw.js", []string{"Sec-Fetch-Dest", "serviceworker"}, 403},
		{"a service worker by its field", host, "/sw.js",
			[]string{"Sec-Fetch-Dest", "script", "Service-Worker", "script"}, 403},
		{"a socket", host, "/", []string{"Sec-Fetch-Dest", "websocket", "Upgrade", "websocket"}, 403},
		{"a missing page", host, "/no", []string{"Sec-Fetch-Dest", "iframe"}, 404},
		{"a bad time", "127.0.0.1:8080", "/token/view?url=http://a.example/&at=2026", nil, 400},
		{"a bad URL", "127.0.0.1:8080", "/token/view?url=ftp://a.example/", nil, 400},
	} {
		if res := request(s, c.host, c.target, c.header...); res.StatusCode != c.want {
			t.Errorf("%s: got %d, want %d", c.name, res.StatusCode, c.want)
		}
	}
	r := httptest.NewRequest("POST", "/", strings.NewReader("a=b"))
	r.Host = host
	w := httptest.NewRecorder()
	if s.ServeHTTP(w, r); w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: got %d", w.Code)
	}
}

// What an archived server says beside the content does not reach the browser.
func TestHeaders(t *testing.T) {
	s := newServer(t, map[string]string{
		"http://a.example/": "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nSet-Cookie: a=b\r\n" +
			"Link: <http://b.example/>\r\n" +
			"Refresh: 3; url=http://b.example/x\r\nClear-Site-Data: *\r\nStrict-Transport-Security: max-age=9\r\n" +
			"Content-Security-Policy: default-src *\r\nAccess-Control-Allow-Origin: *\r\n\r\nhello",
		"http://a.example/moved": "HTTP/1.1 302 Found\r\nLocation: //b.example/y?z#f\r\n\r\n",
		"http://a.example/out":   "HTTP/1.1 302 Found\r\nLocation: javascript:alert(1)\r\n\r\n",
		"http://a.example/cut":   "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nX-Test-Truncated: 1\r\n\r\nhel",
	})
	host, _ := s.contentHost(weburl.MustParse("http://a.example/"), "20260504030201")
	frame := func(target string) *http.Response {
		return request(s, host+":8080", target, "Sec-Fetch-Dest", "iframe", "User-Agent", "HeadlessChrome/156.0")
	}
	res := frame("/")
	for _, name := range []string{"Set-Cookie", "Link", "Clear-Site-Data", "Strict-Transport-Security",
		"Access-Control-Allow-Origin"} {
		if v := res.Header.Get(name); v != "" {
			t.Errorf("%s: %s", name, v)
		}
	}
	b, _ := s.contentHost(weburl.MustParse("http://b.example/"), "20260504030201")
	if got, want := res.Header.Get("Refresh"), "3;url=http://"+b+":8080/x"; got != want {
		t.Errorf("Refresh: got %s, want %s", got, want)
	}
	policy := res.Header.Values("Content-Security-Policy")
	if len(policy) != 1 || !strings.Contains(policy[0], "sandbox allow-same-origin allow-forms allow-scripts") ||
		strings.Contains(policy[0], "*;") || strings.Contains(policy[0], "* ") {
		t.Errorf("Content-Security-Policy: %q", policy)
	}
	if got, want := frame("/moved").Header.Get("Location"), "http://"+b+":8080/y?z#f"; got != want {
		t.Errorf("Location: got %s, want %s", got, want)
	}
	if res := frame("/out"); res.StatusCode != 404 || res.Header.Get("Location") != "" {
		t.Errorf("a redirect to a script: %d, %s", res.StatusCode, res.Header.Get("Location"))
	}
	if got := frame("/cut").Header.Get("X-Archive-Truncated"); got != "length" {
		t.Errorf("X-Archive-Truncated: %q", got)
	}
}

// Only a browser that keeps scripts from contacting other servers runs them.
func TestScriptsAreConfined(t *testing.T) {
	for agent, want := range map[string]bool{
		"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/156.0.0.0 Safari/537.36": true,
		"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/151.0.0.0 Safari/537.36": false,
		"Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0":                                false,
		"": false,
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("User-Agent", agent)
		if got := confines(r); got != want {
			t.Errorf("%s: got %v", agent, got)
		}
	}
}

// The bar learns of the nearest capture, its neighbours, and what is wrong with it.
func TestInfo(t *testing.T) {
	s := newServer(t, map[string]string{
		"http://a.example/ @20260101000000": "text/html\none",
		"http://a.example/ @20260201000000": "text/html\ntwo",
		"http://a.example/ @20260301000000": "HTTP/1.1 503 Busy\r\n" +
			"Content-Type: text/html\r\nX-Test-Truncated: 1\r\n\r\nno",
		"http://c.example/ @20260101000000":  "text/html\none",
		"https://c.example/ @20260201000000": "text/html\ntwo",
	})
	for target, want := range map[string]string{
		"at=20260210000000": `"time":"20260201000000","day":"1 February 2026, 00:00:00","status":200,"count":3,` +
			`"previous":"20260101000000","next":"20260301000000"}`,
		"at=20300101000000": `"status":503,"truncated":"length","count":3,"previous":"20260201000000"}`,
		"":                  `"time":"20260301000000"`,
	} {
		res := request(s, "127.0.0.1:8080", "/token/info?url=http://a.example/&"+target)
		b, err := io.ReadAll(res.Body)
		if err != nil || !strings.Contains(string(b), want) {
			t.Errorf("%s: got %s, %v, want %s", target, b, err, want)
		}
	}
	res := request(s, "127.0.0.1:8080", "/token/info?url=http://b.example/")
	const none = `{"url":"http://b.example/","found":false,"count":0}` + "\n"
	b, err := io.ReadAll(res.Body)
	if err != nil || string(b) != none {
		t.Errorf("got %s, %v", b, err)
	}
	// The count is that of the list of captures, which has both schemes. The neighbours have the same URL.
	res = request(s, "127.0.0.1:8080", "/token/info?url=https://c.example/")
	b, err = io.ReadAll(res.Body)
	if err != nil || !strings.Contains(string(b), `"status":200,"count":2}`) {
		t.Errorf("got %s, %v", b, err)
	}
	res = request(s, "127.0.0.1:8080", "/token/save?url=http://a.example/&at=20260101000000")
	b, err = io.ReadAll(res.Body)
	if got := res.Header.Get("Content-Disposition"); err != nil || string(b) != "one" ||
		got != `attachment; filename="a.example.html"` {
		t.Errorf("save: got %q as %s, %v", b, got, err)
	}
}

// A page that is longer than what is rewritten is whole, in its encoding.
func TestLongPage(t *testing.T) {
	const link = `<a href="https://b.example/">x</a>`
	text := link + strings.Repeat("long ", 100) + "caf\u00e9" + link
	var wide []byte // in UTF-16
	for _, r := range text {
		wide = append(wide, byte(r), byte(r>>8))
	}
	dir := testarchive.Write(t, map[string]string{
		"http://a.example/":  "text/html; charset=utf-8\n" + text,
		"http://a.example/w": "text/html; charset=utf-16le\n" + string(wide),
		"http://a.example/s": "text/html; charset=utf-8\n" + link,
	})
	archive := captures.New(nil, warc.Places(dir), nil)
	s := New(Config{Archive: archive, Addr: "127.0.0.1:8080", Token: "token", MaxPage: 100})
	b, _ := s.contentHost(weburl.MustParse("https://b.example/"), "20260504030201")
	mapped := head + strings.Replace(text, "https://b.example", "http://"+b+":8080", 1)
	for path, want := range map[string]string{"/": mapped, "/w": string(wide)} {
		host, _ := s.contentHost(weburl.MustParse("http://a.example/"), "20260504030201")
		res := request(s, host+":8080", path, "Sec-Fetch-Dest", "iframe", "User-Agent", "Chrome/156.0")
		got, err := io.ReadAll(res.Body)
		if err != nil || string(got) != want {
			t.Errorf("%s: got %q, %v, want %q", path, got, err, want)
		}
	}
	for path, want := range map[string]bool{"": true, "w": true, "s": false} {
		res := request(s, "127.0.0.1:8080", "/token/info?url=http://a.example/"+path)
		got, err := io.ReadAll(res.Body)
		if err != nil || strings.Contains(string(got), `"long":"100 B"`) != want {
			t.Errorf("%s: the bar learns %s, %v", path, got, err)
		}
	}
}

// The start page of an archive without a page lists its files. A search says where else to look.
func TestOnlyFiles(t *testing.T) {
	s := newServer(t, map[string]string{"http://a.example/x.pdf": "application/pdf\nx"})
	const list, look = `<div class="url">http://a.example/x.pdf</div>`, ">Look among files and errors, too</a>"
	for target, want := range map[string]string{"": list, "?q=x.pdf": look, "?q=x.pdf&all=1": list} {
		res := request(s, "127.0.0.1:8080", "/token/"+target)
		got, err := io.ReadAll(res.Body)
		if err != nil || !strings.Contains(string(got), want) {
			t.Errorf("%s: got %s, %v, want %s", target, got, err, want)
		}
	}
}

// A browser that plays a video asks for parts.
func TestRange(t *testing.T) {
	const body = "0123456789"
	s := newServer(t, map[string]string{
		"http://a.example/v": "HTTP/1.1 200 OK\r\nContent-Type: video/mp4\r\nContent-Length: 10\r\n\r\n" + body,
		"http://a.example/c": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\nabcdefghij\r\n0\r\n\r\n",
		"http://a.example/n": "HTTP/1.1 404 Not Found\r\nContent-Type: video/mp4\r\n\r\n" + body,
	})
	host, _ := s.contentHost(weburl.MustParse("http://a.example/"), "20260504030201")
	for _, c := range []struct {
		path, asked string
		status      int
		want, part  string
	}{
		{"/v", "", 200, body, ""},
		{"/v", "bytes=0-", 206, body, "bytes 0-9/10"},
		{"/v", "bytes=3-5", 206, "345", "bytes 3-5/10"},
		{"/v", "bytes=-2", 206, "89", "bytes 8-9/10"},
		{"/v", "bytes=20-", 416, "", "bytes */10"},
		{"/v", "bytes=5-6,1-2", 200, body, ""},
		{"/c", "bytes=3-5", 200, "abcdefghij", ""}, // the size is not known
		{"/n", "bytes=3-5", 404, body, ""},
	} {
		res := request(s, host+":8080", c.path, "Sec-Fetch-Dest", "video", "Range", c.asked)
		got, err := io.ReadAll(res.Body)
		if res.StatusCode == 416 {
			got = nil
		}
		if err != nil || res.StatusCode != c.status || string(got) != c.want ||
			res.Header.Get("Content-Range") != c.part {
			t.Errorf("%s %s: got %d, %q, %v, %v", c.path, c.asked, res.StatusCode, got, err, res.Header)
		}
	}
}

// A page whose content is missing or damaged gives way to a page that says so.
func TestUnreadable(t *testing.T) {
	const same = "text/html\nthe same content in both"
	dir := testarchive.Write(t, map[string]string{
		"http://a.example/ @20260101000000": same, "http://b.example/ @20260102000000": same,
		"http://c.example/": "text/html\n" + strings.Repeat("content that is long enough to be compressed ", 100),
		"http://d.example/": "HTTP/1.1 200 OK\r\n" +
			"Content-Type: text/html\r\nContent-Encoding: gzip\r\n\r\n\x1f\x8bno gzip",
		"http://f.example/": "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n" +
			"Content-Encoding: gzip, gzip, gzip, gzip, gzip, gzip\r\n\r\nsix",
		"http://g.example/": "text/html\nreadable",
	})
	index := filepath.Join(dir, "indexes", "index.cdxj")
	lines, err := os.ReadFile(index)
	must.Do(t, err)
	var kept []string
	for line := range strings.Lines(string(lines)) {
		switch {
		case strings.HasPrefix(line, "example,a)"):
			continue // as if another crawl had the original
		case strings.HasPrefix(line, "example,c)"):
			line = strings.Replace(line, `"offset": "`, `"offset": "1`, 1)
		}
		kept = append(kept, line)
	}
	must.Do(t, os.WriteFile(index, []byte(strings.Join(kept, "")), 0o644))
	s := New(Config{Archive: captures.New(nil, warc.Places(dir), nil), Addr: "127.0.0.1:8080", Token: "token"})
	for u, want := range map[string]string{
		"http://b.example/": "Give the crawl directory that has it, too.",
		"http://c.example/": "This page cannot be read", "http://d.example/": "The server sent it broken",
		"http://f.example/": "too many content codings",
		"http://e.example/": "The crawl did not reach this URL"} {
		host, _ := s.contentHost(weburl.MustParse(u), "20260504030201")
		res := request(s, host+":8080", "/", "Sec-Fetch-Dest", "iframe")
		b, err := io.ReadAll(res.Body)
		if err != nil || !strings.Contains(string(b), want) || res.StatusCode < 400 {
			t.Errorf("%s: got %d, %s, %v, want %q", u, res.StatusCode, b, err, want)
		}
	}
	body := func(res *http.Response) string {
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Error(err)
		}
		return string(b)
	}
	// What cannot be decoded can be saved.
	for u, want := range map[string]string{"http://d.example/": "\x1f\x8bno gzip", "http://f.example/": "six",
		"http://g.example/": "readable"} {
		if got := body(request(s, "127.0.0.1:8080", "/token/save?url="+u)); got != want {
			t.Errorf("%s is saved as %q, want %q", u, got, want)
		}
	}
	// Without the WARC file, the list is there.
	files, err := filepath.Glob(filepath.Join(dir, "archive", "*"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	must.Do(t, os.Remove(files[0]))
	host, _ := s.contentHost(weburl.MustParse("http://g.example/"), "20260504030201")
	if got := body(request(s, host+":8080", "/", "Sec-Fetch-Dest", "iframe")); !strings.Contains(got,
		"This page cannot be read") || !strings.Contains(got, "no such file") {
		t.Errorf("a page without its file: %s", got)
	}
	if got := body(request(s, "127.0.0.1:8080", "/token/")); !strings.Contains(got, "http://g.example/") {
		t.Errorf("the list of an archive without its file: %s", got)
	}
}
