package parse

// What a rel keyword of a link element makes of it.
const (
	relNone = iota
	relFollow
	relLoad
	relCanonical
	relNoFollow
)

// relOf sorts the keywords of a link element (HTML, 4.6.8, and what is
// registered or in wide use besides). Unknown ones lead nowhere.
func relOf(word []byte) int {
	var buf [32]byte
	if len(word) > len(buf) {
		return relNone
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
	case "alternate", "amphtml", "appendix", "archives", "author", "begin", "bookmark", "chapter",
		"contents", "copyright", "end", "first", "glossary", "help", "home", "index", "last",
		"license", "next", "parent", "prerender", "prev", "previous", "privacy-policy", "section",
		"shortlink", "start", "subsection", "terms-of-service", "toc", "top", "up":
		return relFollow
	case "apple-touch-icon", "apple-touch-icon-precomposed", "apple-touch-startup-image",
		"fluid-icon", "icon", "image_src", "manifest", "mask-icon", "modulepreload", "prefetch",
		"preload", "stylesheet":
		return relLoad
	}
	return relNone
}

// link reads a link element. A stylesheet is loaded even if it is an
// alternate; of the other keywords any that is followed makes it a link.
func (p *Page) link(s *scanner) {
	href, ok := s.attr(aHref)
	if !ok {
		href = nil
	}
	rel, ok := s.attr(aRel)
	if !ok {
		return
	}
	var follow, load, canonical, nofollow bool
	rel = p.value(rel)
	for w, rest := nextToken(rel); w != nil; w, rest = nextToken(rest) {
		switch relOf(w) {
		case relFollow:
			follow = true
		case relLoad:
			load = true
		case relCanonical:
			follow, canonical = true, true
		case relNoFollow:
			nofollow = true
		}
	}
	if len(trim(href)) > 0 {
		switch {
		case load && !canonical:
			if p.work.opt.Requisites {
				p.add(href, 'E', "link@href", false)
			}
		case follow:
			p.note(href, ref{tag: "link@href", hop: 'L', nofollow: nofollow, canonical: canonical}, true)
		}
	}
	if load && p.work.opt.Requisites {
		p.srcset(s, aImageSrcset, "link@imagesrcset")
	}
}
