package rewrite

import (
	"bytes"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/html"

	"github.com/orbweaver/orbweaver/internal/web/parse"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A Use says what a browser does with a reference.
type Use uint8

// The uses of references.
const (
	Follow Use = iota // the reader may go there
	Frame             // the browser shows it as a page within the page
	Load              // the browser loads it to show the page
	Form              // the browser sends a form there
	Base              // the browser resolves other references against it
)

// A Ref is a reference of a document.
type Ref struct {
	URL      weburl.URL
	Fragment string // with its number sign; empty if there is none
	Use      Use
	// Relative means that the reference has neither a scheme nor a host, and that the document does
	// not name another base. A browser resolves it against the document's own place.
	Relative bool
	// Text means that the reference is the text of an XML element. A relative one may be no reference at all.
	Text bool
}

// Rules say how to rewrite a document.
type Rules struct {
	// Map returns the new reference, in ASCII. "" keeps the reference as it is. For Base, "" removes
	// it.
	Map func(Ref) string
	// Head is inserted at the beginning of the head of an HTML document, in ASCII.
	Head string
	// DeclareCharset makes the document declare its encoding, for a reader without the response's
	// header.
	DeclareCharset bool
	// SameFrame removes what makes links and forms open in new windows or in frames around the
	// document.
	SameFrame bool
}

// A Result is a rewritten document.
type Result struct {
	Body []byte
	Kind parse.Kind
	// Charset is the encoding of Body, such as "windows-1252". It is empty if the body is none of the
	// kinds that are rewritten.
	Charset string
	// Converted means that the response has another encoding.
	Converted bool
	// Title is the text of an HTML document's title, in UTF-8.
	Title string
}

// Document rewrites the body of the response in. If the body is not rewritten, Result.Body is
// in.Body.
func Document(in parse.Input, rules Rules) Result {
	var w rewriter
	// A base of 8 KiB would turn each reference of a few bytes into as much.
	w.rules, w.self, w.room = rules, in.URL, 8*len(in.Body)+4<<20
	parse.Parse(in, parse.Options{MaxLinks: 1}, &w.page)
	res := Result{Body: in.Body, Kind: w.page.Kind, Title: w.page.Title}
	switch w.page.Kind {
	case parse.HTML, parse.XHTML, parse.SVG, parse.CSS, parse.Feed, parse.XML:
	default:
		return res
	}
	text, converted := w.page.Text(in.Body)
	if w.page.Kind == parse.Feed || w.page.Kind == parse.XML {
		if !converted && !bytes.HasPrefix(in.Body, []byte("\x1f\x8b")) { // a gzip file
			w.xml(in.Body)
			res.Body = w.out.Bytes()
		}
		return res
	}
	res.Charset, res.Converted = w.page.Charset, converted
	if converted {
		res.Charset = "utf-8"
	}
	if rules.DeclareCharset {
		w.declare(res.Charset, text)
	}
	w.out.Grow(len(text) + len(rules.Head) + len(text)/8)
	if w.page.Kind == parse.CSS {
		w.css(text)
	} else {
		w.html(text, w.page.Kind != parse.HTML, w.page.Kind != parse.SVG)
	}
	res.Body = w.out.Bytes()
	return res
}

// declare makes the document declare its encoding.
func (w *rewriter) declare(charset string, text []byte) {
	switch {
	case w.page.Kind == parse.HTML:
		w.rules.Head = `<meta charset="` + charset + `">` + w.rules.Head
	case w.page.Kind == parse.CSS && !ascii(text) && !bytes.HasPrefix(text, []byte("@charset")):
		w.out.WriteString(`@charset "` + charset + "\";\n")
	}
}

func ascii(text []byte) bool {
	for _, c := range text {
		if c >= 0x80 {
			return false
		}
	}
	return true
}

// A rewriter rewrites one document.
type rewriter struct {
	rules Rules
	self  weburl.URL
	page  parse.Page
	out   bytes.Buffer
	// nested is the number of noscript elements around this text, and frames that of srcdoc attributes.
	nested, frames int
	// room is the number of bytes by which the text may still grow. full means that a change did not fit.
	room int
	full bool
}

// mapped returns the new reference for ref; "" keeps it.
func (w *rewriter) mapped(ref Ref) string {
	if w.full {
		return ""
	}
	return w.rules.Map(ref)
}

// fits reports whether there is room for now bytes in the place of was bytes, and takes it.
func (w *rewriter) fits(now, was int) bool {
	if now-was > w.room {
		w.full = true
		return false
	}
	w.room -= now - was
	return true
}

// maxNested is how deep documents in srcdoc attributes, and texts of noscript, are rewritten.
const maxNested = 3

// html rewrites the text of an HTML document, or of an XML document with HTML or SVG elements.
func (w *rewriter) html(text []byte, xml, head bool) {
	z := html.NewTokenizer(bytes.NewReader(text))
	z.AllowCDATA(xml)
	insert := head && w.nested == 0 && w.rules.Head != ""
	style, noscript, svg := false, false, 0
	prolog := xml
	var sheet []byte // the source of the text of a style element in XML or SVG, so far; nil outside of one
	for {
		kind := z.Next()
		raw := z.Raw()
		if sheet != nil {
			if kind == html.TextToken || kind == html.CommentToken {
				sheet = append(sheet, raw...)
				continue
			}
			w.sheet(sheet, xml)
			sheet = nil
			z.AllowCDATA(xml)
		}
		if kind == html.ErrorToken {
			// The tokenizer drops an unfinished tag at the end, and so does a browser.
			break
		}
		if insert && !beforeHead(kind, raw) {
			w.out.WriteString(w.rules.Head)
			insert = false
		}
		switch kind {
		case html.StartTagToken, html.SelfClosingTagToken:
			t := splitTag(raw)
			if prolog = false; xml {
				t.name = local(t.name)
			}
			style, noscript = t.name == "style", t.name == "noscript" && !xml
			switch {
			case t.name == "svg" && kind == html.StartTagToken:
				svg++
			case breakouts[t.name]:
				svg = 0
			}
			if xml || svg > 0 { // no text is raw in SVG
				z.NextIsNotRawText()
				if style && kind == html.StartTagToken {
					sheet = []byte{}
					z.AllowCDATA(true)
				}
				style = false
			}
			w.tag(&t)
			continue
		case html.EndTagToken:
			if svg > 0 && strings.EqualFold(local(endName(raw)), "svg") {
				svg--
			}
		case html.CommentToken:
			if prolog && namesSheet.Match(raw) {
				w.styleSheet(raw)
				continue
			}
		case html.TextToken:
			switch {
			case style:
				w.css(raw)
				continue
			case noscript && w.nested < maxNested:
				w.nested++
				w.html(bytes.Clone(raw), xml, false)
				w.nested--
				continue
			}
		}
		style, noscript = false, false
		w.out.Write(raw)
	}
	if insert {
		w.out.WriteString(w.rules.Head)
	}
}

// breakouts lists HTML elements that end SVG around them (HTML, 13.2.6.5).
var breakouts = func() map[string]bool {
	m := map[string]bool{}
	for name := range strings.FieldsSeq("b big blockquote body br center code dd div dl dt em embed h1 h2 h3 h4 " +
		"h5 h6 head hr i img li listing menu meta nobr ol p pre ruby s small span strong strike sub sup " +
		"table tt u ul var") {
		m[name] = true
	}
	return m
}()

// endName returns the name of an end tag.
func endName(raw []byte) string {
	name := raw[min(len(raw), len("</")):]
	if i := bytes.IndexAny(name, " \t\n\r\f/>"); i >= 0 {
		name = name[:i]
	}
	return string(name)
}

// beforeHead reports whether a token may stand in front of the content of the head element.
func beforeHead(kind html.TokenType, raw []byte) bool {
	switch kind {
	case html.DoctypeToken, html.CommentToken:
		return true
	case html.TextToken:
		return len(bytes.TrimSpace(raw)) == 0
	case html.StartTagToken:
		t := splitTag(raw)
		return t.name == "html" || t.name == "head"
	}
	return false
}

// local returns a name without its prefix.
func local(name string) string { return name[strings.IndexByte(name, ':')+1:] }

// namesSheet matches an instruction that names a style sheet.
var namesSheet = regexp.MustCompile(`^<\?xml-stylesheet[ \t\r\n]`)

// styleSheet rewrites an instruction that names a style sheet. Its reference is relative to the document's URL.
func (w *rewriter) styleSheet(raw []byte) {
	t := splitTag(raw)
	if a := t.attr("href"); a != nil {
		base := w.page.Base
		w.page.Base = w.self
		w.change(&t, a, Load)
		w.page.Base = base
	}
	w.write(&t)
}

// xml rewrites a feed, or XML that is neither XHTML nor SVG. Its bases stay, because they also concern what is not
// rewritten, such as the HTML in an entry of Atom.
func (w *rewriter) xml(body []byte) {
	e := &edits{w: w, body: body}
	parse.Spellings(&w.page, body, e)
	slices.SortStableFunc(e.list, func(a, b edit) int { return a.from - b.from })
	done := 0
	for _, e := range e.list {
		if e.from < done {
			continue // the text of an element within another one
		}
		w.out.Write(body[done:e.from])
		w.out.Write(e.text)
		done = e.to
	}
	w.out.Write(body[done:])
}

// edits are the changes of an XML document. They implement parse.Speller.
type edits struct {
	w    *rewriter
	body []byte
	list []edit
}

// An edit replaces body[from:to].
type edit struct {
	from, to int
	text     []byte
}

func (e *edits) Spelled(s parse.Spelling) {
	w := e.w
	spelled := e.body[s.From:s.To]
	if unknownEntity(w, spelled) {
		return
	}
	decoded := w.page.Value(spelled)
	if s.Text {
		decoded = w.page.XMLText(spelled, true)
	}
	decoded = bytes.TrimSpace(decoded)
	if !s.Based && bytes.HasPrefix(decoded, []byte("#")) {
		return
	}
	ref := Ref{URL: s.URL, Fragment: s.Fragment, Use: Follow, Relative: !s.Based && w.relative(decoded), Text: s.Text}
	if s.Hop == 'E' {
		ref.Use = Load
	}
	to := w.mapped(ref)
	if to == "" || s.Based && !hasScheme([]byte(to)) { // the base would lead it elsewhere
		return
	}
	text := bytes.ReplaceAll(w.encode([]byte(to), s.Text), []byte("'"), []byte("&#39;"))
	if before := bytes.TrimRight(e.body[:s.From], " \t\r\n\f"); !s.Text && bytes.HasSuffix(before, []byte("=")) {
		text = slices.Concat([]byte(`"`), text, []byte(`"`)) // the document's value has no quotation marks
	}
	if w.fits(len(text), s.To-s.From) {
		e.list = append(e.list, edit{s.From, s.To, text})
	}
}

var entity = regexp.MustCompile(`&[A-Za-z_:][-A-Za-z0-9._:]*;`)

// unknownEntity reports whether v names an entity that the document's type may declare. Types are not read.
func unknownEntity(w *rewriter, v []byte) bool {
	return slices.ContainsFunc(entity.FindAll(v, -1), func(e []byte) bool { return bytes.Equal(w.page.Value(e), e) })
}

// sheet rewrites the text of a style element in XML or SVG, whose source is raw. If a reference changes, it writes the
// text without comments and CDATA sections.
func (w *rewriter) sheet(raw []byte, xml bool) {
	text := bytes.Clone(w.page.XMLText(raw, xml))
	if now := w.inner(func() { w.css(text) }); !bytes.Equal(now, text) {
		if now = w.encode(now, true); w.fits(len(now), len(raw)) {
			raw = now
		}
	}
	w.out.Write(raw)
}

// css rewrites style rules.
func (w *rewriter) css(text []byte) {
	done := 0
	parse.CSSReferences(text, func(from, to int, ref []byte) {
		if len(ref) == 0 || ref[0] == '#' || from < done {
			return
		}
		u, fragment, err := w.page.ResolveDecoded(ref)
		if err != nil {
			return
		}
		s := cssEscaper.Replace(w.mapped(Ref{URL: u, Fragment: fragment, Use: Load, Relative: w.relative(ref)}))
		if s == "" || !w.fits(len(s)+len(`""`), to-from) {
			return
		}
		w.out.Write(text[done:from])
		w.out.WriteByte('"')
		w.out.WriteString(s)
		w.out.WriteByte('"')
		done = to
		if to == len(text) && from < to && (text[from] == '"' || text[from] == '\'') && !closed(text[from:]) {
			done = len(text)
		}
	})
	w.out.Write(text[done:])
}

// closed reports whether a string ends with the quotation mark that it begins with.
func closed(s []byte) bool { return len(s) > 1 && s[0] == s[len(s)-1] }

// cssEscaper escapes what ends a string of CSS or the style element around it.
var cssEscaper = strings.NewReplacer(`"`, "%22", `\`, "%5C", "\n", "", "<", "%3C")

// relative reports whether a browser resolves the decoded reference ref against the document's own
// place.
func (w *rewriter) relative(ref []byte) bool {
	if w.page.Base != w.self {
		return false
	}
	first := true // no slash yet
	for i, c := range ref {
		switch {
		case c == '\t' || c == '\n' || c == '\r':
		case c == '/' || c == '\\':
			if !first {
				return false
			}
			first = false
			if i > 0 && hasScheme(ref[:i]) {
				return false
			}
		case !first:
			return true
		default:
			return !hasScheme(ref)
		}
	}
	return true
}

// hasScheme reports whether ref begins with a scheme (URL, 4.4).
func hasScheme(ref []byte) bool {
	for i, c := range ref {
		switch {
		case 'a' <= c|0x20 && c|0x20 <= 'z' || c == '\t' || c == '\n' || c == '\r':
		case i > 0 && ('0' <= c && c <= '9' || c == '+' || c == '-' || c == '.'):
		default:
			return c == ':' && i > 0
		}
	}
	return false
}
