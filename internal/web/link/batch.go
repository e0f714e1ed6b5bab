package link

import (
	"unsafe"

	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A Batch collects the URLs of one page in one buffer, so that they share one allocation:
//
//	SetBase, Resolve, Resolve, Cut, Resolve, ... Seal, URL(0), URL(1), ...
//
// The URLs are substrings of the memory that Seal allocates. Keeping one URL keeps the memory of
// all, so a caller that keeps one calls URL.Clone. The zero Batch is empty and accepts absolute
// references. A Batch belongs to one goroutine, which can use it again after Reset.
type Batch struct {
	resolver weburl.Resolver
	base     weburl.URL
	host     uint64 // HostKey of base
	buf      []byte
	at       []place
	sealed   string
}

// A place is the position of a URL in the buffer.
type place struct {
	from, to int
	parts    weburl.Parts
}

// keptBatch is the most memory that Reset keeps, in octets of URLs. An ordinary page needs a tenth
// of it.
const keptBatch = 128 << 10

// Reset empties b for the next page and clears its base.
func (b *Batch) Reset() {
	if cap(b.buf) > keptBatch {
		b.buf = nil
	}
	if cap(b.at) > keptBatch/64 {
		b.at = nil
	}
	b.buf, b.at, b.sealed = b.buf[:0], b.at[:0], ""
	b.resolver.Reset()
	b.base, b.host = weburl.URL{}, 0
}

// SetBase sets the base of the next references. With the zero URL, the next references must be
// absolute.
func (b *Batch) SetBase(u weburl.URL) {
	b.base, b.host = u, HostKey(u.Host())
	b.resolver.SetBase(u)
}

// Resolve resolves ref against the base (see URL.Resolve), adds the result to b, and returns its
// key. If it returns an error, b is unchanged. It does not keep ref.
func (b *Batch) Resolve(ref []byte) (Key, error) {
	out, p, err := b.resolver.Append(b.buf, ref)
	if err != nil {
		return Key{}, err
	}
	return b.add(out, p), nil
}

// ResolvePlain is Resolve for the raw bytes of a reference in HTML; see weburl.Resolver.AppendPlain. If ok is false, b
// is unchanged, and the reference may still be valid.
func (b *Batch) ResolvePlain(ref []byte) (k Key, ok bool) {
	out, p, ok := b.resolver.AppendPlain(b.buf, ref)
	if !ok {
		return Key{}, false
	}
	return b.add(out, p), true
}

// add records the URL that stands in out after b's URLs.
func (b *Batch) add(out []byte, p weburl.Parts) Key {
	from := len(b.buf)
	b.buf = out
	b.at = append(b.at, place{from, len(out), p})
	// Nothing keeps this string.
	text := unsafe.String(unsafe.SliceData(out[from:]), len(out)-from)
	u := p.URL(text)
	host := b.host
	if u.Host() != b.base.Host() {
		host = HostKey(u.Host())
	}
	return Key{host, pathKey(text, len(u.Origin()))}
}

// Size returns the total length of all URLs in octets.
func (b *Batch) Size() int { return len(b.buf) }

// Text returns the canonical form of URL i. The slice is valid until the next Resolve or Cut.
func (b *Batch) Text(i int) []byte { return b.buf[b.at[i].from:b.at[i].to] }

// Cut drops URL n and all later URLs.
func (b *Batch) Cut(n int) {
	if n < len(b.at) {
		b.buf = b.buf[:b.at[n].from]
		b.at = b.at[:n]
	}
}

// Seal copies the collected URLs into one new allocation. After that, URL serves only the URLs that
// were resolved before this call; for later ones, call Seal again.
func (b *Batch) Seal() { b.sealed = string(b.buf) }

// URL returns the ith URL of a sealed Batch. It stays valid after Reset. It keeps the memory of all
// URLs that were sealed with it.
func (b *Batch) URL(i int) weburl.URL {
	p := b.at[i]
	return p.parts.URL(b.sealed[p.from:p.to])
}
