package lab

import (
	"slices"
	"time"

	"github.com/dustin/go-humanize"
)

// result returns the measurements, a place for each run.
func (x *Scaling) result(rs []ScalingRun, ws []WholeCrawl) *Result {
	d := newData("kind", "agents", "run")
	d.Fact("hosts_timed", scalingHosts*slices.Max(x.Agents))
	d.Fact("pages_of_host", scalingPages)
	d.Fact("memory", scalingMemory)
	d.Fact("line", humanize.Bytes(uint64(x.Bandwidth)))
	d.Fact("line_bytes", x.Bandwidth)
	d.Fact("measured", x.Measured.Round(time.Second).String())
	d.Fact("warm", x.Warm.Round(time.Second).String())
	d.Fact("runs", x.Runs)
	d.Fact("hosts", x.Hosts)
	d.Fact("first", x.Agents[0])
	d.Fact("last", x.Agents[len(x.Agents)-1])
	d.Fact("aim", percent*scalingAim)
	d.Fact("aim_at", scalingAt)
	for i, r := range rs {
		d.At("line", r.Agents, i/len(x.Agents)+1).All(r)
	}
	for _, w := range ws {
		d.At("whole", w.Agents, 1).All(w)
	}
	return &Result{Name: "scaling", Rows: d}
}
