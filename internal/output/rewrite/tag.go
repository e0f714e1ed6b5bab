package rewrite

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/orbweaver/orbweaver/internal/web/parse"
)

// A tag is a start tag as the document spells it.
type tag struct {
	raw   []byte
	name  string // in lower case
	attrs []attr
}

// An attr is an attribute of a tag. raw[from:to] spells the whole attribute, and raw[value:end] its
// value without quotation marks.
type attr struct {
	name                 string // in lower case
	from, to, value, end int
	// change is the new value, unescaped; remove deletes the attribute.
	change  []byte
	changed bool
	remove  bool
}

// lower returns a name with ASCII letters in lower case.
func lower(name []byte) string {
	out := bytes.Clone(name)
	for i, c := range out {
		if 'A' <= c && c <= 'Z' {
			out[i] += 'a' - 'A'
		}
	}
	return string(out)
}

func blank(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' }

// splitTag finds the attributes of a start tag (HTML, 13.2.5.32 to 13.2.5.40). raw begins with '<'
// and ends with '>'.
func splitTag(raw []byte) tag {
	t := tag{raw: raw}
	n := len(raw)
	if n > 0 && raw[n-1] == '>' {
		n--
	}
	i := min(1, n)
	from := i
	for i < n && !blank(raw[i]) && raw[i] != '/' {
		i++
	}
	t.name = lower(raw[from:i])
	for {
		for i < n && (blank(raw[i]) || raw[i] == '/') {
			i++
		}
		if i >= n {
			return t
		}
		a := attr{from: i}
		for i < n && !blank(raw[i]) && raw[i] != '/' && (raw[i] != '=' || i == a.from) {
			i++
		}
		a.name, a.to = lower(raw[a.from:i]), i
		a.value, a.end = i, i
		for i < n && blank(raw[i]) {
			i++
		}
		if i < n && raw[i] == '=' {
			i++
			for i < n && blank(raw[i]) {
				i++
			}
			switch {
			case i < n && (raw[i] == '"' || raw[i] == '\''):
				quote := raw[i]
				i++
				a.value = i
				for i < n && raw[i] != quote {
					i++
				}
				a.end = i
				i = min(i+1, n)
			default:
				a.value = i
				for i < n && !blank(raw[i]) {
					i++
				}
				a.end = i
			}
			a.to = i
		}
		t.attrs = append(t.attrs, a)
	}
}

// attr returns the first attribute of that name, which is the one that counts; nil if there is none.
func (t *tag) attr(name string) *attr {
	for i := range t.attrs {
		if t.attrs[i].name == name {
			return &t.attrs[i]
		}
	}
	return nil
}

// value returns the value of a as the document spells it.
func (t *tag) value(a *attr) []byte { return t.raw[a.value:a.end] }

// references lists what the attributes of an element refer to.
var references = map[string]map[string]Use{
	"a":        {"href": Follow, "xlink:href": Follow},
	"area":     {"href": Follow},
	"audio":    {"src": Load},
	"body":     {"background": Load},
	"button":   {"formaction": Form},
	"embed":    {"src": Load},
	"feimage":  {"href": Load, "xlink:href": Load},
	"form":     {"action": Form},
	"frame":    {"src": Frame},
	"iframe":   {"src": Frame},
	"image":    {"src": Load, "href": Load, "xlink:href": Load},
	"img":      {"src": Load},
	"input":    {"src": Load, "formaction": Form},
	"object":   {"data": Load},
	"script":   {"src": Load, "href": Load, "xlink:href": Load},
	"source":   {"src": Load},
	"table":    {"background": Load},
	"tbody":    {"background": Load},
	"td":       {"background": Load},
	"tfoot":    {"background": Load},
	"th":       {"background": Load},
	"thead":    {"background": Load},
	"tr":       {"background": Load},
	"track":    {"src": Load},
	"use":      {"href": Load, "xlink:href": Load},
	"video":    {"src": Load, "poster": Load},
	"textpath": {"href": Load, "xlink:href": Load},
}

// sets lists the attributes that hold image candidates.
var sets = map[string]string{"img": "srcset", "source": "srcset", "link": "imagesrcset"}

// removed lists attributes of any element that act without the reader, or that would refuse the
// rewritten content.
var removed = map[string]bool{
	"integrity": true, "crossorigin": true, "ping": true, "attributionsrc": true, "manifest": true,
}

// tag writes a start tag with its references changed.
func (w *rewriter) tag(t *tag) {
	uses := references[t.name]
	for i := range t.attrs {
		a := &t.attrs[i]
		use, ok := uses[a.name]
		if !ok && w.page.Kind != parse.HTML && strings.HasSuffix(a.name, ":href") { // xlink:href with another prefix
			use, ok = uses["xlink:href"]
		}
		switch {
		case removed[a.name]:
			a.remove = true
		case ok:
			w.change(t, a, use)
		case a.name == "target" && w.rules.SameFrame && outward(w.page.Value(t.value(a))):
			a.remove = true
		case a.name == "style":
			w.style(t, a)
		case sets[t.name] == a.name:
			w.candidates(t, a)
		}
	}
	switch t.name {
	case "base":
		w.base(t)
	case "link":
		w.link(t)
	case "meta":
		w.meta(t)
	case "script":
		if a := t.attr("type"); a != nil && bytes.EqualFold(bytes.TrimSpace(w.page.Value(t.value(a))),
			[]byte("speculationrules")) {
			a.set("text/plain") // a browser would fetch pages before the reader asks for them
		}
	case "iframe":
		w.srcdoc(t)
	}
	w.write(t)
}

// outward reports whether the target of a link is a new window or a frame around the document.
func outward(target []byte) bool {
	switch lower(bytes.TrimSpace(target)) {
	case "_blank", "_top", "_parent", "_new":
		return true
	}
	return false
}

// set replaces the value of a.
func (a *attr) set(s string) { a.change, a.changed = []byte(s), true }

// change rewrites an attribute that holds one reference.
func (w *rewriter) change(t *tag, a *attr, use Use) {
	v := t.value(a)
	if len(bytes.TrimSpace(v)) == 0 {
		return
	}
	decoded := bytes.TrimLeft(w.page.Value(v), " \t\n\r\f")
	if len(decoded) > 0 && decoded[0] == '#' && w.page.Base == w.self {
		return // a place in the document itself
	}
	relative := w.relative(decoded)
	u, fragment, err := w.page.Resolve(v)
	if err != nil {
		return
	}
	if s := w.mapped(Ref{URL: u, Fragment: fragment, Use: use, Relative: relative}); s != "" {
		a.set(s)
	}
}

// decoded returns the reference for one that is decoded already; "" keeps it.
func (w *rewriter) decoded(ref []byte, use Use) string {
	u, fragment, err := w.page.ResolveDecoded(ref)
	if err != nil {
		return ""
	}
	return w.mapped(Ref{URL: u, Fragment: fragment, Use: use, Relative: w.relative(ref)})
}

// candidates rewrites the list of image candidates.
func (w *rewriter) candidates(t *tag, a *attr) {
	v := bytes.Clone(w.page.Value(t.value(a)))
	done := 0
	now := w.inner(func() {
		parse.Candidates(v, func(from, to int) {
			if s := candidateEscaper.Replace(w.decoded(v[from:to], Load)); s != "" && w.fits(len(s), to-from) {
				w.out.Write(v[done:from])
				w.out.WriteString(s)
				done = to
			}
		})
		w.out.Write(v[done:])
	})
	if done > 0 {
		a.change, a.changed = now, true
	}
}

// candidateEscaper escapes what ends the URL of an image candidate.
var candidateEscaper = strings.NewReplacer(",", "%2C", " ", "%20")

// style rewrites a style attribute.
func (w *rewriter) style(t *tag, a *attr) {
	v := t.value(a)
	if bytes.IndexByte(v, '(') < 0 && bytes.IndexByte(v, '&') < 0 {
		return
	}
	text := bytes.Clone(w.page.Value(v))
	if now := w.inner(func() { w.css(text) }); !bytes.Equal(now, text) {
		a.change, a.changed = now, true
	}
}

// base rewrites the document's base.
func (w *rewriter) base(t *tag) {
	a := t.attr("href")
	if a == nil {
		return
	}
	s := w.mapped(Ref{URL: w.page.Base, Use: Base})
	if s == "" {
		a.remove = true
		return
	}
	a.set(s)
}

// link rewrites a link element, and removes its reference if a browser would only connect to a host
// for it.
func (w *rewriter) link(t *tag) {
	a := t.attr("href")
	if a == nil {
		return
	}
	var load, connect bool
	if rel := t.attr("rel"); rel != nil {
		load, connect = parse.RelKeywords(w.page.Value(t.value(rel)))
	}
	switch {
	case connect:
		a.remove = true
	case load:
		w.change(t, a, Load)
	default:
		w.change(t, a, Follow)
	}
}

// acting lists the values of http-equiv that would hinder or escape the rewriting.
var acting = map[string]bool{
	"content-security-policy": true, "content-security-policy-report-only": true, "set-cookie": true,
	"x-dns-prefetch-control": true, "origin-trial": true, "accept-ch": true, "delegate-ch": true,
}

// meta rewrites a refresh, and removes policies and cookies.
func (w *rewriter) meta(t *tag) {
	equiv, content := t.attr("http-equiv"), t.attr("content")
	if equiv == nil || content == nil {
		return
	}
	name := strings.ToLower(string(bytes.TrimSpace(w.page.Value(t.value(equiv)))))
	switch {
	case acting[name]:
		equiv.remove = true
	case name == "refresh":
		v := bytes.Clone(w.page.Value(t.value(content)))
		from, to, ok := parse.RefreshURL(v)
		if !ok {
			return
		}
		if s := w.decoded(v[from:to], Follow); s != "" {
			delay := bytes.TrimLeft(v[:from], " \t\n\r\f")
			delay = delay[:len(delay)-len(bytes.TrimLeft(delay, "0123456789."))]
			content.set(string(delay) + ";url=" + s)
		}
	case name == "content-type":
		if w.page.Kind != parse.CSS && converted(w.page.Charset) {
			content.set("text/html; charset=utf-8")
		}
	}
}

// converted reports whether a document in this encoding is converted to UTF-8.
func converted(charset string) bool {
	return strings.HasPrefix(charset, "utf-16") || charset == "iso-2022-jp" || charset == "replacement"
}

// srcdoc rewrites the document in an attribute of a frame. Without a base element it has the base of this document.
func (w *rewriter) srcdoc(t *tag) {
	a := t.attr("srcdoc")
	if a == nil || w.frames >= maxNested {
		return
	}
	text := bytes.Clone(w.page.Value(t.value(a)))
	in := rewriter{rules: w.rules, self: w.self, frames: w.frames + 1, room: w.room, full: w.full}
	parse.Parse(parse.Input{URL: w.page.Base, ContentType: "text/html; charset=utf-8", Body: text},
		parse.Options{MaxLinks: 1}, &in.page)
	in.html(text, false, false)
	if now := in.out.Bytes(); !bytes.Equal(now, text) {
		a.change, a.changed = now, true
	}
}

// inner returns what write writes. It takes no room: what becomes of the text in the output does.
func (w *rewriter) inner(write func()) []byte {
	outer, room := w.out, w.room
	w.out = bytes.Buffer{}
	write()
	now := w.out.Bytes()
	w.out, w.room = outer, room
	return now
}

// write writes the tag.
func (w *rewriter) write(t *tag) {
	done := 0
	for i := range t.attrs {
		a := &t.attrs[i]
		var now []byte
		if a.changed && !a.remove {
			now = slices.Concat(t.raw[a.from:a.from+len(a.name)], []byte(`="`), w.encode(a.change, false), []byte(`"`))
			if a.to < len(t.raw) && !blank(t.raw[a.to]) && t.raw[a.to] != '>' && t.raw[a.to] != '/' {
				now = append(now, ' ')
			}
		}
		if a.remove || a.changed && w.fits(len(now), a.to-a.from) {
			w.out.Write(t.raw[done:a.from])
			w.out.Write(now)
			done = a.to
		}
	}
	w.out.Write(t.raw[done:])
}

// encode returns a value for an attribute in double quotation marks, or text for an element. Characters outside of
// ASCII become character references, which mean the same in every encoding.
func (w *rewriter) encode(v []byte, text bool) []byte {
	out := make([]byte, 0, len(v)+16)
	for _, r := range string(v) {
		switch {
		case r == '&':
			out = append(out, "&amp;"...)
		case r == '"' && !text:
			out = append(out, "&quot;"...)
		case r == '<':
			out = append(out, "&lt;"...)
		case r == '>' && (!text || bytes.HasSuffix(out, []byte("]"))): // "]]>" must not stand in a text
			out = append(out, "&gt;"...)
		case r < 0x80:
			out = append(out, byte(r))
		default:
			out = fmt.Appendf(out, "&#x%x;", r)
		}
	}
	return out
}
