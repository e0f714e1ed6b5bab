package lab

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"gonum.org/v1/plot/plotter"
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

// result returns the text, tables and figures of the experiment.
func (x *Seen) result(t *Trial, rs []*storeResult) *Result {
	r := &Result{
		Name: x.name(), Title: "Stores of known URLs",
		Question: "What does it cost to find out which links are new, as the number of known URLs grows? The " +
			"experiment compares our store with common libraries and with structures in memory, by time, " +
			"bytes read and written, memory and disk space.",
		SetUp:   x.setUp(t, rs),
		Data:    seenData(rs),
		Figures: seenFigures(rs),
		Figure:  x.figure(rs),
		Again:   x.Again,
	}
	if s := x.against(rs); s != nil {
		r.Sections = append(r.Sections, *s)
	}
	for _, shape := range x.Shapes {
		r.Sections = append(r.Sections, x.common(rs, shape))
	}
	for _, shape := range x.Shapes {
		r.Sections = append(r.Sections, x.growth(rs, shape)...)
	}
	for _, shape := range x.Shapes {
		r.Sections = append(r.Sections, x.last(rs, shape))
	}
	return r
}

// setUp returns text that says what was measured.
func (x *Seen) setUp(t *Trial, rs []*storeResult) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Seed %d determines a stream of links. Each has a key of 128 bits (host, URL) and an encoding of "+
		"about 155 bytes, as real links have. The stream gives them out in batches of %s. ", t.Seed,
		humanize.Comma(batchItems))
	b.WriteString("The sizes of hosts follow a power law. The stream has two shapes:\n\n- *Uniform*: the known links " +
		"are drawn evenly from all URLs.\n- *Zipf*: known links repeat as on the real web. A cache of 50,000 URLs " +
		"answers eight checks of ten, as Broder, Najork and Wiener measured (WWW 2003).\n\nThe stream knows which of " +
		"its links are new. The experiment compares every answer of every store with it.\n\n")
	fmt.Fprintf(&b, "Each store runs alone, in a process of its own that also generates the stream. The time "+
		"includes the stream; *no store* shows its speed. New URLs fill a store to each number of keys. Then a "+
		"measurement follows, in which one link of ten is new. It covers as many links as the store has keys, but at "+
		"most %s or three tenths of its keys, and takes at most %v. It ends when the store has answered every "+
		"check.\n\n",
		humanize.Comma(windowChecks), x.Each/windowParts)
	fmt.Fprintf(&b, "Every store has %v for a shape to reach %s known keys, and is measured there. The other stores "+
		"end there. ",
		x.Each, humanize.Comma(x.Common))
	if x.Keys > x.Common {
		fmt.Fprintf(&b, "Ours continues to %s keys and has %v in all. ", humanize.Comma(x.Keys),
			x.Each*time.Duration(max(1, x.Keys/x.Common)))
	}
	fmt.Fprintf(&b, "If a store's memory can be bounded, the bound is %s, the Go runtime included. The experiment "+
		"stops a store that takes more than %s.\n\n", humanize.Bytes(uint64(x.Memory)), humanize.Bytes(uint64(x.Most)))
	b.WriteString("*Read* and *written* count the bytes of the process's system calls (rchar and wchar of " +
		"/proc/self/io). Reads of a mapped file are not counted; bbolt maps its file. The CSV also has the bytes " +
		"that reached the disk. *RAM* is the maximum of the anonymous resident memory, minus the process's memory " +
		"before it opened the store.\n\n")
	if x.PageCache > 0 {
		fmt.Fprintf(&b, "The page cache is bounded. Each store that keeps keys on disk runs in a control group of "+
			"its own. Its memory and the page cache of its files together have a limit of %s: %s for the store's "+
			"memory, and %s for the page cache. The map, the Bloom filter and *no store* keep nothing on disk and "+
			"have no limit.\n\n",
			humanize.Bytes(uint64(x.Memory+x.PageCache)), humanize.Bytes(uint64(x.Memory)),
			humanize.Bytes(uint64(x.PageCache)))
	} else {
		b.WriteString("The page cache is not bounded and holds most files whole. So a random access costs a system " +
			"call here, but no access to a disk. This favours Pebble and bbolt. `--page-cache` bounds " +
			"the page cache.\n\n")
	}
	var told []string
	for _, s := range rs {
		line := fmt.Sprintf("- **%s** (`%s`): %s", s.Kind.Title, s.Kind.Name, s.Kind.How)
		if !slices.Contains(told, line) {
			told = append(told, line)
		}
	}
	b.WriteString(strings.Join(told, "\n"))
	return b.String()
}

