package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/cli"
	"github.com/orbweaver/orbweaver/internal/node/settings"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/web/classify"
	"github.com/orbweaver/orbweaver/internal/web/parse"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// classifyHelp holds the help texts of "classify".
var classifyHelp = cli.Texts{
	"classify_kind": "Train this kind: bayes (Naive Bayes), lewis (Lewis's probabilistic classifier), rocchio " +
		"(nearest centroid) or logistic (logistic regression, the most accurate).",
	"classify_features": "Count these features of a text: words, pairs (words and pairs of adjacent words) or grams " +
		"(runs of one to four characters, which tell the language); default: words.",
	"classify_weigh": "With logistic, let each of the categories count the same, so that small ones are found as " +
		"well as large ones, or each of the texts, so that more texts are right.",
	"classify_min_texts": "Count only what occurs in at least N texts. A larger N makes the model smaller.",
	"classify_language": "Make a model for texts in this language, such as en: texts in other languages get the " +
		"category WORLD, and are left out here. The code must be one of the 75 that \"--model languages\" knows " +
		"(default: any language).",
	"classify_model": "Use this model file, or one of the two in the program: topics (of pages in English) or " +
		"languages.",
	"classify_content_type": "Read the page as this media type, such as \"text/html; charset=utf-8\" (default: the " +
		"one that its bytes look like).",
}

// ClassifyCmd implements "classify".
type ClassifyCmd struct {
	Train ClassifyTrainCmd `cmd:"" help:"Make a model from texts of known categories."`
	Test  ClassifyTestCmd  `cmd:"" help:"Print how often a model gives texts their category."`
	Page  ClassifyPageCmd  `cmd:"" help:"Print the category of a page."`
}

// Help explains the texts.
func (ClassifyCmd) Help() string {
	return `A model gives a text one of the categories that it was trained for. It looks at
the words of the text alone, and never changes. Two are in the program: topics tells
the topic of a page in English, and languages the language.

Training and test read lines of JSON, plain or as gzip files:

  {"category": "SCIENCE", "text": "The moon …", "source": "encyclopedia"}

The source may be missing. Other fields are ignored.

  orbweaver classify page page.html
  orbweaver classify train --out my.model train.jsonl.gz
  orbweaver classify test --model my.model test.jsonl.gz`
}

// textFlags say which texts a command reads.
type textFlags struct {
	Only  string   `help:"Read only the lines whose FIELD is VALUE, such as split=train." placeholder:"FIELD=VALUE"`
	Field string   `help:"Read the category from this field." default:"category" placeholder:"NAME"`
	Files []string `arg:"" name:"file" help:"Read texts from these files of JSON lines."`
}

// read returns the texts of all files. It tells errs how far it is if that takes long.
func (f *textFlags) read(errs io.Writer) (texts []classify.Text, err error) {
	only, value, ok := strings.Cut(f.Only, "=")
	if f.Only != "" && (!ok || only == "") {
		return nil, bad("--only %q: give the name of a field and its value, such as split=train", f.Only)
	}
	in := reading(context.Background(), errs, disk.OS, f.Files...)
	for _, name := range f.Files {
		file, err := in.OpenFile(name, os.O_RDONLY, 0)
		if err != nil {
			return nil, unreadable("the file "+name, name, err, "name a file of JSON lines")
		}
		texts, err = f.lines(name, file, only, value, texts)
		if err := errors.Join(err, file.Close()); err != nil {
			return nil, err
		}
	}
	if len(texts) == 0 {
		return nil, bad("%s: no text to read; check --only", strings.Join(f.Files, ", "))
	}
	return texts, nil
}

// maxTextLine bounds a line of a file in bytes.
const maxTextLine = 64 << 20

// lines adds the texts of a file.
func (f *textFlags) lines(name string, file io.Reader, only, value string, texts []classify.Text) ([]classify.Text,
	error) {
	in, err := unpacked(name, file)
	if err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxTextLine)
	for n := 1; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var fields map[string]any
		if err := json.Unmarshal(lines.Bytes(), &fields); err != nil {
			return nil, bad("%s:%d: %v; give one object of JSON a line", name, n, err)
		}
		if only != "" && fmt.Sprint(fields[only]) != value {
			continue
		}
		t := classify.Text{}
		var ok bool
		if t.Category, ok = fields[f.Field].(string); !ok || t.Category == "" {
			return nil, bad("%s:%d: no text in the field %q; give the name of the category's field with --field", name,
				n, f.Field)
		}
		if report.OneLine(t.Category) != t.Category {
			return nil, bad("%s:%d: the category %q has a newline, a tab or another character that cannot be shown; "+
				"give another name", name, n, t.Category)
		}
		if t.Text, ok = fields["text"].(string); !ok {
			return nil, bad("%s:%d: no field \"text\" with a text", name, n)
		}
		t.Source, _ = fields["source"].(string)
		texts = append(texts, t)
	}
	if err := lines.Err(); err != nil {
		return nil, bad("%s: %v; lines of at most 64 MB are read", name, err)
	}
	return texts, nil
}

// ClassifyTrainCmd implements "classify train".
type ClassifyTrainCmd struct {
	Kind     string `help:"${classify_kind}" default:"logistic" enum:"${classify_kinds}" placeholder:"KIND"`
	Features string `help:"${classify_features}" default:"" enum:",${classify_all_features}" placeholder:"KIND"`
	Language string `help:"${classify_language}" placeholder:"CODE"`
	Weigh    string `help:"${classify_weigh}" default:"categories" enum:"categories,texts" placeholder:"KIND"`
	MinTexts int    `help:"${classify_min_texts}" default:"2" placeholder:"N"`
	Out      string `short:"o" help:"Write the model to FILE, whose directory is created if needed." placeholder:"FILE"`
	About    string `help:"Note in the model what it was trained on." placeholder:"TEXT"`
	textFlags
}

