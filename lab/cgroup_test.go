package lab

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// put writes a file of a simulated control group.
func put(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func said(t *testing.T, dir, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A group of either version has its limit, reports that a member was killed, and is removed.
func TestMemoryGroup(t *testing.T) {
	for name, c := range map[string]struct {
		parent, text, limit, events, spared, killed string
	}{
		"v1": {v1Limit, "9223372036854771712", v1Limit, v1Events, "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n",
			"under_oom 0\noom_kill 2\n"},
		"v2": {"cgroup.subtree_control", "cpu memory pids", v2Limit, v2Events, "low 0\noom 3\noom_kill 0\n",
			"oom 3\noom_kill 1\n"},
	} {
		t.Run(name, func(t *testing.T) {
			parent := t.TempDir()
			put(t, parent, c.parent, c.text)
			g, err := newMemoryGroup(parent, "lab", 123e6)
			if err != nil {
				t.Fatal(err)
			}
			if got := said(t, g.dir, c.limit); got != "123000000" {
				t.Errorf("limit %q", got)
			}
			if g.killed() {
				t.Error("killed without a word of it")
			}
			put(t, g.dir, c.events, c.spared)
			if g.killed() {
				t.Error("the group reports a kill, but no process was killed")
			}
			put(t, g.dir, c.events, c.killed)
			if !g.killed() {
				t.Error("not killed, and a member was")
			}
			for _, f := range []string{c.limit, c.events} { // the kernel's files go with the folder
				if err := os.Remove(filepath.Join(g.dir, f)); err != nil {
					t.Fatal(err)
				}
			}
			if err := g.remove(); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(g.dir); !os.IsNotExist(err) {
				t.Errorf("is still there: %v", err)
			}
		})
	}
}

func TestMemoryGroupRefused(t *testing.T) {
	empty, without := t.TempDir(), t.TempDir()
	put(t, without, "cgroup.subtree_control", "cpu pids")
	for _, parent := range []string{empty, without, filepath.Join(empty, "none")} {
		if _, err := newMemoryGroup(parent, "lab", 1e6); !errors.Is(err, ErrGroup) ||
			!strings.Contains(err.Error(), "subtree_control") {
			t.Errorf("%v", err)
		}
	}
	if es, err := os.ReadDir(empty); err != nil || len(es) > 0 {
		t.Errorf("left behind: %v, %v", es, err)
	}
}

// A store's process joins its group before it opens the store.
func TestStoreJoinsGroup(t *testing.T) {
	group := t.TempDir()
	spec := StoreSpec{Store: "map", Shape: "zipf", Dir: t.TempDir(), Group: group, Points: []int64{1000}, Checks: 1000,
		Window: time.Minute, Limit: time.Minute}
	run := func() error {
		js, err := json.Marshal(spec)
		if err != nil {
			t.Fatal(err)
		}
		return RunStore(context.Background(), js, io.Discard)
	}
	if err := run(); err != nil {
		t.Fatal(err)
	}
	if got := said(t, group, groupMembers); got != strconv.Itoa(os.Getpid()) {
		t.Errorf("joined: %q, want process %d", got, os.Getpid())
	}
	spec.Group = filepath.Join(group, "none")
	if err := run(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no such group: %v", err)
	}
}

// A run with a bounded page cache ends before it measures if it cannot bound the page cache.
func TestPageCacheNeedsGroup(t *testing.T) {
	x := &Seen{Keys: 1000, PageCache: 1 << 20, Group: t.TempDir(), Stores: []string{"drum"}}
	_, err := x.Run(context.Background(), (&Trial{Quick: true, Seed: 1, Screen: io.Discard}).with(t.TempDir()))
	if !errors.Is(err, ErrGroup) {
		t.Errorf("%v, want %v", err, ErrGroup)
	}
}
