package admin

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testclock"
)

// certificate returns a self-signed certificate for a name.
func certificate(t *testing.T, name string) *tls.Certificate {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	der := must.Get(x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(1),
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{name}},
		&x509.Certificate{SerialNumber: big.NewInt(1)}, &key.PublicKey, key))(t)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// A caller sends requests to the handler of a server, from any address.
type caller struct {
	t *testing.T
	h http.Handler
}

func newCaller(t *testing.T, cert *tls.Certificate, clock clock.Clock) caller {
	t.Helper()
	cfg := Config{Token: "secret", ReaderToken: "look", Cert: cert, Operator: operator{}, Clock: clock,
		Ready: func() bool { return true }, Metrics: prometheus.NewRegistry(),
		Console: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "page") })}
	g := must.Get(newGate(cfg))(t)
	return caller{t, handler(cfg, g, t.Context())}
}

// send sends a request with headers, each "Name: value".
func (c caller) send(from, method, url, body string, headers ...string) *http.Response {
	r := httptest.NewRequest(method, url, strings.NewReader(body))
	r.RemoteAddr = from
	r.Header.Set("Content-Type", "application/json")
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	c.h.ServeHTTP(w, r)
	return w.Result()
}

const (
	service = "/orbweaver.operator.v1.Operator/"
	ours    = "127.0.0.1:5000"
)

// A page of a foreign name that resolves to the server cannot call it.
func TestHost(t *testing.T) {
	plain, secure := newCaller(t, nil, nil), newCaller(t, certificate(t, "crawl.example"), nil)
	for host, want := range map[string][2]int{
		"127.0.0.1:7480": {200, 200}, "[::1]:7480": {200, 200}, "192.0.2.1": {200, 200}, "localhost:7480": {200, 200},
		"LOCALHOST": {200, 200}, "crawl.example": {421, 200}, "crawl.example:7480": {421, 200},
		"evil.example":           {421, 421},
		"localhost.evil.example": {421, 421}, "127.0.0.1.evil.example": {421, 421}, "": {421, 421},
	} {
		for i, c := range []caller{plain, secure} {
			for path, want := range map[string]int{"/": want[i], service + "Status": want[i], "/healthz": 200} {
				method := "GET"
				if strings.HasSuffix(path, "Status") {
					method = "POST"
				}
				r := httptest.NewRequest(method, "http://x"+path, strings.NewReader("{}"))
				r.Host, r.RemoteAddr = host, ours
				r.Header.Set("Authorization", "Bearer secret")
				r.Header.Set("Content-Type", "application/json")
				w := httptest.NewRecorder()
				c.h.ServeHTTP(w, r)
				if w.Code != want {
					t.Errorf("TLS %t, Host %q, %s: %d, want %d", i == 1, host, path, w.Code, want)
				}
			}
		}
	}
}

// A reader may only make calls that change nothing. The .proto file says which these are.
func TestReader(t *testing.T) {
	c := newCaller(t, nil, nil)
	if len(changing) < 10 || changing[service+"Status"] || !changing[service+"Stop"] || !changing[service+"TakeBack"] {
		t.Fatalf("calls that change something: %v", changing)
	}
	for path, does := range changing {
		if streaming[path] {
			continue
		}
		want := 501
		if does {
			want = 403
		}
		if strings.HasSuffix(path, "/Status") {
			want = 200
		}
		res := c.send(ours, "POST", "http://localhost"+path, "{}", "Authorization: Bearer look")
		text, _ := io.ReadAll(res.Body)
		if res.StatusCode != want || does && !strings.Contains(string(text), `"permission_denied"`) {
			t.Errorf("%s: %s, %s", path, res.Status, text)
		}
		if does && path != pagesPath { // a recorder has no deadlines, which that call sets
			res := c.send(ours, "POST", "http://localhost"+path, "{}", "Authorization: Bearer secret")
			if res.StatusCode != 501 {
				t.Errorf("%s with the operator's token: %s", path, res.Status)
			}
		}
	}
	for _, path := range []string{"/metrics", "/settings"} {
		res := c.send(ours, "GET", "http://localhost"+path, "", "Authorization: Bearer look")
		if res.StatusCode != 200 {
			t.Errorf("%s: %s", path, res.Status)
		}
	}
}

