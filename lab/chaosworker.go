package lab

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/sim"
)

// A Told is the result of a story.
type Told struct {
	Plan    sim.Plan      `json:"-"`
	Verdict *sim.Verdict  // nil if the process ended before the story
	Output  string        `json:",omitempty"` // of that process
	CPU     time.Duration // processor time

	events string // of a story without a verdict
}

// bad reports whether the story failed.
func (t Told) bad() bool { return t.Verdict == nil || t.Verdict.Bad() }

// A failure is a kind of failure of a story, with the words that say it.
type failure struct{ kind, why string }

// failures returns the failures of a story that has a verdict, the gravest kind first.
func (t Told) failures() (all []failure) {
	v := t.Verdict
	add := func(is bool, kind, format string, a ...any) {
		if is {
			all = append(all, failure{kind, fmt.Sprintf(format, a...)})
		}
	}
	add(len(v.Missed) > 0, "missed", "%d pages missed", v.Reachable-v.Fetched-v.MissedExcused)
	add(v.Unexcused > 0, "twice", "%d pages fetched twice without a reason", v.Unexcused)
	known := map[string]bool{}
	for _, w := range v.Violations {
		add(!known[w.Kind], "violation", "impolite (%s)", w.Kind)
		known[w.Kind] = true
	}
	add(v.Beyond > 0, "beyond", "%d fetches of pages that the crawl should not reach", v.Beyond)
	for _, w := range v.Wrong {
		line, _, _ := strings.Cut(w, "\n")
		add(true, "wrong", "%s", line)
	}
	add(v.Stalled, "stall", "no page for %s", v.Stall)
	return all
}

// likewise reports whether another story failed like t, which failed: the gravest kind of failure of
// t is among those of the other.
func (t Told) likewise(other Told) bool {
	if !other.bad() {
		return false
	}
	if t.Verdict == nil || other.Verdict == nil { // a panic, a deadlock, or a story that took too long
		return t.Verdict == other.Verdict
	}
	all := t.failures()
	return len(all) == 0 || slices.ContainsFunc(other.failures(), func(f failure) bool { return f.kind == all[0].kind })
}

// why returns a line that says why the story failed.
func (t Told) why() string {
	if t.Verdict == nil {
		for line := range strings.Lines(t.Output) {
			if strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:") ||
				strings.HasPrefix(line, "SIGQUIT") {
				return "the process ended: " + strings.TrimSpace(line)
			}
		}
		return "the process ended"
	}
	var whys []string
	for _, f := range t.failures() {
		whys = append(whys, f.why)
	}
	return strings.Join(whys, "; ")
}

// verdictMark begins the line with a story's verdict on a worker's standard output. Package testing
// writes to standard output, too.
const verdictMark = "verdict: "

// TellStories is the worker of Chaos. It reads plans in JSON from the lines of in, runs the story
// of each, and writes the verdict to standard output. It writes the events of the story under way to
// the file events. If profile is not empty, it writes a processor profile to this file. It ends the
// process.
//
// A story needs a testing.T, because it runs in a bubble of testing/synctest. So the worker is a
// test program with one test. A bubble in which all goroutines wait for each other ends the
// process.
func TellStories(in io.Reader, events, profile string) {
	os.Args = os.Args[:1] // package testing reads them
	all := func(string, string) (bool, error) { return true, nil }
	testing.Main(all, []testing.InternalTest{{Name: "Stories", F: func(t *testing.T) {
		stop, err := startProfile(profile)
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		log, err := os.Create(events)
		if err != nil {
			t.Fatal(err)
		}
		defer log.Close()
		lines := bufio.NewScanner(in)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			plan, err := sim.Parse(lines.Text())
			if err != nil {
				t.Fatal(err)
			}
			told := tellStory(t, plan, log)
			if told.Verdict == nil {
				t.FailNow() // its output follows when the process ends
			}
			b, err := json.Marshal(told)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := fmt.Fprintf(os.Stdout, "%s%s\n", verdictMark, b); err != nil {
				return // no reader is left
			}
		}
	}}}, nil, nil)
}

// startProfile writes a processor profile to a file until the caller calls stop. If name is empty,
// it does nothing.
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
		f.Close() // a truncated profile cannot be parsed
	}, nil
}

