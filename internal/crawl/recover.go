package crawl

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/journal"
	"github.com/orbweaver/orbweaver/internal/store/keyset"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/robots"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// Recovered has the counts that Recover found.
type Recovered struct {
	// Pending includes the links of blocked hosts.
	Accepted, Finished, Pending int64
	// Repeated counts the finishes whose WARC record, line in crawl.log, or held-back links a power
	// failure has destroyed. Their URLs are pending again.
	Repeated int64
	// Lost is the number of held-back links that may be lost, and whose pages are not known.
	Lost int64
}

// A resume rebuilds a crawl from its journal. It reads each file once: the snapshot, the parts of keys,
// the segments, and the parts of pending links. The accepts in the segments wait in the History until
// all finishes are known. A finish that a power failure may have undone waits in the doubt.
type resume struct {
	*state.History
	c      *Crawler
	now    time.Time
	result Recovered
	begun  bool // the first record was read
	doubt  doubt
	states lastStates
	lists  *state.Spool // key lists that the seen-set may lack

	past   pastClock
	delays map[string]time.Duration // of hosts
	tally  state.Pieces

	keys    []link.Key // of accepts and finishes, for the seen-set
	batch   []link.Link
	numbers []uint64

	undone    map[link.Stored]struct{} // pages for other agents whose finishes do not count
	withdrawn []uint64                 // the numbers of such pages
}

// Recover rebuilds seen-set, frontier, robots cache and counts from the journal in dir. Call it
// before Seed and Run. intact reports whether a WARC file still has all bytes up to end, because a
// power failure can destroy records of finished URLs.
func (c *Crawler) Recover(fs disk.FS, dir string, intact func(file string, end int64) bool,
	now time.Time) (Recovered, error) {
	c.ledger.fs, c.ledger.dir = fs, dir
	c.Journal.EndWith(c.ledger.mark)
	tail, err := c.Log.Tail()
	if err != nil {
		return Recovered{}, err
	}
	links, err := c.LinkLog.Tail()
	if err != nil {
		return Recovered{}, err
	}
	pages, err := c.pageTails()
	if err != nil {
		return Recovered{}, err
	}
	r := &resume{
		History: state.NewHistory(spoolOf(fs, dir, 0)), lists: spoolOf(fs, dir, 1),
		c: c, now: now, states: c.states(),
		delays: map[string]time.Duration{},
		doubt: doubt{verdict: verdict{intact: intact}, missing: c.Seen.Missing, tail: tail, links: links, pages: pages,
			sure: c.Journal.Sure()},
	}
	err = r.read()
	if err = errors.Join(err, r.Later.Close(), r.lists.Close()); err != nil {
		return r.result, err
	}
	r.restore()
	if len(r.withdrawn) > 0 {
		newLoop(c).EndOutgoing(r.withdrawn, true)
	}
	if r.result.Repeated > 0 || r.result.Lost > 0 || r.doubt.doubtful() {
		// A power failure has destroyed what these finishes refer to. But the next recovery could
		// take them for valid: their WARC file may grow past their ends or be deleted, and so may
		// the files of the seen-set. So a checkpoint removes these finishes from the journal now.
		c.ledger.holding.mute = true // no mark may confirm these finishes
		counts := r.doubt.verdict
		counts.n = 0
		if err := c.ledger.beginCheckpoint(counts); err != nil {
			return r.result, err
		}
		if err := c.ledger.endCheckpoint(true); err != nil {
			return r.result, err
		}
		c.ledger.holding.mute = false
	}
	c.cluster.Recovered()
	return r.result, nil
}

// spoolOf returns an empty Spool in the journal's directory. One reading of the journal at a time uses it. A
// file that a killed process has left there is overwritten or does no harm.
func spoolOf(fs disk.FS, dir string, n int) *state.Spool {
	return state.NewSpool(fs, filepath.Join(dir, fmt.Sprintf("spool-%d.tmp", n)))
}

