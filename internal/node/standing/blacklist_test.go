package standing

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// A blacklist has entries of four kinds, and comments. An error names the line.
func TestParseBlacklist(t *testing.T) {
	b := must.Get(parseBlacklist("list", []byte("\ufeff# a comment\n\nwww.Example.org # this host\r\n*.example.net\n"+
		"192.0.2.7/24\n192.0.2.9\n\t/calendar/ \nexample.com/x#y\n[::1]")))(t)
	var got []string
	for _, x := range b.bars {
		got = append(got, fmt.Sprintf("%s%s %v: %s", x.Host, x.Domain, x.Prefix, x.Why))
	}
	for _, x := range b.patterns {
		got = append(got, fmt.Sprintf("%s %d: %s", x.Pattern, x.Deeper, x.Why))
	}
	want := []string{"www.example.org invalid Prefix: list, line 3", "example.net invalid Prefix: list, line 4",
		" 192.0.2.0/24: list, line 5", "192.0.2.9 invalid Prefix: list, line 6", "[::1] invalid Prefix: list, line 9",
		"/calendar/ -1: list, line 7", "example.com/x#y -1: list, line 8"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") || b.len() != 7 {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	all := b.find("", 6)
	var found []string
	for _, e := range append(all.List, b.find("/", 1).List...) {
		found = append(found, e.About+": "+e.Why)
	}
	if got := strings.Join(found, "; "); all.Entries != 7 || all.Matches != 7 || b.find("/", 1).Matches != 3 || got !=
		"www.example.org: list, line 3; *.example.net: list, line 4; 192.0.2.0/24: list, line 5; "+
			"192.0.2.9: list, line 6; [::1]: list, line 9; /calendar/: list, line 7; 192.0.2.0/24: list, line 5" {
		t.Errorf("found %s", got)
	}
	for _, bad := range []string{"a.example\n(\n", "x.example\n*.\n", "\n::ffff:192.0.2.0/120"} {
		_, err := parseBlacklist("list", []byte(bad))
		if err == nil || !strings.HasPrefix(err.Error(), "list, line 2: ") {
			t.Errorf("%q: %v", bad, err)
		} else if _, ok := errors.AsType[*input.ConfigError](err); !ok {
			t.Errorf("%q: %T", bad, err)
		}
	}
}
