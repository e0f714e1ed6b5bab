package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testweb"
	"github.com/orbweaver/orbweaver/internal/testweb/gen"
)

// port finds a loopback port that is free for TCP and for UDP.
func port(t *testing.T) string {
	t.Helper()
	addrs := must.Get(testweb.FreeAddrs(1))(t)
	return addrs[0]
}

// together starts agents a1, a2 and so on, which begin to crawl when all are present. each returns more flags of one
// agent, and its seeds.
func together(t *testing.T, web *testweb.Web, agents int, each func(i int) []string,
	all ...string) (ps []*process, homes []string) {
	t.Helper()
	dir, first := t.TempDir(), port(t)
	for i := range agents {
		name, addr := fmt.Sprint("a", i+1), first
		if i > 0 {
			addr = port(t)
		}
		home := filepath.Join(dir, name)
		args := append([]string{"--quiet", "--name", name, "--listen", addr, "--join", first, "--agents",
			fmt.Sprint(agents)}, all...)
		ps = append(ps, start(t, flags(t, web, home, append(args, each(i)...)...)...))
		homes = append(homes, home)
	}
	return ps, homes
}

// finished waits until all agents have ended by themselves, with exit code 0 and without a URL left.
func finished(t *testing.T, ps []*process, homes []string) {
	t.Helper()
	for i, p := range ps {
		if !ended(p, 4*time.Minute) {
			t.Fatalf("%s does not end:\n%s\n%s", homes[i], events(t, homes[i]), p.stuck(t, homes[i], nil))
		}
		if code := p.code(); code != 0 {
			t.Fatalf("%s: exit code %d\n%s\n%s", homes[i], code, tail(p.out.String()), events(t, homes[i]))
		}
		if left := summary(t, homes[i])["urls_queued"]; left != 0.0 {
			t.Errorf("%s: %v URLs left", homes[i], left)
		}
	}
}

// Three agents with keys begin together and divide a web: each page is fetched once, each host by one
// agent alone, and all agents end by themselves. Each agent has a seed of its own.
func TestCluster(t *testing.T) {
	weighs(t, 3)
	const agents, delay = 3, 10 * time.Millisecond
	made := must.Get(gen.New(gen.Plain(uint64(7+agents), 15)))(t)
	var seeds []gen.Seed // with every host in scope each agent may have its own seed
	for i := range agents {
		seeds = append(seeds, gen.Seed{Host: int64(i)})
	}
	truth := must.Get(made.Reachable(gen.Bounds{Seeds: seeds, Robots: true}))(t)
	web := serve(t, testweb.Config{Origin: made, Truth: truth, Promise: testweb.Promise{HostDelay: delay}})
	dir := t.TempDir()
	var names []string
	for i := range agents {
		names = append(names, fmt.Sprintf("a%d", i+1))
	}
	bundles := filepath.Join(dir, "keys")
	crawl(context.Background(), t, "cluster", "keys", "--out", bundles, "--agents",
		strings.Join(names, ",")).must(t, 0)
	ps, homes := together(t, web, agents, func(i int) []string {
		return []string{"--keys", filepath.Join(bundles, names[i]), made.URL(int64(i), 0)}
	}, "--scope", "any", "--delay", delay.String(), "--ip-delay", "0", "--site-delay", "0")
	finished(t, ps, homes)
	fetched := map[string]string{} // the agent that fetched each URL
	owner := map[string]string{}
	sent := 0.0
	for i, home := range homes {
		sum := summary(t, home)
		sent += sum["urls_sent"].(float64)
		if sum["stop_reason"] != "finished" {
			t.Errorf("%s: %v", names[i], sum["stop_reason"])
		}
		if got := sum["urls_finished"].(float64) + sum["urls_sent"].(float64); got != sum["urls_unique"] {
			t.Errorf("%s: %v URLs finished or sent, %v accepted", names[i], got, sum["urls_unique"])
		}
		verify(t, home)
		for u := range indexed(t, home) {
			if by, ok := fetched[u]; ok {
				t.Errorf("%s by %s and by %s", u, by, names[i])
			}
			fetched[u] = names[i]
			host := strings.SplitN(u, "/", 4)[2]
			if by, ok := owner[host]; ok && by != names[i] {
				t.Errorf("%s: by %s and by %s", host, by, names[i])
			}
			owner[host] = names[i]
		}
	}
	noViolations(t, web)
	r := web.Report()
	if r.Origin.Missed > 0 || r.Origin.Twice > 0 || r.Origin.Beyond > 0 {
		t.Errorf("%d pages missed (%v), %d fetched twice, %d beyond", r.Origin.Missed, r.Origin.MissedURLs,
			r.Origin.Twice, r.Origin.Beyond)
	}
	if sent == 0 {
		t.Error("no URL was sent")
	}
	t.Logf("%d pages by %d agents, %v URLs sent: %.2f a page", r.Origin.Fetched, agents, sent,
		sent/float64(r.Origin.Fetched))
}

func ended(p *process, within time.Duration) bool { return !p.lives(within) }

func events(t *testing.T, dir string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "logs", "events.jsonl"))
	if err != nil {
		return err.Error()
	}
	return tail(string(b))
}
