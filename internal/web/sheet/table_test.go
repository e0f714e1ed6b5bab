package sheet

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	_ "github.com/orbweaver/orbweaver/internal/testkit/testseed" // sets rapid's seed
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// entry returns an Entry of "key=value" pairs.
func entry(prefix string, pairs ...string) Entry {
	e := Entry{Prefix: prefix}
	for _, p := range pairs {
		key, value, _ := strings.Cut(p, "=")
		e.Settings = append(e.Settings, Setting{Key: key, Values: []string{value}})
	}
	return e
}

func table(t testing.TB, entries ...Entry) *Table {
	t.Helper()
	tab := must.Get(New(entries))(t)
	return tab
}

// The most specific prefix wins, setting by setting.
func TestTable(t *testing.T) {
	tab := table(t,
		entry("*.example.org", "delay=10s", "depth=5", "header=X-A: 1"),
		entry("www.example.org", "delay=1s", "header=X-B: 2"),
		entry("*.example.org/deep/", "depth=50"),
		entry("https://www.example.org/deep/", "header=x-a: 3"),
		entry("org,", "host-page-limit=7", "host-depth=3"),
		entry("*.example.org/deep/", "host-depth=-1"),
	)
	for _, tt := range []struct{ url, want string }{
		{"http://example.com/", ""},
		{"http://a.org/deep/", "limit 7 in host 3"},
		{"http://a.example.org/", "delay 10s limit 7 depth 5 in host 3 X-A: 1"},
		{"http://a.example.org/deep/x", "delay 10s limit 7 depth 50 in host -1 X-A: 1"},
		{"http://www.example.org/", "delay 1s limit 7 depth 5 in host 3 X-A: 1 X-B: 2"},
		{"http://www.example.org/deep/", "delay 1s limit 7 depth 50 in host -1 X-A: 1 X-B: 2"},
		{"https://www.example.org/deep/", "delay 1s limit 7 depth 50 in host -1 X-B: 2 x-a: 3"},
	} {
		for range 2 { // the second time from the memory of merged settings
			if got := show(tab.URL(weburl.MustParse(tt.url))); got != tt.want {
				t.Errorf("%s: %s, want %s", tt.url, got, tt.want)
			}
		}
	}
	if got := show(tab.Host("www.example.org")); got != "delay 1s limit 7 depth 5 in host 3 X-A: 1 X-B: 2" {
		t.Errorf("host: %s", got)
	}
	u := weburl.MustParse("https://www.example.org/deep/")
	if r := tab.Decides(u, "depth"); r == nil || r.Text != "*.example.org/deep/" {
		t.Errorf("depth is decided by %+v", r)
	}
	if n := len(tab.Rules(u)); n != 5 {
		t.Errorf("%d rules hold for %s", n, u)
	}
	var empty *Table
	if empty.URL(u) != empty.Host("x") || show(empty.URL(u)) != "" || empty.Rules(u) != nil || empty.Digest() != "" {
		t.Error("the empty table has settings")
	}
}

func show(v *Values) string {
	var s []string
	if v.Delay != nil {
		s = append(s, "delay "+v.Delay.String())
	}
	if v.HostPageLimit != nil {
		s = append(s, fmt.Sprint("limit ", *v.HostPageLimit))
	}
	if v.Depth != nil {
		s = append(s, fmt.Sprint("depth ", *v.Depth))
	}
	if v.HostDepth != nil {
		s = append(s, fmt.Sprint("in host ", *v.HostDepth))
	}
	for _, h := range v.Headers {
		s = append(s, h.Name+": "+h.Value)
	}
	return strings.Join(s, " ")
}

// Secret fields go over https to port 443, unless the prefix says otherwise.
func TestSecretsGo(t *testing.T) {
	tab := table(t,
		entry("a.example", "auth=basic me:s3cret", "header=X-Plain: 1"),
		entry("http://b.example", "auth=bearer s3cret"),
		entry("c.example:8443", "auth=bearer s3cret"),
		entry("https://d.example:8443/private/", "header=X-API-Key: s3cret"),
	)
	for u, want := range map[string]string{
		"https://a.example/":              "Authorization X-Plain",
		"http://a.example/":               "X-Plain",
		"https://a.example:8443/":         "X-Plain",
		"https://www.a.example/":          "",
		"http://b.example/":               "Authorization",
		"https://b.example/":              "",
		"http://b.example:8080/":          "",
		"https://c.example:8443/":         "Authorization",
		"http://c.example:8443/":          "",
		"https://c.example/":              "",
		"https://d.example:8443/private/": "X-API-Key",
		"http://d.example:8443/private/":  "",
		"https://d.example:8443/":         "",
	} {
		var names []string
		for _, h := range tab.URL(weburl.MustParse(u)).Headers {
			if h.Goes(weburl.MustParse(u)) {
				names = append(names, h.Name)
			}
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s gets %q, want %q", u, got, want)
		}
	}
}

