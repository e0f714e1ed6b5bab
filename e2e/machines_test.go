package e2e

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testweb/gen"
)

// A crawl of three agents is paused and stopped. It continues with two agents, or with five, all of them with other
// names and other addresses. The old agents are resumed at other addresses, give everything to the new ones, and leave.
// No page is missed or fetched twice.
func TestOtherMachines(t *testing.T) {
	for _, now := range []int{2, 5} {
		t.Run(fmt.Sprintf("%d agents", now), func(t *testing.T) {
			weighs(t, 4)
			const old = 3
			b := bandOf(t, gen.Plain(61, 12), bandDelay, old+now, "2")
			b.left = map[int]bool{0: true, 1: true, 2: true}
			first := b.addrs
			b.addrs = first[:old]
			for i := range old {
				b.begin(i, "--agents", "3", "--api", "127.0.0.1:0", b.seed())
			}
			b.await(150)
			ctl := func(i int, args ...string) {
				t.Helper()
				crawl(t.Context(), t, append([]string{"ctl", "--dir", b.home(i)}, args...)...).must(t, 0)
			}
			ctl(0, "pause")
			for i := range old {
				must.Do(t, b.ps[i].cmd.Process.Signal(syscall.SIGTERM))
			}
			for i := range old {
				if !ended(b.ps[i], time.Minute) || b.ps[i].code() != 11 {
					t.Fatalf("a%d: exit code %d\n%s", i+1, b.ps[i].code(), tail(b.ps[i].out.String()))
				}
			}
			stopped := b.web.Report().Origin.Fetched
			b.addrs = first
			for i := range old {
				b.addrs[i] = port(t)
			}
			for i := range old {
				b.ps[i] = start(t, "crawl", "--resume", "--dir", b.home(i), "--quiet", "--listen", b.addrs[i],
					"--join", b.addrs[0], "--join", b.addrs[1], "--join", b.addrs[2], "--api", "127.0.0.1:0")
			}
			for i := range old { // a new agent that finds none of them begins to crawl: it cannot know of the pause
				b.present(i, old)
			}
			for i := range now {
				b.begin(old+i, "--agents", "1", "--api", "127.0.0.1:0", b.seed())
			}
			for i := range old {
				b.present(i, old+now)
			}
			for i := range old {
				ctl(i, "leave")
				if !ended(b.ps[i], time.Minute) {
					t.Fatalf("a%d does not leave:\n%s", i+1, events(t, b.home(i)))
				}
			}
			if n := b.web.Report().Origin.Fetched; n != stopped {
				t.Errorf("%d pages were fetched while the crawl was paused", n-stopped)
			}
			ctl(old, "resume")
			b.finish(0)
			if b.web.Report().Origin.Fetched == stopped {
				t.Errorf("all %d pages were fetched before the stop", stopped)
			}
		})
	}
}

// present waits until an agent crawls and sees all agents that should be there.
func (b *band) present(at, agents int) {
	b.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if s := b.status(at); s["type"] == "status" {
			if names, _ := s["agents"].([]any); len(names) == agents {
				return
			}
		}
		if time.Now().After(end) {
			b.t.Fatalf("a%d sees %v, want %d agents", at+1, b.status(at)["agents"], agents)
		}
	}
}
