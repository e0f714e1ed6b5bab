package node

import (
	"encoding/json"
	"testing"
	"testing/synctest"

	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

// The status tells how large the main data structures are, and their limits.
func TestSizes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSmallWeb()
		cfg := w.config(t, testdisk.NewMem())
		cfg.MemoryBytes, cfg.Frontier.MemoryBytes = 256<<20, 0
		a := opened(t, cfg)
		if _, err := a.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(operated{a}.Status().Status)
		var s struct{ Sizes []Size }
		if err == nil {
			err = json.Unmarshal(b, &s)
		}
		if err != nil {
			t.Fatal(err)
		}
		pages := int64(len(w.urls()))
		entries := map[string]int64{
			"process": 0, "known_urls": pages, "queues": 0, "robots": 2, "host_counts": 2, "addresses": 0,
			"payloads": pages - 1, // two pages are the same
		}
		limits := int64(0)
		for _, z := range s.Sizes {
			if want, ok := entries[z.Name]; !ok || z.Entries != want {
				t.Errorf("%s has %d entries, want %d", z.Name, z.Entries, want)
			}
			delete(entries, z.Name)
			if z.Name == "process" {
				continue // its limit is that of the test
			}
			limits += z.Limit
			if z.Entries > 0 && z.Memory == 0 || z.Limit > 0 && z.Memory > z.Limit {
				t.Errorf("%+v", z)
			}
		}
		if len(entries) > 0 || limits < 64<<20 || limits > 256<<20 {
			t.Errorf("missing: %v; all limits are %d bytes", entries, limits)
		}
	})
}
