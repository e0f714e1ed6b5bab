package report

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// A Stamp is a time in JSON.
type Stamp = clock.Stamp

// A Summary is the content of reports/summary.json.
type Summary struct {
	Type    string      `json:"type"`            // "summary"
	Agent   string      `json:"agent,omitempty"` // its name in a cluster
	Started clock.Stamp `json:"started,omitzero"`
	Ended   clock.Stamp `json:"ended,omitzero"`

	Pages      int64   `json:"pages"` // successful fetches of pages
	Files      int64   `json:"files"` // and of what they embed
	Fetched    int64   `json:"fetched"`
	Bytes      int64   `json:"bytes"`
	DurationS  float64 `json:"elapsed_s"`
	PagesPerS  float64 `json:"pages_per_s_mean"`
	Discovered int64   `json:"urls_discovered"`
	Unique     int64   `json:"urls_unique"`
	Finished   int64   `json:"urls_finished"`
	Queued     int64   `json:"urls_queued"`
	Sent       int64   `json:"urls_sent"`        // handed to the agents that crawl them
	Hosts      int     `json:"hosts"`            // with a visit
	PageHosts  int     `json:"hosts_with_pages"` // with a page
	Duplicates int64   `json:"duplicates"`
	Near       int64   `json:"near_duplicates"` // pages nearly the same as an archived one
	Truncated  int64   `json:"truncated"`
	Unkept     int64   `json:"not_kept"` // responses that --keep leaves out of the archive
	Moved      Moved   `json:"pages_moved,omitzero"`
	Refetched  int64   `json:"refetched"`  // of Pages and Files: they were in a lost archive, and were fetched again
	Revisits   int64   `json:"revisits"`   // visits to URLs visited before
	Unchanged  int64   `json:"unchanged"`  // revisits that found the same page
	Changed    int64   `json:"changed"`    // revisits that found another page; the rest failed or were truncated
	RobotsTxt  int64   `json:"robots_txt"` // fetches of robots.txt
	Denied     int64   `json:"robots_denied"`
	Retries    int64   `json:"retries"`
	StopReason string  `json:"stop_reason"`
	PeakMemory int64   `json:"peak_memory_bytes"`
	Leases     *Leases `json:"leases,omitempty"` // messages about leases, in the last run
	Moves      *Moves  `json:"moves,omitempty"`  // hosts that moved between agents, in the last run

	Exchange *Exchange `json:"exchange,omitempty"` // messages to other agents, in the last run
	Contents *Contents `json:"contents,omitempty"` // search for duplicate contents among agents, in the last run
	Lost     *Lost     `json:"lost,omitempty"`     // archives that were lost with other agents, now

	Failing Failing `json:"failing,omitzero"`

	Errors  map[string]int64 `json:"errors_by_kind"`      // by kind
	Status  map[string]int64 `json:"responses_by_status"` // by code
	Skipped map[string]int64 `json:"skipped"`             // by reason
	// ByRule has the part of Skipped that a setting in the section hosts: decided: by reason, then by prefix.
	ByRule map[string]map[string]int64 `json:"skipped_by_hosts,omitempty"`
}

// Failing says where the crawl got least.
type Failing struct {
	Hosts []HostErrors `json:"hosts,omitempty"` // those with the most errors
	// Seeds are the first seeds that gave no page in the last run, and MoreSeeds is the number of others.
	Seeds     []LostSeed `json:"seeds,omitempty"`
	MoreSeeds int64      `json:"more_seeds,omitempty"`
}

// LostSeeds bounds Failing.Seeds.
const LostSeeds = 10

// A LostSeed is a seed, or the target of a seed's redirects, that gave no page.
type LostSeed struct {
	URL    string `json:"url"`
	Status int    `json:"status"` // as in crawl.log
	Why    string `json:"why"`    // in words
}

// Moved counts the pages and files that moved to the agents where they belong, which archive them.
type Moved struct {
	Exported  int64 `json:"exported"` // by this agent, which has fetched them
	Imported  int64 `json:"imported"` // to this agent
	ExportedB int64 `json:"bytes_exported"`
	ImportedB int64 `json:"bytes_imported"`
}

// Moves counts the hosts that moved from and to other agents.
type Moves struct {
	Claimed  int64 `json:"hosts_claimed"` // this agent became the owner, and all earlier owners have answered
	Given    int64 `json:"hosts_given"`   // another agent became the owner
	KeysIn   int64 `json:"keys_taken"`    // keys of finished URLs that came with claimed hosts
	KeysOut  int64 `json:"keys_given"`    // keys of finished URLs that went with given hosts
	LinksOut int64 `json:"links_given"`   // waiting links that went with given hosts
	Held     int   `json:"hosts_held"`    // hosts that wait for an answer now
	// CountsLeftOut counts the counts of hosts' pages that were left out because a host had too many.
	CountsLeftOut int64 `json:"page_counts_left_out,omitempty"`
}

