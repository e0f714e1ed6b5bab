package lost_test

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testmembers"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// An heir has the lists of the archives of two agents: a2, which was killed, and a3, which is there. It stands for its
// crawl, too.
type heir struct {
	*lost.Refetch
	lists  *lost.Lists
	agent  *testmembers.Agent
	fs     *testdisk.Mem
	killed handoff.Source

	mu  sync.Mutex // guards the fields below
	got map[string]int
	err error
}

// crawlOf is the crawl of an heir.
type crawlOf struct{ *heir }

func (h crawlOf) Refetch(_ context.Context, links []link.Link) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil {
		return h.err
	}
	for _, l := range links {
		h.got[fmt.Sprintf("%s %d", l.URL.Path(), l.Refetches())]++
	}
	return nil
}

// file returns a file in the reports, or "".
func (h *heir) file(prefix string) string {
	b, err := disk.ReadFile(h.fs, "/crawl/reports/"+prefix+h.killed.Archive()+".txt", 1<<20)
	if err != nil {
		return ""
	}
	var urls []string
	for line := range strings.Lines(string(b)) {
		if u, err := weburl.Parse(strings.TrimSpace(line)); err == nil {
			urls = append(urls, u.Path())
		}
	}
	return fmt.Sprint(urls)
}

func inherits(t *testing.T, refetches bool, play func(h *heir)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := testmembers.Open(t, "a1", "a2", "a3")
		h := &heir{agent: c.Agents[0], fs: testdisk.NewMem(), got: map[string]int{}}
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		must(errors.Join(h.fs.MkdirAll("/crawl/reports", 0o755), h.fs.MkdirAll("/crawl/state", 0o755)))
		events, err := report.OpenEvents(h.fs, "/crawl/events", clock.System)
		must(err)
		h.lists, err = lost.Open(lost.Config{FS: h.fs, Dir: "/crawl", Clock: clock.System, Events: events,
			Members: h.agent.Members, Refetches: refetches})
		must(err)
		h.Refetch = lost.NewRefetch(h.lists)
		c.Begin()
		c.Agents[1].Kill()
		time.Sleep(testmembers.Settle)
		for _, a := range c.Agents[1:] {
			self := a.Members.Self
			of := handoff.Source{Name: self.Name, Instance: self.Instance}
			must(lose(h.lists, of, "http://a.example/1", "http://a.example/2", "http://a.example/3"))
			if self.Name == "a2" {
				h.killed = of
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { h.Tend(ctx, crawlOf{h}); close(ended) }()
		play(h)
		cancel()
		<-ended
	})
}

// The pages of an archive that is lost are accepted once more, and those of an agent that is there are not. The list is
// renamed after that, and nothing more is wanted. An agent without refetches wants none.
func TestRefetch(t *testing.T) {
	inherits(t, true, func(h *heir) {
		v := h.agent.Members.View()
		if h.lists.Wanting(v) != 3 || !h.Wanted(v) || !h.Settled() {
			t.Errorf("%d pages are wanted; settled %v", h.lists.Wanting(v), h.Settled())
		}
		if !h.Begin(v) || h.Settled() {
			t.Error("it does not begin")
		}
		synctest.Wait()
		if fmt.Sprint(h.got) != "map[/1 1:1 /2 1:1 /3 1:1]" || h.file("lost-") != "" ||
			h.file("refetched-") != "[/1 /2 /3]" {
			t.Errorf("accepted %v; lists %s, %s", h.got, h.file("lost-"), h.file("refetched-"))
		}
		if h.Wanted(v) || h.Begin(v) || !h.Settled() || h.lists.Lost().Listed != 0 {
			t.Errorf("after that, %d pages are wanted", h.lists.Lost().Listed)
		}
		var none *lost.Refetch
		if none.Wanted(v) || none.Begin(v) || !none.Settled() {
			t.Error("an agent that fetches nothing again wants pages")
		}
	})
}

// Without Refetches, the pages of an archive are wanted if its agent is there with another instance, or was.
func TestRefetchOfRestoredAgents(t *testing.T) {
	inherits(t, false, func(h *heir) {
		v := h.agent.Members.View()
		if h.Wanted(v) || h.Wanted(nil) {
			t.Error("it wants the pages of an agent that is not back")
		}
		a := gossip.Agent{Name: h.killed.Name, Instance: members.Renew(h.killed.Instance), State: gossip.Joining}
		back := func() *gossip.View { return &gossip.View{Agents: []gossip.Agent{a}} }
		if h.Wanted(back()) {
			t.Error("it wants the pages of an agent that is about to join")
		}
		a.State = gossip.Up
		if err := h.lists.Place(back()); err != nil {
			t.Fatal(err)
		}
		if !h.Wanted(back()) || !h.Wanted(v) || !h.Begin(v) {
			t.Error("it does not want the pages of an agent that was restored")
		}
		synctest.Wait()
		if fmt.Sprint(h.got) != "map[/1 1:1 /2 1:1 /3 1:1]" || h.file("refetched-") != "[/1 /2 /3]" {
			t.Errorf("accepted %v; refetched %s", h.got, h.file("refetched-"))
		}
	})
}

// An agent that was restored from a store wants the pages of all lost archives, also without Refetches.
func TestRestoredAgentRefetches(t *testing.T) {
	inherits(t, false, func(h *heir) {
		v := h.agent.Members.View()
		for _, restored := range []bool{false, true} {
			l, err := lost.Open(lost.Config{FS: h.fs, Dir: "/crawl", Clock: clock.System, Members: h.agent.Members,
				Restored: restored})
			if err != nil {
				t.Fatal(err)
			}
			if got := lost.NewRefetch(l).Wanted(v); got != restored {
				t.Errorf("restored %t: it wants pages: %t", restored, got)
			}
		}
	})
}

// If the links cannot be accepted, the list stays, and each Begin tries again, up to a bound. After the end of the
// crawl nobody tries.
func TestRefetchFails(t *testing.T) {
	for _, c := range []struct {
		err   error
		tries int
	}{{errors.New("the disk fails"), 5}, {crawl.ErrNotRunning, 6}} {
		inherits(t, true, func(h *heir) {
			h.err = c.err
			v := h.agent.Members.View()
			tries := 0
			for ; tries < 6 && h.Begin(v); tries++ {
				synctest.Wait()
			}
			if tries != c.tries || h.file("lost-") != "[/1 /2 /3]" || len(h.got) > 0 {
				t.Errorf("%v: %d attempts; the list is %s", c.err, tries, h.file("lost-"))
			}
		})
	}
}
