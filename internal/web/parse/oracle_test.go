package parse

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/orbweaver/orbweaver/internal/web/weburl"
	"golang.org/x/net/html"
	xcharset "golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"
)

// oracle finds the links of an HTML page by walking the tree that x/net/html builds. It shares only
// the URL resolver and the CSS scanner with the scanner under test.
type oracle struct {
	doc       weburl.URL
	base      weburl.URL
	enc       encoding.Encoding // nil: UTF-8
	req       bool
	links     []string
	at        map[string]int
	nofollow  []bool
	canonical string
	title     string
	titled    bool
	page      bool // the page says nofollow
}

// walk returns one line for each link: hop, URL, tag, and whether it is nofollow.
func walk(doc weburl.URL, contentType string, body []byte, req bool) (*oracle, error) {
	o := &oracle{doc: doc, base: doc, req: req, at: map[string]int{}}
	enc, name, certain := xcharset.DetermineEncoding(body, contentType)
	if name == "utf-8" && !certain && !declaresUTF8.Match(body[:min(len(body), 1024)]) {
		// x/net guesses UTF-8 from the bytes, which HTML leaves open.
		enc, name = xcharset.Lookup("windows-1252")
	}
	if !certain && name == "windows-1252" && !declaresLatin1.Match(body[:min(len(body), 1024)]) {
		if late := lateLabel(body); late != "" {
			enc, name = xcharset.Lookup(late)
		}
	}
	text := bytes.TrimPrefix(body, []byte("\xEF\xBB\xBF"))
	if name != "utf-8" {
		if b, err := enc.NewDecoder().Bytes(text); err == nil {
			text = b
		}
		if name != "utf-16le" && name != "utf-16be" {
			o.enc = enc
		}
	}
	root, err := html.ParseWithOptions(bytes.NewReader(text), html.ParseOptionEnableScripting(false))
	if err != nil {
		return nil, err
	}
	o.findBase(root)
	o.visit(root)
	for i := range o.links {
		o.links[i] += fmt.Sprintf(" nofollow=%v", o.nofollow[i])
	}
	if o.page {
		o.links = slices.DeleteFunc(o.links, func(l string) bool { return l[0] == 'L' })
	}
	return o, nil
}

// lateLabel returns the first known encoding that a meta element of the tree declares.
func lateLabel(body []byte) (name string) {
	root, err := html.Parse(bytes.NewReader(body))
	if err != nil {
		return ""
	}
	for n := range root.Descendants() {
		if n.Type != html.ElementNode || n.Data != "meta" || n.Namespace != "" {
			continue
		}
		label, _ := attrOfNode(n, "charset")
		if _, name = xcharset.Lookup(label); name == "" {
			content, _ := attrOfNode(n, "content")
			equiv, _ := attrOfNode(n, "http-equiv")
			if m := charsetIn.FindStringSubmatch(content); m != nil && strings.EqualFold(equiv, "content-type") {
				_, name = xcharset.Lookup(m[1])
			}
		}
		if strings.HasPrefix(name, "utf-16") {
			return "utf-8"
		}
		if name != "" {
			return name
		}
	}
	return ""
}

var (
	charsetIn      = regexp.MustCompile(`(?i)charset\s*=\s*["']?([^"'\s;]+)`)
	declaresLatin1 = regexp.MustCompile(`(?i)charset\s*=\s*["']?(windows-1252|latin1|iso-8859-1|us-ascii)` +
		`|<\?xml[^>]*encoding`)
)

var declaresUTF8 = regexp.MustCompile(`(?i)charset\s*=\s*["']?utf-?8|encoding=["']utf-8`)

func attrOfNode(n *html.Node, key string) (string, bool) {
	for _, a := range n.Attr {
		k := a.Key
		if a.Namespace != "" {
			k = a.Namespace + ":" + k
		}
		if strings.EqualFold(k, key) {
			return strings.ReplaceAll(a.Val, "\x00", "\uFFFD"), true
		}
	}
	return "", false
}

func inert(n *html.Node) bool {
	if n.Type != html.ElementNode || n.Data != "template" || n.Namespace != "" {
		return false
	}
	m, _ := attrOfNode(n, "shadowrootmode")
	return !strings.EqualFold(m, "open") && !strings.EqualFold(m, "closed")
}

func (o *oracle) findBase(n *html.Node) bool {
	if n.Type == html.ElementNode && n.Data == "base" && n.Namespace == "" {
		if href, ok := attrOfNode(n, "href"); ok {
			if u, err := o.doc.Resolve(cleanRef(href)); err == nil {
				o.base = u
			}
			return true
		}
	}
	if inert(n) {
		return false
	}
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		if o.findBase(c) {
			return true
		}
	}
	return false
}