// Sites is what an agent knows by the word of the coordinators, with --partition sites.
type Sites struct {
	Number     uint64 `json:"number"`     // the last entry of the coordinators' stream that is applied here
	Last       uint64 `json:"last"`       // their last entry, when they last answered
	Term       uint64 `json:"term"`       // of the roster that is in effect
	Leader     string `json:"leader"`     // address of the coordinator that leads; empty: not known
	Hosts      int64  `json:"hosts"`      // assigned to any agent
	Waiting    int64  `json:"waiting"`    // hosts whose agent is looked for
	Unknown    int64  `json:"unknown"`    // of them: those that the coordinators are asked for
	Dead       int64  `json:"dead"`       // of them: those without an address so far
	Discovered int64  `json:"discovered"` // hosts that this run has told the coordinators, with repetitions
	Hits       int64  `json:"hits"`       // look-ups in this run that RAM answered
	Misses     int64  `json:"misses"`     // look-ups in this run that went to the disk

	MemoryBytes int64 `json:"memory_bytes"`
	DiskBytes   int64 `json:"disk_bytes"`
}

// An Exchange counts what an agent sends to other agents.
type Exchange struct {
	Agents int `json:"agents"` // the most that owned hosts at once, this one included
	// Links counts the links that were sent. Keys counts the URLs that this agent has asked their
	// owners about, to send only the links that they do not know.
	Links int64 `json:"links_sent"`
	Keys  int64 `json:"keys_asked"`
	// Bytes are those on the wire, answers included, without the headers of TCP, UDP and IP. ByCall has the
	// compressed messages of each kind of call; "gossip" are the packets of the membership protocol,
	// and "transport" is the rest: HTTP, TLS and the streams of gossip.
	Bytes  int64            `json:"bytes"`
	ByCall map[string]int64 `json:"bytes_by_call"`
	Calls  map[string]int64 `json:"calls"` // made by this agent
	// Answers has the bytes of the compressed answers that this agent received, by kind of call.
	Answers map[string]int64 `json:"answer_bytes_by_call"`
	// The same divided by the pages of the run. UbiCrawler, a distributed crawler, calls
	// LinksPerPage e/n (paper, section 5).
	LinksPerPage float64 `json:"links_per_page"`
	KeysPerPage  float64 `json:"keys_per_page"`
	BytesPerPage float64 `json:"bytes_per_page"`
}

// Count sets the values a page. pages is the number of pages of the same run.
func (e *Exchange) Count(pages int64) {
	per := func(n int64) float64 { return math.Round(float64(n)/float64(max(pages, 1))*1e4) / 1e4 }
	e.LinksPerPage, e.KeysPerPage, e.BytesPerPage = per(e.Links), per(e.Keys), per(e.Bytes)
}

// Leases counts the messages with which agents share addresses and registered domains.
type Leases struct {
	Messages int64   `json:"messages"` // requests and responses that this agent sent
	PerPage  float64 `json:"messages_per_page"`
	Asked    int64   `json:"asked"`   // requested leases; a repeated request counts again
	Waits    int64   `json:"waits"`   // how often a host that was due began to wait for a lease
	CutOff   int64   `json:"cut_off"` // visits that were cancelled because a lease was lost
}

// Count sets PerPage. pages is the number of pages of the same run.
func (l *Leases) Count(pages int64) {
	if l.PerPage = 0; pages > 0 {
		l.PerPage = math.Round(float64(l.Messages)/float64(pages)*1e4) / 1e4
	}
}

// Summary returns the sums of t. took is the duration of the crawl over all its runs.
func (t *Tally) Summary(took time.Duration, stopReason string) Summary {
	s := Summary{
		Type: "summary", Started: clock.Stamp{Time: t.started}, Pages: t.n.pages, Files: t.n.files,
		Fetched:    t.n.fetched,
		Bytes:      t.n.bytes,
		DurationS:  took.Round(time.Millisecond).Seconds(),
		Discovered: t.n.found, Unique: t.n.unique, Finished: t.n.finished, Sent: t.n.sent,
		Hosts: t.hosts.count, Duplicates: t.n.duplicates, Truncated: t.n.truncated,
		Moved:  Moved{t.n.exported, t.n.imported, t.n.exportedBytes, t.n.importedBytes},
		Unkept: t.n.unkept, Near: t.n.near, Refetched: t.n.refetched,
		Revisits: t.n.revisits, Unchanged: t.n.unchanged, Changed: t.n.changed,
		RobotsTxt: t.n.robots, Denied: t.n.denied, Retries: t.n.retried,
		StopReason: stopReason, PeakMemory: PeakMemory(),
		Errors: map[string]int64{}, Status: map[string]int64{}, Skipped: map[string]int64{},
	}
	s.Failing.Hosts = t.worst()
	if took > 0 {
		s.PagesPerS = float64(int64(float64(t.n.pages)/took.Seconds()*100+0.5)) / 100
	}
	for k, n := range t.errors {
		s.Errors[k] = n
	}
	for k, n := range t.status {
		s.Status[strconv.Itoa(k)] = n
	}
	s.Skipped, s.ByRule = t.skippedBy()
	for _, h := range t.hosts.all() {
		if h.pages > 0 {
			s.PageHosts++
		}
	}
	return s
}

