package seen_test

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/orbweaver/orbweaver/disk"
	"github.com/orbweaver/orbweaver/seen"
	"github.com/orbweaver/orbweaver/weburl"
	"pgregory.net/rapid"
)

func open(t testing.TB, cfg seen.Config, emit func([]seen.Item) error) *seen.Store {
	t.Helper()
	s, err := seen.Open(disk.NewMem(), "seen", cfg, emit)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func compare(a, b weburl.Key) int {
	return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Path, b.Path))
}

func contents(t interface{ Fatal(...any) }, each func(func([]weburl.Key) error) error) []weburl.Key {
	var all []weburl.Key
	if err := each(func(b []weburl.Key) error {
		if len(b) == 0 || len(b) > 4096 {
			t.Fatal("a block of", len(b))
		}
		all = append(all, b...)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(all, compare)
	return all
}

// TestAgainstMap runs random operations on a Store and on a map; rapid logs
// the seed of a failure.
func TestAgainstMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		model := map[weburl.Key]bool{}
		var got []seen.Item
		s, err := seen.Open(disk.NewMem(), "seen", seen.Config{}, func(items []seen.Item) error {
			got = append(got, items...)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		// Few hosts and small numbers make duplicates and zero keys; the wide
		// ones fill segments until they split.
		host := rapid.OneOf(rapid.Uint64Range(0, 3), rapid.Just(^uint64(0)))
		path := rapid.OneOf(rapid.Uint64Range(0, 40), rapid.Uint64())
		key := rapid.Custom(func(t *rapid.T) weburl.Key { return weburl.Key{Host: host.Draw(t, "host"), Path: path.Draw(t, "path")} })
		serial := 0
		t.Repeat(map[string]func(*rapid.T){
			"Add": func(t *rapid.T) {
				got = got[:0]
				var items, want []seen.Item
				for _, k := range rapid.SliceOfN(key, 0, 60).Draw(t, "keys") {
					serial++
					it := seen.Item{Key: k, Aux: fmt.Append(nil, serial)}
					items = append(items, it)
					if !model[k] {
						model[k] = true
						want = append(want, it)
					}
				}
				if err := s.Add(items); err != nil {
					t.Fatal(err)
				}
				if err := s.Flush(); err != nil {
					t.Fatal(err)
				}
				if !slices.EqualFunc(got, want, func(a, b seen.Item) bool { return a.Key == b.Key && string(a.Aux) == string(b.Aux) }) {
					t.Fatalf("emitted %v, want %v", got, want)
				}
			},
			"AddMany": func(t *rapid.T) {
				rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
				h := host.Draw(t, "host")
				got = got[:0]
				items := make([]seen.Item, 3000)
				want := 0
				for i := range items {
					items[i].Key = weburl.Key{Host: h, Path: rng.Uint64()}
					if !model[items[i].Key] {
						want++
					}
					model[items[i].Key] = true
				}
				if err := s.Add(items); err != nil {
					t.Fatal(err)
				}
				if len(got) != want {
					t.Fatalf("emitted %d of %d", len(got), want)
				}
			},
			"Restore": func(t *rapid.T) {
				got = got[:0]
				ks := rapid.SliceOfN(key, 0, 20).Draw(t, "keys")
				for _, k := range ks {
					model[k] = true
				}
				if err := s.Restore(ks); err != nil {
					t.Fatal(err)
				}
				if len(got) != 0 {
					t.Fatalf("Restore emitted %v", got)
				}
			},
			"Drop": func(t *rapid.T) {
				h := host.Draw(t, "host")
				n := int64(0)
				for k := range model {
					if k.Host == h {
						delete(model, k)
						n++
					}
				}
				if d := s.Drop(h); d != n {
					t.Fatalf("Drop(%d) = %d, want %d", h, d, n)
				}
			},
			"Range": func(t *rapid.T) {
				h := host.Draw(t, "host")
				have := contents(t, func(fn func([]weburl.Key) error) error { return s.Range(h, fn) })
				if want := sorted(model, func(k weburl.Key) bool { return k.Host == h }); !slices.Equal(have, want) {
					t.Fatalf("Range(%d) = %d keys, want %d", h, len(have), len(want))
				}
			},
			"": func(t *rapid.T) {
				if s.Len() != int64(len(model)) {
					t.Fatalf("Len() = %d, want %d", s.Len(), len(model))
				}
			},
		})
		if have, want := contents(t, s.Each), sorted(model, nil); !slices.Equal(have, want) {
			t.Fatalf("Each gave %d keys, want %d", len(have), len(want))
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

func sorted(model map[weburl.Key]bool, keep func(weburl.Key) bool) []weburl.Key {
	var out []weburl.Key
	for k := range model {
		if keep == nil || keep(k) {
			out = append(out, k)
		}
	}
	slices.SortFunc(out, compare)
	return out
}

// TestManyHosts fills a Store through many splits and moves it to another one.
func TestManyHosts(t *testing.T) {
	const seed, n = 42, 300_000
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 2))
	model := map[weburl.Key]bool{}
	emitted := 0
	s := open(t, seen.Config{}, func(items []seen.Item) error { emitted += len(items); return nil })
	batch := make([]seen.Item, 62)
	for len(model) < n {
		for i := range batch {
			h := uint64(1) << rng.IntN(64) // one host in 64 takes a share of everything
			if rng.IntN(3) == 0 {
				h = uint64(rng.IntN(500))
			}
			batch[i].Key = weburl.Key{Host: h, Path: rng.Uint64N(1 << 40)}
			model[batch[i].Key] = true
		}
		if err := s.Add(batch); err != nil {
			t.Fatal(err)
		}
	}
	if emitted != len(model) || s.Len() != int64(len(model)) {
		t.Fatalf("emitted %d, Len() %d, want %d", emitted, s.Len(), len(model))
	}
	other := open(t, seen.Config{}, func([]seen.Item) error { t.Error("Restore emitted"); return nil })
	if err := s.Each(other.Restore); err != nil {
		t.Fatal(err)
	}
	if want := sorted(model, nil); !slices.Equal(contents(t, other.Each), want) {
		t.Error("the copy differs")
	}
	before := s.MemoryBytes()
	for h := range uint64(500) {
		s.Drop(h)
	}
	for i := range 64 {
		s.Drop(1 << i)
	}
	if s.Len() != 0 {
		t.Errorf("Len() = %d after dropping every host", s.Len())
	}
	if after := s.MemoryBytes(); after > before/5 {
		t.Errorf("%d bytes after dropping every host, %d before", after, before)
	}
}

func TestErrors(t *testing.T) {
	boom := errors.New("boom")
	one := []seen.Item{{Key: weburl.Key{Host: 1, Path: 2}}}

	s := open(t, seen.Config{}, func([]seen.Item) error { return boom })
	if err := s.Add(one); err != boom {
		t.Errorf("Add = %v, want emit's error", err)
	}
	if err := s.Flush(); err != boom {
		t.Errorf("Flush after an error = %v, want it again", err)
	}

	s = open(t, seen.Config{}, func([]seen.Item) error { return nil })
	if err := s.Add(one); err != nil {
		t.Fatal(err)
	}
	if err := s.Each(func([]weburl.Key) error { return boom }); err != boom {
		t.Errorf("Each = %v, want the callback's error", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Add(one); err == nil {
		t.Error("Add after Close succeeded")
	}

	s = open(t, seen.Config{MemoryBytes: 300_000}, func([]seen.Item) error { return nil })
	var err error
	n := uint64(0)
	for ; err == nil && n < 1<<20; n++ {
		err = s.Add([]seen.Item{{Key: weburl.Key{Host: 1, Path: n}}})
	}
	if !errors.Is(err, seen.ErrMemory) || n < 1000 {
		t.Errorf("after %d keys: %v, want ErrMemory", n, err)
	}
}

func TestOpenEmptiesDir(t *testing.T) {
	m := disk.NewMem()
	if err := m.MkdirAll("state/seen/old", 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := seen.Open(m, "state/seen", seen.Config{}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Stat("state/seen/old"); err == nil {
		t.Error("what was in the directory is still there")
	}
	fail := disk.NewFaulty(m, disk.FailFrom(1, errors.New("EIO")))
	if _, err := seen.Open(fail, "state/seen", seen.Config{}, nil); err == nil {
		t.Error("Open hid the disk's error")
	}
}

// TestBytesPerKey holds the store to 24 bytes a key at every size, however the
// keys are spread over hosts.
func TestBytesPerKey(t *testing.T) {
	for _, hosts := range []uint64{1, 100, 1 << 40} {
		s := open(t, seen.Config{}, func([]seen.Item) error { return nil })
		rng := rand.New(rand.NewPCG(7, hosts))
		keys := make([]weburl.Key, 1000)
		worst := 0.0
		for s.Len() < 1_000_000 {
			for i := range keys {
				keys[i] = weburl.Key{Host: rng.Uint64N(hosts), Path: rng.Uint64()}
			}
			if err := s.Restore(keys); err != nil {
				t.Fatal(err)
			}
			if s.Len() > 300_000 {
				worst = max(worst, float64(s.MemoryBytes())/float64(s.Len()))
			}
		}
		t.Logf("%d hosts: at most %.1f bytes a key, %.1f at the end", hosts, worst, float64(s.MemoryBytes())/float64(s.Len()))
		if worst > 24 {
			t.Errorf("%d hosts: %.1f bytes a key, want at most 24", hosts, worst)
		}
	}
}

// TestAllocations: a batch of known URLs allocates nothing.
func TestAllocations(t *testing.T) {
	s := open(t, seen.Config{}, func([]seen.Item) error { return nil })
	batch := make([]seen.Item, 62)
	for i := range batch {
		batch[i].Key = weburl.Key{Host: uint64(i % 7), Path: uint64(i)}
	}
	if err := s.Add(batch); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() {
		if err := s.Add(batch); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations per Add of known URLs", n)
	}
}

// BenchmarkAdd checks pages of 62 links, one in ten new, against a store that
// already holds ten million keys of a thousand hosts of very different sizes.
func BenchmarkAdd(b *testing.B) {
	const size = 10_000_000
	s := open(b, seen.Config{}, func([]seen.Item) error { return nil })
	// The i-th key is a function of i, so that old ones can be asked again.
	key := func(i uint64) weburl.Key {
		x := i * 0x9e3779b97f4a7c15
		x ^= x >> 29
		x *= 0xbf58476d1ce4e5b9
		x ^= x >> 32
		return weburl.Key{Host: uint64(1000 / (1 + x%1000)), Path: x}
	}
	next := uint64(1)
	keys := make([]weburl.Key, 1000)
	for next < size {
		for i := range keys {
			keys[i] = key(next)
			next++
		}
		if err := s.Restore(keys); err != nil {
			b.Fatal(err)
		}
	}
	rng := rand.New(rand.NewPCG(1, 1))
	batch := make([]seen.Item, 62)
	b.ReportAllocs()
	for b.Loop() {
		for i := range batch {
			if i%10 == 0 {
				batch[i].Key = key(next)
				next++
			} else {
				batch[i].Key = key(1 + rng.Uint64N(next-1))
			}
		}
		if err := s.Add(batch); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(s.MemoryBytes())/float64(s.Len()), "bytes/key")
	b.ReportMetric(float64(b.N)*62/b.Elapsed().Seconds(), "checks/s")
}
