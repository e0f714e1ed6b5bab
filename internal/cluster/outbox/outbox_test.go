package outbox

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

func TestMain(m *testing.M) {
	fileBytes, pageBytes = 10<<10, 1<<10
	goleak.VerifyTestMain(m)
}

// open opens an outbox, which the test closes at its end.
func open(t testing.TB, fs disk.FS, cfg Config) *Outbox {
	t.Helper()
	o, err := Open(fs, "/out", cfg)
	must.Do(t, err)
	t.Cleanup(func() { must.Do(t, o.Close()) })
	return o
}

var links [][]byte

func linkOf(n uint64) []byte {
	for m := uint64(len(links)); m <= n; m++ {
		links = append(links, makeLink(m))
	}
	return links[n]
}

func makeLink(n uint64) []byte {
	return link.Link{URL: weburl.MustParse(fmt.Sprintf("http://h%d.example/%d%s", n%7, n,
		strings.Repeat("x", int(n%300)))), Hops: "L"}.AppendTo(nil)
}

// keyOf returns the key of a link: some keys have many links, most have few.
func keyOf(n uint64) uint64 {
	switch n % 10 {
	case 0, 1:
		return 0
	case 2:
		return math.MaxUint64
	case 3, 4:
		return n % 7 << 60
	}
	return (n % 997) * 0x9e3779b97f4a7c15
}

// A table is a placement that answers late, in any order, and changes its mind.
type table struct {
	t      *testing.T
	owners map[uint64]string // "?" or nothing: nobody yet
	in     map[uint64]bool   // the links in the outbox, except those on their way
	asked  int
}

// to is the Router. It removes some of the links at some time.
func (p *table) to(n uint64, link []byte) (To, error) {
	p.asked++
	if !p.in[n] || !bytes.Equal(link, linkOf(n)) {
		p.t.Fatalf("asked for link %d, which is not there or is not the same", n)
	}
	if n%17 == 3 && p.asked%2 == 0 {
		delete(p.in, n)
		return To{Way: Gone}, nil
	}
	switch agent, ok := p.owners[keyOf(n)]; {
	case !ok, agent == "?":
		return To{Way: Wait, Key: keyOf(n)}, nil
	default:
		return To{Agent: agent}, nil
	}
}

// TestModel compares random operations on an Outbox with a map of links and a table of owners that
// answers late, out of order, and changes its mind.
func TestModel(t *testing.T) {
	for seed := range uint64(testtier.Rounds(8, 100)) {
		t.Run(fmt.Sprint("seed-", seed), func(t *testing.T) { modelOnce(t, seed) })
	}
}

