package weburl

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// shared reads a file of the shared test data, or skips where there is none.
func shared(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "shared", "data", "url", name))
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip("no shared test data: ", err)
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

// wptCases reads a JSON array of cases and comments.
func wptCases[T any](t testing.TB, name string) (cs []T) {
	t.Helper()
	var raw []json.RawMessage
	if err := json.Unmarshal(shared(t, name), &raw); err != nil {
		t.Fatal(err)
	}
	for _, r := range raw {
		if r[0] == '"' {
			continue
		}
		var c T
		if err := json.Unmarshal(r, &c); err != nil {
			t.Fatal(err)
		}
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
		t.Errorf("got %d http cases, want more: is the file whole?", n["http"])
	}
}

// The canonical form of each case is a fixed point, and parsing the standard's
// result gives the same as parsing the input.
func TestWPTCanonical(t *testing.T) {
	for _, c := range wptCases[wptCase](t, "urltestdata.json") {
		if c.Failure || !isHTTP(c.Href) {
			continue
		}
		want, err := Parse(c.Href)
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
		if back, err := restore(got.String()); err != nil || back != got {
			t.Errorf("%s: restored: %s, %v", got, back, err)
		}
	}
}

type asciiCase struct {
	Comment string
	Input   string
	Output  *string
}

func TestToASCII(t *testing.T) {
	for _, file := range []string{"toascii.json", "IdnaTestV2.json"} {
		excepted := 0
		for _, c := range wptCases[asciiCase](t, file) {
			if c.Input == "" || strings.ContainsAny(c.Input, "/?#\\@:") {
				continue // would end the host before it is one
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
			t.Errorf("%s: %q %+q (%s): got %q, %v, want %q", file, c.Input, c.Input, c.Comment, got, err, want)
			excepted++
		}
		t.Log(file, excepted)
	}
}

var _ = regexp.MustCompile
var _ = csv.NewReader
var _ = utf8.ValidString
