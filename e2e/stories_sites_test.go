//go:build linux

package e2e

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A chair is a coordinator of a story.
type chair struct {
	s     *story
	place int
	name  string
	dir   string
	p     *process // nil: not started
}

// addChairs gives the story its coordinators, and returns their names.
func (s *story) addChairs() string {
	var names []string
	for i := range s.plot.coordinators {
		name := fmt.Sprintf("c%d", i+1)
		names = append(names, name)
		s.coordinators = append(s.coordinators, &chair{s: s, place: s.plot.agents + i + 1, name: name,
			dir: filepath.Join(s.dir, name)})
	}
	return strings.Join(names, ",")
}

func (c *chair) addr() string { return c.s.wire.places[c.place].addr.String() + ":7490" }

// chairs returns the addresses of all coordinators.
func (s *story) chairs() string {
	var addrs []string
	for _, c := range s.coordinators {
		addrs = append(addrs, c.addr())
	}
	return strings.Join(addrs, ",")
}

// start starts a coordinator, or lets it continue from its directory.
func (c *chair) start() {
	c.s.Helper()
	c.p = c.s.run(c.place, "coordinator", "--quiet", "--dir", c.dir, "--keys", filepath.Join(c.s.dir, "keys", c.name),
		"--listen", c.addr(), "--coordinator", c.s.chairs(), "--dns", c.s.web.DNSAddr())
}

// said returns the last time of an event of a coordinator, as text; "": there was none.
func (c *chair) said(kind string) (at string) {
	b, err := os.ReadFile(filepath.Join(c.dir, "events.jsonl"))
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if strings.Contains(line, fmt.Sprintf(`"event":%q`, kind)) {
			_, rest, _ := strings.Cut(line, `"time":"`)
			at, _, _ = strings.Cut(rest, `"`)
		}
	}
	return at
}

// leader waits until a coordinator has led, and returns the last one that began to.
func (s *story) leader() (leads *chair) {
	s.Helper()
	for p := s.patience(); leads == nil; time.Sleep(20 * time.Millisecond) {
		last := ""
		for _, c := range s.coordinators {
			if at := c.said("coordinator-leads"); at > last {
				last, leads = at, c
			}
		}
		if p.over() {
			s.dump()
			s.Fatal("no coordinator leads")
		}
	}
	return leads
}

// pages counts the lines of an agent's crawl.log.
func (a *actor) pages() int64 {
	b, err := os.ReadFile(filepath.Join(a.dir, "logs", "crawl.log"))
	if err != nil {
		a.s.Fatal(err)
	}
	return int64(bytes.Count(b, []byte("\n")))
}

// sitesFates are more of what happens if coordinators assign the hosts.
var sitesFates = []fate{
	{name: "the leading coordinator is killed and continues", happens: func(s *story, _ *rand.Rand) int64 {
		s.await(0.2)
		c := s.leader()
		c.p.kill()
		s.await(0.4)
		c.start()
		return 0
	}},
	{name: "two coordinators are lost in turn, one with its directory", happens: func(s *story, _ *rand.Rand) int64 {
		s.await(0.2)
		c := s.leader()
		c.p.kill()
		if err := os.RemoveAll(c.dir); err != nil {
			s.Fatal(err)
		}
		s.await(0.4)
		c.start()
		for p := s.patience(); c.said("consensus-caught-up") == ""; time.Sleep(50 * time.Millisecond) {
			if p.over() {
				s.dump()
				s.Fatalf("%s does not catch up:\n%s", c.name, tail(c.p.out.String()))
			}
		}
		second := s.leader()
		second.p.kill()
		s.await(0.6)
		second.start()
		return 0
	}},
	{name: "all coordinators are away for a while", happens: func(s *story, _ *rand.Rand) int64 {
		s.await(0.2)
		for _, c := range s.coordinators {
			c.p.kill()
		}
		time.Sleep(10 * time.Second)
		for _, c := range s.coordinators {
			c.start()
		}
		return 0
	}},
	{name: "two of four agents do not hear the coordinators", happens: func(s *story, _ *rand.Rand) int64 {
		s.await(0.2)
		s.wire.follow(func(from, to int) path {
			few, many := min(from, to), max(from, to)
			return path{cut: (few == 1 || few == 2) && many > s.plot.agents}
		})
		time.Sleep(12 * time.Second)
		s.wire.follow(func(int, int) path { return path{} })
		return 0
	}},
	{name: "two of four agents hear nobody", happens: func(s *story, _ *rand.Rand) (twice int64) {
		s.await(0.2)
		cut := s.agents[:2]
		for _, a := range cut {
			twice -= a.pages()
		}
		s.wire.follow(func(from, to int) path {
			return path{cut: from != 0 && to != 0 && (from <= 2) != (to <= 2)}
		})
		time.Sleep(15 * time.Second)
		// What they fetched in this time, and in the last second before it, the heirs fetch again.
		for _, a := range cut {
			twice += a.pages() + pagesLately(s.T, a.dir) + unlogged
		}
		s.wire.follow(func(int, int) path { return path{} })
		return twice
	}},
}

// A story of coordinators has the fates of all stories, except that in which the network is divided without them.
func sitesFate(i int) fate {
	all := append(sitesFates[:len(sitesFates):len(sitesFates)], fates[:len(fates)-1]...)
	return all[i%len(all)]
}

// TestSitesStories: whatever happens to agents and coordinators, no page is missed, and no host has two owners at once.
func TestSitesStories(t *testing.T) {
	weighs(t, 4)
	for i := range *stories {
		f := sitesFate(i)
		t.Run(fmt.Sprint(i+1, " ", f.name), func(t *testing.T) {
			s := tell(t, plot{agents: 4, hosts: 60, pages: 30, delay: 30 * time.Millisecond, coordinators: 3})
			s.startAll()
			may := f.happens(s, rand.New(rand.NewPCG(s.seed, 2)))
			s.end(0)
			for _, c := range s.coordinators {
				if !c.p.lives(10 * time.Millisecond) {
					t.Errorf("%s has ended:\n%s", c.name, tail(c.p.out.String()))
				}
			}
			v := s.judge()
			if s.Logf("%d pages fetched twice, at most %d expected", v.twice, may); v.twice > may {
				s.Errorf("%d pages fetched twice, want at most %d", v.twice, may)
			}
			s.polite()
		})
	}
}
