package parse

import (
	"bytes"
	"time"
)

// A listing is the entry of a sitemap that is being read: what a url or sitemap element has of references, until its
// end tells whether it has changed since Options.SitemapFrom.
type listing struct {
	from     time.Time
	held     []heldRef
	modified []byte // as the entry says; nil: it says nothing
}

// A heldRef is a reference with its place in the body. An attribute value has its own escapes and no markup.
type heldRef struct {
	text []byte
	ref  ref
	attr bool
}

// sitemap scans a sitemap or sitemap index (sitemaps.org/protocol.html), or the text form with one
// URL a line. The element around a loc decides about it: the locs of images and videos are
// requisites.
func (p *Page) sitemap(body []byte) {
	w := &p.work
	body, w.cs = w.cs.scannable(body)
	w.cs.legacy = false
	if t := bytes.TrimLeft(body, "\t\n\f\r "); len(t) == 0 || t[0] != '<' {
		p.textSitemap(body)
		return
	}
	p.styleSheets(body)
	s := scanner{b: body, xml: true}
	const (
		other = iota
		inURL
		inIndex
		inImage // within a url
	)
	parent, capture, reading := other, 0, ""
	hop := byte('M')
	entry := listing{from: w.opt.SitemapFrom}
	for s.next() {
		name := local(s.name())
		if s.end {
			if reading == lastmod {
				entry.modified = s.b[capture:s.at]
			} else if reading != "" && (hop == 'M' || w.opt.Requisites) {
				entry.add(p, heldRef{text: s.b[capture:s.at], ref: ref{tag: reading, hop: hop}})
			}
			reading = ""
			switch string(name) {
			case "url", "sitemap":
				entry.end(p)
				parent = other
			case "image":
				if parent == inImage {
					parent = inURL
				}
			}
			continue
		}
		reading = ""
		switch string(name) {
		case "url":
			entry.end(p)
			parent = inURL
		case "sitemap":
			entry.end(p)
			parent = inIndex
		case "image":
			if parent == inURL && !s.selfClosing {
				parent = inImage
			}
		case lastmod:
			if parent == inURL || parent == inIndex {
				reading = lastmod
			}
		case "loc":
			hop = 'M'
			switch parent {
			case inIndex:
				reading = SitemapTag
			case inImage:
				reading, hop = "image/loc", 'E'
			case inURL:
				reading = "url/loc"
			}
		case "content_loc", "thumbnail_loc":
			reading, hop = "video/loc", 'E'
		case "player_loc":
			reading, hop = "video/loc", 'E'
		case "link":
			if rel, ok := s.attr(aRel); ok && hasToken(p.value(rel), "alternate") {
				if v, ok := s.attr(aHref); ok && len(trim(v)) > 0 {
					entry.add(p, heldRef{text: v, ref: ref{tag: "url/link@href", hop: 'M'}, attr: true})
				}
			}
		}
		if s.selfClosing {
			reading = ""
		}
		capture = s.i
	}
	entry.end(p)
}

// lastmod is the element with the time of the last change of an entry.
const lastmod = "lastmod"

// SitemapTag is Link.Tag of an entry of a sitemap index, which is a sitemap.
const SitemapTag = "sitemap/loc"

// add notes a reference of the entry on p, or keeps it until the end of the entry.
func (l *listing) add(p *Page, r heldRef) {
	switch {
	case !l.from.IsZero():
		l.held = append(l.held, r)
	case r.attr:
		p.note(r.text, r.ref, true)
	default:
		if text := trim(p.XMLText(r.text, true)); len(text) > 0 {
			p.noteDecoded(text, r.ref)
		}
	}
}

// end notes the references of the entry on p, unless it has not changed since Options.SitemapFrom.
func (l *listing) end(p *Page) {
	if l.from.IsZero() {
		return
	}
	if _, last, ok := ParseDate(string(trim(l.modified))); ok && last.Before(l.from) {
		p.Older++
	} else {
		var now listing
		for _, r := range l.held {
			now.add(p, r)
		}
	}
	l.held, l.modified = l.held[:0], nil
}

// textSitemap reads one URL a line. It skips lines that are not absolute URLs, so a page that is not a
// sitemap gives nothing.
func (p *Page) textSitemap(body []byte) {
	for len(body) > 0 {
		n := bytes.IndexAny(body, "\r\n")
		line := body
		if n < 0 {
			body = nil
		} else {
			line, body = body[:n], body[n+1:]
		}
		line = trim(line)
		if !foldPrefix(line, "http://") && !foldPrefix(line, "https://") {
			continue
		}
		p.note(line, ref{tag: "text/loc", hop: 'M'}, false)
	}
}

// dates are the forms of W3C Datetime, and the time that each leaves open. A time also has a zone, and perhaps a
// fraction of its seconds.
var dates = []struct {
	form                string
	years, months, days int
	rest                time.Duration
}{
	{"2006", 1, 0, 0, 0}, {"2006-01", 0, 1, 0, 0}, {"2006-01-02", 0, 0, 1, 0},
	{"2006-01-02T15:04Z07:00", 0, 0, 0, time.Minute}, {time.RFC3339, 0, 0, 0, time.Second},
}

// ParseDate reads a date or a time as sitemaps have it (W3C Datetime; a date is one of UTC): the first and the last
// moment that it may mean. ok is false for any other text.
func ParseDate(text string) (first, last time.Time, ok bool) {
	for _, d := range dates {
		if t, err := time.Parse(d.form, text); err == nil {
			return t, t.AddDate(d.years, d.months, d.days).Add(d.rest - 1), true
		}
	}
	return first, last, false
}
