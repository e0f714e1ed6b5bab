package crawl_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// queueWeb has n links to each of three hosts on the first page.
func queueWeb(n int) string {
	var b strings.Builder
	b.WriteString("delay 1s\nseed http://a.example/\nhttp://a.example/")
	for i := range n {
		for _, h := range []string{"a", "b", "c"} {
			fmt.Fprintf(&b, " http://%s.example/%d", h, i)
		}
	}
	for i, h := range []string{"a", "b", "c"} {
		fmt.Fprintf(&b, "\ndns %s.example 192.0.2.%d", h, i+1)
	}
	return b.String() + "\n"
}

// lists returns the URLs of a listing, read in pages.
func lists(t *testing.T, w *world, nth, most int, match func(*link.Link) bool) (urls []string, n crawl.Count) {
	t.Helper()
	ls := w.View.List(t.Context(), nth, match)
	n, err := ls.Count(t.Context(), true)
	if err != nil || n.Reading {
		t.Fatal(n, err)
	}
	for from, more := int64(0), true; more; {
		var links []link.Link
		if links, from, more, err = ls.Page(from, most, 1<<20); err != nil || len(links) > most ||
			more && len(links) < most {
			t.Fatalf("%d links, more: %v, %v", len(links), more, err)
		}
		for _, l := range links {
			urls = append(urls, l.URL.String())
		}
	}
	if _, _, _, err := ls.Page(1<<40, 1, 1); !errors.Is(err, crawl.ErrListing) {
		t.Errorf("a position behind the end: %v", err)
	}
	if err := ls.Close(); err != nil {
		t.Error(err)
	}
	return urls, n
}

// A listing has exactly the links that wait, in the order of acceptance, wherever they are: in the queues of hosts, in
// pools, on disk, blocked, or set aside. It survives a checkpoint, and the crawl goes on meanwhile.
func TestListing(t *testing.T) {
	for name, cfg := range map[string]frontier.Config{"memory": {}, "spilled": {MemoryBytes: 1, SegmentBytes: 500},
		"pools": {Active: 1, MemoryBytes: 4000}} {
		bubble(t, name, func(t *testing.T) {
			s := &story{text: queueWeb(200), frontier: cfg}
			w, cancel, end := s.begin(t)
			time.Sleep(10500 * time.Millisecond)
			w.blocks(t, "b.example")
			must.Do(t, w.Orders.Exclude(t.Context(), []crawl.Exclusion{{Pattern: "c.example/.*7$", Deeper: -1}}))
			time.Sleep(20 * time.Second)
			waiting := w.View.Status().Queued
			urls, n := lists(t, w, 1, 7, nil)
			if int64(len(urls)) != waiting || n.Waiting != waiting || n.Matched != waiting {
				t.Errorf("%d URLs, %+v, %d wait", len(urls), n, waiting)
			}
			fetched := map[string]bool{}
			for _, r := range s.web.Told() {
				fetched[r.URL] = true
			}
			seen := map[string]bool{}
			for _, u := range urls {
				if fetched[u] || seen[u] {
					t.Errorf("%s was fetched: %v, is listed twice: %v", u, fetched[u], seen[u])
				}
				seen[u] = true
			}
			must.Get(w.Orders.Checkpoint(t.Context()))(t)
			of, n := lists(t, w, 2, 1000, func(l *link.Link) bool { return l.URL.Host() == "b.example" })
			want := slices.DeleteFunc(slices.Clone(urls),
				func(u string) bool { return !strings.Contains(u, "b.e") })
			if !slices.Equal(of, want) || n.Matched != int64(len(want)) || n.Waiting < n.Matched {
				t.Errorf("of b.example: %d, want %d; %+v", len(of), len(want), n)
			}
			cancel()
			ran(t)(end())
			_, err := w.View.List(t.Context(), 3, nil).Count(t.Context(), true)
			if !errors.Is(err, crawl.ErrNotRunning) {
				t.Errorf("after the run: %v", err)
			}
			s.accounts(t, w)
			must.Do(t, w.close())
			if left := s.disk.Load().Clone(); left != nil {
				files, err := left.ReadDir(crawlDir + "/state/journal")
				for _, f := range files {
					if strings.HasPrefix(f.Name(), "listing") {
						t.Errorf("%s is left", f.Name())
					}
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// Links of a higher priority come first. A page ends after its bytes, too.
func TestListingLevels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &story{text: queueWeb(20)}
		s.strategy = func() visit.Strategy { return byDigit{} }
		w, cancel, end := s.begin(t)
		time.Sleep(1500 * time.Millisecond)
		urls, _ := lists(t, w, 1, 3, nil)
		last := 10
		for _, u := range urls {
			level := int(u[len(u)-1] - '0')
			if level > last || level < 0 {
				t.Errorf("%s comes after level %d", u, last)
			}
			last = level
		}
		ls := w.View.List(t.Context(), 2, nil)
		must.Get(ls.Count(t.Context(), true))(t)
		if links, _, more, err := ls.Page(0, 100, 1); len(links) != 1 || !more || err != nil {
			t.Errorf("%d links, more: %v, %v", len(links), more, err)
		}
		if err := errors.Join(ls.Close(), ls.Close()); err != nil {
			t.Error(err)
		}
		cancel()
		ran(t)(end())
		must.Do(t, w.close())
	})
}

// byDigit gives links the level of their last digit.
type byDigit struct{}

func (byDigit) Follow(_ *visit.Page, l *link.Link) visit.Choice {
	u := l.URL.String()
	l.Level = u[len(u)-1] - '0'
	return visit.Take
}

// A listing that nobody waits for any more ends early, and so does one when the run ends. Neither disturbs the crawl.
func TestListingEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &story{text: queueWeb(50)}
		w, cancel, end := s.begin(t)
		time.Sleep(1500 * time.Millisecond)
		ctx, stop := context.WithCancel(t.Context())
		stop()
		ls := w.View.List(ctx, 1, nil)
		if _, err := ls.Count(t.Context(), true); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		if err := ls.Close(); err != nil {
			t.Error(err)
		}
		hold := make(chan struct{})
		ls = w.View.List(t.Context(), 2, func(*link.Link) bool { <-hold; return true })
		synctest.Wait()
		if n, err := ls.Count(t.Context(), false); err != nil || !n.Reading {
			t.Errorf("%+v, %v", n, err)
		}
		cancel()
		synctest.Wait()
		close(hold)
		ran(t)(end())
		if _, err := ls.Count(t.Context(), true); err != nil && !errors.Is(err, crawl.ErrNotRunning) {
			t.Errorf("%v", err)
		}
		must.Do(t, errors.Join(ls.Close(), w.close()))
	})
}
