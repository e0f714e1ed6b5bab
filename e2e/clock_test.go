//go:build linux

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testweb"
)

// clockShift is the environment's name for by how much the wall clock of the
// program that clocked builds is wrong. The program takes what begins with its own
// name for a flag.
const clockShift = "E2E_WRONG_CLOCK"

// The clock of the program is the machine's: that another one is wrong is made
// by building it with another package time. A monotonic reading stays as it is.
const (
	clockNow  = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	clockFile = `package time

import "syscall"

var wrong = func() int64 {
	s, _ := syscall.Getenv("` + clockShift + `")
	if s == "" {
		return 0
	}
	d, err := ParseDuration(s)
	if err != nil {
		panic("` + clockShift + `: " + err.Error())
	}
	return int64(d / Second)
}()
`
)

// clocked is the program whose clock may be wrong. The first build takes minutes:
// everything depends on package time.
var clocked = sync.OnceValues(func() (string, error) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("go env: %w", err)
	}
	src := filepath.Join(strings.TrimSpace(string(root)), "src", "time")
	text, err := os.ReadFile(filepath.Join(src, "time.go"))
	if err != nil {
		return "", err
	}
	if bytes.Count(text, []byte(clockNow)) != 1 {
		return "",
			fmt.Errorf("%s/time.go does not read the clock as it did, by %q: the edit of this test has to follow it",
				src, clockNow)
	}
	text = bytes.Replace(text, []byte(clockNow), []byte(clockNow+"\tsec += wrong\n"), 1)
	// The place is the same each time, so that the build is cached.
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	cache = filepath.Join(cache, "orbweaver-e2e-clock")
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	overlay := map[string]map[string]string{"Replace": {
		filepath.Join(src, "time.go"):       filepath.Join(cache, "time.go"),
		filepath.Join(src, "time_wrong.go"): filepath.Join(cache, "time_wrong.go"),
	}}
	plan, err := json.Marshal(overlay)
	for name, b := range map[string][]byte{"time.go": text, "time_wrong.go": []byte(clockFile), "overlay.json": plan} {
		err = errors.Join(err, replaceFile(filepath.Join(cache, name), b))
	}
	if err != nil {
		return "", err
	}
	bin := filepath.Join(filepath.Dir(orbweaver), "orbweaver-clocked")
	build := exec.Command("go", "build", "-overlay", filepath.Join(cache, "overlay.json"), "-o", bin,
		"github.com/orbweaver/orbweaver/cmd/orbweaver")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return bin, nil
})

// replaceFile writes a file that another run of this test may be reading.
func replaceFile(name string, b []byte) error {
	if old, err := os.ReadFile(name); err == nil && bytes.Equal(old, b) {
		return nil
	}
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name))
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Close(), os.Rename(f.Name(), name))
}

// wrongClock has a command that is not started yet run with a wall clock that is
// wrong by so much.
func wrongClock(t *testing.T, cmd *exec.Cmd, by time.Duration) {
	t.Helper()
	bin, err := clocked()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Path, cmd.Args[0] = bin, bin
	cmd.Env = append(os.Environ(), clockShift+"="+by.String())
}

// capturedWithin fails unless all captures of a crawl are dated from from to to,
// by the clock of who made them, which was wrong by so much.
func capturedWithin(t *testing.T, dir string, by time.Duration, from, to time.Time) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "indexes", "index.cdxj"))
	if err != nil {
		t.Fatal(err)
	}
	// WARC dates are cut to milliseconds, and these of the index to seconds.
	from, to = from.Add(by-time.Second), to.Add(by)
	n := 0
	for line := range strings.Lines(string(b)) {
		stamp := strings.SplitN(line, " ", 3)[1]
		at, err := time.Parse("20060102150405", stamp[:14])
		if err != nil {
			t.Fatalf("index line %q: %v", line, err)
		}
		if n++; at.Before(from) || at.After(to) {
			t.Errorf("captured at %v, the agent's clock went from %v to %v:\n%s", at, from.UTC(), to.UTC(), line)
			return
		}
	}
	if n == 0 {
		t.Errorf("%s: no captures", dir)
	}
}

// sharedSomething fails unless the web has held hosts against the quiet times of
// an address and of a domain that they share.
func sharedSomething(t *testing.T, web *testweb.Web) {
	t.Helper()
	a, s := web.Report().Gaps["address"], web.Report().Gaps["site"]
	if a.Promised == 0 || s.Promised == 0 {
		t.Errorf("nothing was shared: %d gaps of addresses, %d of domains", a.Promised, s.Promised)
	}
	t.Logf("%d gaps of addresses, %d of domains", a.Promised, s.Promised)
}