// against compares our store with its targets, at the largest number of keys that has targets.
func (x *Seen) against(rs []*storeResult) *Section {
	table := &Table{Columns: []Column{{Name: "store"}, {Name: "stream"}, {Name: "known keys"}, {Name: "what"},
		{Name: "measured"}, {Name: "target"}, {Name: "verdict"}}}
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
				table.Add(s.Kind.Title, s.Shape, p.Keys, what, measured, target, verdict)
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
	if len(table.Rows) == 0 {
		return nil
	}
	return &Section{Heading: "Ours against the targets", Table: table, Shown: true}
}

// cpuTold is the least processor time that the tables show per check.
const cpuTold = 100 * time.Millisecond

// growth returns the tables over the number of keys.
func (x *Seen) growth(rs []*storeResult, shape string) []Section {
	ps := x.points(x.Keys)
	head := func() *Table {
		t := &Table{Columns: []Column{{Name: "store"}}}
		for _, p := range ps {
			t.Columns = append(t.Columns, Column{Name: short10(p), Digits: 1})
		}
		return t
	}
	speed, cpu, read, written := head(), head(), head(), head()
	for i := range speed.Columns {
		speed.Columns[i].Digits, cpu.Columns[i].Digits = 0, 2
	}
	for _, s := range rs {
		if s.Shape != shape {
			continue
		}
		row := func(t *Table, f func(p *StorePoint) any) {
			cells := []any{s.Kind.Title}
			for i := range ps {
				if i < len(s.Points) {
					cells = append(cells, f(&s.Points[i]))
				} else {
					cells = append(cells, nil)
				}
			}
			t.Add(cells...)
		}
		row(speed, func(p *StorePoint) any { return p.PerS() })
		row(cpu, func(p *StorePoint) any {
			if p.CPU < cpuTold {
				return nil
			}
			return perCheck(p, int64(p.CPU)) / 1e3
		})
		row(read, func(p *StorePoint) any { return perCheck(p, p.IO.Read) })
		row(written, func(p *StorePoint) any { return perCheck(p, p.IO.Written) })
	}
	return []Section{
		{Heading: "Checks a second by known keys, " + shape, Table: speed, Shown: true,
			Text: "A cell is empty if the store was stopped before, or if only ours continues to so many keys; see " +
				"below."},
		{Heading: "Processor time a check, " + shape, Table: cpu, Text: "The time of all threads of the process in " +
			"µs, the stream included. If other programs ran on the machine, this time is more reliable than the " +
			"rate. A cell is also empty if all checks together took less than " + cpuTold.String() +
			" because the system measures processor time in hundredths of a second."},
		{Heading: "Bytes read a check, " + shape, Table: read},
		{Heading: "Bytes written a check, " + shape, Table: written},
	}
}

