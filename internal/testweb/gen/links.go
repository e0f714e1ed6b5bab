package gen

// A Kind tells what a link leads to.
type Kind uint8

// The kinds.
const (
	ToPage     Kind = iota // page Page of Host
	ToRedirect             // a path on the linking host that redirects to page Page of Host in one to three steps
	ToCircle               // redirects that never end
	ToNothing              // a 404
	ToTrap                 // an endless part of the host
)

// A Ref is a link without its text.
type Ref struct {
	// Host and Page are the page to which the link finally leads. Page is -1 if it leads to none.
	Host, Page int64
	Kind       Kind
	form       form
	steps      uint8
	number     uint32 // distinguishes links of a kind that lead to no page
}

// A form is a spelling of a link's URL.
type form uint8

const (
	rooted   form = iota // /dir/page.html
	relative             // ../dir/page.html
	absolute             // http://host/dir/page.html
)

// maxChildren is the largest number of children that a page links to in the tree of its host.
const maxChildren = 8

// planLinks chooses the number of children so that every page has room for links to them.
func (w *Web) planLinks() {
	least := int64(float64(w.spec.Links/2) * w.spec.Local)
	if w.spec.Links == 1 && w.spec.Local == 1 {
		least = 1
	}
	w.children = min(maxChildren, least)
	if w.spec.Graph != nil {
		w.children = 0 // no tree
	}
}

// Links appends the links of a page to dst, in their order on the page. For a page that is never answered well, these
// are the links that it would have.
func (w *Web) Links(host, page int64, dst []Ref) []Ref {
	from := w.source(host)
	first := len(dst)
	if w.division.first != nil {
		dst = w.given(from, w.original(from, page), dst)
	} else {
		dst = w.links(from, w.original(from, page), dst)
	}
	if w.fates.links {
		w.roughen(from, page, dst[first:])
	}
	if from != host { // relative links of a mirror lead to the mirror
		for i := first; i < len(dst); i++ {
			if to := &dst[i]; to.form != absolute && to.Kind != ToRedirect {
				to.Host = host
			}
		}
	}
	return dst
}

// links appends the links of a page without redirects, dead links and traps.
func (w *Web) links(host, page int64, dst []Ref) []Ref {
	pages := w.sizeOf(host)
	r := stream(w.hash(saltLinks, host, page))
	x := r.next()
	spread := uint64(w.spec.Links/2*2 + 1)
	n := int64(w.spec.Links) - int64(spread/2) + int64(below(x, spread))
	// The inner conversion makes all machines round twice; some would otherwise round once.
	local := int64(float64(float64(n)*w.spec.Local) + float64(x&0xffff)/65536)

	// The links of the tree come first, so that all pages can be reached from the first.
	placed := int64(0)
	for c := page*w.children + 1; c <= page*w.children+w.children && c < pages && placed < local; c++ {
		if w.crosslinked(host, c) {
			continue
		}
		dst = append(dst, Ref{Host: host, Page: c, form: formOf(uint64(c))})
		placed++
	}
	if placed < local { // a link to the home page
		dst = append(dst, Ref{Host: host, form: rooted})
		placed++
	}
	s, _ := site(host)
	topic, slot := w.cell(s)
	outside, acc := 0, int64(0)
	left, home := n-placed, local-placed
	for range left {
		x := r.next()
		if acc += home; acc >= left {
			acc -= left
			// u^4 prefers the first pages: the density falls as x^(-3/4).
			u := below(x, x)
			u = below(u, u)
			to := int64(below(u, uint64(pages)))
			if w.crosslinked(host, to) {
				to = (to - 1) / w.children // its parent in the tree, which is never crosslinked
			}
			dst = append(dst, Ref{Host: host, Page: to, form: formOf(x), number: loose})
			continue
		}
		to := Ref{form: absolute}
		if page == 0 && outside < 2 && 2*host+1+int64(outside) < w.spec.Hosts {
			// Links of a tree of hosts, so that all hosts can be reached from the first.
			to.Host = 2*host + 1 + int64(outside)
		} else {
			to.Host = w.elsewhere(host, topic, slot, x, r.next())
			to.number = loose
			if x&7 == 0 {
				u := mix(x)
				u = below(u, u)
				to.Page = int64(below(u, uint64(w.Pages(to.Host))))
			}
		}
		outside++
		dst = append(dst, to)
	}
	return w.refer(host, page, dst)
}

// loose marks links outside of the trees. roughen removes the mark.
const loose = 1

// trapLinks is the share of the links on a host with traps that lead into them, in units of 1/2^32.
const trapLinks = 1 << 32 / 24

// roughen makes some of the loose links of a page lead to redirects, nothing, or traps.
func (w *Web) roughen(host, page int64, list []Ref) {
	f := &w.fates
	trapped := w.trapped(host)
	r := stream(w.hash(saltRough, host, w.original(host, page)))
	for i := range list {
		to := &list[i]
		if to.number != loose {
			continue
		}
		to.number = 0
		h := r.next()
		switch {
		case hit(h, f.dead):
			*to = Ref{Host: host, Page: -1, Kind: ToNothing, number: uint32(h)}
		case hit(h, f.dieOrLoop):
			*to = Ref{Host: host, Page: -1, Kind: ToCircle, number: uint32(h)}
		case hit(h, f.redirected):
			to.Kind, to.form, to.steps = ToRedirect, rooted, uint8(1+h%3)
		case trapped && hit(h, f.redirected+trapLinks):
			*to = Ref{Host: host, Page: -1, Kind: ToTrap, number: uint32(h)}
		}
	}
}

// formOf chooses the spelling of a link within a host.
func formOf(x uint64) form {
	return [4]form{rooted, rooted, relative, absolute}[x&3]
}

// elsewhere returns a host of another site, preferably one of the same topic and language.
func (w *Web) elsewhere(host, topic, slot int64, x, y uint64) int64 {
	own, _ := site(host)
	periods := uint64((w.sites + w.period - 1) / w.period)
	if x>>48 >= uint64(w.spec.Locality*65536) {
		topic = int64(below(x<<16, uint64(w.spec.Topics)))
	}
	if x>>32&0xffff < uint64(w.spec.Locality*65536) {
		ls := w.langSlot[w.slotLang[slot]]
		u := x << 32
		slot = int64(ls[0]) + int64(below(below(u, u), uint64(ls[1])))
	} else {
		slot = int64(x >> 8 & (langSlots - 1))
	}
	for range 6 {
		u := below(y, y) // prefer low numbers, so that some hosts are popular
		u = below(u, u)
		s := w.siteAt(int64(below(u, periods)), topic, slot)
		if s < w.sites && s != own {
			return w.hostOf(s, y<<24)
		}
		y = mix(y)
	}
	// The web is too small to have a site of each topic and language.
	s := int64(below(y, uint64(w.sites)))
	if s == own {
		s = (s + 1) % w.sites
	}
	return w.hostOf(s, y<<24)
}
