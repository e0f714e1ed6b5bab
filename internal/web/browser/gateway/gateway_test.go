package gateway

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// net/http waits for half a second before it closes a connection that it has cut.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

// recorder answers each request with what answer returns, and keeps the request.
type recorder struct {
	answer func(r *Request) (*Answer, error)

	mu   sync.Mutex // guards seen
	seen []*Request
}

func (o *recorder) Answer(_ context.Context, r *Request) (*Answer, error) {
	o.mu.Lock()
	o.seen = append(o.seen, r)
	o.mu.Unlock()
	if o.answer == nil {
		return Text(200, "answer to "+r.URL.String()), nil
	}
	return o.answer(r)
}

func (o *recorder) requests() []*Request {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.seen)
}

// open returns a gateway and a client that knows no other way, and trusts the authority's key alone, as the browser
// does.
func open(t *testing.T, o *recorder, limits Limits) (*Gateway, *http.Client) {
	t.Helper()
	a, err := NewAuthority(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	g, err := Open(a, o, limits, nil)
	if err != nil {
		t.Fatal(err)
	}
	trust := &tls.Config{InsecureSkipVerify: true, VerifyConnection: func(s tls.ConnectionState) error {
		sum := sha256.Sum256(s.PeerCertificates[0].RawSubjectPublicKeyInfo)
		if base64.StdEncoding.EncodeToString(sum[:]) != a.Pin() {
			return errors.New("another key")
		}
		return nil
	}}
	transport := &http.Transport{TLSClientConfig: trust, DisableCompression: true,
		Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: addr(g)})}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		if err := g.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	return g, &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
}

func addr(g *Gateway) string { return fmt.Sprintf("127.0.0.1:%d", g.Port()) }

