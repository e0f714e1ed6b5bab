package parse

import (
	"bytes"
	"io"
	"strings"

	"github.com/klauspost/compress/gzip"

	"github.com/orbweaver/orbweaver/internal/web/message"
)

// typeOf returns the media type of a body.
func typeOf(in Input) message.Type {
	h := in.Header
	if in.ContentType != "" {
		h = message.Header{{Name: "Content-Type", Value: in.ContentType}}
	}
	return h.TypeOf(in.Body)
}

// open decides how to read the body. It unpacks a sitemap that was served as a gzip file. The
// returned body has no byte order mark.
func open(in Input, t message.Type, opt *Options) (body []byte, kind Kind, cs charset, cut bool) {
	essence, label := t.Essence, t.Charset
	body = in.Body
	if gzipped(in, essence) {
		body, cut = inflate(body, opt.MaxInflated)
		essence, label = "", ""
		kind = rootKind(body)
		if (kind == Other || kind == XML) && !in.Sitemap {
			// Only feeds and sitemaps are worth unpacking a file.
			body = nil
		}
	} else {
		kind = kindOf(essence, body)
	}
	if in.Sitemap && kind != Sitemap {
		switch root := rootKind(body); {
		case root == Sitemap || root == Feed:
			kind = root // may also be served as text/plain or text/html
		case (kind == Other || kind == XML) && (essence == "" || strings.HasPrefix(essence, "text/")):
			kind = Sitemap
		}
	}
	cs, body = charsetOf(kind, body, label)
	return body, kind, cs, cut
}

// gzipped reports whether the body is a gzip file that may be a sitemap: Input.Sitemap is set, or
// the file name says so.
func gzipped(in Input, essence string) bool {
	if !bytes.HasPrefix(in.Body, []byte("\x1f\x8b\x08")) {
		return false
	}
	if in.Sitemap {
		return true
	}
	switch essence {
	case "application/gzip", "application/x-gzip", "application/octet-stream", "binary/octet-stream",
		"application/xml", "text/xml", "":
		path := strings.ToLower(in.URL.Path())
		return strings.HasSuffix(path, ".xml.gz")
	}
	return false
}

// inflate unpacks at most limit bytes. From a damaged or longer file it returns the readable
// beginning, and cut says that it is longer.
func inflate(b []byte, limit int64) (out []byte, cut bool) {
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, false
	}
	// An error means that the file is damaged; use the bytes before it.
	out, _ = io.ReadAll(io.LimitReader(z, limit+1))
	if cut = int64(len(out)) > limit; cut {
		out = out[:limit]
	}
	return out, cut
}

// header reads robots directives and links from the response's header.
func (p *Page) header(in Input) {
	p.work.cs = utf8Charset
	p.Directives = ParseRobotsTag(in.Header.Values("X-Robots-Tag"), p.work.opt.Agent)
	for _, v := range in.Header.Values("Refresh") {
		if ref := refreshURL([]byte(v)); ref != nil {
			p.noteDecoded(ref, refOf('R', "header:refresh"))
		}
	}
	for _, v := range in.Header.Values("Link") {
		p.linkHeader([]byte(v))
	}
}

// refOf returns a reference of the header. It is relative to the response's URL, even if the
// document has another base (RFC 8288, 3.2).
func refOf(hop byte, tag string) ref { return ref{hop: hop, tag: tag, base: ofSelf} }

// linkHeader reads a Link field (RFC 8288, 3). It uses canonical links and what a browser loads.
func (p *Page) linkHeader(v []byte) {
	for {
		i := bytes.IndexByte(v, '<')
		if i < 0 {
			return
		}
		j := bytes.IndexByte(v[i:], '>')
		if j < 0 {
			return
		}
		ref := v[i+1 : i+j]
		v = v[i+j+1:]
		var rel []byte
		rel, v = linkRel(v)
		p.headerLink(ref, rel)
	}
}

// linkRel reads the parameters of one link. It returns its first rel and the rest of the field.
func linkRel(v []byte) (rel, rest []byte) {
	for {
		v = bytes.TrimLeft(v, "; \t")
		if len(v) == 0 || v[0] == ',' {
			return rel, v
		}
		n := bytes.IndexAny(v, "=;,")
		if n < 0 {
			return rel, nil
		}
		name := bytes.TrimSpace(v[:n])
		if v[n] != '=' {
			v = v[n:]
			continue
		}
		v = bytes.TrimLeft(v[n+1:], " \t")
		var value []byte
		if len(v) > 0 && v[0] == '"' {
			value, v, _ = bytes.Cut(v[1:], []byte(`"`))
		} else {
			n := bytes.IndexAny(v, ";, \t")
			if n < 0 {
				n = len(v)
			}
			value, v = v[:n], v[n:]
		}
		if rel == nil && fold(name, "rel") {
			rel = value
		}
		if len(v) > 0 && v[0] != ';' && v[0] != ',' && v[0] != ' ' && v[0] != '\t' {
			return rel, v
		}
	}
}

func (p *Page) headerLink(href, rel []byte) {
	for w, rest := nextToken(rel); w != nil; w, rest = nextToken(rest) {
		switch relOf(w) {
		case relCanonical:
			r := refOf('L', "header:link")
			r.canonical = true
			p.noteDecoded(href, r)
		case relLoad:
			if p.work.opt.Requisites {
				p.noteDecoded(href, refOf('E', "header:link"))
			}
		}
	}
}
