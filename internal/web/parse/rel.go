package parse

import (
	"bytes"
	"strings"

	"github.com/orbweaver/orbweaver/internal/web/message"
)

// The classes of a rel keyword of a link element.
const (
	relUnknown = iota // unknown, or alternate, which may qualify a resource
	relPage           // a hyperlink, whatever other keywords there are
	relLoad           // a browser loads the resource
	relHint           // a browser prepares something but shows nothing of it
	relMachine        // a program talks to it, or it is only a name
	relCanonical
	relNoFollow
)

// relOf classifies a keyword by HTML's list of link types (4.6.7), by icons that are registered or
// in wide use, and by the interfaces for programs and the names that docs/links.md lists. Unknown
// keywords (amphtml, shortlink, top) mostly name pages. A link element without rel also names a
// page, as in microdata and RDFa.
func relOf(word []byte) int {
	var buf [40]byte
	if len(word) > len(buf) {
		return relUnknown
	}
	w := buf[:len(word)]
	for i, c := range word {
		w[i] = lower(c)
	}
	switch string(w) {
	case "canonical":
		return relCanonical
	case "nofollow":
		return relNoFollow
	case "author", "help", "license", "me", "next", "prev", "privacy-policy", "search", "terms-of-service":
		return relPage
	case "apple-touch-icon-precomposed", "apple-touch-startup-image", "compression-dictionary", "icon",
		"image_src", "manifest", "modulepreload", "prefetch", "preload", "stylesheet":
		return relLoad
	case "dns-prefetch", "expect", "pingback", "preconnect":
		return relHint
	case "authorization_endpoint", "edit", "edit-media", "edituri", "http://webmention.org/", "https://api.w.org/",
		"https://github.com/wp-api/wp-api", "hub", "indieauth-metadata", "lrdd", "micropub", "microsub", "monetization",
		"openid.delegate", "openid.server", "openid2.local_id", "openid2.provider", "p3pv1", "profile", "service",
		"service-desc", "service.edit", "service.feed", "service.post", "timegate", "timemap", "token_endpoint",
		"webmention", "wlwmanifest":
		return relMachine
	}
	if bytes.HasPrefix(w, []byte("schema.")) { // names a vocabulary: schema.DC
		return relMachine
	}
	if bytes.HasSuffix(w, []byte("-icon")) { // apple-touch-icon, fluid-icon, mask-icon, touch-icon
		return relLoad
	}
	return relUnknown
}

// link reads a link element. Each keyword makes its own link (HTML, 4.6.7). The element is a
// hyperlink if a keyword says so (next prefetch), or if no keyword names a resource or a hint. An
// alternate stylesheet is a stylesheet.
func (p *Page) link(s *scanner) {
	href, _ := s.attr(aHref)
	rel, _ := s.attr(aRel)
	var page, load, other, canonical, nofollow bool
	rel = p.value(rel)
	for w, rest := nextToken(rel); w != nil; w, rest = nextToken(rest) {
		switch relOf(w) {
		case relPage:
			page = true
		case relLoad:
			load = true
		case relHint, relMachine:
			other = true
		case relCanonical:
			canonical = true
		case relNoFollow:
			nofollow = true
		}
	}
	if len(trim(href)) > 0 {
		p.work.noted = -1
		switch {
		case canonical || (page || !load && !other) && !p.forPrograms(s):
			p.note(href, ref{tag: "link@href", hop: 'L', nofollow: nofollow, canonical: canonical}, true)
		case load && p.work.opt.Requisites:
			p.add(href, 'E', "link@href", false)
		}
		if p.work.opt.Texts {
			p.describe(s, tLink)
		}
	}
	if load && p.work.opt.Requisites {
		p.srcset(s, aImageSrcset, "link@imagesrcset")
	}
}

// forPrograms reports whether the type of a link element is a format that only programs read: an
// embedding (oEmbed), an interface's description, or JSON other than a feed.
func (p *Page) forPrograms(s *scanner) bool {
	v, ok := s.attr(aType)
	if !ok {
		return false
	}
	t, _ := message.Header{{Name: "Content-Type", Value: string(p.value(v))}}.Type()
	switch t.Essence {
	case "application/feed+json":
		return false
	case "application/json", "application/opensearchdescription+xml", "application/rsd+xml",
		"application/wlwmanifest+xml", "application/xml+oembed", "text/xml+oembed":
		return true
	}
	return strings.HasSuffix(t.Essence, "+json") || strings.HasPrefix(t.Essence, "application/json+")
}
