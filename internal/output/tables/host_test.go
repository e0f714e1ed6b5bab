package tables

import (
	"strconv"
	"strings"
	"testing"
)

// The parts of URLs are those of Common Crawl's classes WarcUri and HostName, and of the public suffix list.
func TestPlaces(t *testing.T) {
	for url, want := range map[string]string{
		"http://www.example.com/a?b=c#d":        "http|www.example.com|-1|/a|b=c",
		"https://u:p@Example.COM:8443/":         "https|example.com|8443|/|-",
		"http://[2001:DB8::1]:81/x":             "http|[2001:db8::1]|81|/x|-",
		"http://192.0.2.7/?":                    "http|192.0.2.7|-1|/|",
		"ftp://ftp.example.org./f":              "ftp|ftp.example.org|-1|/f|-",
		"ftp://ftp.example.org:99999/":          "ftp|ftp.example.org|-1|/|-",
		"dns:Example.org":                       "dns|example.org|-1||-",
		"urn:uuid:1-2?x":                        "urn||-1|uuid:1-2|x",
		"nothing":                               "||-1|nothing|-",
		"":                                      "||-1||-",
		"http://b\u00fccher.example/\u00e4":     "http|xn--bcher-kva.example|-1|/%C3%A4|-",
		"whois://whois.iana.org/example.com?x#": "whois|whois.iana.org|-1|/example.com|x",
	} {
		p := placeOf(url)
		query := "-"
		if p.hasQuery {
			query = p.query
		}
		got := strings.Join([]string{p.protocol, p.host, strconv.Itoa(int(p.port)), p.path, query}, "|")
		if got != want {
			t.Errorf("%s: %s, want %s", url, got, want)
		}
	}
}

func TestNames(t *testing.T) {
	// host: its parts; registry suffix, registered domain; private suffix, private domain; reversed
	for line := range strings.Lines(`
www.example.com: com example www - -|com|example.com|com|example.com|com.example.www
bbc.co.uk: uk co bbc - -|co.uk|bbc.co.uk|co.uk|bbc.co.uk|uk.co.bbc
a.b.c.d.e.example.org: org example e d c|org|example.org|org|example.org|org.example.e.d.c.b.a
a.blogspot.com: com blogspot a - -|com|blogspot.com|blogspot.com|a.blogspot.com|com.blogspot.a
blogspot.com: com blogspot - - -|com|blogspot.com|blogspot.com|-|com.blogspot
com: com - - - -|com|-|com|-|com
x.github.io: io github x - -|io|github.io|github.io|x.github.io|io.github.x
www.ck: ck www - - -|ck|www.ck|ck|www.ck|ck.www
a.b.foo.ck: ck foo b a -|foo.ck|b.foo.ck|foo.ck|b.foo.ck|ck.foo.b.a
localhost: localhost - - - -|-|-|-|-|localhost
printer.nosuchtld: nosuchtld printer - - -|-|-|-|-|nosuchtld.printer
192.0.2.7: - - - - -|-|-|-|-|-
[2001:db8::1]: - - - - -|-|-|-|-|-
a..com: com - a - -|-|-|-|-|com..a
xn--x.xn--p1ai: xn--p1ai xn--x - - -|xn--p1ai|xn--x.xn--p1ai|xn--p1ai|xn--x.xn--p1ai|xn--p1ai.xn--x
b.s3.amazonaws.com: com amazonaws s3 b -|com|amazonaws.com|s3.amazonaws.com|b.s3.amazonaws.com|com.amazonaws.s3.b
city.kawasaki.jp: jp kawasaki city - -|kawasaki.jp|city.kawasaki.jp|kawasaki.jp|city.kawasaki.jp|jp.kawasaki.city
`) {
		host, want, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if !ok {
			continue
		}

		n := nameOf(host)
		cells := []string{strings.Join(dashes(n.parts[:]...), " ")}
		cells = append(cells, dashes(n.registrySuffix, n.registeredDomain, n.privateSuffix, n.privateDomain,
			n.reversed)...)
		if got := strings.Join(cells, "|"); got != want {
			t.Errorf("%s: %s, want %s", host, got, want)
		}
	}
}

func dashes(s ...string) (all []string) {
	for _, s := range s {
		if s == "" {
			s = "-"
		}
		all = append(all, s)
	}
	return all
}
