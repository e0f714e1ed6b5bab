package main

import (
	"fmt"
	"time"

	"github.com/orbweaver/orbweaver/internal/cli"
)

// DelayFlags are the flags of the delay of hosts.
type DelayFlags struct {
	Delay       cli.Delay     `help:"${delay}" default:"2s" placeholder:"D" group:"Politeness"`
	DelayFactor float64       `help:"${delay_factor}" default:"5" placeholder:"N" group:"Politeness"`
	DelayMin    time.Duration `help:"${delay_min}" default:"2s" placeholder:"D" group:"Politeness"`
	DelayMax    time.Duration `help:"${delay_max}" default:"30s" placeholder:"D" group:"Politeness"`
}

// least returns the delay that each host has at least.
func (f *DelayFlags) least() time.Duration {
	if f.Delay == cli.AutoDelay {
		return f.DelayMin
	}
	return time.Duration(f.Delay)
}

// text returns the delay for people.
func (f *DelayFlags) text() string {
	if f.Delay == cli.AutoDelay {
		return fmt.Sprintf("%g times the last response times, from %s to %s,", f.DelayFactor, f.DelayMin, f.DelayMax)
	}
	return f.Delay.String()
}

// check refuses values that no crawl can use.
func (f *DelayFlags) check() error {
	d := time.Duration(f.Delay)
	switch {
	case f.Delay == cli.AutoDelay:
	case d < 0:
		return bad("--delay %s is negative; give a duration such as 500ms, or 0, or auto", d)
	case d > mostDelay:
		return bad("--delay %s is too long; give at most %.0fh", d, mostDelay.Hours())
	}
	switch {
	case !(f.DelayFactor > 0 && f.DelayFactor <= 1000): // refuses NaN, too
		return bad("--delay-factor %g: give a number above 0, at most 1000", f.DelayFactor)
	case f.DelayMin < 0:
		return bad("--delay-min %s is negative; give a duration such as 500ms, or 0", f.DelayMin)
	case f.DelayMax < f.DelayMin:
		return bad("--delay-max %s is shorter than --delay-min %s", f.DelayMax, f.DelayMin)
	case f.DelayMax > mostDelay:
		return bad("--delay-max %s is too long; give at most %.0fh", f.DelayMax, mostDelay.Hours())
	}
	return nil
}
