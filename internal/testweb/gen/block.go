package gen

import (
	"bytes"
	"compress/flate"
	"fmt"
	"hash/crc32"
	"sync"
	"sync/atomic"
)

// A class of blocks has one length.
type class int

// The classes. A page has one block of class top, which is its head up to the title, and as many blocks of text as its
// length demands.
const (
	top class = iota
	large
	medium
	small
	numClasses
)

var classBytes = [numClasses]int{2048, 8192, 2048, 1024}

// variants is the number of blocks in a class for each topic and language. It is small, so that most blocks in use stay
// in the processor's cache.
var variants = [numClasses]int{2, 4, 4, 8}

const maxVariants = 8

// A block is text that many pages share. It is made and compressed once.
type block struct {
	text  []byte
	flate []byte // deflate blocks that end at a byte boundary, not marked as the last
	crc   uint32
}

// A blockStore keeps the blocks that were requested; all of them take at most 20 MiB.
type blockStore struct {
	topics, languages int
	blocks            []atomic.Pointer[block]
	writers           sync.Pool // of *flate.Writer
}

func (s *blockStore) init(topics, languages int) {
	s.topics, s.languages = topics, languages
	s.blocks = make([]atomic.Pointer[block], int(numClasses)*topics*languages*maxVariants)
}

// block returns the block of this class and variant for a topic and a language. It makes the block at the first
// request.
func (w *Web) block(c class, topic, lang, variant int) *block {
	s := &w.blocks
	at := ((int(c)*s.topics+topic)*s.languages+lang)*maxVariants + variant
	if b := s.blocks[at].Load(); b != nil {
		return b
	}
	// Two goroutines may make the same block at once; both results are equal.
	b := w.makeBlock(c, topic, lang, stream(w.hash(saltBlock, int64(at), 0)))
	s.blocks[at].Store(b)
	return b
}

func (w *Web) makeBlock(c class, topic, lang int, r stream) *block {
	t := &writer{r: r, lang: lang}
	topics, languages := vocabularies()
	t.topic, t.language = topics[topic], languages[lang]
	size := classBytes[c]
	if c == top {
		t.top(size)
	} else {
		t.body(size)
	}
	b := &block{text: t.out, crc: crc32.ChecksumIEEE(t.out)}
	z, _ := w.blocks.writers.Get().(*flate.Writer)
	var out bytes.Buffer
	if z == nil {
		z, _ = flate.NewWriter(&out, flate.BestCompression)
	} else {
		z.Reset(&out)
	}
	z.Write(b.text)
	z.Flush()
	w.blocks.writers.Put(z)
	b.flate = out.Bytes()
	return b
}

// A writer writes the text of a block.
type writer struct {
	r               stream
	lang            int
	topic, language *vocabulary
	out             []byte
	recent          [32]string // longer words, which are likely to be repeated
	words           int
	last            string
}

// word returns the next word: of the topic if the language is English, else mostly of the language.
func (t *writer) word() string {
	x := t.r.next()
	if n := min(t.words, len(t.recent)); n > 4 && x&7 < 4 {
		if word := t.recent[below(x<<8, uint64(n))]; word != t.last {
			t.last = word
			return word
		}
	}
	v := t.topic
	if t.lang != 0 && x>>8&7 != 0 {
		v = t.language
	}
	word := v.draw(t.r.next())
	for range 3 {
		if word != t.last {
			break
		}
		word = v.draw(t.r.next())
	}
	if len(word) > 4 {
		t.recent[t.words%len(t.recent)] = word
		t.words++
	}
	t.last = word
	return word
}

func (t *writer) put(s ...string) {
	for _, s := range s {
		t.out = append(t.out, s...)
	}
}

// pad fills the block with line feeds, up to tail at its end.
func (t *writer) pad(size int, tail string) {
	for len(t.out)+len(tail) < size {
		t.out = append(t.out, '\n')
	}
	t.put(tail)
	if len(t.out) != size {
		panic(fmt.Sprintf("block of %d bytes instead of %d", len(t.out), size))
	}
}

// top writes the head of a page up to its title.
func (t *writer) top(size int) {
	t.put("<!DOCTYPE html>\n<html lang=\"", t.language.name, "\">\n<head>\n<meta charset=\"utf-8\">\n",
		"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"keywords\" content=\"",
		t.topic.name)
	for range 6 {
		t.put(", ", t.word())
	}
	t.put("\">\n<style>\n")
	const end = "</style>\n<title>"
	for {
		x := t.r.next()
		rule := fmt.Sprintf(".%s-%d { margin: %dpx %dpx; padding: %dpx; color: #%06x; font-size: %dpx; "+
			"line-height: 1.%d; }\n",
			t.topic.name, x&63, x>>8&3*4, x>>12&3*4, x>>16&1*8,
			[4]int{0x336699, 0x222222, 0xf4f4f4, 0x884400}[x>>24&3], 12+x>>48&3*2, 2+x>>52&3)
		if len(t.out)+len(rule)+len(end) > size {
			break
		}
		t.put(rule)
	}
	t.pad(size, end)
}

// body writes a section with paragraphs.
func (t *writer) body(size int) {
	const end = "</section>\n"
	const close = ".</p>\n</div>\n"
	const room = len(end) + len(close) + 60 // 60 bytes hold the longest word with its tags
	t.put("<section class=\"content content-", t.topic.name, "\">\n<h2>", t.word(), " ", t.word(), "</h2>\n")
	for len(t.out) < size-300 {
		t.put("<div class=\"block block-", t.topic.name, "\" data-topic=\"", t.topic.name,
			"\">\n<p class=\"paragraph text-", t.topic.name, "\">")
		t.sentence(size - room)
		for n := 1 + t.r.next()%4; (n > 0 || len(t.out) > size-500) && len(t.out) < size-room; n-- {
			t.put(". ")
			t.sentence(size - room)
		}
		t.put(close)
	}
	t.pad(size, end)
}

func (t *writer) sentence(most int) {
	for i, n := 0, 5+int(t.r.next()%14); i < n && len(t.out) < most; i++ {
		word := t.word()
		if i > 0 {
			t.put(" ")
		} else if c := word[0]; c >= 'a' && c <= 'z' {
			t.out = append(t.out, c-'a'+'A')
			word = word[1:]
		}
		switch x := t.r.next(); {
		case x&31 == 0:
			t.put("<em class=\"term\">", word, "</em>")
		case x&63 == 1:
			t.put("<strong>", word, "</strong>")
		default:
			t.put(word)
		}
	}
}