func ask(t *testing.T, c *http.Client, method, u, body string, header ...string) (status int, h http.Header,
	text string, err error) {
	t.Helper()
	r, err := http.NewRequest(method, u, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	a, err := c.Do(r)
	if err != nil {
		return 0, nil, "", err
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	return a.StatusCode, a.Header, string(b), err
}

func TestRequestsComeThrough(t *testing.T) {
	o := &recorder{}
	g, c := open(t, o, Limits{})
	for _, u := range []string{"http://a.example/", "https://a.example/b?c=d", "https://b.example:8443/%2F%C3%A9",
		"http://c.example:8080/?", "https://[2001:db8::1]/"} {
		status, _, text, err := ask(t, c, "GET", u, "")
		if err != nil || status != 200 || text != "answer to "+u {
			t.Errorf("%s: %d %q %v", u, status, text, err)
		}
	}
	if n := g.Counts(); n.Requests != 5 || n.Failed+n.Malformed != 0 {
		t.Errorf("counts: %+v", n)
	}
	if open, _ := g.Open(); open != 0 {
		t.Errorf("%d requests are open", open)
	}
}

func TestFieldsOfARequest(t *testing.T) {
	o := &recorder{}
	_, c := open(t, o, Limits{})
	for _, u := range []string{"http://a.example/", "https://a.example/"} {
		if _, _, _, err := ask(t, c, "POST", u, "the body", "Accept", "image/webp", "Origin", "https://o.example",
			"Sec-Fetch-Dest", "image", "Range", "bytes=0-1", "X-Own", "1", "X-Own", "2", "User-Agent", "a browser",
			"From", "somebody", "Accept-Encoding", "zstd", "If-None-Match", `"x"`, "Sec-Ch-Ua", "Chromium",
			"Proxy-Authorization", "Basic x", "Connection", "x-hop", "X-Hop", "y", "Te", "trailers"); err != nil {
			t.Fatal(err)
		}
	}
	want := [][2]string{{"Accept", "image/webp"}, {"Origin", "https://o.example"}, {"Range", "bytes=0-1"},
		{"Sec-Fetch-Dest", "image"}, {"X-Own", "1"}, {"X-Own", "2"}}
	for _, r := range o.requests() {
		if !slices.Equal(r.Header, want) || r.Dest != "image" || r.Method != "POST" || string(r.Body) != "the body" {
			t.Errorf("%+v", r)
		}
	}
}

func TestFieldsOfAnAnswer(t *testing.T) {
	o := &recorder{answer: func(*Request) (*Answer, error) {
		a := Text(206, "part")
		a.Header = http.Header{"Content-Range": {"bytes 0-3/9"}, "Content-Encoding": {"br"}, "Content-Length": {"77"},
			"Alt-Svc": {`h3=":443"`}, "Set-Cookie": {"a=1", "b=2"}, "Connection": {"X-Hop"}, "X-Hop": {"x"},
			"Transfer-Encoding": {"chunked"}}
		return a, nil
	}}
	_, c := open(t, o, Limits{})
	for _, u := range []string{"http://a.example/", "https://a.example/"} {
		status, h, text, err := ask(t, c, "GET", u, "")
		if err != nil || status != 206 || text != "part" {
			t.Fatal(status, text, err)
		}
		if got := slices.Sorted(maps.Keys(h)); !slices.Equal(got, []string{"Content-Length", "Content-Range",
			"Set-Cookie"}) || len(h["Set-Cookie"]) != 2 || h.Get("Content-Length") != "4" {
			t.Errorf("%v", h)
		}
	}
}

func TestAnswersWithoutContent(t *testing.T) {
	o := &recorder{answer: func(r *Request) (*Answer, error) {
		a := Text(304, "")
		if r.Method == "HEAD" {
			a.Status = 200
		}
		return a, nil
	}}
	_, c := open(t, o, Limits{})
	for method, want := range map[string]int{"GET": 304, "HEAD": 200} {
		status, _, text, err := ask(t, c, method, "https://a.example/", "")
		if status != want || text != "" || err != nil {
			t.Errorf("%s: %d %q %v", method, status, text, err)
		}
	}
}

func TestNoAnswer(t *testing.T) {
	o := &recorder{answer: func(*Request) (*Answer, error) { return nil, errors.New("the server is down") }}
	g, c := open(t, o, Limits{})
	for _, u := range []string{"http://a.example/", "https://a.example/"} {
		if status, _, text, err := ask(t, c, "GET", u, ""); status != 504 || text != "" || err != nil {
			t.Errorf("%s: %d %q %v", u, status, text, err)
		}
	}
	if n := g.Counts(); n.Requests != 2 || n.Failed != 2 || len(o.requests()) != 2 {
		t.Errorf("%+v", n)
	}
}

// TestCutAnswers has answers of which a part is missing: the browser must not take the part for the whole.
func TestCutAnswers(t *testing.T) {
	broken := errors.New("the server has gone")
	for name, answer := range map[string]func(r *Request) (*Answer, error){
		"cut": func(*Request) (*Answer, error) {
			a := Text(200, "part of the text")
			a.Body = io.NopCloser(io.MultiReader(strings.NewReader("part"), brokenBody{broken}))
			return a, nil
		},
		"cut, no size": func(*Request) (*Answer, error) {
			a := Text(200, "")
			a.Body, a.Size = io.NopCloser(io.MultiReader(strings.NewReader("part"), brokenBody{broken})), -1
			return a, nil
		},
	} {
		_, c := open(t, &recorder{answer: answer}, Limits{})
		for _, u := range []string{"http://a.example/", "https://a.example/"} {
			if status, _, text, err := ask(t, c, "GET", u, ""); err == nil {
				t.Errorf("%s: %s has the answer %d %q", name, u, status, text)
			}
		}
	}
}

type brokenBody struct{ err error }

func (e brokenBody) Read([]byte) (int, error) { return 0, e.err }

func TestRefused(t *testing.T) {
	o := &recorder{}
	g, c := open(t, o, Limits{Upload: 10})
	for _, x := range []struct {
		name, method, url, body string
		header                  []string
		status                  int
	}{
		{"WebSocket", "GET", "http://a.example/", "", []string{"Connection", "Upgrade", "Upgrade", "websocket"}, 403},
		{"WebSocket over TLS", "GET", "https://a.example/", "",
			[]string{"Connection", "Upgrade", "Upgrade", "websocket"}, 403},
		{"event stream", "GET", "https://a.example/", "", []string{"Accept", "text/event-stream"}, 204},
		{"long body", "POST", "https://a.example/", "longer than ten bytes", nil, 400},
		{"no host of the web", "GET", "http://a..example/", "", nil, 400},
	} {
		if status, _, _, err := ask(t, c, x.method, x.url, x.body, x.header...); status != x.status {
			t.Errorf("%s: %d %v, want %d", x.name, status, err, x.status)
		}
	}
	want := Counts{WebSockets: 2, Streams: 1, Malformed: 2}
	if got := g.Counts(); got != want {
		t.Errorf("counts %+v, want %+v", got, want)
	}
	if n := len(o.requests()); n != 0 {
		t.Errorf("the origin was asked %d times", n)
	}
}

func TestLimits(t *testing.T) {
	o := &recorder{answer: func(*Request) (*Answer, error) { return Text(200, "ten bytes!"), nil }}
	g, c := open(t, o, Limits{Requests: 3})
	for i, want := range [...]int{200, 200, 200, 403, 403} {
		if status, _, _, err := ask(t, c, "GET", "https://a.example/", ""); status != want {
			t.Errorf("request %d: %d %v, want %d", i, status, err, want)
		}
	}
	if n := g.Counts(); n.Requests != 3 || n.OverLimit != 2 {
		t.Errorf("%+v", n)
	}
	g, c = open(t, o, Limits{Bytes: 25})
	for i := range 3 {
		_, _, text, err := ask(t, c, "GET", "https://a.example/", "")
		if cut := i == 2; (err != nil) != cut || !cut && text != "ten bytes!" {
			t.Errorf("request %d: %q %v", i, text, err)
		}
	}
	if status, _, _, _ := ask(t, c, "GET", "https://a.example/", ""); status != 403 {
		t.Errorf("after the last byte: %d", status)
	}
	if n := g.Counts(); n.Bytes != 25 || n.OverLimit != 1 {
		t.Errorf("%+v", n)
	}
}

// TestCloseEnds closes a gateway while requests wait for their answers, and while tunnels are silent.
func TestCloseEnds(t *testing.T) {
	asked := make(chan struct{}, 1)
	a, err := NewAuthority(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	g, err := Open(a, waiting{asked}, Limits{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	silent, err := net.Dial("tcp", addr(g))
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	if _, err := io.WriteString(silent, "CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := silent.Read(make([]byte, 12)); err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	transport := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: addr(g)})}
	go func() {
		r, err := (&http.Client{Transport: transport}).Get("http://a.example/")
		if err == nil {
			_ = r.Body.Close()
		}
		failed <- err
	}()
	<-asked
	if n, _ := g.Open(); n != 1 {
		t.Errorf("%d requests are open", n)
	}
	_ = g.Close()
	if err := <-failed; err == nil {
		t.Error("the request has an answer")
	}
	transport.CloseIdleConnections()
	if n, _ := g.Open(); n != 0 {
		t.Errorf("%d requests are open after the end", n)
	}
}

// waiting answers when the request is given up.
type waiting struct{ asked chan struct{} }

func (w waiting) Answer(ctx context.Context, _ *Request) (*Answer, error) {
	w.asked <- struct{}{}
	<-ctx.Done()
	return nil, ctx.Err()
}

// FuzzProxy sends any bytes to the proxy: none may make it ask for something that is no URL, panic, or hang.
func FuzzProxy(f *testing.F) {
	f.Add([]byte("GET http://a.example/ HTTP/1.1\r\nHost: b.example\r\n\r\n"))
	f.Add([]byte("CONNECT a.example:443 HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n"))
	f.Add([]byte("CONNECT a.example:443 HTTP/1.1\r\n\r\n\x16\x03\x01\x00\x05hello"))
	f.Add([]byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n"))
	f.Add([]byte("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := NewAuthority(time.Now())
		if err != nil {
			t.Fatal(err)
		}
		o := &recorder{}
		g, err := Open(a, o, Limits{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = g.Close() }()
		c, err := net.Dial("tcp", addr(g))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, _ = c.Write(b)
		_ = c.(*net.TCPConn).CloseWrite()
		_, _ = io.Copy(io.Discard, c)
		for _, r := range o.requests() {
			if r.URL.Host() == "" || !httptestMethod(r.Method) {
				t.Errorf("%+v", r)
			}
		}
	})
}

func httptestMethod(s string) bool {
	defer func() { _ = recover() }()
	return httptest.NewRequest(s, "/", nil).Method == s
}
