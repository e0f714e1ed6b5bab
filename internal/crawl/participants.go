package crawl

import (
	"encoding/binary"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/ledger"
	"github.com/orbweaver/orbweaver/internal/crawl/retry"
	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/robots"
	"github.com/orbweaver/orbweaver/internal/web/scope"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// newLedger returns the ledger of a Crawler that has its parts.
func newLedger(c *Crawler, p *Parts, widened *widened, planned bool) *ledger.Ledger {
	syncers := []ledger.Syncer{p.Delivery}
	if p.Near != nil {
		syncers = []ledger.Syncer{p.Near, p.Delivery}
	}
	spans := spans{p.Tally, &c.progress, &c.past}
	participants := []ledger.Participant{spans, widened, &tallyCounts{tally: p.Tally, skips: &c.skips},
		&c.failures, queryCounts{p.Queries}, c.gate, c.Applications, hostStates{&c.origins, &c.past}}
	return ledger.New(ledger.Config{Clock: c.cfg.Clock, CommitEvery: c.cfg.CommitEvery, SyncEvery: c.cfg.SyncEvery,
		SnapshotBytes: c.cfg.SnapshotBytes, Planned: planned},
		ledger.Parts{Run: c.run, Crawl: &ledgerCrawl{spans, &c.skips, c.visits},
			Journal: p.Journal, Seen: p.Seen, Tally: p.Tally, Events: p.Events,
			Logs:    []ledger.Log{p.Events, p.Log, p.Skipped, p.LinkLog},
			Syncers: syncers, Participants: participants,
			Beside: []ledger.Participant{archiveDigests{p.Archive}, robotsEntries{p.Robots}}})
}

// reasonLost is the reason for a link that was held back in a file which is damaged or gone.
const reasonLost = "seenLost"

// ledgerCrawl is a crawl, as its ledger sees it.
type ledgerCrawl struct {
	spans  spans
	skips  *skips
	visits *visit.Pool
}

func (l *ledgerCrawl) Unsaved() bool { return len(l.skips.counted) > 0 }

func (l *ledgerCrawl) Span(now time.Time) []byte {
	return l.spans.record(now)
}

// Lost implements ledger.Crawl. The links are accepted again when a page names them.
func (l *ledgerCrawl) Lost(links int) {
	for range links {
		l.skips.count(reasonLost)
	}
	l.visits.Links.ForgetKnown()
}

// spans are the times of the runs.
type spans struct {
	tally    *report.Tally
	progress *progress
	past     *pastClock
}

func (spans) Kinds() []ledger.Kind { return []ledger.Kind{{Kind: state.Span, Name: "span"}} }

func (s spans) Save(put func(kind byte, p []byte) error, now time.Time) error {
	return put(state.Span, s.record(now))
}

func (s spans) record(now time.Time) []byte {
	return state.AppendSpan(nil, s.tally.Started(), s.progress.elapsed(now), now)
}

func (s spans) Load(_ byte, p []byte) error {
	started, took, written, err := state.DecodeSpan(p)
	if err != nil {
		return err
	}
	if !written.IsZero() {
		s.past.saw(written)
	}
	if !started.IsZero() {
		s.tally.Start(started)
	}
	s.progress.took = took
	return nil
}

// widened are the targets of seeds' redirects, which widen the scope.
type widened struct {
	scope *scope.Scope
	by    []weburl.URL
}

// add adds the target of a seed's redirects to the seeds of the scope.
func (w *widened) add(u weburl.URL) {
	w.scope.AddSeed(u)
	w.by = append(w.by, u)
}

func (w *widened) Kinds() []ledger.Kind { return []ledger.Kind{{Kind: state.Seed, Name: "seed"}} }

func (w *widened) Save(put func(kind byte, p []byte) error, _ time.Time) error {
	for _, u := range w.by {
		if err := put(state.Seed, []byte(u.String())); err != nil {
			return err
		}
	}
	return nil
}

func (w *widened) Load(_ byte, p []byte) error {
	u, err := weburl.Parse(string(p))
	if err == nil {
		w.add(u)
	}
	return err
}

// tallyPiece bounds the size of a tally record in bytes. A crawl of many hosts has a large
// tally, and a record is in memory several times while it is written or read.
var tallyPiece = 256 << 10

// tallyCounts are the counts of the crawl, with those of URLs that it skipped.
type tallyCounts struct {
	tally  *report.Tally
	skips  *skips
	pieces state.Pieces // read so far
}

func (t *tallyCounts) Kinds() []ledger.Kind { return []ledger.Kind{{Kind: state.Tally, Name: "tally"}} }

// Save writes the counts in pieces, as state.PutPieces does. The counts of a million hosts are
// large, and encoding them as a whole would take much memory.
func (t *tallyCounts) Save(put func(kind byte, p []byte) error, _ time.Time) error {
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

func (t *tallyCounts) Load(_ byte, p []byte) error {
	whole, err := t.pieces.Add(p)
	if err != nil || whole == nil {
		return err
	}
	return t.tally.Decode(whole)
}

func (t *tallyCounts) Finished(f *state.Finish, before bool) {
	t.tally.Add(visitOf(f))
	t.tally.Found(int64(f.Found))
	t.tally.Retried(int64(f.Tries))
	if !before {
		return // the skips were counted when they were added
	}
	for _, s := range f.Skips {
		for range s.N {
			t.tally.Skipped(s.Reason)
		}
	}
}

// queryCounts are the counts of queries of each path; nil: there is no bound on them.
type queryCounts struct{ of *scope.Queries }

func (q queryCounts) Kinds() []ledger.Kind {
	return []ledger.Kind{{Kind: state.Queries, Name: "queries"}}
}

func (q queryCounts) Save(put func(kind byte, p []byte) error, _ time.Time) error {
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

func (q queryCounts) Load(_ byte, p []byte) error {
	if len(p)%12 != 0 {
		return state.ErrRecord
	}
	for ; len(p) > 0 && q.of != nil; p = p[12:] {
		q.of.Restore(binary.BigEndian.Uint64(p), binary.BigEndian.Uint32(p[8:]))
	}
	return nil
}

// archiveDigests are the payloads that the archive recognizes.
type archiveDigests struct{ of *warc.Writer }

func (a archiveDigests) Kinds() []ledger.Kind {
	return []ledger.Kind{{Kind: state.Digest, Name: "digest"}}
}

// Save writes the digests. A payload that was remembered after the checkpoint began may not be synced yet. But a
// payload that the snapshot recognizes must exist after a crash.
func (a archiveDigests) Save(put func(kind byte, p []byte) error, _ time.Time) error {
	var buf []byte
	if err := a.of.EachRemembered(func(digest [20]byte, o warc.Original) error {
		buf = state.AppendOriginal(buf[:0], digest, o)
		return put(state.Digest, buf)
	}); err != nil {
		return err
	}
	return a.of.Sync()
}

// Finished remembers the payload of a finish of an earlier run. The archive remembers those of this run itself.
func (a archiveDigests) Finished(f *state.Finish, before bool) {
	if !before || f.File == "" || f.Code <= 0 || f.Flags&(state.FlagDuplicate|state.FlagTruncated) != 0 {
		return
	}
	o := warc.Original{URL: f.Link.URL.String(), Date: f.Began}
	if f.Body != f.Digest {
		o.Stored = f.Digest
	}
	a.of.RememberRecord(f.Body, o)
}

func (a archiveDigests) Load(_ byte, p []byte) error {
	digest, o, err := state.DecodeOriginal(p)
	if err == nil {
		a.of.RememberRecord(digest, o)
	}
	return err
}

// hostStates are the states of hosts: delays, pauses and failing origins.
type hostStates struct {
	origins *retry.Origins
	past    *pastClock
}

func (hostStates) Kinds() []ledger.Kind { return []ledger.Kind{{Kind: state.Host, Name: "host"}} }

func (s hostStates) Save(put func(kind byte, p []byte) error, now time.Time) error {
	var buf []byte
	return s.origins.EachHost(now, func(st frontier.HostState) error {
		buf = st.AppendTo(buf[:0])
		return put(state.Host, buf)
	})
}

func (s hostStates) Load(_ byte, p []byte) error {
	st, err := frontier.DecodeHostState(p)
	if err != nil {
		return err
	}
	s.past.hosts = append(s.past.hosts, st)
	s.past.touch(st.Host, st.Delay)
	return nil
}

// robotsEntries are the robots.txt files that the cache has.
type robotsEntries struct{ of *robots.Cache }

// Kinds implements ledger.Participant. If links of the sitemaps in a robots.txt may be lost, it is fetched again.
func (robotsEntries) Kinds() []ledger.Kind {
	return []ledger.Kind{{Kind: state.Robots, Name: "robots", Ordered: true, NamesLinks: true}}
}

func (r robotsEntries) Save(put func(kind byte, p []byte) error, _ time.Time) error {
	var buf []byte
	return r.of.Each(func(e robots.Entry) error {
		buf = e.AppendTo(buf[:0])
		return put(state.Robots, buf)
	})
}

func (r robotsEntries) Load(_ byte, p []byte) error {
	e, err := robots.DecodeEntry(p)
	if err == nil {
		r.of.Restore(e)
	}
	return err
}
