package warclinks

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"

	"github.com/orbweaver/orbweaver/internal/linklog"
	"github.com/orbweaver/orbweaver/internal/store/extsort"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/fetch"
	"github.com/orbweaver/orbweaver/internal/web/message"
	"github.com/orbweaver/orbweaver/internal/web/parse"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// sitemapMax bounds the size of a sitemap in bytes (sitemaps.org: 50 MB).
const sitemapMax = 50 << 20

// second reads the files again, and calls fn.
func (r *reader) second(ctx context.Context) error {
	var p page
	var body bytes.Buffer
	var out outlinks
	copied, hasCopies := r.nextCopy()
	use, cut := false, false
	return r.each(false, func(n uint64, rec *warc.Record) error {
		for hasCopies && copied < n { // the original's record was damaged this time
			if err := r.copies.Pop(); err != nil {
				return err
			}
			copied, hasCopies = r.nextCopy()
		}
		if use = r.statuses.Contains(n) || r.links.Contains(n) || hasCopies && copied == n; !use {
			return nil
		}
		in, ok, err := p.headers(ctx, n, rec)
		if use = err == nil && ok; !use {
			return nil
		}
		body.Reset()
		cut = false
		if p.revisit || p.status/100 != 2 || !r.links.Contains(n) && !(hasCopies && copied == n) {
			return nil
		}
		limit := r.MaxDecoded
		if r.sitemaps.Contains(n) {
			limit = max(limit, sitemapMax)
		}
		_, err = io.CopyN(&body, in, limit+1) // of a body that cannot be decoded, the decoded part counts
		if cut = err != io.EOF; int64(body.Len()) > limit {
			body.Truncate(int(limit))
		}
		return nil
	}, func() error {
		if !use {
			return nil
		}
		use = false
		status, links := r.statuses.Contains(p.number), r.links.Contains(p.number)
		if status || links {
			hasLinks := links && !r.copied.Contains(p.number)
			out.page = linklog.PageLine{URL: p.url.String(), Status: p.status, Links: out.page.Links[:0]}
			if hasLinks {
				out.read(&p, body.Bytes(), r)
				if cut {
					r.res.Cut++
				}
			}
			if err := r.fn(&out.page, status, hasLinks); err != nil {
				return err
			}
		}
		for hasCopies && copied == p.number {
			if err := r.copy(&p, body.Bytes(), &out); err != nil {
				return err
			}
			if err := r.copies.Pop(); err != nil {
				return err
			}
			copied, hasCopies = r.nextCopy()
		}
		return nil
	})
}

// nextCopy returns the number of the next original that a revisit needs.
func (r *reader) nextCopy() (n uint64, ok bool) {
	rec, ok := r.copies.Min()
	if !ok {
		return 0, false
	}
	return binary.BigEndian.Uint64(rec), true
}

// copy calls fn with the links of a revisit, whose original is p.
func (r *reader) copy(p *page, body []byte, out *outlinks) error {
	rec, _ := r.copies.Min()
	if len(rec) < 16 {
		return extsort.ErrDamaged
	}
	name, head, ok := bytes.Cut(rec[16:], []byte{0})
	u, err := weburl.Parse(string(name))
	if !ok || err != nil {
		return extsort.ErrDamaged
	}
	again := page{number: binary.BigEndian.Uint64(rec[8:]), url: u, status: p.status, header: p.header}
	if len(head) > 0 {
		again.header = message.ReadHead(head).Header
	}
	out.page = linklog.PageLine{URL: u.String(), Status: p.status, Links: out.page.Links[:0]}
	out.read(&again, body, r)
	return r.fn(&out.page, false, true)
}

// An outlinks is a page with its links, reused from page to page.
type outlinks struct {
	page   linklog.PageLine
	parsed parse.Page
}

// read finds the links of p.
func (o *outlinks) read(p *page, body []byte, r *reader) {
	response := fetch.Response{Status: p.status, Header: p.header}
	if to, ok := fetch.Redirect(&response); ok {
		if u, err := p.url.Resolve(to); err == nil && !u.IsZero() {
			o.page.Links = append(o.page.Links, linklog.Link{Target: u.String(), Kind: linklog.Redirect})
		}
		return
	}
	if p.status/100 != 2 {
		return
	}
	parse.Parse(parse.Input{URL: p.url, Header: p.header, Body: body,
		Sitemap: r.sitemaps.Contains(p.number)}, r.Parse, &o.parsed)
	o.parsed.Each(func(l *parse.Link, _, _ []byte) {
		o.page.Links = append(o.page.Links, linklog.Link{Target: l.URL.String(), Kind: l.Tag})
	})
}
