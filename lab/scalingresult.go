package lab

import (
	"slices"

	"github.com/dustin/go-humanize"
)

// result returns the measurements, a place for each run.
func (x *Scaling) result(rs []ScalingRun) *Result {
	d := newData("kind", "agents", "run", "threads")
	d.Fact("hosts_timed", scalingHosts*slices.Max(x.Agents))
	d.Fact("pages_of_host", scalingPages)
	d.Fact("memory", scalingMemory)
	d.Fact("line", humanize.Bytes(uint64(x.Bandwidth)))
	d.Fact("line_bytes", x.Bandwidth)
	d.Fact("measured", x.Measured.String())
	d.Fact("warm", x.Warm.String())
	d.Fact("runs", x.Runs)
	d.Fact("hosts", x.Hosts)
	d.Fact("first", x.Agents[0])
	d.Fact("last", x.Agents[len(x.Agents)-1])
	d.Fact("aim", percent*scalingAim)
	d.Fact("aim_at", scalingAt)
	d.Fact("latency_ms", threadLatency.Milliseconds())
	for _, r := range rs {
		at := []any{r.Kind, r.Agents, r.Run}
		if r.Threads > 0 {
			at = append(at, r.Threads)
		}
		d.At(at...).All(r)
	}
	name := "scaling"
	if len(x.Parts) == 1 {
		name += "-" + x.Parts[0]
	}
	return &Result{Name: name, Template: "scaling", Rows: d}
}
