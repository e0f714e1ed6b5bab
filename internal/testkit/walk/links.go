package walk

import (
	"bytes"
	"encoding/xml"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/charset"
)

// resources are the keywords with which a link element refers to a resource instead of a page: those of the table of
// link types in the HTML Standard (4.6.7), and compression-dictionary (RFC 9842). The list is independent of package
// parse, because tests compare the two.
var resources = strings.Fields(`compression-dictionary dns-prefetch expect manifest modulepreload pingback preconnect
	prefetch preload stylesheet`)

// interfaces are the keywords with which a link element names an interface for programs or only a name. They are those
// that docs/links.md promises to leave out. That a page's keyword wins over them is a promise, too.
var interfaces = strings.Fields(`edituri wlwmanifest https://api.w.org/ https://github.com/wp-api/wp-api
	webmention http://webmention.org/ micropub microsub authorization_endpoint token_endpoint indieauth-metadata
	openid.server openid.delegate openid2.provider openid2.local_id hub service service-desc service.post service.edit
	service.feed edit edit-media lrdd timegate timemap p3pv1 monetization profile`)

// interfaceType matches the media types of such interfaces.
var interfaceType = regexp.MustCompile(`(?i)^\s*(application/json(\+oembed)?|(text|application)/xml\+oembed|` +
	`application/(opensearchdescription|rsd|wlwmanifest)\+xml|[a-z]+/[a-z0-9.-]+\+json)\s*(;|$)`)

// feedType matches the one JSON type that people subscribe to.
var feedType = regexp.MustCompile(`(?i)^\s*application/feed\+json`)

// hyperlinks are the keywords of that table that refer to a page, even next to a keyword of a resource, such as
// rel="next prefetch".
var hyperlinks = strings.Fields("author help license me next prev privacy-policy search terms-of-service")

// isResource reports whether a keyword of a link element refers to something other than a page. Keywords outside of the
// HTML Standard refer to pages, unless their name says that they refer to an image (apple-touch-icon, image_src).
func isResource(keyword string) bool {
	isBreak := func(r rune) bool { return r == '-' || r == '_' }
	isImage := func(part string) bool { return part == "icon" || part == "image" }
	return slices.Contains(resources, keyword) || slices.Contains(interfaces, keyword) ||
		strings.HasPrefix(keyword, "schema.") || slices.ContainsFunc(strings.FieldsFunc(keyword, isBreak), isImage)
}

// page collects the references of a document.
type page struct {
	at       string
	base     string
	hasBase  bool
	refs     []string // relative to base
	self     []string // relative to the document's own URL
	refresh  []string // targets of a refresh, which is not a link: nofollow does not apply
	nofollow bool
}

// links returns the URLs to which a document leads, in normal form.
func links(at string, h http.Header, body []byte) []string {
	p := &page{at: at, base: at}
	for _, v := range h.Values("X-Robots-Tag") {
		p.directives(v)
	}
	if m := refreshed.FindStringSubmatch(h.Get("Refresh")); m != nil {
		p.refresh = append(p.refresh, m[1])
	}
	for _, v := range h.Values("Link") {
		if m := linkHeader.FindStringSubmatch(v); m != nil && strings.Contains(v, "canonical") {
			p.self = append(p.self, m[1])
		}
	}
	ctype := strings.ToLower(h.Get("Content-Type"))
	switch t, _, _ := strings.Cut(ctype, ";"); strings.TrimSpace(t) {
	case "text/html", "application/xhtml+xml":
		p.html(body, ctype)
	case "application/rss+xml", "application/atom+xml", "application/xml", "text/xml", "image/svg+xml",
		"application/rdf+xml":
		p.xml(body)
	}
	var out []string
	add := func(base string, refs []string) {
		for _, r := range refs {
			if u, ok := Resolve(base, r); ok {
				out = append(out, u)
			}
		}
	}
	add(p.base, p.refresh)
	if !p.nofollow {
		add(p.base, p.refs)
		add(p.at, p.self)
	}
	return out
}

var (
	refreshed  = regexp.MustCompile(`(?is)^\s*[\d.]+\s*[;,\s]\s*(?:url\s*=\s*)?["']?([^"']+)`)
	linkHeader = regexp.MustCompile(`<([^>]*)>`)
)

func (p *page) directives(list string) {
	for _, w := range strings.Split(strings.ToLower(list), ",") {
		if w = strings.TrimSpace(w); w == "nofollow" || w == "none" {
			p.nofollow = true
		}
	}
}

func (p *page) html(body []byte, ctype string) {
	root, err := html.ParseWithOptions(bytes.NewReader(decoded(body, ctype)), html.ParseOptionEnableScripting(false))
	if err != nil {
		return
	}
	// The page determines the depth of the tree, so do not use recursion.
	for n := root; n != nil; {
		if n.Type == html.ElementNode {
			p.element(n)
		}
		if n.FirstChild != nil && !inert(n) {
			n = n.FirstChild
			continue
		}
		for n != nil && n.NextSibling == nil {
			n = n.Parent
		}
		if n != nil {
			n = n.NextSibling
		}
	}
}

