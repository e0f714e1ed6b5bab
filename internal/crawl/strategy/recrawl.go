package strategy

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/extsort"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// RecrawlConfig tunes a Recrawl. The zero value visits each page at most once an hour and
// at least once in 30 days, without an end.
type RecrawlConfig struct {
	// Min and Max bound the time between two visits to a page. Zero means 1 h for Min and
	// 30 days for Max. Politeness may lengthen the time.
	Min, Max time.Duration
	// Rounds bounds how often a page is visited again. Zero means no limit.
	Rounds int
	// MemoryBytes bounds the schedule in RAM; the rest of it is on disk. Zero means
	// 16 MiB.
	MemoryBytes int64
}

func (c RecrawlConfig) withDefaults() RecrawlConfig {
	if c.Min <= 0 {
		c.Min = time.Hour
	}
	if c.Max <= 0 {
		c.Max = 30 * 24 * time.Hour
	}
	c.Max = max(c.Max, c.Min)
	if c.MemoryBytes <= 0 {
		c.MemoryBytes = 16 << 20
	}
	return c
}

// A Recrawl crawls breadth-first, and visits each page again as often as the page changes.
// It estimates the rate of change from all visits to the page (see rateOf), and schedules the
// next visit for the time at which it expects one change. The repeated requests are
// conditional if the server has sent an ETag or a Last-Modified.
//
// A page is a URL whose first visit got a 2xx response or a redirect. If it is gone
// later, it stays a page: that counts as one change, and the visits become rarer.
//
// A page takes about 250 bytes on disk, twice (journal and schedule), and no RAM while it
// waits. It implements visit.Mover, visit.Planner and visit.Postponer.
type Recrawl struct {
	BreadthFirst
	cfg RecrawlConfig
	Place
	due   *extsort.Queue          // a schedule: pages, ordered by the time at which they are due
	out   map[link.Key]queuedPage // pages in the crawl's queues
	enc   []byte                  // reused by Visited
	entry []byte                  // reused by schedule

	// forgotten holds, for hosts whose links the operator dropped, the time of the drop in
	// Unix milliseconds. Pages last visited before that time are not due any more.
	forgotten map[string]int64
}

// Terms returns the configuration as text. Agents of a cluster compare it.
func (r *Recrawl) Terms() string {
	return fmt.Sprintf("from %s to %s, %d rounds", r.cfg.Min, r.cfg.Max, r.cfg.Rounds)
}

// A queuedPage is a page that is due and waits in the crawl's queues.
type queuedPage struct {
	url string
	*history
}

// OpenRecrawl returns a Recrawl without pages. It deletes the files in at.Dir; the crawl
// then calls Restore for each page in the journal.
func OpenRecrawl(at Place, cfg RecrawlConfig) (*Recrawl, error) {
	if err := at.clear(); err != nil {
		return nil, err
	}
	r := &Recrawl{cfg: cfg.withDefaults(), Place: at, out: map[link.Key]queuedPage{}, forgotten: map[string]int64{}}
	r.due = extsort.New(at.FS, filepath.Join(at.Dir, "run"), int(r.cfg.MemoryBytes), nil)
	return r, nil
}

// clear deletes all files in at.Dir, and creates the directory if needed.
func (at Place) clear() error {
	err := at.FS.RemoveAll(at.Dir)
	if err == nil {
		err = at.FS.MkdirAll(at.Dir, 0o755)
	}
	if err != nil {
		return fmt.Errorf("strategy %s: %w", at.Dir, err)
	}
	return nil
}

// Close deletes the schedule's files.
func (r *Recrawl) Close() error { return r.due.Close() }

func (r *Recrawl) Visited(v *visit.Visit) ([]byte, error) {
	k := v.Link.PageKey()
	h := r.out[k].history
	switch {
	case v.Again && h == nil:
		return nil, fmt.Errorf("recrawl: visit to %s, which was not due", v.Link.URL)
	case !v.Again:
		if v.Outcome != visit.Fetched || v.Status/100 != 2 && v.Status/100 != 3 {
			return nil, nil
		}
		h = r.firstVisit(v)
	default:
		delete(r.out, k)
		if v.Outcome == visit.Dropped {
			h.due = never
			r.enc = h.appendTo(r.enc[:0])
			return r.enc, r.plan(v.Link, h)
		}
		r.learn(h, v)
	}
	if o := &h.before.Original; o.URL == v.Link.URL.String() {
		o.URL = ""
	}
	h.due = v.Now.Add(h.interval).UnixMilli()
	r.enc = h.appendTo(r.enc[:0])
	return r.enc, r.plan(v.Link, h)
}