func modelOnce(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	mem := testdisk.NewMem()
	cfg := Config{MemoryBytes: 1 + int64(rng.IntN(2))*64<<10, BatchLinks: 1 + rng.IntN(40),
		BatchBytes: 1 + rng.IntN(4000), Seed: seed}
	o, err := Open(mem, "/out", cfg)
	must.Do(t, err)
	now := time.Unix(1, 0)
	p := &table{t: t, owners: map[uint64]string{}, in: map[uint64]bool{}}
	agents := []string{"", "a", "b", "c"}
	anyone := func() string { return append(agents, "?", "?")[rng.IntN(len(agents)+2)] }
	under, failed, late := map[string]*Batch{}, map[string]*Batch{}, map[uint64]bool{}
	next := uint64(0)
	check := func(b *Batch) {
		if under[b.Agent] != nil {
			t.Fatalf("two batches to %q", b.Agent)
		}
		if len(b.Numbers) > cfg.BatchLinks || len(b.Links) > cfg.BatchBytes && len(b.Numbers) > 1 {
			t.Fatalf("%d links, %d octets", len(b.Numbers), len(b.Links))
		}
		if f := failed[b.Agent]; f != nil {
			delete(failed, b.Agent)
			if f != b {
				t.Fatalf("another batch before the one to %q that failed", b.Agent)
			}
			return
		}
		rest := b.Links
		for _, n := range b.Numbers {
			want := linkOf(n)
			if !bytes.HasPrefix(rest, want) {
				t.Fatalf("link %d is not in its place", n)
			}
			rest = rest[len(want):]
			if !p.in[n] || p.owners[keyOf(n)] != b.Agent {
				t.Fatalf("link %d goes to %q, its owner is %q; %v", n, b.Agent, p.owners[keyOf(n)], p.in[n])
			}
			delete(p.in, n)
		}
		if len(rest) != 0 {
			t.Fatalf("%d octets too many", len(rest))
		}
	}
	changed := func() {
		o.Changed()
		for _, b := range failed {
			for _, n := range b.Numbers {
				p.in[n] = true
			}
		}
		clear(failed)
		clear(late)
	}
	turn := func() (sent bool) {
		b, wake, err := o.Next(now, p.to)
		must.Do(t, err)
		if b == nil {
			if !wake.IsZero() && wake.Before(now) {
				t.Fatalf("asked to wait until %s at %s", wake, now)
			}
			return wake.Equal(now)
		}
		check(b)
		under[b.Agent] = b
		return true
	}
	done := func(a string, arrived bool) {
		b := under[a]
		delete(under, a)
		unsure := b.lane.unsure
		o.Done(b, arrived, now)
		switch {
		case arrived:
		case unsure:
			for _, n := range b.Numbers {
				p.in[n] = true
			}
		default:
			failed[a] = b
		}
	}
	for range 3000 {
		now = now.Add(time.Duration(rng.IntN(20)) * time.Millisecond)
		switch rng.IntN(14) {
		case 0, 1, 2, 3, 4:
			for range rng.IntN(20) {
				next++
				p.in[next] = true
				switch a := p.owners[keyOf(next)]; rng.IntN(8) {
				case 0:
					must.Do(t, o.PushLoose(next, linkOf(next)))
				case 1:
					must.Do(t, o.Park(next, linkOf(next), now))
				case 2:
					must.Do(t, o.Push(anyone(), next, rng.IntN(4), linkOf(next))) // by an earlier table
				default:
					if a == "" || a == "?" {
						must.Do(t, o.PushWaiting(keyOf(next), next, linkOf(next)))
					} else {
						must.Do(t, o.Push(a, next, rng.IntN(4), linkOf(next)))
					}
				}
			}
		case 5, 6, 7:
			turn()
		case 8, 9:
			for a := range under {
				done(a, rng.IntN(3) > 0)
				break
			}
		case 10, 11: // one key is assigned; the wake-up may come later
			key := keyOf(rng.Uint64N(next + 1))
			p.owners[key] = anyone()
			if late[key] = true; rng.IntN(2) == 0 {
				for key := range late {
					o.Assigned(key)
					delete(late, key)
					break
				}
			}
		case 12: // a view changes: nearly all keys, or few, get other owners
			if rng.IntN(10) == 0 {
				few := rng.IntN(2) == 0
				for key := range p.owners {
					if !few || rng.IntN(8) == 0 {
						p.owners[key] = anyone()
					}
				}
				changed()
			}
		case 13:
			must.Do(t, o.Route(rng.IntN(300), p.to))
		}
		if ram := o.waiting.ram; int64(ram) > cfg.MemoryBytes+4*int64(pageBytes) {
			t.Fatalf("%d octets of waiting links in RAM", ram)
		}
	}
	// In the end each key is assigned, in any order. The agent c does not answer.
	for n := range next {
		if a, ok := p.owners[keyOf(n)]; !ok || a == "?" {
			p.owners[keyOf(n)], late[keyOf(n)] = agents[rng.IntN(len(agents))], true
		}
	}
	for key := range late {
		o.Assigned(key)
	}
	settle := func(stuck string) {
		for quiet := 0; quiet < 3; quiet++ {
			if o.Loose() {
				must.Do(t, o.Route(300, p.to))
				quiet = 0
			}
			for turn() {
			}
			for a := range under {
				if done(a, a != stuck); a != stuck {
					quiet = 0
				}
			}
			now = now.Add(10 * time.Second)
		}
	}
	changed()
	settle("c")
	for n := range p.in {
		if a := p.owners[keyOf(n)]; a != "c" {
			t.Fatalf("link %d to %q is stuck behind an agent that does not answer", n, a)
		}
	}
	settle("")
	if len(p.in) > 0 || o.Len() != 0 || o.Waiting() != 0 {
		t.Errorf("%d links are left, Len %d, Waiting %d", len(p.in), o.Len(), o.Waiting())
	}
	if files, err := mem.ReadDir("/out"); err != nil || len(files) > 0 {
		t.Errorf("files left: %v %v", files, err)
	}
	must.Do(t, o.Close())
}

// TestMemory: the RAM is bounded for any number of links, of agents and without an owner.
func TestMemory(t *testing.T) {
	const memory = 256 << 10
	defer func(n int) { pageBytes = n }(pageBytes)
	pageBytes = 16 << 10
	o := open(t, testdisk.NewMem(), Config{MemoryBytes: memory})
	for n := range uint64(20000) {
		must.Do(t, o.Push(fmt.Sprint("agent", n%4), n+1, 0, linkOf(n+1)))
		must.Do(t, o.PushWaiting(n*0x9e3779b97f4a7c15, n+1, linkOf(n+1)))
		queued, w := 0, o.waiting
		for _, l := range o.turns {
			queued += len(l.head) + len(l.tail)
		}
		if queued > memory || w.ram+len(w.leaves)*leafBytes > memory/2+2*pageBytes {
			t.Fatalf("RAM: %d octets of queues, %d of waiting links, %d leaves", queued, w.ram, len(w.leaves))
		}
	}
}

