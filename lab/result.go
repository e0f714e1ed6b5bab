package lab

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
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

// A Result is the outcome of an experiment.
type Result struct {
	Name     string // of the files, without extension
	Title    string
	Question string
	SetUp    string // what the experiment ran, in Markdown
	Sections []Section
	// Data is the CSV, with a row per run or sample.
	Data Table
	// Figure is the picture.
	Figure *Figure
	// Figures are the numbers that the text quotes, for the JSON.
	Figures map[string]any
	// Again is the command that repeats the measurement. Do sets it.
	Again string
	// Rows, if not nil, are all measurements. A template renders them. Then the fields above are empty but for Name and
	// Again.
	// Template is its name; empty means Name.
	Rows     *Data
	Template string
	// Earlier is set if the experiment only writes again what was measured before.
	Earlier *Earlier
}

// An Earlier says when and how a result was measured.
type Earlier struct {
	Machine Machine
	Quick   bool
	Seed    uint64
}

// A Section is a part of the text.
type Section struct {
	Heading string
	Table   *Table
	Text    string // in Markdown, below the table
	Shown   bool   // show it on the terminal, too
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
	r.Again = cmp.Or(r.Again, t.Again)
	how := Earlier{machine, t.Quick, t.Seed}
	if r.Earlier != nil {
		how = *r.Earlier
	}
	written := r.write
	if r.Rows != nil {
		written = r.render
	}
	if werr := written(out, how.Machine, how.Quick, how.Seed); werr != nil {
		return errors.Join(err, werr)
	}
	for _, s := range r.Sections {
		if (s.Shown || r.Rows != nil) && s.Table != nil {
			fmt.Fprintf(t.Screen, "\n%s\n\n%s", s.Heading, s.Table.Text())
		}
	}
	files := ".{md,csv,svg,json}"
	if r.Rows != nil {
		files = ".{md,csv,svg}"
	}
	fmt.Fprintf(t.Screen, "\n%s\n", filepath.Join(out, r.Name+files))
	return err
}

// render adds to the data how they were measured, and writes data, text and picture.
func (r *Result) render(out string, m Machine, quick bool, seed uint64) error {
	d := r.Rows
	def(&r.Template, r.Name)
	d.Fact("name", r.Name)
	d.Fact("template", r.Template)
	d.Fact("machine", m.String())
	d.Fact("quick", quick)
	d.Fact("seed", seed)
	d.Fact("again", r.Again)
	shown, err := Render(d, out)
	r.Sections = shown
	return err
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

// write writes the four files. It replaces each file atomically.
func (r *Result) write(out string, m Machine, quick bool, seed uint64) error {
	name := func(ext string) string { return filepath.Join(out, r.Name+ext) }
	var data, picture bytes.Buffer
	if err := r.Data.CSV(&data); err != nil {
		return err
	}
	files := map[string][]byte{".csv": data.Bytes()}
	if r.Figure != nil {
		if err := r.Figure.SVG(&picture); err != nil {
			return err
		}
		files[".svg"] = picture.Bytes()
	}
	js, err := json.MarshalIndent(map[string]any{"experiment": r.Name, "machine": m, "quick": quick, "seed": seed,
		"figures": r.Figures}, "", "  ")
	if err != nil {
		return fmt.Errorf("json: %w", err)
	}
	files[".json"] = append(js, '\n')
	old, err := os.ReadFile(name(".md"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("lab: %w", err)
	}
	files[".md"] = []byte(r.markdown(m, quick) + kept(string(old)))
	for ext, b := range files {
		if err := disk.WriteFile(disk.OS, name(ext), b); err != nil {
			return fmt.Errorf("lab: %w", err)
		}
	}
	return nil
}

// markdown returns the text above the marker.
func (r *Result) markdown(m Machine, quick bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s.\n", r.Title, m)
	if quick {
		b.WriteString("\nA quick run: too short to quote.\n")
	}
	fmt.Fprintf(&b, "\n## Question\n\n%s\n\n## Set-up\n\n%s\n", r.Question, r.SetUp)
	if r.Figure != nil {
		fmt.Fprintf(&b, "\n![%s](%s.svg)\n", r.Figure.Alt, r.Name)
	}
	for _, s := range r.Sections {
		fmt.Fprintf(&b, "\n## %s\n", s.Heading)
		if s.Table != nil {
			b.WriteString("\n" + s.Table.Markdown())
		}
		if s.Text != "" {
			b.WriteString("\n" + strings.TrimSpace(s.Text) + "\n")
		}
	}
	fmt.Fprintf(&b, "\n## Repeat the experiment\n\n```sh\n%s\n```\n\n", r.Again)
	return b.String()
}

// kept returns the marker and the text below it.
func kept(old string) string {
	if _, below, ok := strings.Cut(old, Marker); ok {
		return Marker + below
	}
	return Marker + "\n"
}
