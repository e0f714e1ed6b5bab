package cookie

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// soon is an expiry that net/http/cookiejar, which reads the machine's clock, takes for the future.
var soon = time.Now().Add(24 * time.Hour)

func TestJar(t *testing.T) {
	for _, tt := range []struct {
		name string
		sets []string // "URL Set-Cookie"
		want []string // "URL Cookie"
	}{
		{"host", []string{"http://a.example/ x=1"},
			[]string{"http://a.example/b x=1", "https://a.example:8443/ x=1", "http://www.a.example/ ",
				"http://b.example/ "}},
		{"domain", []string{"http://www.a.example/ x=1; Domain=a.example"},
			[]string{"http://a.example/ x=1", "http://b.a.example/ x=1", "http://anexample/ "}},
		{"foreign domain", []string{"http://a.example/ x=1; Domain=b.example"}, []string{"http://b.example/ "}},
		{"public suffix", []string{"http://a.co.uk/ x=1; Domain=co.uk"},
			[]string{"http://b.co.uk/ ", "http://a.co.uk/ "}},
		{"part of an address", []string{"http://127.0.0.1/ x=1; Domain=0.0.1"}, []string{"http://127.0.0.1/ "}},
		{"address", []string{"http://127.0.0.1/ x=1", "http://[::1]/ y=2"},
			[]string{"http://127.0.0.1:80/ x=1", "http://[::1]:8080/ y=2"}},
		{"path", []string{"http://a.example/d/e x=1", "http://a.example/ y=2; Path=/d/"},
			[]string{"http://a.example/ ", "http://a.example/d/ y=2; x=1", "http://a.example/da "}},
		{"secure", []string{"https://a.example/ x=1; Secure", "http://a.example/ y=2; Secure"},
			[]string{"http://a.example/ ", "https://a.example/ x=1"}},
		{"secure, of this machine", []string{"https://localhost/ x=1; Secure", "https://127.0.0.1/ y=1; Secure"},
			[]string{"http://localhost:8080/ x=1", "http://127.0.0.1/ y=1", "http://127.0.0.2/ "}},
		{"a secure cookie stays", []string{"https://a.example/ x=1; Secure", "http://a.example/ x=2"},
			[]string{"http://a.example/ ", "https://a.example/ x=1"}},
		{"prefixes", []string{"https://a.example/ __Host-x=1; Secure; Path=/", "https://a.example/ __Host-y=1; Path=/",
			"http://a.example/ __Secure-z=1; Secure",
			"https://a.example/ __Host-z=1; Secure; Path=/; Domain=a.example"},
			[]string{"https://a.example/ __Host-x=1"}},
		{"replaced and deleted", []string{"http://a.example/ x=1", "http://a.example/ y=1", "http://a.example/ x=2",
			"http://a.example/ y=; Max-Age=0"}, []string{"http://a.example/ x=2"}},
		{"too long", []string{"http://a.example/ x=" + strings.Repeat("y", 5000)}, []string{"http://a.example/ "}},
		{"not a cookie", []string{"http://a.example/ x\r\ny=1", "http://a.example/ =1", "http://a.example/ "},
			[]string{"http://a.example/ "}},
	} {
		j := New(0)
		for _, s := range tt.sets {
			u, field, _ := strings.Cut(s, " ")
			j.Learn(weburl.MustParse(u), []string{field}, now)
		}
		for _, w := range tt.want {
			u, want, _ := strings.Cut(w, " ")
			if got := j.Field(weburl.MustParse(u)); got != want {
				t.Errorf("%s: %s gets %q, want %q", tt.name, u, got, want)
			}
		}
	}
}

