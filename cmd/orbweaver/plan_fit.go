package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/orbweaver/orbweaver/internal/cost"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// maxSummary bounds the size of a summary.json that is read.
const maxSummary = 16 << 20

// readRuns returns a run for each directory of --fit.
func readRuns(dirs []string) ([]cost.Run, error) {
	var runs []cost.Run
	for _, dir := range dirs {
		run, err := readRun(dir)
		if err != nil {
			return nil, err
		}
		runs = append(runs, run)
	}
	return runs, nil
}

// readRun adds up the summaries of the agents of one crawl: that of dir, or those of the folders in it.
func readRun(dir string) (run cost.Run, err error) {
	const summary = "reports/summary.json"
	if _, err := os.Stat(dir); err != nil {
		return run, unreadable("--fit "+dir, dir, err, "name the directory of a crawl")
	}
	names := []string{filepath.Join(dir, summary)}
	if _, err := os.Stat(names[0]); errors.Is(err, fs.ErrNotExist) {
		list, err := os.ReadDir(dir)
		if err != nil {
			return run, unreadable("--fit "+dir, dir, err, "name the directory of a crawl")
		}
		names = nil
		for _, e := range list {
			name := filepath.Join(dir, e.Name(), summary)
			if _, err := os.Stat(name); err == nil {
				names = append(names, name)
			}
		}
	}
	if len(names) == 0 {
		return run, bad("--fit %s: there is no %s in it, and none in its folders; name the directory of a crawl that "+
			"has ended, or one with a folder for each agent", dir, summary)
	}
	slices.Sort(names)
	took := 0.0
	for _, name := range names {
		s, err := readRunSummary(dir, name)
		if err != nil {
			return run, err
		}
		agents := 0
		if s.Exchange != nil {
			if agents = s.Exchange.Agents; agents == 0 {
				agents = len(names) // a summary that does not count them
			}
		}
		run.Agents = max(run.Agents, agents)
		run.Pages, run.Bytes = run.Pages+float64(s.Pages), run.Bytes+float64(s.Bytes)
		took = max(took, s.DurationS)
	}
	if len(names) != max(run.Agents, 1) {
		return run, bad("--fit %s: it has summaries of %s, but %d crawled together; copy the reports of all of them "+
			"into it, as DIR/NAME/%s", dir, plural(int64(len(names)), "agent"), max(run.Agents, 1), summary)
	}
	run.Speed = run.Pages / took / float64(len(names))
	return run, nil
}

// readRunSummary reads a summary.json below dir.
func readRunSummary(dir, name string) (s report.Summary, err error) {
	b, err := disk.ReadFile(disk.OS, name, maxSummary)
	if err != nil {
		return s, unreadable("--fit "+dir, dir, err, "name the directory of a crawl")
	}
	if err := json.Unmarshal(b, &s); err != nil || s.Type != "summary" {
		return s, bad("--fit %s: %s is not the summary of a crawl", dir, name)
	}
	if s.Pages < 1 || !(s.DurationS > 0) {
		return s, bad("--fit %s: %s has no pages or no time; name crawls that have fetched pages", dir, name)
	}
	return s, nil
}