// common returns the table of all stores at the same number of keys. A store that ended before
// has an empty line that says why.
func (x *Seen) common(rs []*storeResult, shape string) Section {
	t := &Table{Columns: []Column{{Name: "store"}, {Name: "checks/s"}, {Name: "CPU", Unit: "µs/check", Digits: 2},
		{Name: "read", Unit: "B/check", Digits: 1}, {Name: "from disk", Unit: "B/check", Digits: 1},
		{Name: "written", Unit: "B/check", Digits: 1}, {Name: "filled in", Unit: "s"}, {Name: "RAM", Unit: "MB"},
		{Name: "disk", Unit: "B/key", Digits: 1}, {Name: "99.9 % of Add", Unit: "ms", Digits: 2},
		{Name: "false"}, {Name: "ended"}}}
	for _, s := range rs {
		if s.Shape != shape {
			continue
		}
		i := slices.IndexFunc(s.Points, func(p StorePoint) bool { return p.Keys >= x.Common })
		if i < 0 {
			t.Add(s.Kind.Title, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil,
				fmt.Sprintf("by %s at %s", s.End.Why, short10(s.End.Keys)))
			continue
		}
		p, fill := &s.Points[i], time.Duration(0)
		for _, q := range s.Points[:i+1] {
			fill += q.FillTime
		}
		wrong := any(p.False())
		if s.Kind.Name == "nothing" {
			wrong = nil
		}
		t.Add(s.Kind.Title, p.PerS(), perCheck(p, int64(p.CPU))/1e3, perCheck(p, p.IO.Read), perCheck(p, p.IO.DiskRead),
			perCheck(p, p.IO.Written), fill,
			float64(p.RAM)/1e6, float64(p.Disk)/float64(p.Known), p.Block.P999, wrong, "")
	}
	return Section{Heading: fmt.Sprintf("All at %s known keys, %s", short10(x.Common), shape), Table: t, Shown: true,
		Text: fmt.Sprintf("Each store had the same time to reach this number of keys, %v. *From disk* counts the "+
			"bytes that the system read from the disk because they were not in the page cache.", x.Each)}
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

// last returns the table of the largest number of keys that each store has reached.
func (x *Seen) last(rs []*storeResult, shape string) Section {
	t := &Table{Columns: []Column{{Name: "store"}, {Name: "known keys"}, {Name: "checks/s"},
		{Name: "CPU", Unit: "µs/check", Digits: 2}, {Name: "filled in", Unit: "s"}, {Name: "RAM", Unit: "MB"},
		{Name: "mapped", Unit: "MB"}, {Name: "disk", Unit: "B/key", Digits: 1},
		{Name: "Add, 50 %", Unit: "ms", Digits: 2}, {Name: "99 %", Unit: "ms", Digits: 2},
		{Name: "99.9 %", Unit: "ms", Digits: 2}, {Name: "longest", Unit: "ms"},
		{Name: "new after, 50 %", Unit: "ms", Digits: 1}, {Name: "longest, new", Unit: "s", Digits: 1},
		{Name: "false new"}, {Name: "false known"}, {Name: "stopped by"}}}
	for _, s := range rs {
		if s.Shape != shape {
			continue
		}
		why := ""
		if s.End.Why != "done" {
			why = fmt.Sprintf("%s at %s", s.End.Why, short10(s.End.Keys))
		}
		p := s.last()
		if p == nil {
			t.Add(s.Kind.Title, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, why)
			continue
		}
		fill := time.Duration(0)
		for i := range s.Points {
			fill += s.Points[i].FillTime
		}
		falseKnown, after, longest := any(p.Missing), any(p.New.P50), any(p.New.Max)
		if s.Kind.Name == "nothing" {
			falseKnown, after, longest = nil, nil, nil
		}
		t.Add(s.Kind.Title, p.Keys, p.PerS(), perCheck(p, int64(p.CPU))/1e3, fill, float64(p.RAM)/1e6,
			float64(p.Mapped)/1e6, float64(p.Disk)/float64(p.Known),
			p.Block.P50, p.Block.P99, p.Block.P999, p.Block.Max, after, longest, p.Twice, falseKnown, why)
	}
	return Section{Heading: "At the largest number of keys of each store, " + shape, Table: t, Shown: true,
		Text: fmt.Sprintf("- *Add*: the time for which a batch of %s links blocks its caller.\n- *New after*: the "+
			"time from then until the store reports a new link, measured for one link in %d.\n- *Filled in*: the "+
			"time to add all new keys before the measurements.\n- *Disk*: the size of all files. This includes files "+
			"of links that wait for their answer, and files that are not deleted yet.", humanize.Comma(batchItems),
			latencySample)}
}

// seenData returns the CSV.
func seenData(rs []*storeResult) Table {
	t := Table{Columns: []Column{{Name: "stream"}, {Name: "store"}, {Name: "known keys"}, {Name: "checks"},
		{Name: "time", Unit: "s"}, {Name: "flush", Unit: "s"}, {Name: "checks/s"}, {Name: "cpu", Unit: "s"},
		{Name: "read bytes"}, {Name: "written bytes"}, {Name: "disk read bytes"}, {Name: "disk written bytes"},
		{Name: "ram bytes"}, {Name: "mapped bytes"}, {Name: "index bytes"}, {Name: "run bytes"}, {Name: "disk bytes"},
		{Name: "keys at end"},
		{Name: "add p50", Unit: "µs"}, {Name: "add p99", Unit: "µs"}, {Name: "add p99.9", Unit: "µs"},
		{Name: "add max", Unit: "µs"},
		{Name: "new p50", Unit: "µs"}, {Name: "new p99", Unit: "µs"}, {Name: "new p99.9", Unit: "µs"},
		{Name: "new max", Unit: "µs"},
		{Name: "false new"}, {Name: "false known"}, {Name: "foreign"}, {Name: "cut"}, {Name: "fill keys"},
		{Name: "fill", Unit: "s"}, {Name: "fill written bytes"}}}
	for _, s := range rs {
		for _, p := range s.Points {
			cut := 0
			if p.Cut {
				cut = 1
			}
			var index, runs any
			if n, ok := p.Told[indexBytes]; ok {
				index = n
			}
			if n, ok := p.Told[runBytes]; ok {
				runs = n
			}
			t.Add(s.Shape, s.Kind.Name, p.Keys, p.Checks, p.Time, p.Flush, p.PerS(), p.CPU,
				p.IO.Read, p.IO.Written, p.IO.DiskRead, p.IO.DiskWritten, p.RAM, p.Mapped, index, runs, p.Disk, p.Known,
				p.Block.P50, p.Block.P99, p.Block.P999, p.Block.Max, p.New.P50, p.New.P99, p.New.P999, p.New.Max,
				p.Twice, p.Missing, p.Foreign, cut, p.FillKeys, p.FillTime, p.FillWritten)
		}
	}
	return t
}

// seenFigures returns the numbers that the text quotes.
func seenFigures(rs []*storeResult) map[string]any {
	all := map[string]any{}
	for _, s := range rs {
		shape, ok := all[s.Shape].(map[string]any)
		if !ok {
			shape = map[string]any{}
			all[s.Shape] = shape
		}
		shape[s.Kind.Name] = map[string]any{"points": s.Points, "end": s.End, "cpu_s": s.Usage.CPU.Seconds(),
			"wall_s": s.Usage.Wall.Seconds(), "peak_bytes": s.Usage.Peak}
	}
	return all
}

// figure draws checks per second and bytes per check over the known keys.
func (x *Seen) figure(rs []*storeResult) *Figure {
	f := &Figure{Alt: "Checks a second, and bytes read and written a check, of each store by the number of known keys"}
	for _, shape := range x.Shapes {
		speed := Panel{Title: "Checks a second, " + shape, X: "known keys", Y: "checks/s", Log: true}
		bytes := Panel{Title: "Bytes read and written a check, " + shape, X: "known keys", Y: "bytes/check",
			Log: true}
		for _, s := range rs {
			if s.Shape != shape || len(s.Points) == 0 {
				continue
			}
			var rate, moved plotter.XYs
			for i := range s.Points {
				p := &s.Points[i]
				rate = append(rate, plotter.XY{X: float64(p.Keys), Y: p.PerS()})
				// The measurement's own reads of /proc are less than this.
				if n := perCheck(p, p.IO.Read+p.IO.Written); n >= 1 {
					moved = append(moved, plotter.XY{X: float64(p.Keys), Y: n})
				}
			}
			at := 1 + slices.IndexFunc(namesOf(rs), func(name string) bool { return name == s.Kind.Name })
			speed.Lines = append(speed.Lines, Line{Name: s.Kind.Title, Points: rate, Color: at, Bold: s.Kind.Ours})
			if len(moved) > 0 {
				bytes.Lines = append(bytes.Lines, Line{Name: s.Kind.Title, Points: moved, Color: at, Bold: s.Kind.Ours})
			}
		}
		for _, p := range []Panel{speed, bytes} {
			if len(p.Lines) > 0 {
				f.Panels = append(f.Panels, p)
			}
		}
	}
	return f
}

// namesOf returns the names of the stores in rs, each once.
func namesOf(rs []*storeResult) (names []string) {
	for _, s := range rs {
		if !slices.Contains(names, s.Kind.Name) {
			names = append(names, s.Kind.Name)
		}
	}
	return names
}
