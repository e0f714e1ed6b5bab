package ledger_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/ledger"
	"github.com/orbweaver/orbweaver/internal/crawl/run"
	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/journal"
	"github.com/orbweaver/orbweaver/internal/store/keyset"
	"github.com/orbweaver/orbweaver/internal/testkit/testclock"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

const urls = 120

func urlOf(n int) string { return fmt.Sprintf("http://h%d.example/%d", n%7, n) }

// linksOf returns the links of a page. From page 0 all pages can be reached.
func linksOf(n int) (to []int) {
	for i := 1; i <= 3; i++ {
		to = append(to, (n*3+i)%urls)
	}
	return to
}

// A loop is a crawl loop that only knows which URLs are pending and which are finished.
type loop struct {
	t        *testing.T
	ledger   *ledger.Ledger
	seen     *keyset.Store
	journal  *journal.Journal
	events   *report.Events
	now      time.Time
	run      *run.Run
	tally    *report.Tally
	pending  map[uint64]int // URLs by the numbers of their accepts
	finished map[int]bool
	lost     int
	unsealed []uint64          // the numbers of accepts, then of finishes, that no Seal has listed yet
	begun    bool              // Recover has returned
	syncs    int               // syncs that have begun
	refuses  error             // of Seal
	lists    string            // what the last Seals have seen of finishes with a state, and of hosts
	plans    map[string]string // the states of a Planner that a restart has found; nil: there is no Planner
}

func (c *loop) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// open continues a crawl after the last process has ended in some way.
func open(t *testing.T, fs disk.FS, memory int64, now time.Time) *loop {
	return recovered(t, fs, memory, now, nil)
}

// recovered is open with the function that knows which archive files are intact.
func recovered(t *testing.T, fs disk.FS, memory int64, now time.Time, intact func(string, int64) bool) *loop {
	return opened(&loop{t: t, now: now}, fs, memory, intact)
}

// planned is open for a crawl with a Planner.
func planned(t *testing.T, fs disk.FS) *loop {
	return opened(&loop{t: t, now: time.Unix(1e9, 0), plans: map[string]string{}}, fs, 1<<20, nil)
}

func opened(c *loop, fs disk.FS, memory int64, intact func(string, int64) bool) *loop {
	c.run, c.tally, c.pending, c.finished = run.New(), report.NewTally(), map[uint64]int{}, map[int]bool{}
	c.run.End() // no goroutine takes calls
	clock := testclock.Func(func() time.Time { return c.now })
	c.must(fs.MkdirAll("/journal", 0o755))
	var err error
	c.events, err = report.OpenEvents(fs, "/events.jsonl", clock)
	c.must(err)
	c.seen, err = keyset.Open(fs, "/seen", keyset.Config{MemoryBytes: memory}, c.accept)
	c.must(err)
	c.journal, err = journal.Open(fs, "/journal", journal.Config{References: seenFirst{c.seen}})
	c.must(err)
	c.ledger = ledger.New(ledger.Config{Clock: clock, CommitEvery: 100 * time.Millisecond, SyncEvery: time.Second,
		SnapshotBytes: 2000, Planned: c.plans != nil}, ledger.Parts{Run: c.run, Tally: c.tally, Crawl: c,
		Journal: c.journal, Seen: c.seen, Events: c.events, Participants: []ledger.Participant{c}})
	_, err = c.ledger.Recover(fs, "/journal", intact, ledger.Evidence{}, past{c})
	c.must(err)
	c.begun = true
	c.ledger.Begin(c.now)
	return c
}

// close ends the process. What it writes is not read any more.
func (c *loop) close() {
	_ = c.ledger.End(func() {}) // a broken disk may fail it
	_ = errors.Join(c.journal.Close(), c.seen.Close(), c.events.Close())
}

