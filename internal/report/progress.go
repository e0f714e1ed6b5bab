package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// A Snapshot describes the crawl at one moment, for Progress.
type Snapshot struct {
	// State is starting, waiting, stopping or done; "" means crawling.
	State   string
	Elapsed time.Duration // over all runs

	Pages, Fetched, Bytes  int64
	Files                  int64 // that pages embed, and sitemaps
	Queued, Unique         int64
	Open, Resolving        int // open requests; hosts whose address is being looked up
	Ready, Resting, Paused int // hosts
	Denied, Duplicates     int64
	Skipped                map[string]int64 // links that are not followed, by reason
	Errors                 map[string]int64 // by kind
	Retrying               map[string]int64 // URLs that failed and will be visited again, by kind of error
	RetryIn                time.Duration    // until the next of these visits; 0: now or unknown
	// Revisits counts visits to pages visited before, Unchanged those that found the same page.
	Revisits, Unchanged int64
	NextIn              time.Duration // until the next revisit is due; 0: now or never
	Memory              int64         // bytes in use
	Disk                disk.Space    // of the crawl directory
	Exchange            *Exchange     // nil: not in a cluster
	LastURL             string        // the last one fetched
	NowURL              string        // the last one that is being fetched
	WaitingFor          string        // in words; "" if the crawl moves
	Hosts               []HostRow     // of the live display
	Agents              []string      // of the cluster that are present

	PageLimit, SizeLimit int64 // pages, bytes; 0: no limit
	TimeLimit            time.Duration
	Ran                  time.Duration // what counts for TimeLimit: this run, without pauses
}

// A Mode is a way to display progress.
type Mode uint8

const (
	Quiet Mode = iota // no output
	Plain             // a line every 10 seconds
	JSON              // a line of JSON every second
	Live              // several lines on a terminal, redrawn in place
)

// ModeFor chooses a Mode. A request of the user (quiet, asJSON) comes first. Otherwise it is Live on a terminal that
// can move its cursor, and Plain elsewhere. term is the value of the variable TERM.
func ModeFor(quiet, asJSON, terminal bool, term string) Mode {
	switch {
	case quiet:
		return Quiet
	case asJSON:
		return JSON
	case terminal && term != "dumb" && term != "":
		return Live
	}
	return Plain
}

// Progress displays Snapshots. Its methods are safe for concurrent use. Set its fields before the first call.
type Progress struct {
	// Every is the minimum time between two displays. Zero means 0.2 s for Live, 1 s for JSON and 10 s for Plain.
	Every time.Duration
	// Color lets Live use colours. The caller leaves it false if NO_COLOR is set.
	Color bool
	// Hint says in Live what Ctrl-C does. Empty: nothing.
	Hint string
	// Agent is the agent's name in a cluster, which begins each display and each message. Empty: not in a cluster.
	Agent string
	// Background reports whether the process is in the background of its terminal. Live then shows plain lines,
	// because redrawing would overwrite the output of other programs. Nil means never.
	Background func() bool

	w    io.Writer
	mode Mode
	size func() (cols, lines int)

	mu           sync.Mutex // guards the fields below
	shown        time.Time
	samples      []sample
	live         live
	last         *Snapshot
	pending      bool // last has not been shown
	closed       bool
	inBackground bool // Live shows plain lines
}

type sample struct {
	at           time.Time
	pages, bytes int64
}

// rateSpan is the time over which the current rates are measured.
const rateSpan = 10 * time.Second

// NewProgress returns a Progress that writes to w. Before each drawing it calls size for the size of the terminal. Nil,
// or a size of 0, means 80 columns and 24 lines.
//
// The output is cleaned of control characters: line by line in Live mode, which moves the cursor itself, and by a
// CleanWriter in all other modes.
func NewProgress(w io.Writer, mode Mode, size func() (cols, lines int)) *Progress {
	if mode != Live {
		w = NewCleanWriter(w)
	}
	return &Progress{w: w, mode: mode, size: size}
}

