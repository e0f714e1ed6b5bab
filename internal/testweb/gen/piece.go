package gen

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
)

// A piece is a text of at most 12 bytes, such as a word, with its Huffman code.
type piece struct {
	text  [2]uint64 // the bytes, little-endian
	code  [2]uint64 // of the first and the second half of the text
	bits  [2]uint8
	bytes uint8
}

// An id is the number of a piece in a kit. The own parts of a page are lists of them.
type id uint16

// linkID stands for the markup between two links. It is so frequent that it is encoded as a match with its previous
// occurrence instead of a piece.
const linkID id = 0

const linkMarkup = "</a></li>\n<li><a href=\""

// A kit has all pieces and their numbers.
type kit struct {
	code   *huffman
	pieces []piece
	digit  id // the piece "0"; "1" to "9" follow
	pairs  id // the piece "00"; "01" to "99" follow
	topics []topicKit
	langs  [numLanguages]id // words of each language, as topicKit.words

	linkPieces                               []id // linkMarkup as pieces
	example, dash, html, quote, show, slash  id
	up, private, space, https, way           id
	missing, loop, sessionPage               id
	traps                                    [3][]id
	hex                                      [128]id           // the piece of each digit
	openPart, openList, closeList, closePart [parts][]id       // markup around the parts and their links
	prefix, httpPrefix                       [len(prefixes)]id // by the number of the prefix
	pathEnd, hostEnd                         id                // the end of a URL with the end of its tag
}

const (
	numDirs  = 8
	numSlugs = 128
	numWords = 128
	// commonWords is how many of the most frequent English words do not characterize a topic.
	commonWords = 150
)

type topicKit struct {
	name  string
	piece id // the name
	dirs  id // the first of numDirs pieces "word/"
	slugs id // the first of numSlugs pieces "word-"
	words id // the first of numWords pieces "word ", then numWords without the space
}

func newKit(topics, languages int) *kit {
	k := &kit{pieces: make([]piece, 1, 1<<14)}
	k.digit = k.run(func(i int) string { return string(rune('0' + i)) }, 10)
	k.pairs = k.run(func(i int) string { return string(rune('0'+i/10)) + string(rune('0'+i%10)) }, 100)
	one := func(s string) id { return k.run(func(int) string { return s }, 1) }
	k.example, k.dash, k.html, k.quote = one(domain), one("-"), one(".html"), one("\">")
	k.show, k.slash, k.up, k.private, k.space = one("show?id="), one("/"), one("../"), one(privateDir[1:]), one(" ")
	k.https, k.way, k.missing, k.loop = one("https://"), one(wayDir[1:]), one(missingDir[1:]), one(loopDir[1:])
	k.sessionPage = one("&amp;p=")
	for _, c := range "0123456789abcdef" {
		k.hex[c] = one(string(c))
	}
	k.traps = [3][]id{
		k.text(fmt.Sprintf("%s%04d/01/", calendarDir[1:], firstYear)),
		k.text(sessionPath[1:] + "?sid="),
		k.text(growingDir[1:]),
	}
	for i, p := range prefixes {
		k.prefix[i], k.httpPrefix[i] = one(p), one("http://"+p)
	}
	k.pathEnd, k.hostEnd = one(".html\">"), one(domain+"/\">")
	k.linkPieces = k.text(linkMarkup)
	k.openPart[0] = k.text("</title>\n</head>\n<body>\n")
	for i, name := range [parts]string{"nav", "footer"} {
		k.openList[i] = k.text("<" + name + ">\n<ul>\n<li><a href=\"")
		k.closeList[i] = k.text("</a></li>\n</ul>\n</" + name + ">\n")
	}
	k.closePart[0] = k.text("<main>\n")
	k.openPart[1] = k.text("</main>\n")
	k.closePart[1] = k.text("</body>\n</html>\n")
	tv, lv := vocabularies()
	for _, v := range tv[:topics] {
		t := topicKit{name: v.name, piece: one(v.name)}
		list := v.fitting(numSlugs+numDirs, lv[0].words[:commonWords])
		t.dirs = k.run(func(i int) string { return list[i] + "/" }, numDirs)
		t.slugs = k.run(func(i int) string { return list[numDirs+i] + "-" }, numSlugs)
		t.words = k.wordRuns(list[numDirs:])
		k.topics = append(k.topics, t)
	}
	for i, v := range lv[:languages] {
		k.langs[i] = k.wordRuns(v.fitting(numWords, nil))
	}
	return k
}

// fitting returns the most frequent words of more than three letters that fit into a piece with one more byte, except
// those in common.
func (v *vocabulary) fitting(n int, common []string) (list []string) {
	for _, w := range v.words {
		if len(w) > 3 && len(w) <= 11 && len(list) < n && !strings.Contains(reserved, "/"+w+"/") &&
			!slices.Contains(common, w) {
			list = append(list, w)
		}
	}
	for i := 0; len(list) < n; i++ { // the vocabulary is too small, so repeat words
		list = append(list, list[i])
	}
	return list
}

