package lost_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/handoff"
	"github.com/orbweaver/orbweaver/internal/cluster/lost"
	"github.com/orbweaver/orbweaver/internal/cluster/members"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// held has the URLs in the segments of agents, or an error.
type held struct {
	urls map[string][]string
	mu   sync.Mutex // guards err
	err  error
}

// fails sets the error from now on.
func (h *held) fails(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.err = err
}

func (h *held) Each(_ context.Context, agent string, fn func(url string) error) error {
	for _, u := range h.urls[agent] {
		if err := fn(u); err != nil {
			return err
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err
}

// TestStoredPagesAreOffTheList: the list of a lost archive loses the pages that the store has of that agent. A list
// without pages goes. If the store refuses, the list stays, and the next try takes the pages off.
func TestStoredPagesAreOffTheList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := testdisk.NewMem()
		for _, dir := range []string{"logs", "reports"} {
			must.Do(t, mem.MkdirAll("/crawl/"+dir, 0o755))
		}
		events := must.Get(report.OpenEvents(mem, "/crawl/logs/events.jsonl", clock.Or(nil)))(t)
		defer events.Close()
		a := func(n int) string { return fmt.Sprintf("http://a.example/%d", n) }
		store := &held{urls: map[string][]string{"a2": {a(1), a(1), a(3), "no URL", "http://b.example/"}, "a3": {a(9)}},
			err: errors.New("no right to list")}
		l := must.Get(lost.Open(lost.Config{FS: mem, Dir: "/crawl", Clock: clock.Or(nil), Events: events, Stored: store,
			Members: &members.Members{Self: gossip.Agent{Name: "a1"}}}))(t)
		add := func(from handoff.Source, refetches uint8, urls ...string) {
			list, _, err := l.List(from)
			must.Do(t, err)
			for _, u := range urls {
				page := link.Link{URL: weburl.MustParse(u)}
				page.SetRefetches(refetches)
				must.Do(t, list.Add(page, from.Archive()))
			}
			must.Do(t, errors.Join(list.Commit(), list.Close()))
		}
		text := func(name string) string {
			b, err := disk.ReadFile(mem, "/crawl/reports/"+name, 1<<20)
			if errors.Is(err, fs.ErrNotExist) {
				return "none"
			}
			return string(b)
		}
		a2, a3 := "lost-a2-00000000.txt", "lost-a3-00000000.txt"
		add(handoff.Source{Name: "a2"}, 0, a(1), a(2), a(3))
		add(handoff.Source{Name: "a2"}, 2, a(4))
		add(handoff.Source{Name: "a3"}, 0, a(9))
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go l.Tend(ctx)
		time.Sleep(30 * time.Second)
		if !strings.Contains(text(a2), a(1)+"\n") {
			t.Errorf("the store refuses, and the list is %s", text(a2))
		}
		store.fails(nil)
		time.Sleep(2 * time.Minute)
		got := text(a2)
		for n, want := range map[int]bool{1: false, 2: true, 3: false, 4: true} {
			if strings.Contains(got, a(n)+"\n") != want {
				t.Errorf("%s is on the list: %v\n%s", a(n), !want, got)
			}
		}
		if !strings.Contains(got, "has 2 pages") || !strings.Contains(got, "times: 2\n"+a(4)) || text(a3) != "none" ||
			l.Lost().Listed != 2 {
			t.Errorf("%d are listed: %s\n%s", l.Lost().Listed, got, text(a3))
		}
		add(handoff.Source{Name: "a2"}, 0, a(1), a(5)) // another takeover knows of more of its pages
		time.Sleep(time.Minute)
		if got = text(a2); strings.Contains(got, a(1)+"\n") || !strings.Contains(got, a(5)+"\n") {
			t.Errorf("after another takeover: %s", got)
		}
		must.Do(t, events.Sync())
		log := string(must.Get(disk.ReadFile(mem, "/crawl/logs/events.jsonl", 1<<20))(t))
		if !strings.Contains(log, `"lost-stored-failed"`) ||
			!strings.Contains(log, `"lost-stored","list":"a2-00000000","stored":2,"urls":2`) {
			t.Errorf("events: %s", log)
		}
	})
}

// TestSiftIsWholeAfterAKill kills the agent at each change of the disk while a list loses pages. The list has each lost
// page.
func TestSiftIsWholeAfterAKill(t *testing.T) {
	dead := errors.New("killed")
	for at := int64(1); ; at++ {
		done := false
		synctest.Test(t, func(t *testing.T) {
			mem := testdisk.NewMem()
			lists, _ := listsOn(t, mem)
			must.Do(t, lose(lists, handoff.Source{Name: "a2"}, "http://a.example/1", "http://a.example/2"))
			store := &held{urls: map[string][]string{"a2": {"http://a.example/1"}}}
			fsys := testdisk.NewFaulty(mem, nil)
			for _, dir := range []string{"logs", "reports"} {
				must.Do(t, mem.MkdirAll("/dead/"+dir, 0o755))
			}
			events := must.Get(report.OpenEvents(mem, "/dead/logs/events.jsonl", clock.Or(nil)))(t)
			defer events.Close()
			l := must.Get(lost.Open(lost.Config{FS: fsys, Dir: "/crawl", Clock: clock.Or(nil), Events: events,
				Stored: store, Members: &members.Members{Self: gossip.Agent{Name: "a1"}}}))(t)
			_, before := fsys.Calls()
			fsys.Break(testdisk.FailFrom(before+at, dead))
			ctx, stop := context.WithCancel(t.Context())
			go l.Tend(ctx)
			time.Sleep(10 * time.Second)
			stop()
			synctest.Wait()
			_, after := fsys.Calls()
			done = after < before+at
			got := strings.Join(namesOf(t, lists), " ")
			if !strings.Contains(got, "a.example/2") || done && strings.Contains(got, "a.example/1") {
				t.Errorf("killed at change %d: %s", at, got)
			}
		})
		if done {
			t.Logf("%d changes", at-1)
			return
		}
	}
}
