package input_test

import (
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/input"
)

// TestParseURL: people leave out the scheme, and mean a host and its port.
func TestParseURL(t *testing.T) {
	for _, c := range []struct {
		text, url string
		bare      bool
	}{
		{"example.org", "https://example.org/", true},
		{" example.org/a?b#c ", "https://example.org/a?b", true},
		{"//example.org/", "https://example.org/", true},
		{"localhost", "https://localhost/", true},
		{"localhost:8080", "https://localhost:8080/", true},
		{"127.0.0.1:8080/x", "https://127.0.0.1:8080/x", true},
		{"[::1]:8080", "https://[::1]:8080/", true},
		{"::1", "https://[::1]/", true},
		{"example.org:8443/p", "https://example.org:8443/p", true},
		{"example.org:80/p", "http://example.org/p", false},
		{"example.org:443", "https://example.org/", false},
		{"example.org:", "https://example.org/", true},
		{"b\u00fccher.example", "https://xn--bcher-kva.example/", true},
		{"\ufeffexample.org", "https://example.org/", true},
		{"example.org/a:b@c", "https://example.org/a:b@c", true},
		{"HTTP://Example.ORG", "http://example.org/", false},
		{"http:example.org", "http://example.org/", false},
		{"https:/example.org", "https://example.org/", false},
		{"https://example.org:80/", "https://example.org:80/", false},
		{"http://a.example/@b", "http://a.example/@b", false},
		{"a.example/?x=u:p@b", "https://a.example/?x=u:p@b", true},
		{"http://a.example#@", "http://a.example/", false},
	} {
		got, err := input.ParseURL("seed", c.text)
		if err != nil || got.URL.String() != c.url || got.Bare != c.bare {
			t.Errorf("%q: got %+v, %v, want %s, %v", c.text, got, err, c.url, c.bare)
		}
	}
	const giveURL = "; give a URL such as https://example.org/"
	for text, want := range map[string]string{
		"":                   `"" is empty` + giveURL,
		"mailto:x":           `"mailto:x" is a mail address` + giveURL,
		"user@host":          `"user@host" looks like a mail address; give the site, such as https://host/`,
		"ftp://example.org/": `"ftp://example.org/": the scheme is ftp; give an http or https URL`,
		"ht!tp://a b":        `"ht!tp://a b": "ht!tp" is not a scheme; give an http or https URL`,
		"javascript:void(0)": `"javascript:void(0)": the scheme is javascript; give an http or https URL`,
		"foo.txt":            `"foo.txt" looks like a file name` + giveURL + `, or seeds foo.txt for a file of URLs`,
		"./site/index.html":  `"./site/index.html" is a path` + giveURL,
		"*.example.org": `"*.example.org": a host has no *; give one host, ` +
			`and scope domain for its subdomains`,
		"http://https://example.org/": `"http://https://example.org/" has two schemes; give https://example.org/`,
		"example.org:port": `"example.org:port": invalid URL: the port is not a number from 0 to 65535` +
			giveURL,
		"example.org,a.example": `"example.org,a.example": the host "example.org,a.example" has a comma; ` +
			`give the URLs one by one`,
	} {
		if _, err := input.ParseURL("seed", text); err == nil || err.Error() != "seed "+want {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

// TestSeedWithCredentials: a seed's credentials would not be sent, so it is
// refused, and the message does not repeat them.
func TestSeedWithCredentials(t *testing.T) {
	for _, s := range []string{"http://user:secret@a.example/", "user:secret@a.example",
		"https://secret@a.example/x?y"} {
		_, err := input.ParseURL("seed", s)
		if err == nil || !strings.Contains(err.Error(), "does not send") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", s, err)
		}
	}
}

// TestHost: a host may be given as a URL of it.
func TestHost(t *testing.T) {
	for text, want := range map[string]string{
		"A.Example": "a.example", "http://a.example/x": "a.example", "a.example:8080": "a.example", "::1": "[::1]",
		"a.example/x": "a.example", "https://user:pw@a.example/": "a.example", "127.1": "127.0.0.1",
	} {
		if got, err := input.Host(text); err != nil || got != want {
			t.Errorf("%q: got %q, %v, want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"", "a b", "http://", "mailto:x"} {
		if got, err := input.Host(text); err == nil {
			t.Errorf("%q: got %q, want an error", text, got)
		}
	}
}
