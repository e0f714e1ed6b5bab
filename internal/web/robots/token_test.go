package robots

import (
	"strings"
	"testing"
)

func TestProductToken(t *testing.T) {
	for _, c := range []struct{ userAgent, want string }{
		{"mybot", "mybot"},
		{"mybot/1.0 (+https://example.org/bot)", "mybot"},
		{"My_Bot-x/1.0", "My_Bot-x"},
		{"mybot 1.0", "mybot"},
		{" \tmybot/1.0", "mybot"},
		{"MJ12bot/v1.4.8", "MJ"},
		{"Mozilla/5.0 (compatible; mybot/1.0; +https://example.org/bot)", "mybot"},
		{"Mozilla/5.0 (compatible;mybot/1.0)", "mybot"},
		{"mozilla/5.0 (COMPATIBLE;  mybot)", "mybot"},
		{"Mozilla/5.0 (Linux; Android 6.0.1) AppleWebKit/537.36 (KHTML, like Gecko) Mobile (compatible; mybot/2.1)",
			"mybot"},
		{"Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; mybot/2.1; +http://example.org/) Chrome/1",
			"mybot"},
		{"mybot/1.0 (compatible; other/1.0)", "mybot"},
		{"Mozilla/5.0 (X11; Linux x86_64; rv:1.0) Gecko/20100101 Firefox/1.0", ""},
		{"Mozilla/5.0 (compatible; )", ""},
		{"Mozilla/5.0 (compatible;", ""},
		{"Mozilla/5.0", ""},
		{"360Spider", ""},
		{"(mybot)", ""},
		{"", ""},
		{strings.Repeat("a", 300), strings.Repeat("a", 256)},
	} {
		if got := ProductToken(c.userAgent); got != c.want {
			t.Errorf("%q: got token %q, want %q", c.userAgent, got, c.want)
		}
	}
}

func TestIsToken(t *testing.T) {
	for s, want := range map[string]bool{
		"mybot": true, "My_Bot-2": true, "360Spider": true, strings.Repeat("a", 256): true,
		"": false, "mybot/1.0": false, "my bot": false, "*": false, "b\u00f6t": false, strings.Repeat("a", 257): false,
	} {
		if got := IsToken(s); got != want {
			t.Errorf("%q: got %v", s, got)
		}
	}
}
