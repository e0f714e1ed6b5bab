package drum

import (
	"encoding/binary"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// holding is a Store with runs that holds nearly all that comes, and an item for it.
func holding(t *testing.T, rng *rand.Rand, mem *disk.Mem) (s *Store, reopen func(*disk.Mem) *Store, item func() Item) {
	cfg := Config{Journal: true, tune: tuning{
		memKeys: 64, firstKeys: 64, filterBytes: -1, heldMin: 1 << 20, heldMost: 1 << 20, age: time.Hour,
		slabKeys: 50 + rng.IntN(400), sheets: 1 + rng.IntN(4),
	}}
	reopen = func(mem *disk.Mem) *Store {
		s, err := Open(mem, "drum", cfg, func([]Item) error { return nil })
		must(t, err)
		return s
	}
	item = func() Item {
		aux := make([]byte, rng.IntN(6000))
		if rng.IntN(2) == 0 { // else it can be packed
			for i := range aux {
				aux[i] = byte(rng.Uint32())
			}
		}
		return Item{Key: weburl.Key{Host: rng.Uint64(), Path: rng.Uint64()}, Aux: aux}
	}
	s = reopen(mem)
	for !s.onDisk {
		must(t, s.Add([]Item{item()}))
		synced(t, s)
	}
	return s, reopen, item
}

func synced(t *testing.T, s *Store) {
	sync, err := s.BeginSync()
	must(t, err)
	must(t, s.EndSync(sync, sync.Run(), []byte{1}))
}

// What is on its way to its file when a sync begins is durable when it ends,
// whatever is added and committed meanwhile.
func TestSyncOfWhatIsOnItsWay(t *testing.T) {
	away, crashes := 0, 0
	seed := testseed.New(t)
	for round := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, round))
		mem := disk.NewMem()
		s, reopen, item := holding(t, rng, mem)
		add := func(n int) {
			var items []Item
			for range n {
				items = append(items, item())
			}
			must(t, s.Add(items))
		}
		for range 4 {
			for range 1 + rng.IntN(10) {
				add(rng.IntN(40))
			}
			n := s.gen.n
			sync, err := s.BeginSync()
			must(t, err)
			if s.scribe.away > 0 {
				away++
			}
			ran := make(chan error)
			go func() { ran <- sync.Run() }()
			for range rng.IntN(6) {
				add(rng.IntN(20))
				if rng.IntN(3) == 0 {
					must(t, s.Commit())
				}
			}
			must(t, s.EndSync(sync, <-ran, []byte{1}))
			if rng.IntN(3) > 0 {
				continue
			}
			crashes++
			mem = mem.Crash(rng.Uint64())
			_ = s.Close() // only its goroutines are to end
			s = reopen(mem)
			if lost := s.Lost(); len(lost) > 0 || s.gen.n < n {
				t.Fatalf("seed %d: %d of %d synced items are there, lost %v", seed, s.gen.n, n, lost)
			}
		}
		must(t, s.Close())
	}
	if away == 0 || crashes == 0 {
		t.Errorf("%d syncs with frames on their way, %d crashes", away, crashes)
	}
}

// What was synced while it was on its way to its file is known to be durable:
// damage to it is named, and not taken for what a crash tore off.
func TestSyncedIsNamed(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	mem := disk.NewMem()
	s, reopen, item := holding(t, rng, mem)
	var items []Item
	for range 50 {
		items = append(items, item())
	}
	must(t, s.Add(items))
	synced(t, s)
	must(t, s.Commit())
	synced(t, s)
	held := s.Held(nil)
	must(t, s.Close())
	last := held[len(held)-1]
	flip(t, mem, "drum/"+heldName(last.Num), last.End-1, 1)
	s = reopen(mem)
	if lost := s.Lost(); len(lost) == 0 || s.Missing(last) == 0 {
		t.Errorf("missing %d, lost %v", s.Missing(last), lost)
	}
	must(t, s.Close())
}

// Frames are packed where that takes less time than the write of what it saves,
// and come back the same either way.
func TestPacksWhatPays(t *testing.T) {
	text := strings.Repeat("http://a.example/as-links-are ", 100)
	for _, c := range []struct {
		name                 string
		packs, writes, saves float64 // ns an octet, and a share
		want                 bool
	}{
		{"a page cache takes them at once", 2, 0.4, 0.5, false},
		{"a busy disk", 2, 8, 0.5, true},
		{"a busy disk, hardly anything saved", 2, 8, 0.1, false},
		{"a slow processor", 20, 8, 0.5, false},
	} {
		rng := rand.New(rand.NewPCG(1, 1))
		s, _, item := holding(t, rng, disk.NewMem())
		must(t, s.commit())
		before := len(s.gen.frames)
		s.scribe.packs, s.scribe.writes, s.scribe.saves = c.packs, c.writes, c.saves
		var all []Item
		for range 20 {
			it := item()
			it.Aux = []byte(text)
			all = append(all, it)
		}
		must(t, s.Add(all))
		must(t, s.writeFrame())
		if s.scribe.bytes() == 0 {
			t.Errorf("%s: the memory of frames is not counted", c.name)
		}
		must(t, s.take(0))
		f := s.gen.frames[before] // those behind it have learned from it
		var head [frameHead]byte
		_, err := f.part.file.ReadAt(head[:], f.off)
		must(t, err)
		if packed := binary.LittleEndian.Uint32(head[24:]) > 0; packed != c.want || packed != (int(f.size) < len(text)) {
			t.Errorf("%s: packed is %t, in %d octets", c.name, packed, f.size)
		}
		items, back, _, err := s.frameAt(f.part, f.off)
		must(t, err)
		if back.n == 0 || !strings.Contains(string(items), text) {
			t.Errorf("%s: %d items come back, without the text", c.name, back.n)
		}
		must(t, s.Close())
	}
}