// firstVisit returns the history of a page after its first visit.
func (r *Recrawl) firstVisit(v *visit.Visit) *history {
	age := time.Duration(0)
	if !v.Modified.IsZero() {
		age = v.Began.Sub(v.Modified)
	}
	return &history{
		visits: 1, last: v.Began.UnixMilli(), interval: first(age, r.cfg.Min, r.cfg.Max), before: v.Response,
	}
}

// learn adds a later visit to the history of a page.
func (r *Recrawl) learn(h *history, v *visit.Visit) {
	h.visits++
	if v.Outcome != visit.Fetched || v.Status >= 500 || v.Status == 429 {
		return // the visit tells nothing about the page; the interval stays as it is
	}
	began := v.Began.UnixMilli()
	if !v.Compared {
		// This response or the one before was cut off, so the visit was expensive and told
		// nothing. Compare the next response with this one, if possible.
		h.interval = min(2*h.interval, r.cfg.Max).Truncate(time.Millisecond)
		if v.Response.Print != 0 || h.before.Print == 0 {
			h.before, h.last = v.Response, began
		}
		return
	}
	interval := time.Duration(began-h.last) * time.Millisecond
	since := time.Duration(-1)
	if !v.Unchanged {
		h.changes++
		h.changed = began
		if !v.Modified.IsZero() && v.Modified.UnixMilli() >= h.last-h.last%1000 { // Last-Modified has whole seconds
			since = min(max(v.Began.Sub(v.Modified), 0), interval)
			h.changed = v.Modified.UnixMilli()
		}
	}
	h.seen.add(interval, !v.Unchanged, since)
	h.last = began
	h.interval = h.seen.after(h.interval, r.cfg.Min, r.cfg.Max).Truncate(time.Millisecond)
	h.before = v.Response
}

// plan puts a page into the schedule. A page that has had all its visits gets the time
// never.
func (r *Recrawl) plan(l link.Link, h *history) error {
	due := h.due
	if r.cfg.Rounds > 0 && int(h.visits) > r.cfg.Rounds {
		due = never
	}
	l.Via = ""
	return r.schedule(due, l, h)
}

// schedule puts a page into the schedule: the time in Unix milliseconds, then the page.
func (r *Recrawl) schedule(due int64, l link.Link, h *history) error {
	r.entry = binary.BigEndian.AppendUint64(r.entry[:0], uint64(due)^1<<63) // bytes in the order of the times
	r.entry = h.appendTo(l.AppendTo(r.entry))
	return r.due.Push(r.entry)
}

func dueOf(entry []byte) int64 { return int64(binary.BigEndian.Uint64(entry) ^ 1<<63) }

// never is the due time of a page that stays in the schedule for the report only.
const never = math.MaxInt64

func (r *Recrawl) Restore(l link.Link, state []byte) error {
	h, err := decodeHistory(state)
	if err != nil {
		return err
	}
	return r.plan(l, h)
}

// Forget implements visit.Forgetter. The pages of the host stay in the schedule and in the
// report; Next skips them when they are due.
func (r *Recrawl) Forget(host string, at time.Time) {
	r.forgotten[strings.Clone(host)] = at.UnixMilli()
}

func (r *Recrawl) Next(now time.Time) (*visit.Wanted, time.Time, error) {
	for range atOnce {
		w, wake, err := r.next(now)
		if w == nil || err != nil {
			return nil, wake, err
		}
		h := r.out[w.Link.PageKey()].history
		if at, ok := r.forgotten[w.Link.URL.Host()]; !ok || h.last >= at {
			return w, time.Time{}, nil
		}
		delete(r.out, w.Link.PageKey())
		h.due = never
		if err := r.plan(w.Link, h); err != nil {
			return nil, time.Time{}, err
		}
	}
	return nil, now, nil // let the dispatcher do other work
}

