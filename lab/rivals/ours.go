package rivals

import (
	"path/filepath"

	"github.com/orbweaver/orbweaver/drum"
)

// ours is package drum, as a crawl has it.
type ours struct {
	s     *drum.Store
	asked []drum.Item
	fresh fresh
}

func openDrum(c Config) (Store, error) {
	o := &ours{fresh: fresh{emit: c.Emit}}
	var err error
	o.s, err = drum.Open(c.FS, filepath.Join(c.Dir, "drum"), drum.Config{MemoryBytes: c.memory()}, func(items []drum.Item) error {
		for i := range items {
			o.fresh.add(Item{Key: items[i].Key, Aux: items[i].Aux})
		}
		return o.fresh.flush()
	})
	return o, err
}

func (o *ours) Add(items []Item) error {
	o.asked = o.asked[:0]
	for i := range items {
		o.asked = append(o.asked, drum.Item{Key: items[i].Key, Aux: items[i].Aux})
	}
	return o.s.Add(o.asked)
}

func (o *ours) Flush() error { return o.s.Flush() }
func (o *ours) Close() error { return o.s.Close() }

// Told is what the store counts.
func (o *ours) Told() map[string]int64 {
	st := o.s.Stats()
	return map[string]int64{
		"index_bytes": st.FilterBytes, "memory_bytes": st.MemoryBytes, "runs": int64(st.Runs), "run_bytes": st.DiskBytes,
		"cache_hits": st.CacheHits, "held": st.EverHeld, "false_perhaps": st.FalsePerhaps, "passes": st.Passes, "passes_that_wrote": st.Flushes,
		"own_read_bytes": st.BytesRead, "own_written_bytes": st.BytesWritten,
	}
}
