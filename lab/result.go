package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// An Experiment answers one question by measurements.
type Experiment interface {
	// Run measures, and blocks until it is done or ctx ends. If Run returns both a Result and an
	// error, the error says which result is wrong, and Do writes the Result.
	Run(ctx context.Context, t *Trial) (*Result, error)
}

// A Result is the outcome of an experiment. A template renders its measurements.
type Result struct {
	Name string // of the files, without extension
	Rows *Data
	// Template is the name of the template. Empty means Name.
	Template string
}

// A Section is a table for the terminal, with the heading of the text.
type Section struct {
	Heading string
	Table   *Table
}

// Marker separates the text in NAME.md that the program writes from the text below it, which is
// written by hand and which the program keeps.
const Marker = "<!-- The text below this line is written by hand; the program keeps it. -->"

// Do runs e and writes its Result into the folder out. It reports progress and the Result on
// t.Screen.
func Do(ctx context.Context, e Experiment, t *Trial, out string) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return fmt.Errorf("lab: %w", err)
	}
	machine := ThisMachine(time.Now())
	dir, err := os.MkdirTemp(t.Dir, "orbweaver-lab-")
	if err != nil {
		return fmt.Errorf("lab: %w", err)
	}
	defer os.RemoveAll(dir)
	run := *t.with(dir)
	r, err := e.Run(ctx, &run)
	if r == nil {
		return err
	}
	r.Rows.Fact("again", t.Again)
	shown, werr := r.render(out, machine, t.Quick, t.Seed)
	if werr != nil {
		return errors.Join(err, werr)
	}
	for _, s := range shown {
		fmt.Fprintf(t.Screen, "\n%s\n\n%s", s.Heading, s.Table.Text())
	}
	fmt.Fprintf(t.Screen, "\n%s\n", filepath.Join(out, r.Name+".{md,csv,svg}"))
	return err
}

// render adds to the data how they were measured, and writes data, text and picture. It returns the tables for the
// terminal.
func (r *Result) render(out string, m Machine, quick bool, seed uint64) (shown []Section, err error) {
	d := r.Rows
	def(&r.Template, r.Name)
	d.Fact("name", r.Name)
	d.Fact("template", r.Template)
	d.Fact("machine", m.String())
	d.Fact("quick", quick)
	d.Fact("seed", seed)
	return Render(d, out)
}

// Render writes the CSV of data, their text and their picture into the folder out. It returns the tables for the
// terminal.
func Render(d *Data, out string) (shown []Section, err error) {
	name := d.facts["name"]
	p, err := d.render(name, d.facts["template"])
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	var data, picture bytes.Buffer
	if err := errors.Join(d.CSV(&data), p.fig.SVG(&picture)); err != nil {
		return nil, err
	}
	old, err := os.ReadFile(filepath.Join(out, name+".md"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("lab: %w", err)
	}
	files := map[string][]byte{".csv": data.Bytes(), ".svg": picture.Bytes(),
		".md": append(p.text.Bytes(), kept(string(old))...)}
	for ext, b := range files {
		if err := disk.WriteFile(disk.OS, filepath.Join(out, name+ext), b); err != nil {
			return nil, fmt.Errorf("lab: %w", err)
		}
	}
	return p.shown, nil
}

// kept returns the marker and the text below it.
func kept(old string) string {
	if _, below, ok := strings.Cut(old, Marker); ok {
		return Marker + below
	}
	return Marker + "\n"
}
