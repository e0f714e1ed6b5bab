package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testweb/gen"
)

// While an agent is away, pages wait for it at the others. The disks of these damage the files with such pages. Their
// URLs are fetched again, and the pages behind them arrive.
func TestClusterDamagedPages(t *testing.T) {
	weighs(t, 3)
	b := bandOf(t, gen.Plain(48, 8), bandDelay, 3, "2")
	b.with = []string{"--partition", "hash", "--boundary", "contents"}
	for i := range b.ps {
		b.begin(i, "--agents", fmt.Sprint(len(b.ps)), b.seed())
	}
	b.await(20)
	must.Do(t, b.ps[1].cmd.Process.Signal(syscall.SIGSTOP))
	b.await(b.web.Report().Origin.Fetched + 20)
	for _, i := range []int{0, 2} {
		must.Do(t, b.ps[i].cmd.Process.Signal(syscall.SIGTERM))
	}
	b.ps[1].kill()
	damaged := 0
	for _, i := range []int{0, 2} {
		if !ended(b.ps[i], time.Minute) {
			t.Fatalf("a%d does not stop:\n%s", i+1, events(t, b.home(i)))
		}
		files := must.Get(filepath.Glob(filepath.Join(b.home(i), "state", "boundary", "archive", "*.warc.gz")))(t)
		for _, name := range files {
			text := must.Get(os.ReadFile(name))(t)
			for at := 100; at < len(text); at += 500 {
				text[at] ^= 0x55
			}
			must.Do(t, os.WriteFile(name, text, 0o644))
			damaged++
		}
	}
	if damaged == 0 {
		t.Fatal("no page waits")
	}
	for i := range b.ps {
		b.ps[i] = start(t, "crawl", "--resume", "--dir", b.home(i), "--quiet")
	}
	b.finish(1 << 20)
	again := 0
	for i := range b.ps {
		again += len(eventsOf(t, b.home(i), "page-damaged"))
	}
	if again == 0 {
		t.Error("no agent has found a damaged page")
	}
}
