package lab

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/sim"
)

// A Told is a story that was told.
type Told struct {
	Plan    sim.Plan      `json:"-"`
	Verdict *sim.Verdict  // nil if the process ended before the story did
	Output  string        `json:",omitempty"` // of that process
	CPU     time.Duration // processor time
}

// bad says whether the story failed.
func (t Told) bad() bool { return t.Verdict == nil || t.Verdict.Bad() }

// why says in a line why the story failed.
func (t Told) why() string {
	v := t.Verdict
	if v == nil {
		for line := range strings.Lines(t.Output) {
			if strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:") ||
				strings.HasPrefix(line, "SIGQUIT") {
				return "the process ended: " + strings.TrimSpace(line)
			}
		}
		return "the process ended"
	}
	var whys []string
	add := func(is bool, format string, a ...any) {
		if is {
			whys = append(whys, fmt.Sprintf(format, a...))
		}
	}
	add(!v.Void && len(v.Missed) > 0, "%d pages missed", v.Reachable-v.Fetched)
	add(!v.Void && v.Unexcused > 0, "%d pages fetched twice without a reason", v.Unexcused)
	add(v.Beyond > 0, "%d fetches of pages that the crawl should not reach", v.Beyond)
	add(v.Stalled, "no page for %s", v.Stall)
	kinds := map[string]int{}
	for _, w := range v.Violations {
		if kinds[w.Kind]++; kinds[w.Kind] == 1 {
			add(true, "impolite (%s)", w.Kind)
		}
	}
	for _, w := range v.Wrong {
		line, _, _ := strings.Cut(w, "\n")
		whys = append(whys, line)
	}
	return strings.Join(whys, "; ")
}

// verdictMark begins the line with a story's verdict on a worker's standard output, where
// package testing writes, too.
const verdictMark = "verdict: "

// TellStories is the worker of Chaos: it reads a plan in JSON from each line of in, tells its
// story, and writes the verdict to standard output. If profile is not empty, it writes a
// processor profile to this file. It ends the process.
//
// A story needs a testing.T, as it runs in a bubble of testing/synctest, so the worker is a
// test program of one test. A bubble in which all goroutines wait for each other ends the
// process.
func TellStories(in io.Reader, profile string) {
	os.Args = os.Args[:1] // package testing reads them
	all := func(string, string) (bool, error) { return true, nil }
	testing.Main(all, []testing.InternalTest{{Name: "Stories", F: func(t *testing.T) {
		stop, err := startProfile(profile)
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		lines := bufio.NewScanner(in)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			plan, err := sim.Parse(lines.Text())
			if err != nil {
				t.Fatal(err)
			}
			told := tellStory(t, plan)
			if told.Verdict == nil {
				t.FailNow() // its output follows at the end of the process
			}
			b, err := json.Marshal(told)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := fmt.Fprintf(os.Stdout, "%s%s\n", verdictMark, b); err != nil {
				return // nobody listens any more
			}
		}
	}}}, nil, nil)
}

// startProfile writes a processor profile to a file until stop is called. If name is empty, it
// does nothing.
func startProfile(name string) (stop func(), err error) {
	if name == "" {
		return func() {}, nil
	}
	f, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() {
		pprof.StopCPUProfile()
		f.Close() // a profile that is cut short does not parse
	}, nil
}

// tellStory tells one story.
func tellStory(t *testing.T, plan sim.Plan) (told Told) {
	before := ownCPU()
	t.Run(fmt.Sprint(plan.Seed), func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { told.Verdict = sim.Tell(t, plan) })
	})
	told.CPU = ownCPU() - before
	if v := told.Verdict; v != nil && !v.Bad() {
		v.Log = nil
	}
	return told
}

// A worker is a process that tells one story after another. It belongs to one goroutine.
type worker struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr firstBytes
}

// workers are the processes that tell stories, one for each job.
type workers struct {
	self    string // the file of orblab
	jobs    int
	profile string // a folder; empty: no profile

	mu      sync.Mutex // guards what follows
	started int
}

