package gen

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"hash/crc32"
	"iter"
)

// Copied returns the page of which a page is a copy: the page of a mirror, or a duplicate. The words of the copy differ
// in the share Spec.Edits.
func (w *Web) Copied(host, page int64) (original Seed, ok bool) {
	original.Host = w.source(host)
	original.Page = w.original(original.Host, page)
	return original, original != Seed{host, page}
}

// Edits returns the share of the words in which copies differ from their originals.
func (w *Web) Edits() float64 { return w.spec.Edits }

// Copies returns all copies that are answered well, each with its original.
func (w *Web) Copies() iter.Seq2[Seed, Seed] {
	return func(yield func(page, original Seed) bool) {
		for h := range w.Hosts() {
			for p := range w.Pages(h) {
				original, ok := w.Copied(h, p)
				if ok && w.answers(h, p) && !yield(Seed{h, p}, original) {
					return
				}
			}
		}
	}
}

// edited reports whether words of a page differ from those of its original.
func (w *Web) edited(host, page int64) bool {
	if w.fates.edit == 0 {
		return false
	}
	_, ok := w.Copied(host, page)
	return ok
}

// appendEdited appends a copy with edited words. Its length and its links are those of the original.
func (w *Web) appendEdited(dst []byte, b *builder, l *layout, host, page int64, gz bool) []byte {
	if !gz {
		from := len(dst)
		dst = w.appendPage(dst, b, l)
		w.edit(dst[from:], host, page)
		return dst
	}
	text := w.appendPage(nil, b, l)
	w.edit(text, host, page)
	out := bytes.NewBuffer(append(dst, gzipHeader...))
	z, _ := w.blocks.writers.Get().(*flate.Writer)
	if z == nil {
		z, _ = flate.NewWriter(out, flate.BestCompression)
	} else {
		z.Reset(out)
	}
	z.Write(text)
	z.Close()
	w.blocks.writers.Put(z)
	dst = binary.LittleEndian.AppendUint32(out.Bytes(), crc32.ChecksumIEEE(text))
	return binary.LittleEndian.AppendUint32(dst, uint32(len(text)))
}

// edit replaces each word in the body of a page with the probability Spec.Edits. The other word has as many bytes.
func (w *Web) edit(text []byte, host, page int64) {
	r := stream(w.hash(saltEdit, host, page))
	inTag := false
	for i := max(0, bytes.Index(text, []byte("<body>"))); i < len(text); {
		c := text[i]
		if inTag = c == '<' || inTag && c != '>'; inTag || !wordByte(c) {
			i++
			continue
		}
		from := i
		for i < len(text) && wordByte(text[i]) {
			i++
		}
		if hit(r.next(), w.fates.edit) {
			otherWord(text[from:i], &r)
		}
	}
}

// wordByte reports whether words have this byte, in a text of any language.
func wordByte(c byte) bool {
	return c >= 0x80 || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
}

// otherWord replaces a word with random letters. The first differs, whether upper or lower case.
func otherWord(word []byte, r *stream) {
	first := word[0] | 0x20
	for i := range word {
		word[i] = 'a' + byte(below(r.next(), 26))
	}
	if word[0] == first {
		word[0] = 'a' + (first-'a'+1)%26
	}
}
