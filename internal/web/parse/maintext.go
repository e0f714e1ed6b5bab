package parse

import "unicode/utf8"

const (
	// leastBlock is the length of a block of main text in characters, without white space: more than labels have.
	leastBlock = 30
	// leastMain is the length from which a page has a main text, in characters.
	leastMain = 150
	// maxMain bounds what is kept of the main text, in bytes.
	maxMain = 2 << 10
)

// MainText returns the beginning of the main text of the page whose prose AppendProse has appended last: at most 2 KiB
// in UTF-8. It is empty if the page has less than 150 characters of main text, or is not HTML. It is valid until the
// next AppendProse.
//
// The main text has the blocks of the prose that are no menus. A block is the text between two tags that interrupt a
// word. It is left out if it has less than 30 characters without white space, if more than half of these are in links,
// or if it stands in an element of navigation, such as nav or footer.
func (p *Page) MainText() []byte { return p.work.main }

// blocks finds the main text of a page.
type blocks struct {
	main  []byte
	from  int // where the current block begins in the prose
	link  int // where the open link begins in the prose; -1: none is open
	links int // characters of the closed links in the current block, without white space
	depth int // open elements of navigation
}

// full reports whether the main text needs no more blocks.
func (b *blocks) full() bool { return len(b.main) >= maxMain }

// tag notes the tag that was read last, which may begin or end a link or an element of navigation.
func (b *blocks) tag(s *scanner, t tag, prose []byte) {
	switch {
	case s.selfClosing && s.xml:
	case t == tA:
		b.endLink(prose)
		if _, ok := s.attr(aHref); ok && !s.end {
			b.link = len(prose)
		}
	case t == tOther && isNavigation(s.name()):
		if !s.end {
			b.depth++
		} else if b.depth > 0 {
			b.depth--
		}
	}
}

func (b *blocks) endLink(prose []byte) {
	if b.link >= 0 {
		b.links += printed(prose[b.link:])
		b.link = -1
	}
}

// end ends the current block. An open link goes on in the next one.
func (b *blocks) end(prose []byte) {
	open := b.link >= 0
	b.endLink(prose)
	block := prose[b.from:]
	if n := printed(block); b.depth == 0 && n >= leastBlock && 2*b.links <= n {
		b.main = append(append(b.main, block[:min(len(block), maxMain)]...), ' ')
	}
	b.from, b.links = len(prose), 0
	if open {
		b.link = len(prose)
	}
}

// text ends the last block and returns the main text; empty if it is too short.
func (b *blocks) text(prose []byte) []byte {
	if !b.full() {
		b.end(prose)
	}
	b.main = b.main[:min(len(b.main), maxMain)]
	if utf8.RuneCount(b.main) < leastMain {
		return b.main[:0]
	}
	return b.main
}

// printed counts the characters of a text in UTF-8 without white space.
func printed(text []byte) (n int) {
	for _, c := range text {
		if c > ' ' && utf8.RuneStart(c) {
			n++
		}
	}
	return n
}

// isNavigation reports whether an element seldom has main text.
func isNavigation(name []byte) bool {
	switch string(name) {
	case "aside", "footer", "header", "nav", "select":
		return true
	}
	return false
}
