package warclinks

import (
	"bytes"
	"context"
	"io"
	"strings"

	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/parse"
)

// A needy is a page in a WARC file, and the links on it. It waits for its metadata record, which follows.
type needy struct {
	id     string // WARC-Record-ID
	page   link.Link
	told   bool // its metadata record says how the crawl found it
	links  []parse.Link
	parsed parse.Page
	body   bytes.Buffer
}

// Requisites calls fn for the visits with status 2xx in WARC files of this crawler, in the order of the records. The
// page has the path on which the crawl found it. links are what a browser loads to show it: images, styles, scripts. A
// revisit record has none, because a crawl follows the links of one of several equal pages only. Both arguments are
// valid until fn returns. A robots.txt that the crawler needed for itself is no page. Requisites reads the files once.
// An error is one of the disk, or the first of Sort.Stop or fn.
func Requisites(ctx context.Context, files []string, c Config, fn func(page link.Link, links []parse.Link) error) (
	Result, error) {
	c.Parse.Requisites = true
	r, err := newReader(files, c)
	if err != nil {
		return Result{}, err
	}
	var held, now needy
	var p page
	use, cut := false, false
	flush := func() error {
		defer func() { held.id = "" }()
		if held.id == "" || strings.HasSuffix(held.page.Hops, "P") {
			return nil
		}
		return fn(held.page, held.links)
	}
	err = r.each(true, func(n uint64, rec *warc.Record) error {
		r.res.Records++
		use = false
		if held.id != "" && rec.Type() == "metadata" && !held.told &&
			strings.TrimSpace(rec.Header.Value("WARC-Concurrent-To")) == held.id {
			var w way
			if w, held.told = wayOf(rec); held.told {
				held.page.Via, held.page.Hops, held.page.Seed = w.via, w.hops, w.tag
			}
			return nil
		}
		in, ok, err := p.headers(ctx, n, rec)
		if err != nil || !ok || p.status/100 != 2 {
			return nil // if the record is damaged, Finish says so
		}
		use = true
		now.body.Reset()
		if cut = false; !p.revisit {
			// Of a body that cannot be decoded, the decoded part counts.
			_, err = io.CopyN(&now.body, in, r.MaxDecoded+1)
			cut = err != io.EOF
		}
		now.id = strings.TrimSpace(rec.Header.Value("WARC-Record-ID"))
		return nil
	}, func() error {
		if !use {
			return nil
		}
		if err := flush(); err != nil {
			return err
		}
		if cut {
			r.res.Cut++
		}
		now.read(&p, r)
		held, now = now, held
		return nil
	})
	if err == nil {
		err = flush()
	}
	return r.res, err
}

// read sets the page and its files. Without a metadata record the page counts as one that another page links to.
func (h *needy) read(p *page, r *reader) {
	h.page, h.told, h.links = link.Link{URL: p.url, Hops: "L"}, false, h.links[:0]
	if p.robots {
		h.page.Hops = "P"
	}
	body := h.body.Bytes()[:min(int64(h.body.Len()), r.MaxDecoded)]
	parse.Parse(parse.Input{URL: p.url, Header: p.header, Body: body}, r.Parse, &h.parsed)
	for _, l := range h.parsed.Links {
		if l.Hop == 'E' {
			h.links = append(h.links, l)
		}
	}
}

// A way is how the crawl found a page, as the fields of a metadata record say.
type way struct{ via, hops, tag string }

// wayOf reads a metadata record. ok is false if the record has no fields.
func wayOf(rec *warc.Record) (w way, ok bool) {
	b, err := io.ReadAll(io.LimitReader(rec, maxMetadata))
	if err != nil {
		return way{}, false
	}
	for line := range bytes.Lines(b) {
		name, value, is := bytes.Cut(line, []byte{':'})
		ok = ok || is
		switch text := string(bytes.TrimSpace(value)); string(name) {
		case "hopsFromSeed":
			w.hops = text
		case "via":
			w.via = text
		case "sourceTag":
			w.tag = text
		}
	}
	return w, ok
}
