package drum

import (
	"encoding/binary"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// holding returns a Store with runs that holds nearly all new items, a function that opens it again, and a source of
// items.
func holding(
	t *testing.T, rng *rand.Rand, mem *testdisk.Mem,
) (s *Store, reopen func(*testdisk.Mem) *Store, item func() Item) {
	cfg := Config{Journal: true, tune: tuning{
		memKeys: 64, firstKeys: 64, filterBytes: -1, heldMin: 1 << 20, heldMost: 1 << 20, age: time.Hour,
		slabKeys: 50 + rng.IntN(400), pendingFrames: 1 + rng.IntN(4),
	}}
	reopen = func(mem *testdisk.Mem) *Store {
		s, err := Open(mem, "drum", cfg, func([]Item) error { return nil })
		must.Do(t, err)
		return s
	}
	item = func() Item {
		aux := make([]byte, rng.IntN(6000))
		if rng.IntN(2) == 0 { // the others can be compressed
			for i := range aux {
				aux[i] = byte(rng.Uint32())
			}
		}
		return Item{Key: link.Key{Host: rng.Uint64(), Path: rng.Uint64()}, Aux: aux}
	}
	s = reopen(mem)
	for !s.onDisk {
		must.Do(t, s.Add([]Item{item()}))
		synced(t, s)
	}
	return s, reopen, item
}

func synced(t *testing.T, s *Store) {
	sync, err := s.BeginSync()
	must.Do(t, err)
	must.Do(t, s.EndSync(sync, sync.Run(), []byte{1}))
}

// TestSyncOfPendingFrames checks that frames that are pending when a sync begins are durable when it ends, even if
// more is added and committed meanwhile.
func TestSyncOfPendingFrames(t *testing.T) {
	pending, crashes := 0, 0
	seed := testseed.New(t)
	for round := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, round))
		mem := testdisk.NewMem()
		s, reopen, item := holding(t, rng, mem)
		add := func(n int) {
			var items []Item
			for range n {
				items = append(items, item())
			}
			must.Do(t, s.Add(items))
		}
		for range 4 {
			for range 1 + rng.IntN(10) {
				add(rng.IntN(40))
			}
			n := s.gen.n
			sync, err := s.BeginSync()
			must.Do(t, err)
			if s.heldWriter.pending > 0 {
				pending++
			}
			ran := make(chan error)
			go func() { ran <- sync.Run() }()
			for range rng.IntN(6) {
				add(rng.IntN(20))
				if rng.IntN(3) == 0 {
					must.Do(t, s.Commit())
				}
			}
			must.Do(t, s.EndSync(sync, <-ran, []byte{1}))
			if rng.IntN(3) > 0 {
				continue
			}
			crashes++
			mem = mem.Crash(rng.Uint64())
			_ = s.Close() // ends the goroutines of the dead process
			s = reopen(mem)
			if lost := s.Lost(); len(lost) > 0 || s.gen.n < n {
				t.Fatalf("seed %d: %d of %d synced items were found, lost %v", seed, s.gen.n, n, lost)
			}
		}
		must.Do(t, s.Close())
	}
	if pending == 0 || crashes == 0 {
		t.Errorf("%d syncs with pending frames, %d crashes; the test needs both", pending, crashes)
	}
}

// TestSyncedDamageIsReported damages a frame that was synced while it was pending. Open must report damage: the frame
// was durable, so no crash can have torn it off.
func TestSyncedDamageIsReported(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	mem := testdisk.NewMem()
	s, reopen, item := holding(t, rng, mem)
	var items []Item
	for range 50 {
		items = append(items, item())
	}
	must.Do(t, s.Add(items))
	synced(t, s)
	must.Do(t, s.Commit())
	synced(t, s)
	held := s.Held(nil)
	must.Do(t, s.Close())
	last := held[len(held)-1]
	flip(t, mem, "drum/"+heldName(last.Num), last.End-1, 1)
	s = reopen(mem)
	if lost := s.Lost(); len(lost) == 0 || s.Missing(last) == 0 {
		t.Errorf("missing %d, lost %v; want both", s.Missing(last), lost)
	}
	must.Do(t, s.Close())
}

// TestCompressesIfItPays checks that a frame is compressed if that takes less time than it saves, and that its items
// are the same either way.
func TestCompressesIfItPays(t *testing.T) {
	text := strings.Repeat("http://a.example/as-links-are ", 100)
	for _, c := range []struct {
		name                 string
		packs, writes, saves float64 // ns per byte, ns per byte, share
		want                 bool
	}{
		{"fast page cache", 2, 0.4, 0.5, false},
		{"busy disk", 2, 8, 0.5, true},
		{"busy disk, little saved", 2, 8, 0.1, false},
		{"slow processor", 20, 8, 0.5, false},
	} {
		rng := rand.New(rand.NewPCG(1, 1))
		s, _, item := holding(t, rng, testdisk.NewMem())
		must.Do(t, s.commit())
		before := len(s.gen.frames)
		s.heldWriter.packs, s.heldWriter.writes, s.heldWriter.saves = c.packs, c.writes, c.saves
		var all []Item
		for range 20 {
			it := item()
			it.Aux = []byte(text)
			all = append(all, it)
		}
		must.Do(t, s.Add(all))
		must.Do(t, s.writeFrame())
		if s.heldWriter.bytes() == 0 {
			t.Errorf("%s: bytes() does not count the memory of frames", c.name)
		}
		must.Do(t, s.collectFrames(0))
		f := s.gen.frames[before] // the averages change after this frame
		var head [frameHead]byte
		_, err := f.part.file.ReadAt(head[:], f.off)
		must.Do(t, err)
		if packed := binary.LittleEndian.Uint32(head[24:]) > 0; packed != c.want ||
			packed != (int(f.size) < len(text)) {
			t.Errorf("%s: packed = %t in %d bytes, want %t", c.name, packed, f.size, c.want)
		}
		items, back, _, err := s.frameAt(f.part, f.off)
		must.Do(t, err)
		if back.n == 0 || !strings.Contains(string(items), text) {
			t.Errorf("%s: the frame returned %d items, without the text", c.name, back.n)
		}
		must.Do(t, s.Close())
	}
}
