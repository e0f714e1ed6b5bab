package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// Three agents divide the hosts by UbiCrawler's ring with few replicas. One is killed,
// and the others go on with its hosts. Then an agent joins that has twice the capacity
// of any other, and takes over its hosts with what is known of them, and at last the
// killed one returns. No page is missed, and the only pages that are fetched twice are
// those that the killed agent had fetched in its last moments.
func TestClusterRing(t *testing.T) {
	b := newBand(t, 35, 3, "2")
	ring := []string{"--partition", "ring", "--kappa", "20"}
	for i := range 3 {
		b.begin(i, append([]string{"--agents", "3", "--api", "127.0.0.1:0", b.seed()}, ring...)...)
	}
	b.await(150)
	untold := b.untold(1)
	at, killed := b.ps[1].kill()
	if !killed {
		t.Fatal("a2 had ended before")
	}
	inherited := func(i int) int { return len(eventsOf(t, b.home(i), "inherited")) }
	for end := time.Now().Add(time.Minute); inherited(0)+inherited(2) < 2; {
		if time.Now().After(end) {
			t.Fatalf("nobody goes on with a2's hosts\n%s", events(t, b.home(0)))
		}
		time.Sleep(50 * time.Millisecond)
	}
	b.ps, b.addrs = append(b.ps, nil), append(b.addrs, port(t))
	b.begin(3, append([]string{"--capacity", "2", b.seed()}, ring...)...)
	for end := time.Now().Add(time.Minute); len(eventsOf(t, b.home(3), "hosts-taken")) == 0; {
		if time.Now().After(end) {
			t.Fatalf("a4 takes no hosts\n%s", events(t, b.home(3)))
		}
		time.Sleep(20 * time.Millisecond)
	}
	b.begin(1, "--resume")
	pages := b.finish(b.web.Report().Origin.Reachable)
	b.repeats(at, untold)
	if pages[3] == 0 {
		t.Error("a4 has fetched nothing")
	}
	for i := range b.ps {
		file, err := os.ReadFile(filepath.Join(b.home(i), "crawl.yaml"))
		if err != nil || !regexp.MustCompile(`(?m)^partition: ring\nkappa: 20$`).Match(file) {
			t.Errorf("a%d: crawl.yaml: %v\n%s", i+1, err, file)
		}
	}
}

// A crawl keeps the partition and the kappa that it began with: with another one
// nearly all of its hosts would have other agents, and their pages would be fetched
// again. So does one whose record of it is older, and which called rendezvous ring.
func TestClusterKeepsPartition(t *testing.T) {
	b := newBand(t, 36, 1, "1")
	b.begin(0, "--partition", "ring", "--kappa", "20", b.seed())
	b.await(30)
	b.stop(0)
	resume := func(want string, more ...string) {
		t.Helper()
		b.begin(0, append([]string{"--resume"}, more...)...)
		if !ended(b.ps[0], time.Minute) || b.ps[0].code() != 4 || !strings.Contains(b.ps[0].out.String(), want) {
			t.Fatalf("%v: exit code %d, want 4\n%s", more, b.ps[0].code(), b.ps[0].out.String())
		}
	}
	begun := fmt.Sprintf("the crawl in %s divides its hosts by ring, kappa 20", b.home(0))
	resume("--kappa 20: only --partition ring has replicas", "--partition", "rendezvous")
	resume("--partition ring: "+begun+", and by ring, kappa 30 nearly all", "--kappa", "30")
	file := filepath.Join(b.home(0), "crawl.yaml")
	yaml, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	rewrite := func(name, old, new string) {
		t.Helper()
		text, err := os.ReadFile(name)
		if err == nil && !strings.Contains(string(text), old) {
			err = fmt.Errorf("no %q in %s", old, text)
		}
		if err == nil {
			err = os.WriteFile(name, []byte(strings.Replace(string(text), old, new, 1)), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	rewrite(file, "kappa: 20\n", "")
	resume("--partition rendezvous: "+begun+", and by rendezvous nearly all", "--partition", "rendezvous")
	if err := os.WriteFile(file, yaml, 0o644); err != nil {
		t.Fatal(err)
	}
	b.begin(0, "--resume")
	b.await(60)
	b.stop(0)

	rewrite(filepath.Join(b.home(0), "state", "agent.json"), `,"partition":"ring, kappa 20"`, "")
	resume("divides its hosts by rendezvous, and by ring, kappa 20 nearly all")
}