// WriteReports writes s and the tables of t to the directory dir: summary.json, hosts.csv, status.csv, mime.csv,
// errors.csv and seeds.csv. Each file is replaced atomically. The error names the file.
func (t *Tally) WriteReports(fs disk.FS, dir string, s Summary) error {
	if err := fs.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("reports %s: %w", dir, err)
	}
	js, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("reports %s: %w", dir, err)
	}
	files := []struct {
		name string
		rows func(row)
	}{
		{"hosts.csv", t.hostRows},
		{"status.csv", t.statusRows},
		{"mime.csv", t.mimeRows},
		{"errors.csv", t.errorRows},
		{"seeds.csv", t.seedRows},
	}
	for _, f := range files {
		if err := WriteTable(fs, filepath.Join(dir, f.name), f.rows); err != nil {
			return err // it names the file already
		}
	}
	name := filepath.Join(dir, "summary.json")
	if err := disk.WriteFile(fs, name, append(js, '\n')); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// A row adds a line with these cells to a table.
type row = func(cells ...string)

// WriteTable atomically replaces the file name by a CSV table. The function rows calls row once for each line. The
// table is never whole in memory, so it may have millions of lines.
func WriteTable(fs disk.FS, name string, rows func(row func(cells ...string))) error {
	err := disk.WriteStream(fs, name, func(f io.Writer) error {
		w := csv.NewWriter(f)
		rows(func(cells ...string) { w.Write(cells) }) // w returns its first error from Flush
		w.Flush()
		return w.Error()
	})
	if err != nil {
		return fmt.Errorf("report: %w", err) // it names the file already
	}
	return nil
}

func num(n int64) string { return strconv.FormatInt(n, 10) }

func (t *Tally) hostRows(row row) {
	row("host", "pages", "files", "urls", "bytes", "errors", "robots_denied", "duplicates", "robots_txt")
	for _, i := range t.hosts.descending(func(h *hostCount) int64 { return int64(h.urls) }) {
		h := &t.hosts.entry(i).v
		row(Cell(string(t.hosts.name(i))), num(int64(h.pages)), num(int64(h.files)), num(int64(h.urls)), num(h.size()),
			num(int64(h.errors)), num(int64(h.denied)), num(int64(h.duplicates)), num(int64(h.robots)))
	}
}

func (t *Tally) statusRows(row row) {
	row("status", "urls", "meaning")
	for _, k := range descending(t.status, func(n int64) int64 { return n }) {
		row(strconv.Itoa(k), num(t.status[k]), CodeText(k))
	}
}

func (t *Tally) errorRows(row row) {
	row("error", "urls", "first_cause")
	for _, k := range descending(t.errors, func(n int64) int64 { return n }) {
		row(Cell(k), num(t.errors[k]), TextCell(t.causes[k]))
	}
}

func (t *Tally) mimeRows(row row) {
	row("mime", "urls", "pages", "bytes")
	for _, k := range descending(t.mimes, func(c *count) int64 { return c.urls }) {
		countRow(row, k, t.mimes[k])
	}
}

func (t *Tally) seedRows(row row) {
	row("seed", "urls", "pages", "bytes")
	for _, i := range t.seeds.descending(func(c *count) int64 { return c.urls }) {
		countRow(row, string(t.seeds.name(i)), &t.seeds.entry(i).v)
	}
}

func countRow(row row, name string, c *count) {
	row(Cell(name), num(c.urls), num(c.pages), num(c.bytes))
}

// Cell returns s as a cell that a spreadsheet does not take for a formula.
func Cell(s string) string { return noFormula(Clean(s)) }

// TextCell is Cell for a text of several words.
func TextCell(s string) string { return noFormula(CleanText(s)) }

func noFormula(s string) string {
	if s != "" && strings.ContainsRune("=+-@", rune(s[0])) {
		return "'" + s
	}
	return s
}

// Span formats a duration for people: 1d 2h, 3h 4m, 5m 6s, 12s, 0.8s.
func Span(d time.Duration) string {
	s := int64(d / time.Second)
	switch {
	case d < 0:
		return "0s"
	case d < 10*time.Second:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + "s"
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 3600:
		return fmt.Sprintf("%dm %ds", s/60, s%60)
	case s < 86400:
		return fmt.Sprintf("%dh %dm", s/3600, s/60%60)
	}
	return fmt.Sprintf("%dd %dh", s/86400, s/3600%24)
}
