package cluster

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/orbweaver/orbweaver/internal/cluster/handoff"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

// TestOldBlocks: an agent of an earlier version has blocked hosts. Its heir puts the blocks in force before it learns
// anything of the hosts, and keeps the replica until it could. A living agent that hands the hosts over is told of the
// error, and hands them over again.
func TestOldBlocks(t *testing.T) {
	store, err := handoff.Open(testdisk.NewMem(), "replica", handoff.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	lost := handoff.Source{Name: "a2", Instance: [16]byte{7}}
	var batch []byte
	for name, blocked := range map[string]bool{"a.example": true, "b.example": false, "c.example": true} {
		r := handoff.Record{Kind: handoff.Clock, Name: name, Rest: handoff.Rest{Slow: 1, Blocked: blocked}}
		batch = r.AppendTo(batch)
	}
	if err := store.Append(lost, batch); err != nil {
		t.Fatal(err)
	}
	fails := errors.New("the disk is full")
	var got []string
	cl := New(Others{Blocked: func(_ context.Context, hosts []string) error {
		got = slices.Sorted(slices.Values(hosts))
		return fails
	}})
	want := []string{"a.example", "c.example"}
	if _, err := cl.TakeOver(t.Context(), store, lost, func(string) bool { return true }); !errors.Is(err, fails) ||
		len(store.Sources()) != 1 {
		t.Errorf("takeover: %v, %d replicas; want the error, and the replica", err, len(store.Sources()))
	}
	if !slices.Equal(got, want) {
		t.Errorf("takeover: blocked %q, want %q", got, want)
	}
	got = nil
	if err := cl.Handed(t.Context(), "a2", batch); !errors.Is(err, fails) || !slices.Equal(got, want) {
		t.Errorf("handed over: %v, blocked %q; want the error, and %q", err, got, want)
	}
}
