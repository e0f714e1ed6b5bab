package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testweb/gen"
)

// An operator gives all hosts a delay of an hour at one of three agents. After their first requests no host is asked,
// also by an agent that was killed and resumed, and by one that joins and gets hosts. When the order is taken back at
// another agent, the hosts rest for the delay of the setting, and the crawl fetches all pages.
func TestClusterDelay(t *testing.T) {
	weighs(t, 4)
	b := bandOf(t, gen.Plain(36, 12), bandDelay, 4, "2")
	for i := range 3 {
		b.begin(i, "--agents", "3", "--api", "127.0.0.1:0", b.seed())
	}
	b.await(40)
	ctl := func(i int, args ...string) string {
		return crawl(t.Context(), t, append([]string{"ctl", "--dir", b.home(i)}, args...)...).must(t, 0).stdout
	}
	if out := ctl(0, "delay", "1h", "--why", "a complaint"); !strings.Contains(out, "a1, a2 and a3 obey") {
		t.Errorf("ctl delay: %s", out)
	}
	b.ps[1].kill()
	b.ps[1] = start(t, "crawl", "--resume", "--dir", b.home(1), "--quiet")
	b.begin(3, "--agents", "1", "--api", "127.0.0.1:0", b.seed())
	present := func() int { return strings.Count(ctl(0, "status"), "crawling") }
	still, last := 0, int64(-1)
	for end := time.Now().Add(time.Minute); still < 20; time.Sleep(100 * time.Millisecond) {
		now := b.web.Report().Origin.Fetched
		if still++; now != last || present() < 4 {
			still = 0
		}
		if last = now; time.Now().After(end) {
			t.Fatalf("%d pages are fetched:\n%s", now, ctl(0, "status"))
		}
	}
	orders := strings.Fields(ctl(3, "orders"))
	if len(orders) < 5 || !strings.HasPrefix(orders[4], "a1-") {
		t.Fatalf("ctl orders at a4: %q", orders)
	}
	if out := ctl(2, "take-back", orders[4]); !strings.Contains(out, "taken back: delay") {
		t.Errorf("ctl take-back: %s", out)
	}
	b.finish(1 << 20)
	if all := b.web.Report().Origin.Fetched; all <= last {
		t.Errorf("all %d pages were fetched under the order", all)
	}
}
