package drum

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// An owner imitates a crawl. Its journal has the keys that were emitted, those that pages asked for.
type owner struct {
	t         *testing.T
	rng       *rand.Rand
	cfg       Config
	mem       *testdisk.Mem
	faulty    *testdisk.Faulty
	s         *Store
	journal   []record
	committed int // records that a kill leaves
	synced    int // records that a power failure leaves
	sync      *Syncing
	syncAt    int
	kept      int // records that the last crash must have left
	crashes   int
	forgotten int // pages that a crash has undone
}

var errInjected = errors.New("injected")

type record struct {
	kind byte // 'a' accepted, 'p' asked for by a finished page, 'm' mark of held items
	key  link.Key
	held []HeldFile
}

func (o *owner) open() {
	o.faulty = testdisk.NewFaulty(o.mem, nil)
	s, err := Open(o.faulty, "/drum", o.cfg, o.emit)
	if err != nil {
		o.t.Fatal(err)
	}
	if d := append(s.Damaged(), s.Lost()...); len(d) > 0 {
		o.t.Fatalf("after crash %d: %v", o.crashes, d)
	}
	o.s = s
	o.forgetUncertain()
	from := 0
	if m := s.Mark(); len(m) > 0 {
		from = int(binary.LittleEndian.Uint64(m))
	}
	if from > len(o.journal) {
		o.t.Fatalf("mark %d is after the end of the journal, %d", from, len(o.journal))
	}
	for _, r := range o.journal[from:] {
		if r.kind == 'a' {
			must.Do(o.t, s.Restore([]link.Key{r.key}))
		}
	}
	o.committed, o.synced, o.sync = len(o.journal), len(o.journal), nil // a crashed Mem has everything synced
}

func (o *owner) emit(items []Item) error {
	for _, it := range items {
		o.journal = append(o.journal, record{kind: 'a', key: it.Key})
	}
	return nil
}

// forgetUncertain removes the pages after the last mark that agrees with the disk, because their items may be lost. No
// page that was synced may be among them.
func (o *owner) forgetUncertain() {
	sure := 0
	for i := len(o.journal) - 1; i >= 0 && sure == 0; i-- {
		if o.journal[i].kind != 'm' {
			continue
		}
		sure = i + 1
		for _, h := range o.journal[i].held {
			if o.s.Missing(h) > 0 {
				sure = 0
			}
		}
	}
	kept := o.journal[:sure]
	for i, r := range o.journal[sure:] {
		if r.kind == 'p' {
			if sure+i < o.kept {
				o.t.Fatalf("after crash %d: the last good mark is record %d of %d, but %d were synced",
					o.crashes, sure, len(o.journal), o.kept)
			}
			o.forgotten++
		} else {
			kept = append(kept, r)
		}
	}
	o.journal = kept
}

// crash loses what was not written, or what was not synced.
func (o *owner) crash() {
	o.crashes++
	o.faulty.Break(func(testdisk.Call) testdisk.Fault { return testdisk.Fault{Err: errors.New("crashed")} })
	keep := o.committed
	o.kept = keep
	switch o.rng.IntN(4) {
	case 0:
		o.mem = o.mem.Clone()
	case 1:
		o.mem = o.mem.CrashOf(func(name string) bool { return strings.Contains(name, "/held-") })
		o.kept = o.synced
	default:
		o.mem = o.mem.Crash(o.rng.Uint64())
		keep, o.kept = o.synced, o.synced
	}
	_ = o.s.Close() // ends the goroutines of the dead process
	o.journal = o.journal[:keep]
	o.open()
}

