package main

import (
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/testweb"
)

// A bandwidth is a number of bytes a second as people write it: 320Mbit, 40MB/s.
type bandwidth int64

var (
	bandwidthText = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?) ?(|k|K|M|G|Ki|Mi|Gi)(bit|bit/s|bps|B|B/s|Bps)$`)
	prefixes      = map[string]float64{"": 1, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}
)

// UnmarshalText implements encoding.TextUnmarshaler. Without its unit a number
// is none: bits and bytes are both usual.
func (b *bandwidth) UnmarshalText(text []byte) error {
	wrong := fmt.Errorf("%q is not a bandwidth; write 320Mbit or 40MB, each a second", text)
	m := bandwidthText.FindStringSubmatch(string(text))
	if m == nil {
		return wrong
	}
	x, err := strconv.ParseFloat(m[1], 64)
	x *= prefixes[m[2]]
	if m[3][0] == 'b' {
		x /= 8
	}
	if err != nil || !(x >= 1 && x < 1<<50) {
		return wrong
	}
	*b = bandwidth(x)
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (b bandwidth) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%dB", int64(b)), nil }

// shapeFlags are the line between the web and its clients.
type shapeFlags struct {
	CloseEach bool          `help:"End every connection with its first response. For recorded and generated hosts." group:"How fast"`
	Bandwidth *bandwidth    `help:"Send no more than this, such as 320Mbit or 40MB a second (default: as fast as this machine can)." placeholder:"RATE" group:"How fast"`
	Latency   time.Duration `help:"Wait so long with every response, and twice with the first of a connection." placeholder:"D" group:"How fast"`
	ShapePer  string        `help:"All clients together have that bandwidth, or each client address." enum:"all,client" default:"all" placeholder:"WHO" group:"How fast"`
}

// shape is testweb's.
func (f *shapeFlags) shape() (s testweb.Shape, err error) {
	if f.Latency < 0 {
		return s, &node.ConfigError{Text: fmt.Sprintf("--latency %s is negative; give a duration such as 50ms", f.Latency)}
	}
	s.Latency, s.PerClient = f.Latency, f.ShapePer == "client"
	if f.Bandwidth != nil {
		s.BytesPerSecond = int64(*f.Bandwidth)
	}
	return s, nil
}
