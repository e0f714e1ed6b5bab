package spare

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testmembers"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A copier is an agent that copies its archive files. It stands for its lists and takeovers, too: its list has all
// pages of the archive of each agent that is lost.
type copier struct {
	*testmembers.Agent
	*Copies
	fs   *testdisk.Mem
	stop func() // ends Send and Tend

	mu      sync.Mutex        // guards the fields below
	divided map[string]string // by archive: the pages that copies have
	err     error             // of Divide
}

func (c *copier) Commits() int64 { return 1 }

func (c *copier) TakenOver(v *gossip.View) bool { return v == c.Members.View() }

func (c *copier) Divide(v *gossip.View, _ int64, has func(string, []link.Link) ([]bool, error)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	c.divided = map[string]string{}
	for _, a := range v.Lost {
		pages, text := pagesOf(a.Name), ""
		in, err := has(Folder(a.Name, a.Instance), pages)
		if err != nil {
			return err
		}
		for i := range in {
			if in[i] {
				text += pages[i].URL.Path() + " "
			}
		}
		c.divided[a.Name] = strings.TrimSpace(text)
	}
	return nil
}

// found returns which pages of an agent's archive the copies have.
func (c *copier) found(of string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.divided[of]
}

// pagesOf returns the pages that an agent has fetched: /0 to /3, of which /3 is in a file that is not finished.
func pagesOf(agent string) (ls []link.Link) {
	for i := range 4 {
		ls = append(ls, link.Link{URL: weburl.MustParse(fmt.Sprintf("http://%s.example/%d", agent, i))})
	}
	return ls
}

// fileOf returns the name of an archive file of an agent, with one of its pages.
func fileOf(agent string, page int) string { return fmt.Sprintf("%s-%d%s", agent, page, Suffix) }

// copiers plays with agents of three finished archive files each.
func copiers(t *testing.T, play func(all map[string]*copier)) {
	synctest.Test(t, func(t *testing.T) {
		c := testmembers.Open(t, "a", "b", "c")
		all := map[string]*copier{}
		for _, a := range c.Agents {
			name := a.Members.Self.Name
			s := &copier{Agent: a, fs: testdisk.NewMem()}
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			must(s.fs.MkdirAll("/crawl/archive", 0o755))
			for i, l := range pagesOf(name) {
				file := fileOf(name, i)
				if i == 3 {
					file += ".open"
				}
				must(disk.WriteFile(s.fs, "/crawl/archive/"+file, archive(l.URL.String())))
			}
			events, err := report.OpenEvents(s.fs, "/crawl/events", clock.System)
			must(err)
			s.Copies = NewCopies(Config{FS: s.fs, Dir: "/crawl", Events: events, Members: a.Members, Lists: s,
				Takeovers: s})
			Call.Serve(a.Server, s.Answer)
			ctx, cancel := context.WithCancel(t.Context())
			var running sync.WaitGroup
			s.stop = func() { cancel(); running.Wait() }
			all[name] = s
			defer s.stop()
			defer running.Go(func() { <-ctx.Done() }) // if the test fails before it begins
			running.Go(func() {
				for a.Members.View() == nil || len(a.Members.In(gossip.Up)) < 3 {
					if !clock.Pause(ctx, time.Second) {
						return
					}
				}
				running.Go(func() { s.Send(ctx) })
				s.Tend(ctx)
			})
		}
		c.Begin()
		time.Sleep(time.Minute)
		play(all)
	})
}

// held returns the copies of an agent's files, at each of the others that lives.
func held(t *testing.T, all map[string]*copier, of string) (where map[string]string) {
	t.Helper()
	where = map[string]string{}
	for name, c := range all {
		self := all[of].Members.Self
		files, err := c.store.Files(Folder(of, self.Instance))
		if err != nil {
			t.Error(err)
		}
		var names []string
		for _, f := range files {
			names = append(names, strings.TrimSuffix(strings.TrimPrefix(f.Name, of+"-"), Suffix))
		}
		if slices.Sort(names); len(names) > 0 {
			where[name] = strings.Join(names, " ")
		}
	}
	return where
}

