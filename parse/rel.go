package parse

// The classes of a rel keyword of a link element.
const (
	relFollow = iota // a hyperlink, or unknown
	relLoad          // a browser loads the resource
	relHint          // a browser prepares something, but shows nothing of it
	relCanonical
	relNoFollow
)

// relOf classifies a keyword by HTML's list of link types (4.6.7) and by the
// icons that are registered or in wide use besides. HTML's hyperlinks are
// alternate, author, canonical, help, license, me, next, prev, privacy-policy,
// search and terms-of-service. Unknown keywords (amphtml, shortlink, top) mostly
// name pages, too, so only resources are listed here. A link element without
// rel names a page as well: microdata and RDFa use it so.
func relOf(word []byte) int {
	var buf [32]byte
	if len(word) > len(buf) {
		return relFollow
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
	case "apple-touch-icon", "apple-touch-icon-precomposed", "apple-touch-startup-image",
		"compression-dictionary", "fluid-icon", "icon", "image_src", "manifest", "mask-icon",
		"modulepreload", "prefetch", "preload", "stylesheet":
		return relLoad
	case "dns-prefetch", "expect", "pingback", "preconnect":
		return relHint
	}
	return relFollow
}

// link reads a link element. It is a hyperlink unless one of its keywords names
// a resource or a hint: an alternate stylesheet is a stylesheet. A canonical
// link is a hyperlink in any case.
func (p *Page) link(s *scanner) {
	href, _ := s.attr(aHref)
	rel, _ := s.attr(aRel)
	var load, hint, canonical, nofollow bool
	rel = p.value(rel)
	for w, rest := nextToken(rel); w != nil; w, rest = nextToken(rest) {
		switch relOf(w) {
		case relLoad:
			load = true
		case relHint:
			hint = true
		case relCanonical:
			canonical = true
		case relNoFollow:
			nofollow = true
		}
	}
	if len(trim(href)) > 0 {
		switch {
		case canonical || !load && !hint:
			p.note(href, ref{tag: "link@href", hop: 'L', nofollow: nofollow, canonical: canonical}, true)
		case load && p.work.opt.Requisites:
			p.add(href, 'E', "link@href", false)
		}
	}
	if load && p.work.opt.Requisites {
		p.srcset(s, aImageSrcset, "link@imagesrcset")
	}
}
