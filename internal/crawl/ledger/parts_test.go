package ledger_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/ledger"
	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/store/keyset"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// Save has work when the records of a batch must be written: at once if a server demands fewer requests. With a sync it
// has work sooner if an answer to another agent waits.
func TestDue(t *testing.T) {
	for name, k := range map[string]struct {
		does func(*loop)
		want time.Duration // negative: nothing is due
	}{
		"nothing": {func(*loop) {}, -1},
		"records": {func(c *loop) { c.offer(0); c.must(c.ledger.Append()) }, 100 * time.Millisecond},
		"urgent":  {func(c *loop) { c.offer(0); c.must(c.ledger.Append()); c.ledger.Hasten() }, 0},
		"answer": {
			func(c *loop) { c.must(c.ledger.AppendForSync()); c.ledger.SyncSoon() }, 100 * time.Millisecond},
		"for the seen-set": {func(c *loop) { c.must(c.ledger.AppendForSync()) }, 100 * time.Millisecond},
	} {
		c := open(t, testdisk.NewMem(), 1<<20, time.Unix(1e9, 0))
		c.must(c.ledger.Secure())
		c.must(c.ledger.Save(c.now.Add(time.Hour)))
		c.must(c.ledger.End(func() {}))
		c.now = c.now.Add(time.Hour)
		c.ledger.Begin(c.now)
		k.does(c)
		at := c.ledger.Due()
		if want := c.now.Add(k.want); k.want < 0 && !at.IsZero() || k.want >= 0 && !at.Equal(want) {
			t.Errorf("%s: due after %s, want %s", name, at.Sub(c.now), k.want)
		}
		if before := c.syncs; k.want >= 0 {
			c.must(c.ledger.Save(at))
			if next := c.ledger.Due(); !next.IsZero() && !next.After(at) || (c.syncs > before) != (name == "answer") {
				t.Errorf("%s: after Save it is due in %s; %d syncs", name, next.Sub(at), c.syncs-before)
			}
		}
		c.close()
	}
}

// A batch that a Sealer refuses is not in the journal.
func TestSealerRefuses(t *testing.T) {
	mem, refused := testdisk.NewMem(), errors.New("refused")
	c := open(t, mem, 1<<20, time.Unix(1e9, 0))
	c.offer(0)
	c.must(c.ledger.Secure())
	c.refuses = refused
	c.offer(1)
	if err := c.ledger.Append(); !errors.Is(err, refused) {
		t.Errorf("Append: %v", err)
	}
	if err := c.ledger.Save(c.now.Add(time.Hour)); !errors.Is(err, refused) {
		t.Errorf("Save: %v", err)
	}
	next := mem.Clone()
	c.close()
	c = open(t, next, 1<<20, c.now)
	defer c.close()
	if len(c.pending) != 1 || c.ledger.Accepted() != 1 {
		t.Errorf("after a restart %v are pending", c.pending)
	}
}

// The lists of a batch have what was added, also if its memory was used again meanwhile; the next batch has none of it.
func TestBatchLists(t *testing.T) {
	c := open(t, testdisk.NewMem(), 1<<20, time.Unix(1e9, 0))
	defer c.close()
	state1 := []byte("first")
	l := link.Link{URL: weburl.MustParse(urlOf(3)), Hops: "L"}
	c.unsealed = append(c.unsealed, c.ledger.Accept(state.Accept, l.AppendTo(nil)), 7)
	c.ledger.AcceptUnlisted(state.Accept, l.AppendTo(nil)) // a Sealer must not see it
	c.ledger.Finish(&state.Finish{Link: l, Number: 7, Code: 200, State: state1})
	copy(state1, "other")
	c.ledger.AddHost(frontier.HostState{Host: "a.example", Delay: time.Second})
	c.lists = ""
	if c.must(c.ledger.Append()); c.lists != "finish first host a.example" || len(c.unsealed) > 0 {
		t.Errorf("the batch has %q; %v are not sealed", c.lists, c.unsealed)
	}
	c.lists = ""
	c.ledger.Add(state.Span, nil)
	if c.must(c.ledger.Append()); c.lists != "" {
		t.Errorf("the next batch has %q", c.lists)
	}
}

