package view

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/report/review"
)

//go:embed page.html
var pageHTML string

//go:embed page.css
var pageCSS string

var tmpl = template.Must(template.New("page").Funcs(template.FuncMap{
	"percent": func(x float64) string { return strconv.FormatFloat(max(min(100*x, 100), 0), 'f', 2, 64) },
	"class":   func(c Column) string { return map[bool]string{true: "n", false: "t"}[c.Number] },
}).Parse(pageHTML))

// A tile is one of the figures at the top of the page.
type tile struct{ Name, Value, Note, Tone, To string }

// HTML writes a page with all sections. It is one file: the browser loads nothing else.
func HTML(w io.Writer, r *review.Review, sections []Section) error {
	hash := sha256.Sum256([]byte(pageCSS))
	state := Cell{}
	if len(r.Dirs) == 1 {
		state = stateCell(r.Dirs[0])
	}
	var out bytes.Buffer // a template can fail, and then nothing is written
	err := tmpl.Execute(&out, map[string]any{
		"Policy": "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(hash[:]) +
			"'; base-uri 'none'; form-action 'none'",
		"CSS":      template.CSS(pageCSS),
		"Title":    title(r),
		"State":    state,
		"AsOf":     moment(r.AsOf.Time),
		"Dirs":     len(r.Dirs),
		"Version":  version(r),
		"Tiles":    tiles(r),
		"Sections": htmlSections(sections),
	})
	if err != nil {
		return err
	}
	_, err = out.WriteTo(w)
	return err
}

// version returns the version of the program that made the first crawl that says so.
func version(r *review.Review) string {
	for _, d := range r.Dirs {
		if d.Version != "" {
			return report.OneLine(d.Version)
		}
	}
	return ""
}

// title names the host of the crawl, or if it has several, the directories.
func title(r *review.Review) string {
	if r.HostCount == 1 && len(r.Hosts) == 1 {
		return "Crawl of " + report.OneLine(r.Hosts[0].Host)
	}
	var names []string
	for _, d := range r.Dirs[:min(len(r.Dirs), 3)] {
		name := filepath.Base(d.Path)
		if abs, err := filepath.Abs(d.Path); err == nil {
			name = filepath.Base(abs)
		}
		names = append(names, report.OneLine(name))
	}
	if len(r.Dirs) > len(names) {
		names = append(names, humanize.Comma(int64(len(r.Dirs)-len(names)))+" more")
	}
	return "Crawl report: " + strings.Join(names, ", ")
}

// htmlSections leaves out the rows that the page shows as charts.
func htmlSections(sections []Section) []htmlSection {
	var out []htmlSection
	for _, s := range sections {
		h := htmlSection{Section: s, Charts: s.charts, Shares: shareBars(s.shares)}
		if len(s.charts) > 0 {
			h.Folded, h.Tables = s.Tables, nil
		}
		out = append(out, h)
	}
	return out
}

type htmlSection struct {
	Section
	Charts []chart
	Shares []shareBar
	Folded []Table // shown on demand
}

// A shareBar is a part of a stacked bar. X and W are shares of its length.
type shareBar struct {
	share
	X, W    float64
	Percent string
	Number  string
}

func shareBars(shares []share) []shareBar {
	var all int64
	for _, s := range shares {
		all += s.Count
	}
	var out []shareBar
	x := 0.0
	for _, s := range shares {
		w := float64(s.Count) / float64(max(all, 1))
		out = append(out, shareBar{s, x, w, percent(s.Count, all).Text, number(s.Count).Text})
		x += w
	}
	return out
}

func tiles(r *review.Review) []tile {
	perSecond := ""
	if r.Seconds > 0 {
		perSecond = meanRate(r.Pages, r.Seconds) + " a second"
	}
	files := ""
	if r.Files > 0 {
		files = report.Count(r.Files, "file") + " of pages, "
	}
	out := []tile{
		{"pages", number(r.Pages).Text, perSecond, "", "speed"},
		{"visits", number(r.Visits).Text, files + "in " + seconds(r.Seconds), "", "status"},
		{"content received", size(r.Bytes).Text, "mean " + size(r.Sizes.Mean).Text, "", "sizes"},
		{"hosts visited", hostText(r), "", "", "hosts"},
		{"median time", millis(r.Latency.P50).Text, "99 %: " + millis(r.Latency.P99).Text, "", "times"},
		{"broken links", number(r.BrokenCount).Text, "", "good", "broken"},
		{"failed visits", number(r.Failed).Text, percent(r.Failed, r.Visits).Text, "good", "errors"},
		{"links not followed", number(r.SkippedCount).Text, "", "", "skipped"},
	}
	if r.BrokenCount > 0 {
		out[5].Tone = "warn"
	}
	if r.Failed > 0 {
		out[6].Tone = "bad"
	}
	return out
}
