package drum

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/disk"
	"github.com/orbweaver/orbweaver/weburl"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// An owner is what a crawl is to its Store: it has a journal of the keys that
// it was given, of those that pages asked for, and of hosts that it gave away.
type owner struct {
	t         *testing.T
	rng       *rand.Rand
	cfg       Config
	mem       *disk.Mem
	faulty    *disk.Faulty
	s         *Store
	journal   []record
	committed int // records that a kill leaves
	synced    int // and a power failure
	sync      *Syncing
	syncAt    int
	crashes   int
}

var errInjected = errors.New("injected")

type record struct {
	kind byte // 'a' accepted, 'p' asked for by a page that is finished, 'd' host dropped
	key  weburl.Key
}

func (o *owner) open() {
	o.faulty = disk.NewFaulty(o.mem, nil)
	s, err := Open(o.faulty, "/drum", o.cfg, o.emit)
	if err != nil {
		o.t.Fatal(err)
	}
	if d := s.Damaged(); len(d) > 0 {
		o.t.Fatalf("after crash %d: %v", o.crashes, d)
	}
	o.s = s
	from := 0
	if m := s.Mark(); len(m) > 0 {
		from = int(binary.LittleEndian.Uint64(m))
	}
	if from > len(o.journal) {
		o.t.Fatalf("mark %d is behind the journal's end %d", from, len(o.journal))
	}
	for _, r := range o.journal[from:] {
		switch r.kind {
		case 'a':
			must(o.t, s.Restore([]weburl.Key{r.key}))
		case 'd':
			must(o.t, s.Drop(r.key.Host))
		}
	}
	o.committed, o.synced, o.sync = len(o.journal), len(o.journal), nil // Mem has synced it all
}

func (o *owner) emit(items []Item) error {
	for _, it := range items {
		o.journal = append(o.journal, record{'a', it.Key})
	}
	return nil
}

// crash loses what was not written, or not synced.
func (o *owner) crash() {
	o.crashes++
	o.faulty.Break(func(disk.Call) disk.Fault { return disk.Fault{Err: errors.New("crashed")} })
	keep := o.committed
	if o.rng.IntN(2) == 0 {
		o.mem = o.mem.Clone()
	} else {
		o.mem = o.mem.Crash(o.rng.Uint64())
		keep = o.synced
	}
	_ = o.s.Close() // the process is dead; only its goroutines are to end
	o.journal = o.journal[:keep]
	o.open()
}

// check compares the journal with what must be: each key that was asked for is
// accepted once since its host was dropped.
func (o *owner) check() {
	o.t.Helper()
	if err := o.s.Flush(); errors.Is(err, errInjected) { // a pass met it before it was healed
		o.crash()
		must(o.t, o.s.Flush())
	} else if err != nil {
		o.t.Fatal(err)
	}
	accepted, asked := map[weburl.Key]bool{}, map[weburl.Key]bool{}
	for i, r := range o.journal {
		switch r.kind {
		case 'a':
			if accepted[r.key] {
				o.t.Fatalf("record %d: %v accepted twice", i, r.key)
			}
			accepted[r.key] = true
		case 'p':
			asked[r.key] = true
		case 'd':
			for k := range accepted {
				if k.Host == r.key.Host {
					delete(accepted, k)
				}
			}
			for k := range asked {
				if k.Host == r.key.Host {
					delete(asked, k)
				}
			}
		}
	}
	for k := range asked {
		if !accepted[k] {
			o.t.Fatalf("%v was asked for and never accepted", k)
		}
	}
	got := map[weburl.Key]bool{}
	for h := range hostsOf(accepted) {
		must(o.t, o.s.Range(h, func(l List) error {
			for _, p := range l.Paths {
				got[weburl.Key{Host: h, Path: p << (64 - l.Width)}] = true
			}
			return nil
		}))
	}
	for k := range accepted {
		found := false
		for c := range uint8(maxClass + 1) {
			m := ^uint64(0) << (64 - width(c))
			found = found || got[weburl.Key{Host: k.Host, Path: k.Path & m}]
		}
		if !found {
			o.t.Fatalf("%v is not in Range", k)
		}
	}
}

func hostsOf(keys map[weburl.Key]bool) map[uint64]bool {
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
		o.journal = append(o.journal, record{'p', it.Key})
	}
	return nil
}

func (o *owner) commit() error {
	if err := o.s.Commit(); err != nil {
		return err
	}
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

func (o *owner) drop() error {
	h := randomKey(o.rng).Host
	// What is held would be answered before or after the drop, as chance has it.
	if err := o.s.Flush(); err != nil {
		return err
	}
	o.journal = append(o.journal, record{'d', weburl.Key{Host: h}})
	return o.s.Drop(h)
}

func TestCrashes(t *testing.T) {
	n := 25
	if testing.Short() {
		n = 5
	}
	for range n {
		seed := rand.Uint64()
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			o := &owner{t: t, rng: rng, cfg: Config{Journal: true, tune: small(rng)}, mem: disk.NewMem()}
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
				case r < 93:
					err = o.drop()
				case r < 95:
					o.faulty.Break(disk.FailAt(1+rng.Int64N(20), errInjected))
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
			t.Logf("%d crashes, %d flushes, %d accepted", o.crashes, flushes+o.s.Stats().Flushes, len(o.journal))
			must(t, o.s.Close())
		})
	}
}
