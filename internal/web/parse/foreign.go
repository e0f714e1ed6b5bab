package parse

// foreign tracks where SVG and MathML content begins and ends (HTML, 13.2.6.5). In such content
// CDATA sections count, no text is raw, and other elements link. Outside of it, foreign is empty
// and costs nothing.
//
// It keeps a stack only within foreign content. An end tag there may name an element that is open
// outside; it then ends the foreign content. foreign detects this by counts of start and end tags,
// so an element outside that was closed by implication counts as open. A second scan makes the
// counts when the first such end tag is found, and they are kept from then on. Nearly all pages
// never need them.
type foreign struct {
	stack []node
	// open counts the open elements outside of foreign content by short. It is nil until it is
	// needed.
	open *[256]int32
	// over is the number of open elements beyond maxForeign. They are only counted.
	over int
}

// maxForeign is the maximum tracked depth of foreign content.
const maxForeign = 256

type node struct {
	name   uint64 // hash of the name in lower case
	space  uint8
	inside uint8
}

// Namespaces.
const (
	nsHTML = iota
	nsSVG
	nsMath
	nsXSLT
	nsNone    // another one
	nsNothing // not to be read
)

// How the content of a foreign element is read.
const (
	inForeign = iota
	inHTML    // an HTML integration point
	inText    // a MathML text integration point
	inAnnotation
)

func (f *foreign) reset() { *f = foreign{stack: f.stack[:0]} }

// idle reports whether only the start of foreign content matters now.
func (f *foreign) idle() bool { return len(f.stack) == 0 && f.open == nil }

// short returns a quick hash of a name.
func short(n []byte) byte {
	return n[0]*67 + n[len(n)/2]*13 + n[len(n)-1]*5 + byte(len(n))*29
}

// cdata reports whether CDATA sections count at this place.
func (f *foreign) cdata() bool {
	return len(f.stack) > 0 && f.stack[len(f.stack)-1].space != nsHTML
}

// start processes the start tag that s has read. It returns the namespace of the new element.
func (f *foreign) start(s *scanner, t tag) uint8 {
	if n := len(f.stack); n > 0 && f.over == 0 {
		top := f.stack[n-1]
		if top.space != nsHTML && !f.entersHTML(top, s, t) {
			if !s.xml && (breakout[t] || t == tFont && s.has&(1<<aFontLook) != 0) {
				f.breakOut()
			} else {
				if !s.selfClosing {
					f.push(node{hash(s.name()), top.space, inside(s, t, top.space)})
				}
				return top.space
			}
		}
	}
	switch {
	case t == tSVG || t == tMath:
		space := uint8(nsSVG)
		if t == tMath {
			space = nsMath
		}
		if !s.selfClosing {
			f.push(node{hash(s.name()), space, inForeign})
		}
		return space
	case void[t] || s.xml && s.selfClosing:
	case len(f.stack) > 0:
		f.push(node{hash(s.name()), nsHTML, inHTML})
	case f.open == nil:
	case t == tA:
		f.open[short(s.name())] = 1 // an a element closes the one before it
	default:
		f.open[short(s.name())]++
	}
	return nsHTML
}

func (f *foreign) push(n node) {
	if len(f.stack) >= maxForeign {
		f.over++
		return
	}
	f.stack = append(f.stack, n)
}

// breakOut closes foreign elements up to the nearest HTML element or integration point.
func (f *foreign) breakOut() {
	n := len(f.stack)
	for n > 0 {
		top := f.stack[n-1]
		if top.space == nsHTML || top.inside == inHTML || top.inside == inText {
			break
		}
		n--
	}
	f.stack = f.stack[:n]
}

// entersHTML reports whether a start tag within top makes an HTML element.
func (f *foreign) entersHTML(top node, s *scanner, t tag) bool {
	switch top.inside {
	case inHTML:
		return true
	case inText:
		return string(s.name()) != "mglyph" && string(s.name()) != "malignmark"
	case inAnnotation:
		return t == tSVG
	}
	return false
}

func inside(s *scanner, t tag, space uint8) uint8 {
	switch {
	case space == nsSVG:
		if t == tForeignObject || t == tTitle || string(s.name()) == "desc" {
			return inHTML
		}
	case space == nsMath:
		switch string(s.name()) {
		case "mi", "mo", "mn", "ms", "mtext":
			return inText
		case "annotation-xml":
			if v, ok := s.attr(aEncoding); ok && (fold(v, "text/html") || fold(v, "application/xhtml+xml")) {
				return inHTML
			}
			return inAnnotation
		}
	}
	return inForeign
}

// finish processes the end tag that s has read.
func (f *foreign) finish(s *scanner, t tag) {
	n := len(f.stack)
	if n == 0 {
		if f.open != nil && f.open[short(s.name())] > 0 {
			f.open[short(s.name())]--
		}
		return
	}
	if f.over > 0 {
		f.over--
		return
	}
	h := hash(s.name())
	space := f.stack[n-1].space
	if space != nsHTML && !s.xml && (t == tP || t == tBr) {
		f.breakOut()
		return
	}
	for i := n - 1; i >= 0; i-- {
		nd := f.stack[i]
		if space == nsHTML && nd.space != nsHTML {
			return // an integration point limits the scope of end tags in it
		}
		if nd.name == h {
			f.stack = f.stack[:i]
			return
		}
		if space != nsHTML && nd.space == nsHTML {
			// Leave foreign content for the HTML around it.
			space = nsHTML
		}
	}
	if s.xml || lasting(s.name()) {
		return
	}
	if f.open == nil {
		f.count(s)
	}
	if o := &f.open[short(s.name())]; *o > 0 {
		*o--
		f.stack = f.stack[:0]
	}
}

// count sets open to the counts before the tag that s has read.
func (f *foreign) count(s *scanner) {
	again := scanner{b: s.b}
	g := foreign{open: new([256]int32)}
	for raw := false; again.next() && again.at < s.at; {
		if raw {
			raw = false
			continue
		}
		t := again.tagName()
		if again.end {
			g.finish(&again, t)
		} else if g.start(&again, t) == nsHTML {
			_, raw = again.raw(t)
		}
		again.cdata = g.cdata()
	}
	f.open = g.open
}

// lasting reports whether the end tag of a name closes nothing at once: what follows still belongs
// to the body.
func lasting(n []byte) bool {
	return len(n) == 4 && (string(n) == "body" || string(n) == "html" || string(n) == "head")
}

// hash returns FNV-1a of a name in lower case.
func hash(n []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range n {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return h
}

// foreign reports whether the current element is foreign.
func (f *foreign) foreign() bool { return f.cdata() }
