package crawl

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/web/sheet"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

const excludedWeb = `
delay 1s
seed http://a.example/
dns a.example 192.0.2.1
dns b.example 192.0.2.2
http://a.example/ /x/busy /1 /x/1 /x/2 /2 http://b.example/4 http://b.example/x/3 /p0 /p1 /p2 /p3 /p4 /p5 /p6 /p7 /p8
http://a.example/1 /x/5 /3 /p10 /p11 /p12 /p13 /p14 /p15 /p16
http://a.example/x/1 /x/6 /4
http://a.example/x/busy 504 | 504 | 200
http://b.example/4 /x/7
`

// Links that an exclusion matches are set aside: those that wait, those that wait for a retry, and those found later.
// When it is taken back, each is fetched once. A crawl with nothing but such links ends as blocked. A drop finishes
// them. Nothing of it depends on whether the process was killed.
func TestExclude(t *testing.T) {
	for _, how := range []string{"stays", "taken back", "taken back after a kill", "dropped",
		"taken back, then a kill"} {
		bubble(t, strings.ReplaceAll(how, " ", "-"), func(t *testing.T) {
			s := &story{text: excludedWeb}
			s.cfg.RetryWait = 3 * time.Second
			w, cancel, end := s.begin(t)
			exclude := func(patterns ...string) {
				t.Helper()
				var list []Exclusion
				for i, p := range patterns {
					list = append(list, Exclusion{Pattern: p, Deeper: -1, Why: fmt.Sprint("order ", i+1)})
				}
				must(t, w.Exclude(t.Context(), list))
			}
			again := func() {
				t.Helper()
				left := w.kill(cancel)
				_, _ = end()
				_ = w.close()
				w = s.opened(t, left)
			}
			rerun := func() {
				var ctx context.Context
				ctx, cancel = context.WithCancel(t.Context())
				var stop Stop
				var err error
				ended := make(chan struct{})
				go func() { defer close(ended); stop, err = w.Run(ctx) }()
				end = func() (Stop, error) { <-ended; return stop, err }
			}
			time.Sleep(2500 * time.Millisecond) // after a.example/x/busy
			exclude("/never", "/x/")
			time.Sleep(9 * time.Second)
			if n := w.Status().Frontier.Aside; n < 2 {
				t.Errorf("%d links are set aside", n)
			}
			if why := w.Excluded(weburl.Link{URL: weburl.MustParse("http://a.example/x/9")}); why != "order 2" {
				t.Errorf("excluded by %q", why)
			}
			if text, err := w.Explain(t.Context(), "a.example"); err != nil || !strings.Contains(text,
				"of all hosts are set aside by exclusions") {
				t.Errorf("explain: %q, %v", text, err)
			}
			if text, err := w.Explain(t.Context(), "a.example"); err != nil || strings.Contains(text, "unknown") {
				t.Errorf("explain: %q, %v", text, err)
			}
			before := len(s.excluded())
			want := Finished
			switch how {
			case "stays":
				want = OnlyBlocked
			case "taken back":
				exclude("/never")
			case "taken back after a kill":
				again()
				exclude("/x/")
				rerun()
				time.Sleep(10 * time.Second)
				exclude()
			case "taken back, then a kill":
				exclude()
				time.Sleep(time.Second)
				again()
				rerun()
			case "dropped":
				for _, host := range []string{"a.example", "b.example"} {
					if _, err := w.Drop(t.Context(), host); err != nil {
						t.Fatal(err)
					}
				}
				exclude()
			}
			stop, err := end()
			if stop != want || err != nil {
				t.Errorf("%v, %v, want %v", stop, err, want)
			}
			s.accounts(t, w)
			asked := s.excluded()
			left := w.Frontier.Stats().Aside
			switch how {
			case "stays":
				if len(asked) != before || left != 6 {
					t.Errorf("%v were asked for, %d are left", asked, left)
				}
			case "dropped":
				if left != 0 || w.Pending() != 0 {
					t.Errorf("%d links are set aside, %d wait", left, w.Pending())
				}
			default:
				if !slices.Equal(asked, []string{"1", "2", "3", "5", "6", "7", "busy"}) || left != 0 {
					t.Errorf("%v were asked for, %d are left", asked, left)
				}
			}
			must(t, w.close())
		})
	}
}

// excluded returns the names of the pages below /x/ that were asked for.
func (s *story) excluded() (names []string) {
	for _, r := range s.web.Told() {
		if _, name, ok := strings.Cut(r.URL, "/x/"); ok && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// An exclusion by depth sets deeper links aside. Links of a smaller depth pass.
func TestExcludeDepth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &story{text: excludedWeb}
		w, _, end := s.begin(t)
		must(t, w.Exclude(t.Context(), []Exclusion{{Deeper: 2}, {Deeper: 1, Why: "depth 1"}}))
		if stop, err := end(); stop != OnlyBlocked || err != nil {
			t.Errorf("%v, %v", stop, err)
		}
		s.accounts(t, w)
		if got := s.excluded(); !slices.Equal(got, []string{"1", "2", "3", "busy"}) ||
			w.Frontier.Stats().Aside != 12 {
			t.Errorf("%v were asked for, %d are set aside", got, w.Frontier.Stats().Aside)
		}
		must(t, w.close())
	})
}

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
	synctest.Test(t, func(t *testing.T) {
		s := parsed(t, excludedWeb)
		w := s.opened(t, testdisk.NewMem())
		if err := w.Exclude(t.Context(), []Exclusion{{Pattern: "(", Deeper: -1, Why: "x"}}); err == nil ||
			w.exclusions.Load() != nil {
			t.Errorf("%v, %v", err, w.exclusions.Load())
		}
		must(t, w.close())
	})
}