// A browser logs in with a token, and calls with its cookie.
func TestSession(t *testing.T) {
	for _, secure := range []bool{false, true} {
		cert, url := (*tls.Certificate)(nil), "http://localhost"
		if secure {
			cert, url = certificate(t, "localhost"), "https://localhost"
		}
		c := newCaller(t, cert, nil)
		status := func(cookie string, headers ...string) int {
			return c.send(ours, "POST", url+service+"Status", "{}", append(headers, "Cookie: "+cookie)...).StatusCode
		}
		for token, role := range map[string]string{"secret": "operator", " look ": "reader"} {
			res := c.send(ours, "POST", url+"/session", `{"token": "`+token+`"}`)
			text, _ := io.ReadAll(res.Body)
			if res.StatusCode != 200 || string(text) != `{"role":"`+role+"\"}\n" {
				t.Fatalf("log in: %s, %s", res.Status, text)
			}
			set := res.Header.Get("Set-Cookie")
			cookie, rest, _ := strings.Cut(set, ";")
			wanted := " Path=/; HttpOnly; SameSite=Strict"
			if secure {
				wanted = " Path=/; HttpOnly; Secure; SameSite=Strict"
			}
			if rest != wanted || strings.Contains(cookie, strings.TrimSpace(token)) ||
				strings.HasPrefix(cookie, "__Host-") != secure {
				t.Errorf("the cookie is %s", set)
			}
			if n := status(cookie, "Sec-Fetch-Site: same-origin"); n != 200 {
				t.Errorf("a call with the cookie: %d", n)
			}
			for _, h := range []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site",
				"Origin: http://127.0.0.1:9999"} {
				if n := status(cookie, h); n != 403 {
					t.Errorf("a call of a foreign page, %s: %d", h, n)
				}
				if res := c.send(ours, "POST", url+"/session", `{"token": "secret"}`, h); res.StatusCode != 403 {
					t.Errorf("a log-in of a foreign page, %s: %s", h, res.Status)
				}
			}
			if n := status(cookie[:len(cookie)-1] + "!"); n != 401 {
				t.Errorf("a call with another cookie: %d", n)
			}
			stop := c.send(ours, "POST", url+service+"Stop", "{}", "Cookie: "+cookie).StatusCode
			if want := map[string]int{"operator": 501, "reader": 403}[role]; stop != want {
				t.Errorf("%s stops: %d", role, stop)
			}
			got := c.send(ours, "GET", url+"/session", "", "Cookie: "+cookie)
			if text, _ := io.ReadAll(got.Body); string(text) != `{"role":"`+role+"\"}\n" {
				t.Errorf("the session is %s", text)
			}
			out := c.send(ours, "DELETE", url+"/session", "", "Cookie: "+cookie)
			if set := out.Header.Get("Set-Cookie"); out.StatusCode != 200 || !strings.Contains(set, "Max-Age=0") {
				t.Errorf("log out: %s, %s", out.Status, set)
			}
		}
		for body, want := range map[string]int{`{"token": "wrong"}`: 401, `{}`: 401, `x`: 400} {
			res := c.send(ours, "POST", url+"/session", body)
			if res.StatusCode != want || res.Header.Get("Set-Cookie") != "" {
				t.Errorf("log in with %s: %s, %s", body, res.Status, res.Header)
			}
		}
		if res := c.send(ours, "PUT", url+"/session", ""); res.StatusCode != 405 {
			t.Errorf("PUT: %s", res.Status)
		}
	}
}

// Wrong tokens are limited by address. On loopback a right token is accepted all the same.
func TestWrongTokens(t *testing.T) {
	at := time.Unix(1e9, 0)
	c := newCaller(t, certificate(t, "localhost"), testclock.Func(func() time.Time { return at }))
	try := func(from, token string) int {
		return c.send(from, "POST", "https://localhost"+service+"Status", "{}",
			"Authorization: Bearer "+token).StatusCode
	}
	for _, from := range []string{"127.0.0.1:1", "192.0.2.1:1", "[2001:db8::1]:1"} {
		for i := range wrongMost {
			if n := try(from, "wrong"); n != 401 {
				t.Fatalf("%s, token %d: %d", from, i, n)
			}
		}
		if n := try(from, "wrong"); n != 429 {
			t.Errorf("%s, one more: %d", from, n)
		}
	}
	ask := func() int {
		return c.send("192.0.2.9:1", "GET", "https://localhost/session", "", "Authorization: Bearer wrong").StatusCode
	}
	for range wrongMost {
		ask()
	}
	if n := ask(); n != 429 {
		t.Errorf("a wrong token for /session, once more: %d", n)
	}
	login := func(from string) int {
		return c.send(from, "POST", "https://localhost/session", `{"token": "secret"}`).StatusCode
	}
	for from, want := range map[string]int{"127.0.0.1:2": 200, "192.0.2.1:2": 429, "192.0.2.2:2": 200,
		"[2001:db8::2]:1": 429, "[2001:db8:0:1::1]:1": 200} {
		if n := try(from, "secret"); n != want {
			t.Errorf("%s, the right token: %d, want %d", from, n, want)
		}
		if n := login(from); n != want {
			t.Errorf("%s, log in: %d, want %d", from, n, want)
		}
	}
	if at = at.Add(wrongTime); try("192.0.2.1:3", "secret") != 200 {
		t.Error("the limit lasts longer than wrongTime")
	}
	w := wrongs{clock: testclock.Func(func() time.Time { return at }), by: map[netip.Prefix]*wrongCount{}}
	for i := range 3 * wrongAddrs {
		a := netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})
		w.add(netip.PrefixFrom(a, 32))
	}
	if len(w.by) > wrongAddrs {
		t.Errorf("%d addresses are counted", len(w.by))
	}
}

