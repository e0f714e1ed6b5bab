package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testweb/gen"
)

// An operator excludes half of the pages at one of two agents. The preview says how many wait. No such page is asked
// for after the answer, although one agent is killed and resumed, and another one joins. The exported queue has what
// waits. The crawl ends as blocked, and when a resumed agent takes the exclusion back, the crawl fetches all pages.
func TestClusterExclude(t *testing.T) {
	weighs(t, 3)
	const pattern = `[13579](\.html)?$`
	excluded := regexp.MustCompile(pattern)
	b := bandOf(t, gen.Plain(36, 12), 2*bandDelay, 3, "2")
	for i := range 2 {
		b.begin(i, "--agents", "2", "--api", "127.0.0.1:0", b.seed())
	}
	b.await(40)
	ctl := func(args ...string) string {
		t.Helper()
		return crawl(t.Context(), t, append([]string{"ctl", "--dir", b.home(0)}, args...)...).must(t, 0).stdout
	}
	if out := ctl("exclude", pattern, "--preview"); !regexp.MustCompile(`total +[\d,]+ +[1-9]`).MatchString(out) ||
		!strings.Contains(out, "for example:\n  http://") {
		t.Errorf("preview: %s", out)
	}
	if out := ctl("exclude", pattern, "--why", "half"); !strings.Contains(out, "a1 and a2 obey order") {
		t.Errorf("exclude: %s", out)
	}
	asked := func() (n int) {
		for _, e := range b.web.Log() {
			if excluded.MatchString(e.URL) {
				n++
			}
		}
		return n
	}
	time.Sleep(2 * time.Second) // visits under way end
	before := asked()
	file := filepath.Join(t.TempDir(), "queue.txt")
	ctl("queue", pattern, "--export", file)
	exported, err := os.ReadFile(file)
	if lines := strings.Fields(string(exported)); err != nil || len(lines) < 10 {
		t.Errorf("exported %d links, %v", len(lines), err)
	}
	for u := range strings.FieldsSeq(string(exported)) {
		if !excluded.MatchString(u) {
			t.Errorf("exported %s", u)
		}
	}
	b.ps[1].kill()
	b.ps[1] = start(t, "crawl", "--resume", "--dir", b.home(1), "--quiet")
	b.begin(2, "--agents", "1", b.seed())
	ends := func() {
		t.Helper()
		for i := range 3 {
			if !ended(b.ps[i], 2*time.Minute) || b.ps[i].code() != 0 {
				t.Fatalf("a%d: %s\n%s", i+1, tail(b.ps[i].out.String()), events(t, b.home(i)))
			}
		}
	}
	ends()
	if after := asked(); after != before {
		t.Errorf("%d excluded pages were asked for", after-before)
	}
	for i := range 3 {
		if s := summary(t, b.home(i)); s["stop_reason"] != "blocked" {
			t.Errorf("a%d ended for %v", i+1, s["stop_reason"])
		}
	}
	for i := range 3 {
		args := []string{"crawl", "--resume", "--dir", b.home(i), "--quiet"}
		if i == 2 {
			args = append(args, "--unblock", pattern)
		}
		b.ps[i] = start(t, args...)
	}
	b.finish(20)
}
