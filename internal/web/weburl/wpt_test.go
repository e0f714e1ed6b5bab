package weburl

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/net/idna"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testneed"
)

func sharedPath(name string) string {
	return filepath.Join("..", "..", "..", "..", "shared", "data", "url", name)
}

// shared reads a file of the shared test data. If the data is absent, it skips the test.
func shared(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(sharedPath(name))
	if err != nil {
		testneed.Missing(t, err)
	}
	return b
}

type wptCase struct {
	Input    string
	Base     *string
	Failure  bool
	Href     string
	Origin   string
	Protocol string
	Username string
	Password string
	Host     string
	Hostname string
	Port     string
	Pathname string
	Search   string
	Hash     string
}

// wptCases reads a JSON array of cases and comments and returns the cases.
func wptCases[T any](t testing.TB, name string) (cs []T) {
	t.Helper()
	var raw []json.RawMessage
	must.Do(t, json.Unmarshal(shared(t, name), &raw))
	for _, r := range raw {
		if r[0] == '"' {
			continue
		}
		var c T
		must.Do(t, json.Unmarshal(r, &c))
		cs = append(cs, c)
	}
	return cs
}

func isHTTP(href string) bool {
	return strings.HasPrefix(href, "http:") || strings.HasPrefix(href, "https:")
}

func TestWPT(t *testing.T) {
	n := map[string]int{}
	for _, c := range wptCases[wptCase](t, "urltestdata.json") {
		base := ""
		if c.Base != nil {
			base = *c.Base
		}
		r, err := ParseWHATWG(c.Input, base)
		switch {
		case c.Failure:
			n["failure"]++
			if err == nil {
				t.Errorf("%q against %q: got %s, want a failure", c.Input, base, r.Href())
			}
		case !isHTTP(c.Href):
			n["other scheme"]++
			if !errors.Is(err, ErrScheme) {
				t.Errorf("%q against %q: got %q, %v, want ErrScheme", c.Input, base, r.Href(), err)
			}
		case err != nil:
			t.Errorf("%q against %q: %v, want %s", c.Input, base, err, c.Href)
		default:
			n["http"]++
			for _, p := range [][3]string{
				{"href", r.Href(), c.Href}, {"protocol", r.Protocol(), c.Protocol},
				{"username", r.Username(), c.Username}, {"password", r.Password(), c.Password},
				{"host", r.Host(), c.Host}, {"hostname", r.Hostname(), c.Hostname},
				{"port", r.Port(), c.Port}, {"pathname", r.Pathname(), c.Pathname},
				{"search", r.Search(), c.Search}, {"hash", r.Hash(), c.Hash},
			} {
				if p[1] != p[2] {
					t.Errorf("%q against %q: %s: got %q, want %q", c.Input, base, p[0], p[1], p[2])
				}
			}
		}
	}
	t.Log(n)
	if n["http"] < 247 {
		t.Errorf("got %d http cases, want at least 247; the file may be incomplete", n["http"])
	}
}

// canonicalExceptions are URLs of the standard that have no canonical form, with the reason.
var canonicalExceptions = map[string]string{
	"http://./":        "an empty label cannot be looked up",
	"http://../":       "an empty label cannot be looked up",
	"http://foo.09../": "an empty label cannot be looked up",
}