// tellStory runs one story. It writes its events to the file, in place of those of the story before.
func tellStory(t *testing.T, plan sim.Plan, events *os.File) (told Told) {
	if err := errors.Join(events.Truncate(0), seekStart(events)); err != nil {
		t.Fatal(err)
	}
	before := ownCPU()
	t.Run(fmt.Sprint(plan.Seed), func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { told.Verdict = sim.Tell(t, plan, events) })
	})
	told.CPU = ownCPU() - before
	if v := told.Verdict; v != nil && !v.Bad() {
		v.Log = nil
	}
	return told
}

func seekStart(f *os.File) error {
	_, err := f.Seek(0, io.SeekStart)
	return err
}

// A worker is a process that runs one story after another. One goroutine owns it.
type worker struct {
	*process
	verdicts chan []byte // has space for the verdict of the present story
	said     keptBytes   // what else it has printed during the story
	events   string      // the file with the events of its story
}

// workers are the processes that run stories, one for each job.
type workers struct {
	self    string // the file of orblab
	jobs    int
	profile string // a folder; empty: no profile
	keep    string // the folder for the events of the stories under way

	mu      sync.Mutex // guards the fields below
	started int
}

// start starts a worker. The worker ends with ctx.
func (ws *workers) start(ctx context.Context) (*worker, error) {
	ws.mu.Lock()
	ws.started++
	events := filepath.Join(ws.keep, fmt.Sprintf("under-way-%d-%d.log", os.Getpid(), ws.started))
	args := []string{"chaos-story", "--events", events}
	if ws.profile != "" {
		args = append(args, "--cpuprofile", filepath.Join(ws.profile, fmt.Sprintf("chaos-%d.pprof", ws.started)))
	}
	ws.mu.Unlock()
	w := &worker{verdicts: make(chan []byte, 1), events: events}
	var err error
	w.process, err = launch(ctx, ws.self, args, &lines{fn: func(line []byte) {
		if text, ok := bytes.CutPrefix(line, []byte(verdictMark)); ok {
			w.verdicts <- bytes.Clone(text)
		} else {
			fmt.Fprintf(&w.said, "%s\n", line)
		}
	}})
	return w, err
}

// storyLimit bounds the real time of a story. After it the worker ends and prints the stacks of its
// goroutines.
const storyLimit = 5 * time.Minute

// tell makes the worker run a story. If alive is false, the worker has ended.
func (w *worker) tell(plan sim.Plan) (told Told, alive bool) {
	w.errors.reset()
	w.said.reset()
	limit := time.AfterFunc(storyLimit, func() {
		w.cmd.Process.Signal(syscall.SIGQUIT) // fails if the process has just ended
	})
	defer limit.Stop()
	told.Plan = plan
	io.WriteString(w.in, plan.JSON()+"\n") // fails if the worker has ended
	var verdict []byte
	select {
	case verdict = <-w.verdicts:
	case <-w.over:
		select {
		case verdict = <-w.verdicts: // its last words
		default:
		}
	}
	if verdict != nil && json.Unmarshal(verdict, &told) == nil {
		return told, true
	}
	state := "exit status 0"
	if err := w.stop(); err != nil {
		state = w.ended.Error()
	}
	b, err := os.ReadFile(w.events)
	if told.events = string(b); err != nil {
		told.events = err.Error()
	}
	os.Remove(w.events) // fails if the worker wrote none
	told.Output = strings.TrimSpace(w.errors.String()+"\n"+w.said.String()) + "\n" + state + "\n"
	return told, false
}

// stop waits until the worker has finished its story and ended.
func (w *worker) stop() error {
	w.in.Close() // fails if the worker has ended
	_, err := w.wait()
	return err
}

// tellAll runs the stories of plans on all workers until next has no more. It calls next and heard
// from one goroutine at a time, heard with each result. It returns when all workers have ended.
func (ws *workers) tellAll(ctx context.Context, next func() (sim.Plan, bool), heard func(Told)) error {
	if _, err := os.Stat(ws.keep); errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(ws.keep, 0o755); err != nil {
			return fmt.Errorf("lab: %w", err)
		}
		defer os.Remove(ws.keep) // fails if there are logs of failures
	}
	var turn sync.Mutex // held while next and heard run
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
				defer os.Remove(w.events)
				if err := w.stop(); err != nil && ctx.Err() == nil {
					errs[i] = fmt.Errorf("a worker: %w", err)
				}
			}
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// defaultJobs returns one worker for each processor.
func defaultJobs() int { return runtime.GOMAXPROCS(0) }
