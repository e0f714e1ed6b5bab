package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testweb"
	"github.com/orbweaver/orbweaver/internal/testweb/gen"
)

// port finds a loopback port that is free for TCP and for UDP.
func port(t *testing.T) string {
	t.Helper()
	addrs, err := testweb.FreeAddrs(1)
	if err != nil {
		t.Fatal(err)
	}
	return addrs[0]
}

// Three agents with keys begin together and divide a web: each page is fetched once, each host by one
// agent alone, and all agents end by themselves. Each agent has a seed of its own.
func TestCluster(t *testing.T) {
	weighs(t, 3)
	const agents, delay = 3, 10 * time.Millisecond
	made, err := gen.New(gen.Plain(uint64(7+agents), 15))
	if err != nil {
		t.Fatal(err)
	}
	var seeds []gen.Seed // with every host in scope each agent may have its own seed
	for i := range agents {
		seeds = append(seeds, gen.Seed{Host: int64(i)})
	}
	truth, err := made.Reachable(gen.Bounds{Seeds: seeds, Robots: true})
	if err != nil {
		t.Fatal(err)
	}
	web := serve(t, testweb.Config{Origin: made, Truth: truth, Promise: testweb.Promise{HostDelay: delay}})
	dir := t.TempDir()
	var names, addrs []string
	for i := range agents {
		names, addrs = append(names, fmt.Sprintf("a%d", i+1)), append(addrs, port(t))
	}
	bundles := filepath.Join(dir, "keys")
	crawl(context.Background(), t, "cluster", "keys", "--out", bundles, "--agents",
		strings.Join(names, ",")).must(t, 0)
	var ps []*process
	for i, name := range names {
		args := flags(t, web, filepath.Join(dir, name), "--quiet", "--scope", "any", "--delay", delay.String(),
			"--ip-delay", "0", "--site-delay", "0",
			"--name", name, "--listen", addrs[i], "--join", addrs[0], "--agents", fmt.Sprint(agents))
		ps = append(ps, start(t, append(args, "--keys", filepath.Join(bundles, name), made.URL(int64(i), 0))...))
	}
	fetched := map[string]string{} // the agent that fetched each URL
	owner := map[string]string{}
	sent := 0.0
	for i, p := range ps {
		if !ended(p, 3*time.Minute) {
			t.Fatalf("%s does not end:\n%s\n%s", names[i], tail(p.out.String()),
				events(t, filepath.Join(dir, names[i])))
		}
		if code := p.code(); code != 0 {
			t.Fatalf("%s: exit code %d\n%s", names[i], code, tail(p.out.String()))
		}
		home := filepath.Join(dir, names[i])
		sum := summary(t, home)
		sent += sum["urls_sent"].(float64)
		if left := sum["urls_queued"].(float64); left != 0 || sum["stop_reason"] != "finished" {
			t.Errorf("%s: %v URLs left, %v", names[i], left, sum["stop_reason"])
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
