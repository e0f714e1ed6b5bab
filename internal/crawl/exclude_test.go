package crawl

import (
	"fmt"
	"testing"

	"github.com/orbweaver/orbweaver/internal/web/sheet"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// Exclusions whose alternation is too large hold all the same, and a wrong pattern changes nothing.
func TestExclusions(t *testing.T) {
	var list []Exclusion
	for i := range 40 {
		list = append(list, Exclusion{Pattern: fmt.Sprintf("/%d/c{3}$", i), Deeper: -1, Why: fmt.Sprint(i)})
	}
	e, err := newExclusions(list)
	if err != nil || e.apart {
		t.Fatal(err)
	}
	e.apart, e.patterns = true, sheet.Patterns{} // an alternation that is too large takes much memory
	for u, want := range map[string]string{"http://a.example/17/ccc": "17", "http://a.example/40/ccc": ""} {
		got := ""
		if x := e.of(&weburl.Link{URL: weburl.MustParse(u)}); x != nil {
			got = x.Why
		}
		if got != want {
			t.Errorf("%s: excluded by %q, want %q", u, got, want)
		}
	}
}
