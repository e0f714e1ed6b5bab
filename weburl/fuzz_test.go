package weburl

import (
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	whatwg "github.com/nlnwa/whatwg-url/url"
)

// seedURLs adds the inputs and bases of the shared tables, where they are.
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

// oracleDiffers says why the oracle's answer is not to be asked for: it
// follows the standard of May 2023.
func oracleDiffers(input, base string) (why string) {
	both := input + base
	lower := strings.ToLower(both)
	switch {
	case !utf8.ValidString(both):
		return "not UTF-8: we escape the octets, it the replacement character"
	case strings.Contains(both, "^"):
		return "^ is in the path and userinfo sets since 2024"
	case strings.Contains(lower, "xn--"):
		return "labels of ASCII names are not validated since 2025"
	case strings.Contains(both, "%") && strings.Contains(lower, "n"):
		// xn-- may be hidden behind escapes
		return hidden(both)
	}
	return ""
}

func hidden(s string) string {
	if strings.Contains(strings.ToLower(percentDecode(s)), "xn--") {
		return "labels of ASCII names are not validated since 2025"
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

// What the oracle takes for an http or https URL, we take for the same one,
// and what it refuses we refuse.
func FuzzAgainstOracle(f *testing.F) {
	seedURLs(f)
	f.Fuzz(func(t *testing.T, input, base string) {
		if len(input)+len(base) > 2000 || oracleDiffers(input, base) != "" {
			t.Skip()
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
		case err != nil:
			// A host outside of ASCII is judged by other tables; what is not
			// http is none of our business.
			if ourErr == nil && !nonASCIIHost(input+base) {
				if _, baseErr := whatwg.Parse(base); base != "" && baseErr != nil {
					t.Skip() // a base of another scheme is not looked at
				}
				t.Fatalf("%q against %q: got %s, the oracle says %v", input, base, got.Href(), err)
			}
		case !isHTTP(want.Href(false)):
			if ourErr != ErrScheme {
				t.Fatalf("%q against %q: got %q, %v, want ErrScheme: %s", input, base, got.Href(), ourErr, want.Href(false))
			}
		case ourErr != nil:
			if !nonASCIIHost(input + base) {
				t.Fatalf("%q against %q: %v, want %s", input, base, ourErr, want.Href(false))
			}
		case got.Href() != want.Href(false):
			if got.Hostname() != want.Hostname() && nonASCIIHost(input+base) {
				t.Skip()
			}
			t.Fatalf("%q against %q: got %s, want %s", input, base, got.Href(), want.Href(false))
		}
	})
}

// Whatever comes in: no panic, a fixed point, the same from a string and from
// a buffer, the same by way of the standard's record, readable from its
// encoding.
func FuzzCanonical(f *testing.F) {
	seedURLs(f)
	f.Fuzz(func(t *testing.T, input, base string) {
		b, err := Parse(base)
		if base != "" && err != nil {
			t.Skip()
		}
		u, err := b.Resolve(input)
		if v, verr := b.ResolveBytes([]byte(input)); v != u || verr != err {
			t.Fatalf("%q: %s, %v from a string, %s, %v from a buffer", input, u, err, v, verr)
		}
		if err != nil {
			if !u.IsZero() {
				t.Fatalf("%q: an error and %s", input, u)
			}
			return
		}
		if again, err := Parse(u.String()); err != nil || again != u {
			t.Fatalf("%q: %s: parsed again: %s, %v", input, u, again, err)
		}
		if r, err := ParseWHATWG(input, base); err == nil {
			if by, err := Parse(r.Href()); err == nil && by != u {
				t.Fatalf("%q: %s, by way of the record %s", input, u, by)
			}
		}
		l, _, err := DecodeLink(Link{URL: u}.AppendTo(nil))
		if err != nil || l.URL != u {
			t.Fatalf("%s: from its encoding: %s, %v", u, l.URL, err)
		}
		if got := u.Scheme() + "://" + u.Authority() + u.RequestURI(); got != u.String() {
			t.Fatalf("%s: its parts make %s", u, got)
		}
		if site := u.Site(); !strings.HasSuffix(u.Host(), site) || site == "" {
			t.Fatalf("%s: site %q", u, site)
		}
		if icann := ICANNSite(u.Host()); !strings.HasSuffix(u.Site(), icann) || icann == "" {
			t.Fatalf("%s: site %q, ICANN site %q", u, u.Site(), icann)
		}
		if s := u.SURT(); s == "" || strings.ContainsAny(s, " \n\t") {
			t.Fatalf("%s: SURT %q", u, s)
		}
	})
}

// What DecodeLink takes, it takes for what it is: a canonical URL, and bytes
// that AppendTo would write again.
func FuzzDecodeLink(f *testing.F) {
	f.Add(Link{URL: ordinaryBase, Via: "http://a/", Hops: "LE", Seed: "a", Level: 3}.AppendTo(nil))
	f.Add(Link{}.AppendTo(nil))
	for _, ref := range ordinary {
		u, _ := ordinaryBase.Resolve(ref)
		f.Add(Link{URL: u}.AppendTo(nil))
	}
	f.Add([]byte{0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, src []byte) {
		l, n, err := DecodeLink(src)
		if err != nil {
			return
		}
		if n <= 0 || n > len(src) {
			t.Fatalf("took %d of %d octets", n, len(src))
		}
		back, _, err := DecodeLink(l.AppendTo(nil))
		if err != nil || back != l {
			t.Fatalf("%+v, again %+v, %v", l, back, err)
		}
		u := l.URL
		_ = u.Scheme() + u.Host() + u.Port() + u.Path() + u.SURT() + u.Site()
		if u.IsZero() {
			return
		}
		again, err := Parse(u.String())
		if err != nil || again.Host() != u.Host() || again.Port() != u.Port() || again.Scheme() != u.Scheme() {
			t.Fatalf("%s: parsed: %s, %v", u, again, err)
		}
	})
}
