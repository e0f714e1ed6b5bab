package lab

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

// targets are the values that our store has to reach at numbers of known keys.
var targets = []struct {
	keys    int64
	perS    float64
	ram     int64
	diskKey float64
	ramKey  float64
	block   time.Duration
}{
	{1e9, 1e6, 2e9, 6, 1.5, 10 * time.Millisecond},
	{1e8, 2e6, 512e6, 6, 1.5, 10 * time.Millisecond},
}

// indexBytes is the name under which a store tells the bytes in RAM for its keys on disk.
const indexBytes = "index_bytes"

// runBytes is the name under which a store tells the bytes of its keys on disk, without keys that
// wait for their answer.
const runBytes = "run_bytes"

// result returns the measurements: a place for each store, for each of its points, and for each target of ours.
func (x *Seen) result(rs []*storeResult) *Result {
	d := newData("stream", "store", "point", "against")
	d.Fact("batch", batchItems)
	d.Fact("checks_at_most", windowChecks)
	d.Fact("window", (x.Each / windowParts).String())
	d.Fact("each", x.Each.String())
	d.Fact("common", x.Common)
	d.Fact("most_keys", x.Keys)
	d.Fact("ours_in_all", (x.Each * time.Duration(max(1, x.Keys/x.Common))).String())
	d.Fact("memory", x.Memory)
	d.Fact("memory_at_most", x.Most)
	d.Fact("one_link_in", latencySample)
	for _, s := range rs {
		if s.Shape == x.Shapes[0] {
			d.At("", s.Kind.Title).Set("name", s.Kind.Name).Set("how", s.Kind.How)
		}
		if s.Kind.Name == "nothing" {
			d.At("", s.Kind.Title).Set("is_stream", true)
		}
		d.At(s.Shape, s.Kind.Title).Set("end", s.End.Why).Set("end_keys", s.End.Keys).Set("cpu_s_in_all", s.Usage.CPU).
			Set("wall_s_in_all", s.Usage.Wall).Set("peak_bytes", s.Usage.Peak)
		for _, p := range s.Points {
			at := d.At(s.Shape, s.Kind.Title, x.point(p)).All(p)
			for _, told := range []string{indexBytes, runBytes} {
				if n, ok := p.Told[told]; ok {
					at.Set(told, n)
				}
			}
		}
	}
	x.against(d, rs)
	return &Result{Name: x.name(), Template: "seen", Rows: d}
}

// point returns the number of keys at which a measurement was due. It had a few more.
func (x *Seen) point(p StorePoint) (due int64) {
	for _, n := range x.points(x.Keys) {
		if n <= p.Keys {
			due = n
		}
	}
	return due
}

// against compares our stores with their targets, at the numbers of keys that have targets.
func (x *Seen) against(d *Data, rs []*storeResult) {
	for _, s := range rs {
		if !s.Kind.Ours {
			continue
		}
		for _, want := range targets {
			i := slices.IndexFunc(s.Points,
				func(p StorePoint) bool { return p.Keys >= want.keys && p.Keys < want.keys*3/2 })
			if i < 0 || x.Memory > want.ram { // with more memory the check would show nothing
				continue
			}
			p := &s.Points[i]
			row := func(what, measured, target string, ok bool) {
				verdict := "reached"
				if !ok {
					verdict = "missed"
				}
				d.At(s.Shape, s.Kind.Title, x.point(*p), what).Set("measured", measured).Set("target", target).
					Set("verdict", verdict)
			}
			row("checks/s", count(p.PerS()), "at least "+count(want.perS), p.PerS() >= want.perS)
			row("RAM", humanize.Bytes(uint64(p.RAM)), "at most "+humanize.Bytes(uint64(want.ram)), p.RAM <= want.ram)
			if i == len(s.Points)-1 && s.Usage.Peak > 0 {
				row("RAM of the whole process, with program, stream and check", humanize.Bytes(uint64(s.Usage.Peak)),
					"at most "+humanize.Bytes(uint64(want.ram)), s.Usage.Peak <= want.ram)
			}
			bytes, ok := p.Told[runBytes]
			if !ok {
				bytes = p.Disk
			}
			disk := float64(bytes) / float64(p.Known)
			row("bytes a key on disk, in runs", count(disk), "at most "+count(want.diskKey), disk <= want.diskKey)
			if n, ok := p.Told[indexBytes]; ok {
				ram := float64(n) / float64(p.Known)
				row("bytes a key for filter and index", count(ram), "at most "+count(want.ramKey), ram <= want.ramKey)
			}
			row("99.9th percentile of Add", p.Block.P999.String(), "at most "+want.block.String(),
				p.Block.P999 <= want.block)
			row("false answers", count(float64(p.False())), "0", p.False() == 0)
		}
	}
}

// short10 formats a number as 20 M.
func short10(n int64) string {
	for _, u := range []struct {
		unit int64
		name string
	}{{1e9, " G"}, {1e6, " M"}, {1e3, " k"}} {
		if n >= u.unit {
			return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(n)/float64(u.unit)), ".0") + u.name
		}
	}
	return fmt.Sprint(n)
}
