package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testweb/gen"
)

// An example is a program of examples that collects the pages of an application.
type example struct {
	command []string
	app     string
	home    string // directory of the agent that it asks
	out     string // directory with its pages
	urls    []string
	p       *process
}

func (e *example) start(t *testing.T) {
	t.Helper()
	args := append(e.command[1:len(e.command):len(e.command)], "--dir", e.home, "--app", e.app, "--out", e.out,
		"--batch", "10", e.out+".txt")
	e.p = startCommand(t, exec.Command(e.command[0], args...))
}

// A collected page is a line of pages.jsonl.
type collected struct {
	URL, Body, Note, BodyError string
	Status                     int
}

// pages returns the complete lines of pages.jsonl.
func (e *example) pages(t *testing.T) (all []collected) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(e.out, "pages.jsonl"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for in := bufio.NewReader(bytes.NewReader(b)); ; {
		line, err := in.ReadBytes('\n')
		if err == io.EOF {
			return all
		}
		var p collected
		if err := json.Unmarshal(line, &p); err != nil {
			t.Fatalf("%s: %s: %v", e.app, line, err)
		}
		all = append(all, p)
	}
}

// await waits until the program has collected n pages.
func (e *example) await(t *testing.T, n int) {
	t.Helper()
	for end := time.Now().Add(3 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		got := len(e.pages(t))
		if got >= n {
			return
		}
		if time.Now().After(end) || !e.p.lives(0) {
			t.Fatalf("%s has %d of %d pages, and says:\n%s\n%s", e.app, got, n, tail(e.p.out.String()),
				events(t, e.home))
		}
	}
}

// Two applications share a crawl of three agents. Each is an example program, which gives URLs with priorities to the
// crawl and collects their pages. Many URLs are wanted by both. An agent and both programs are killed. Each page that
// was given is collected, with its body. TestApplications of package sim judges how often pages are fetched and come.
func TestApplications(t *testing.T) {
	weighs(t, 4)
	python, err := exec.LookPath("python3")
	if err != nil {
		missing(t, "python3")
		return
	}
	if signal.Ignored(os.Interrupt) { // as a shell starts jobs; a Python program would ignore it, too
		signal.Notify(make(chan os.Signal, 1), os.Interrupt)
		defer signal.Reset(os.Interrupt)
	}
	b := bandOf(t, gen.Plain(38, 12), bandDelay, 3, "2")
	b.scope = "page"
	collect := filepath.Join(b.dir, "collect")
	build := exec.Command("go", "build", "-o", collect, "./examples/go/collect")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	begin := func(i int) { b.begin(i, "--agents", "3", "--api", "127.0.0.1:0", b.seed()) }
	begin(0)
	begin(1)
	examples := []*example{
		{command: []string{python, filepath.Join("..", "examples", "python", "collect.py")}, app: "first",
			home: b.home(0)},
		{command: []string{collect}, app: "second", home: b.home(1)},
	}
	n := 0
	b.truth.Each(func(host, page int64) {
		u := b.truth.URL(host, page)
		for i, e := range examples {
			if n%3 != i { // a third of the URLs is wanted by both
				e.urls = append(e.urls, u)
			}
		}
		n++
	})
	ctl := func(args ...string) string {
		t.Helper()
		return crawl(t.Context(), t, append([]string{"ctl", "--dir", b.home(1)}, args...)...).must(t, 0).stdout
	}
	// The crawl has one page of its own. It begins with the third agent, which comes when the applications are there.
	for _, e := range examples {
		args := []string{"ctl", "--dir", b.home(1), "app", e.app, "--strategy", "list", "--pages", "--share", "2"}
		r := crawl(t.Context(), t, args...)
		for end := time.Now().Add(2 * time.Minute); r.code != 0 && time.Now().Before(end); {
			time.Sleep(50 * time.Millisecond) // the agent has no API yet
			r = crawl(t.Context(), t, args...)
		}
		if r.code != 0 || !strings.Contains(r.stdout, "obey") {
			t.Fatalf("ctl app: exit code %d\n%s\n%s", r.code, r.stdout, r.stderr)
		}
	}
	begin(2)
	b.await(1)
	for _, e := range examples {
		e.out = filepath.Join(b.dir, e.app)
		var text strings.Builder
		for i, u := range e.urls {
			fmt.Fprintf(&text, "%s %d\n", u, i%16)
		}
		must.Do(t, os.WriteFile(e.out+".txt", []byte(text.String()), 0o644))
		e.start(t)
	}
	for i, e := range examples {
		e.await(t, len(e.urls)/4)
		if _, killed := e.p.kill(); !killed {
			t.Errorf("%s has ended by itself: %s", e.app, tail(e.p.out.String()))
		}
		if i == 0 { // the first program asks the agent that is killed
			b.ps[0].kill()
			b.ps[0] = start(t, "crawl", "--resume", "--dir", b.home(0), "--quiet", "--api", "127.0.0.1:0")
		}
		e.start(t)
	}
	for _, e := range examples {
		e.await(t, len(e.urls))
	}
	idle(t, ctl)
	for _, e := range examples {
		e.p.cmd.Process.Signal(os.Interrupt)
		if code := e.p.code(); code != 0 {
			t.Errorf("%s ended with code %d: %s", e.app, code, tail(e.p.out.String()))
		}
		got := map[string]collected{}
		for _, p := range e.pages(t) {
			got[p.URL] = p
		}
		shared := 0
		for _, u := range e.urls {
			p, ok := got[u]
			switch {
			case !ok:
				t.Errorf("%s was not given %s", e.app, u)
				continue
			case p.Status != 200 || p.BodyError != "":
				t.Errorf("%s: %s: status %d, %s", e.app, u, p.Status, p.BodyError)
				continue
			}
			if body, err := os.ReadFile(filepath.Join(e.out, "bodies", p.Body)); err != nil || len(body) == 0 {
				t.Errorf("%s: %s: a body of %d bytes, %v", e.app, u, len(body), err)
			}
			if strings.Contains(p.Note, "shared") {
				shared++
			}
		}
		t.Logf("%s: %d URLs, %d pages from the archive", e.app, len(e.urls), shared)
	}
	for _, e := range examples {
		if out := ctl("app", e.app, "--remove"); !strings.Contains(out, "removed") {
			t.Errorf("ctl app --remove: %s", out)
		}
	}
	for i, p := range b.ps { // nothing keeps the crawl from its end
		if !ended(p, 2*time.Minute) || p.code() != 0 {
			t.Errorf("a%d: %s\n%s", i+1, tail(p.out.String()), events(t, b.home(i)))
		}
	}
	noViolations(t, b.web)
}

// idle waits until the agents say that each URL of the applications is finished, and each page acknowledged. A program
// that is told to end before may leave its last pages unacknowledged.
func idle(t *testing.T, ctl func(args ...string) string) {
	t.Helper()
	type counts struct {
		Error                  string
		Queued, Unacknowledged json.Number
	}
	for end := time.Now().Add(3 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		var r struct {
			Applications []struct {
				State  counts
				Agents []counts
			}
		}
		text := ctl("apps", "--json")
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		idle := 0
		for _, app := range r.Applications {
			silent := slices.ContainsFunc(app.Agents, func(c counts) bool { return c.Error != "" })
			if n, m := app.State.Queued, app.State.Unacknowledged; !silent && len(app.Agents) == 3 &&
				(n == "" || n == "0") && (m == "" || m == "0") {
				idle++
			}
		}
		if idle == 2 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the applications have work left: %s", text)
		}
	}
}