func (c *loop) accept(items []keyset.Item) error {
	if !c.begun { // the cluster counts what heirs must get only from then on
		c.t.Fatalf("%d URLs are accepted before Recover has returned", len(items))
	}
	for _, it := range items {
		number := c.ledger.Accept(state.Accept, it.Aux)
		c.pending[number], c.unsealed = c.number(it.Aux), append(c.unsealed, number)
		if err := c.ledger.AppendLarge(); err != nil {
			return err
		}
	}
	return nil
}

func (c *loop) number(enc []byte) (n int) {
	l, _, err := link.Decode(enc)
	c.must(err)
	var host int
	_, err = fmt.Sscanf(l.URL.String(), "http://h%d.example/%d", &host, &n)
	c.must(err)
	return n
}

func (c *loop) offer(to ...int) {
	var items []keyset.Item
	for _, n := range to {
		l := link.Link{URL: weburl.MustParse(urlOf(n)), Hops: "L"}
		items = append(items, keyset.Item{Key: l.Key(), Aux: l.AppendTo(nil)})
	}
	c.must(c.ledger.Offer(items))
}

// visit finishes a pending URL after its links were offered.
func (c *loop) visit(number uint64) {
	n := c.pending[number]
	c.offer(linksOf(n)...)
	c.ledger.Finish(&state.Finish{Link: link.Link{URL: weburl.MustParse(urlOf(n)), Hops: "L"}, Number: number,
		Code: 200, Began: c.now})
	delete(c.pending, number)
	c.unsealed = append(c.unsealed, number)
	c.must(c.ledger.Append())
}

// known returns the URLs that are pending or finished. It fails if one is both, or pending twice.
func (c *loop) known() map[int]bool {
	all := maps.Clone(c.finished)
	for number, n := range c.pending {
		if all[n] {
			c.t.Fatalf("URL %d with number %d is pending, and also finished or pending", n, number)
		}
		all[n] = true
	}
	return all
}

// check fails if a promise is broken: what was secured is there, and no link of a finished page is lost.
func (c *loop) check(finished, known map[int]bool) {
	c.t.Helper()
	c.must(c.ledger.Flush())
	now := c.known()
	for n := range known {
		if !now[n] {
			c.t.Fatalf("URL %d was secured and is lost", n)
		}
	}
	for n := range finished {
		if !c.finished[n] {
			c.t.Fatalf("the finish of URL %d was secured and is lost", n)
		}
	}
	for n := range c.finished {
		for _, to := range linksOf(n) {
			if !now[to] {
				c.t.Fatalf("URL %d is finished, and its link to %d is lost", n, to)
			}
		}
	}
}

// The loop is a Participant: it keeps which URLs are finished.
func (c *loop) Kinds() []ledger.Kind {
	return []ledger.Kind{{Kind: state.Queries, Name: "finished"}, {Kind: state.Span, Name: "span"}}
}

func (c *loop) Save(put func(kind byte, p []byte) error, _ time.Time) error {
	var b []byte
	for n := range c.finished {
		b = append(b, byte(n))
	}
	return put(state.Queries, b)
}

func (c *loop) Load(_ byte, p []byte) error {
	// The records of Span are empty.
	for _, n := range p {
		c.finished[int(n)] = true
	}
	return nil
}

func (c *loop) Finished(f *state.Finish, _ bool) {
	if c.plans != nil {
		return // URLs are visited again
	}
	n := c.number(f.Link.AppendTo(nil))
	if c.finished[n] {
		c.t.Fatalf("URL %d is finished twice", n)
	}
	c.finished[n] = true
}