// next takes the next due page out of the schedule. The schedule has a page twice if agents have sent different
// states of it. While the page is in the crawl's queues, its second entry is dropped.
func (r *Recrawl) next(now time.Time) (*visit.Wanted, time.Time, error) {
	for range atOnce {
		entry, ok := r.due.Min()
		if !ok || dueOf(entry) == never {
			return nil, time.Time{}, nil
		}
		due := dueOf(entry)
		if at := time.UnixMilli(due); at.After(now) {
			return nil, at, nil
		}
		l, h, err := decodePage(bytes.Clone(entry))
		if err != nil {
			return nil, time.Time{}, fmt.Errorf("schedule: %w", err)
		}
		if err := r.due.Pop(); err != nil {
			return nil, time.Time{}, fmt.Errorf("schedule: %w", err)
		}
		k := l.PageKey()
		if _, queued := r.out[k]; queued {
			continue
		}
		r.out[k] = queuedPage{l.URL.String(), h}
		before := h.before
		if o := &before.Original; o.URL == "" && (o.ID != [16]byte{} || !o.Date.IsZero()) {
			before.Original.URL = l.URL.String()
		}
		return &visit.Wanted{Link: l, Before: &before, Returned: due != h.due}, time.Time{}, nil
	}
	return nil, now, nil // let the dispatcher do other work
}

func (r *Recrawl) PutOff(w *visit.Wanted, until time.Time) error {
	k := w.Link.PageKey()
	h := r.out[k].history
	if h == nil {
		return fmt.Errorf("recrawl: %s was put off but was not due", w.Link.URL)
	}
	delete(r.out, k)
	return r.schedule(until.UnixMilli()+1, w.Link, h)
}

func (r *Recrawl) TakeOut(w *visit.Wanted) ([]byte, error) {
	k := w.Link.PageKey()
	h := r.out[k].history
	if h == nil {
		return nil, fmt.Errorf("recrawl: %s is to move but was not due", w.Link.URL)
	}
	delete(r.out, k)
	return h.appendTo(nil), nil
}

// decodePage reads an entry of the schedule.
func decodePage(entry []byte) (link.Link, *history, error) {
	b := entry[8:]
	l, n, err := link.Decode(b)
	if err != nil {
		return l, nil, err
	}
	h, err := decodeHistory(b[n:])
	return l, h, err
}

// WriteReport writes recrawl.csv into dir: the visits, changes and rate of up to 100,000
// pages, the most often changing page first.
func (r *Recrawl) WriteReport(fs disk.FS, dir string) error {
	type line struct {
		rate  float64
		cells [8]string
	}
	var lines []line
	var dropped int
	add := func(url string, h *history) {
		if len(lines) >= reportMax {
			dropped++
			return
		}
		rate := h.seen.rate()
		at := func(ms int64) string {
			if ms == 0 || ms == never {
				return ""
			}
			return time.UnixMilli(ms).UTC().Format(time.RFC3339)
		}
		lines = append(lines, line{rate, [8]string{
			url, strconv.Itoa(int(h.visits)), strconv.Itoa(int(h.changes)),
			strconv.FormatFloat(rate*24*3600, 'g', 4, 64), strconv.FormatFloat(h.interval.Seconds(), 'f', 0, 64),
			at(h.last), at(h.changed), at(h.due),
		}})
	}
	err := r.due.All(func(entry []byte) error {
		l, h, err := decodePage(entry)
		if err == nil {
			add(l.URL.String(), h)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	for _, o := range r.out {
		add(o.url, o.history)
	}
	slices.SortFunc(lines, func(a, b line) int {
		return cmp.Or(cmp.Compare(b.rate, a.rate), cmp.Compare(a.cells[0], b.cells[0]))
	})
	return report.WriteTable(fs, filepath.Join(dir, "recrawl.csv"), func(row func(...string)) {
		row("url", "visits", "changes", "changes_per_day", "interval_s", "last_visit", "last_change", "next_visit")
		for _, l := range lines {
			row(l.cells[:]...)
		}
		if dropped > 0 {
			row("(" + strconv.Itoa(dropped) + " more)")
		}
	})
}

// reportMax bounds the lines of a report, which is sorted in memory.
const reportMax = 100_000

var errState = fmt.Errorf("%w: it is damaged, or another strategy wrote it", visit.ErrState)
