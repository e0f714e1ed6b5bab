package rivals

import (
	"path/filepath"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/keyset/drum"
)

// syncEvery is the interval at which a crawl makes its keys durable.
const syncEvery = time.Second

// ours is package drum as a crawl uses it: with an (empty) journal, and a sync of the waiting
// keys once a second.
type ours struct {
	s     *drum.Store
	fresh fresh

	sync   *drum.Syncing // in progress; nil: none
	synced chan error
	last   time.Time // start of the last sync
}

func openDrum(c Config) (Store, error) {
	o := &ours{fresh: fresh{emit: c.Emit}, synced: make(chan error, 1)}
	var err error
	o.s, err = drum.Open(c.FS, filepath.Join(c.Dir, "drum"), drum.Config{MemoryBytes: c.memory(), Journal: true},
		func(items []drum.Item) error {
			for i := range items {
				o.fresh.add(items[i])
			}
			return o.fresh.flush()
		})
	return o, err
}

func (o *ours) Add(items []Item) error {
	if err := o.s.Add(items); err != nil {
		return err
	}
	return o.step()
}

// step starts a sync if it is time, and completes the one that has run.
func (o *ours) step() error {
	if o.sync != nil {
		select {
		case err := <-o.synced:
			t := o.sync
			o.sync = nil
			return o.s.EndSync(t, err, nil)
		default:
			return nil
		}
	}
	if time.Since(o.last) < syncEvery {
		return nil
	}
	t, err := o.s.BeginSync()
	if err != nil {
		return err
	}
	o.sync, o.last = t, time.Now()
	go func() { o.synced <- t.Run() }()
	return nil
}

// Flush waits for the sync of a full table, and then emits everything new.
func (o *ours) Flush() error {
	if o.sync != nil {
		t := o.sync
		o.sync = nil
		if err := o.s.EndSync(t, <-o.synced, nil); err != nil {
			return err
		}
	}
	if o.s.WantsSync() {
		t, err := o.s.BeginSync()
		if err != nil {
			return err
		}
		if err := o.s.EndSync(t, t.Run(), nil); err != nil {
			return err
		}
	}
	return o.s.Flush()
}

func (o *ours) Close() error {
	if o.sync != nil {
		<-o.synced
	}
	return o.s.Close()
}

// Told returns the counts of the store.
func (o *ours) Told() map[string]int64 {
	st := o.s.Stats()
	return map[string]int64{
		"index_bytes": st.FilterBytes, "memory_bytes": st.MemoryBytes, "runs": int64(st.Runs),
		"run_bytes":  st.DiskBytes,
		"cache_hits": st.CacheHits, "held": st.EverHeld, "false_perhaps": st.FalsePerhaps, "passes": st.Passes,
		"passes_that_wrote": st.Flushes,
		"own_read_bytes":    st.BytesRead, "own_written_bytes": st.BytesWritten,
	}
}