// start starts a worker. It ends with ctx.
func (ws *workers) start(ctx context.Context) (*worker, error) {
	ws.mu.Lock()
	ws.started++
	args := []string{"chaos-story"}
	if ws.profile != "" {
		args = append(args, "--cpuprofile", filepath.Join(ws.profile, fmt.Sprintf("chaos-%d.pprof", ws.started)))
	}
	ws.mu.Unlock()
	w := &worker{cmd: exec.CommandContext(ctx, ws.self, args...)}
	w.cmd.Env, w.cmd.Stderr, w.cmd.WaitDelay = environment(), &w.stderr, 10*time.Second
	// A Ctrl-C at the terminal is for orblab alone: a worker that ends by it would look like
	// a story that failed.
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var err error
	if w.in, err = w.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start a worker: %w", err)
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start a worker: %w", err)
	}
	w.out = bufio.NewReader(out)
	if err := w.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a worker: %w", err)
	}
	return w, nil
}

// storyLimit is how much real time a story may take. Then the worker ends and shows what its
// goroutines do.
const storyLimit = 5 * time.Minute

// tell has the worker tell a story. If alive is false, the worker has ended with it.
func (w *worker) tell(plan sim.Plan) (told Told, alive bool) {
	w.stderr.reset()
	limit := time.AfterFunc(storyLimit, func() {
		w.cmd.Process.Signal(syscall.SIGQUIT) // fails if the process has just ended
	})
	defer limit.Stop()
	told.Plan = plan
	var said strings.Builder
	_, err := io.WriteString(w.in, plan.JSON()+"\n")
	for err == nil {
		var line string
		line, err = w.out.ReadString('\n')
		if text, ok := strings.CutPrefix(line, verdictMark); ok && err == nil {
			if err := json.Unmarshal([]byte(text), &told); err == nil {
				return told, true
			}
		}
		if said.Len() < keepOutput {
			said.WriteString(line)
		}
	}
	state := "exit status 0"
	if err := w.stop(); err != nil {
		state = err.Error()
	}
	told.Output = strings.TrimSpace(w.stderr.String()+"\n"+said.String()) + "\n" + state + "\n"
	return told, false
}

// stop lets the worker end after its story, and waits for that.
func (w *worker) stop() error {
	w.in.Close() // fails if the worker has ended
	_, err := io.Copy(io.Discard, w.out)
	return errors.Join(err, w.cmd.Wait())
}

// tellAll has workers tell the stories of plans until next has no more. heard gets each; next
// and heard are called by one goroutine at a time. It returns when all workers have ended.
func (ws *workers) tellAll(ctx context.Context, next func() (sim.Plan, bool), heard func(Told)) error {
	var turn sync.Mutex // held while next and heard are called
	var running sync.WaitGroup
	errs := make([]error, ws.jobs)
	for i := range ws.jobs {
		running.Go(func() {
			var w *worker
			for {
				turn.Lock()
				plan, ok := next()
				turn.Unlock()
				if !ok || ctx.Err() != nil {
					break
				}
				if w == nil {
					var err error
					if w, err = ws.start(ctx); err != nil {
						if ctx.Err() == nil {
							errs[i] = err
						}
						return
					}
				}
				told, alive := w.tell(plan)
				if !alive {
					w = nil
				}
				if ctx.Err() != nil { // the worker was killed
					break
				}
				turn.Lock()
				heard(told)
				turn.Unlock()
			}
			if w != nil {
				if err := w.stop(); err != nil && ctx.Err() == nil {
					errs[i] = fmt.Errorf("a worker: %w", err)
				}
			}
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// defaultJobs is a worker for each processor.
func defaultJobs() int { return runtime.GOMAXPROCS(0) }

// keepOutput bounds what is kept of the output of a worker that ended: a panic begins with its
// reason.
const keepOutput = 256 << 10

// firstBytes keeps the beginning of what is written to it.
type firstBytes struct {
	mu sync.Mutex // guards b
	b  []byte
}

func (f *firstBytes) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.b = append(f.b, p[:min(len(p), keepOutput-len(f.b))]...)
	return len(p), nil
}

func (f *firstBytes) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return string(f.b)
}

func (f *firstBytes) reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.b = f.b[:0]
}
