package weburl

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	whatwg "github.com/nlnwa/whatwg-url/url"
	"pgregory.net/rapid"
)

// seedURLs adds the inputs and bases of the shared tables, if they are present.
func seedURLs(f *testing.F) {
	f.Add("../a?b#c", "http://example.com/x/y")
	f.Add("http://a/%%34%31/%2e%2E/\\b", "")
	f.Add("//[::1.2.3.4]:080/", "https://u:p@h/?q")
	f.Add("http://0x7f.1./?'", "")
	f.Add("http://B\u00fc\u00ad<\u0338/", "")
	if _, err := os.Stat(sharedPath("urltestdata.json")); err != nil && os.Getenv("CI") != "true" {
		return
	}
	for _, c := range wptCases[wptCase](f, "urltestdata.json") {
		base := ""
		if c.Base != nil {
			base = *c.Base
		}
		f.Add(c.Input, base)
	}
}

var (
	signed = regexp.MustCompile(`(^|[^0-9a-z])(0x?)?[-+][0-9a-f]`)
	long   = regexp.MustCompile(`[0-9a-f]{16}`)
)

// oracleDiffers returns why the oracle cannot judge this input, or "". The oracle follows the
// standard of May 2023 and has errors of its own.
func oracleDiffers(input, base string) (why string) {
	both := unbreak(input + " " + base)
	decoded := strings.ToLower(percentDecode(both))
	switch {
	case !utf8.ValidString(both):
		return "not UTF-8: we escape the octets, the oracle escapes the replacement character"
	case strings.Contains(both, "^"):
		return "^ is in the path set since 2024"
	case strings.Contains(decoded, "xn--"):
		return "labels of ASCII names are not validated since 2025"
	case signed.MatchString(decoded):
		return "-017, 0+0 and 0x-1 are not numbers (IPv4 number parser, steps 4 to 6), but the oracle accepts them"
	case long.MatchString(decoded):
		return "the oracle reads text that begins with a number over 64 bits as a number, even if letters follow"
	case strings.Contains(both, "[[") || strings.Contains(both, "]]"):
		return "the oracle strips all brackets of an IPv6 address, not one pair (host parser, step 1)"
	}
	return ""
}

func nonASCIIHost(s string) bool {
	s = percentDecode(s)
	for i := range len(s) {
		if s[i] >= 0x80 {
			return true
		}
	}
	return false
}

// againstOracle fails if the oracle and ParseWHATWG disagree: both must return the same http or
// https URL, or both must refuse the input. It returns false if it could not compare them.
func againstOracle(t interface {
	Fatalf(format string, args ...any)
}, input, base string) bool {
	if len(input)+len(base) > 2000 || oracleDiffers(input, base) != "" {
		return false
	}
	var want *whatwg.Url
	var err error
	if base == "" {
		want, err = whatwg.Parse(input)
	} else {
		want, err = whatwg.ParseRef(base, input)
	}
	got, ourErr := ParseWHATWG(input, base)
	switch {
	case err != nil && ourErr != nil:
	case err != nil:
		if nonASCIIHost(input + base) {
			return false // other tables test names outside of ASCII
		}
		if _, baseErr := whatwg.Parse(base); base != "" && baseErr != nil {
			return false // ParseWHATWG does not check a base of another scheme
		}
		t.Fatalf("%q against %q: got %s, the oracle says %v", input, base, got.Href(), err)
	case !isHTTP(want.Href(false)):
		if ourErr != ErrScheme {
			t.Fatalf("%q against %q: got %q, %v, want ErrScheme: %s", input, base, got.Href(), ourErr, want.Href(false))
		}
	case got.Href() != want.Href(false):
		if nonASCIIHost(input+base) && got.Hostname() != want.Hostname() {
			return false
		}
		t.Fatalf("%q against %q: got %q, %v, want %s", input, base, got.Href(), ourErr, want.Href(false))
	}
	return true
}

func FuzzAgainstOracle(f *testing.F) {
	seedURLs(f)
	f.Fuzz(func(t *testing.T, input, base string) {
		if !againstOracle(t, input, base) {
			t.Skip()
		}
	})
}

