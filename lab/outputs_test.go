package lab

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testweb/gen"
)

// An output is something that a crawl writes, or that a command makes of it. The words HERE and PLAIN stand for the
// folder of the run and for the crawl without further outputs of the same round.
type output struct {
	name    string
	flags   []string // of the crawl; nil: the crawl is the plain one
	command []string // that runs when the crawl has ended
}

var outputs = []output{
	{name: "nothing more"},
	{name: "`--links`", flags: []string{"--links"}},
	{name: "`--segment end`, without tables", flags: []string{"--segment", "end", "--segment-tables", "none"}},
	{name: "`--segment end`", flags: []string{"--segment", "end"}},
	{name: "`--segment end --store file://…`", flags: []string{"--segment", "end", "--store", "file://HERE/store"}},
	{name: "`--dedup-from`, all pages unchanged", flags: []string{"--dedup-from", "PLAIN"}},
	{name: "`tables`, afterwards", command: []string{"tables", "PLAIN"}},
	{name: "`export --wacz`, afterwards", command: []string{"export", "--wacz", "HERE/site.wacz", "PLAIN"}},
}

// An expense is what one run took.
type expense struct {
	pages, wall float64 // the time in seconds
	cpu, bytes  float64 // processor time in seconds, and files on the disk
}

// run makes the output, with a crawl in here, or of the crawl in plain, which the first output makes.
func (o output) run(b *testing.B, bin, here, plain string) expense {
	b.Helper()
	program, words := filepath.Join(bin, "orbweaver"), []string(nil)
	for _, w := range append(slices.Clone(o.flags), o.command...) {
		words = append(words, strings.NewReplacer("HERE", here, "PLAIN", plain).Replace(w))
	}
	if o.command != nil {
		cmd, began := exec.Command(program, words...), time.Now()
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%v: %v\n%s", words, err, out)
		}
		used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		return expense{cpu: used.Seconds(), wall: time.Since(began).Seconds()}
	}
	dir := filepath.Join(here, "crawl")
	if o.flags == nil {
		dir = plain
	}
	t := &Trial{Seed: 1, Dir: b.TempDir(), Screen: new(bytes.Buffer), Self: filepath.Join(bin, "orblab")}
	spec := WebSpec{Spec: gen.Plain(1, 1000), Truth: true}
	spec.PagesMean = 20
	var r *crawlRun
	if err := t.serve(b.Context(), 1, spec, func(webs []*web, _ string) (err error) {
		r, err = crawlJob{Program: program, Web: webs[0], Dir: dir, Flags: words}.run(b.Context())
		return err
	}); err != nil {
		b.Fatal(err)
	}
	pages := float64(r.Summary.Pages)
	return expense{pages: pages, wall: pages / r.PagesPerS(), cpu: r.Usage.CPU.Seconds()}
}

// BenchmarkOutputs measures what each output costs, in relation to a crawl without it in the same round. Each b.N is a
// round. It prints the table of docs/lab/outputs.md:
//
//	go -C lab test -run - -bench Outputs -benchtime 3x -v .
func BenchmarkOutputs(b *testing.B) {
	built.Store(true)
	bin, err := programs()
	if err != nil {
		b.Fatal(err)
	}
	got := map[string][]expense{}
	for round := range b.N {
		home := b.TempDir()
		plain := filepath.Join(home, "plain")
		base := outputs[0].run(b, bin, home, plain)
		base.bytes = sizeBelow(b, plain)
		got[outputs[0].name] = append(got[outputs[0].name], base)
		for i := range outputs[1:] { // in another order each round
			o := outputs[1+(i+round)%(len(outputs)-1)]
			here := filepath.Join(home, fmt.Sprint(i))
			if err := os.MkdirAll(filepath.Join(here, "store"), 0o755); err != nil {
				b.Fatal(err)
			}
			c := o.run(b, bin, here, plain)
			if o.command != nil { // the crawl and the command
				c.pages, c.cpu, c.wall = base.pages, base.cpu+c.cpu, base.wall+c.wall
				c.bytes = sizeBelow(b, plain)
			}
			c.bytes += sizeBelow(b, here)
			got[o.name] = append(got[o.name], c)
			if err := os.RemoveAll(here); err != nil {
				b.Fatal(err)
			}
			if err := os.RemoveAll(filepath.Join(plain, "tables")); err != nil {
				b.Fatal(err)
			}
		}
	}
	var table bytes.Buffer
	fmt.Fprintf(&table, "%s\n\n| output | pages/s | to plain | CPU (µs a page) | to plain | disk (kB a page) | "+
		"to plain |\n|---|---:|---:|---:|---:|---:|---:|\n", time.Now().UTC().Format("2006-01-02 15:04"))
	for _, o := range outputs {
		of := func(value func(expense) float64) (middle, ratio float64) {
			var values, ratios []float64
			for i, c := range got[o.name] {
				values = append(values, value(c))
				ratios = append(ratios, value(c)/value(got[outputs[0].name][i]))
			}
			slices.Sort(values)
			slices.Sort(ratios)
			return values[len(values)/2], ratios[len(ratios)/2]
		}
		speed, slower := of(func(c expense) float64 { return c.pages / c.wall })
		cpu, more := of(func(c expense) float64 { return 1e6 * c.cpu / c.pages })
		disk, larger := of(func(c expense) float64 { return c.bytes / 1e3 / c.pages })
		fmt.Fprintf(&table, "| %s | %.0f | %.2f | %.0f | %.2f | %.1f | %.2f |\n", o.name, speed, slower, cpu, more,
			disk, larger)
	}
	b.Log("\n" + table.String())
}

// sizeBelow returns the bytes of all files below a folder.
func sizeBelow(b *testing.B, dir string) (size float64) {
	b.Helper()
	err := filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			size += float64(info.Size())
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return size
}
