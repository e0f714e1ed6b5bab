package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A council is the coordinators of a band.
type council struct {
	b     *band
	keys  string // directory with the keys of all; "": none
	addrs []string
	ps    []*process
}

// convene starts coordinators for a band, and lets its agents use them. If secure is true, all have keys.
func convene(t *testing.T, b *band, coordinators int, secure bool) *council {
	t.Helper()
	c := &council{b: b, ps: make([]*process, coordinators)}
	for range coordinators {
		c.addrs = append(c.addrs, port(t))
	}
	if secure {
		c.keys = filepath.Join(b.dir, "keys")
		agents, names := list("a", len(b.addrs)), list("c", coordinators)
		crawl(context.Background(), t, "cluster", "keys", "--out", c.keys, "--agents", agents, "--coordinators",
			names).must(t, 0)
	}
	for i := range coordinators {
		c.begin(i)
	}
	b.with = []string{"--partition", "sites", "--coordinator", strings.Join(c.addrs, ",")}
	return c
}

// list returns prefix1,prefix2 and so on.
func list(prefix string, n int) string {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprint(prefix, i+1))
	}
	return strings.Join(names, ",")
}

// begin starts a coordinator.
func (c *council) begin(i int) {
	args := []string{"coordinator", "--listen", c.addrs[i], "--dir", filepath.Join(c.b.dir, fmt.Sprint("c", i+1)),
		"--dns", c.b.web.DNSAddr(), "--quiet"}
	if len(c.addrs) > 1 {
		args = append(args, "--coordinator", strings.Join(c.addrs, ","))
	}
	if c.keys != "" {
		args = append(args, "--keys", filepath.Join(c.keys, fmt.Sprint("c", i+1)))
	}
	c.ps[i] = start(c.b.t, args...)
}

// join starts an agent with its keys.
func (c *council) join(i int, more ...string) {
	if c.keys != "" {
		more = append([]string{"--keys", filepath.Join(c.keys, fmt.Sprint("a", i+1))}, more...)
	}
	c.b.begin(i, more...)
}

// leader waits until a coordinator leads, and returns its index.
func (c *council) leader() int {
	c.b.t.Helper()
	args := []string{"cluster", "status", "--json", "--coordinator", strings.Join(c.addrs, ",")}
	if c.keys != "" {
		args = append(args, "--keys", filepath.Join(c.keys, "a1"))
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		r := crawl(context.Background(), c.b.t, args...)
		var all struct {
			Leader string
		}
		for d := json.NewDecoder(strings.NewReader(r.stdout)); d.Decode(&all) == nil; {
			for i, addr := range c.addrs {
				if all.Leader == addr {
					return i
				}
			}
		}
		if time.Now().After(end) {
			c.b.t.Fatalf("no coordinator leads: exit code %d\n%s\n%s", r.code, tail(r.stdout), tail(r.stderr))
		}
	}
}

// close ends the coordinators.
func (c *council) close() {
	c.b.t.Helper()
	for i, p := range c.ps {
		if p == nil {
			continue
		}
		p.cmd.Process.Signal(syscall.SIGTERM)
		if !ended(p, 30*time.Second) || p.code() != 0 {
			c.b.t.Errorf("c%d does not end with exit code 0:\n%s", i+1, tail(p.out.String()))
		}
	}
}

// owners returns the agents that have pages of each host, by the archives that are left.
func (b *band) owners() map[string]map[int]bool {
	by := map[string]map[int]bool{}
	for i := range b.addrs {
		if _, err := os.Stat(filepath.Join(b.home(i), "indexes")); err != nil {
			continue
		}
		for u := range indexed(b.t, b.home(i)) {
			host := strings.SplitN(u, "/", 4)[2]
			if by[host] == nil {
				by[host] = map[int]bool{}
			}
			by[host][i] = true
		}
	}
	return by
}

// Three agents crawl a web whose hosts one coordinator assigns to them: all pages once, each host by one agent.
func TestSitesOnce(t *testing.T) {
	weighs(t, 3)
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("keys=%v", secure), func(t *testing.T) {
			b := newBand(t, 71, 3, "2")
			c := convene(t, b, 1, secure)
			for i := range 3 {
				c.join(i, "--agents", "3", b.seed())
			}
			b.finish(0)
			share := make([]int, 3)
			for host, by := range b.owners() {
				if len(by) != 1 {
					t.Errorf("%s was crawled by %d agents", host, len(by))
				}
				for i := range by {
					share[i]++
				}
			}
			t.Logf("hosts by agent: %v", share)
			for i, n := range share { // they take turns
				if n < share[0]-1 || n > share[0]+1 {
					t.Errorf("a%d has %d hosts, a1 has %d", i+1, n, share[0])
				}
			}
			c.close()
		})
	}
}

