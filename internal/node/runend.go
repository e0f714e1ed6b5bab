package node

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/node/past"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/crawldir"
	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// An End describes how a run of a crawl ended.
type End struct {
	// Reason is "" if there is no crawl, if the run is under way, or if it ended before its reports
	// were complete.
	Reason crawl.Stop
	// Nothing reports that nothing could be fetched; see Result.
	Nothing bool
}

// Ended returns how the last run of the crawl in dir ended.
func Ended(dir string) (End, error) {
	last, err := lastLine(filepath.Join(dir, "logs", "events.jsonl"))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || err == nil && len(last) == 0 {
		return End{}, nil
	}
	if err != nil {
		return End{}, crawldir.Denied(dir, err)
	}
	var e struct {
		Time          time.Time
		Event, Reason string
		Nothing       bool
	}
	if json.Unmarshal(last, &e) != nil || e.Event != "stopped" {
		return End{}, nil // a kill may have cut the line off
	}
	// The summary is written last. An earlier run may have left one.
	info, err := os.Stat(filepath.Join(dir, "reports", "summary.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return End{}, nil
	}
	if err != nil || info.ModTime().Add(clockLag).Before(e.Time) {
		return End{}, crawldir.Denied(dir, err)
	}
	return End{crawl.Stop(e.Reason), e.Nothing}, nil
}

// clockLag bounds how far the times of files are behind those of the clock.
const clockLag = time.Second

// lastLine returns the last line of a file of lines, if it is shorter than 64 KiB.
func lastLine(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	from := max(0, size-64<<10)
	b := make([]byte, size-from)
	if _, err := f.ReadAt(b, from); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	b = bytes.TrimRight(b, "\n")
	return b[bytes.LastIndexByte(b, '\n')+1:], nil
}

// barren reports that the crawl in the directory has ended or was killed without a page, so that another one may take
// its place.
func (a *Agent) barren() bool {
	end, err := Ended(a.cfg.Dir)
	if err != nil || end.Reason != "" && !end.Nothing || !past.Barren(a.fs, a.cfg.Dir, end.Nothing) {
		return false
	}
	noter(a.cfg.Note).Note(a.cfg.Dir + " held a crawl without a page; this crawl takes its place")
	return true
}

// maxSummary bounds the summary of the run before, in bytes.
const maxSummary = 16 << 20

// nameSeeds gives the summary the first seeds that gave no page. Those of earlier runs stay. again reports that this
// run has tried those again that had no response.
func (a *Agent) nameSeeds(r *Result, again bool) {
	f := &r.Summary.Failing
	var before report.Summary
	if b, err := disk.ReadFile(a.fs, a.dir("reports", "summary.json"), maxSummary); err == nil && a.cfg.Resume &&
		strategyName(a.parts.Strategy) != "recrawl" && json.Unmarshal(b, &before) == nil {
		for _, s := range before.Failing.Seeds {
			if s.Status > 0 || !again {
				f.Seeds = append(f.Seeds, s)
			}
		}
		if !again {
			f.MoreSeeds = before.Failing.MoreSeeds
		}
	}
	for _, s := range r.Failed {
		u, why := s.URL.String(), s.Why()
		if s.Via != "" && s.Via != "https"+strings.TrimPrefix(u, "http") { // name what the operator gave
			u, why = s.Via, "redirects to "+u+": "+why
		}
		if slices.ContainsFunc(f.Seeds, func(l report.LostSeed) bool { return l.URL == u }) {
			continue
		}
		if len(f.Seeds) < report.LostSeeds {
			f.Seeds = append(f.Seeds, report.LostSeed{URL: u, Status: s.Code, Why: why})
			continue
		}
		f.MoreSeeds++
	}
	f.MoreSeeds += r.FailedCount - int64(len(r.Failed))
}
