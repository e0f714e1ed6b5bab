package main

import (
	"fmt"
	"time"

	"github.com/orbweaver/orbweaver/internal/cli"
	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/testweb"
)

// shapeFlags are the line between the web and its clients.
type shapeFlags struct {
	CloseEach bool           `help:"End every connection with its first response. For recorded and generated hosts." group:"How fast"`
	Bandwidth *cli.Bandwidth `help:"Send no more than this, such as 320Mbit or 40MB a second (default: as fast as this machine can)." placeholder:"RATE" group:"How fast"`
	Latency   time.Duration  `help:"Wait so long with every response, and twice with the first of a connection." placeholder:"D" group:"How fast"`
	ShapePer  string         `help:"All clients together have that bandwidth, or each client address." enum:"all,client" default:"all" placeholder:"WHO" group:"How fast"`
}

// shape is testweb's.
func (f *shapeFlags) shape() (s testweb.Shape, err error) {
	if f.Latency < 0 {
		return s, &node.ConfigError{Text: fmt.Sprintf("--latency %s is negative; give a duration such as 50ms",
			f.Latency)}
	}
	s.Latency, s.PerClient = f.Latency, f.ShapePer == "client"
	if f.Bandwidth != nil {
		s.BytesPerSecond = int64(*f.Bandwidth)
	}
	return s, nil
}