// read reads the journal.
func (r *resume) read() error {
	c := r.c
	files, err := journal.List(c.ledger.fs, c.ledger.dir)
	if err != nil {
		return err
	}
	row := table.Resume(r)
	one := func(kind byte, p []byte) error {
		if !r.begun {
			return r.crawl(kind, p)
		}
		return row(kind, p)
	}
	if err := files.Snapshot(one); err != nil {
		return err
	}
	parts, err := state.PartsOf(files)
	if err != nil {
		return err
	}
	for _, p := range parts {
		if p.Label[0] == state.Keys && !r.hasKeys(p) {
			if err := files.Part(p, one); err != nil {
				return err
			}
		}
	}
	if err := files.Segments(func(last bool, kind byte, p []byte) error {
		r.doubt.next(last)
		return one(kind, p)
	}); err != nil {
		return err
	}
	r.result.Lost = r.doubt.decide()
	c.ledger.holding.open = r.doubt.open
	if err := errors.Join(r.doubt.release(r.settle), r.restoreKeys()); err != nil {
		return err
	}
	if !r.begun {
		c.ledger.id = newID()
		c.ledger.batch.add(state.Crawl, state.AppendCrawl(nil, c.ledger.id))
		c.append()
		if err := c.bindSeen(); err != nil {
			return err
		}
	}
	if err := c.checkSeen(); err != nil {
		return err
	}
	if f, ok := c.planner.(visit.Forgetter); ok {
		for host, d := range c.drops.of {
			f.Forget(host, d.at)
		}
	}
	for _, p := range parts {
		if err := r.EachIn(files, p, r.pending); err != nil {
			return err
		}
	}
	if err := r.EachLater(r.pending, r.later); err != nil {
		return err
	}
	if err := r.push(); err != nil {
		return err
	}
	return c.restoreLists(r.lists)
}

// restore ends the work after the journal was read: hosts rest, and the result is counted.
func (r *resume) restore() {
	c := r.c
	r.past.restore(c.Frontier, r.now)
	for i := range r.past.hosts {
		st := &r.past.hosts[i]
		c.origins.forgetHost(st.Host) // the last state counts
		c.origins.restore(c, st, r.now)
	}
	if c.ledger.accepted > 0 {
		c.Frontier.Hush(r.now)
	}
	for host, d := range r.delays {
		c.Frontier.Touched(host, d, r.now)
	}
	sum := c.Tally.Summary(0, "")
	n := &r.result
	n.Accepted, n.Finished, n.Pending = sum.Unique, sum.Finished, c.Pending()
	if n.Pending > 0 || c.remembered > 0 {
		c.nextSlot = r.now.Add(c.cfg.ResumeWait)
	}
	if n.Lost > 0 {
		c.Events.Write("seen-lost", report.F("links", n.Lost))
		for range n.Lost {
			c.Tally.Skipped(reasonLost)
		}
	}
}

// touch starts the quiet time of a host. Hush covers the hosts that have no delay of their own.
func (r *resume) touch(host string, d time.Duration) {
	if d > 0 {
		r.delays[host] = max(r.delays[host], d)
	}
}

// hasKeys reports that the seen-set has the keys of a part on disk.
func (r *resume) hasKeys(p journal.Part) bool {
	_, _, last, err := state.ParseLabel(p.Label)
	if _, ok := r.c.cluster.Keys().Finish(link.Key{}); ok { // finishes have keys in the seen-set, too
		last++
	}
	return err == nil && last <= r.c.Seen.Mark()
}

// crawl reads the first record.
func (r *resume) crawl(kind byte, p []byte) (err error) {
	r.begun = true
	if r.c.ledger.id, err = state.DecodeCrawl(kind, p); err != nil {
		return err
	}
	return r.c.bindSeen()
}

func (r *resume) number(kind byte, p []byte) error {
	err := r.Number(kind, p)
	r.c.ledger.accepted, r.doubt.begun = r.Last, true
	return err
}

func (r *resume) accept(kind byte, p []byte) error {
	c := r.c
	l, _, err := link.Peek(p)
	if err != nil {
		return err
	}
	c.Tally.Accepted(1)
	if kind == state.Accept {
		if l.Hops == "" {
			c.Tally.Found(1)
		}
		if c.Queries != nil && !visit.IsRefetch(l) {
			c.Queries.AdmitFor(l.App(), l.URL)
		}
	}
	if err := r.Accept(kind, p); err != nil {
		return err
	}
	if c.ledger.accepted = r.Last; c.ledger.accepted <= c.Seen.Mark() {
		return nil
	}
	k, ok, err := c.cluster.Keys().Accept(kind, c.ledger.accepted, p)
	if err != nil || !ok {
		return err
	}
	return r.addKey(k)
}

