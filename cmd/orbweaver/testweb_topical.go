package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/orbweaver/orbweaver/internal/quantity"
	"github.com/orbweaver/orbweaver/internal/testweb/gen"
)

// topicalFlags describe a web whose pages have topics.
type topicalFlags struct {
	Topical         string         `help:"${testweb_topical}" placeholder:"FILE" group:"Webs with topics"`
	TopicalOnly     string         `help:"${testweb_topical_only}" placeholder:"FIELD=VALUE" group:"Webs with topics"`
	TopicalPages    int64          `help:"${testweb_topical_pages}" default:"1000000" placeholder:"N" group:"Webs with topics"`
	TopicalLocality quantity.Share `help:"${testweb_topical_locality}" default:"0.624" placeholder:"SHARE" group:"Webs with topics"`
	TopicalMix      quantity.Share `help:"${testweb_topical_mix}" default:"0.4" placeholder:"SHARE" group:"Webs with topics"`
	TopicalSeed     uint64         `help:"${testweb_topical_seed}" default:"1" placeholder:"N" group:"Webs with topics"`
	Articles        string         `help:"${testweb_articles}" placeholder:"FILE" group:"Webs with topics"`
	TopicalHosts    int64          `help:"${testweb_topical_hosts}" placeholder:"N" group:"Webs with topics"`
	Titles          titleFlags     `embed:"" prefix:"topical-"`
	TopicsOut       string         `help:"${testweb_topics_out}" placeholder:"FILE" group:"Webs with topics"`
}

// titleFlags say where the title of a page stands in those that link to it.
type titleFlags struct {
	Slugs   bool   `help:"${testweb_topical_slugs}" group:"Webs with topics"`
	Anchors string `help:"${testweb_topical_anchors}" enum:"title,generic" default:"title" group:"Webs with topics"`
}

// checkTopical refuses flags that contradict each other.
func (c *TestwebCmd) checkTopical() error {
	others := 0
	for _, is := range []bool{c.Generate, len(c.Record) > 0, c.Topical != "", c.Articles != ""} {
		if is {
			others++
		}
	}
	generated, any := c.topicalFlags.given()
	switch {
	case others > 1 && (c.Topical != "" || c.Articles != ""):
		return bad("--generate, --record, --topical and --articles cannot be combined: run one testweb for each")
	case c.Topical == "" && c.Articles == "" && any != "":
		return bad("--%s has no effect without a web with topics: add --topical FILE or --articles FILE", any)
	case c.Articles != "" && generated != "":
		return bad("--%s has no effect with --articles, whose file has the pages and links: leave it out", generated)
	case c.Topical != "" && c.TopicalPages < 1:
		return bad("--topical-pages %d is too small; give at least 1", c.TopicalPages)
	case c.TopicalHosts < 0:
		return bad("--topical-hosts %d is negative; give at least 1", c.TopicalHosts)
	}
	return nil
}

// given returns the name of a flag that was given and needs --topical, and of one that needs --topical or --articles;
// empty: there is none.
func (f *topicalFlags) given() (generated, any string) {
	if *f == (topicalFlags{}) { // no command line was read
		return "", ""
	}
	for _, g := range []struct {
		name  string
		given bool
	}{
		{"topical-only", f.TopicalOnly != ""}, {"topical-pages", f.TopicalPages != 1_000_000},
		{"topical-locality", f.TopicalLocality != 0.624}, {"topical-mix", f.TopicalMix != 0.4},
		{"topical-seed", f.TopicalSeed != 1},
	} {
		if g.given {
			generated = g.name
		}
	}
	switch {
	case generated != "":
		return generated, generated
	case f.TopicalHosts != 0:
		return "", "topical-hosts"
	case f.Titles.Slugs:
		return "", "topical-slugs"
	case f.Titles.Anchors == "generic":
		return "", "topical-anchors"
	case f.TopicsOut != "":
		return "", "topics-out"
	}
	return "", ""
}

// open reads the texts of the web.
func (f *topicalFlags) open(addresses int) (w *gen.TextWeb, err error) {
	spec := gen.TextSpec{Hosts: f.TopicalHosts, Addresses: int64(max(addresses, 0)), Slugs: f.Titles.Slugs,
		Generic: f.Titles.Anchors == "generic"}
	if f.Articles != "" {
		articles, err := readArticles(f.Articles)
		if err != nil {
			return nil, err
		}
		if w, err = gen.FromArticles(articles, spec); err != nil {
			return nil, bad("--articles %s: %v", f.Articles, err)
		}
		return w, nil
	}
	read := textFlags{Only: f.TopicalOnly, Field: "category", Files: []string{f.Topical}}
	texts, err := read.read(io.Discard)
	if err != nil {
		return nil, bad("--topical: %s", strings.ReplaceAll(err.Error(), "--only", "--topical-only"))
	}
	var of []gen.Text
	for _, t := range texts {
		of = append(of, gen.Text{Category: t.Category, Text: t.Text})
	}
	spec.Seed, spec.Pages = f.TopicalSeed, f.TopicalPages
	spec.Locality, spec.Mix = orNone(f.TopicalLocality), orNone(f.TopicalMix)
	if w, err = gen.FromTexts(spec, of); err != nil {
		return nil, bad("--topical %s: %v", f.Topical, err)
	}
	return w, nil
}

// readArticles reads a file of articles, a JSON object a line.
func readArticles(name string) (all []gen.Article, err error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, unreadable("--articles "+name, name, err, "name a file of articles, one JSON object a line")
	}
	defer file.Close()
	in, err := unpacked("--articles "+name, file)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(in)
	for {
		var a struct {
			ID     *int     `json:"id"`
			Title  string   `json:"title"`
			Topics []string `json:"topics"`
			Links  []int    `json:"links"`
			Text   string   `json:"text"`
		}
		switch err := d.Decode(&a); {
		case errors.Is(err, io.EOF) && len(all) == 0:
			return nil, bad("--articles %s: the file has no article; name another", name)
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, bad("--articles %s: article %d: %v; give JSON", name, len(all)+1, err)
		case a.ID == nil || a.Title == "":
			return nil, bad("--articles %s: article %d has no id or no title; give both", name, len(all)+1)
		}
		all = append(all, gen.Article{ID: *a.ID, Title: a.Title, Topics: a.Topics, Links: a.Links, Text: a.Text})
	}
}

// writeTopics writes the topics of all pages: URL, tab, topics with commas between.
func (c *TestwebCmd) writeTopics(w *gen.TextWeb) error {
	return c.write("topics-out", c.TopicsOut, func(b *bufio.Writer) {
		for page := range w.Pages() {
			fmt.Fprintf(b, "%s\t%s\n", w.URL(page), strings.Join(w.Categories(page), ","))
		}
	})
}

// describeTopical prints the size of the web.
func describeTopical(out io.Writer, w *gen.TextWeb) {
	fmt.Fprintf(out, "hosts    %s, %s; topics: %s\n", plural(w.Hosts(), "host"), plural(w.Pages(), "page"),
		strings.Join(w.Names(), ", "))
}
