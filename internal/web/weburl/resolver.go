package weburl

import "unsafe"

// A Resolver is URL.Resolve for many references with one base. It appends each result to memory of the caller, which
// can make URLs of it with Parts.URL. The zero Resolver has no base. It belongs to one goroutine.
type Resolver struct {
	base URL
	slow assembler
}

// Reset clears the base and gives up the memory of a rare giant.
func (r *Resolver) Reset() {
	if cap(r.slow.out) > 4096 {
		r.slow.out = nil
	}
	r.base = URL{}
}

// SetBase sets the base of the next references. With the zero URL, the next references must be absolute.
func (r *Resolver) SetBase(u URL) { r.base = u }

// Append appends the canonical URL that ref means to dst. After an error, out is dst. It does not keep ref.
func (r *Resolver) Append(dst, ref []byte) (out []byte, p Parts, err error) {
	// As in ResolveBytes, nothing keeps this string.
	s := unsafe.String(unsafe.SliceData(ref), len(ref))
	out, p, ok := r.base.plain(dst, s, &plainClass)
	if ok {
		return out, p, nil
	}
	a := &r.slow
	a.canonical = true
	a.out = a.out[:0]
	if r.base.s == "" {
		err = a.resolve(s, nil)
	} else {
		base := r.base.layout()
		err = a.resolve(s, &base)
	}
	if err == nil && len(a.out) > MaxParse {
		err = ErrTooLong
	}
	if err != nil {
		return dst, p, err
	}
	return append(dst, a.out...), a.parts(), nil
}

// AppendPlain is Append for the raw bytes of a reference in HTML, before character references are replaced and in any
// encoding of the document. It accepts only the form that nearly all links have: ASCII without an ampersand, in which
// nothing changes. For any other reference ok is false, out is dst, and the reference may still be valid. It does not
// look at the text after a number sign.
func (r *Resolver) AppendPlain(dst, ref []byte) (out []byte, p Parts, ok bool) {
	return r.base.plain(dst, unsafe.String(unsafe.SliceData(ref), len(ref)), &rawClass)
}

// URL makes the URL of which a Resolver has appended the text, and returned the Parts. It shares the memory of text.
func (p Parts) URL(text string) URL { return URL{text, p.hostEnd, p.pathStart, p.pathEnd} }
