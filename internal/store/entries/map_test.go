package entries

import (
	"encoding/binary"
	"errors"
	"path/filepath"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// TestPowerFailure checks that an entry that the file lost does not keep its key: the next entry with this key has it.
func TestPowerFailure(t *testing.T) {
	cfg := Config{
		Shape: Shape{Magic: "OWTEST\x00\x01", Head: 8, MaxTail: 100}, Name: "entries", Keep: true, MemoryBytes: 1,
		Keys: func(dst []link.Key, data []byte) []link.Key {
			n := binary.LittleEndian.Uint64(data)
			return append(dst, link.Key{Host: n * 0x9E3779B97F4A7C15, Path: n})
		},
	}
	entry := func(n uint64, tail string) []byte {
		return cfg.Encode(nil, binary.LittleEndian.AppendUint64(nil, n), []byte(tail))
	}
	for seed := range uint64(3) {
		mem := testdisk.NewMem()
		must.Do(t, errors.Join(mem.MkdirAll("/state", 0o755), mem.SyncDir("/")))
		fails := errors.New("the power fails")
		disk := testdisk.NewFaulty(mem, nil)
		m, err := Open(disk, "/state/map", cfg)
		must.Do(t, err)
		for n := range uint64(600) { // most buckets of drum are on disk
			must.Do(t, m.Append(entry(n, "before")))
		}
		must.Do(t, m.Sync())
		disk.Break(func(c testdisk.Call) testdisk.Fault {
			if c.Op == testdisk.OpSync && filepath.Base(c.Name) == cfg.Name {
				return testdisk.Fault{Err: fails}
			}
			return testdisk.Fault{}
		})
		for n := uint64(600); n < 650 && err == nil; n++ {
			err = m.Append(entry(n, "lost")) // it syncs if a table of drum is full
		}
		if err == nil {
			err = m.Sync()
		}
		if !errors.Is(err, fails) {
			t.Fatal(err)
		}
		mem = mem.Crash(seed)
		m.Close() // of the old disk

		if m, err = Open(mem, "/state/map", cfg); err != nil {
			t.Fatal(err)
		}
		for n := uint64(600); n < 650; n++ {
			must.Do(t, m.Append(entry(n, "after")))
		}
		for n := range uint64(650) {
			places, err := m.Look(cfg.Keys(nil, binary.LittleEndian.AppendUint64(nil, n)))
			must.Do(t, err)
			data, err := m.At(places[0].At)
			if err != nil || binary.LittleEndian.Uint64(data) != n {
				t.Fatalf("seed %d: key %d: known %t, entry %q, error %v", seed, n, places[0].Known, data, err)
			}
		}
		must.Do(t, m.Close())
	}
}
