package cli

import (
	"bytes"
	"io/fs"
	"math"
	"os"
	"path"
	"strconv"
	"strings"
)

// Memory returns how many bytes of memory this process can have at most, used or not: the memory of the machine, the
// limits of the process's control groups and the limit of its address space. If nothing says that, it returns
// math.MaxInt.
func Memory() int64 { return min(memoryOf(os.DirFS("/")), addressSpace()) }

// memoryOf is Memory by the files of a Linux system.
func memoryOf(system fs.FS) int64 {
	most := int64(math.MaxInt)
	if b, err := fs.ReadFile(system, "proc/meminfo"); err == nil {
		for line := range bytes.Lines(b) {
			if f := bytes.Fields(line); len(f) == 3 && string(f[0]) == "MemTotal:" {
				if n, err := strconv.ParseInt(string(f[1]), 10, 54); err == nil { // kB
					most = min(most, n<<10)
				}
			}
		}
	}
	b, err := fs.ReadFile(system, "proc/self/cgroup")
	if err != nil {
		return most
	}
	for line := range strings.Lines(string(b)) { // "0::/PATH" of version 2, "N:memory:/PATH" of version 1
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) < 3 {
			continue
		}
		root, file := "sys/fs/cgroup", "memory.max"
		switch {
		case f[1] == "memory":
			root, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		case f[0] != "0" || f[1] != "":
			continue
		}
		// A limit holds for the groups below, too. Within a container, only the root may be visible.
		for group := path.Clean("/" + f[2]); ; group = path.Dir(group) {
			if b, err := fs.ReadFile(system, path.Join(root, group, file)); err == nil { // "max" is no number
				if n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil && n > 0 {
					most = min(most, n)
				}
			}
			if group == "/" {
				break
			}
		}
	}
	return most
}
