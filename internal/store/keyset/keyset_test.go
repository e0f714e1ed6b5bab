package keyset_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"go.uber.org/goleak"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/keyset"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tiny is a memory limit at which the Store uses the disk all the time.
const tiny = 8 << 10

// An owner imitates a crawl. Pages bring keys, emitted keys are accepted, and a journal of accepts and finished pages
// lags behind.
type owner struct {
	t     *testing.T
	mem   *testdisk.Mem
	s     *keyset.Store
	pages [][]link.Key

	accepted []link.Key
	finished []int
	// Accepts and finished pages that the journal has written, and has synced.
	written, synced [2]int
}

func (o *owner) open() {
	o.t.Helper()
	s, err := keyset.Open(o.mem, "seen", keyset.Config{MemoryBytes: tiny}, func(items []keyset.Item) error {
		for _, it := range items {
			if want := fmt.Sprint(it.Key); string(it.Aux) != want {
				return fmt.Errorf("%v was emitted with Aux %q", it.Key, it.Aux)
			}
			o.accepted = append(o.accepted, it.Key)
		}
		return nil
	})
	if err != nil {
		o.t.Fatal(err)
	}
	o.s = s
	if s.Mark() > uint64(len(o.accepted)) {
		o.t.Fatalf("the Store has %d accepts on disk, the journal only %d", s.Mark(), len(o.accepted))
	}
	// Damage that Open found must be repaired before a table is written to disk.
	_, err = s.Repair(o.all)
	o.must(err)
	o.must(s.Restore(o.accepted[s.Mark():]))
}

// all passes all keys of the journal to Repair.
func (o *owner) all(yield func([]link.Key) error, _ func(uint64, keyset.List) error) error {
	return yield(o.accepted)
}

func (o *owner) must(err error) {
	o.t.Helper()
	if err != nil {
		o.t.Fatal(err)
	}
}

func (o *owner) visit(page int) {
	var items []keyset.Item
	for _, k := range o.pages[page] {
		items = append(items, keyset.Item{Key: k, Aux: fmt.Append(nil, k)})
	}
	o.must(o.s.Add(items))
	for i := range items {
		clear(items[i].Aux) // Add must not keep it
	}
	o.finished = append(o.finished, page)
}

func (o *owner) commit() {
	o.must(o.s.Commit())
	o.written = [2]int{len(o.accepted), len(o.finished)}
}

func (o *owner) sync() {
	o.commit()
	t, err := o.s.BeginSync()
	o.must(err)
	at := o.written
	o.must(t.Run())
	o.synced = at
	o.must(o.s.EndSync(t, nil, uint64(at[0])))
}

// crash continues with what a kill or a power failure leaves.
func (o *owner) crash(power bool, seed uint64) {
	left := o.mem.Clone()
	at := o.written
	if power {
		left, at = o.mem.Crash(seed), o.synced
	}
	_ = o.s.Close() // ends the goroutines of the dead process
	o.mem = left
	o.accepted, o.finished = o.accepted[:at[0]:at[0]], o.finished[:at[1]:at[1]]
	o.written, o.synced = at, at
	o.open()
}

