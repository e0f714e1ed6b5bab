package crawl

import (
	"encoding/binary"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/journal"
	"github.com/orbweaver/orbweaver/internal/store/keyset"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/robots"
	"github.com/orbweaver/orbweaver/internal/web/scope"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A ledger makes the crawl durable: it collects the records of a visit in a batch, appends batches to the journal,
// writes and syncs the journal when that is due, and replaces it by a checkpoint when it has grown. The dispatcher owns
// it.
type ledger struct {
	cfg     *Config
	fs      disk.FS // of the journal
	dir     string  // likewise
	journal *journal.Journal
	seen    *keyset.Store
	archive *warc.Writer
	robots  *robots.Cache
	events  *report.Events
	logs    []flusher // written before the journal; see also journal.Config.Before
	loop    ledgerLoop
	cluster ledgerCluster
	parts   []syncer // are told of syncs
	small   []saver  // in the order of a snapshot

	id         keyset.Crawl
	accepted   uint64 // the number of the last accept
	batch      batch
	dirty      bool // the journal has records that are not synced
	urgent     bool // a server in the journal's batch demands fewer requests
	committed  time.Time
	synced     time.Time
	syncing    *syncing    // nil: none is in progress
	checkpoint *checkpoint // nil: none is in progress
	snapSize   int64
	holding    holding
	reading    bool // something reads the journal's files: no checkpoint may replace them
}

// A ledgerLoop is the crawl loop, as the ledger sees it.
type ledgerLoop interface {
	// tell lets the dispatcher call f. It reports whether the dispatcher did. Safe for concurrent use.
	tell(f func(now time.Time)) bool
	// span returns the record of the time of the runs.
	span(now time.Time) []byte
	// failure returns the error that ends the run.
	failure() error
	// tidy forgets what a checkpoint need not have.
	tidy()
}

// A ledgerCluster is the cluster, as the ledger sees it.
type ledgerCluster interface {
	Keys() Keys
	Prepare()
	Committed(now time.Time)
	WantsSync() bool
}

// A flusher buffers lines of a log.
type flusher interface{ Flush() error }

// A syncer is told that a sync of the journal begins. The ledger calls durable when all records so far are durable.
type syncer interface{ Syncing() (durable func()) }

// A saver writes its records into a checkpoint.
type saver interface {
	save(put func(kind byte, p []byte) error, now time.Time) error
}

// newLedger returns the ledger of a Crawler that has its parts.
func newLedger(c *Crawler) *ledger {
	l := &ledger{cfg: &c.cfg, journal: c.Journal, seen: c.Seen, archive: c.Archive, robots: c.Robots, events: c.Events,
		logs: []flusher{c.Log, c.Events, c.Skipped, c.LinkLog}, loop: c, cluster: c.cluster,
		parts: []syncer{c.cluster}}
	if c.Near != nil {
		l.parts = append(l.parts, c.Near)
	}
	l.parts = append(l.parts, c.Delivery)
	l.small = []saver{&c.widened, tallyCounts{c.Tally, &c.skips}, &c.failures, queryCounts{c.Queries}, &c.drops,
		&c.apps, clusterState{c.cluster}, hostStates{&c.origins, c.Frontier}}
	return l
}

// failure implements ledgerLoop.
func (c *Crawler) failure() error { return c.fatal }

// tidy implements ledgerLoop.
func (c *Crawler) tidy() { c.forgetDrops() }

// span implements ledgerLoop.
func (c *Crawler) span(now time.Time) []byte {
	return state.AppendSpan(nil, c.Tally.Started(), c.Elapsed(now), now)
}

// widened are the targets of seeds' redirects, which widen the scope.
type widened []weburl.URL

func (w *widened) save(put func(kind byte, p []byte) error, _ time.Time) error {
	for _, u := range *w {
		if err := put(state.Seed, []byte(u.String())); err != nil {
			return err
		}
	}
	return nil
}

// tallyCounts are the counts of the crawl, with those of URLs that it skipped.
type tallyCounts struct {
	tally *report.Tally
	skips *skips
}

// save writes the counts in pieces, as state.PutPieces does. The counts of a million hosts are
// large, and encoding them as a whole would take much memory.
func (t tallyCounts) save(put func(kind byte, p []byte) error, _ time.Time) error {
	var buf []byte
	if err := t.tally.EachPiece(tallyPiece, func(piece []byte, last bool) error {
		more := byte(1)
		if last {
			more = 0
		}
		buf = append(append(buf[:0], more), piece...)
		return put(state.Tally, buf)
	}); err != nil {
		return err
	}
	t.skips.counted = t.skips.counted[:0] // are counted with it
	return nil
}

func (n *failures) save(put func(kind byte, p []byte) error, _ time.Time) error {
	for _, enc := range n.again {
		if err := put(state.Failed, enc); err != nil {
			return err
		}
	}
	return nil
}

// queryCounts are the counts of queries of each path; nil: there is no bound on them.
type queryCounts struct{ of *scope.Queries }

func (q queryCounts) save(put func(kind byte, p []byte) error, _ time.Time) error {
	if q.of == nil {
		return nil
	}
	var buf []byte
	q.of.Each(func(path uint64, n uint32) error {
		buf = binary.BigEndian.AppendUint64(buf, path)
		buf = binary.BigEndian.AppendUint32(buf, n)
		return nil
	})
	return put(state.Queries, buf)
}

func (s *drops) save(put func(kind byte, p []byte) error, _ time.Time) error {
	for host, d := range s.of {
		if err := put(state.Drop, appendDrop(nil, host, d)); err != nil {
			return err
		}
	}
	return nil
}

// clusterState is the state of the cluster in a checkpoint.
type clusterState struct{ of Cluster }

func (s clusterState) save(put func(kind byte, p []byte) error, _ time.Time) error {
	return s.of.Save(put)
}

// hostStates are the states of hosts: delays, pauses and failing origins.
type hostStates struct {
	origins  *origins
	frontier *frontier.Frontier
}

func (s hostStates) save(put func(kind byte, p []byte) error, now time.Time) error {
	var buf []byte
	return s.origins.eachHost(s.frontier, now, func(st frontier.HostState) error {
		buf = st.AppendTo(buf[:0])
		return put(state.Host, buf)
	})
}