// Pieces that mean something to a URL parser, for random sequences. They reach its corner cases
// sooner than random bytes.
var pieces = []string{
	"http:", "https:", "HTTP:", "ftp:", "//", "/", "\\", "?", "#", "@", ":", ":80", ":443", ":0", ":65536", ":008",
	"user", "pw", "example.com", "Example.COM", "b\u00fccher.de", "a_b", "-", "1.2.3.4", "0x7f", "017", "4294967296",
	"256", ".", "..", "...", "%2e", "%2E", "%2f", "%41", "%7e", "%", "%4", "%zz", "%00", "%C3%A9", "\u00e9",
	"\U0001f600",
	"[", "]", "[::1]", "[1:2:3:4:5:6:7:8]", "[::ffff:1.2.3.4]", "[1::2:0:0:3]", "::", "0:0", "1:", "ffff",
	" ", "\t", "\n", "\x00", "\x7f", "'", "\"", "<", ">", "`", "{", "}", "|", ";", "=", "&", "+", "~", "a", "B",
	"/a/b/../c/./",
}

func TestAgainstOracle(t *testing.T) {
	url := rapid.Custom(func(t *rapid.T) string {
		s := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 8).Draw(t, "pieces"), "")
		if rapid.Bool().Draw(t, "absolute") {
			s = "http://" + s
		}
		return s
	})
	base := rapid.SampledFrom([]string{"", "http://h/a/b?c#d", "https://u:p@h:8/a//", "http://h", "mailto:x"})
	n, compared := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		if againstOracle(t, url.Draw(t, "input"), base.Draw(t, "base")) {
			compared++
		}
	})
	t.Logf("compared %d of %d URLs", compared, n)
	if compared < n/4 {
		t.Errorf("compared %d of %d URLs, want a quarter", compared, n)
	}
}

// checkCanonical checks that Resolve does not panic and that its result is a fixed point. The
// result must be the same from a string and from a buffer, and by way of the standard's record, and
// must survive encoding.
func checkCanonical(t interface {
	Fatalf(format string, args ...any)
}, input, base string) {
	b, err := Parse(base)
	if base != "" && err != nil {
		return
	}
	u, err := b.Resolve(input)
	if v, verr := b.ResolveBytes([]byte(input)); v != u || verr != err {
		t.Fatalf("%q: got %s, %v from a string but %s, %v from a buffer", input, u, err, v, verr)
	}
	if err != nil {
		if !u.IsZero() {
			t.Fatalf("%q: got an error and the URL %s", input, u)
		}
		return
	}
	if again, err := Parse(u.String()); err != nil || again != u {
		t.Fatalf("%q gives %s; parsed again it gives %s, %v", input, u, again, err)
	}
	if r, err := ParseWHATWG(input, base); err == nil {
		if by, err := Parse(r.Href()); err == nil && by != u {
			t.Fatalf("%q: got %s directly but %s by way of the record", input, u, by)
		}
	}
	if got, err := Restore(u.String()); err != nil || got != u {
		t.Fatalf("%s: restored: got %s, %v", u, got, err)
	}
	if got := u.Scheme() + "://" + u.Authority() + u.RequestURI(); got != u.String() {
		t.Fatalf("%s: its parts joined give %s", u, got)
	}
	if site := u.Site(); !strings.HasSuffix(u.Host(), site) || site == "" {
		t.Fatalf("%s: site %q", u, site)
	}
	if s := u.SURT(); s == "" || strings.ContainsAny(s, " \n\t") {
		t.Fatalf("%s: SURT %q", u, s)
	}
}

func FuzzCanonical(f *testing.F) {
	seedURLs(f)
	f.Fuzz(func(t *testing.T, input, base string) { checkCanonical(t, input, base) })
}

func TestCanonicalOfPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 12).Draw(t, "pieces"), "")
		checkCanonical(t, in, "https://www.example.co.uk/a/b?c")
		checkCanonical(t, "http://a.b.github.io/"+in, "")
	})
}