func TestWithheld(t *testing.T) {
	tab := table(t,
		entry("a.example", "auth=basic me:s3cret", "header=X-Plain: 1"),
		entry("*.b.example", "auth=bearer s3cret"),
		entry("http://b.example", "auth=bearer s3cret"),
	)
	for u, want := range map[string]string{
		"https://a.example/":      " ",
		"http://a.example/":       "Authorization a.example",
		"https://a.example:8443/": "Authorization a.example",
		"http://b.example/":       " ",
		"http://b.example:8080/":  "Authorization *.b.example",
		"http://www.b.example/":   "Authorization *.b.example",
		"http://c.example/":       " ",
	} {
		name, prefix := tab.Withheld(weburl.MustParse(u))
		if got := name + " " + prefix; got != want {
			t.Errorf("%s: %q, want %q", u, got, want)
		}
	}
}

func TestEntryMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"delay=fast":              `crawl.yaml, line 3: hosts: a.example: delay: "fast" is not a duration`,
		"delay=-1s":               "is not a duration from 0 to 24h",
		"delay=99999h":            "is not a duration from 0 to 24h",
		"depth=-2":                "0 for the seeds alone",
		"host-depth=-2":           "0 for where the crawl enters the host alone",
		"host-page-limit=-1":      "or 0 for no limit",
		"include=(":               "include 1 of 1: regular expression",
		"keep=txet/html":          "did you mean text/html",
		"dely=1s":                 "unknown key; the keys are auth, delay, depth",
		"auth=s3cret":             "give basic USER:PASSWORD or bearer TOKEN",
		"auth=basic s3cret":       "basic needs a user and a password",
		"auth=bearer s3cret word": "the token has a character",
		"auth=bearer":             "bearer needs a token",
		"auth=basic [redacted]":   "give the settings file again with config",
		"header=X-Key: [redacted]": "header: crawl.yaml does not have the value, because it is a secret; give the " +
			"settings file again",
		"header=Range: s3cret": "sets Range itself",
	} {
		e := entry("a.example", text)
		e.Settings[0].At = "crawl.yaml, line 3"
		_, err := New([]Entry{e})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
		if strings.Contains(text, "[redacted]") && !errors.Is(err, ErrRedacted) {
			t.Errorf("%s: %v is not ErrRedacted", text, err)
		}
	}
	for _, es := range [][]Entry{
		{entry("a.example/x", "delay=1s")},
		{entry("a.example", "delay=1s"), entry("A.example:", "depth=1")},
		{entry("a.example", "delay=1s"), entry("(example,a,)", "delay=1s")},
		{entry("a.example", "auth=bearer x", "header=authorization: y")},
		{{Prefix: "a.example", Settings: []Setting{{Key: "depth", Values: []string{"1", "2"}, List: true}}}},
	} {
		if tab, err := New(es); err == nil {
			t.Errorf("%+v gives %+v", es, tab)
		}
	}
}

func TestRedact(t *testing.T) {
	es := []Entry{entry("a.example", "auth=basic me:s3cret", "header=X-Key: s3cret", "delay=1s"),
		entry("b.example", "auth=s3cret")}
	want := []Entry{entry("a.example", "auth=basic [redacted]", "header=X-Key: [redacted]", "delay=1s"),
		entry("b.example", "auth=[redacted]")}
	if diff := cmp.Diff(want, Redact(es)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	a, b := table(t, es[0]), table(t, entry("(example,a,)", "delay=1s"), entry("a.example", "header=X-Key: other",
		"auth=basic you:other"))
	if a.Digest() == "" || a.Digest() != b.Digest() {
		t.Errorf("digests %q and %q of the same rules", a.Digest(), b.Digest())
	}
	if c := table(t, entry("a.example", "delay=1s")); c.Digest() == a.Digest() {
		t.Error("different rules have the same digest")
	}
}

// A Table finds what a search through all rules finds.
func TestTableModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		hosts := []string{"example", "a.example", "b.a.example", "c.b.a.example", "other.example", "1.2.3.4"}
		host := rapid.SampledFrom(hosts)
		var entries []Entry
		for i := range rapid.IntRange(0, 8).Draw(t, "rules") {
			prefix := host.Draw(t, "host")
			if prefix != "1.2.3.4" && rapid.Bool().Draw(t, "below") {
				prefix = "*." + prefix
			}
			prefix += rapid.SampledFrom([]string{"", "", ":8080", ":80"}).Draw(t, "port")
			prefix += rapid.SampledFrom([]string{"", "", "/a", "/a/b", "/c"}).Draw(t, "path")
			prefix = rapid.SampledFrom([]string{"", "", "http://", "https://"}).Draw(t, "scheme") + prefix
			e := entry(prefix)
			for _, key := range []string{"depth=%d", "header=X-%d: x", "header=X: %d"} {
				if rapid.Bool().Draw(t, key) {
					e.Settings = append(e.Settings, entry("", fmt.Sprintf(key, i)).Settings...)
					break
				}
			}
			entries = append(entries, e)
		}
		tab, err := New(entries)
		if err != nil {
			t.Skip(err)
		}
		for range 5 {
			u := weburl.MustParse(rapid.SampledFrom([]string{"http://", "https://"}).Draw(t, "scheme") +
				host.Draw(t, "host") + rapid.SampledFrom([]string{"", ":8080", ":80"}).Draw(t, "port") +
				rapid.SampledFrom([]string{"/", "/a", "/a/b/c", "/cc"}).Draw(t, "path"))
			var want Values
			rs := tab.Rules(u)
			slices.Reverse(rs)
			for _, r := range rs {
				want = want.over(&r.Values)
			}
			if got := tab.URL(u); show(got) != show(&want) {
				t.Fatalf("%s: %s, want %s", u, show(got), show(&want))
			}
		}
	})
}