// TestOnce checks that every key is accepted exactly once over crashes of any kind at any time.
func TestOnce(t *testing.T) {
	for seed := range uint64(25) {
		rng := rand.New(rand.NewPCG(seed, 31))
		o := &owner{t: t, mem: testdisk.NewMem()}
		all := map[link.Key]bool{}
		var known []link.Key
		for range 300 {
			var page []link.Key
			for range rng.IntN(30) {
				if len(known) > 0 && rng.IntN(10) < 7 {
					page = append(page, known[rng.IntN(len(known))])
					continue
				}
				k := link.Key{Host: uint64(rng.IntN(20)), Path: rng.Uint64()}
				if rng.IntN(50) == 0 {
					k.Path = uint64(rng.IntN(3)) << 62
				}
				page, known = append(page, k), append(known, k)
			}
			o.pages = append(o.pages, page)
			for _, k := range page {
				all[k] = true
			}
		}
		o.open()
		crashes := 0
		for p := range o.pages {
			o.visit(p)
			switch n := rng.IntN(100); {
			case n < 20:
				o.commit()
			case n < 40:
				o.sync()
			case n < 50:
				o.must(o.s.Emit())
			case n < 53:
				crashes++
				o.crash(rng.IntN(2) == 0, rng.Uint64())
			case n < 55:
				o.must(o.s.Flush())
			}
			done := map[int]bool{}
			for _, q := range o.finished {
				done[q] = true
			}
			for q := range p + 1 { // fetch the pages again that a crash has undone
				if !done[q] {
					o.visit(q)
				}
			}
		}
		o.must(o.s.Flush())
		st := o.s.Stats()
		count := map[link.Key]int{}
		for _, k := range o.accepted {
			count[k]++
		}
		for k := range all {
			if count[k] != 1 {
				t.Errorf("seed %d: %v was accepted %d times, want once", seed, k, count[k])
			}
		}
		if len(count) != len(all) {
			t.Errorf("seed %d: %d keys were accepted, want %d", seed, len(count), len(all))
		}
		if crashes == 0 || st.DiskBytes == 0 {
			t.Errorf("seed %d: %d crashes, %d bytes on disk; the test needs both", seed, crashes, st.DiskBytes)
		}
		o.must(o.s.Close())
	}
}

// TestSmall checks that a small crawl gets all new keys in the call that adds them, and that nothing goes to disk.
func TestSmall(t *testing.T) {
	mem := testdisk.NewMem()
	var got int
	emit := func(items []keyset.Item) error { got += len(items); return nil }
	s := must.Get(keyset.Open(mem, "seen", keyset.Config{}, emit))(t)
	rng := rand.New(rand.NewPCG(1, 1))
	for n := 0; n < 100_000; n += 50 {
		items := make([]keyset.Item, 0, 100)
		for range 50 {
			k := link.Key{Host: rng.Uint64N(1000), Path: rng.Uint64()}
			items = append(items, keyset.Item{Key: k}, keyset.Item{Key: k})
		}
		must.Do(t, s.Add(items))
		if got != n+50 {
			t.Fatalf("%d of %d new keys were emitted at once", got, n+50)
		}
	}
	if st := s.Stats(); st.DiskBytes != 0 || st.Held != 0 || s.Len() != 100_000 {
		t.Errorf("%+v, want no disk use, nothing held and 100000 keys", st)
	}
	must.Do(t, s.Close())
}

// TestDamage checks that a damaged run is rebuilt from the owner's keys, and that a Store with a damaged manifest is
// rebuilt completely.
func TestDamage(t *testing.T) {
	o := &owner{t: t, mem: testdisk.NewMem()}
	rng := rand.New(rand.NewPCG(5, 5))
	o.open()
	for p := range 200 {
		var page []link.Key
		for range 20 {
			page = append(page, link.Key{Host: uint64(rng.IntN(30)), Path: rng.Uint64()})
		}
		o.pages = append(o.pages, page)
		o.visit(p)
		o.sync()
	}
	o.must(o.s.Flush())
	o.sync()
	o.must(o.s.Close())
	es, err := o.mem.ReadDir("seen")
	o.must(err)
	whole := o.mem
	for _, e := range es {
		b, err := disk.ReadFile(whole, "seen/"+e.Name(), 1<<30)
		o.must(err)
		for range testtier.Rounds(1, 6) {
			o.mem = whole.Clone()
			c := append([]byte(nil), b...)
			if len(c) == 0 {
				continue
			}
			c[rng.IntN(len(c))] ^= 1 << rng.IntN(8)
			o.must(disk.WriteFile(o.mem, "seen/"+e.Name(), c))
			before := len(o.accepted)
			o.open()
			for p := range o.pages { // all keys are known
				var items []keyset.Item
				for _, k := range o.pages[p] {
					items = append(items, keyset.Item{Key: k, Aux: fmt.Append(nil, k)})
				}
				if err := o.s.Add(items); err != nil {
					_, err := o.s.Repair(o.all)
					o.must(err)
				}
			}
			for tries := 0; ; tries++ {
				err := o.s.Flush()
				if err == nil {
					break
				}
				if tries == 100 {
					t.Fatal(err)
				}
				_, err = o.s.Repair(o.all)
				o.must(err)
			}
			if len(o.accepted) != before {
				t.Fatalf("%s damaged: %d known keys were taken for new", e.Name(), len(o.accepted)-before)
			}
			o.must(o.s.Close())
		}
	}
}