// check verifies the journal: each key that a page asked for was accepted exactly once.
func (o *owner) check() {
	o.t.Helper()
	if err := o.s.Flush(); errors.Is(err, errInjected) { // a pass met the fault before Heal
		o.crash()
		must.Do(o.t, o.s.Flush())
	} else if err != nil {
		o.t.Fatal(err)
	}
	accepted, asked := map[link.Key]bool{}, map[link.Key]bool{}
	for i, r := range o.journal {
		switch r.kind {
		case 'a':
			if accepted[r.key] {
				o.t.Fatalf("record %d: %v accepted twice", i, r.key)
			}
			accepted[r.key] = true
		case 'p':
			asked[r.key] = true
		}
	}
	for k := range asked {
		if !accepted[k] {
			o.t.Fatalf("%v was asked for and not accepted", k)
		}
	}
	got := map[link.Key]bool{}
	for h := range hostsOf(accepted) {
		must.Do(o.t, o.s.Range(h, func(l List) error {
			for _, p := range l.Paths {
				got[link.Key{Host: h, Path: p << (64 - l.Width)}] = true
			}
			return nil
		}))
	}
	for k := range accepted {
		found := false
		for c := range uint8(maxClass + 1) {
			m := ^uint64(0) << (64 - width(c))
			found = found || got[link.Key{Host: k.Host, Path: k.Path & m}]
		}
		if !found {
			o.t.Fatalf("Range does not report %v", k)
		}
	}
}

func hostsOf(keys map[link.Key]bool) map[uint64]bool {
	hosts := map[uint64]bool{}
	for k := range keys {
		hosts[k.Host] = true
	}
	return hosts
}

func (o *owner) ask() error {
	var items []Item
	for range o.rng.IntN(120) {
		items = append(items, Item{Key: randomKey(o.rng), Aux: make([]byte, o.rng.IntN(30))})
	}
	if err := o.s.Add(items); err != nil {
		return err
	}
	for _, it := range items {
		o.journal = append(o.journal, record{kind: 'p', key: it.Key})
	}
	return nil
}

func (o *owner) commit() error {
	if err := o.s.Commit(); err != nil {
		return err
	}
	o.journal = append(o.journal, record{kind: 'm', held: o.s.Held(nil)})
	o.committed = len(o.journal)
	return nil
}

func (o *owner) beginSync() (err error) {
	if o.sync == nil {
		if err := o.commit(); err != nil {
			return err
		}
		o.sync, err = o.s.BeginSync()
		o.syncAt = len(o.journal)
	}
	return err
}

func (o *owner) endSync() error {
	if o.sync == nil {
		return nil
	}
	if err := o.sync.Run(); err != nil {
		return err
	}
	o.synced = o.syncAt
	t := o.sync
	o.sync = nil
	return o.s.EndSync(t, nil, binary.LittleEndian.AppendUint64(nil, uint64(o.syncAt)))
}

func TestCrashes(t *testing.T) {
	for i := range testtier.Rounds(8, 25) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			rng := testseed.Rand(t)
			o := &owner{t: t, rng: rng, cfg: Config{Journal: true, tune: small(rng)}, mem: testdisk.NewMem()}
			o.open()
			flushes := int64(0)
			for range 300 {
				var err error
				switch r := rng.IntN(100); {
				case r < 50:
					err = o.ask()
				case r < 60:
					err = o.commit()
				case r < 75:
					err = o.beginSync()
				case r < 90:
					err = o.endSync()
				case r < 92:
					err = o.s.Flush()
					time.Sleep(time.Duration(rng.IntN(3)) * time.Millisecond)
				case r < 95:
					o.faulty.Break(testdisk.FailAt(1+rng.Int64N(20), errInjected))
				case r < 97:
					flushes += o.s.Stats().Flushes
					o.crash()
				case r < 98:
					o.faulty.Heal()
					if o.s.err == nil {
						o.check()
					}
				default:
					err = o.s.Emit()
				}
				if err != nil {
					if !errors.Is(err, errInjected) {
						t.Fatal(err)
					}
					flushes += o.s.Stats().Flushes
					o.crash()
				}
			}
			o.faulty.Heal()
			if o.s.err != nil {
				o.crash()
			}
			o.check()
			t.Logf("%d crashes, %d flushes, %d records, %d forgotten",
				o.crashes, flushes+o.s.Stats().Flushes, len(o.journal), o.forgotten)
			must.Do(t, o.s.Close())
		})
	}
}

