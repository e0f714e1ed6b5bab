package weburl

import (
	"unsafe"

	"github.com/cespare/xxhash/v2"
)

// A Batch gathers the URLs of one page in one buffer, so that they cost one
// allocation together:
//
//	SetBase, Resolve, Resolve, Cut, Resolve, ... Seal, URL(0), URL(1), ...
//
// The URLs are substrings of what Seal made: whoever keeps one of them keeps
// the memory of all, and takes URL.Clone. The zero Batch is empty and ready
// for absolute references. A Batch belongs to one goroutine, which uses it
// again after Reset.
type Batch struct {
	base   URL
	host   uint64 // HostKey of base
	buf    []byte
	at     []place
	sealed string
	slow   assembler
}

// A place is where in the buffer a URL lies.
type place struct {
	from, to int
	parts
}

// keptBatch bounds the memory that Reset keeps, in octets of URLs. An ordinary
// page needs a tenth of it.
const keptBatch = 128 << 10

// Reset empties b for the next page and forgets its base.
func (b *Batch) Reset() {
	if cap(b.buf) > keptBatch {
		b.buf = nil
	}
	if cap(b.at) > keptBatch/64 {
		b.at = nil
	}
	if cap(b.slow.out) > 4096 {
		b.slow.out = nil
	}
	b.buf, b.at, b.sealed = b.buf[:0], b.at[:0], ""
	b.base, b.host = URL{}, 0
}

// SetBase says what the next references are relative to; the zero URL: they
// must be absolute.
func (b *Batch) SetBase(u URL) { b.base, b.host = u, HostKey(u.Host()) }

// Resolve adds what ref means at the base (see URL.Resolve) and returns its
// key. After an error b is as it was. It does not keep ref.
func (b *Batch) Resolve(ref []byte) (Key, error) {
	// As in ResolveBytes, nothing keeps this string.
	s := unsafe.String(unsafe.SliceData(ref), len(ref))
	out, p, ok := b.base.plain(b.buf, s, &plainClass)
	if !ok {
		var err error
		if out, p, err = b.resolveSlow(s); err != nil {
			return Key{}, err
		}
	}
	return b.add(out, p), nil
}

// ResolvePlain is Resolve for a reference as it stands in HTML, before
// character references are replaced and whatever the document's encoding is, if
// it is what nearly all links are: ASCII, with no ampersand and nothing else in
// it that is to be changed. ok is false for all others, and says nothing about
// them. It does not look at what follows a number sign.
func (b *Batch) ResolvePlain(ref []byte) (k Key, ok bool) {
	out, p, ok := b.base.plain(b.buf, unsafe.String(unsafe.SliceData(ref), len(ref)), &rawClass)
	if !ok {
		return Key{}, false
	}
	return b.add(out, p), true
}

// add takes in what stands in out behind b's URLs.
func (b *Batch) add(out []byte, p parts) Key {
	from := len(b.buf)
	b.buf = out
	b.at = append(b.at, place{from, len(out), p})
	text := out[from:]
	host := b.host
	if n := int(b.base.hostEnd); int(p.hostEnd) != n || n == 0 || string(text[:n]) != b.base.s[:n] {
		host = xxhash.Sum64(text[hostStart(text[4] == 's'):p.hostEnd])
	}
	return Key{host, xxhash.Sum64(text)}
}

func (b *Batch) resolveSlow(ref string) (out []byte, p parts, err error) {
	a := &b.slow
	a.canonical = true
	a.out = a.out[:0]
	if b.base.s == "" {
		err = a.resolve(ref, nil)
	} else {
		base := b.base.layout()
		err = a.resolve(ref, &base)
	}
	if err == nil && len(a.out) > MaxParse {
		err = ErrTooLong
	}
	if err != nil {
		return nil, p, err
	}
	return append(b.buf, a.out...), a.parts(), nil
}

// Len is the number of URLs.
func (b *Batch) Len() int { return len(b.at) }

// Size is the octets of all URLs.
func (b *Batch) Size() int { return len(b.buf) }

// Text is URL i's canonical form; valid until the next Resolve or Cut.
func (b *Batch) Text(i int) []byte { return b.buf[b.at[i].from:b.at[i].to] }

// Cut drops all URLs from the nth on.
func (b *Batch) Cut(n int) {
	if n < len(b.at) {
		b.buf = b.buf[:b.at[n].from]
		b.at = b.at[:n]
	}
}

// Seal makes what was gathered lasting: one allocation. URL tells of nothing
// that was resolved later until the next Seal.
func (b *Batch) Seal() { b.sealed = string(b.buf) }

// URL is the ith URL of a sealed Batch. It outlives b, and pins the memory of
// all that were sealed with it.
func (b *Batch) URL(i int) URL {
	p := b.at[i]
	return URL{b.sealed[p.from:p.to], p.hostEnd, p.pathStart, p.pathEnd}
}
