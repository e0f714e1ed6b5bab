package lab

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// ErrSeeds reports that a run would count stories that the file Chaos.Append has already.
var ErrSeeds = errors.New("stories would be counted twice")

// readRuns reads the runs in a file. If there is no file, there are no runs.
func readRuns(name string) (runs []ChaosRun, err error) {
	b, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	lines := bufio.NewScanner(bytes.NewReader(b))
	lines.Buffer(nil, len(b)+1)
	for n := 1; lines.Scan(); n++ {
		r, err := parseRun(lines.Bytes())
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, n, err)
		}
		runs = append(runs, r)
	}
	return runs, lines.Err()
}

// parseRun reads a line of the file Append. It refuses fields that it does not know: it could not
// write them again.
func parseRun(line []byte) (r ChaosRun, err error) {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	switch err := d.Decode(&r); {
	case err != nil:
		return r, err
	case d.More():
		return r, errors.New("something follows after the run")
	case r.Date == "" || r.First == 0 || r.Last < r.First || r.stories() == 0:
		return r, errors.New("no run: it has no date, no seeds or no stories")
	}
	return r, nil
}

// writeRuns writes runs to a file, which stays whole if the machine stops.
func writeRuns(name string, runs []ChaosRun) error {
	var b bytes.Buffer
	for _, r := range runs {
		line, err := json.Marshal(r)
		if err != nil {
			return fmt.Errorf("lab: %w", err)
		}
		b.Write(append(line, '\n'))
	}
	if err := disk.WriteFile(disk.OS, name, b.Bytes()); err != nil {
		return fmt.Errorf("lab: %w", err)
	}
	return nil
}

// lockFolder waits until no other process holds the lock of the folder of name, and takes it. The
// lock leaves no file behind.
func lockFolder(name string) (unlock func(), err error) {
	d, err := os.Open(filepath.Dir(name))
	if err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	if err := syscall.Flock(int(d.Fd()), syscall.LOCK_EX); err != nil {
		d.Close()
		return nil, fmt.Errorf("lock %s: %w", d.Name(), err)
	}
	return func() { d.Close() }, nil // which unlocks it
}

// nextSeed returns the seed after those of some runs.
func nextSeed(runs []ChaosRun) uint64 {
	last := uint64(0)
	for _, r := range runs {
		last = max(last, r.Last)
	}
	return last + 1
}

// overlap returns an error if one of the runs has stories with a seed from first to last, told by
// the same commit.
func overlap(runs []ChaosRun, commit string, first, last uint64) error {
	for _, r := range runs {
		from, to := max(first, r.First), min(last, r.Last)
		for ; from <= to; from++ {
			if r.Commit == commit && !slices.Contains(r.Untold, from) {
				return fmt.Errorf("%w: the run of %s by the same commit has the seeds %d to %d; use --seed %d",
					ErrSeeds, r.Date, r.First, r.Last, nextSeed(runs))
			}
		}
	}
	return nil
}

// addTo adds the run to those in the file Append, or replaces it there. It returns all runs.
// Another orblab may have added runs since those in before were read.
func (x *Chaos) addTo(before []ChaosRun, run ChaosRun) ([]ChaosRun, error) {
	if x.Append == "" || run.stories() == 0 {
		return append(slices.Clip(before), run), nil
	}
	unlock, err := lockFolder(x.Append)
	if err != nil {
		return nil, err
	}
	defer unlock()
	runs, err := readRuns(x.Append)
	if err != nil {
		return nil, err
	}
	i := -1
	if x.added {
		i = slices.IndexFunc(runs, func(r ChaosRun) bool {
			return r.Date == run.Date && r.Commit == run.Commit && r.First == run.First
		})
	}
	if i >= 0 {
		runs[i] = run
	} else if err := overlap(runs, run.Commit, run.First, run.Last); err != nil {
		return nil, fmt.Errorf("%s: %w", x.Append, err) // added since this run began
	} else {
		runs = append(runs, run)
	}
	if err := writeRuns(x.Append, runs); err != nil {
		return nil, err
	}
	x.added = true
	return runs, nil
}