// BenchmarkURL measures the look-up of a URL's settings: without rules, with rules for whole hosts, and with paths.
func BenchmarkURL(b *testing.B) {
	us := []weburl.URL{weburl.MustParse("https://www.example.org/a/b/c"), weburl.MustParse("http://other.example.com/")}
	for _, bb := range []struct {
		name string
		tab  *Table
	}{
		{"none", nil},
		{"hosts", table(b, entry("*.example.org", "delay=1s"), entry("a.example.net", "delay=1s"))},
		{"paths", table(b, entry("*.example.org", "delay=1s"), entry("*.example.org/a/", "depth=1"))},
	} {
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				bb.tab.URL(us[0])
				bb.tab.URL(us[1])
			}
		})
	}
}

// FuzzReadAuth checks that New reads what ReadAuth returns, or says why not, and that no error has a value.
func FuzzReadAuth(f *testing.F) {
	f.Add("machine a.example login me password s3cret\nmachine b bearer \"x y\"")
	f.Add("# x\nmachine *.a:80 account z bearer t")
	f.Fuzz(func(t *testing.T, s string) {
		es, err := ReadAuth("netrc", []byte(s))
		if err != nil {
			return
		}
		if tab, err := New(es); err == nil && (tab == nil || tab.Digest() == "") {
			t.Errorf("%q: no table", s)
		}
		for _, e := range Redact(es) {
			if v := e.Settings[0].Values[0]; v != "basic [redacted]" && v != "bearer [redacted]" {
				t.Errorf("%q: redacted: %q", s, v)
			}
		}
	})
}

func TestReadAuth(t *testing.T) {
	es, err := ReadAuth("netrc", []byte("# mine\nmachine a.example login me password s3cret\n\nmachine http://b.example\n"+
		"  login \"a b\" account x\n  password \"x \\\" y\"\nmachine c.example:8443 bearer t0ken\n"))
	must.Do(t, err)
	at := func(prefix, value string, line int) Entry {
		e := entry(prefix, "auth="+value)
		e.At, e.Word = fmt.Sprintf("netrc, line %d", line), "machine"
		e.Settings[0].At = e.At
		return e
	}
	want := []Entry{at("a.example", "basic me:s3cret", 2), at("http://b.example", `basic a b:x " y`, 4),
		at("c.example:8443", "bearer t0ken", 7)}
	if diff := cmp.Diff(want, es); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if _, err := New(es); err != nil {
		t.Error(err)
	}
	for text, want := range map[string]string{
		"":                                         "netrc has no credentials",
		"{\"s3cret\": 1}":                          "line 1: no credentials",
		"default login a password b":               "line 1: default would send its credentials to every host",
		"machine a.example login me":               "line 1: machine a.example needs login USER and password PASSWORD",
		"machine a.example\nbearer":                "line 2: bearer has no value",
		"login me password s3cret":                 "line 1: login comes before the first machine",
		"machine a login b login c":                "has login twice",
		"machine a login b bearer c":               "has a bearer token and a login",
		"machine a login b:c password s3cret":      "the login contains a colon",
		"machine a login b password s3cret s3cret": "a word is none of login",
		"machine a login \"b":                      "line 1: a quotation mark is not closed",
		"macdef init":                              "macdef is for FTP",
	} {
		if _, err := ReadAuth("netrc", []byte(text)); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