// Set-Cookie is read as browsers and curl do, which are more permissive than the grammar for servers.
func TestParse(t *testing.T) {
	in := func(d time.Duration) string { return time.Now().Add(d).UTC().Format("02-Jan-06 15:04:05") }
	for set, want := range map[string]string{
		`json={"lang":"en","n":1}`: `json={"lang":"en","n":1}`,
		`quo=a"b`:                  `quo=a"b`,
		`quoted="a b"`:             `quoted="a b"`,
		`back=a\b`:                 `back=a\b`,
		"name[0]=x":                "name[0]=x",
		"a@b=x":                    "a@b=x",
		"(p)=1":                    "(p)=1",
		"lead= \t v \t;Path=/":     "lead=v",
		"eq=a=b==":                 "eq=a=b==",
		"two words=1, 2":           "two words=1, 2",
		"city=München":             "city=München",
		"latin=M\xfcnchen":         "latin=M\xfcnchen",
		"tab=a\tb":                 "tab=a\tb",
		"empty=":                   "empty=",
		"=x":                       "",
		"x":                        "",
		"":                         "",
		"ctl=a\x01b":               "",
		"del=a\x7fb":               "",
		"x=1; path=/other":         "",
		"x=1; PATH = / ":           "x=1",
		"x=1; Path=other":          "x=1", // the default path
		"x=1; Path=/other; Path=/": "x=1", // the last one
		"x=1; Domain=.A.example":   "x=1",
		"x=1; Domain=":             "x=1",
		"x=1; Domain=b.example":    "",
		"x=1; Max-Age=0":           "",
		"x=1; Max-Age=-5":          "",
		"x=1; Max-Age=99999999999": "x=1",
		"x=1; Max-Age=1x":          "x=1",
		"x=1; Max-Age=60; Expires=Thu, 01 Jan 1970 00:00:00 GMT": "x=1",
		"x=1; Expires=Thu, 01 Jan 1970 00:00:00 GMT":             "",
		"x=1; expires=Thu 01-jan-70 0:0:00":                      "",
		"x=1; Expires=1970 January 1st 00:00:00":                 "",
		"x=1; Expires=" + in(-48*time.Hour):                      "",
		"x=1; Expires=" + in(48*time.Hour):                       "x=1",
		"x=1; Expires=yesterday":                                 "x=1",
		"x=1; Expires=Thu, 31 Feb 1970 00:00:00 GMT":             "x=1",
		"x=1; Secure; HttpOnly; SameSite=Strict; foo":            "",
	} {
		j := New(0)
		u := weburl.MustParse("http://a.example/")
		j.Learn(u, []string{set}, now)
		if got := j.Field(u); got != want {
			t.Errorf("%q: the request has %q, want %q", set, got, want)
		}
	}
	j := New(0)
	j.Learn(weburl.MustParse("http://www.xn--bcher-kva.example/"), []string{"x=1; Domain=bücher.example"}, now)
	if got := j.Field(weburl.MustParse("http://xn--bcher-kva.example/")); got != "x=1" {
		t.Errorf("a domain in Unicode: %q", got)
	}
}

// The cookies of a registered domain and of all are bounded. Those of a file stay.
func TestBounds(t *testing.T) {
	const most = 1 << 20
	j := New(most)
	must.Get(j.Load("c", []byte("a.example\tFALSE\t/\tFALSE\t0\tlogin\tme\n"), now))(t)
	a := weburl.MustParse("http://a.example/")
	for i := range 1000 {
		j.Learn(a, []string{fmt.Sprintf("n%d=1", i)}, now)
	}
	f := j.Field(a)
	if n := strings.Count(f, "="); n != siteCookies || !strings.HasPrefix(f, "login=me; n821=1; ") {
		t.Errorf("%d cookies: %.50s", n, f)
	}
	long := strings.Repeat("v", 4000)
	for i := range 100 {
		j.Learn(a, []string{fmt.Sprintf("n%d=%s", i, long)}, now)
	}
	if f := j.Field(a); len(f) > maxField {
		t.Errorf("a field of %d bytes", len(f))
	}
	for i := range 1000 {
		j.Learn(weburl.MustParse(fmt.Sprintf("http://h%d.example/", i)), []string{"x=" + long}, now)
		if j.bytes > most {
			t.Fatalf("%d bytes of at most %d", j.bytes, most)
		}
	}
	var sum int64
	for _, e := range j.sites {
		s := e.Value.(*site)
		var own int64 = siteOverhead
		for _, k := range s.known {
			own += k.bytes
		}
		if own != s.bytes {
			t.Fatalf("%s: %d bytes, counted %d", s.name, own, s.bytes)
		}
		sum += own
	}
	if sum != j.bytes || len(j.sites) != j.order.Len() || len(j.sites) > 300 {
		t.Errorf("%d bytes, counted %d; %d sites and %d", sum, j.bytes, len(j.sites), j.order.Len())
	}
	first, last := weburl.MustParse("http://h0.example/"), weburl.MustParse("http://h999.example/")
	if j.Field(last) == "" || j.Field(first) != "" {
		t.Error("the newest site went before the oldest")
	}
	if !strings.HasPrefix(j.Field(a), "login=me") {
		t.Error("the cookie of the file went")
	}
}

