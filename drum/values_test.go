package drum

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/orbweaver/orbweaver/disk"
	"github.com/orbweaver/orbweaver/weburl"
)

// TestValuesAgainstMap: after each Flush all answers are there, in order, and
// what a map says. Questions and updates of one key are flushed apart, since
// an answer is that of a moment between question and emit.
func TestValuesAgainstMap(t *testing.T) {
	for range 8 {
		seed := rand.Uint64()
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 6))
			cfg := Config{Values: true, Known: true, tune: small(rng)}
			mem := disk.NewMem()
			var answers []Item
			emit := func(items []Item) error {
				for _, it := range items {
					it.Aux = append([]byte{}, it.Aux...)
					answers = append(answers, it)
				}
				return nil
			}
			s, err := Open(mem, "drum", cfg, emit)
			must(t, err)
			model := map[weburl.Key]uint64{}
			for round := range 120 {
				answers = answers[:0]
				var items []Item
				seen := map[weburl.Key]bool{}
				for len(items) < rng.IntN(80) {
					if k := randomKey(rng); !seen[k] {
						seen[k] = true
						items = append(items, Item{Key: k, Value: rng.Uint64(), Aux: strconv.AppendInt(nil, int64(len(items)), 10)})
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
					must(t, s.Check(items))
				case 1:
					must(t, s.Update(items))
				default:
					must(t, s.Add(items))
				}
				must(t, s.Flush())
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
					must(t, s.Save([]byte{1}))
					must(t, s.Close())
					s, err = Open(mem, "drum", cfg, emit)
					must(t, err)
				}
			}
			must(t, s.Close())
		})
	}
}