func (r *resume) sent(_ byte, p []byte) error {
	n, returned, err := r.CountEnded(p)
	if err == nil {
		r.c.countSent(n, returned)
	}
	return err
}

// finish reads a finish. What it says of the host and of the time holds even if the finish does not count.
func (r *resume) finish(kind byte, p []byte) error {
	f, err := state.DecodeFinish(p)
	if err != nil {
		return err
	}
	if f.Number > r.Last {
		return state.ErrRecord
	}
	if !f.Began.IsZero() && f.Began.Unix() > 0 {
		r.touch(f.Link.URL.Host(), f.Delay)
		r.past.saw(f.Began.Add(f.Took))
	}
	waits := r.doubt.finish(&f)
	if err := r.doubt.release(r.settle); err != nil {
		return err
	}
	if waits {
		r.doubt.hold(kind, p)
		return nil
	}
	return r.finished(&f, r.doubt.lost(r.doubt.n, &f))
}

// finished counts a finish, or notes that it does not count.
func (r *resume) finished(f *state.Finish, lost bool) error {
	c := r.c
	if lost {
		if !f.IsRobots() {
			r.result.Repeated++
		}
		if at, ok := f.Link.Stored(); ok { // its URL is fetched again, so no other agent need have this page
			if r.undone == nil {
				r.undone = map[link.Stored]struct{}{}
			}
			at.File = strings.Clone(at.File)
			r.undone[at] = struct{}{}
		}
		return nil
	}
	c.count(f)
	if !f.IsRobots() {
		if err := r.Finish(f.Number); err != nil {
			return err
		}
		if c.ledger.accepted >= c.Seen.Mark() {
			for _, k := range finishKeys(nil, c.cluster.Keys(), f) {
				if err := r.addKey(k); err != nil {
					return err
				}
			}
		}
	}
	if len(f.State) == 0 {
		return nil
	}
	c.planned = true
	return r.states.add(r.Later, f)
}

// ordered reads a record whose effect depends on the finishes before it.
func (r *resume) ordered(kind byte, p []byte) error {
	if r.doubt.doubtful() {
		r.doubt.hold(kind, p)
		return nil
	}
	return r.settle(r.doubt.n, kind, p)
}

// settle processes an ordered record. nth is the number of the last finish before it.
func (r *resume) settle(nth uint64, kind byte, p []byte) error {
	switch kind {
	case state.Again:
		l, err := r.c.tookBack(p)
		if err != nil {
			return err
		}
		return r.states.addAgain(r.Later, l)
	case state.Told:
		r.c.planned = true
		return r.states.addTold(r.Later, p)
	case state.Robots:
		if nth > r.doubt.safe() { // the links of its sitemaps may be lost: fetch it again
			return nil
		}
		e, err := robots.DecodeEntry(p)
		if err == nil {
			r.c.Robots.Restore(e)
		}
		return err
	}
	f, err := state.DecodeFinish(p)
	if err != nil {
		return err
	}
	return r.finished(&f, r.doubt.lost(nth, &f))
}

// mark reads a mark about held-back links.
func (r *resume) mark(_ byte, p []byte) error {
	if err := r.doubt.mark(p); err != nil {
		return err
	}
	return r.doubt.release(r.settle)
}

func (r *resume) drop(_ byte, p []byte) error {
	host, d, err := decodeDrop(p)
	if err == nil {
		r.c.noteDrop(host, d)
	}
	return err
}

func (r *resume) load(kind byte, p []byte) error { return r.c.cluster.Load(kind, p) }

func (r *resume) host(_ byte, p []byte) error {
	st, err := frontier.DecodeHostState(p)
	if err != nil {
		return err
	}
	r.past.hosts = append(r.past.hosts, st)
	r.touch(st.Host, st.Delay)
	return nil
}

func (r *resume) key(_ byte, p []byte) (err error) {
	if r.keys, err = state.DecodeKeys(r.keys, p); err != nil {
		return err
	}
	return r.restoreKeys()
}

// addKey adds a key to the seen-set, which does not have it on disk.
func (r *resume) addKey(k link.Key) error {
	if r.keys = append(r.keys, k); len(r.keys) < state.KeysPiece {
		return nil
	}
	return r.restoreKeys()
}

func (r *resume) restoreKeys() error {
	err := r.c.restoreSeen(r.keys)
	r.keys = r.keys[:0]
	return err
}