func TestLoad(t *testing.T) {
	file := fmt.Sprintf(`# Netscape HTTP Cookie File
# https://curl.se/docs/http-cookies.html

.a.example	TRUE	/	TRUE	%d	session	s3cret
#HttpOnly_www.a.example	FALSE	/private	FALSE	0	token	"q"
b.example	FALSE	/	FALSE	1000000000	old	x
b.example	FALSE	/	FALSE	0	empty
127.0.0.1	TRUE	/	FALSE	0	local	1
.c.example	TRUE	/	FALSE	0	name[0]	{"a":"b, c"}
.c.example	TRUE	/	FALSE	0	no=name	x
.c.example	TRUE	/	FALSE	0	city	München
odd line
`, soon.Unix())
	j := New(0)
	l, err := j.Load("cookies.txt", []byte("\ufeff"+strings.ReplaceAll(file, "\n", "\r\n")), now)
	if l.Cookies != 6 || l.Expired != 1 || err != nil || fmt.Sprint(l.Skipped) != "[cookies.txt, line 10: field 6 "+
		`(name) "no=name" is empty, or has a character that no cookie's name has `+
		"cookies.txt, line 12: 1 of 7 fields, with tabs between them; export the cookies again]" {
		t.Fatalf("%+v, %v", l, err)
	}
	for u, want := range map[string]string{
		"https://a.example/":            "session=s3cret",
		"http://a.example/":             "",
		"https://x.a.example/":          "session=s3cret",
		"https://www.a.example/private": `token="q"; session=s3cret`,
		"http://www.a.example/private":  `token="q"`,
		"http://b.example/":             "empty=",
		"http://127.0.0.1/":             "local=1",
		"http://c.example/":             `name[0]={"a":"b, c"}; city=München`,
		"http://d.example/":             "",
	} {
		if got := j.Field(weburl.MustParse(u)); got != want {
			t.Errorf("%s gets %q, want %q", u, got, want)
		}
	}
}

func TestLoadMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"":                                         "cookies.txt has no cookies; export them in the Netscape format",
		`[{"name": "s3cret"}]`:                     "cookies.txt is JSON; export the cookies in the Netscape format",
		"a.example FALSE / FALSE 0 x s3cret":       "line 1: the fields are separated by blanks; they must be",
		"\na.example\tFALSE\ts3cret":               "line 2: 3 of 7 fields",
		"a.example\tYES\t/\tFALSE\t0\tx\ts3cret":   "field 2 (all hosts of the domain) is neither TRUE nor FALSE",
		"a.example\tTRUE\t/\tNO\t0\tx\ts3cret":     "field 4 (https only) is neither TRUE nor FALSE",
		"a.example\tTRUE\t/\tFALSE\tx\tx\ts3cret":  "field 5 (expiry) is not a number",
		"a b\tTRUE\t/\tFALSE\t0\tx\ts3cret":        `field 1 (domain) "a b" is not a host`,
		"a.example/\tTRUE\t/\tFALSE\t0\tx\ts3cret": "field 1 (domain)",
		"a.example\tTRUE\tx\tFALSE\t0\tx\ts3cret":  `field 3 (path) "x" does not begin with /`,
		"a.example\tTRUE\t/\tFALSE\t0\t\ts3cret":   "field 6 (name)",
		"a.example\tTRUE\t/\tFALSE\t0\tx\ts3cret;": "field 7 (value) of x has a character",
		"a.example\tTRUE\t/\tFALSE\t5\tx\ts3cret":  "no cookie is left: 1 cookie has expired; log in with a browser",
		"co.uk\tTRUE\t/\tFALSE\t0\t__Host-x\ty":    "the cookie __Host-x is not allowed for co.uk",
	} {
		_, err := New(0).Load("cookies.txt", []byte(text), now)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// FuzzJar checks that no server breaks the line of a request or the bounds.
func FuzzJar(f *testing.F) {
	f.Add("x=1; Domain=a.example; Path=/a", "a.example\tTRUE\t/\tFALSE\t0\tx\ty")
	f.Add("__Host-x=\"1\"; Secure", "#HttpOnly_.a.example\tFALSE\t/\tTRUE\t2e9\tx\t")
	f.Fuzz(func(t *testing.T, set, file string) {
		j := New(0)
		u := weburl.MustParse("https://www.a.example/a/b")
		j.Load("file", []byte(file), now)
		j.Learn(u, []string{set, set + "x"}, now)
		field := j.Field(u)
		if hasControl(field) || len(field) > maxField {
			t.Errorf("%q", field)
		}
		if j.Field(weburl.MustParse("https://other.example/")) != "" && !strings.Contains(file, "other.example") {
			t.Error("another domain gets the cookie")
		}
	})
}