// Whichever operation of the disk fails, once or from then on: what was secured before is there after a restart, and
// the links of a finished page are not lost. What is said to be secured is.
func TestDiskFailures(t *testing.T) {
	ledger.SmallPart, ledger.LargePart, state.SpoolBytes = 300, 1500, 200
	full := errors.New("no space left")
	for n, over := int64(1), false; !over; n += 3 {
		for _, once := range []bool{true, false} {
			mem := testdisk.NewMem()
			fs := testdisk.NewFaulty(mem, nil)
			c := open(t, fs, 64, time.Unix(1e9, 0))
			c.offer(0)
			c.must(c.ledger.Secure())
			finished, known := maps.Clone(c.finished), c.known()
			_, from := fs.Calls()
			if fs.Break(testdisk.FailFrom(from+n, full)); once {
				fs.Break(testdisk.FailAt(from+n, full))
			}
			err := c.crawl(func() { finished, known = maps.Clone(c.finished), c.known() })
			if err == nil {
				err = c.ledger.End(func() {})
			}
			_, changes := fs.Calls()
			over = over || changes < from+n
			if err == nil && changes > from+n && !once {
				t.Errorf("all of the disk fails from change %d on, and no error is told", n)
			}
			fs.Heal()
			next := mem.Crash(uint64(n))
			_ = errors.Join(c.journal.Close(), c.seen.Close(), c.events.Close())
			c = open(t, next, 64, c.now)
			c.check(finished, known)
			c.close()
		}
	}
}

// crawl visits some pages, until there is an error. It tells when all is secured.
func (c *loop) crawl(secured func()) error {
	for i := range 12 {
		for _, number := range slices.Sorted(maps.Keys(c.pending))[:min(2, len(c.pending))] {
			n := c.pending[number]
			var items []keyset.Item
			for _, to := range linksOf(n) {
				l := link.Link{URL: weburl.MustParse(urlOf(to)), Hops: "L"}
				items = append(items, keyset.Item{Key: l.Key(), Aux: l.AppendTo(nil)})
			}
			if c.run.Fail(c.ledger.Offer(items)) {
				return c.run.Err()
			}
			c.ledger.Finish(&state.Finish{Link: link.Link{URL: weburl.MustParse(urlOf(n)), Hops: "L"}, Number: number,
				Code: 200, Began: c.now})
			delete(c.pending, number)
			c.unsealed = append(c.unsealed, number)
			if c.run.Fail(c.ledger.Append()) {
				return c.run.Err()
			}
		}
		c.now = c.now.Add(700 * time.Millisecond)
		if c.run.Fail(c.ledger.Save(c.now)) {
			return c.run.Err()
		}
		if i%4 == 3 {
			if c.run.Fail(c.ledger.Secure()) {
				return c.run.Err()
			}
			secured()
		}
		if i == 6 {
			if _, err := c.ledger.Checkpoint(); c.run.Fail(err) {
				return c.run.Err()
			}
		}
	}
	return nil
}

// Random finishes with the state of a Planner, states of other agents, and visits as if a URL were new: after kills and
// checkpoints a restart gives the last state of each URL, as a map has it.
func TestStatesOfAPlanner(t *testing.T) {
	ledger.SmallPart, ledger.LargePart, state.SpoolBytes = 300, 1500, 200
	rng := rand.New(rand.NewPCG(testseed.New(t), 0))
	for round := range 20 {
		mem, want := testdisk.NewMem(), map[string]string{}
		c := planned(t, mem)
		for range 4 {
			for range 30 {
				l := link.Link{URL: weburl.MustParse(fmt.Sprintf("http://a.example/%d", rng.IntN(8))), Hops: "L"}
				url, text := l.URL.String(), fmt.Sprint(rng.IntN(1000))
				switch rng.IntN(8) {
				case 0:
					c.ledger.Add(state.Again, l.AppendTo(nil))
					delete(want, url)
				case 1:
					c.ledger.Add(state.Told, state.AppendVisited(nil, l, nil)) // it has moved to another agent
					delete(want, url)
				case 2:
					c.ledger.Add(state.Told, state.AppendVisited(nil, l, []byte(text)))
					want[url] = text
				case 3:
					_, err := c.ledger.Checkpoint()
					c.must(err)
				case 4: // keeps the state before
					c.ledger.Finish(&state.Finish{Link: l, Code: 200})
				default:
					c.ledger.Finish(&state.Finish{Link: l, Code: 200, State: []byte(text)})
					want[url] = text
				}
				c.must(c.ledger.Append())
				c.now = c.now.Add(100 * time.Millisecond)
				c.must(c.ledger.Save(c.now))
			}
			c.must(c.ledger.Secure())
			next := mem.Crash(rng.Uint64())
			_ = c.ledger.End(func() {})
			_ = errors.Join(c.journal.Close(), c.seen.Close(), c.events.Close())
			if mem, c = next, planned(t, next); !maps.Equal(c.plans, want) {
				t.Fatalf("round %d: %v, want %v", round, c.plans, want)
			}
		}
		_ = c.ledger.End(func() {})
		_ = errors.Join(c.journal.Close(), c.seen.Close(), c.events.Close())
	}
}

