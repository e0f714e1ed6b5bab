package outbox

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

func TestMain(m *testing.M) {
	fileBytes = 10 << 10
	goleak.VerifyTestMain(m)
}

func linkOf(n uint64) []byte {
	return weburl.Link{URL: weburl.MustParse(fmt.Sprintf("http://h%d.example/%d%s", n%7, n,
		strings.Repeat("x", int(n%300)))), Hops: "L"}.AppendTo(nil)
}

// TestModel compares random operations on an Outbox with maps.
func TestModel(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint("seed-", seed), func(t *testing.T) { modelOnce(t, seed) })
	}
}

func modelOnce(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	mem := testdisk.NewMem()
	cfg := Config{MemoryBytes: 1, BatchLinks: 1 + rng.IntN(40), BatchBytes: 1 + rng.IntN(4000), Seed: seed}
	o, err := Open(mem, "/out", cfg)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1, 0)
	type where struct {
		agent string // "": loose or parked
		hops  int
	}
	in := map[uint64]where{}       // all links in the outbox
	order := map[string][]uint64{} // of each agent's queue since the last Reroute
	under := map[string]*Batch{}
	next := uint64(0)
	agents := []string{"", "a", "b", "c"}
	gone := func(n uint64) bool { return n%17 == 3 }
	check := func(b *Batch) {
		if under[b.Agent] != nil {
			t.Fatalf("two batches to %q", b.Agent)
		}
		if len(b.Numbers) > cfg.BatchLinks || len(b.Links) > cfg.BatchBytes && len(b.Numbers) > 1 {
			t.Fatalf("%d links, %d octets", len(b.Numbers), len(b.Links))
		}
		rest := b.Links
		for _, n := range b.Numbers {
			want := linkOf(n)
			if !bytes.HasPrefix(rest, want) {
				t.Fatalf("link %d is not in its place", n)
			}
			rest = rest[len(want):]
			w, ok := in[n]
			if !ok || w.agent != b.Agent || w.hops != b.Hops {
				t.Fatalf("link %d to %q after %d hops, is %+v %v", n, b.Agent, b.Hops, w, ok)
			}
			i := slices.Index(order[b.Agent], n)
			if i < 0 {
				t.Fatalf("link %d is not waiting for %q", n, b.Agent)
			}
			for _, m := range order[b.Agent][:i] {
				if !gone(m) {
					t.Fatalf("%d before %d, to %q", n, m, b.Agent)
				}
				delete(in, m)
			}
			order[b.Agent] = order[b.Agent][i+1:]
		}
		if len(rest) != 0 {
			t.Fatalf("%d octets too many", len(rest))
		}
	}
	failed := map[string]*Batch{}
	for range 2000 {
		now = now.Add(time.Duration(rng.IntN(20)) * time.Millisecond)
		switch rng.IntN(12) {
		case 0, 1, 2, 3, 4:
			for range rng.IntN(20) {
				next++
				a, hops := agents[rng.IntN(len(agents))], 0
				if rng.IntN(4) == 0 {
					hops = rng.IntN(4)
				}
				if err := o.Push(a, next, hops, linkOf(next)); err != nil {
					t.Fatal(err)
				}
				in[next] = where{a, hops}
				order[a] = append(order[a], next)
			}
		case 5:
			next++
			var err error
			if rng.IntN(2) == 0 {
				err = o.PushLoose(next, linkOf(next))
			} else {
				err = o.Park(next, linkOf(next), now)
			}
			if err != nil {
				t.Fatal(err)
			}
			in[next] = where{"loose", 0}
		case 6, 7, 8:
			b, wake, err := o.Next(now, func(n uint64, _ []byte) bool { return !gone(n) })
			if err != nil {
				t.Fatal(err)
			}
			if b == nil {
				if !wake.IsZero() && !wake.After(now) {
					t.Fatalf("asked to wait until %s at %s", wake, now)
				}
				continue
			}
			if f := failed[b.Agent]; f != nil {
				if f != b {
					t.Fatalf("another batch before the one to %q that failed", b.Agent)
				}
				delete(failed, b.Agent)
			} else {
				check(b)
			}
			under[b.Agent] = b
		case 9, 10:
			for a, b := range under {
				delete(under, a)
				if arrived := rng.IntN(3) > 0; arrived {
					for _, n := range b.Numbers {
						delete(in, n)
					}
					o.Done(b, true, now)
				} else {
					o.Done(b, false, now)
					if !b.q.loose {
						failed[a] = b
					} else {
						for _, n := range b.Numbers {
							in[n] = where{"loose", 0}
						}
					}
				}
				break
			}
		case 11:
			if rng.IntN(20) == 0 {
				o.Reroute()
				clear(failed)
				for n, w := range in {
					onWay := false
					for _, b := range under {
						onWay = onWay || slices.Contains(b.Numbers, n)
					}
					if !onWay {
						w = where{"loose", 0}
						in[n] = w
					}
				}
				clear(order)
			}
			stay := rng.IntN(10) == 0
			if err := o.Route(rng.IntN(200), func(n uint64, link []byte) (string, Way, error) {
				if !bytes.Equal(link, linkOf(n)) || in[n].agent != "loose" {
					t.Fatalf("link %d: %+v", n, in[n])
				}
				if stay {
					return "", Stay, nil
				}
				if gone(n) {
					delete(in, n)
					return "", Gone, nil
				}
				a := agents[rng.IntN(len(agents))]
				in[n] = where{a, 0}
				order[a] = append(order[a], n)
				return a, Send, nil
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
	// In the end all links are sent.
	for a, b := range under {
		delete(under, a)
		for _, n := range b.Numbers {
			delete(in, n)
		}
		o.Done(b, true, now)
	}
	o.Reroute()
	var left []uint64
	for o.Loose() {
		if err := o.Route(100, func(n uint64, link []byte) (string, Way, error) {
			left = append(left, n)
			return "", Gone, nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range left {
		if _, ok := in[n]; !ok {
			t.Errorf("%d is there, and should not be", n)
		}
		delete(in, n)
	}
	for n := range in {
		if !gone(n) {
			t.Errorf("%d is lost", n)
		}
	}
	if o.Len() != 0 {
		t.Errorf("Len %d, nothing is left", o.Len())
	}
	files, err := mem.ReadDir("/out")
	if err != nil || len(files) > 0 {
		t.Errorf("files left: %v %v", files, err)
	}
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestMemory: the RAM is bounded for any number of links.
func TestMemory(t *testing.T) {
	o, err := Open(testdisk.NewMem(), "/out", Config{MemoryBytes: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	for n := range uint64(20000) {
		if err := o.Push(fmt.Sprint("agent", n%4), n+1, 0, linkOf(n+1)); err != nil {
			t.Fatal(err)
		}
		ram := 0
		for _, q := range o.turns {
			ram += len(q.head) + len(q.tail)
		}
		if ram > 2*(64<<10) {
			t.Fatalf("%d octets in RAM", ram)
		}
	}
}

// TestDamage: a changed file must be reported.
func TestDamage(t *testing.T) {
	mem := testdisk.NewMem()
	o, err := Open(mem, "/out", Config{MemoryBytes: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	for n := range uint64(300) {
		if err := o.Push("a", n+1, 0, linkOf(n+1)); err != nil {
			t.Fatal(err)
		}
	}
	f := o.turns[0].files[0]
	b, err := disk.ReadFile(mem, f.name, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 4
	w, err := mem.OpenFile(f.name, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	w.Close()
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
	o, err := Open(fs, "/out", Config{MemoryBytes: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
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

// After a failed write, which may have stored a part, the links go to another file. After a failed read, the same
// block is read again. So each link comes out once and in order, whatever call fails.
func TestFailedCalls(t *testing.T) {
	const links = 250
	broken := errors.New("broken")
	run := func(fail func(testdisk.Call) testdisk.Fault) (calls int64, failed int) {
		fs := testdisk.NewFaulty(testdisk.NewMem(), nil)
		o, err := Open(fs, "/out", Config{MemoryBytes: 1, BatchLinks: 50})
		if err != nil {
			t.Fatal(err)
		}
		before, _ := fs.Calls()
		if fail != nil {
			fs.Break(func(c testdisk.Call) testdisk.Fault { c.N -= before; return fail(c) })
		}
		note := func(err error) bool {
			if err != nil && !errors.Is(err, broken) {
				t.Fatal(err)
			}
			if err != nil {
				failed++
			}
			return err != nil
		}
		for n := range uint64(links) {
			note(o.PushLoose(n+1, linkOf(n+1)))
		}
		for o.Loose() {
			note(o.Route(links, func(uint64, []byte) (string, Way, error) { return "a", Send, nil }))
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
		if err := o.Close(); err != nil {
			t.Fatal(err)
		}
		all, _ := fs.Calls()
		return all - before, failed
	}
	calls, _ := run(nil)
	ops := []testdisk.Op{testdisk.OpWrite, testdisk.OpRead, testdisk.OpCreate, testdisk.OpOpen}
	for n := range calls {
		_, failed := run(func(c testdisk.Call) testdisk.Fault {
			if c.N != n+1 || !slices.Contains(ops, c.Op) {
				return testdisk.Fault{}
			}
			return testdisk.Fault{Err: broken, Short: c.Bytes / 2}
		})
		if failed > 1 {
			t.Errorf("call %d failed once, %d times in all", n+1, failed)
		}
	}
}
