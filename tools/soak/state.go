package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// A state is what the soak has done for one content of the checkout. It is in the file state.json.
type state struct {
	Tree     string // git's name of the content, with files that are not committed
	Commit   string // to show
	Spent    time.Duration
	Whole    time.Duration            // Spent when each step had run once; 0: not yet
	Jobs     map[string]time.Duration // time of the steps of each job
	Rounds   map[string]int           // of each step, by key
	Findings []finding
}

const (
	stateFile    = "state.json"
	findingsFile = "findings.txt"
)

// key names a step in the state.
func key(s *step) string { return s.job.name + ": " + s.name }

func (s *state) rounds(st *step) int { return s.Rounds[key(st)] }

// content names what is checked out.
type content struct{ tree, commit string }

// contentOf returns the content of the checkout, with changes and new files that git does not ignore.
func contentOf(ctx context.Context, root, out string) (c content, err error) {
	index := filepath.Join(out, "index")
	defer os.Remove(index)
	git := func(args ...string) string {
		cmd := exec.CommandContext(ctx, "git", args...)
		cmd.Dir, cmd.Env = root, append(os.Environ(), "GIT_INDEX_FILE="+index)
		text, e := cmd.Output()
		if e != nil && err == nil {
			err = fmt.Errorf("git %s in %s: %w", strings.Join(args, " "), root, e)
		}
		return strings.TrimSpace(string(text))
	}
	git("read-tree", "HEAD")
	git("add", "--all")
	c.tree = git("write-tree")
	c.commit = git("rev-parse", "--short=12", "HEAD")
	if committed := git("rev-parse", "HEAD^{tree}"); committed != c.tree {
		c.commit += " with changes"
	}
	return c, err
}

// load returns the state for the content. It is new if the file has that of another content; then the
// findings of that one are removed.
func load(out string, c content) (*state, error) {
	s := &state{}
	text, err := os.ReadFile(filepath.Join(out, stateFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	default:
		if err := json.Unmarshal(text, s); err != nil {
			return nil, fmt.Errorf("%s: %w; remove the file to begin anew", filepath.Join(out, stateFile), err)
		}
	}
	if s.Tree != c.tree {
		old, err := filepath.Glob(filepath.Join(out, "*.txt"))
		if err != nil {
			return nil, err
		}
		for _, name := range old {
			if err := os.Remove(name); err != nil {
				return nil, err
			}
		}
		s = &state{Tree: c.tree}
	}
	s.Commit = c.commit
	if s.Jobs == nil {
		s.Jobs = map[string]time.Duration{}
	}
	if s.Rounds == nil {
		s.Rounds = map[string]int{}
	}
	return s, nil
}

// save writes the state and the list of findings. A kill leaves the old files or the new ones.
func (s *state) save(out string) error {
	text, err := json.MarshalIndent(s, "", "\t")
	if err != nil {
		return err
	}
	var lines strings.Builder
	for _, f := range s.Findings {
		lines.WriteString(f.String() + "\n")
	}
	for _, f := range []struct{ name, text string }{
		{findingsFile, lines.String()}, {stateFile, string(text) + "\n"},
	} {
		name := filepath.Join(out, f.name)
		if err := os.WriteFile(name+".new", []byte(f.text), 0o644); err != nil {
			return err
		}
		if err := os.Rename(name+".new", name); err != nil {
			return err
		}
	}
	return nil
}

// lock makes the folder, and keeps other soaks out of it until the caller calls unlock.
func lock(out string) (unlock func(), err error) {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return nil, err
	}
	f, err := os.Create(filepath.Join(out, "lock"))
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: another soak runs in this checkout: %w", f.Name(), err)
	}
	return func() { f.Close() }, nil
}