// The disk is bounded, too: pages that are out of use are deleted while one key after the other is
// assigned and its owner is forgotten again.
func TestWaitingDisk(t *testing.T) {
	mem := testdisk.NewMem()
	o := open(t, mem, Config{MemoryBytes: 32 << 10})
	const links = 3000
	key := func(n uint64) uint64 { return n * 0x9e3779b97f4a7c15 }
	for n := range uint64(links) {
		must.Do(t, o.PushWaiting(key(n), n, linkOf(n)))
	}
	size := func() (all int64) {
		for _, f := range o.waiting.files {
			all += f.end
		}
		return all
	}
	before := size()
	for round := range uint64(5) {
		for n := range uint64(links) {
			asked := 0
			o.Assigned(key(n))
			must.Do(t, o.Route(links, func(m uint64, _ []byte) (To, error) {
				if asked++; m != n {
					t.Fatalf("asked for link %d after %d was assigned", m, n)
				}
				return To{Way: Send, Agent: "a"}, nil
			}))
			if asked != 1 {
				t.Fatalf("round %d: %d links of key %d", round, asked, n)
			}
			if _, _, err := o.Next(time.Now(), func(uint64, []byte) (To, error) {
				return To{Way: Wait, Key: key(n)}, nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		if now := size(); now > 3*before+2*fileBytes {
			t.Fatalf("round %d: %d octets on disk, %d before", round, now, before)
		}
	}
	if o.Waiting() != links {
		t.Fatalf("%d links wait", o.Waiting())
	}
}

// The links of one key stay in order, however many there are.
func TestWaitingOrder(t *testing.T) {
	o := open(t, testdisk.NewMem(), Config{MemoryBytes: 1})
	const links = 2000
	for n := range uint64(links) {
		must.Do(t, o.PushWaiting(n%2*77, n, linkOf(n)))
	}
	for _, key := range []uint64{77, 0} {
		o.Assigned(key)
		next := key % 2
		for o.Loose() {
			must.Do(t, o.Route(10, func(n uint64, _ []byte) (To, error) {
				if n != next {
					t.Fatalf("link %d, want %d", n, next)
				}
				next += 2
				return To{Agent: "a"}, nil
			}))
		}
		if next < links {
			t.Fatalf("the links of key %d end before %d", key, next)
		}
	}
}

// TestDamage: a changed file must be reported.
func TestDamage(t *testing.T) {
	mem := testdisk.NewMem()
	o := open(t, mem, Config{MemoryBytes: 1})
	for n := range uint64(300) {
		must.Do(t, o.Push("a", n+1, 0, linkOf(n+1)))
	}
	f := o.turns[0].files[0]
	b, err := disk.ReadFile(mem, f.name, 1<<20)
	must.Do(t, err)
	b[len(b)/2] ^= 4
	w, err := mem.OpenFile(f.name, 1, 0)
	must.Do(t, err)
	_, err = w.Write(b)
	must.Do(t, errors.Join(err, w.Close()))
	for {
		b, _, err := o.Next(time.Now(), nil)
		if errors.Is(err, ErrDamaged) {
			return
		}
		if err != nil || b == nil {
			t.Fatal("no error for the damage", err)
		}
		o.Done(b, true, time.Now())
	}
}

// TestFullDisk: an error of the disk is returned, and names the outbox.
func TestFullDisk(t *testing.T) {
	full := errors.New("no room")
	fs := testdisk.NewFaulty(testdisk.NewMem(), nil)
	o := open(t, fs, Config{MemoryBytes: 1})
	fs.Break(testdisk.FailFrom(1, full))
	for n := range uint64(1000) {
		if err := o.Push("a", n+1, 0, linkOf(n+1)); err != nil {
			if !errors.Is(err, full) || !strings.Contains(err.Error(), "outbox") {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatal("nothing was written")
}

// eachCall runs a story with an outbox, and again for each call of the disk, which then fails after half of its bytes.
// The story passes the errors to note, which reports whether there was one.
func eachCall(t *testing.T, story func(o *Outbox, note func(error) bool)) {
	broken := errors.New("broken")
	ops := []testdisk.Op{testdisk.OpWrite, testdisk.OpRead, testdisk.OpCreate, testdisk.OpOpen, testdisk.OpRemove}
	run := func(at int64) (calls int64) {
		fs, failed := testdisk.NewFaulty(testdisk.NewMem(), nil), 0
		o, err := Open(fs, "/out", Config{MemoryBytes: 1, BatchLinks: 50})
		must.Do(t, err)
		before, _ := fs.Calls()
		fs.Break(func(c testdisk.Call) testdisk.Fault {
			if c.N-before != at || !slices.Contains(ops, c.Op) {
				return testdisk.Fault{}
			}
			return testdisk.Fault{Err: broken, Short: c.Bytes / 2}
		})
		story(o, func(err error) bool {
			if err != nil && !errors.Is(err, broken) {
				t.Fatal(err)
			}
			if err != nil {
				failed++
			}
			return err != nil
		})
		if must.Do(t, o.Close()); failed > 1 {
			t.Errorf("call %d failed once, %d times in all", at, failed)
		}
		all, _ := fs.Calls()
		return all - before
	}
	for at := range run(0) {
		run(at + 1)
	}
}

// After a failed write, which may have stored a part, the links go to another file. After a failed read, the same
// block is read again. So each link comes out once and in order, whatever call fails.
func TestFailedCalls(t *testing.T) {
	const links = 250
	eachCall(t, func(o *Outbox, note func(error) bool) {
		for n := range uint64(links) {
			note(o.PushLoose(n+1, linkOf(n+1)))
		}
		for o.Loose() {
			note(o.Route(links, func(uint64, []byte) (To, error) { return To{Agent: "a"}, nil }))
		}
		next := uint64(1)
		for o.Len() > 0 {
			b, _, err := o.Next(time.Now(), nil)
			if note(err) {
				continue
			}
			if b == nil {
				t.Fatalf("%d links are in no queue", o.Len())
			}
			for _, n := range b.Numbers {
				if n != next {
					t.Fatalf("link %d comes after %d", n, next-1)
				}
				next++
			}
			o.Done(b, true, time.Now())
		}
		if next != links+1 {
			t.Fatalf("%d links came out", next-1)
		}
	})
}

// Each link that waits for an owner comes out once, whatever call of the disk fails.
func TestFailedCallsWaiting(t *testing.T) {
	const links = 120
	eachCall(t, func(o *Outbox, note func(error) bool) {
		for n := range uint64(links) {
			note(o.PushWaiting(keyOf(n), n, linkOf(n)))
		}
		seen := map[uint64]bool{}
		for n := range uint64(links) {
			o.Assigned(keyOf(n))
			for o.Loose() {
				note(o.Route(links, func(m uint64, link []byte) (To, error) {
					if seen[m] || keyOf(m) != keyOf(n) || !bytes.Equal(link, linkOf(m)) {
						t.Fatalf("link %d comes out after %d was assigned; before: %v", m, n, seen[m])
					}
					seen[m] = true
					return To{Way: Gone}, nil
				}))
			}
		}
		if len(seen) != links || o.Len() != 0 || o.Waiting() != 0 {
			t.Fatalf("%d links came out, Len %d, Waiting %d", len(seen), o.Len(), o.Waiting())
		}
	})
}

// TestLinger: after a batch, a queue gathers links for a while, unless they fill a batch. The links
// that this agent owns again do not wait.
func TestLinger(t *testing.T) {
	o := open(t, testdisk.NewMem(), Config{BatchLinks: 3})
	o.Linger(time.Second)
	now := time.Unix(1, 0)
	number := uint64(0)
	push := func(agent string, links int) {
		t.Helper()
		for range links {
			number++
			must.Do(t, o.Push(agent, number, 0, linkOf(number)))
		}
	}
	next := func(after time.Duration, links int, wake time.Duration) {
		t.Helper()
		b, w, err := o.Next(now.Add(after), nil)
		switch {
		case err != nil:
			t.Fatal(err)
		case b == nil && links > 0, b != nil && len(b.Numbers) != links:
			t.Fatalf("after %v: batch %+v, want %d links", after, b, links)
		case b == nil && (wake == 0) != w.IsZero(), b == nil && wake > 0 && !w.Equal(now.Add(wake)):
			t.Fatalf("after %v: wake at %v", after, w)
		case b != nil:
			o.Done(b, true, now.Add(after))
		}
	}
	push("a", 1)
	next(0, 1, 0)
	push("a", 2)
	next(0, 0, time.Second)
	next(time.Second-1, 0, time.Second)
	push("a", 2)
	next(time.Second-1, 3, 0) // a whole batch
	next(time.Second, 0, 2*time.Second-1)
	next(2*time.Second, 1, 0)
	push("", 1)
	next(2*time.Second, 1, 0)
	push("", 1)
	next(2*time.Second, 1, 0)
	push("a", 1)
	o.Linger(0)
	next(2*time.Second, 1, 0)
}
