package walk

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testneed"
	"github.com/orbweaver/orbweaver/internal/testweb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func serving(t testing.TB, cfg testweb.Config) (*testweb.Web, *x509.CertPool) {
	t.Helper()
	w := must.Get(testweb.New(cfg))(t)
	stop := w.Start()
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(w.CAPEM())
	return w, pool
}

func TestWalk(t *testing.T) {
	a := map[string]string{
		"/": `<a href=" /one "><a href="dir/../two?x=1#frag"><area href="/area"><link rel=canonical href="https://a.example/canon">
			<link rel=search href=/search><link rel=unheard-of href=/unheard><link rel="next prefetch" href=/both>
			<link href=/bare><link rel=preconnect href=/hint><link rel="Apple-Touch-Icon" href=/icon.png>
			<link rel=EditURI href=/rsd><link rel=https://api.w.org/ href=/wp-json><link rel="canonical profile" href=/bare>
			<link rel=alternate type=application/json+oembed href=/oembed><link rel=alternate type=application/feed+json href=/feed.json>
			<iframe src=/unused srcdoc="<base href='/in/'><a href=srcdoc>"></iframe>
			<link rel=touch-icon href=/touch.png><link rel=image_src href=/image.png>
			<link rel=stylesheet href=/style.css><link rel="alternate stylesheet" href=/alt.css><iframe src=/frame></iframe>
			<a rel="external nofollow" href=/not><a href="\back\slash"><a href="/private/x"><a href="/private/ok">
			<a href=mailto:x@y><a href="http://elsewhere.example/"><a href="//b.example"><noscript><a href=/noscript></noscript>
			<template><a href=/template></template><svg><a xlink:href=/svg></a></svg><a href="/feed.xml"><a href="/drawing.svg"><img src=/img>`,
		"/one":        `<meta name=robots content="noindex, nofollow"><a href=/hidden>`,
		"/two?x=1":    `<meta http-equiv=refresh content="0; url=/refreshed">`,
		"/canon":      "same",
		"/bare":       "",
		"/frame":      `<base href="https://a.example/deep/er/"><a href=../based>`,
		"/back/slash": "->/landed",
		"/landed":     "",
		"/refreshed":  "->http://elsewhere.example/away",
		"/private/ok": "open",
		"/feed.xml": "<rss><channel><link>https://a.example/</link><item><link> https://a.example/item </link>" +
			"</item></channel></rss>",
		"/drawing.svg": `<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"><a xlink:href="/drawn"/></svg>`,
	}
	w, pool := serving(t, testweb.Config{Sites: []testweb.Site{
		{Host: "a.example", Handler: testweb.Pages(a),
			Robots: "User-agent: *\nDisallow: /private\nAllow: /private/ok$\n"},
		{Host: "b.example", Handler: testweb.Pages(map[string]string{"/": "<a href=https://a.example/from-b>"})},
		{Host: "elsewhere.example", Handler: http.NotFoundHandler()}}})
	res := must.Get(Walk(context.Background(), Config{Seeds: []string{"https://a.example"},
		DialContext: w.DialContext, RootCAs: pool,
		Scope: func(u *url.URL) bool { return u.Hostname() != "elsewhere.example" }}))(t)
	var got []string
	for u := range res.Pages {
		got = append(got, strings.TrimPrefix(u, "https://a.example"))
	}
	slices.Sort(got)
	want := strings.Fields(
		`/ /area /back/slash /bare /both /canon /deep/based /drawing.svg /drawn /feed.json /feed.xml /frame /from-b
		/in/srcdoc /item /landed /noscript /one /private/ok /refreshed /search /svg /two?x=1 /unheard https://b.example/`)
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if !res.Denied["https://a.example/private/x"] || len(res.Denied) != 1 {
		t.Errorf("denied: got %v", res.Denied)
	}
	for u, want := range map[string]Fetched{
		"https://a.example/back/slash": {Status: 302, Location: "https://a.example/landed", Depth: 1},
		"https://a.example/area":       {Status: 404, Depth: 1},
		"https://a.example/canon": {Status: 200, Bytes: 4,
			Digest: "a1c96e74ae7ac8d43b5e8e0f27e80bdc1a9b3dd5", Depth: 1},
	} {
		p := res.Pages[u]
		if p.Status != want.Status || p.Location != want.Location || p.Depth != want.Depth ||
			want.Bytes > 0 && p.Bytes != want.Bytes {
			t.Errorf("%s: got %+v", u, p)
		}
	}
	if !w.WaitIdle(time.Minute) {
		t.Fatal("a request has not ended after the walk")
	}
	r := w.Report()
	if r.ViolationCount["robots"] != 0 || r.Repeated != 0 {
		t.Errorf("got %v, twice %v", r.Violations, r.Twice)
	}
	if n := len(w.Fetched()); n != len(want)+2 { // the two are robots.txt
		t.Errorf("the server saw %d URLs, want %d", n, len(want)+2)
	}
	if _, err := Walk(context.Background(), Config{Seeds: []string{"https://a.example"}, MaxPages: 3,
		DialContext: w.DialContext, RootCAs: pool}); err == nil {
		t.Error("over MaxPages: no error")
	}
}

