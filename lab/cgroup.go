package lab

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A memoryGroup is a control group of Linux. It bounds the memory of one process together
// with the page cache of its files.
type memoryGroup struct {
	dir string
	v1  bool
}

// ErrGroup reports that the experiment cannot create control groups with a memory limit in
// the given group.
var ErrGroup = errors.New("cannot create control groups with a memory limit")

// Files of control groups.
const (
	v1Limit, v1Events = "memory.limit_in_bytes", "memory.oom_control"
	v2Limit, v2Events = "memory.max", "memory.events"
	v2Swap            = "memory.swap.max"
	groupMembers      = "cgroup.procs"
)

// newMemoryGroup creates the group name in parent. parent is the folder of a control group of
// version 2 that enables the memory controller for its children, or of a group in the memory
// hierarchy of version 1. The caller removes the new group.
func newMemoryGroup(parent, name string, limit int64) (*memoryGroup, error) {
	g := &memoryGroup{dir: filepath.Join(parent, name)}
	if _, err := os.Stat(filepath.Join(parent, v1Limit)); err == nil {
		g.v1 = true
	} else {
		passed, err := os.ReadFile(filepath.Join(parent, "cgroup.subtree_control"))
		if err != nil || !bytes.Contains(passed, []byte("memory")) {
			return nil, fmt.Errorf("%w: %s is not a control group that enables the memory controller for its "+
				"children; as root, \"mkdir %[2]s && echo +memory > %[2]s/cgroup.subtree_control\" "+
				"makes one where cgroup v2 is mounted", ErrGroup, parent)
		}
	}
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		return nil, fmt.Errorf("%w: %w; run it as root, or in a group that is delegated to this user", ErrGroup, err)
	}
	name = v2Limit
	if g.v1 {
		name = v1Limit
	}
	err := g.write(name, limit)
	// A kernel without swap has no such file.
	if _, serr := os.Stat(filepath.Join(g.dir, v2Swap)); err == nil && !g.v1 && serr == nil {
		err = g.write(v2Swap, 0)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", ErrGroup, err), g.remove())
	}
	return g, nil
}

func (g *memoryGroup) write(name string, n int64) error {
	return os.WriteFile(filepath.Join(g.dir, name), strconv.AppendInt(nil, n, 10), 0o644)
}

// joinMemoryGroup moves this process into the group with the folder dir.
func joinMemoryGroup(dir string) error {
	if err := (&memoryGroup{dir: dir}).write(groupMembers, int64(os.Getpid())); err != nil {
		return fmt.Errorf("join %s: %w", dir, err)
	}
	return nil
}

// killed reports whether the kernel has killed a process of the group because it exceeded the
// limit.
func (g *memoryGroup) killed() bool {
	name := v2Events
	if g.v1 {
		name = v1Events
	}
	b, err := os.ReadFile(filepath.Join(g.dir, name))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(b)) {
		var n int64
		if _, err := fmt.Sscanf(line, "oom_kill %d", &n); err == nil && n > 0 {
			return true
		}
	}
	return false
}

// remove removes the group. Its processes have ended, but the kernel may take a moment to
// notice, so remove tries again for a while.
func (g *memoryGroup) remove() error {
	for tries := 0; ; tries++ {
		err := os.Remove(g.dir)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if tries == 50 {
			return fmt.Errorf("remove the control group: %w; remove it with rmdir", err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}