// current returns the mode for now: p.mode, or Plain if Live runs in the background. Lines that Live has drawn before
// the process went to the background stay on the terminal.
func (p *Progress) current() Mode {
	if p.mode != Live || p.Background == nil {
		return p.mode
	}
	if background := p.Background(); background != p.inBackground {
		p.inBackground, p.live.drawn = background, nil
	}
	if p.inBackground {
		return Plain
	}
	return Live
}

func (p *Progress) every(mode Mode) time.Duration {
	switch {
	case p.Every > 0:
		return p.Every
	case mode == Live:
		return 200 * time.Millisecond
	case mode == JSON:
		return time.Second
	}
	return 10 * time.Second
}

// Show displays s, unless the last display was less than Every ago. It does not block except on w.
func (p *Progress) Show(s Snapshot, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mode == Quiet || p.closed {
		return
	}
	p.sample(s, now)
	p.last = &s
	mode := p.current()
	if mode == Live && p.settling(now) || !p.shown.IsZero() && now.Sub(p.shown) < p.every(mode) {
		p.pending = true
		return
	}
	p.show(mode, s, now)
}

func (p *Progress) show(mode Mode, s Snapshot, now time.Time) {
	p.shown, p.pending = now, false
	pages, bytes := p.rates()
	switch mode {
	case Live:
		p.draw(s, pages, bytes)
	case JSON:
		p.json(s, pages, bytes, now)
	case Plain:
		fmt.Fprintln(p.w, p.named(plainLine(s, pages, bytes)))
	}
}

// named puts the agent's name in front of a line.
func (p *Progress) named(line string) string {
	if p.Agent == "" {
		return line
	}
	return Clean(p.Agent) + ": " + line
}

// Message prints text as one line. In Live mode the display stays below it.
func (p *Progress) Message(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text = OneLine(text)
	switch p.current() {
	case Live:
		p.message(p.named(text))
		if p.last != nil && !p.closed {
			pages, bytes := p.rates()
			p.draw(*p.last, pages, bytes)
		}
	case JSON:
		b, _ := json.Marshal(struct {
			Type  string `json:"type"`
			Agent string `json:"agent,omitempty"`
			Text  string `json:"message"`
		}{"note", p.Agent, text})
		p.w.Write(append(b, '\n'))
	case Plain:
		fmt.Fprintln(p.w, p.named(text))
	}
}

// Close displays the last Snapshot if Show has not, and leaves it on the terminal. Later calls of Show do nothing.
func (p *Progress) Close(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.closed = true
	if p.mode != Quiet && p.pending {
		p.show(p.current(), *p.last, now)
	}
	p.live.drawn = nil // later messages go below the display
}

// sample remembers s for rates. The first and the last of three adjacent samples are at least
// rateSpan/40 apart, so there are at most about 80.
func (p *Progress) sample(s Snapshot, now time.Time) {
	if n := len(p.samples); n > 1 && now.Sub(p.samples[n-2].at) < rateSpan/40 {
		p.samples = p.samples[:n-1]
	}
	p.samples = append(p.samples, sample{now, s.Pages, s.Bytes})
	for len(p.samples) > 2 && now.Sub(p.samples[1].at) >= rateSpan {
		p.samples = p.samples[1:]
	}
}

// rates returns the current pages and bytes per second.
func (p *Progress) rates() (pages, bytes float64) {
	if len(p.samples) < 2 {
		return 0, 0
	}
	a, b := p.samples[0], p.samples[len(p.samples)-1]
	if d := b.at.Sub(a.at).Seconds(); d > 0 {
		return max(float64(b.pages-a.pages)/d, 0), max(float64(b.bytes-a.bytes)/d, 0)
	}
	return 0, 0
}

func (s *Snapshot) mean() float64 {
	if d := s.Elapsed.Seconds(); d > 0 {
		return float64(s.Pages) / d
	}
	return 0
}

