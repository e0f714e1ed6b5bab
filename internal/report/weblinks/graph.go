package weblinks

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/orbweaver/orbweaver/internal/graph"
	"github.com/orbweaver/orbweaver/internal/linklog"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/report/warclinks"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/extsort"
	"github.com/orbweaver/orbweaver/internal/web/parse"
)

// Progress is told how far the work is. It drops most of what it is told.
type Progress interface {
	Say(text string)
}

// Config says what Build reads, and which graph it makes.
type Config struct {
	FS disk.FS
	// Dirs are directories of crawls with link logs. If there are Files, these WARC files are read in their place.
	Dirs, Files []string
	// Requisites adds to the links of WARC files those to what a page is displayed with.
	Requisites bool
	// Hosts makes the graph of hosts. Visited leaves out what was not visited, and SelfLinks keeps links to oneself.
	Hosts, Visited, SelfLinks bool
	// Kind are the kinds of links that count. Empty: all.
	Kind     []string
	Sort     extsort.Config
	Progress Progress
}

// A Result says what could not be read. First describes the first damage.
type Result struct {
	// Of link logs:
	DamagedLines, DamagedFiles int64
	// Of WARC files:
	DamagedPlaces, NoOriginal, Incomplete int64
	First                                 string
}

// A NoPageError means that there is no page.
type NoPageError struct{ First string }

func (e *NoPageError) Error() string {
	if e.First == "" {
		return "no page"
	}
	return "no page: " + report.OneLine(e.First)
}

// A KindError means that no page has a link of a kind. Have are the kinds that there are.
type KindError struct {
	Kind string
	Have map[string]bool
}

func (e *KindError) Error() string { return fmt.Sprintf("no link of the kind %q", e.Kind) }

// A GraphWriter writes the graph that fill makes.
type GraphWriter interface {
	WriteGraph(kind graph.Kind, fill func(w *graph.Writer) error) (graph.Info, error)
}

// Build builds the graph. The error is a *NoPageError or a *KindError, of ctx, of a disk, or one of w.
func Build(ctx context.Context, c Config, w GraphWriter) (info graph.Info, r Result, err error) {
	build := graph.BuildConfig{Sort: c.Sort, Kind: graph.Pages, Visited: c.Visited, SelfLinks: c.SelfLinks}
	name := func(url string) string { return url }
	if c.Hosts {
		build.Kind = graph.Hosts
		name = graph.ReversedHost
	}
	b := graph.NewBuilder(build)
	defer b.Close()
	pages, links := int64(0), int64(0)
	kinds := map[string]bool{}
	err = c.read(ctx, &r, func(p *linklog.PageLine, status, newest bool) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		from := name(p.URL)
		if from == "" || !status && !newest {
			return nil
		}
		if status {
			pages++
		}
		if pages%256 == 0 {
			c.Progress.Say("has read " + report.Count(pages, "page") + " with " + report.Count(links, "link"))
		}
		if err := b.Page(from); err != nil || !newest {
			return err
		}
		for i := range p.Links {
			l := &p.Links[i]
			kinds[l.Kind] = true
			to := name(l.Target)
			if len(c.Kind) > 0 && !slices.Contains(c.Kind, l.Kind) || to == "" || strings.IndexByte(to, 0) >= 0 {
				continue
			}
			links++
			if err := b.Link(to); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return info, r, err
	}
	if pages == 0 {
		return info, r, &NoPageError{r.First}
	}
	for _, k := range c.Kind {
		if !kinds[k] {
			return info, r, &KindError{k, kinds}
		}
	}
	info, err = w.WriteGraph(build.Kind, func(w *graph.Writer) error {
		c.Progress.Say("has read all " + report.Count(links, "link") + "; sorts them")
		return b.Write(w)
	})
	return info, r, err
}

// read calls fn for the pages, as linklog.Current does.
func (c *Config) read(ctx context.Context, r *Result, fn func(p *linklog.PageLine, status, links bool) error) error {
	if len(c.Files) == 0 {
		d, err := linklog.Current(c.FS, c.Dirs, c.Sort, fn)
		r.DamagedLines, r.DamagedFiles, r.First = d.Lines, d.Files, d.First
		return err
	}
	res, err := warclinks.Read(ctx, c.Files, warclinks.Config{
		FS: c.FS, Sort: c.Sort, Parse: parse.Options{Requisites: c.Requisites},
		Step: func(done, total int64) {
			c.Progress.Say(fmt.Sprintf("has read %s of %s (the files, twice)", humanize.Bytes(uint64(done)),
				humanize.Bytes(uint64(total))))
		},
	}, fn)
	r.DamagedPlaces, r.NoOriginal, r.Incomplete, r.First = res.Damaged, res.NoOriginal, res.Cut, res.First
	return err
}
