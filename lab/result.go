package lab

import (
	"bytes"
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

// An Experiment answers one question by running things.
type Experiment interface {
	// Run measures. The error of a Result that is not nil is what the
	// experiment found to be wrong; the Result is written all the same.
	Run(ctx context.Context, t *Trial) (*Result, error)
}

// A Result is what an experiment has found.
type Result struct {
	Name     string // of the files
	Title    string
	Question string
	SetUp    string // what was run, in Markdown
	Sections []Section
	// Data is the CSV: every run or sample.
	Data Table
	// Figure is the picture.
	Figure *Figure
	// Figures are what the text quotes, for the JSON.
	Figures map[string]any
	// Again is the command that measures it again.
	Again string
}

// A Section is a part of the text.
type Section struct {
	Heading string
	Table   *Table
	Text    string // in Markdown, below the table
	Shown   bool   // on the terminal, too
}

// Marker separates what the program writes in NAME.md from what people write
// below, which it keeps.
const Marker = "<!-- Below this line people write; the program keeps it. -->"

// Do runs e and writes what it found into the folder out. It says on t.Screen
// what it does, and at the end what it found.
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
	if werr := r.write(out, machine, t.Quick, t.Seed); werr != nil {
		return errors.Join(err, werr)
	}
	for _, s := range r.Sections {
		if s.Shown && s.Table != nil {
			fmt.Fprintf(t.Screen, "\n%s\n\n%s", s.Heading, s.Table.Text())
		}
	}
	fmt.Fprintf(t.Screen, "\n%s\n", filepath.Join(out, r.Name+".{md,csv,svg,json}"))
	return err
}

// write writes the four files, each whole or not at all.
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

// markdown is the text without what people wrote.
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
	fmt.Fprintf(&b, "\n## Again\n\n```sh\n%s\n```\n\n", r.Again)
	return b.String()
}

// kept is the marker with what people wrote below it.
func kept(old string) string {
	if _, below, ok := strings.Cut(old, Marker); ok {
		return Marker + below
	}
	return Marker + "\n"
}
