package lab

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

// A Machine is where and when something was measured.
type Machine struct {
	Cores  int    `json:"cores"`
	CPU    string `json:"cpu"`
	Memory int64  `json:"memory_bytes"`
	Kernel string `json:"kernel"`
	OS     string `json:"os"`
	Go     string `json:"go"`
	Date   string `json:"date"` // of the start, UTC
}

// ThisMachine describes the machine; what the system does not say is empty.
func ThisMachine(now time.Time) Machine {
	m := Machine{Cores: runtime.NumCPU(), OS: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version(),
		Date: now.UTC().Format("2006-01-02 15:04")}
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		m.CPU = field(b, "model name")
	}
	if b, err := os.ReadFile("/proc/meminfo"); err == nil {
		m.Memory = kilobytes(b, "MemTotal:")
	}
	if b, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = strings.TrimSpace(string(b))
	}
	return m
}

// field is the value of the first line "name : value".
func field(b []byte, name string) string {
	for line := range bytes.Lines(b) {
		k, v, ok := bytes.Cut(line, []byte(":"))
		if ok && string(bytes.TrimSpace(k)) == name {
			return string(bytes.TrimSpace(v))
		}
	}
	return ""
}

// String is the machine in a line.
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