func (k *kit) wordRuns(list []string) id {
	first := k.run(func(i int) string { return list[i] + " " }, numWords)
	k.run(func(i int) string { return list[i] }, numWords)
	return first
}

// run adds n consecutive pieces and returns the number of the first.
func (k *kit) run(text func(i int) string, n int) id {
	first := id(len(k.pieces))
	for i := range n {
		k.pieces = append(k.pieces, newPiece(text(i)))
	}
	return first
}

// text adds pieces for a text of any length and returns their numbers.
func (k *kit) text(s string) (list []id) {
	for len(s) > 0 {
		n := min(len(s), 12)
		list = append(list, k.run(func(int) string { return s[:n] }, 1))
		s = s[n:]
	}
	return list
}

func newPiece(s string) (p piece) {
	var b [16]byte
	p.bytes = uint8(copy(b[:], s))
	p.text = [2]uint64{binary.LittleEndian.Uint64(b[:]), binary.LittleEndian.Uint64(b[8:])}
	return p
}

// encode sets the code of a piece. It returns false if the code is too long.
func (p *piece) encode(h *huffman) bool {
	p.code, p.bits = [2]uint64{}, [2]uint8{}
	half := 0
	for i := range int(p.bytes) {
		l := h.literal[byte(p.text[i/8]>>(i%8*8))]
		if p.bits[half]+l.bits > 56 {
			if half++; half > 1 {
				return false
			}
		}
		p.code[half] |= uint64(l.code) << p.bits[half]
		p.bits[half] += l.bits
	}
	return true
}

// appendText appends the text of the pieces.
func (k *kit) appendText(dst []byte, ids []id) []byte {
	n := len(dst)
	dst = grow(dst, len(ids)*len(linkMarkup)+16)
	for _, i := range ids {
		if i == linkID {
			n += copy(dst[n:], linkMarkup)
			continue
		}
		p := &k.pieces[i]
		b := dst[n : n+16]
		binary.LittleEndian.PutUint64(b, p.text[0])
		binary.LittleEndian.PutUint64(b[8:], p.text[1])
		n += int(p.bytes)
	}
	return dst[:n]
}

// grow makes dst n bytes longer, with any content.
func grow(dst []byte, n int) []byte {
	if need := len(dst) + n; need <= cap(dst) {
		return dst[:need]
	}
	return append(dst, make([]byte, n)...)
}

// A builder collects the pieces of a page.
type builder struct {
	ids      []id
	refs     []Ref
	text     []byte
	ends     [parts]int // end of each part in ids
	textEnds [parts]int // end of each part in text
}

func (b *builder) add(i id) { b.ids = append(b.ids, i) }

// number adds a decimal number.
func (b *builder) number(k *kit, n uint64) {
	var rev [10]id
	at := len(rev)
	for n >= 10 {
		at--
		rev[at] = k.pairs + id(n%100)
		n /= 100
	}
	if n > 0 || at == len(rev) {
		at--
		rev[at] = k.digit + id(n)
	}
	b.ids = append(b.ids, rev[at:]...)
}

// host adds a host's name without its domain.
func (b *builder) host(w *Web, host int64, prefix *[len(prefixes)]id) {
	s, place := site(host)
	topic, _ := w.cell(s)
	b.ids = append(b.ids, prefix[w.prefix(s, place)], w.kit.topics[topic].piece)
	b.number(w.kit, uint64(s))
}

// path adds a page's path without its first slash.
func (b *builder) path(w *Web, host, page int64) {
	if page == 0 {
		return
	}
	if host = w.source(host); b.pathIn(w, w.topic(host), host, page) {
		b.add(w.kit.html)
	}
}

// topic returns the topic of a host that is not a mirror.
func (w *Web) topic(host int64) *topicKit {
	s, _ := site(host)
	topic, _ := w.cell(s)
	return &w.kit.topics[topic]
}

// pathIn adds the path of a page, other than the first, of a host with this topic that is not a mirror. html means that
// the caller must add ".html".
func (b *builder) pathIn(w *Web, t *topicKit, host, page int64) (html bool) {
	k := w.kit
	h := w.hash(saltPath, host, page)
	dir := t.dirs + id(h%numDirs)
	if w.private(host, page, h) {
		dir = k.private
	}
	if h>>24&15 == 0 {
		b.ids = append(b.ids, dir, k.show)
		b.number(k, uint64(page))
		return false
	}
	b.ids = append(b.ids, dir, t.slugs+id(h>>8%numSlugs), t.slugs+id(h>>16%numSlugs))
	b.number(k, uint64(page))
	return true
}