// cleanRef does the first steps of the URL parser.
func cleanRef(s string) string {
	s = strings.TrimFunc(s, func(r rune) bool { return r <= ' ' })
	return strings.Map(func(r rune) rune {
		if r == '\t' || r == '\n' || r == '\r' {
			return -1
		}
		return r
	}, s)
}

func (o *oracle) add(ref, hop, place string, nofollow bool) (url string) {
	return o.addIn(ref, hop, place, nofollow, o.enc)
}

func (o *oracle) addIn(ref, hop, place string, nofollow bool, enc encoding.Encoding) (url string) {
	ref = cleanRef(ref)
	if i := strings.IndexByte(ref, '?'); i >= 0 && enc != nil {
		end := strings.IndexByte(ref, '#')
		if end < 0 {
			end = len(ref)
		}
		if i < end {
			var q strings.Builder
			for _, r := range ref[i:end] {
				if r < utf8.RuneSelf {
					q.WriteRune(r)
					continue
				}
				b, err := encoding.HTMLEscapeUnsupported(enc.NewEncoder()).Bytes([]byte(string(r)))
				if err != nil {
					b = []byte(string(r))
				}
				for _, c := range b {
					if '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z' {
						q.WriteByte(c)
					} else {
						fmt.Fprintf(&q, "%%%02X", c)
					}
				}
			}
			ref = ref[:i] + q.String() + ref[end:]
		}
	}
	u, err := o.base.Resolve(ref)
	if err != nil {
		return ""
	}
	key := hop + " " + u.String()
	if i, ok := o.at[key]; ok {
		o.nofollow[i] = o.nofollow[i] && nofollow
		return u.String()
	}
	o.at[key] = len(o.links)
	o.links = append(o.links, key+" "+place)
	o.nofollow = append(o.nofollow, nofollow)
	return u.String()
}

func (o *oracle) load(n *html.Node, key string, hop, place string) {
	if v, ok := attrOfNode(n, key); ok && cleanRef(v) != "" && (hop != "E" || o.req) {
		o.add(v, hop, place, false)
	}
}

func (o *oracle) set(n *html.Node, key, place string) {
	v, ok := attrOfNode(n, key)
	if !ok || !o.req {
		return
	}
	// The steps of HTML, 4.8.4.3.10, on strings.
	for {
		v = strings.TrimLeft(v, " \t\n\f\r,")
		if v == "" {
			return
		}
		i := strings.IndexAny(v, " \t\n\f\r")
		if i < 0 {
			i = len(v)
		}
		ref := v[:i]
		v = v[i:]
		if strings.HasSuffix(ref, ",") {
			o.add(strings.TrimRight(ref, ","), "E", place, false)
			continue
		}
		o.add(ref, "E", place, false)
		depth := 0
		for i = 0; i < len(v); i++ {
			if v[i] == '(' {
				depth = 1
			} else if v[i] == ')' {
				depth = 0
			} else if v[i] == ',' && depth == 0 {
				break
			}
		}
		v = v[i:]
	}
}

// loaded and hints are the link types that HTML 4.6.7 calls resources, and icons.
var loaded, hints = strings.Fields(`apple-touch-icon apple-touch-icon-precomposed apple-touch-startup-image
	compression-dictionary fluid-icon icon image_src manifest mask-icon modulepreload prefetch preload stylesheet`),
	strings.Fields(`dns-prefetch expect pingback preconnect edituri wlwmanifest https://api.w.org/ profile`)

// notRead matches the types of link elements that no reader opens.
var notRead = regexp.MustCompile(`(?i)^\s*(application/(json|(opensearchdescription|rsd|wlwmanifest)\+xml|ld\+json)|` +
	`[a-z]+/[a-z]+\+oembed)\s*(;|$)`)

func (o *oracle) visit(n *html.Node) {
	if n.Type == html.ElementNode {
		o.element(n)
		if v, ok := attrOfNode(n, "style"); ok && o.req {
			o.css(v, "@style:url", "@style:url")
		}
	}
	if inert(n) {
		return
	}
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		o.visit(c)
	}
}

func (o *oracle) css(text, urls, imports string) {
	for _, r := range cssRefs(text) {
		if t := cleanRef(r.ref); t == "" || t[0] == '#' {
			continue
		}
		place := urls
		if r.imported {
			place = imports
		}
		o.addIn(r.ref, "E", place, false, nil)
	}
}

