package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testweb"
	"github.com/orbweaver/orbweaver/internal/testweb/gen"
)

// One of three agents is killed amid the crawl, and its disk goes with it. The
// others go on with its hosts from their replicas: every page is fetched, and
// twice only those whose end no other agent had heard of.
func TestClusterDeath(t *testing.T) {
	const delay = 30 * time.Millisecond
	hosts := int64(24)
	if testing.Short() {
		hosts = 10
	}
	made, err := gen.New(gen.Plain(23, hosts))
	if err != nil {
		t.Fatal(err)
	}
	truth, err := made.Reachable(gen.Bounds{Seeds: []gen.Seed{{}}, Robots: true})
	if err != nil {
		t.Fatal(err)
	}
	web := serve(t, testweb.Config{Origin: made, Truth: truth, Promise: testweb.Promise{HostDelay: delay}})
	dir := t.TempDir()
	names, addrs := []string{"a1", "a2", "a3"}, []string{port(t), port(t), port(t)}
	var ps []*process
	for i, name := range names {
		args := flags(t, web, filepath.Join(dir, name), "--quiet", "--scope", "any", "--delay", delay.String(),
			"--ip-delay", "0", "--site-delay", "0",
			"--name", name, "--listen", addrs[i], "--join", addrs[0], "--agents", "3", "--api", "127.0.0.1:0")
		ps = append(ps, start(t, append(args, made.URL(0, 0))...))
	}
	all := web.Report().Origin.Reachable
	for end := time.Now().Add(2 * time.Minute); web.Report().Origin.Fetched < all/3; {
		if time.Now().After(end) {
			t.Fatalf("%d of %d pages after two minutes\n%s", web.Report().Origin.Fetched, all,
				events(t, filepath.Join(dir, "a1")))
		}
		time.Sleep(20 * time.Millisecond)
	}
	dead := 1
	if _, killed := ps[dead].kill(); !killed {
		t.Fatal("it had ended before")
	}
	if err := os.RemoveAll(filepath.Join(dir, names[dead])); err != nil {
		t.Fatal(err)
	}
	at := web.Report().Origin.Fetched
	taken := 0
	for i, p := range ps {
		if i == dead {
			continue
		}
		home := filepath.Join(dir, names[i])
		if !ended(p, 5*time.Minute) {
			t.Fatalf("%s does not end:\n%s\n%s\n%s", names[i], events(t, home), p.stuck(t, home, nil),
				ps[len(ps)-1-i].stuck(t, filepath.Join(dir, names[len(ps)-1-i]), nil))
		}
		if code := p.code(); code != 0 {
			t.Fatalf("%s: exit code %d\n%s", names[i], code, tail(p.out.String()))
		}
		verify(t, home)
		b, err := os.ReadFile(filepath.Join(home, "logs", "events.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			if strings.Contains(line, `"inherited"`) {
				taken++
			}
			for _, kind := range []string{"inherited", "shipped", "shipped-whole", "ship-failed", "inherit-failed"} {
				if strings.Contains(line, fmt.Sprintf("%q", kind)) {
					t.Logf("%s: %s", names[i], strings.TrimSpace(line))
				}
			}
		}
	}
	if taken != 2 {
		t.Errorf("%d agents have taken over what the dead one had", taken)
	}
	web.WaitIdle(time.Minute)
	r := web.Report()
	if r.Origin.Missed > 0 || r.Origin.Beyond > 0 {
		t.Errorf("%d pages missed (%v), %d beyond", r.Origin.Missed, r.Origin.MissedURLs, r.Origin.Beyond)
	}
	t.Logf("killed after %d of %d pages: %d fetched twice, %.3f %%", at, all, r.Origin.Twice,
		100*float64(r.Origin.Twice)/float64(all))
	// A second of the dead agent's pages, at most one for each host and delay.
	if most := hosts * int64(time.Second/delay); r.Origin.Twice > most {
		t.Errorf("%d pages fetched twice, at most %d in a second", r.Origin.Twice, most)
	}
}

// With one copy of what is known of a host and with two, the same pages are
// fetched, each once. The second copy costs so many octets, and so much time of
// the processors.
func TestReplicas(t *testing.T) {
	const delay = 5 * time.Millisecond
	var cpu [2]time.Duration
	for i, replicas := range []string{"1", "2"} {
		made, err := gen.New(gen.Plain(31, 30))
		if err != nil {
			t.Fatal(err)
		}
		truth, err := made.Reachable(gen.Bounds{Seeds: []gen.Seed{{}}, Robots: true})
		if err != nil {
			t.Fatal(err)
		}
		web := serve(t, testweb.Config{Origin: made, Truth: truth, Promise: testweb.Promise{HostDelay: delay}})
		dir := t.TempDir()
		first := port(t)
		var ps []*process
		for k, addr := range []string{first, port(t), port(t)} {
			name := fmt.Sprint("a", k+1)
			args := flags(t, web, filepath.Join(dir, name), "--quiet", "--scope", "any", "--delay", delay.String(),
				"--ip-delay", "0", "--site-delay", "0",
				"--name", name, "--listen", addr, "--join", first, "--agents", "3", "--replicas", replicas)
			ps = append(ps, start(t, append(args, made.URL(0, 0))...))
		}
		urls, octets := 0.0, 0.0
		for k, p := range ps {
			home := filepath.Join(dir, fmt.Sprint("a", k+1))
			if !ended(p, 3*time.Minute) || p.code() != 0 {
				t.Fatalf("a%d: %s\n%s", k+1, tail(p.out.String()), events(t, home))
			}
			cpu[i] += p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
			urls += summary(t, home)["urls_unique"].(float64)
			b, err := os.ReadFile(filepath.Join(home, "logs", "events.jsonl"))
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(b)) {
				var e struct {
					Event          string
					Bytes, Records float64
					Left           int64
				}
				if err := json.Unmarshal([]byte(line), &e); err != nil {
					t.Fatal(err)
				}
				if e.Event == "shipped" {
					octets += e.Bytes
					t.Logf("a%d: %s", k+1, strings.TrimSpace(line))
				}
			}
		}
		web.WaitIdle(time.Minute)
		if r := web.Report().Origin; r.Missed > 0 || r.Twice > 0 {
			t.Errorf("%s replicas: %d pages missed, %d fetched twice", replicas, r.Missed, r.Twice)
		}
		each := octets / urls
		if replicas == "1" && octets > 0 || replicas == "2" && (each < 20 || each > 400) {
			t.Errorf("%s replicas: %.0f octets shipped of a URL", replicas, each)
		}
		t.Logf("%s replicas: %d pages, %s of the processors, %.0f octets shipped of each of %.0f URLs", replicas,
			web.Report().Origin.Fetched, cpu[i], each, urls)
	}
	t.Logf("a second copy takes %.2f times the time", float64(cpu[1])/float64(cpu[0]))
}
