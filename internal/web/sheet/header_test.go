package sheet

import (
	"slices"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

func TestHeaders(t *testing.T) {
	hs := must.Get(ParseHeaders([]string{"Accept-Language: de", "X-API-Key:  s3cret ", "X-Monkey: a: b"}))(t)
	want := []Header{{Name: "Accept-Language", Value: "de"}, {Name: "X-API-Key", Value: "s3cret", Secret: true},
		{Name: "X-Monkey", Value: "a: b"}}
	if !slices.Equal(hs, want) {
		t.Errorf("got %v, want %v", hs, want)
	}
	public, secret := Split(hs)
	if len(public) != 2 || len(secret) != 1 || secret[0] != [2]string{"X-API-Key", "s3cret"} {
		t.Errorf("public %v, secret %v", public, secret)
	}
	redacted := RedactHeaders([]string{"Accept-Language: de", "X-API-Key:  s3cret "})
	if want := []string{"Accept-Language: de", "X-API-Key: [redacted]"}; !slices.Equal(redacted, want) {
		t.Errorf("redacted %v, want %v", redacted, want)
	}
}

func TestHeaderMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "has the form 'Name: value'",
		"s3cret":                        "has the form 'Name: value'",
		": s3cret":                      "has the form 'Name: value'",
		"X Y: s3cret":                   `the name "X Y" has a character`,
		"X-Y: s3cret\r\nZ: 1":           "control character",
		"X-Y:":                          "X-Y has no value",
		"User-Agent: s3cret":            "give user-agent",
		"range: s3cret":                 "sets range itself; leave it out",
		"Cookie: s3cret":                "give cookie-file",
		"authorization: Bearer s3cret":  "give auth-file",
		"Proxy-Authorization: s3cret":   "the URL of proxy",
		"X-Token: [redacted]":           "crawl.yaml has no value of X-Token",
		"Accept: s3cret\x00ACCEPT: abc": "control character",
	} {
		_, err := ParseHeaders([]string{text})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		} else if strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: the error contains the value: %v", text, err)
		}
	}
	_, err := ParseHeaders([]string{"A: 1", "a: 2"})
	if err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("twice: %v", err)
	}
}

// FuzzHeader checks that a field that ParseHeader accepts has a name and a value on one line.
func FuzzHeader(f *testing.F) {
	f.Add("Accept: */*")
	f.Add("a:b\r\nc: d")
	f.Fuzz(func(t *testing.T, s string) {
		if h, err := ParseHeader(s); err == nil && (h.Name == "" || h.Value == "" ||
			strings.ContainsAny(h.Name+h.Value, "\r\n\x00")) {
			t.Errorf("%q: %+v", s, h)
		}
	})
}
