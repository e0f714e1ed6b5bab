package weburl

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/idna"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testneed"
)

func TestCanonical(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"HTTP://Example.COM", "http://example.com/"},
		{" \t\nhttp://example.com/a\r\nb ", "http://example.com/ab"},
		{"http:\\\\example.com\\a\\b?c\\d", "http://example.com/a/b?c\\d"},
		{"https:example.com", "https://example.com/"},
		{"http://example.com:80/", "http://example.com/"},
		{"https://example.com:80/", "https://example.com:80/"},
		{"https://example.com:0443/", "https://example.com/"},
		{"http://example.com:", "http://example.com/"},
		{"http://user:secret@example.com/", "http://example.com/"},
		{"http://a@b@example.com/", "http://example.com/"},
		{"http://example.com./a", "http://example.com/a"},
		{"http://B\u00dccher.de/", "http://xn--bcher-kva.de/"},
		{"http://%62%C3%BCcher.de/", "http://xn--bcher-kva.de/"},
		{"http://fa\u00df.de/", "http://xn--fa-hia.de/"},
		{"http://XN--bcher-KVA.de/", "http://xn--bcher-kva.de/"},
		{"http://example\u3002com/", "http://example.com/"},
		{"http://r3---sn-a.example.com/", "http://r3---sn-a.example.com/"},
		{"http://a_b.example.com/", "http://a_b.example.com/"},
		{"http://0x7f.1/", "http://127.0.0.1/"},
		{"http://2130706433/", "http://127.0.0.1/"},
		{"http://017700000001./", "http://127.0.0.1/"},
		{"http://[0:0::1]:8080/", "http://[::1]:8080/"},
		{"http://[::FFFF:1.2.3.4]/", "http://[::ffff:102:304]/"},
		{"http://[1:0:0:2:0:0:0:3]/", "http://[1:0:0:2::3]/"},
		{"http://[1:2:3:4:5:6:7::]/", "http://[1:2:3:4:5:6:7:0]/"},
		{"http://[::2:3:4:5:6:7:8]/", "http://[0:2:3:4:5:6:7:8]/"},
		{"http://[1:2:3:4:5::0.7.0.8]/", "http://[1:2:3:4:5:0:7:8]/"},
		{"http://example.com?q", "http://example.com/?q"},
		{"http://example.com/?", "http://example.com/?"},
		{"http://example.com/#", "http://example.com/"},
		{"http://example.com/a#b?c", "http://example.com/a"},
		{"http://example.com/a/./b/../%2e%2E/c/.", "http://example.com/c/"},
		{"http://example.com/../../a/..", "http://example.com/"},
		{"http://example.com/a//../b", "http://example.com/a/b"},
		{"http://example.com/.../....", "http://example.com/.../...."},
		{"http://example.com//a//", "http://example.com//a//"},
		{"http://example.com/%41%7e%2d%5F", "http://example.com/A~-_"},
		{"http://example.com/?%41=%7e", "http://example.com/?A=~"},
		{"http://example.com/%2f%3f%23%25", "http://example.com/%2F%3F%23%25"},
		{"http://example.com/\u00e9 \"<>`{}^|[]", "http://example.com/%C3%A9%20%22%3C%3E%60%7B%7D%5E|[]"},
		{"http://example.com/?\u00e9 \"<>`{}^|[]'", "http://example.com/?%C3%A9%20%22%3C%3E`{}^|[]%27"},
		{"http://example.com/\xe9", "http://example.com/%E9"},
		{"http://example.com/100%", "http://example.com/100%"},
		{"http://example.com/%zz%4", "http://example.com/%zz%4"},
		{"http://example.com/%%34%31", "http://example.com/%%341"},
		{"http://example.com/%4%31", "http://example.com/%4%31"},
		{"http://example.com/%z%31", "http://example.com/%z1"},
		{"http://example.com/%/%34%31", "http://example.com/%/41"},
		{"http://example.com/Case?Case", "http://example.com/Case?Case"},
	} {
		got, err := Parse(c.in)
		if err != nil || got.String() != c.want {
			t.Errorf("%q: got %s, %v, want %s", c.in, got, err, c.want)
			continue
		}
		if again, err := Parse(c.want); err != nil || again != got {
			t.Errorf("%s: parsed again: got %s, %v", c.want, again, err)
		}
	}
}

