package parse

import "bytes"

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
	for s.next() {
		name := local(s.name())
		if s.end {
			if reading != "" && (hop == 'M' || w.opt.Requisites) {
				if text := trim(p.XMLText(s.b[capture:s.at], true)); len(text) > 0 {
					p.noteDecoded(text, ref{tag: reading, hop: hop})
				}
			}
			reading = ""
			switch string(name) {
			case "url", "sitemap":
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
			parent = inURL
		case "sitemap":
			parent = inIndex
		case "image":
			if parent == inURL && !s.selfClosing {
				parent = inImage
			}
		case "loc":
			hop = 'M'
			switch parent {
			case inIndex:
				reading = "sitemap/loc"
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
					p.add(v, 'M', "url/link@href", false)
				}
			}
		}
		if s.selfClosing {
			reading = ""
		}
		capture = s.i
	}
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
