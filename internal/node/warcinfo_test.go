package node

import (
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/warc"
)

func TestParseInfo(t *testing.T) {
	fields, err := ParseInfo([]string{"publisher=National Library", " isPartOf = Spring = 2026 ", "audience=Ä",
		"audience=b"})
	want := []warc.Field{{Name: "publisher", Value: "National Library"}, {Name: "isPartOf", Value: "Spring = 2026"},
		{Name: "audience", Value: "Ä"}, {Name: "audience", Value: "b"}}
	if err != nil || len(fields) != len(want) {
		t.Fatalf("%v, %v", fields, err)
	}
	for i := range want {
		if fields[i] != want[i] {
			t.Errorf("got %v, want %v", fields[i], want[i])
		}
	}
	for value, want := range map[string]string{
		"publisher":                             "write NAME=VALUE",
		"=x":                                    "write NAME=VALUE",
		"a b=x":                                 "write NAME=VALUE",
		"a:b=x":                                 "write NAME=VALUE",
		"a\r\nb=x":                              "write NAME=VALUE",
		"ä=x":                                   "write NAME=VALUE",
		"publisher= ":                           "has no value",
		"publisher=a\r\nrobots: ignore":         "control character",
		"publisher=a\u0085b":                    "control character",
		"publisher=\xff":                        "control character",
		"Software=mine":                         "the crawl sets this field itself",
		"conformsto=x":                          "the crawl sets this field itself",
		"publisher=" + strings.Repeat("x", 5e3): "5000 bytes",
		strings.Repeat("n", 65) + "=x":          "write NAME=VALUE",
	} {
		if _, err := ParseInfo([]string{value}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: got %v, want an error with %q", value, err, want)
		}
	}
}

// Fields that a person gives replace those that describe the crawl.
func TestInfo(t *testing.T) {
	a := &Agent{cfg: Config{Dir: "/crawls/spring", Contact: "ops@example.org"}}
	text := func() string {
		var b strings.Builder
		for _, f := range a.info("mybot") {
			b.WriteString(f.Name + "=" + f.Value + ";")
		}
		return b.String()
	}
	if s := text(); !strings.Contains(s, "http-header-user-agent=mybot;isPartOf=spring;operator=ops@example.org;") {
		t.Errorf("got %s", s)
	}
	a.cfg.Archive.Info = []warc.Field{{Name: "Operator", Value: "Ann"}, {Name: "audience", Value: "all"}}
	if s := text(); strings.Contains(s, "ops@") || !strings.HasSuffix(s, "isPartOf=spring;Operator=Ann;audience=all;") {
		t.Errorf("got %s", s)
	}
}