func TestErrors(t *testing.T) {
	long := strings.Repeat("a", MaxParse)
	for _, c := range []struct {
		in   string
		want error
	}{
		{"", errRelative}, {"a/b", errRelative}, {"//example.com/", errRelative},
		{"mailto:a@b", ErrScheme}, {"javascript:void(0)", ErrScheme}, {"java\nscript:x", ErrScheme},
		{"data:text/plain," + long, ErrScheme},
		{"http://", errNoHost}, {"http://user@/", errNoHost}, {"http:///?a", errNoHost},
		{"http://:80/", errNoHost}, {"http://\u00ad/", errNoHost},
		{"http://a b/", errHostChar}, {"http://a%00b/", errHostChar}, {"http://a<b/", errHostChar},
		{"http://a%zz/", errHostChar},
		{"http://xn--\u00fc\u200d/", errDomain}, {"http://\xff\xfe/", errDomain}, {"http://%ff/", errDomain},
		{"http://1.2.3.256/", errIPv4}, {"http://1.2.3.4.5/", errIPv4}, {"http://a.0x1/", errIPv4},
		{"http://1..2/", errIPv4}, {"http://0x100000000/", errIPv4},
		{"http://[::1/", errIPv6}, {"http://[::1%25eth0]/", errIPv6}, {"http://[1:2:3:4:5:6:7]/", errIPv6},
		{"http://[1::2::3]/", errIPv6}, {"http://[::1.2.3]/", errIPv6}, {"http://[::01.2.3.4]/", errIPv6},
		{"http://[1:2:3:4:5:6:7:8:9]/", errIPv6}, {"http://[]/", errIPv6}, {"http://[1:2:3:4:5:6:7::8:9]/", errIPv6},
		{"http://[1:2:3:4::5:6:7:8]/", errIPv6}, {"http://[::1:2:3:4:5:6:7:8]/", errIPv6},
		{"http://[1:2:3:4:5:6:7:8::]/", errIPv6},
		{"http://[1:2:3:4::5:6:0.7.0.8]/", errIPv6},
		{"http://a:65536/", errPort}, {"http://a:8x/", errPort}, {"http://a:-1/", errPort},
		{"http://a..b/", errLabel}, {"http://.a/", errLabel}, {"http://./", errLabel},
		{"http://" + long[:64] + ".b/", errLabel},
		{"http://" + strings.Repeat("abcdefg.", 32) + "b/", errHostLong},
		{"http://" + strings.Repeat("\u00fc", 2000) + "/", errHostLong},
		{"http://a/" + long, ErrTooLong},
		{"http://a/" + strings.Repeat("\u00e9", MaxParse/4), ErrTooLong},
	} {
		got, err := Parse(c.in)
		if !errors.Is(err, c.want) || !got.IsZero() {
			t.Errorf("%.80q: got %s, %v, want %v", c.in, got, err, c.want)
		}
	}
}

func TestLength(t *testing.T) {
	in := "http://a/" + strings.Repeat("b", MaxParse-len("http://a/"))
	u, err := Parse(in)
	if err != nil || u.String() != in || len(u.Path()) != MaxParse-len("http://a") {
		t.Errorf("the longest URL: got %d octets of path, %v", len(u.Path()), err)
	}
	if _, err := u.Resolve(strings.Repeat("c/", 100) + "?" + in); !errors.Is(err, ErrTooLong) {
		t.Errorf("a URL that grows too long: got %v, want ErrTooLong", err)
	}
}

func TestParts(t *testing.T) {
	type parts struct {
		Scheme, Host, Port, Authority, Origin, RequestURI, Path, Query string
		HasQuery                                                       bool
		Site                                                           string
	}
	for _, c := range []struct {
		in   string
		want parts
	}{
		{"", parts{}},
		{"http://www.example.co.uk", parts{"http", "www.example.co.uk", "80", "www.example.co.uk",
			"http://www.example.co.uk", "/", "/", "", false, "example.co.uk"}},
		{"https://a.b.github.io:8443/x/y?z?", parts{"https", "a.b.github.io", "8443", "a.b.github.io:8443",
			"https://a.b.github.io:8443", "/x/y?z?", "/x/y", "z?", true, "b.github.io"}},
		{"https://[::1]/?", parts{"https", "[::1]", "443", "[::1]", "https://[::1]", "/?", "/", "", true, "[::1]"}},
		{"http://127.0.0.1:443/", parts{"http", "127.0.0.1", "443", "127.0.0.1:443",
			"http://127.0.0.1:443", "/", "/", "", false, "127.0.0.1"}},
		{"http://localhost/a", parts{"http", "localhost", "80", "localhost",
			"http://localhost", "/a", "/a", "", false, "localhost"}},
	} {
		var u URL
		if c.in != "" {
			u = MustParse(c.in)
		}
		q, ok := u.Query()
		got := parts{u.Scheme(), u.Host(), u.Port(), u.Authority(), u.Origin(), u.RequestURI(), u.Path(), q, ok,
			u.Site()}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.in, d)
		}
	}
}