// A browser keeps its logins at several agents of one machine apart, and those through several tunnels.
func TestCookiePorts(t *testing.T) {
	for _, cert := range []*tls.Certificate{nil, certificate(t, "localhost")} {
		c := newCaller(t, cert, nil)
		var names []string
		var both []string
		for _, host := range []string{"localhost:7481", "localhost:7482", "localhost", "[::1]:7483"} {
			res := c.send(ours, "POST", "http://"+host+"/session", `{"token":"secret"}`, "Sec-Fetch-Site: same-origin")
			cookie, _, _ := strings.Cut(res.Header.Get("Set-Cookie"), ";")
			name, _, _ := strings.Cut(cookie, "=")
			names, both = append(names, name), append(both, cookie)
		}
		if names[0] == names[1] || names[0] == names[2] || !strings.HasSuffix(names[1], "orbweaver-7482") ||
			!strings.HasSuffix(names[2], "orbweaver") || !strings.HasSuffix(names[3], "orbweaver-7483") {
			t.Errorf("the cookies are %q", names)
		}
		for host, want := range map[string]int{"localhost:7482": 200, "localhost:7483": 401} {
			res := c.send(ours, "POST", "http://"+host+service+"Status", "{}", "Cookie: "+strings.Join(both[:2], "; "),
				"Sec-Fetch-Site: same-origin")
			if res.StatusCode != want {
				t.Errorf("%s: %s, want %d", host, res.Status, want)
			}
		}
	}
}

// With a cookie, a request of a foreign page is refused, whatever its method: a browser sends the cookie to all ports
// of a machine. With a token, the method and the headers do not matter.
func TestCookieOfForeignPage(t *testing.T) {
	c := newCaller(t, nil, nil)
	const at = "http://127.0.0.1:7480"
	res := c.send(ours, "POST", at+"/session", `{"token":"secret"}`, "Sec-Fetch-Site: same-origin")
	cookie, _, _ := strings.Cut(res.Header.Get("Set-Cookie"), ";")
	const ask = service + "Status?encoding=json&message=%7B%7D&connect=v1"
	for _, path := range []string{ask, "/metrics", "/session"} {
		for header, want := range map[string]int{
			"Sec-Fetch-Site: same-origin": 200, "Sec-Fetch-Site: none": 200, "Sec-Fetch-Site: same-site": 403,
			"Sec-Fetch-Site: cross-site": 403, "Sec-Fetch-Site: new": 403, "X: an old browser": 403,
		} {
			if path == "/session" && strings.HasPrefix(header, "X") {
				want = 200 // it tells the role alone, to which no foreign page can listen
			}
			if got := c.send(ours, "GET", at+path, "", "Cookie: "+cookie, header).StatusCode; got != want {
				t.Errorf("GET %s, %s: %d, want %d", path, header, got, want)
			}
			if path != "/session" {
				res := c.send(ours, "GET", at+path, "", "Authorization: Bearer secret", header)
				if res.StatusCode != 200 {
					t.Errorf("GET %s with a token, %s: %s", path, header, res.Status)
				}
			}
		}
	}
	for header, want := range map[string]int{"Origin: " + at: 200, "Origin: http://127.0.0.1:7481": 403, "X: y": 200} {
		if got := c.send(ours, "POST", at+service+"Status", "{}", "Cookie: "+cookie, header).StatusCode; got != want {
			t.Errorf("POST of an old browser, %s: %d, want %d", header, got, want)
		}
	}
}