// eta returns the time until the nearest limit is reached at the given rates, and the limit's name. ok is false if no
// limit is set, if nothing moves, if the crawl is paused, or if it is already ending for another reason.
func (s *Snapshot) eta(pages, bytes float64) (d time.Duration, limit string, ok bool) {
	if s.State != "" && s.State != "waiting" {
		return 0, "", false
	}
	take := func(left, rate float64, name string) {
		if rate <= 0 {
			return
		}
		secs := max(left/rate, 0)
		if secs > float64(1<<33) { // a time.Duration cannot hold much more
			return
		}
		if t := time.Duration(secs * float64(time.Second)); !ok || t < d {
			d, limit, ok = t, name, true
		}
	}
	if s.PageLimit > s.Pages {
		take(float64(s.PageLimit-s.Pages), pages, "page limit")
	}
	if s.SizeLimit > 0 {
		take(float64(s.SizeLimit-s.Bytes), bytes, "size limit")
	}
	if s.TimeLimit > 0 {
		take((s.TimeLimit - s.Ran).Seconds(), 1, "time limit")
	}
	return d, limit, ok
}

// byKind returns the sum of the counts and a text for each kind, the most frequent first.
func byKind(counts map[string]int64) (total int64, kinds []string) {
	for _, n := range counts {
		total += n
	}
	for _, k := range descending(counts, func(n int64) int64 { return n }) {
		kinds = append(kinds, fmt.Sprintf("%s %s", Clean(k), humanize.Comma(counts[k])))
	}
	return total, kinds
}

// retrying describes the URLs that failed and will be visited again, such as "connect 3 (next in 27s)"; empty if there
// are none.
func (s *Snapshot) retrying() string {
	_, kinds := byKind(s.Retrying)
	line := strings.Join(kinds, ", ")
	if line != "" {
		line += nextIn(s.RetryIn)
	}
	return line
}

func nextIn(d time.Duration) string {
	if d <= 0 {
		return ""
	}
	return " (next in " + seconds(d) + ")"
}

// revisits describes the revisits, such as "12, 9 unchanged (next in 27s)"; empty if there are none, done or due.
func (s *Snapshot) revisits() string {
	if s.Revisits == 0 && s.NextIn <= 0 {
		return ""
	}
	return fmt.Sprintf("%s, %s unchanged", humanize.Comma(s.Revisits), humanize.Comma(s.Unchanged)) + nextIn(s.NextIn)
}

func rate(perSecond float64) string { return humanize.Bytes(uint64(max(perSecond, 0))) + "/s" }

func plainLine(s Snapshot, pages, bytes float64) string {
	var b strings.Builder
	if s.State == "stopping" || s.State == "paused" {
		b.WriteString(s.State + ": ")
	}
	fmt.Fprintf(&b, "%s  %s", Span(s.Elapsed), Count(s.Pages, "page"))
	if s.PageLimit > 0 {
		b.WriteString(" of " + humanize.Comma(s.PageLimit))
	}
	if s.Files > 0 {
		b.WriteString("  " + Count(s.Files, "file"))
	}
	fmt.Fprintf(&b, "  %.1f/s (mean %.1f)  %s  %s  %s queued  hosts: %s ready, %s resting, %s paused  %s",
		pages, s.mean(), humanize.Bytes(uint64(max(s.Bytes, 0))), rate(bytes), humanize.Comma(s.Queued),
		comma(int64(s.Ready)), comma(int64(s.Resting)), comma(int64(s.Paused)), Count(int64(s.Open), "open request"))
	if again := s.revisits(); again != "" {
		b.WriteString("  again: " + again)
	}
	if retrying := s.retrying(); retrying != "" {
		b.WriteString("  retrying: " + retrying)
	}
	if total, kinds := byKind(s.Errors); total > 0 {
		fmt.Fprintf(&b, "  errors: %s", strings.Join(kinds, ", "))
	}
	if s.Disk.IsScarce() {
		fmt.Fprintf(&b, "  only %s free on the disk", humanize.Bytes(s.Disk.Free))
	}
	if d, limit, ok := s.eta(pages, bytes); ok {
		fmt.Fprintf(&b, "  %s in %s", limit, Span(d))
	}
	if s.WaitingFor != "" {
		b.WriteString("  waiting for " + CleanText(s.WaitingFor))
	}
	return b.String()
}

