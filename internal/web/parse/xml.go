package parse

import "bytes"

// A nesting tracks what the elements around this place of an XML document set: the base of references, and the
// namespace of names without a prefix. A prefix stands for the namespace that was declared for it last, wherever that
// was.
type nesting struct {
	depth  int
	depths [maxBases]int // depths of the elements whose bases apply here
	bases  int           // number of bases in the whole document

	defaults []scope
	prefixes map[string]uint8
	declared bool // the tag that is being read declares its default namespace, space
	space    uint8
	sheet    bool // the document is an XSLT style sheet
}

// A scope is an element that declares a default namespace.
type scope struct {
	depth int
	space uint8
}

const (
	// maxBases is the maximum number of xml:base attributes that apply at one place. Deeper ones are
	// ignored.
	maxBases = 16
	// maxAllBases is the maximum number of xml:base attributes of a document. Further ones are ignored.
	maxAllBases = 10_000
	// maxDefaults and maxPrefixes are the maximum numbers of namespaces that apply at one place. Others are ignored.
	maxDefaults = 256
	maxPrefixes = 64
)

// enter processes a start tag that s has read.
func (n *nesting) enter(p *Page, s *scanner) {
	w := &p.work
	n.depth++
	if v, ok := s.attr(aXMLBase); ok && len(w.bases) < maxBases && n.bases < maxAllBases {
		// Each base is relative to the one around it (RFC 4287, 2; XML Base, 4).
		outer := p.Base
		if i := len(w.bases); i > 0 {
			outer = w.bases[i-1]
		}
		n.depths[len(w.bases)] = n.depth
		w.bases, w.based, w.relative = append(w.bases, p.baseOf(v, outer)), noBase, true
		n.bases++
	}
	if n.declared && len(n.defaults) < maxDefaults {
		n.defaults = append(n.defaults, scope{n.depth, n.space})
	}
	n.declared = false
}

// leave processes the end of the element that was entered last.
func (n *nesting) leave(w *work) {
	for i := len(w.bases); i > 0 && n.depths[i-1] >= n.depth; i-- {
		w.bases, w.based = w.bases[:i-1], noBase
	}
	for i := len(n.defaults); i > 0 && n.defaults[i-1].depth >= n.depth; i-- {
		n.defaults = n.defaults[:i-1]
	}
	n.declared = false
	n.depth--
}

// declare records the namespace of a prefix, or of names without one, if an attribute declares it.
func (n *nesting) declare(attr, value []byte) {
	prefix, ok := bytes.CutPrefix(attr, []byte("xmlns"))
	if !ok || len(prefix) > 0 && prefix[0] != ':' {
		return
	}
	prefix = bytes.TrimPrefix(prefix, []byte(":"))
	space := uint8(nsNone)
	switch string(trim(value)) {
	case "http://www.w3.org/1999/xhtml":
		space = nsHTML
	case "http://www.w3.org/2000/svg":
		space = nsSVG
	case "http://www.w3.org/1999/XSL/Transform":
		space = nsXSLT
	}
	if len(prefix) == 0 {
		n.declared, n.space = true, space
		return
	}
	if n.prefixes == nil {
		n.prefixes = map[string]uint8{}
	}
	prefix = bytes.ToLower(prefix[:min(len(prefix), maxName)])
	if _, known := n.prefixes[string(prefix)]; known || len(n.prefixes) < maxPrefixes {
		n.prefixes[string(prefix)] = space
	}
}

// namespace returns that of the element that was entered with the tag name. In an XSLT style sheet, elements of other
// namespaces are no part of the document: a style sheet makes other documents from them.
func (n *nesting) namespace(name []byte) uint8 {
	space := uint8(nsNone)
	if i := bytes.IndexByte(name, ':'); i >= 0 {
		if known, ok := n.prefixes[string(name[:i])]; ok {
			space = known
		}
	} else if i := len(n.defaults); i > 0 {
		space = n.defaults[i-1].space
	}
	n.sheet = n.sheet || n.depth == 1 && space == nsXSLT
	if n.sheet && space != nsXSLT {
		return nsNothing
	}
	return space
}

// xmlElement adds the references of an element that is neither of HTML nor of SVG: those of XLink, and the style sheets
// that an XSLT style sheet includes.
func (s *scanner) xmlElement(p *Page, space uint8) {
	switch space {
	case nsNone:
		if v, ok := s.attr(aXlinkHref); ok {
			p.add(v, 'L', "xlink:href", false)
		}
	case nsXSLT:
		if name := local(s.name()); p.work.opt.Requisites && (string(name) == "import" || string(name) == "include") {
			p.filled(s, aHref, 'E', "xsl:import@href")
		}
	}
}