// Seal implements ledger.Sealer. Each batch lists its accepts and finishes once, in their order.
func (c *loop) Seal(b *ledger.Batch) error {
	if c.refuses != nil {
		return c.refuses
	}
	seal := func(number uint64) {
		if c.plans != nil {
			return
		}
		if len(c.unsealed) == 0 || c.unsealed[0] != number {
			c.t.Fatalf("%d is sealed, and %d are to be", number, c.unsealed)
		}
		c.unsealed = c.unsealed[1:]
	}
	_ = b.EachAccept(func(kind byte, number uint64, enc []byte) error {
		if n, ok := c.pending[number]; ok && n != c.number(enc) {
			c.t.Fatalf("accept %d of URL %d is %c %q", number, n, kind, enc)
		}
		seal(number)
		return nil
	})
	b.EachFinish(func(f *state.Finish) {
		seal(f.Number)
		c.lists += " finish " + string(f.State)
	})
	for _, st := range b.Hosts() {
		c.lists += " host " + st.Host
	}
	c.lists = strings.TrimSpace(c.lists)
	return nil
}

// Syncing implements ledger.Syncer. A sync must not begin before what it covers is sealed.
func (c *loop) Syncing() (durable func()) {
	if len(c.unsealed) > 0 {
		c.t.Fatalf("a sync begins, and %d are not sealed", c.unsealed)
	}
	c.syncs++
	return func() {}
}

func (c *loop) Span(time.Time) []byte { return nil }
func (c *loop) Lost(links int)        { c.lost += links }
func (c *loop) Unsaved() bool         { return false }

// past takes what a restart finds.
type past struct{ *loop }

func (past) Accepted(byte, link.Link)         {}
func (past) Saw(*state.Finish)                {}
func (past) Read()                            {}
func (past) Queued() error                    { return nil }
func (past) Restored(*ledger.Recovered, bool) {}

func (p past) Planned(l link.Link, state []byte) error {
	if old, twice := p.plans[l.URL.String()]; twice {
		p.t.Fatalf("%s has two states, %q and %q", l.URL, old, state)
	}
	p.plans[l.URL.String()] = string(state)
	return nil
}

func (past) Dropped(uint64, link.Link) (bool, error) { return false, nil }

func (p past) Pending(number uint64, l link.Link) error {
	if _, twice := p.pending[number]; twice {
		p.t.Fatalf("accept %d is pending twice", number)
	}
	p.pending[number] = p.number(l.AppendTo(nil))
	return nil
}

// Random crawls of a small web, which end in kills and power failures at any moment: what was secured is never lost,
// the links of a finished page are never lost, and no URL is accepted or finished twice. In the end all are finished.
func TestCrawls(t *testing.T) {
	ledger.SmallPart, ledger.LargePart, state.SpoolBytes = 300, 1500, 200
	first := testseed.New(t)
	held := 0 // restarts with links that the seen-set holds back, and with lists of keys to insert
	for i := range uint64(25) {
		rng := rand.New(rand.NewPCG(first, i))
		mem, memory := testdisk.NewMem(), 1+rng.Int64N(2)<<6
		c := open(t, mem, memory, time.Unix(1e9, 0))
		c.offer(0)
		c.must(c.ledger.Secure())
		finished, known, lists := maps.Clone(c.finished), c.known(), uint64(0)
		for range 6 { // processes
			for range rng.IntN(40) {
				c.now = c.now.Add(time.Duration(rng.IntN(400)) * time.Millisecond)
				switch n := rng.IntN(13); {
				case n < 6 && len(c.pending) > 0:
					numbers := slices.Sorted(maps.Keys(c.pending))
					c.visit(numbers[rng.IntN(len(numbers))])
				case n < 8:
					c.must(c.ledger.Save(c.now))
				case n == 8:
					c.must(c.ledger.Emit())
				case n == 9:
					_, err := c.ledger.Checkpoint()
					c.must(err)
				case n == 10:
					c.must(c.ledger.Secure())
					finished, known = maps.Clone(c.finished), c.known()
				case n == 11: // another agent tells truncated keys of a host
					lists++
					r := ledger.Ranged{Host: lists}
					r.Add(keyset.List{Width: 38, Paths: []uint64{lists}})
					c.must(c.ledger.Learn([]ledger.Ranged{r}))
				}
			}
			next := mem.Clone()
			if rng.IntN(2) == 0 {
				next = mem.Crash(rng.Uint64())
			}
			c.close()
			if mem, c = next, open(t, next, memory, c.now); lists > 0 && c.seen.Holds() {
				held++
			}
			c.check(finished, known)
		}
		for len(c.pending) > 0 {
			for _, number := range slices.Sorted(maps.Keys(c.pending)) {
				c.visit(number)
			}
			c.must(c.ledger.Flush())
			c.must(c.ledger.Save(c.now))
		}
		c.check(c.finished, c.known())
		c.must(c.ledger.End(func() {}))
		c.close()
		c = open(t, mem, memory, c.now)
		if len(c.finished) != urls || len(c.pending) > 0 || c.lost > 0 {
			t.Fatalf("crawl %d: %d of %d URLs are finished, %d are pending, %d links are lost", i, len(c.finished),
				urls, len(c.pending), c.lost)
		}
		c.close()
	}
	if held < 5 {
		t.Errorf("%d restarts with links that were held back; the test needs them", held)
	}
}

