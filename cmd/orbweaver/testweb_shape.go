package main

import (
	"time"

	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/quantity"
	"github.com/orbweaver/orbweaver/internal/testweb"
)

// shapeFlags describe the speed of the line between the web and its clients.
type shapeFlags struct {
	CloseEach bool                `help:"${testweb_close_each}" group:"Speed"`
	Bandwidth *quantity.Bandwidth `help:"${testweb_bandwidth}" placeholder:"RATE" group:"Speed"`
	Latency   time.Duration       `help:"${testweb_latency}" placeholder:"D" group:"Speed"`
	ShapePer  string              `help:"${testweb_shape_per}" enum:"all,client" default:"all" placeholder:"KIND" group:"Speed"`
}

// shape turns the flags into testweb's configuration.
func (f *shapeFlags) shape() (s testweb.Shape, err error) {
	if f.Latency < 0 {
		return s, input.Errorf("--latency %s is negative; give a duration such as 50ms",
			f.Latency)
	}
	s.Latency, s.PerClient = f.Latency, f.ShapePer == "client"
	if f.Bandwidth != nil {
		s.BytesPerSecond = int64(*f.Bandwidth)
	}
	return s, nil
}