// Three agents of which one's clock is an hour slow and one's an hour fast crawl
// hosts that share addresses as if their clocks were right: only durations
// travel, and their keys are good.
func TestStoryClocks(t *testing.T) {
	s := tell(t, plot{agents: 3, hosts: 45, pages: 20, delay: 40 * time.Millisecond, addresses: 15})
	wrong := []time.Duration{-time.Hour, 0, time.Hour}
	for i, a := range s.agents {
		a.clock = wrong[i]
	}
	if _, err := clocked(); err != nil { // before the time counts
		t.Fatal(err)
	}
	began := time.Now()
	s.startAll()
	s.end(0)
	over := time.Now()
	v := s.judge()
	s.polite()
	sharedSomething(t, s.web)
	if v.twice > 0 || v.copies != v.archived || v.archived != v.reachable {
		s.Errorf("%d pages fetched twice; %d archived in %d records, want %d", v.twice, v.archived, v.copies,
			v.reachable)
	}
	for i, a := range s.agents {
		capturedWithin(t, a.dir, wrong[i], began, over)
	}
}

// An agent is killed, and its machine's clock set back by two hours before it
// goes on; then another's, which is set on.
func TestStoryClocksSet(t *testing.T) {
	if testing.Short() {
		t.Skip("half a minute")
	}
	s := tell(t, plot{agents: 3, hosts: 45, pages: 20, delay: 60 * time.Millisecond, addresses: 15})
	s.agents[1].clock, s.agents[2].clock = time.Hour, -time.Hour
	if _, err := clocked(); err != nil { // before the time counts
		t.Fatal(err)
	}
	s.startAll()
	last := int64(0)
	for i, a := range s.agents[1:] {
		s.await(0.2 + 0.25*float64(i))
		a.p.kill()
		last += pagesLately(t, a.dir)
		a.clock = -a.clock
		a.start("--resume")
		a.says("joined", 1)
	}
	s.end(0)
	v := s.judge()
	s.polite()
	sharedSomething(t, s.web)
	s.repeated(v, last, 2)
}

// A crawl is killed, and the clock set on by an hour before it goes on, and back by
// two before it goes on again: it neither forgets what it owes to a host, nor waits
// for two hours.
func TestClockSet(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("half a minute")
	}
	const pages, delay = 12, 350 * time.Millisecond
	var sites []testweb.Site
	for _, s := range politeHosts(pages) {
		// That a pause which a host has asked for is over, a crawl that was down
		// knows by the clock alone: one that is set on ends it.
		if !strings.HasPrefix(s.Host, "asks-") && !strings.HasPrefix(s.Host, "busy-robots") {
			sites = append(sites, s)
		}
	}
	if _, err := clocked(); err != nil { // before the time counts
		t.Fatal(err)
	}
	web := serve(t, testweb.Config{Sites: sites, Promise: promise(delay)})
	dir := t.TempDir()
	args := politeFlags(t, web, dir, sites, delay)
	began := time.Now()
	var kills []time.Time
	for i, by := range []time.Duration{0, time.Hour, -time.Hour} {
		p := &process{cmd: exec.CommandContext(context.Background(), orbweaver, args...), done: make(chan struct{})}
		wrongClock(t, p.cmd, by)
		p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
		if err := p.cmd.Start(); err != nil {
			t.Fatal(err)
		}
		go func() {
			defer close(p.done)
			p.cmd.Wait() // the exit code is asked for later
		}()
		t.Cleanup(func() { p.kill() })
		if i == 2 {
			if !ended(p, 2*time.Minute) {
				t.Fatalf("it does not end:\n%s", events(t, dir))
			}
			if code := p.code(); code != 0 {
				t.Fatalf("exit code %d\n%s", code, tail(p.out.String()))
			}
			break
		}
		for at := web.Report().Pages; web.Report().Pages < at+60; {
			if !p.lives(20*time.Millisecond) || time.Since(began) > time.Minute {
				t.Fatalf("run %d: %d pages\n%s", i, web.Report().Pages, tail(p.out.String()))
			}
		}
		at, _ := p.kill()
		kills = append(kills, at)
		args = []string{"crawl", "--resume", "--dir", dir, "--quiet"}
	}
	t.Logf("%d pages in %v, killed at %v and at %v", web.Report().Pages, time.Since(began).Round(time.Millisecond),
		kills[0].Sub(began), kills[1].Sub(began))
	verify(t, dir)
	maxConcurrent(t, web)
	for _, u := range missingPages(web, sites, pages) {
		t.Errorf("%s was never answered", u)
	}
	for _, v := range web.Report().Violations {
		// The Crawl-delay of a robots.txt that had just come is lost in a kill.
		lost := false
		for _, k := range kills {
			age := k.Sub(v.AfterEnded)
			lost = lost || age > -50*time.Millisecond && age < 50*time.Millisecond
		}
		if lost && v.Kind == "gap" && v.By == "host" && strings.HasSuffix(v.After, "/robots.txt") &&
			time.Duration(v.Gap) >= delay {
			t.Logf("excused: %s", v)
			continue
		}
		t.Errorf("%s", v)
	}
}
