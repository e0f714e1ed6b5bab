package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/orbweaver/orbweaver/internal/cli"
	"github.com/orbweaver/orbweaver/internal/node/settings"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/web/classify"
)

// ClassifyTestCmd implements "classify test".
type ClassifyTestCmd struct {
	JSON bool `help:"Print one JSON object."`
	modelFlag
	textFlags
}

// Help explains the tables.
func (ClassifyTestCmd) Help() string {
	return `The command prints the accuracy with its interval of 95 % confidence (Wilson), by
category, by source and by length; the confusion matrix; how far the model's
probabilities are from the truth; and the speed on one core. A text with less than
50 terms has no category, and is not judged. The length is the number of terms (by
grams of letters), rounded down to a power of two.`
}

// A classifyTest is the JSON of "classify test".
type classifyTest struct {
	Type string `json:"type"` // "classify-test"
	Kind string `json:"kind"`
	*classify.Evaluation
	TextsPerS float64 `json:"texts_per_s"`
	BytesPerS float64 `json:"bytes_per_s"`
}

// Run tests.
func (c *ClassifyTestCmd) Run(out io.Writer, errs cli.ErrorOutput) error {
	m, err := settings.Classifier(c.Model)
	if err != nil {
		return err
	}
	texts, err := c.read(errs)
	if err != nil {
		return err
	}
	defer sayLater(errs, "judges %s", plural(int64(len(texts)), "text"))()
	began, bytes := time.Now(), 0
	e := classify.Evaluate(m, texts)
	took := time.Since(began).Seconds()
	for _, t := range texts {
		bytes += len(t.Text)
	}
	r := classifyTest{"classify-test", m.Model().Kind(), e, float64(len(texts)) / took, float64(bytes) / took}
	if e.All.Of == 0 {
		return bad("no text can be judged: %d have less than %d terms, and %d have categories that the model does not "+
			"have", e.Short, m.Model().Least(), e.Foreign)
	}
	if c.JSON {
		return json.NewEncoder(out).Encode(r)
	}
	return r.print(out)
}

// sharesMost bounds the rows of a table.
const sharesMost = 40

// print writes the tables for people.
func (r *classifyTest) print(out io.Writer) error {
	low, high := r.All.Interval()
	fmt.Fprintf(out, "accuracy  %.1f %% (%.1f to %.1f) of %s; %s\n", 100*r.All.Accuracy(), 100*low, 100*high,
		plural(int64(r.All.Of), "text"), r.Kind)
	fmt.Fprintf(out, "speed     %s texts/s, %s/s on one core\n", whole(r.TextsPerS), size(r.BytesPerS))
	if r.Short > 0 {
		fmt.Fprintf(out, "short     %s with too few terms\n", plural(int64(r.Short), "text"))
	}
	if r.Foreign > 0 {
		fmt.Fprintf(out, "others    %s of categories that the model does not have\n", plural(int64(r.Foreign), "text"))
	}
	shares := func(what string, all map[string]classify.Share) error {
		names := slices.SortedFunc(maps.Keys(all), func(a, b string) int {
			return cmp.Or(cmp.Compare(all[b].Of, all[a].Of), cmp.Compare(a, b))
		})
		most := names[:min(len(names), sharesMost)]
		slices.Sort(most)
		w := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintf(w, "\n%s\ttexts\taccuracy\t95 %%\t\n", what)
		for _, name := range most {
			s := all[name]
			low, high := s.Interval()
			fmt.Fprintf(w, "%s\t%d\t%.1f %%\t%.1f to %.1f\t\n", report.OneLine(name), s.Of, 100*s.Accuracy(),
				100*low, 100*high)
		}
		if err := w.Flush(); err != nil || len(most) == len(names) {
			return err
		}
		_, err := fmt.Fprintf(out, "and %d with fewer texts: see --json\n", len(names)-len(most))
		return err
	}
	if err := shares("category", r.ByCategory); err != nil {
		return err
	}
	if len(r.BySource) > 1 {
		if err := shares("source", r.BySource); err != nil {
			return err
		}
	}
	lengths := map[string]classify.Share{}
	for from, s := range r.ByLength {
		lengths[fmt.Sprintf("%7s", humanize.Comma(int64(from)))] = s
	}
	if err := shares("length", lengths); err != nil {
		return err
	}
	if err := r.printConfusion(out); err != nil || r.Calibration == nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "\nprobability\ttexts\tmean\taccuracy\t\n")
	for i, c := range r.Calibration {
		if c.Of > 0 {
			fmt.Fprintf(w, "%.1f to %.1f\t%d\t%.3f\t%.3f\t\n", float64(i)/10, float64(i+1)/10, c.Of, c.Probability,
				c.Accuracy())
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\nThe probabilities are off by %.3f on average.\n", r.Off)
	return err
}

// printConfusion writes the confusion matrix. Columns have the first letters of the categories.
func (r *classifyTest) printConfusion(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 8, 1, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "\nis, below; called, right\t")
	for i := range r.Categories {
		fmt.Fprintf(w, "%d\t", i+1)
	}
	fmt.Fprintln(w)
	for i, row := range r.Confusion {
		fmt.Fprintf(w, "%s %d\t", report.OneLine(r.Categories[i]), i+1)
		for _, n := range row {
			fmt.Fprintf(w, "%d\t", n)
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}