// A Transfer has the links that wait at its moment and what hosts need. Meanwhile the crawl goes on, and no checkpoint
// replaces the files.
func TestTransfer(t *testing.T) {
	c := open(t, testdisk.NewMem(), 1<<20, time.Unix(1e9, 0))
	defer c.close()
	c.offer(0, 1, 2)
	for _, number := range slices.Sorted(maps.Keys(c.pending))[:1] {
		c.visit(number)
	}
	c.ledger.AddHost(frontier.HostState{Host: "h1.example", Delay: time.Second})
	want := maps.Clone(c.pending)
	tr, err := c.ledger.Transfer()
	c.must(err)
	if again, err := c.ledger.Transfer(); again != nil || err != nil {
		t.Errorf("two at a time: %v, %v", again, err)
	}
	c.offer(90)
	if begun, err := c.ledger.Checkpoint(); begun || err != nil {
		t.Errorf("a checkpoint replaces the files: %v, %v", begun, err)
	}
	c.must(c.ledger.Append())
	for range 50 { // a checkpoint that is under way ends
		c.now = c.now.Add(100 * time.Millisecond)
		time.Sleep(time.Millisecond)
		c.must(c.ledger.Save(c.now))
	}
	got, hosts := map[uint64]int{}, ""
	c.must(tr.Pending(func(number uint64, enc []byte) error {
		got[number] = c.number(enc)
		return nil
	}, func(st frontier.HostState) error { hosts += st.Host; return nil }))
	c.must(tr.Finished(nil, nil)) // a single agent has no keys of finishes
	if c.must(tr.Close()); !maps.Equal(got, want) || hosts != "h1.example" {
		t.Errorf("pending %v, want %v; hosts %q", got, want, hosts)
	}
	tr.Release()
	if begun, err := c.ledger.Checkpoint(); !begun || err != nil {
		t.Errorf("a checkpoint after that: %v, %v", begun, err)
	}
	if tr, err := c.ledger.Transfer(); tr != nil || err != nil {
		t.Errorf("beside a checkpoint: %v, %v", tr, err)
	}
	c.run.Halt()
}

// Links that other agents have are counted once, also after a restart.
func TestEndedOutgoing(t *testing.T) {
	mem := testdisk.NewMem()
	c := open(t, mem, 1<<20, time.Unix(1e9, 0))
	var numbers []uint64
	for n := range 4 {
		l := link.Link{URL: weburl.MustParse(urlOf(n)), Hops: "L"}
		numbers = append(numbers, c.ledger.Accept(state.Outgoing, l.AppendTo(nil)))
	}
	c.unsealed = append(c.unsealed, numbers...)
	c.must(c.ledger.EndOutgoing(numbers[:3], false))
	c.must(c.ledger.EndOutgoing(numbers[3:], true))
	c.must(c.ledger.Secure())
	sent, unique := c.tally.SentTotal(), c.tally.Unique()
	next := mem.Clone()
	c.close()
	c = open(t, next, 1<<20, c.now)
	defer c.close()
	if sent != 3 || c.tally.SentTotal() != sent || c.tally.Unique() != unique || len(c.pending) != 0 {
		t.Errorf("%d are sent of %d, after a restart %d of %d", sent, unique, c.tally.SentTotal(), c.tally.Unique())
	}
}
