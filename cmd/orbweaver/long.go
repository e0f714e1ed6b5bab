package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/extsort"
)

// endTime is how long a command may take to end after a signal. What is left of a second is for its temporary files.
const endTime = 700 * time.Millisecond

// untilSignal calls fn with a context that ends with SIGINT, SIGTERM or SIGHUP. Then the exit code says so. If fn has
// not returned soon after, the process ends without it and removes its temporary directories: fn may wait for a disk
// or for a reader of a pipe. A second signal ends the process at once.
func untilSignal(fn func(ctx context.Context) error) error {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	done := make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		select {
		case <-done:
			return
		case <-ctx.Done():
		}
		cancel()
		select {
		case <-done:
		case <-time.After(endTime):
			removeTemporary()
			os.Exit(exitSignal)
		}
	})
	defer func() {
		close(done)
		cancel()
		wait.Wait()
	}()
	err := fn(ctx)
	if stopped, ok := errors.AsType[*exitError](err); ok && stopped.code == exitSignal {
		return err // it has a text
	}
	if ctx.Err() != nil && err != nil {
		return &exitError{code: exitSignal}
	}
	return err
}

// The temporary directories of this process.
var (
	temporaryMu   sync.Mutex
	temporaryDirs []string
)

// temporary makes a directory for the temporary files of a command. The caller removes it.
func temporary(pattern string) (string, error) {
	dir, err := os.MkdirTemp("", pattern)
	if err != nil {
		return "", bad("$TMPDIR: temporary files in %s: %v; set it to a directory that this user can write",
			os.TempDir(), cause(err))
	}
	temporaryMu.Lock()
	defer temporaryMu.Unlock()
	temporaryDirs = append(temporaryDirs, dir)
	return dir, nil
}

// removeTemporary removes what temporary has made.
func removeTemporary() {
	temporaryMu.Lock()
	defer temporaryMu.Unlock()
	for _, dir := range temporaryDirs {
		_ = os.RemoveAll(dir) // the process ends
	}
}

// steps prints the progress of a long command: a line after 3 s, and then one every few seconds.
type steps struct {
	out   io.Writer
	mu    sync.Mutex
	every time.Duration
	next  time.Time
}

func newSteps(out io.Writer) *steps {
	const first = 3 * time.Second
	return &steps{out: out, every: first, next: time.Now().Add(first)}
}

// say prints a line and returns true, unless it has printed one a short time ago. The lines of long work get rarer.
func (s *steps) say(format string, args ...any) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if now.Before(s.next) {
		return false
	}
	s.every = min(s.every*5/4, time.Minute)
	s.next = now.Add(s.every)
	fmt.Fprintf(s.out, "orbweaver: "+format+"\n", args...)
	return true
}

// Say is say of a text.
func (s *steps) Say(text string) { s.say("%s", text) }

// sayLater prints a line about a step that cannot tell how far it is, if the step takes long. end is called at its end.
func sayLater(out io.Writer, format string, args ...any) (end func()) {
	progress, said := newSteps(out), make(chan struct{})
	t := time.AfterFunc(time.Until(progress.next), func() {
		progress.say(format, args...)
		close(said)
	})
	return func() {
		if !t.Stop() {
			<-said
		}
	}
}

// A metered is a file system that prints how much a command has read of its input.
type metered struct {
	disk.FS
	stop  extsort.Stop // its error ends each Read
	steps *steps
	total int64 // bytes; 0 if it is not known
	done  atomic.Int64
}

// reading returns the file system for a command that reads files of fsys once, until stop has an error. Without names,
// it prints no total.
func reading(stop extsort.Stop, errs io.Writer, fsys disk.FS, files ...string) *metered {
	m := &metered{FS: fsys, stop: stop, steps: newSteps(errs)}
	for _, name := range files {
		if info, err := fsys.Stat(name); err == nil { // the command says what is wrong with it
			m.total += info.Size()
		}
	}
	return m
}

// OpenFile opens a file whose Read counts.
func (m *metered) OpenFile(name string, flag int, perm fs.FileMode) (disk.File, error) {
	f, err := m.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &meteredFile{f, m}, nil
}

type meteredFile struct {
	disk.File
	m *metered
}

func (f *meteredFile) Read(p []byte) (int, error) {
	if err := f.m.stop.Err(); err != nil {
		return 0, &fs.PathError{Op: "read", Path: f.Name(), Err: err}
	}
	n, err := f.File.Read(p)
	done := f.m.done.Add(int64(n))
	if total := f.m.total; total > 0 {
		f.m.steps.say("has read %s of %s", size(float64(min(done, total))), size(float64(total)))
	} else {
		f.m.steps.say("has read %s", size(float64(done)))
	}
	return n, err
}
