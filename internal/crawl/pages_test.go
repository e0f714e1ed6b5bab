package crawl_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

// A given collects the calls of Pages.
type given struct {
	mu    sync.Mutex // guards all below
	pages []string   // status and URL
}

func (h *given) take(p *visit.Page) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pages = append(h.pages, fmt.Sprint(p.Status, " ", strings.TrimPrefix(p.Link.URL.String(), "http://")))
	return len(h.pages)
}

func (h *given) sorted() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Sorted(slices.Values(h.pages))
}

// manyHosts is a web of hosts with two pages each.
func manyHosts(t *testing.T, hosts int, settings string) *story {
	t.Helper()
	var text strings.Builder
	text.WriteString(settings)
	for i := range hosts {
		host := fmt.Sprintf("h%02d.example", i)
		fmt.Fprintf(&text, "seed http://%s/\ndns %[1]s 192.0.2.%d\nhttp://%[1]s/ /2\nhttp://%[1]s/2\n", host, i+1)
	}
	s := parsed(t, text.String())
	return s
}

// Calls of Pages that do not return stop the crawl: it fetches no more pages than there are
// workers. When they return, the crawl continues.
func TestPagesHoldUpTheCrawl(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const workers = 3
		s := manyHosts(t, 20, fmt.Sprintf("workers %d\n", workers))
		var h given
		release := make(chan struct{})
		s.with = func(r *crawl.Parts) error {
			r.Pages = visit.PagesFunc(func(ctx context.Context, p *visit.Page) error {
				h.take(p)
				<-release
				return nil
			})
			return nil
		}
		w := s.opened(t, testdisk.NewMem())
		ended := w.background(t.Context(), t)
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := len(h.sorted()); n != workers {
			t.Errorf("%d calls after an hour, want %d", n, workers)
		}
		fetched := 0
		for _, r := range s.web.Told() {
			if !strings.HasSuffix(r.URL, "/robots.txt") {
				fetched++
			}
		}
		if fetched != workers {
			t.Errorf("%d pages were fetched, want %d", fetched, workers)
		}
		close(release)
		if stop := <-ended; stop != crawl.Finished {
			t.Errorf("stop %s", stop)
		}
		if n := len(h.sorted()); n != 40 {
			t.Errorf("%d calls at the end, want 40", n)
		}
		must.Do(t, w.close())
	})
}

// Pages gets the last response to each URL: pages, redirects and errors, with a body only for
// pages. The archive has the record before.
func TestPagesAreGivenTheLastResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := parsed(t, `
seed http://a.example/
dns a.example 192.0.2.1
http://a.example/ /moved /gone /busy /away
http://a.example/moved 302 to=/target
http://a.example/target size=5000
http://a.example/gone 404
http://a.example/busy 503 | 200
http://a.example/away reset
retries 1
`)
		var h given
		s.with = func(r *crawl.Parts) error {
			r.Pages = visit.PagesFunc(func(ctx context.Context, p *visit.Page) error {
				if page := p.Status/100 == 2; page != (p.Body != nil) || page != (p.Parsed != nil) {
					t.Errorf("%s: status %d, %d octets, parsed %v", p.Link.URL, p.Status, len(p.Body), p.Parsed != nil)
				}
				if p.Began.IsZero() {
					t.Errorf("%s: no time", p.Link.URL)
				}
				h.take(p)
				return nil
			})
			return nil
		}
		w := s.run(t)
		want := []string{"200 a.example/", "200 a.example/busy", "200 a.example/target", "302 a.example/moved",
			"404 a.example/gone"}
		if got := h.sorted(); !slices.Equal(got, want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
		must.Do(t, w.close())
	})
}

// The result of Pages decides whether its URL is finished and whether the run stops. The next run
// gives it all pages that the first has not finished, and no other.
func TestPagesStopTheRun(t *testing.T) {
	for _, c := range []struct {
		name     string
		err      error
		finished bool
	}{
		{"enough", fmt.Errorf("seen: %w", visit.ErrEnough), true},
		{"error", errors.New("no room"), false},
	} {
		bubble(t, c.name, func(t *testing.T) {
			s := manyHosts(t, 10, "workers 1\n")
			mem := testdisk.NewMem()
			var first, second given
			var last string
			s.with = func(r *crawl.Parts) error {
				r.Pages = visit.PagesFunc(func(ctx context.Context, p *visit.Page) error {
					if first.take(p) < 5 {
						return nil
					}
					last = "200 " + strings.TrimPrefix(p.Link.URL.String(), "http://")
					return c.err
				})
				return nil
			}
			w := s.opened(t, mem)
			stop, err := w.Run(t.Context())
			if stop != crawl.ByPages || err != nil {
				t.Errorf("stop %s, %v", stop, err)
			}
			s.accounts(t, w)
			must.Do(t, w.close())
			if n := len(first.sorted()); n != 5 {
				t.Errorf("%d calls in the first run, want 5", n)
			}
			s.with = func(r *crawl.Parts) error {
				r.Pages = visit.PagesFunc(func(ctx context.Context, p *visit.Page) error { second.take(p); return nil })
				return nil
			}
			w = s.resume(t, mem)
			must.Do(t, w.close())
			again := slices.Contains(second.sorted(), last)
			if again == c.finished {
				t.Errorf("%s is given again: %v", last, again)
			}
			all := slices.Compact(slices.Sorted(slices.Values(slices.Concat(first.pages, second.pages))))
			calls, want := len(first.pages)+len(second.pages), 20
			if !c.finished {
				want++
			}
			if len(all) != 20 || calls != want {
				t.Errorf("%d calls for %d pages, want %d for 20", calls, len(all), want)
			}
		})
	}
}

// resume continues the crawl on mem to its end.
func (s *story) resume(t *testing.T, mem *testdisk.Mem) *world {
	t.Helper()
	w := s.opened(t, mem)
	stop, err := w.Run(t.Context())
	if stop != crawl.Finished || err != nil {
		t.Errorf("stop %s, %v", stop, err)
	}
	s.accounts(t, w)
	return w
}

// A kill repeats the pages whose call had not returned, or whose finish was not yet in the journal.
// All others are given exactly once.
func TestPagesAfterAKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := manyHosts(t, 10, "workers 2\n")
		mem := testdisk.NewMem()
		var first, second given
		s.with = func(r *crawl.Parts) error {
			r.Pages = visit.PagesFunc(func(ctx context.Context, p *visit.Page) error {
				if first.take(p) <= 6 {
					return nil
				}
				<-ctx.Done()
				return ctx.Err()
			})
			return nil
		}
		s.cfg.DrainTimeout = time.Nanosecond
		w := s.opened(t, mem)
		ctx, cancel := context.WithCancel(t.Context())
		ended := w.background(ctx, t)
		time.Sleep(time.Hour)
		synctest.Wait()
		left := w.kill(cancel)
		if stop := <-ended; stop != crawl.Signal {
			t.Errorf("stop %s", stop)
		}
		must.Do(t, w.close())
		s.with = func(r *crawl.Parts) error {
			r.Pages = visit.PagesFunc(func(ctx context.Context, p *visit.Page) error { second.take(p); return nil })
			return nil
		}
		must.Do(t, s.resume(t, left).close())
		all := slices.Compact(slices.Sorted(slices.Values(slices.Concat(first.pages[:6], second.pages))))
		if len(all) != 20 || len(second.pages) != 14 {
			t.Errorf("%d pages, %d of them in the second run; want 20 and 14", len(all), len(second.pages))
		}
	})
}