// If a power failure has undone the visit whose page goes to another agent, the page goes with it, and the accept of
// its URL alone counts.
func TestWithdrawnPage(t *testing.T) {
	mem := testdisk.NewMem()
	c := open(t, mem, 64, time.Unix(1e9, 0))
	c.offer(0)
	page := link.Link{URL: weburl.MustParse(urlOf(0)), Hops: "L"}
	page.SetStored(link.Stored{File: "pages-1", To: 10})
	c.unsealed = append(c.unsealed, c.ledger.Accept(state.Passed, page.AppendTo(nil)), 1)
	c.ledger.Finish(&state.Finish{Link: page, Number: 1, Code: 200, File: "1.warc.gz", End: 100})
	c.must(c.ledger.Secure())
	left := mem.Clone()
	c.close()
	c = recovered(t, left, 64, c.now, func(string, int64) bool { return false })
	defer c.close()
	if n := c.tally.Unique(); n != 1 || len(c.pending) != 1 {
		t.Errorf("%d URLs are accepted, %d are pending; want 1", n, len(c.pending))
	}
}

// flip damages a file.
func flip(fs disk.FS, name string) error {
	f, err := fs.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	var b [31]byte
	_, err = f.ReadAt(b[:], 0)
	b[30] ^= 4
	_, werr := f.Write(b[:])
	return errors.Join(err, werr, f.Close())
}

// If the seen-set is damaged when a restart adds lists of keys to it, the ledger rebuilds it: no URL is accepted twice,
// and the lists are known.
func TestListsAfterDamage(t *testing.T) {
	mem := testdisk.NewMem()
	c := open(t, mem, 64, time.Unix(1e9, 0))
	all := make([]int, urls)
	for n := range all {
		all[n] = n
	}
	c.offer(all...)
	c.must(c.ledger.Flush())
	r := ledger.Ranged{Host: 1}
	r.Add(keyset.List{Width: 38, Paths: []uint64{5}})
	c.must(c.ledger.Learn([]ledger.Ranged{r}))
	c.ledger.Finish(&state.Finish{Link: link.Link{URL: weburl.MustParse(urlOf(0)), Hops: "L"}, Number: 1, Code: 200,
		File: "1.warc.gz", End: 100})
	delete(c.pending, 1)
	c.unsealed = append(c.unsealed, 1)
	c.must(c.ledger.Secure())
	left := mem.Clone()
	c.close()
	damaged := 0
	c = recovered(t, left, 64, c.now, func(string, int64) bool { // after the seen-set was opened
		files, err := left.ReadDir("/seen")
		c.must(err)
		for _, f := range files {
			if damaged == 0 && strings.HasPrefix(f.Name(), "run") {
				c.must(flip(left, "/seen/"+f.Name()))
				damaged++
			}
		}
		return true
	})
	defer c.close()
	before := c.known()
	c.offer(all...)
	if c.check(c.finished, before); len(c.known()) != urls || c.lost > 0 {
		t.Errorf("%d URLs are known, %d links are lost; want %d and none", len(c.known()), c.lost, urls)
	}
	keys, err := c.ledger.Range(1)
	c.must(err)
	if damaged != 1 || keys.N != 1 || keys.Lists[0].Paths[0] != 5 {
		t.Errorf("%d damaged files, host 1 has the keys %v, want 5", damaged, keys.Lists)
	}
}

