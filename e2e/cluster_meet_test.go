package e2e

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testweb"
)

// An agent that may not join gets the reason at once, and its directory stays unchanged. Meanwhile
// the others say for how many agents they wait.
func TestClusterRefusals(t *testing.T) {
	weighs(t, 1)
	web := serve(t, testweb.Config{Sites: politeHosts(4), Promise: promise(10 * time.Millisecond)})
	dir, addr := t.TempDir(), port(t)
	home := func(name string) string { return filepath.Join(dir, name) }
	args := func(name, listen string, more ...string) []string {
		all := append([]string{"--quiet", "https://a.example/"}, more...)
		for _, f := range [][2]string{{"--delay", "20ms"}, {"--name", name}, {"--listen", listen}} {
			if !slices.Contains(more, f[0]) {
				all = append(all, f[0], f[1])
			}
		}
		return flags(t, web, home(name), all...)
	}
	first := start(t, args("a1", addr, "--agents", "2", "--api", "127.0.0.1:0")...)
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if es := eventsOf(t, home("a1"), "waiting"); len(es) > 0 {
			if es[0]["for"] != "2 agents" || fmt.Sprint(es[0]["agents"]) != "[a1]" {
				t.Errorf("waits for %v, %v are there", es[0]["for"], es[0]["agents"])
			}
			break
		}
		if time.Now().After(end) {
			t.Fatalf("a1 does not wait:\n%s", events(t, home("a1")))
		}
	}
	status := crawl(t.Context(), t, "ctl", "--dir", home("a1"), "status", "--json").must(t, 0)
	if !strings.Contains(status.stdout, `"waiting_for": "2 agents"`) {
		t.Errorf("status: %s", status.stdout)
	}
	explain := crawl(t.Context(), t, "ctl", "--dir", home("a1"), "explain", "a.example").must(t, 1)
	if !strings.Contains(explain.stderr, "the crawl has not started: the agent waits for 2 agents") {
		t.Errorf("explain: %s", explain.stderr)
	}
	keys := filepath.Join(dir, "keys")
	crawl(t.Context(), t, "cluster", "keys", "--out", keys, "--agents", "a2").must(t, 0)
	for i, c := range []struct {
		want string
		args []string
	}{
		{`has delay "30ms", the cluster has "20ms"`, []string{"--delay", "30ms"}},
		{`has strategy "list", the cluster has "bfs"`, []string{"--strategy", "list"}},
		{`has host-page-limit "3", the cluster has "0"`, []string{"--host-page-limit", "3"}},
		{`has page-limit "8", the cluster has "0"`, []string{"--page-limit", "8"}},
		{`has partition "hash", the cluster has "rendezvous"`, []string{"--partition", "hash"}},
		{`has partition "ring, kappa 100", the cluster has "rendezvous"`,
			[]string{"--partition", "ring", "--kappa", "100"}},
		{`has scope "domain", the cluster has "host"`, []string{"--scope", "domain"}},
		{`has replicas "1", the cluster has "2"`, []string{"--replicas", "1"}},
		{`has seeds and rules of scope`, []string{"--seeds", seedFile(t, []string{"https://b.example/"})}},
		{`has seeds and rules of scope`, []string{"--exclude", "/private/"}},
		{`has seeds and rules of scope`, []string{"--depth", "3"}},
		{`has --agents 3, and the agents that are present have --agents 2: use the same --agents`,
			[]string{"--agents", "3"}},
		{`has strategy "walk of 16 walkers, 100000 steps, jump 0.15, random seed 1", the cluster has "bfs"`,
			[]string{"--strategy", "walk"}},
		{"--partition hash: with --strategy walk", []string{"--strategy", "walk", "--partition", "hash"}},
		{"that agent has no --keys, and this agent has", []string{"--keys", filepath.Join(keys, "a2")}},
		{"--listen " + addr + ": the port is in use; choose another", []string{"--listen", addr}},
		{fmt.Sprintf(`agent name "a1" is in use by another agent, at %s`, addr), []string{"--name", "a1"}},
	} {
		began := time.Now()
		more := append([]string{"--join", addr}, c.args...)
		if !slices.Contains(more, "--agents") {
			more = append(more, "--agents", "2")
		}
		refused := crawl(t.Context(), t, args("a2", port(t), more...)...).must(t, 4)
		if !strings.Contains(refused.stderr, c.want) {
			t.Errorf("%d: stderr: %s", i, refused.stderr)
		}
		if time.Since(began) > time.Minute {
			t.Errorf("%d: it took %s", i, time.Since(began))
		}
		if _, err := os.Stat(filepath.Join(home("a2"), "crawl.yaml")); !os.IsNotExist(err) {
			t.Fatalf("%d: the crawl is begun: %v", i, err)
		}
	}

	// The directory is a copy of the directory of a running agent.
	if err := os.CopyFS(home("copy"), os.DirFS(home("a1"))); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(filepath.Join(home("copy"), "crawl.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	copied := crawl(t.Context(), t, "crawl", "--quiet", "--resume", "--dir", home("copy"), "--listen", port(t),
		"--join", addr).must(t, 4)
	want := fmt.Sprintf(`agent "a1" is running already, at %s, from this crawl directory or a copy of it`, addr)
	if !strings.Contains(copied.stderr, want) {
		t.Errorf("stderr: %s", copied.stderr)
	}
	if after, err := os.ReadFile(filepath.Join(home("copy"), "crawl.yaml")); err != nil ||
		string(after) != string(before) {
		t.Errorf("crawl.yaml was %s, is %s (%v)", before, after, err)
	}

	// After all refusals, the second agent may join with the right settings. The only seed has no
	// address.
	second := start(t, args("a2", port(t), "--agents", "2", "--join", addr)...)
	for i, p := range []*process{first, second} {
		if !ended(p, 2*time.Minute) || p.code() != 16 {
			t.Fatalf("a%d: %s\n%s", i+1, tail(p.out.String()), events(t, home(fmt.Sprint("a", i+1))))
		}
	}

	// An agent recognizes its own address in another spelling. It says for which agents it waits.
	own := port(t)
	_, number, err := net.SplitHostPort(own)
	if err != nil {
		t.Fatal(err)
	}
	crawl(t.Context(), t, args("b1", own, "--join", "localhost:"+number)...).must(t, 16)
	lone := start(t, "crawl", "--dir", home("c1"), "--allow-private", "--name", "c1", "--listen", port(t),
		"--agents", "2", "https://127.0.0.1/")
	for end := time.Now().Add(time.Minute); len(eventsOf(t, home("c1"), "waiting")) == 0 && time.Now().Before(end); {
		time.Sleep(50 * time.Millisecond)
	}
	lone.cmd.Process.Signal(os.Interrupt)
	want = "waiting for 2 agents; present: c1\n"
	if !ended(lone, time.Minute) || !strings.Contains(lone.out.String(), want) {
		t.Errorf("%s", tail(lone.out.String()))
	}
}