// An agent is lost with its disk, and at the same time the only coordinator is killed. The others say that they wait
// for it, also one that joins. When it is back, no page is missed.
func TestSitesLost(t *testing.T) {
	weighs(t, 4)
	b := newBand(t, 72, 4, "2")
	c := convene(t, b, 1, false)
	for i := range 3 {
		c.join(i, "--agents", "3", "--api", "127.0.0.1:0", b.seed())
	}
	b.await(60)
	host := strings.SplitN(b.seed(), "/", 4)[2]
	answer := crawl(context.Background(), t, "ctl", "--dir", b.home(0), "explain", host).must(t, 0)
	if !strings.Contains(answer.stdout, host+" was assigned to agent a") {
		t.Errorf("ctl explain %s: %s", host, answer.stdout)
	}
	answer = crawl(context.Background(), t, "ctl", "--dir", b.home(0), "explain", "nobody.example").must(t, 0)
	if !strings.Contains(answer.stdout, "and this agent asks for none") { // otherwise the end would wait for it
		t.Errorf("ctl explain nobody.example: %s", answer.stdout)
	}
	b.ps[2].kill()
	c.ps[0].kill()
	if err := os.RemoveAll(b.home(2)); err != nil {
		t.Fatal(err)
	}
	b.ps[2] = nil
	c.join(3, "--api", "127.0.0.1:0", b.seed())
	for _, i := range []int{0, 1, 3} {
		b.saysOf(i, func(s map[string]any) bool {
			text, _ := s["waiting_for"].(string)
			return strings.HasPrefix(text, "the coordinators (")
		})
	}
	c.begin(0)
	b.finish(200)
	if len(eventsOf(t, b.home(0), "inherited"))+len(eventsOf(t, b.home(1), "inherited")) == 0 {
		t.Error("no agent has taken over hosts of a3")
	}
	c.close()
}

// saysOf waits until the status of an agent fits.
func (b *band) saysOf(i int, fits func(status map[string]any) bool) {
	b.t.Helper()
	var s map[string]any
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		answer := crawl(context.Background(), b.t, "ctl", "--dir", b.home(i), "status", "--json", "--agent",
			fmt.Sprintf("a%d", i+1))
		var all struct {
			Agents []struct{ Status map[string]any }
		}
		s = nil
		if answer.code == 0 && json.Unmarshal([]byte(answer.stdout), &all) == nil && len(all.Agents) == 1 {
			s = all.Agents[0].Status
		}
		if s != nil && fits(s) {
			return
		}
		if time.Now().After(end) {
			b.t.Fatalf("the status of a%d does not fit: %v\n%s", i+1, s, answer.stderr)
		}
	}
}

// Three coordinators: the leader is killed for good, then all agents are stopped and continue.
func TestSitesLeaderLost(t *testing.T) {
	weighs(t, 4)
	b := newBand(t, 73, 3, "2")
	c := convene(t, b, 3, true)
	for i := range 3 {
		c.join(i, "--agents", "3", b.seed())
	}
	b.await(100)
	dead := c.leader()
	c.ps[dead].kill()
	c.ps[dead] = nil
	at := b.web.Report().Origin.Fetched
	b.await(at + 100)
	for _, p := range b.ps {
		p.cmd.Process.Signal(syscall.SIGTERM)
	}
	for i, p := range b.ps {
		if !ended(p, time.Minute) || p.code() != 11 {
			t.Fatalf("a%d does not end with exit code 11:\n%s", i+1, tail(p.out.String()))
		}
		b.ps[i] = start(t, "crawl", "--resume", "--dir", b.home(i), "--quiet")
	}
	b.finish(0)
	c.close()
}

// An agent leaves for good while the others crawl on. They get its hosts, links and finished pages.
func TestSitesLeave(t *testing.T) {
	weighs(t, 3)
	b := newBand(t, 74, 3, "1")
	c := convene(t, b, 1, false)
	b.left = map[int]bool{1: true}
	for i := range 3 {
		c.join(i, "--agents", "3", "--api", "127.0.0.1:0", b.seed())
	}
	b.await(200)
	crawl(context.Background(), t, "ctl", "--dir", b.home(1), "leave").must(t, 0)
	if !ended(b.ps[1], time.Minute) {
		t.Fatalf("a2 does not leave:\n%s", events(t, b.home(1)))
	}
	b.finish(0)
	c.close()
}
