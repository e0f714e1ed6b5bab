package e2e

import (
	"encoding/json"
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
	if out := ctl("pause", "--why", "a complaint"); !strings.Contains(out, "paused") {
		t.Errorf("ctl pause: %s", out)
	}
	if out := ctl("orders"); !strings.Contains(out, "pause") || !strings.Contains(out, "a complaint") {
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
}