func TestLateCharset(t *testing.T) {
	far := strings.Repeat(" ", 1100)
	for _, tt := range []struct{ ctype, body, want string }{
		{"text/html", far + "<meta charset=windows-1251><a href='\xe4'>", "/%D0%B4"},
		{"text/html", far + "<meta http-equiv=content-type content='text/html; charset=koi8-r'><a href='\xc4'>",
			"/%D0%B4"},
		{"text/html; charset=windows-1252", far + "<meta charset=windows-1251><a href='\xe4'>", "/%C3%A4"},
		{"text/html", "<meta charset=windows-1252>" + far + "<meta charset=windows-1251><a href='\xe4'>", "/%C3%A4"},
	} {
		got := links("http://a.example/", http.Header{"Content-Type": {tt.ctype}}, []byte(tt.body))
		if len(got) != 1 || got[0] != "http://a.example"+tt.want {
			t.Errorf("%s %q: got %q, want %s", tt.ctype, strings.TrimSpace(tt.body), got, tt.want)
		}
	}
}

// TestResolveAgainstStandard runs the tests of the URL standard that concern http and https.
func TestResolveAgainstStandard(t *testing.T) {
	b, err := os.ReadFile("../../../../shared/data/url/urltestdata.json")
	if err != nil {
		testneed.Missing(t, err)
	}
	var raw []json.RawMessage
	must.Do(t, json.Unmarshal(b, &raw))
	n, odd := 0, 0
	for _, m := range raw {
		var c struct {
			Input, Base, Href string
			Failure           bool
		}
		if m[0] == '"' || json.Unmarshal(m, &c) != nil {
			continue
		}
		if c.Failure || !strings.HasPrefix(c.Href, "http") || c.Base != "" && !strings.HasPrefix(c.Base, "http") {
			continue
		}
		base, ok := "", true
		if c.Base != "" {
			if base, ok = Resolve("", c.Base); !ok {
				continue
			}
		}
		n++
		want, _ := Resolve("", c.Href) // converts it to normal form
		if got, ok := Resolve(base, c.Input); !ok || got != want {
			if odd++; ok && pathOf(got) == pathOf(want) {
				continue
			}
			host, _, _ := strings.Cut(strings.TrimPrefix(c.Href, "http://"), "/")
			if ok || want != "" && !strings.ContainsAny(host, "!") {
				t.Errorf("%q on %q: got %q, want %q", c.Input, c.Base, got, want)
			}
		}
	}
	// The remaining differences are unusual spellings of IP addresses, and useless host names. No documentation links
	// to such URLs.
	if n < 240 || odd > 28 {
		t.Errorf("%d of %d differ, want at most 28 of at least 240", odd, n)
	}
}
