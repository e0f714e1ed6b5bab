package cli

import (
	"math"
	"testing"
	"testing/fstest"
)

func TestMemory(t *testing.T) {
	const meminfo = "MemTotal:        8000000 kB\nMemFree:          100000 kB\n"
	const total = 8000000 << 10
	for _, c := range []struct {
		name  string
		files map[string]string
		want  int64
	}{
		{"unknown", nil, math.MaxInt},
		{"machine", map[string]string{"proc/meminfo": meminfo}, total},
		{"damaged", map[string]string{"proc/meminfo": "MemTotal: many kB\n", "proc/self/cgroup": "0:\n\nx\n"},
			math.MaxInt},
		{"no limit", map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a\n",
			"sys/fs/cgroup/a/memory.max": "max\n"}, total},
		{"version 2", map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a/b\n",
			"sys/fs/cgroup/a/memory.max": "2000\n", "sys/fs/cgroup/a/b/memory.max": "max\n"}, 2000},
		{"version 1", map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "5:cpu:/c\n4:memory:/a/b\n0::/\n",
			"sys/fs/cgroup/memory/a/memory.limit_in_bytes":   "9223372036854771712\n",
			"sys/fs/cgroup/c/memory.max":                     "7\n",
			"sys/fs/cgroup/memory/a/b/memory.limit_in_bytes": "3000\n"}, 3000},
		{"container", map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/../../elsewhere\n",
			"sys/fs/cgroup/memory.max": "4000\n"}, 4000},
	} {
		system := fstest.MapFS{}
		for name, text := range c.files {
			system[name] = &fstest.MapFile{Data: []byte(text)}
		}
		if got := memoryOf(system); got != c.want {
			t.Errorf("%s: %d, not %d", c.name, got, c.want)
		}
	}
	if got := Memory(); got < 1<<20 {
		t.Errorf("this process may have %d bytes", got)
	}
}
