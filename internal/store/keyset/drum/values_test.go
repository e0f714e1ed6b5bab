package drum

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// TestValuesAgainstMap checks that after each Flush all answers have arrived and agree with a map. Lookups and updates
// of a key are flushed separately, because an answer is correct for some moment between the call and emit.
func TestValuesAgainstMap(t *testing.T) {
	for i := range 8 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			rng := testseed.Rand(t)
			cfg := Config{Values: true, Known: true, tune: small(rng)}
			mem := testdisk.NewMem()
			var answers []Item
			emit := func(items []Item) error {
				for _, it := range items {
					it.Aux = append([]byte{}, it.Aux...)
					answers = append(answers, it)
				}
				return nil
			}
			s, err := Open(mem, "drum", cfg, emit)
			must.Do(t, err)
			model := map[link.Key]uint64{}
			for round := range 120 {
				answers = answers[:0]
				var items []Item
				seen := map[link.Key]bool{}
				for len(items) < rng.IntN(80) {
					if k := randomKey(rng); !seen[k] {
						seen[k] = true
						items = append(items, Item{Key: k, Value: rng.Uint64(),
							Aux: strconv.AppendInt(nil, int64(len(items)), 10)})
					}
				}
				want := map[int]Item{}
				o := rng.IntN(3)
				for i, it := range items {
					v, known := model[it.Key]
					switch {
					case o == 0: // Check
						want[i] = Item{Key: it.Key, Value: v, Known: known}
					case o == 1: // Update
						model[it.Key] = it.Value
					case known:
						want[i] = Item{Key: it.Key, Value: v, Known: true}
					default:
						model[it.Key] = it.Value
						want[i] = Item{Key: it.Key, Value: it.Value}
					}
				}
				switch o {
				case 0:
					must.Do(t, s.Check(items))
				case 1:
					must.Do(t, s.Update(items))
				default:
					must.Do(t, s.Add(items))
				}
				must.Do(t, s.Flush())
				for _, a := range answers {
					i, _ := strconv.Atoi(string(a.Aux))
					w, ok := want[i]
					if !ok || w.Key != a.Key || w.Known != a.Known || w.Value != a.Value {
						t.Fatalf("round %d operation %d: %+v, want %+v", round, o, a, w)
					}
					delete(want, i)
				}
				if len(want) > 0 {
					t.Fatalf("round %d: no answer for %v", round, want)
				}
				if rng.IntN(20) == 0 { // a clean stop
					must.Do(t, s.Save([]byte{1}))
					must.Do(t, s.Close())
					s, err = Open(mem, "drum", cfg, emit)
					must.Do(t, err)
				}
			}
			must.Do(t, s.Close())
		})
	}
}

// TestRestoreValues kills a Store with held items. Afterwards the keys in the owner's journal must be known with their
// values, and each new key must be emitted once.
func TestRestoreValues(t *testing.T) {
	mem := testdisk.NewMem()
	cfg := Config{Values: true, Known: true, Journal: true, tune: tuning{
		bucketBits: 1, memKeys: 50, firstKeys: 50, filterBytes: 16, heldMin: 1000, age: 5 * time.Millisecond,
	}}
	var journal []Item
	unknown := map[link.Key]int{}
	known := map[link.Key]uint64{}
	emit := func(items []Item) error {
		for _, it := range items {
			if it.Known {
				known[it.Key] = it.Value
				continue
			}
			unknown[it.Key]++
			journal = append(journal, Item{Key: it.Key, Value: it.Value})
		}
		return nil
	}
	s, err := Open(mem, "drum", cfg, emit)
	must.Do(t, err)
	var first, second []Item
	for i := range uint64(200) {
		first = append(first, Item{Key: link.Key{Host: mix(i), Path: mix(i)}, Value: i})
		second = append(second, Item{Key: link.Key{Host: mix(1000 + i), Path: mix(i)}, Value: 1000 + i})
	}
	must.Do(t, s.Add(first))
	must.Do(t, s.Save([]byte{1}))
	mark := len(journal)
	must.Do(t, s.Add(second))
	must.Do(t, s.Commit())
	must.Do(t, s.Flush())
	mem = mem.Clone() // a kill: nothing was synced since the mark
	must.Do(t, s.Close())
	old := journal
	s, err = Open(mem, "drum", cfg, emit)
	must.Do(t, err)
	if s.Stats().Held == 0 {
		t.Fatal("no item was held; the test needs some")
	}
	for i := mark; i < len(old); i += 10 {
		must.Do(t, s.RestoreValues(old[i:min(len(old), i+10)]))
	}
	must.Do(t, s.Flush())
	for k, n := range unknown {
		if n != 1 {
			t.Fatalf("%v was emitted as unknown %d times, want once", k, n)
		}
	}
	clear(known)
	must.Do(t, s.Check(append(first, second...)))
	must.Do(t, s.Flush())
	for _, it := range append(first, second...) {
		if v, ok := known[it.Key]; !ok || v != it.Value {
			t.Errorf("%v has value %d, known %t; want %d, true", it.Key, v, ok, it.Value)
		}
	}
	if err := s.Rebuild(0, nil); err == nil {
		t.Error("Rebuild of a Store with values succeeded; it would lose the values")
	}
	must.Do(t, s.Close())
}
