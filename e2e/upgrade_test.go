package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testweb/gen"
)

// firstToUpgrade is the oldest commit whose agents may be upgraded while the crawl runs. The test takes it as
// the version before this one until there is a tag.
const firstToUpgrade = "100fbdb36f5caf4771c3e772375550921c47035c"

// earlier builds the program of the last tag before this commit.
func earlier(t *testing.T) string {
	t.Helper()
	git := func(args ...string) (string, error) {
		out, err := exec.Command("git", append([]string{"-C", ".."}, args...)...).Output()
		return strings.TrimSpace(string(out)), err
	}
	version, err := git("describe", "--tags", "--abbrev=0", "HEAD^")
	if err != nil {
		version = firstToUpgrade
	}
	if _, err := git("cat-file", "-e", version); err != nil {
		missing(t, "the history of the repository, with "+version)
	}
	src, program := t.TempDir(), filepath.Join(t.TempDir(), "orbweaver")
	tree := must.Get(exec.Command("git", "-C", "..", "archive", version).Output())(t)
	unpack := exec.Command("tar", "-x", "-C", src)
	unpack.Stdin = bytes.NewReader(tree)
	build := exec.Command("go", "build", "-trimpath", "-o", program, "./cmd/orbweaver")
	build.Dir, build.Env = src, append(os.Environ(), "CGO_ENABLED=0")
	for _, cmd := range []*exec.Cmd{unpack, build} {
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", cmd, err, out)
		}
	}
	t.Logf("the version before is %s", version)
	return program
}

// Three agents of the version before this one are replaced by today's, one after the other, while the crawl goes on.
// Agents of both versions work together. Each of the three is stopped in another way: by a signal, by kill -9, and by
// "ctl leave" after an agent of today's version has joined.
func TestUpgrade(t *testing.T) {
	weighs(t, 4)
	before := earlier(t)
	b := bandOf(t, gen.Plain(52, 25), bandDelay, 4, "2")
	b.left = map[int]bool{2: true}
	for i := range 3 {
		b.beginAs(before, i, "--agents", "3", "--api", "127.0.0.1:0", b.seed())
	}
	b.await(60)
	resume := func(i int) {
		b.ps[i] = start(t, "crawl", "--resume", "--dir", b.home(i), "--quiet")
		b.awaitMore(60)
	}
	must.Do(t, b.ps[0].cmd.Process.Signal(syscall.SIGTERM))
	if !ended(b.ps[0], time.Minute) || b.ps[0].code() != 11 {
		t.Fatalf("a1: exit code %d\n%s", b.ps[0].code(), tail(b.ps[0].out.String()))
	}
	resume(0)
	if _, killed := b.ps[1].kill(); !killed {
		t.Fatalf("a2 had ended before:\n%s", tail(b.ps[1].out.String()))
	}
	resume(1)
	b.begin(3, "--agents", "1", b.seed())
	b.awaitMore(60)
	if out, err := exec.Command(orbweaver, "ctl", "--dir", b.home(2), "leave").CombinedOutput(); err != nil {
		t.Fatalf("ctl leave: %v\n%s", err, out)
	} else if !strings.Contains(string(out), "a3") && !strings.Contains(string(out), "other agents") {
		t.Errorf("ctl leave: %s", out)
	}
	for _, i := range []int{0, 1, 3} {
		if b.ps[i] == nil || !b.ps[i].lives(0) {
			t.Errorf("a%d has ended before a3 has left", i+1)
		}
	}
	pages := b.finish(40) // the last moments of the agent that was killed
	if len(pages) != 4 || pages[3] == 0 {
		t.Errorf("pages by agents: %v", pages)
	}
}