// A checkpoint seals the batch that the dispatcher is filling before it syncs.
func TestCheckpointSeals(t *testing.T) {
	c := open(t, testdisk.NewMem(), 64, time.Unix(1e9, 0))
	defer c.close()
	c.offer(0)
	if begun, err := c.ledger.Checkpoint(); err != nil || !begun || len(c.unsealed) > 0 {
		t.Errorf("Checkpoint: %v, %v; %d are not sealed", begun, err, c.unsealed)
	}
}

// After the run has failed, nothing is written, and a restart finds what was secured before.
func TestFailedRunWritesNothing(t *testing.T) {
	mem := testdisk.NewMem()
	fs := testdisk.NewFaulty(mem, func(testdisk.Call) (f testdisk.Fault) { return f })
	c := open(t, fs, 64, time.Unix(1e9, 0))
	c.offer(0)
	c.must(c.ledger.Secure())
	finished, known := maps.Clone(c.finished), c.known()
	c.offer(linksOf(0)...)
	c.ledger.Finish(&state.Finish{Link: link.Link{URL: weburl.MustParse(urlOf(0)), Hops: "L"}, Number: 1, Code: 200})
	c.run.Fail(errors.New("the disk is broken"))
	_, before := fs.Calls()
	wide := keyset.List{Width: keyset.WholeKey, Paths: []uint64{1}}
	narrow := keyset.List{Width: 1, Paths: []uint64{2}}
	c.now = c.now.Add(time.Hour)
	_ = c.ledger.Append()
	_ = c.ledger.AppendLarge()
	_ = c.ledger.EndOutgoing([]uint64{1}, false)
	_ = c.ledger.Save(c.now)
	_ = c.ledger.Learn([]ledger.Ranged{{Host: 1, Paths: keyset.Paths{Lists: []keyset.List{wide, narrow}}}})
	if err := c.ledger.Secure(); !errors.Is(err, c.run.Err()) {
		t.Errorf("Secure: %v", err)
	}
	if begun, err := c.ledger.Checkpoint(); begun || !errors.Is(err, c.run.Err()) {
		t.Errorf("Checkpoint: begun %v, %v", begun, err)
	}
	if files, err := c.ledger.Transfer(); files != nil || !errors.Is(err, c.run.Err()) {
		t.Errorf("Transfer: %v, %v", files, err)
	}
	if err := c.ledger.End(func() { t.Error("delivered") }); !errors.Is(err, c.run.Err()) {
		t.Errorf("End: %v", err)
	}
	if _, after := fs.Calls(); after != before {
		t.Errorf("%d calls have changed the disk", after-before)
	}
	left := mem.Clone()
	_ = errors.Join(c.journal.Close(), c.seen.Close(), c.events.Close())
	c = open(t, left, 64, c.now)
	c.check(finished, known)
	c.close()
}

// A kind of records has one owner.
func TestKindsHaveOneOwner(t *testing.T) {
	for _, kind := range []byte{state.Accept, state.Finished, state.Held} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("a participant may own the ledger's kind %q", kind)
				}
			}()
			ledger.New(ledger.Config{}, ledger.Parts{
				Participants: []ledger.Participant{owner{kind: kind}}})
		}()
	}
}

type owner struct {
	*loop
	kind byte
}

func (o owner) Kinds() []ledger.Kind { return []ledger.Kind{{Kind: o.kind, Name: "owned"}} }

// seenFirst writes the seen-set before the journal.
type seenFirst struct{ *keyset.Store }

func (s seenFirst) Flush() error { return s.Commit() }
func (seenFirst) Sync() error    { return nil }
