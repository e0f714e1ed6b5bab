package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testweb/gen"
)

// An operator pauses a crawl of three agents at one of them, without --api at the others. No page is fetched until the
// resume at that agent, also by an agent that was killed and resumed, and by one that joins. Then the crawl fetches all
// pages.
func TestClusterPause(t *testing.T) {
	weighs(t, 4)
	b := bandOf(t, gen.Plain(36, 12), bandDelay, 4, "2")
	for i := range 3 {
		var api []string
		if i == 0 {
			api = []string{"--api", "127.0.0.1:0"}
		}
		b.begin(i, append(api, "--agents", "3", b.seed())...)
	}
	b.await(40)
	ctl := func(args ...string) string {
		return crawl(t.Context(), t, append([]string{"ctl", "--dir", b.home(0)}, args...)...).must(t, 0).stdout
	}
	if out := ctl("pause", "--why", "a complaint", "--by", "alice"); !strings.Contains(out, "paused") {
		t.Errorf("ctl pause: %s", out)
	}
	if out := ctl("orders"); !strings.Contains(out, " alice ") || !strings.Contains(out, "a complaint") {
		t.Errorf("ctl orders: %s", out)
	}
	b.ps[1].kill()
	b.ps[1] = start(t, "crawl", "--resume", "--dir", b.home(1), "--quiet")
	b.begin(3, "--agents", "1", b.seed())
	still, last := 0, int64(-1)
	for end := time.Now().Add(time.Minute); still < 20; time.Sleep(100 * time.Millisecond) {
		var s struct {
			Agents []struct{ Agent, State string }
		}
		if err := json.Unmarshal([]byte(ctl("status", "--json")), &s); err != nil {
			t.Fatal(err)
		}
		paused := 0
		for _, a := range s.Agents {
			if a.State == "paused" {
				paused++
			}
		}
		now := b.web.Report().Origin.Fetched
		if still++; now != last || paused < 4 {
			still = 0
		}
		if last = now; time.Now().After(end) {
			t.Fatalf("%d of 4 agents are paused, and %d pages are fetched: %+v", paused, now, s)
		}
	}
	if out := ctl("resume"); !strings.Contains(out, "resumed") {
		t.Errorf("ctl resume: %s", out)
	}
	b.finish(1 << 20)
	if all := b.web.Report().Origin.Fetched; all <= last {
		t.Errorf("all %d pages were fetched before the pause", all)
	}
	events, err := os.ReadFile(filepath.Join(b.home(2), "logs", "events.jsonl"))
	if err != nil || !strings.Contains(string(events), `"verb":"pause","about":"","value":"","off":false,"by":"alice"`) {
		t.Errorf("events of an agent that another one has told: %v\n%s", err, events)
	}
}

// An operator blocks all addresses of the web: no agent fetches another page, and the agents end because only blocked
// hosts are left. A resumed crawl obeys the order, and --unblock takes it back at all agents.
func TestClusterBlockRange(t *testing.T) {
	weighs(t, 2)
	b := bandOf(t, gen.Plain(36, 12), bandDelay, 2, "2")
	for i := range 2 {
		b.begin(i, "--agents", "2", "--api", "127.0.0.1:0", b.seed())
	}
	b.await(40)
	if out := crawl(t.Context(), t, "ctl", "--dir", b.home(1), "block", "0.0.0.0/0", "--why", "all").must(t,
		0).stdout; !strings.Contains(out, "blocked") {
		t.Errorf("ctl block: %s", out)
	}
	ends := func() int64 {
		t.Helper()
		for i := range 2 {
			if !ended(b.ps[i], time.Minute) || b.ps[i].code() != 0 {
				t.Fatalf("a%d: %s\n%s", i+1, tail(b.ps[i].out.String()), events(t, b.home(i)))
			}
		}
		return b.web.Report().Origin.Fetched
	}
	resume := func(more ...string) int64 {
		t.Helper()
		for i := range 2 {
			b.ps[i] = start(t, append([]string{"crawl", "--resume", "--dir", b.home(i), "--quiet"}, more...)...)
			more = nil // one agent is told
		}
		return ends()
	}
	first := ends()
	if s := summary(t, b.home(0)); s["stop_reason"] != "blocked" {
		t.Errorf("a1 ended for %v", s["stop_reason"])
	}
	if again := resume(); again != first {
		t.Errorf("a resumed crawl has fetched %d pages of blocked hosts", again-first)
	}
	if all := resume("--unblock", "0.0.0.0/0"); all <= first {
		t.Errorf("after --unblock no page was fetched: %d", all)
	}
	if s := summary(t, b.home(1)); s["stop_reason"] != "finished" {
		t.Errorf("a2 ended for %v", s["stop_reason"])
	}
}