// Each agent's finished files are copied to one other agent. When that one is lost, another one gets them. The lists of
// what the lost agent had are divided by its copies, wherever they are.
func TestCopiesOfLostAgents(t *testing.T) {
	copiers(t, func(all map[string]*copier) {
		for name, c := range all {
			where := held(t, all, name)
			keeper, _ := keeperOf(c.Members.View(), name)
			if len(where) != 1 || where[keeper.Name] != "0 1 2" || !c.Settled() {
				t.Errorf("the copies of %s are at %v; settled: %v", name, where, c.Settled())
			}
			n := c.Counts()
			if n.Keeper != keeper.Name || n.Copied != 3 || n.Waiting != 0 || n.Failing {
				t.Errorf("%s counts %+v", name, n)
			}
		}
		lost := all["a"]
		lost.stop()
		lost.Kill()
		delete(all, "a")
		time.Sleep(5 * time.Minute)
		for name, c := range all {
			keeper, _ := keeperOf(c.Members.View(), name)
			where := held(t, all, name)
			if len(where) != 1 || where[keeper.Name] != "0 1 2" || !c.Settled() {
				t.Errorf("the copies of %s are at %v", name, where)
			}
			if got := c.found("a"); got != "/0 /1 /2" {
				t.Errorf("%s finds %s in copies, want /0 /1 /2", name, got)
			}
		}
	})
}

// While the keeper cannot store a file, the crawl goes on and may end; when it can, the copy is made. A damaged copy
// has no pages. While a list cannot be divided, the crawl waits for some attempts.
func TestCopiesFail(t *testing.T) {
	copiers(t, func(all map[string]*copier) {
		a := all["a"]
		at, _ := keeperOf(a.Members.View(), "a")
		keeper := all[at.Name]
		if err := keeper.store.Drop(Folder("a", a.Members.Self.Instance)); err != nil {
			t.Fatal(err)
		}
		block := filepath.Join("/crawl", Dir, Folder("a", a.Members.Self.Instance))
		if err := errors.Join(keeper.fs.RemoveAll(block), disk.WriteFile(keeper.fs, block, nil)); err != nil {
			t.Fatal(err)
		}
		a.forget() // as after a restart
		if time.Sleep(time.Minute); !a.Counts().Failing || !a.Settled() {
			t.Errorf("the keeper's disk has no room: %+v, settled %v", a.Counts(), a.Settled())
		}
		if err := keeper.fs.Remove(block); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if where := held(t, all, "a"); where[at.Name] != "0 1 2" || a.Counts().Failing {
			t.Errorf("the copies are at %v; %+v", where, a.Counts())
		}
		name := filepath.Join(block, archiveDir, fileOf("a", 1))
		if err := disk.WriteFile(keeper.fs, name, archive("http://a.example/1", "http://evil.example/")); err != nil {
			t.Fatal(err)
		}
		for _, c := range all {
			c.mu.Lock()
			c.err = errors.New("the disk fails")
			c.mu.Unlock()
		}
		a.stop()
		a.Kill()
		for len(keeper.Members.In(gossip.Up)) == 3 {
			time.Sleep(100 * time.Millisecond)
		}
		if keeper.Settled() {
			t.Error("the crawl may end before the list is divided")
		}
		if time.Sleep(time.Minute); !keeper.Settled() {
			t.Error("the crawl may not end after some attempts to divide the list")
		}
		for _, c := range all {
			c.mu.Lock()
			c.err = nil
			c.mu.Unlock()
		}
		time.Sleep(time.Minute)
		if got := keeper.found("a"); got != "/0 /2" {
			t.Errorf("in copies: %s, want /0 /2", got)
		}
	})
}
