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

// A memoryGroup is a control group of Linux that bounds the memory of one
// process, with the page cache of the files that it uses.
type memoryGroup struct {
	dir string
	v1  bool
}

// ErrGroup is a control group in which no others with a limit of memory can be made.
var ErrGroup = errors.New("no memory groups can be made here")

// Files of control groups.
const (
	v1Limit, v1Events = "memory.limit_in_bytes", "memory.oom_control"
	v2Limit, v2Events = "memory.max", "memory.events"
	v2Swap            = "memory.swap.max"
	groupMembers      = "cgroup.procs"
)

// newMemoryGroup makes the group name in parent, the folder of a control group
// of version 2 that passes the memory controller on, or of version 1's memory
// hierarchy. The caller removes it.
func newMemoryGroup(parent, name string, limit int64) (*memoryGroup, error) {
	g := &memoryGroup{dir: filepath.Join(parent, name)}
	if _, err := os.Stat(filepath.Join(parent, v1Limit)); err == nil {
		g.v1 = true
	} else {
		passed, err := os.ReadFile(filepath.Join(parent, "cgroup.subtree_control"))
		if err != nil || !bytes.Contains(passed, []byte("memory")) {
			return nil, fmt.Errorf("%w: %s is not a control group that passes the memory controller on; "+
				"as root, \"mkdir %[2]s && echo +memory > %[2]s/cgroup.subtree_control\" "+
				"makes one where cgroup v2 is mounted", ErrGroup, parent)
		}
	}
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		return nil, fmt.Errorf("%w: %w; it takes root, or a group that was delegated to this user", ErrGroup, err)
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

// joinMemoryGroup moves this process into the group whose folder is dir.
func joinMemoryGroup(dir string) error {
	if err := (&memoryGroup{dir: dir}).write(groupMembers, int64(os.Getpid())); err != nil {
		return fmt.Errorf("join %s: %w", dir, err)
	}
	return nil
}

// killed reports whether the kernel has killed a member for want of memory.
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

// remove removes the group, whose members have ended. The kernel may need a
// moment until it knows that.
func (g *memoryGroup) remove() error {
	for tries := 0; ; tries++ {
		err := os.Remove(g.dir)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if tries == 50 {
			return fmt.Errorf("remove the memory group: %w; remove it with rmdir", err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}