func (o *oracle) element(n *html.Node) {
	text := func() string {
		var b strings.Builder
		for c := range n.Descendants() {
			if c.Type == html.TextNode {
				b.WriteString(c.Data)
			}
		}
		return b.String()
	}
	rel, _ := attrOfNode(n, "rel")
	rels := strings.FieldsFunc(strings.ToLower(rel), func(r rune) bool { return strings.ContainsRune(" \t\n\f\r", r) })
	nofollow := slices.Contains(rels, "nofollow")
	href, hasHref := attrOfNode(n, "href")
	if n.Namespace == "svg" {
		if !hasHref {
			href, hasHref = attrOfNode(n, "xlink:href")
		}
		switch tag := strings.ToLower(n.Data); tag {
		case "a":
			if hasHref {
				o.add(href, "L", "svg:a@href", nofollow)
			}
		case "image", "feimage", "use", "script":
			if c := cleanRef(href); c != "" && c[0] != '#' && o.req {
				o.add(href, "E", "svg:"+tag+"@href", false)
			}
		case "style":
			if o.req {
				o.css(text(), "style:url", "style:import")
			}
		}
		return
	}
	if n.Namespace != "" {
		return
	}
	switch n.Data {
	case "a", "area":
		if hasHref {
			o.add(href, "L", n.Data+"@href", nofollow)
		}
	case "link":
		var load, hint bool
		for _, r := range rels {
			load = load || slices.Contains(loaded, r)
			hint = hint || slices.Contains(hints, r)
		}
		canonical := slices.Contains(rels, "canonical")
		if cleanRef(href) != "" {
			if load && !canonical {
				o.load(n, "href", "E", "link@href")
			} else if kind, _ := attrOfNode(n, "type"); canonical || !hint && !notRead.MatchString(kind) {
				u := o.add(href, "L", "link@href", nofollow)
				if canonical && o.canonical == "" {
					o.canonical = u
				}
			}
		}
		if load {
			o.set(n, "imagesrcset", "link@imagesrcset")
		}
	case "meta":
		content, ok := attrOfNode(n, "content")
		name, _ := attrOfNode(n, "name")
		if ok && strings.EqualFold(strings.TrimSpace(name), "robots") {
			l := strings.ToLower(content)
			o.page = o.page || strings.Contains(l, "nofollow") || strings.Contains(l, "none")
		}
		if equiv, _ := attrOfNode(n, "http-equiv"); ok && strings.EqualFold(equiv, "refresh") {
			if m := refreshed.FindStringSubmatch(content); m != nil {
				o.add(m[1]+m[2]+m[3], "R", "meta@refresh", false)
			}
		}
	case "frame", "iframe":
		if doc, ok := attrOfNode(n, "srcdoc"); ok && n.Data == "iframe" {
			o.srcdoc(doc)
			return
		}
		o.load(n, "src", "L", n.Data+"@src")
	case "img":
		o.load(n, "src", "E", "img@src")
		o.set(n, "srcset", "img@srcset")
	case "source":
		o.load(n, "src", "E", "source@src")
		o.set(n, "srcset", "source@srcset")
	case "script", "audio", "track", "embed":
		o.load(n, "src", "E", n.Data+"@src")
	case "video":
		o.load(n, "src", "E", "video@src")
		o.load(n, "poster", "E", "video@poster")
	case "object":
		o.load(n, "data", "E", "object@data")
	case "input":
		if t, _ := attrOfNode(n, "type"); strings.EqualFold(t, "image") {
			o.load(n, "src", "E", "input@src")
		}
	case "body", "table":
		o.load(n, "background", "E", n.Data+"@background")
	case "tr":
		o.load(n, "background", "E", "tr@background")
	case "thead", "tbody", "tfoot":
		o.load(n, "background", "E", "tbody@background")
	case "td", "th":
		o.load(n, "background", "E", "td@background")
	case "style":
		if o.req {
			o.css(text(), "style:url", "style:import")
		}
	case "title":
		if !o.titled {
			o.titled, o.title = true, strings.Join(strings.Fields(text()), " ")
		}
	}
}

// srcdoc adds the links of a document in an attribute.
func (o *oracle) srcdoc(doc string) {
	in := &oracle{doc: o.base, base: o.base, req: o.req, at: map[string]int{}}
	root, err := html.ParseWithOptions(strings.NewReader(doc), html.ParseOptionEnableScripting(false))
	if err != nil {
		return
	}
	in.findBase(root)
	in.visit(root)
	for i, l := range in.links {
		f := strings.SplitN(l, " ", 3)
		if !in.page || f[0] != "L" {
			o.addIn(f[1], f[0], f[2], in.nofollow[i], nil)
		}
	}
}

var refreshed = regexp.MustCompile(`(?is)^\s*[0-9.]+\s*[;,\s]\s*(?:url\s*=\s*)?(?:"([^"]*)|'([^']*)|([^"'].*))`)

// lines renders a page as walk does.
func lines(p *Page) []string {
	out := make([]string, 0, len(p.Links))
	for _, l := range p.Links {
		out = append(out, fmt.Sprintf("%c %s %s nofollow=%v", l.Hop, l.URL, l.Tag, l.NoFollow))
	}
	return out
}
