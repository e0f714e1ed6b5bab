package ledger

import (
	"errors"
	"fmt"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/crawl/run"
	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/journal"
	"github.com/orbweaver/orbweaver/internal/store/keyset"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// Config tunes a Ledger.
type Config struct {
	Clock clock.Clock
	// CommitEvery bounds how long a record is only in memory. SyncEvery bounds how long a power failure can undo it.
	CommitEvery, SyncEvery time.Duration
	// SnapshotBytes is the least growth of the journal between two checkpoints.
	SnapshotBytes int64
	// Planned tells that finishes may have the state of a Planner, see Past.Planned.
	Planned bool
}

// Parts are what a Ledger works with. The caller owns them.
type Parts struct {
	Run     *run.Run
	Crawl   Crawl
	Journal *journal.Journal
	Seen    *keyset.Store
	Tally   *report.Tally // counts accepts, and outgoing links that have ended
	Events  *report.Events
	Logs    []Log
	// Participants save their records in this order, on the goroutine of the Ledger's owner. A checkpoint saves those
	// of Beside on a goroutine of its own, so their Save must be safe for concurrent use.
	Participants, Beside []Participant
	// Syncers are told of syncs in this order, after the participants that are Syncers.
	Syncers []Syncer
}

// A Crawl is the crawl loop, as its Ledger sees it. The Ledger calls it on its owner's goroutine.
type Crawl interface {
	// Span returns the record of the time of the runs.
	Span(now time.Time) []byte
	// Lost is told that the seen-set has lost links that it held back.
	Lost(links int)
	// Unsaved reports that participants have something to save that no record of this run has.
	Unsaved() bool
}

// A Cluster is the Participant for the cluster, of which this agent is a part. There is at most one.
type Cluster interface {
	Participant
	// Keys returns the keys of the seen-set.
	Keys() Keys
	// Prepare adds the records that a sync must cover.
	Prepare()
	// Committed is told that all records so far are written.
	Committed()
	// Pending takes a pending link of an earlier run: outgoing says that another agent crawled it. mine reports that
	// this agent is to visit it, and again that it stands for a page that is lost: the URL must be fetched again.
	Pending(number uint64, l link.Link, enc []byte, outgoing bool) (mine, again bool, err error)
	// Recovered is told that Recover has read the journal.
	Recovered()
	// Lost is told that the seen-set may have lost some of its keys.
	Lost()
}

// ErrAlone reports a link that another agent crawls, in the journal of a crawl without other agents.
var ErrAlone = errors.New("this crawl has no other agents")

// A Log buffers lines of a log.
type Log interface{ Flush() error }

// A Syncer is told that a sync of the journal begins. The ledger calls durable when all records so far are durable.
type Syncer interface{ Syncing() (durable func()) }

// A Participant keeps records of its own in the journal. A checkpoint writes them anew. It may also be a Finisher, a
// Sealer, a Syncer, or the Cluster.
type Participant interface {
	// Kinds returns the kinds of its records. No other Participant has them.
	Kinds() []Kind
	// Save writes the records into a checkpoint that begins now. put copies p.
	Save(put func(kind byte, p []byte) error, now time.Time) error
	// Load reads a record after a restart. p is valid until Load returns.
	Load(kind byte, p []byte) error
}

// A Finisher is a Participant that is told of each finish: of this run's, and after a restart of those before that
// count. Both have the same effect, except where before says so.
type Finisher interface {
	Finished(f *state.Finish, before bool)
}

// A Kind is a kind of records.
type Kind struct {
	Kind byte
	Name string // for people
	// Ordered tells that Load must come after those finishes before the record that count.
	Ordered bool
	// NamesLinks tells that the batch of an Ordered record has links. If they may be lost, the record does not count.
	NamesLinks bool
}

// A Ledger makes a crawl durable: it collects the records of a visit in a batch, appends batches to the journal, writes
// and syncs the journal when that is due, and replaces it by a checkpoint when it has grown. One goroutine owns it.
//
// After the run has failed, no method begins to write. Then some return the failure, and others nil.
type Ledger struct {
	cfg     Config
	fs      disk.FS // of the journal
	dir     string  // likewise
	journal *journal.Journal
	seen    *keyset.Store
	tally   *report.Tally
	events  *report.Events
	logs    []Log // written before the journal; see also journal.References
	run     *run.Run
	crawl   Crawl
	cluster Cluster
	syncers []Syncer
	small   []Participant // in the order of a snapshot; the dispatcher owns what they save
	beside  []Participant // their records are saved beside the dispatcher
	told    []Finisher    // those of all participants that are finishers, in their order
	sealers []Sealer      // likewise
	of      [256]owned    // by kind of records

	id         keyset.Crawl
	accepted   uint64 // the number of the last accept
	batch      Batch
	dirty      bool // the journal has records that are not synced
	answers    bool // an answer to another agent waits for the next sync
	urgent     bool // a server in the journal's batch demands fewer requests
	committed  time.Time
	synced     time.Time
	syncing    *syncing    // nil: none is in progress
	checkpoint *checkpoint // nil: none is in progress
	snapSize   int64
	holding    holding
	reading    bool   // something reads the journal's files: no checkpoint may replace them
	rec        []byte // reused memory for an encoded record
}

// owned tells which participant has a kind of records. The zero owned stands for a kind of the ledger's own.
type owned struct {
	by Participant
	Kind
}

// New returns a Ledger of the parts. It does not touch the disk.
func New(cfg Config, parts Parts) *Ledger {
	l := &Ledger{cfg: cfg, journal: parts.Journal, seen: parts.Seen, tally: parts.Tally, events: parts.Events,
		logs: parts.Logs, run: parts.Run, crawl: parts.Crawl, syncers: parts.Syncers, beside: parts.Beside}
	for _, p := range parts.Participants {
		l.Join(p)
	}
	for _, p := range l.beside {
		l.listen(p)
	}
	return l
}

// Join adds a Participant after those of Parts. It comes before Recover.
func (l *Ledger) Join(p Participant) {
	l.small = append(l.small, p)
	l.listen(p)
}

// listen notes what p is to be told.
func (l *Ledger) listen(p Participant) {
	if f, ok := p.(Finisher); ok {
		l.told = append(l.told, f)
	}
	if s, ok := p.(Sealer); ok {
		l.sealers, l.batch.lists = append(l.sealers, s), true
	}
	if s, ok := p.(Syncer); ok {
		l.syncers = append([]Syncer{s}, l.syncers...)
	}
	if c, ok := p.(Cluster); ok {
		l.cluster = c
	}
	for _, k := range p.Kinds() {
		if l.of[k.Kind].by != nil || table.Resumes(k.Kind) && k.Kind != state.Again {
			panic(fmt.Sprintf("record kind %q has two owners", k.Kind))
		}
		l.of[k.Kind] = owned{p, k}
	}
}

// Keys returns the keys of the seen-set.
func (l *Ledger) Keys() Keys {
	if l.cluster == nil {
		return PlainKeys{}
	}
	return l.cluster.Keys()
}

// Begin begins a run, after Recover.
func (l *Ledger) Begin(now time.Time) { l.committed, l.synced = now, now }

// Accepted returns the number of the last accept.
func (l *Ledger) Accepted() uint64 { return l.accepted }

// Scratch returns where a temporary file may lie that is worthless after a restart.
func (l *Ledger) Scratch() (fs disk.FS, dir string) { return l.fs, l.dir }

// SyncSoon lets the next sync come soon, because an answer to another agent waits for it.
func (l *Ledger) SyncSoon() { l.answers = true }

// Hasten lets the present batch be written at the end of the turn, because a server in it demands fewer requests.
func (l *Ledger) Hasten() { l.urgent = true }

// ownOnly returns the handler of a file's records that leaves out those that only participants know. next gets all
// others.
func (l *Ledger) ownOnly(next func(kind byte, p []byte) error) func(kind byte, p []byte) error {
	return func(kind byte, p []byte) error {
		if l.of[kind].by != nil && table.Name(kind) == "" {
			return nil
		}
		return next(kind, p)
	}
}

// Keys tells which key of the seen-set a URL has, and a record of the journal.
type Keys interface {
	// Of returns the key of a URL with key k. foreign reports that another agent crawls it.
	Of(k link.Key, foreign bool) link.Key
	// Kind returns the kind of the accept of l, which the seen-set has found new under the key k: state.Accept for a
	// link of this agent, state.Outgoing for one of another agent, or state.Passed for a link of a host that was given
	// away after the link was found.
	Kind(k link.Key, l link.Link) byte
	// Accept returns the key of an accept with this kind, number and payload. ok is false if the
	// seen-set does not need it.
	Accept(kind byte, number uint64, p []byte) (k link.Key, ok bool, err error)
	// Finish returns the key that stands for the finish of the URL with key k. ok is false if there
	// is none.
	Finish(k link.Key) (done link.Key, ok bool)
	// Page appends the keys that stand for a page that this agent has, and that another one may have fetched, too.
	Page(dst []link.Key, l link.Link) []link.Key
	// Freeze returns Keys that do not change any more. They are safe for concurrent use.
	Freeze() Keys
}

// PlainKeys are the Keys of a single agent: each URL has its own key, and a finish has none.
type PlainKeys struct{}

func (PlainKeys) Of(k link.Key, _ bool) link.Key { return k }

func (PlainKeys) Kind(link.Key, link.Link) byte { return state.Accept }

func (PlainKeys) Accept(kind byte, _ uint64, p []byte) (link.Key, bool, error) {
	l, _, err := link.Peek(p)
	return l.Key(), err == nil && kind == state.Accept, err
}

func (PlainKeys) Finish(k link.Key) (link.Key, bool) { return k, false }

func (PlainKeys) Page(dst []link.Key, _ link.Link) []link.Key { return dst }

func (p PlainKeys) Freeze() Keys { return p }

// pageKeys appends the keys that stand for the page of f, which is not the finish of a robots.txt.
func pageKeys(dst []link.Key, keys Keys, f *state.Finish) []link.Key {
	if f.Imported() || f.IsPage() && !f.Exported() {
		dst = keys.Page(dst, f.Link)
	}
	return dst
}

// doneKey returns the key that stands for the finish of the URL of f, which is not that of a robots.txt. ok is false if
// there is none.
func doneKey(keys Keys, f *state.Finish) (k link.Key, ok bool) {
	if f.Imported() {
		return k, false
	}
	return keys.Finish(f.Link.Key())
}

// finishKeys appends the keys that stand for f, which is not the finish of a robots.txt.
func finishKeys(dst []link.Key, keys Keys, f *state.Finish) []link.Key {
	dst = pageKeys(dst, keys, f)
	if k, ok := doneKey(keys, f); ok {
		dst = append(dst, k)
	}
	return dst
}