// json writes the content of the Live display as JSON. The units are in the names.
func (p *Progress) json(s Snapshot, pages, bytes float64, now time.Time) {
	line := struct {
		Type       string           `json:"type"`
		Time       string           `json:"time"`
		Agent      string           `json:"agent,omitempty"`
		State      string           `json:"state"`
		ElapsedS   float64          `json:"elapsed_s"`
		Pages      int64            `json:"pages"`
		Files      int64            `json:"files"`
		PagesPerS  float64          `json:"pages_per_s"`
		MeanPerS   float64          `json:"pages_per_s_mean"`
		Fetched    int64            `json:"fetched"`
		Bytes      int64            `json:"bytes"`
		BytesPerS  int64            `json:"bytes_per_s"`
		Queued     int64            `json:"urls_queued"`
		Unique     int64            `json:"urls_unique"`
		Open       int              `json:"open_requests"`
		Resolving  int              `json:"resolving"`
		Ready      int              `json:"hosts_ready"`
		Resting    int              `json:"hosts_resting"`
		Paused     int              `json:"hosts_paused"`
		Denied     int64            `json:"robots_denied"`
		Duplicates int64            `json:"duplicates"`
		Skipped    map[string]int64 `json:"skipped"`
		Revisits   int64            `json:"revisits,omitempty"`
		Unchanged  int64            `json:"unchanged,omitempty"`
		NextIn     float64          `json:"next_visit_s,omitempty"`
		Errors     map[string]int64 `json:"errors_by_kind"`
		Retrying   map[string]int64 `json:"retrying"`
		RetryIn    float64          `json:"next_retry_s,omitempty"`
		Memory     int64            `json:"memory_bytes"`
		FreeDisk   uint64           `json:"disk_free_bytes,omitempty"`
		Exchange   *Exchange        `json:"exchange,omitempty"`
		LastURL    string           `json:"last_url,omitempty"`
		WaitingFor string           `json:"waiting_for,omitempty"`
		Agents     []string         `json:"agents,omitempty"`
		Limit      string           `json:"limit,omitempty"`
		ETA        *float64         `json:"eta_s,omitempty"`
	}{
		"progress", now.UTC().Format(logTime), p.Agent, s.State, round2(s.Elapsed.Seconds()), s.Pages,
		s.Files, round2(pages), round2(s.mean()),
		s.Fetched, s.Bytes, int64(bytes), s.Queued, s.Unique, s.Open, s.Resolving, s.Ready, s.Resting, s.Paused,
		s.Denied, s.Duplicates, s.Skipped, s.Revisits, s.Unchanged, round2(s.NextIn.Seconds()), s.Errors, s.Retrying,
		round2(s.RetryIn.Seconds()), s.Memory, s.Disk.Free, s.Exchange, Clean(s.LastURL), CleanText(s.WaitingFor),
		s.Agents, "", nil,
	}
	line.State = cmp.Or(line.State, "crawling")
	if line.Errors == nil {
		line.Errors = map[string]int64{}
	}
	if line.Skipped == nil {
		line.Skipped = map[string]int64{}
	}
	if line.Retrying == nil {
		line.Retrying = map[string]int64{}
	}
	if d, limit, ok := s.eta(pages, bytes); ok {
		secs := round2(d.Seconds())
		line.Limit, line.ETA = limit, &secs
	}
	b, err := json.Marshal(line)
	if err != nil {
		return // cannot happen: every field can be encoded
	}
	p.w.Write(append(b, '\n'))
}

func round2(x float64) float64 { return float64(int64(x*100+0.5)) / 100 }
