package gen

// A Kind says what a link leads to.
type Kind uint8

// The kinds.
const (
	ToPage Kind = iota // Page of Host
)

// A Ref is a link as the graph has it, without its text.
type Ref struct {
	// Host and Page are where the link leads in the end; Page is -1 where it
	// leads to no page.
	Host, Page int64
	Kind       Kind
	form       form
}

// A form is how a link's URL is written.
type form uint8

const (
	rooted   form = iota // /dir/page.html
	relative             // ../dir/page.html
	absolute             // http://host/dir/page.html
)

// maxChildren is how many children of a page in the tree of its site are
// linked from it.
const maxChildren = 8

// planLinks chooses the number of children such that every page has room for them.
func (w *Web) planLinks() {
	least := int64(float64(w.spec.Links/2) * w.spec.Local)
	if w.spec.Links == 1 && w.spec.Local == 1 {
		least = 1
	}
	w.children = min(maxChildren, least)
}

// Links appends the links of a page to dst, in their order on the page.
func (w *Web) Links(host, page int64, dst []Ref) []Ref {
	pages := w.Pages(host)
	r := stream(w.hash(saltLinks, host, page))
	x := r.next()
	spread := uint64(w.spec.Links/2*2 + 1)
	n := int64(w.spec.Links) - int64(spread/2) + int64(below(x, spread))
	local := int64(float64(n)*w.spec.Local + float64(x&0xffff)/65536)

	// The tree comes first, so that all pages can be reached from the first.
	placed := int64(0)
	for c := page*w.children + 1; c <= page*w.children+w.children && c < pages && placed < local; c++ {
		dst = append(dst, Ref{Host: host, Page: c, form: formOf(uint64(c))})
		placed++
	}
	if placed < local { // the way home
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
			dst = append(dst, Ref{Host: host, Page: int64(below(u, uint64(pages))), form: formOf(x)})
			continue
		}
		to := Ref{form: absolute}
		if page == 0 && outside < 2 && 2*host+1+int64(outside) < w.spec.Hosts {
			// A tree of the hosts, so that all can be reached from the first.
			to.Host = 2*host + 1 + int64(outside)
		} else {
			to.Host = w.elsewhere(host, topic, slot, x, r.next())
			if x&7 == 0 {
				u := mix(x)
				u = below(u, u)
				to.Page = int64(below(u, uint64(w.Pages(to.Host))))
			}
		}
		outside++
		dst = append(dst, to)
	}
	return dst
}

// formOf chooses how a link within a host is written.
func formOf(x uint64) form {
	return [4]form{rooted, rooted, relative, absolute}[x&3]
}

// elsewhere is a host of another site, preferably one of the same topic and language.
func (w *Web) elsewhere(host, topic, slot int64, x, y uint64) int64 {
	own, _ := site(host)
	periods := uint64((w.sites + w.period - 1) / w.period)
	if x>>48 >= uint64(w.spec.Locality*65536) {
		topic = int64(below(x<<16, uint64(w.spec.Topics)))
	}
	if x>>32&0xffff < uint64(w.spec.Locality*65536) {
		ls := w.langSlot[w.slotLang[slot]]
		slot = int64(ls[0]) + int64(below(x<<32, uint64(ls[1])))
	} else {
		slot = int64(x >> 8 & (langSlots - 1))
	}
	for range 6 {
		s := w.siteAt(int64(below(below(y, y), periods)), topic, slot)
		if s < w.sites && s != own {
			return w.hostOf(s, y<<24)
		}
		y = mix(y)
	}
	// A web too small to have a site of each topic and language.
	s := int64(below(y, uint64(w.sites)))
	if s == own {
		s = (s + 1) % w.sites
	}
	return w.hostOf(s, y<<24)
}