func (r *resume) list(kind byte, p []byte) error {
	if r.c.ledger.accepted < r.c.Seen.Mark() {
		return nil
	}
	return r.lists.Add(kind, 0, p)
}

func (r *resume) counts(_ byte, p []byte) error {
	whole, err := r.tally.Add(p)
	if err != nil || whole == nil {
		return err
	}
	return r.c.Tally.Decode(whole)
}

func (r *resume) span(_ byte, p []byte) error {
	started, took, written, err := state.DecodeSpan(p)
	if err != nil {
		return err
	}
	if !written.IsZero() {
		r.past.saw(written)
	}
	if !started.IsZero() {
		r.c.Tally.Start(started)
	}
	r.c.earlier = took
	return nil
}

func (r *resume) queries(_ byte, p []byte) error {
	if len(p)%12 != 0 {
		return state.ErrRecord
	}
	for ; len(p) > 0 && r.c.Queries != nil; p = p[12:] {
		r.c.Queries.Restore(binary.BigEndian.Uint64(p), binary.BigEndian.Uint32(p[8:]))
	}
	return nil
}

func (r *resume) digest(_ byte, p []byte) error {
	digest, o, err := state.DecodeOriginal(p)
	if err == nil {
		r.c.Archive.RememberRecord(digest, o)
	}
	return err
}

func (r *resume) failed(_ byte, p []byte) error {
	r.c.failures.again = append(r.c.failures.again, slices.Clone(p))
	return nil
}

func (r *resume) seed(_ byte, p []byte) error {
	u, err := weburl.Parse(string(p))
	if err == nil {
		r.c.widen(u)
	}
	return err
}

func (r *resume) visited(kind byte, p []byte) error {
	r.c.planned = true
	if r.states == nil {
		return nil
	}
	return r.Later.Add(kind, 0, p)
}

// later gives the Planner its states back.
func (r *resume) later(kind byte, number uint64, p []byte) error {
	l, s, err := r.states.last(kind, number, p)
	if err != nil || s == nil {
		return err
	}
	return r.c.restoreState(l, s, r.now, r.touch)
}

// pending queues a link that is not finished. The last run may have ended during a request to
// the host, without a record. So Hush makes every host with pending links wait.
func (r *resume) pending(kind byte, number uint64, enc []byte) error {
	c := r.c
	l, _, err := link.Decode(enc)
	if err != nil {
		return err
	}
	at, page := l.Stored()
	if _, undone := r.undone[at]; undone && page {
		r.withdrawn = append(r.withdrawn, number)
		return nil
	}
	if !page && c.dropped(l.URL.Host(), number) {
		c.apps.accepted(&l)
		return c.Frontier.PushWithdrawn([]frontier.Waiting{{Link: l, Number: number}})
	}
	if kind == state.PendingOut {
		again, err := c.cluster.Requeue(number, enc)
		if err != nil || !again {
			return err
		}
		l = l.AsLink()
		r.result.Repeated++
	} else if away, err := c.cluster.Away(l, number); away || err != nil {
		return err
	}
	c.apps.accepted(&l)
	r.batch, r.numbers = append(r.batch, l), append(r.numbers, number)
	if len(r.batch) == 1024 {
		return r.push()
	}
	return nil
}

func (r *resume) push() error {
	err := r.c.Frontier.PushAt(r.batch, r.numbers)
	r.batch, r.numbers = r.batch[:0], r.numbers[:0]
	return err
}

func newID() (id keyset.Crawl) {
	rand.Read(id[:])
	return id
}

// count counts a finish of an earlier run.
func (c *Crawler) count(f *state.Finish) {
	c.Tally.Add(visitOf(f))
	c.noteFailed(f)
	c.apps.finishedBefore(f)
	c.Tally.Found(int64(f.Found))
	c.Tally.Retried(int64(f.Tries))
	for _, s := range f.Skips {
		for range s.N {
			c.Tally.Skipped(s.Reason)
		}
	}
	if f.File != "" && f.Code > 0 && f.Flags&(state.FlagDuplicate|state.FlagTruncated) == 0 {
		o := warc.Original{URL: f.Link.URL.String(), Date: f.Began}
		if f.Body != f.Digest {
			o.Stored = f.Digest
		}
		c.Archive.RememberRecord(f.Body, o)
	}
}