// Run trains.
func (c *ClassifyTrainCmd) Run(out io.Writer, errs cli.ErrorOutput) error {
	if c.Out == "" {
		return bad("--out is missing; name the file for the model")
	}
	if c.Weigh != "categories" && c.Kind != classify.Logistic {
		return bad("--weigh %s has no effect with --kind %s; leave it out, or give --kind %s", c.Weigh, c.Kind,
			classify.Logistic)
	}
	if c.MinTexts < 1 {
		return bad("--min-texts %d: give a number of texts above 0", c.MinTexts)
	}
	if known := settings.Languages(); c.Language != "" && !slices.Contains(known, c.Language) {
		return bad("--language %q: give one of %s", c.Language, strings.Join(known, ", "))
	}
	texts, err := c.read(errs)
	if err != nil {
		return err
	}
	began, progress := time.Now(), newSteps(errs)
	step := func(epoch, epochs int) {
		progress.say("has learned from the texts %d of %d times", epoch, epochs)
	}
	m, err := classify.Train(texts, classify.Training{
		Kind: c.Kind, Features: c.Features, Language: c.Language, MinTexts: c.MinTexts, Step: step,
		ByTexts: c.Weigh == "texts",
	})
	if err != nil {
		return bad("%v", err)
	}
	took := time.Since(began)
	var file bytes.Buffer
	if err := m.Write(&file, c.About); err != nil {
		return err
	}
	_, digest, err := classify.Parse(file.Bytes())
	if err != nil {
		return err
	}
	written := file.Len()
	err = writeFile("--out", c.Out, func(w io.Writer) error {
		_, err := file.WriteTo(w)
		return err
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "kind        %s, by %s\ntexts       %d\ncategories  %d: %s\nfeatures    %d\n"+
		"training    %s\nmodel       %s, %s\ndigest      %s\n", m.Kind(), m.Features(), len(texts), len(m.Categories()),
		report.OneLine(strings.Join(m.Categories(), ", ")), m.Vocabulary(), took.Round(time.Millisecond), c.Out,
		size(float64(written)), digest)
	return err
}

// modelFlag names a model.
type modelFlag struct {
	Model string `short:"m" help:"${classify_model}" default:"topics" placeholder:"FILE"`
}

// ClassifyPageCmd implements "classify page".
type ClassifyPageCmd struct {
	JSON        bool   `help:"Print one JSON object."`
	ContentType string `help:"${classify_content_type}" placeholder:"TYPE"`
	modelFlag
	File string `arg:"" help:"Read the page from this file; - is standard input."`
}

// pageBody bounds a page in bytes.
const pageBody = 64 << 20

// A classifiedPage is the JSON of "classify page".
type classifiedPage struct {
	Type     string             `json:"type"` // "classified"
	Category string             `json:"category"`
	Terms    int                `json:"terms"`
	Language string             `json:"language,omitempty"`      // missing if the model is for any language
	Chances  map[string]float64 `json:"probabilities,omitempty"` // missing for rocchio, and without a category
}

// Run classifies.
func (c *ClassifyPageCmd) Run(out io.Writer) error {
	m, err := settings.Classifier(c.Model)
	if err != nil {
		return err
	}
	in := io.Reader(os.Stdin)
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return unreadable("the page "+c.File, c.File, err, "name a file")
		}
		defer f.Close()
		in = f
	}
	body, err := io.ReadAll(io.LimitReader(in, pageBody))
	if err != nil {
		return unreadable("the page "+c.File, c.File, err, "name a file")
	}
	var p parse.Page
	parse.Parse(parse.Input{URL: weburl.MustParse("http://page.invalid/"), ContentType: c.ContentType, Body: body},
		parse.Options{}, &p)
	var scratch classify.Scratch
	answer := m.Classify(p.AppendProse(nil, body), p.MainText(), &scratch)
	r := classifiedPage{Type: "classified", Category: answer.Category, Terms: answer.Terms, Language: answer.Language}
	if answer.Chances != nil {
		r.Chances = map[string]float64{}
		for i, name := range m.Categories() {
			r.Chances[name] = answer.Chances[i]
		}
	}
	if c.JSON {
		return json.NewEncoder(out).Encode(r)
	}
	unit := "term"
	if m.Model().Features() == classify.Grams {
		unit = "letter"
	}
	about := plural(int64(r.Terms), unit)
	if r.Language != "" && r.Language != classify.Unclassifiable {
		about += ", language " + r.Language
	}
	fmt.Fprintf(out, "%s  (%s)\n", report.OneLine(r.Category), about)
	if r.Category == classify.Unclassifiable {
		fmt.Fprintf(out, "A page with less than %d %ss has no category.\n", m.Model().Least(), unit)
	}
	if r.Chances == nil {
		return nil
	}
	names := slices.Clone(m.Categories())
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(r.Chances[b], r.Chances[a]) })
	fmt.Fprintln(out)
	for _, name := range names[:min(5, len(names))] {
		fmt.Fprintf(out, "%5.1f %%  %s\n", 100*r.Chances[name], report.OneLine(name))
	}
	return nil
}
