package crawl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// view returns a View of the parts.
func (b *bench) view() *View {
	return &View{cfg: &b.cfg, parts: &Parts{Frontier: b.Frontier, Tally: b.Tally, Seen: b.Seen}, run: b.run,
		ledger: b.ledger, gate: b.gate, book: b.book, origins: &b.origins, plan: &b.plan, progress: &b.progress,
		errands: &errands{}}
}

// A listing has the links that wait at one moment, by priority and then in their order, however they are read. It
// leaves no file behind.
func TestListingOfParts(t *testing.T) {
	b := on(t, testdisk.NewMem())
	v := b.view()
	if ls := v.List(t.Context(), 1, nil); !errors.Is(countOf(t, ls), ErrNotRunning) {
		t.Errorf("before Run: %v", countOf(t, ls))
	}
	b.serve()
	must.Do(t, b.run.Do(t.Context(), "take", func(time.Time) {
		for i := range 60 {
			l := foundAt(fmt.Sprintf("http://a.example/%02d", i))
			l.Level = uint8(i % 3)
			b.intake.takeIn(l)
		}
	}))
	ls := v.List(t.Context(), 2, func(l *link.Link) bool { return l.URL.Path() != "/07" })
	c, err := ls.Count(t.Context(), true)
	if err != nil || c.Waiting != 60 || c.Matched != 59 || c.Reading {
		t.Errorf("%+v, %v", c, err)
	}
	var want []string
	for level := 2; level >= 0; level-- {
		for i := range 60 {
			if i%3 == level && i != 7 {
				want = append(want, fmt.Sprintf("/%02d", i))
			}
		}
	}
	for _, c := range []struct{ most, bytes int }{{1000, 1 << 20}, {7, 1 << 20}, {1000, 100}, {1, 1}} {
		var got []string
		for from, more := int64(0), true; more; {
			links, next, m, err := ls.Page(from, c.most, c.bytes)
			if must.Do(t, err); len(links) > c.most || m && next == from {
				t.Fatalf("%d links from %d to %d", len(links), from, next)
			}
			for _, l := range links {
				got = append(got, l.URL.Path())
			}
			from, more = next, m
		}
		if !slices.Equal(got, want) {
			t.Errorf("by %+v: %v", c, got)
		}
	}
	for _, from := range []int64{-1, 1, 1 << 40} {
		if _, _, _, err := ls.Page(from, 9, 1<<20); !errors.Is(err, ErrListing) {
			t.Errorf("from %d: %v", from, err)
		}
	}
	must.Do(t, ls.Close())
	must.Do(t, ls.Close())
	if _, _, _, err := ls.Page(0, 9, 1<<20); !errors.Is(err, ErrListing) {
		t.Errorf("of a closed listing: %v", err)
	}
	all, err := b.mem.ReadDir(b.JournalDir())
	must.Do(t, err)
	for _, e := range all {
		if strings.HasSuffix(e.Name(), ".tmp") {
			t.Errorf("%s is left", e.Name())
		}
	}
}

func countOf(t *testing.T, ls *Listing) error {
	_, err := ls.Count(t.Context(), true)
	return err
}

// A listing whose caller goes, or whose disk fails, ends with the error, and the crawl goes on.
func TestListingEndsEarly(t *testing.T) {
	broken := errors.New("broken")
	for name, want := range map[string]error{"cancelled": context.Canceled, "broken": broken} {
		t.Run(name, func(t *testing.T) {
			b := on(t, testdisk.NewMem())
			b.serve()
			must.Do(t, b.run.Do(t.Context(), "take", func(time.Time) { b.intake.take(b.links("http://a.example/1")) }))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ls := b.view().List(ctx, 1, func(*link.Link) bool {
				if want == broken {
					b.fs.Break(func(testdisk.Call) testdisk.Fault { return testdisk.Fault{Err: broken} })
				} else {
					cancel()
				}
				return true
			})
			if err := countOf(t, ls); want == broken && !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
			b.fs.Heal()
			if _ = ls.Close(); b.failed() {
				t.Errorf("the run has failed: %v", b.run.Err())
			}
			if next := b.view().List(t.Context(), 2, nil); countOf(t, next) != nil {
				t.Errorf("the next listing: %v", countOf(t, next))
			} else {
				must.Do(t, next.Close())
			}
		})
	}
}

// An obstacle is asked in its turn, and only until one holds.
func TestObstacles(t *testing.T) {
	now, asked := time.Unix(1e9, 0), ""
	at := func(name string, held bool, ask time.Time) Obstacle {
		return condition{func(time.Time) (bool, time.Time) { asked += name; return held, ask },
			func(time.Time) Hindrance { return Hindrance{Waits: name} }}
	}
	held, ask := obstructed([]Obstacle{at("a", false, now), at("b", true, now.Add(time.Second)), at("c", true, now)},
		now)
	if !held || !ask.Equal(now.Add(time.Second)) || asked != "ab" {
		t.Errorf("held %v until %s, asked %s", held, ask, asked)
	}
	if held, ask := obstructed([]Obstacle{at("a", false, now)}, now); held || !ask.IsZero() {
		t.Errorf("held %v until %s", held, ask)
	}
	o := obstacles{others: []Obstacle{at("x", false, now), at("", true, now), at("y", true, now), at("z", true, now)}}
	if got := o.waitsFor(now); got != "y" {
		t.Errorf("waits for %q, want the first that holds and says it", got)
	}
}