// declaration matches a charset in the tag of a meta element.
var declaration = regexp.MustCompile(`(?i)<meta\s[^>]*charset\s*=\s*["']?([a-z0-9_:-]+)`)

// decoded returns the body in UTF-8. If neither a byte order mark, the header nor the first 1024 bytes name the
// encoding, the first meta element that names one counts (HTML, 13.2.3.4).
func decoded(body []byte, ctype string) []byte {
	enc, _, certain := charset.DetermineEncoding(body, ctype)
	if !certain && !declaration.Match(body[:min(len(body), 1024)]) {
		if m := declaration.FindSubmatch(body); m != nil {
			if e, name := charset.Lookup(string(m[1])); e != nil && !strings.HasPrefix(name, "utf-16") {
				enc = e
			}
		}
	}
	text, err := enc.NewDecoder().Bytes(body)
	if err != nil {
		return body
	}
	return text
}

// inert reports whether n is a template that is not a shadow root. Its content is not part of the page (HTML, 4.12.3).
func inert(n *html.Node) bool {
	if n.Data != "template" || n.Namespace != "" {
		return false
	}
	for _, a := range n.Attr {
		if m := strings.ToLower(a.Val); a.Key == "shadowrootmode" && (m == "open" || m == "closed") {
			return false
		}
	}
	return true
}

func (p *page) element(n *html.Node) {
	attr := map[string]string{}
	for i := len(n.Attr) - 1; i >= 0; i-- { // backwards, because the first attribute of a name counts
		a := n.Attr[i]
		if a.Namespace != "" {
			a.Key = a.Namespace + ":" + a.Key
		}
		attr[a.Key] = a.Val
	}
	href, ok := attr["href"]
	rel := map[string]bool{}
	for _, w := range strings.Fields(strings.ToLower(attr["rel"])) {
		rel[w] = true
	}
	if n.Namespace == "svg" && n.Data == "a" {
		if x, has := attr["xlink:href"]; !ok && has {
			href, ok = x, true
		}
		if ok && !rel["nofollow"] {
			p.refs = append(p.refs, href)
		}
	}
	if n.Namespace != "" {
		return
	}
	switch n.Data {
	case "base":
		if ok && !p.hasBase {
			p.hasBase = true
			if u, good := Resolve(p.at, href); good {
				p.base = u
			}
		}
	case "a", "area":
		if ok && !rel["nofollow"] {
			p.refs = append(p.refs, href)
		}
	case "link":
		resource, hyperlink := false, rel["canonical"]
		for w := range rel {
			resource = resource || isResource(w)
			hyperlink = hyperlink || slices.Contains(hyperlinks, w)
		}
		if t := attr["type"]; interfaceType.MatchString(t) && !feedType.MatchString(t) {
			resource, hyperlink = true, rel["canonical"]
		}
		if (!resource || hyperlink) && !rel["nofollow"] && strings.TrimSpace(href) != "" {
			p.refs = append(p.refs, href)
		}
	case "frame", "iframe":
		if doc, has := attr["srcdoc"]; has && n.Data == "iframe" {
			p.refs = append(p.refs, inFrame(p.base, doc)...)
		} else if strings.TrimSpace(attr["src"]) != "" {
			p.refs = append(p.refs, attr["src"])
		}
	case "meta":
		if strings.EqualFold(strings.TrimSpace(attr["name"]), "robots") {
			p.directives(attr["content"])
		}
		if strings.EqualFold(attr["http-equiv"], "refresh") {
			if m := refreshed.FindStringSubmatch(attr["content"]); m != nil {
				p.refresh = append(p.refresh, m[1])
			}
		}
	}
}

// inFrame returns the absolute URLs to which the document in a srcdoc attribute leads.
func inFrame(base, doc string) []string {
	return links(base, http.Header{"Content-Type": {"text/html; charset=utf-8"}}, []byte(doc))
}

// xml collects the links of feeds and of SVG drawings.
func (p *page) xml(body []byte) {
	d := xml.NewDecoder(bytes.NewReader(body))
	d.Strict = false
	d.CharsetReader = charset.NewReaderLabel
	root, inLink := "", false
	var text strings.Builder
	for {
		t, err := d.Token()
		if err == io.EOF || err != nil {
			return
		}
		switch t := t.(type) {
		case xml.StartElement:
			if root == "" {
				root = t.Name.Local
			}
			svg := root == "svg" && t.Name.Local == "a"
			if svg || root == "feed" && t.Name.Local == "link" {
				for _, a := range t.Attr {
					if a.Name.Local == "href" {
						p.refs = append(p.refs, a.Value)
					}
				}
			}
			inLink = (root == "rss" || root == "RDF") && t.Name.Local == "link"
			text.Reset()
		case xml.CharData:
			text.Write(t)
		case xml.EndElement:
			if inLink && strings.TrimSpace(text.String()) != "" {
				p.refs = append(p.refs, text.String())
			}
			inLink = false
		}
	}
}