// The canonical form of each case is a fixed point. Parsing the standard's result gives the same
// URL as parsing the input.
func TestWPTCanonical(t *testing.T) {
	for _, c := range wptCases[wptCase](t, "urltestdata.json") {
		if c.Failure || !isHTTP(c.Href) {
			continue
		}
		want, err := Parse(c.Href)
		if why, ok := canonicalExceptions[c.Href]; ok {
			if err == nil {
				t.Errorf("%q: got %s, want an error: %s", c.Href, want, why)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", c.Href, err)
			continue
		}
		var base URL
		if c.Base != nil && isHTTP(*c.Base) {
			if base, err = Parse(*c.Base); err != nil {
				t.Errorf("base %q: %v", *c.Base, err)
				continue
			}
		}
		got, err := base.Resolve(c.Input)
		if err != nil || got != want {
			t.Errorf("%q against %s: got %s, %v, want %s", c.Input, base, got, err, want)
		}
		if again, err := Parse(got.String()); err != nil || again != got {
			t.Errorf("%s: parsed again: %s, %v", got, again, err)
		}
		if back, err := Restore(got.String()); err != nil || back != got {
			t.Errorf("%s: restored: %s, %v", got, back, err)
		}
	}
}

type asciiCase struct {
	Comment string
	Input   string
	Output  *string
}

// idnaExceptions are the cases on which we disagree with the table.
var idnaExceptions = map[string]string{
	// Unicode 17 added CJK extension J. x/net/idna has the tables of Unicode 15 up to Go 1.26.
	"\U0003293120.音.ꡦ1.":    "U+32931 is not in Unicode 15",
	"\U00032b9a9ꍩ\u17d3.ss": "U+32B9A is not in Unicode 15",
	"\U00032b9a9ꍩ\u17d3.SS": "U+32B9A is not in Unicode 15",
}

func TestToASCII(t *testing.T) {
	for _, file := range []string{"toascii.json", "IdnaTestV2.json"} {
		for _, c := range wptCases[asciiCase](t, file) {
			if c.Input == "" || strings.ContainsAny(c.Input, "/?#\\@:") {
				continue // not a bare host
			}
			r, err := ParseWHATWG("https://"+c.Input+"/x", "")
			got, want := "", ""
			if err == nil {
				got = r.Hostname()
			}
			if c.Output != nil {
				want = *c.Output
			}
			if got == want {
				continue
			}
			if why, ok := idnaExceptions[c.Input]; ok && idna.UnicodeVersion == "15.0.0" {
				t.Logf("known exception: %+q: %s", c.Input, why)
				continue
			}
			t.Errorf("%s: %+q (%s): got %q, %v, want %q", file, c.Input, c.Comment, got, err, want)
		}
	}
}

// csvRows reads comma-separated rows. A # begins a comment.
func csvRows(t *testing.T, name string, fields int) (rows [][]string) {
	t.Helper()
	r := csv.NewReader(bytes.NewReader(shared(t, name)))
	r.Comment = '#'
	r.TrimLeadingSpace = true
	r.FieldsPerRecord = fields
	r.LazyQuotes = true
	rows = must.Get(r.ReadAll())(t)
	return rows
}

// Reasons why our result differs from a row of crawler-commons' table: the table merges more URLs
// than our canonical form, or the URL standard contradicts it.
const (
	otherScheme   = "neither http nor https"
	noHost        = "a failure by the URL standard"
	noScheme      = "Parse wants an absolute URL; only the command line guesses a scheme"
	emptyQuery    = "a server can tell /? from /"
	emptySegments = "a server can tell // from /"
	strayPercent  = "the URL standard leaves a stray %; %25 would be a different octet string"
	queryChars    = "the URL standard's query set leaves these as browsers send them"
	queryArgs     = "only the server knows whether order, emptiness and repetition of arguments matter"
)

// weirdExceptions maps a URL to our canonical form and the reason.
var weirdExceptions = map[string][2]string{
	"http://x.com/?x[y]=1":                   {"http://x.com/?x[y]=1", queryChars},
	"http://foo.com//aa/bb/foo.html":         {"http://foo.com//aa/bb/foo.html", emptySegments},
	"http://foo.com/aa//bb/foo.html":         {"http://foo.com/aa//bb/foo.html", emptySegments},
	"http://foo.com/aa/bb//foo.html":         {"http://foo.com/aa/bb//foo.html", emptySegments},
	"http://foo.com//aa//bb//foo.html":       {"http://foo.com//aa//bb//foo.html", emptySegments},
	"http://foo.com////aa////bb//foo.html":   {"http://foo.com////aa////bb//foo.html", emptySegments},
	"http://foo.com////aa////bb////foo.html": {"http://foo.com////aa////bb////foo.html", emptySegments},
	"file:///foo/bar.txt":                    {"", otherScheme},
	"ftp:/":                                  {"", otherScheme},
	"http:////":                              {"", noHost},
	"http:///////":                           {"", noHost},
	"http://example.com?":                    {"http://example.com/?", emptyQuery},
	"http://example.com/?":                   {"http://example.com/?", emptyQuery},
	"https://www.last.fm/music/Prefuse+73/_/90%+of+My+Mind+Is+With+You": {"https://www.last.fm/music/Prefuse+73/_/90%+of+My+Mind+Is+With+You", strayPercent},
	"http://www.example.com/a/c/../b/search?q=foobar%": {"http://www.example.com/a/b/search?q=foobar%",
		strayPercent},
	"http://www.example.com/a/c/../b/search?q=foobar^": {"http://www.example.com/a/b/search?q=foobar^", queryChars},
	"http://www.example.com/a/c/../b/search?q=foobar`": {"http://www.example.com/a/b/search?q=foobar`", queryChars},
	"http://www.example.com/a/c/../b/search?q=foobar|": {"http://www.example.com/a/b/search?q=foobar|", queryChars},
	"http://www.example.com/p%zz%77%v":                 {"http://www.example.com/p%zzw%v", strayPercent},
	"http://www.example.com/search?q=foobar%":          {"http://www.example.com/search?q=foobar%", strayPercent},
	"http://www.example.com/search?q=foobar%2":         {"http://www.example.com/search?q=foobar%2", strayPercent},
	"foo.com/index.html":                               {"", noScheme},
	"ftp://foo.com/index.html":                         {"", otherScheme},
	"file:/path/index.html":                            {"", otherScheme},
	"file:/var/www/html/////./bar/index.html":          {"", otherScheme},
	"file:/var/www/html/foo/../bar/index.html":         {"", otherScheme},
	"http://example.com/?b=1&a=1":                      {"http://example.com/?b=1&a=1", queryArgs},
	"http://foo.com/foo.html?b=1&a=1":                  {"http://foo.com/foo.html?b=1&a=1", queryArgs},
	"http://foo.com/index?b=2&a=1":                     {"http://foo.com/index?b=2&a=1", queryArgs},
	"http://foo.com/index?b=2&a=1#c":                   {"http://foo.com/index?b=2&a=1", queryArgs},
	"http://foo.com/index?a=1&b=":                      {"http://foo.com/index?a=1&b=", queryArgs},
	"http://foo.com/index?b&a=1":                       {"http://foo.com/index?b&a=1", queryArgs},
	"http://foo.com/index?b=&a=1":                      {"http://foo.com/index?b=&a=1", queryArgs},
	"http://foo.com/index?b=1&a=1&":                    {"http://foo.com/index?b=1&a=1&", queryArgs},
	"http://foo.com/index?&b=1&a=1":                    {"http://foo.com/index?&b=1&a=1", queryArgs},
	"http://foo.com/index?&=1&a=1":                     {"http://foo.com/index?&=1&a=1", queryArgs},
	"http://foo.com/index?=1&b=1&a=1":                  {"http://foo.com/index?=1&b=1&a=1", queryArgs},
}

func TestWeirdURLs(t *testing.T) {
	for _, row := range csvRows(t, "weirdToNormalizedUrls.csv", 2) {
		got, err := Parse(row[0])
		if err == nil && got.String() == row[1] {
			if _, ok := weirdExceptions[row[0]]; ok {
				t.Errorf("%q: agrees with the table, so remove it from the exceptions", row[0])
			}
			continue
		}
		if want, ok := weirdExceptions[row[0]]; ok {
			if got.String() != want[0] {
				t.Errorf("%q: got %s, %v, want %s by our exception (%s)", row[0], got, err, want[0], want[1])
			}
			continue
		}
		t.Errorf("%q: got %s, %v, want %s", row[0], got, err, row[1])
	}
}

func TestResolveTable(t *testing.T) {
	for _, row := range csvRows(t, "url-resolve.csv", 3) {
		got, err := ParseWHATWG(row[0], row[1])
		if !isHTTP(row[2]) {
			if !errors.Is(err, ErrScheme) {
				t.Errorf("%q against %q: got %q, %v, want ErrScheme", row[0], row[1], got.Href(), err)
			}
			continue
		}
		if err != nil || got.Href() != row[2] {
			t.Errorf("%q against %q: got %s, %v, want %s", row[0], row[1], got.Href(), err, row[2])
		}
	}
}