func TestText(t *testing.T) {
	var u URL
	if err := u.UnmarshalText([]byte("HTTP://A.example#x")); err != nil || u != MustParse("http://a.example/") {
		t.Errorf("got %s, %v", u, err)
	}
	if err := u.UnmarshalText([]byte("ftp://a/")); !errors.Is(err, ErrScheme) ||
		!strings.Contains(err.Error(), "ftp://a/") {
		t.Errorf("got %v, want ErrScheme with the text", err)
	}
	if err := u.UnmarshalText(nil); err != nil || !u.IsZero() {
		t.Errorf("empty: got %s, %v", u, err)
	}
}

func TestSURT(t *testing.T) {
	b := must.Get(os.ReadFile(filepath.Join("testdata", "surt.tsv")))(t)
	for line := range strings.Lines(string(b)) {
		in, want, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if !ok {
			continue
		}
		u := MustParse(in)
		if u.String() != in && !strings.ContainsAny(in, "%") {
			t.Errorf("%s: the table must hold canonical URLs; the canonical form is %s", in, u)
		}
		if got := u.SURT(); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
	if got := (URL{}).SURT(); got != "-" {
		t.Errorf("zero URL: got %q, want -", got)
	}
}

// SURT gives the keys that the index lines of real archives have.
func TestSURTOfArchives(t *testing.T) {
	files, _ := filepath.Glob(filepath.Join("..", "..", "..", "..", "shared", "data", "warc", "pywb", "*.cdxj"))
	if len(files) == 0 {
		testneed.Missing(t, "shared test data")
	}
	line := regexp.MustCompile(`(?m)^(\S+) \d{14} .*?"url": "(https?:[^"]+)"`)
	n := 0
	for _, f := range files {
		b := must.Get(os.ReadFile(f))(t)
		for _, m := range line.FindAllSubmatch(b, -1) {
			want := string(m[1])
			if bytes.Contains(m[1], []byte("__wb_method")) {
				continue // pywb puts the body of a POST into the key
			}
			u, err := Parse(string(m[2]))
			if err != nil {
				t.Errorf("%s: %s: %v", f, m[2], err)
				continue
			}
			if got := u.SURT(); got != want {
				t.Errorf("%s: %s: got %s, want %s", filepath.Base(f), m[2], got, want)
			}
			n++
		}
	}
	if n < 150 {
		t.Errorf("compared %d lines, want 150 or more", n)
	}
}

// All lines agree: none needs a newer list than the one in golang.org/x/net.
func TestSite(t *testing.T) {
	line := regexp.MustCompile(`(?m)^checkPublicSuffix\('([^']*)', (?:null|'([^']*)')\);`)
	n := 0
	for _, m := range line.FindAllStringSubmatch(string(shared(t, "test_psl.txt")), -1) {
		in, want := m[1], m[2]
		if strings.HasPrefix(in, ".") {
			if _, err := Parse("http://" + in); err == nil {
				t.Errorf("%s: got a URL, want an error because a label is empty", in)
			}
			continue
		}
		u, err := Parse("http://" + in)
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		if want == "" {
			want = u.Host()
		} else if want, err = idna.ToASCII(want); err != nil {
			t.Fatal(err)
		}
		n++
		if got := u.Site(); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
	if n < 60 {
		t.Errorf("got %d lines, want 60 or more", n)
	}
}

func TestSiteSections(t *testing.T) {
	for _, c := range []struct{ host, site string }{
		{"alice.github.io", "alice.github.io"},
		{"x.alice.github.io", "alice.github.io"},
		{"github.io", "github.io"},
		{"www.example.co.uk", "example.co.uk"},
		{"a.b.c.kobe.jp", "b.c.kobe.jp"},
		{"x.city.kobe.jp", "city.kobe.jp"},
		{"bucket.s3.amazonaws.com", "bucket.s3.amazonaws.com"},
		{"co.uk", "co.uk"},
		{"www.host.unlisted", "host.unlisted"},
		{"localhost", "localhost"},
		{"127.0.0.1", "127.0.0.1"},
		{"[::1]", "[::1]"},
		{"", ""},
		{"a..com", "a..com"},
		{".com", ".com"},
	} {
		for range 2 { // the second result comes from the cache
			if got := Site(c.host); got != c.site {
				t.Errorf("Site(%q): got %q, want %q", c.host, got, c.site)
			}
		}
	}
}

func TestRoot(t *testing.T) {
	for in, want := range map[string]string{"http://a.example/x/y?z": "http://a.example/",
		"https://a.example:81/": "https://a.example:81/", "http://[::1]:8/?": "http://[::1]:8/"} {
		if got := MustParse(in).Root(); got != MustParse(want) {
			t.Errorf("%s: got %+v, want %s", in, got, want)
		}
	}
	if got := (URL{}).Root(); !got.IsZero() {
		t.Errorf("the zero URL: got %+v", got)
	}
}
