package review

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// Read reads the crawls in dirs. It blocks until it has read all files, or until ctx ends; then it returns the cause.
// An error names the file that cannot be read. A missing file is no error: a crawl that has just begun lacks most.
func Read(ctx context.Context, dirs []string, cfg Config) (*Review, error) {
	r := &reader{Config: cfg, ctx: ctx, fs: cfg.FS, out: &Review{Type: "report"}}
	r.fs = cmp.Or(r.fs, disk.OS)
	if r.Held == nil {
		r.Held = disk.Held
	}
	r.Top = cmp.Or(r.Top, 20)
	r.Names = cmp.Or(r.Names, 100_000)
	r.log = newLogCounts(r.Top, r.Names)
	skipped := newTable(min(r.Names, 1000), func(c *Count) int64 { return c.Count })
	fromCSV, fromLog := r.newBroken(), r.newBroken()
	r.out.BrokenKnown = true
	for _, path := range dirs {
		d := Dir{Path: path, State: Unknown}
		if err := r.readEvents(&d); err != nil {
			return nil, err
		}
		if err := r.readSummary(&d); err != nil {
			return nil, err
		}
		// While a crawl runs, and after a kill, broken.csv is that of an earlier run.
		broken, csv := fromLog, ""
		if d.Summary != nil {
			name := filepath.Join(path, "reports", "broken.csv")
			if _, err := r.fs.Stat(name); err == nil {
				broken, csv = fromCSV, name
			}
		}
		if err := r.readLog(&d, broken, csv == ""); err != nil {
			return nil, err
		}
		if csv == "" {
			r.out.BrokenKnown = false
		} else if err := r.readBroken(csv, &d, broken); err != nil {
			return nil, err
		}
		if err := r.readSkipped(&d, skipped); err != nil {
			return nil, err
		}
		d.FirstDamaged, r.damaged = r.damaged, ""
		r.out.Dirs = append(r.out.Dirs, d)
		r.out.Damaged += d.Damaged
		r.out.Seconds = max(r.out.Seconds, d.Seconds)
		if d.AsOf.After(r.out.AsOf.Time) {
			r.out.AsOf = d.AsOf
		}
	}
	r.log.into(r.out)
	r.out.Skipped = counts(skipped, 1000)
	for i := range r.out.Skipped {
		c := &r.out.Skipped[i]
		c.Name, c.Rule = report.SplitReason(c.Name)
		r.out.SkippedCount += c.Count
	}
	r.out.BrokenCount = fromCSV.count + fromLog.count
	r.out.Broken = append(fromCSV.top.list, fromLog.top.list...)
	slices.SortStableFunc(r.out.Broken, func(a, b Broken) int { return cmp.Compare(brokenRank(&b), brokenRank(&a)) })
	r.out.Broken = r.out.Broken[:min(len(r.out.Broken), r.Top)]
	return r.out, nil
}

// readEvents finds out from events.jsonl how often the crawl ran, for how long, and how it ended.
func (r *reader) readEvents(d *Dir) error {
	var damaged int64 // the crawl's own text; nothing is counted by it
	var last string
	err := r.eachLine(filepath.Join(d.Path, "logs", "events.jsonl"), &damaged, func(line []byte) bool {
		var e struct {
			Time                          time.Time
			Event, Version, Reason, Error string
		}
		// Most events are of no interest here, and decoding takes time.
		if !strings.Contains(string(line[:min(len(line), 200)]), `"event":"`) || json.Unmarshal(line, &e) != nil {
			return false
		}
		switch e.Event {
		case "started", "resumed":
			d.Runs++
			if d.Started.IsZero() {
				d.Started.Time = e.Time
			}
			d.lastRun, d.Error = e.Time, ""
			d.Version = e.Version
		case "stopped":
			if d.State = State(e.Reason); d.State == "" {
				d.State = Unknown
			}
			d.end(e.Time)
		case "error":
			d.State, d.Error = Failed, e.Error
			d.end(e.Time)
		default:
			return true
		}
		last = e.Event
		return true
	})
	if err != nil {
		return err
	}
	d.Damaged += damaged
	if last != "started" && last != "resumed" {
		return nil
	}
	held, err := r.Held(filepath.Join(d.Path, "state"))
	switch {
	case err != nil:
		d.State = Unknown
	case held:
		d.State = Running
	default:
		d.State = Killed
	}
	return nil
}

// end adds the time of the last run.
func (d *Dir) end(at time.Time) {
	if !d.lastRun.IsZero() && at.After(d.lastRun) {
		d.Seconds += at.Sub(d.lastRun).Seconds()
	}
	d.lastRun = time.Time{}
}

// readSummary reads summary.json, if it belongs to the last run. An older one would contradict the log.
func (r *reader) readSummary(d *Dir) error {
	if d.State == Running || d.State == Killed {
		return nil
	}
	b, err := disk.ReadFile(r.fs, filepath.Join(d.Path, "reports", "summary.json"), 16<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var s report.Summary
	var older struct{ Errors, Status map[string]int64 } // the names of earlier programs
	if err := errors.Join(json.Unmarshal(b, &s), json.Unmarshal(b, &older)); err != nil {
		d.Damaged++
		r.damaged = cmp.Or(r.damaged, filepath.Join(d.Path, "reports", "summary.json"))
		return nil
	}
	if s.Errors == nil && s.Status == nil {
		s.Errors, s.Status = older.Errors, older.Status
	}
	d.Summary = &s
	return nil
}

// readSkipped counts skipped.jsonl by reason. The counts of summary.json are those of all skipped links; the file
// leaves repetitions out.
func (r *reader) readSkipped(d *Dir, by *table[Count]) error {
	err := r.eachLine(filepath.Join(d.Path, "reports", "skipped.jsonl"), &d.Damaged, func(line []byte) bool {
		reason, url, ok := skipOf(line)
		if !ok {
			return false
		}
		c := by.row(reason) // with its rule
		if c.Example == "" {
			c.Example = keep(url)
		}
		if d.Summary == nil {
			c.Count++
		}
		return true
	})
	if err != nil {
		return err
	}
	if d.Summary != nil {
		for reason, n := range d.Summary.Skipped {
			for rule, part := range d.Summary.ByRule[reason] {
				by.row(report.ReasonBy(reason, rule)).Count += part
				n -= part
			}
			if n > 0 {
				by.row(reason).Count += n
			}
		}
	}
	return nil
}

// skipOf returns the reason, in the form of report.ReasonBy, and the URL of a line of skipped.jsonl.
func skipOf(line []byte) (reason, url string, ok bool) {
	var s report.Skip
	if err := json.Unmarshal(line, &s); err != nil || s.Reason == "" || s.URL == "" {
		return "", "", false
	}
	return report.ReasonBy(s.Reason, s.Rule), s.URL, true
}

// maxText is how many bytes of a URL or another text the Review keeps.
const maxText = 2000

// Cut ends a text that was cut to maxText bytes.
const Cut = "…"

// keep returns a copy of s that a list can keep.
func keep(s string) string {
	if len(s) > maxText {
		return strings.ToValidUTF8(s[:maxText], "") + Cut
	}
	return strings.Clone(s)
}

// counts returns the largest rows of t with their names.
func counts(t *table[Count], limit int) []Count {
	out := []Count{}
	for _, name := range t.names()[:min(len(t.rows), limit)] {
		c := *t.rows[name]
		c.Name = name
		out = append(out, c)
	}
	return out
}