// TestManifestDamaged checks that a damaged manifest does not lose held items. The journal has a copy of the keys, but
// none of the held items.
func TestManifestDamaged(t *testing.T) {
	o := &owner{t: t, mem: testdisk.NewMem()}
	rng := rand.New(rand.NewPCG(6, 6))
	o.open()
	found := 0
	for p := 0; found == len(o.accepted) || !o.hasManifest(); p++ {
		if p == 1000 {
			t.Fatal("no new item was ever held")
		}
		o.must(o.s.Flush())
		o.sync()
		var page []link.Key
		for range 500 {
			page = append(page, link.Key{Host: uint64(rng.IntN(30)), Path: rng.Uint64()})
		}
		found += len(page)
		o.pages = append(o.pages, page)
		o.visit(p)
		o.commit()
	}
	o.must(o.s.Close())
	b, err := disk.ReadFile(o.mem, "seen/manifest", 1<<20)
	o.must(err)
	b[len(b)-1] ^= 1
	o.must(disk.WriteFile(o.mem, "seen/manifest", b))
	o.open()
	o.must(o.s.Flush())
	if len(o.accepted) != found {
		t.Errorf("%d keys were accepted, want %d", len(o.accepted), found)
	}
	once := map[link.Key]bool{}
	for _, k := range o.accepted {
		if once[k] {
			t.Errorf("%v was accepted twice", k)
		}
		once[k] = true
	}
	o.must(o.s.Close())
}

func (o *owner) hasManifest() bool {
	_, err := o.mem.Stat("seen/manifest")
	return err == nil
}

// TestRepairAll checks that Repair rebuilds all damaged buckets, not only the first one.
func TestRepairAll(t *testing.T) {
	o := &owner{t: t, mem: testdisk.NewMem()}
	rng := rand.New(rand.NewPCG(7, 7))
	o.open()
	for p := 0; ; p++ {
		if b, err := disk.ReadFile(o.mem, "seen/manifest", 1<<20); err == nil && len(b) > 20*28 {
			break // it names at least twenty runs
		}
		var page []link.Key
		for range 50 {
			page = append(page, link.Key{Host: uint64(rng.IntN(300)), Path: rng.Uint64()})
		}
		o.pages = append(o.pages, page)
		o.visit(p)
		o.must(o.s.Flush())
		o.sync()
	}
	o.must(o.s.Close())
	es, err := o.mem.ReadDir("seen")
	o.must(err)
	for _, e := range es {
		if e.Name() == "manifest" {
			continue
		}
		b, err := disk.ReadFile(o.mem, "seen/"+e.Name(), 1<<20)
		o.must(err)
		b[len(b)/2] ^= 1
		o.must(disk.WriteFile(o.mem, "seen/"+e.Name(), b))
	}
	s, err := keyset.Open(o.mem, "seen", keyset.Config{MemoryBytes: tiny}, func(items []keyset.Item) error {
		return fmt.Errorf("%d known keys were taken for new", len(items))
	})
	o.must(err)
	repaired, err := s.Repair(o.all)
	o.must(err)
	if len(repaired) < 10 {
		t.Fatalf("%d repairs, want at least 10: %v", len(repaired), repaired)
	}
	for _, d := range repaired {
		if d.File == "" {
			t.Errorf("Repair reported no damaged file: %+v", d)
		}
	}
	if left, err := s.Repair(o.all); err != nil || len(left) > 0 {
		t.Errorf("second Repair: %v, %v; want nothing to repair", left, err)
	}
	o.must(s.Restore(o.accepted[s.Mark():]))
	for p := range o.pages {
		var items []keyset.Item
		for _, k := range o.pages[p] {
			items = append(items, keyset.Item{Key: k})
		}
		o.must(s.Add(items))
	}
	o.must(s.Flush())
	o.must(s.Close())
}
