package lab

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/prometheus/procfs"
)

// A Machine describes the machine of a measurement, and its date.
type Machine struct {
	Cores  int    `json:"cores"`
	CPU    string `json:"cpu"`
	Memory int64  `json:"memory_bytes"`
	Kernel string `json:"kernel"`
	OS     string `json:"os"`
	Go     string `json:"go"`
	Date   string `json:"date"` // start of the measurement, UTC
}

// ThisMachine describes this machine. Fields that the system does not report are empty.
func ThisMachine(now time.Time) Machine {
	m := Machine{Cores: runtime.NumCPU(), OS: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version(),
		Date: now.UTC().Format("2006-01-02 15:04")}
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		m.CPU = field(b, "model name")
	}
	if fs, err := procfs.NewDefaultFS(); err == nil {
		if info, err := fs.Meminfo(); err == nil && info.MemTotalBytes != nil {
			m.Memory = int64(*info.MemTotalBytes)
		}
	}
	if b, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = strings.TrimSpace(string(b))
	}
	return m
}

// field returns the value of the first line "name : value".
func field(b []byte, name string) string {
	for line := range bytes.Lines(b) {
		k, v, ok := bytes.Cut(line, []byte(":"))
		if ok && string(bytes.TrimSpace(k)) == name {
			return string(bytes.TrimSpace(v))
		}
	}
	return ""
}

// String describes the machine in a line.
func (m Machine) String() string {
	s := fmt.Sprintf("%s, %d cores", m.Date, m.Cores)
	if m.CPU != "" {
		s += " of " + m.CPU
	}
	if m.Memory > 0 {
		s += ", " + humanize.IBytes(uint64(m.Memory))
	}
	if m.Kernel != "" {
		s += ", " + m.OS + " " + m.Kernel
	}
	return s + ", " + m.Go
}
