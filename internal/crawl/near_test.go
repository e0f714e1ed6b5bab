package crawl

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/orbweaver/orbweaver/internal/web/near"
	"github.com/orbweaver/orbweaver/internal/web/near/index"
)

// likes is a NearDuplicates that takes every page for a near-duplicate of the one page.
type likes struct{ of string }

func (l likes) Find(_ context.Context, _ near.Sketch, p index.Page) (*index.Page, *index.Claim, error) {
	if p.URL == l.of || !strings.HasSuffix(p.URL, "/2") {
		return nil, nil, nil
	}
	return &index.Page{URL: l.of, Date: p.Date}, nil, nil
}

func (likes) Syncing() func() { return func() {} }

// A marked page is archived and followed. A dropped one leaves a metadata record that names the other page.
func TestNear(t *testing.T) {
	prose := "title=" + strings.Repeat("a_b_c_d_", 10)
	for _, drop := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := &story{
				cfg:  Config{DropNear: drop},
				with: func(r *Parts) error { r.Near = likes{"http://a.example/1"}; return nil },
				text: strings.ReplaceAll(`
seed http://a.example/
dns a.example 192.0.2.1
http://a.example/ /1 /2
http://a.example/1 PROSE
http://a.example/2 PROSE /3
http://a.example/3 404
http://a.example/robots.txt robots=User-agent:_*;Disallow:
`, "PROSE", prose),
			}
			s.parse(t)
			w := s.run(t)
			log := logText(w.parts.Lines(t, w.fs))
			if n := strings.Count(log, "near-duplicate:http://a.example/1"); n != 1 {
				t.Errorf("%d pages are marked, want 1:\n%s", n, log)
			}
			if got := strings.Contains(log, "a.example/3"); got == drop {
				t.Errorf("drop %v: the links are followed: %v", drop, got)
			}
			if sum := w.Tally.Summary(0, ""); sum.Near != 1 {
				t.Errorf("%+v", sum)
			}
			var types []string
			for _, r := range records(t, w.fs, "http://a.example/2") {
				types = append(types, r.Type())
			}
			t.Log(types)
		})
	}
}