// TestHeldDamaged checks that damage loses exactly the held items in the damaged bytes. They are counted and can be
// added again. All other items are answered.
func TestHeldDamaged(t *testing.T) {
	seed := testseed.New(t)
	for round := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, round))
		mem := testdisk.NewMem()
		tune := small(rng)
		tune.age, tune.heldMin, tune.filterBytes = time.Hour, 1<<20, -1 // no filters
		s, got := openCollecting(t, mem, "drum", Config{tune: tune})
		var items []Item
		for i := range uint64(200) {
			items = append(items, Item{Key: nth(i, 10), Aux: make([]byte, rng.IntN(50))})
		}
		must.Do(t, s.Add(items[:100]))
		must.Do(t, s.Save(nil))
		for n := 100; n < 200; n += 20 {
			must.Do(t, s.Add(items[n:n+20]))
			must.Do(t, s.Commit()) // one frame for each
		}
		held := s.Held(nil)
		if len(held) == 0 {
			t.Fatalf("seed %d: nothing is held", seed)
		}
		before := len(got)
		name := "drum/" + heldName(held[0].Num)
		flip(t, mem, name, int64(len(heldMagic))+rng.Int64N(held[0].End-int64(len(heldMagic))), 1<<rng.IntN(8))
		reopen := rng.IntN(2) == 0
		if reopen {
			must.Do(t, s.Close())
			again, more := openCollecting(t, mem, "drum", Config{tune: tune})
			s = again
			for k, n := range got {
				more[k] += n
				must.Do(t, s.Restore([]link.Key{k}))
			}
			got = more
			if s.Missing(held[0]) == 0 && len(s.Lost()) > 0 {
				t.Fatalf("seed %d: Lost reports items, Missing does not", seed)
			}
		}
		missing := s.Missing(held[0])
		must.Do(t, s.Flush())
		lost := int64(0)
		for _, d := range s.Lost() {
			lost += d.Items
		}
		if reopen {
			lost = missing
		}
		if n := int64(200 - len(got)); n > lost || lost > held[0].Items || !reopen && n != lost {
			t.Fatalf("seed %d: %d keys have no answer (%d had one before), %d of %d held items are lost",
				seed, n, before, lost, held[0].Items)
		}
		must.Do(t, s.Add(items))
		must.Do(t, s.Flush())
		for _, it := range items {
			if got[it.Key] != 1 {
				t.Fatalf("seed %d: %v was emitted %d times, want once", seed, it.Key, got[it.Key])
			}
		}
		must.Do(t, s.Close())
	}
}

// TestDamagedInRestore damages a run after Open. Restore finds it when it flushes a table; it must ask for Rebuild and
// then continue.
func TestDamagedInRestore(t *testing.T) {
	seed := testseed.New(t)
	for round := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, round))
		mem := testdisk.NewMem()
		tune := small(rng)
		tune.memKeys, tune.firstKeys = 50, 50
		s, _ := openCollecting(t, mem, "drum", Config{Journal: true, tune: tune})
		var keys []link.Key
		var items []Item
		for i := range uint64(2000) {
			keys = append(keys, nth(i, 10))
			items = append(items, Item{Key: nth(i, 10)})
		}
		must.Do(t, s.Restore(keys[:1000]))
		must.Do(t, s.Close())
		s, got := openCollecting(t, mem, "drum", Config{Journal: true, tune: tune})
		es, err := mem.ReadDir("drum")
		must.Do(t, err)
		for _, e := range es {
			if strings.HasPrefix(e.Name(), "run") {
				flip(t, mem, "drum/"+e.Name(), 30, 4)
			}
		}
		rebuilt := 0
		for n := 0; n < 2000; n += 100 {
			err := s.Restore(keys[n : n+100])
			for ; err != nil; err = s.Restore(nil) {
				var d *Damage
				if !errors.As(err, &d) || rebuilt > 100 {
					t.Fatalf("seed %d: %v", seed, err)
				}
				must.Do(t, rebuild(s, d.Bucket, keys[:n+100]))
				rebuilt++
			}
		}
		if rebuilt == 0 {
			t.Fatalf("seed %d: no damage was found", seed)
		}
		must.Do(t, s.Add(items))
		must.Do(t, s.Flush())
		if len(got) != 0 || len(s.Damaged()) > 0 {
			t.Fatalf("seed %d: %d keys are new, damaged %v; want none", seed, len(got), s.Damaged())
		}
		must.Do(t, s.Close())
	}
}
