package weburl

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"unsafe"
)

// Errors of Parse and Resolve. Test for them with errors.Is.
var (
	ErrScheme  = errors.New("not an http or https URL")
	ErrInvalid = errors.New("invalid URL")
	ErrTooLong = errors.New("URL too long")
)

// Details of ErrInvalid. They are made once, because a page may hold thousands of invalid URLs.
var (
	errRelative = fmt.Errorf("%w: relative reference without a base", ErrInvalid)
	errNoHost   = fmt.Errorf("%w: no host", ErrInvalid)
	errHostChar = fmt.Errorf("%w: forbidden character in host", ErrInvalid)
	errHostLong = fmt.Errorf("%w: host name longer than 253 octets", ErrInvalid)
	errLabel    = fmt.Errorf("%w: host name with a label that is empty or longer than 63 octets", ErrInvalid)
	errDomain   = fmt.Errorf("%w: the host is not a valid internationalized domain name", ErrInvalid)
	errIPv4     = fmt.Errorf("%w: the host ends in a number but is not an IPv4 address", ErrInvalid)
	errIPv6     = fmt.Errorf("%w: the host in brackets is not an IPv6 address", ErrInvalid)
	errPort     = fmt.Errorf("%w: the port is not a number from 0 to 65535", ErrInvalid)
)

const (
	// MaxParse is the maximum length of an input and of a canonical URL, in octets.
	MaxParse = 1<<16 - 1
	// MaxLength is the maximum length of a URL that is worth crawling, in octets. Servers and
	// browsers have different limits; this is Heritrix's limit (UURI.MAX_URL_LENGTH).
	MaxLength = 2083
	// maxHost is the maximum length of a domain name in octets (RFC 1035, 2.3.4).
	maxHost = 253
	// maxLabel is the maximum length of a domain name's label in octets.
	maxLabel = 63
)

// URL is an absolute http or https URL in canonical form. It is comparable. The zero URL means "no
// URL"; all its parts are empty.
type URL struct {
	s string
	// Offsets into s: the host ends at hostEnd, the authority at pathStart, the path at pathEnd.
	// The scheme gives the start of the host.
	hostEnd, pathStart, pathEnd uint16
}

// Parse reads an absolute URL and returns its canonical form. The error is ErrScheme, ErrInvalid or
// ErrTooLong.
func Parse(raw string) (URL, error) { return URL{}.Resolve(raw) }

// MustParse is Parse for constants and tests: it panics on an error.
func MustParse(raw string) URL {
	u, err := Parse(raw)
	if err != nil {
		panic(fmt.Sprintf("weburl: parse %q: %v", raw, err))
	}
	return u
}

// Resolve reads ref as a reference found on a page at u and returns the canonical form of the
// result. If u is zero, ref must be absolute. The error is ErrScheme, ErrInvalid or ErrTooLong.
// Resolve makes one allocation for an ordinary reference, and none if the result is u itself.
func (u URL) Resolve(ref string) (URL, error) {
	a := assemblers.Get().(*assembler)
	var err error
	out, p, ok := u.plain(a.out[:0], ref, &plainClass)
	a.out = out
	if !ok {
		a.out = a.out[:0]
		if u.s == "" {
			err = a.resolve(ref, nil)
		} else {
			base := u.layout()
			err = a.resolve(ref, &base)
		}
		p = a.parts()
	}
	r := u
	switch {
	case err != nil:
		r = URL{}
	case len(a.out) > MaxParse:
		r, err = URL{}, ErrTooLong
	case string(a.out) != u.s:
		r = URL{string(a.out), p.hostEnd, p.pathStart, p.pathEnd}
	}
	if cap(a.out) <= 4096 { // do not keep a rare giant's buffer
		assemblers.Put(a)
	}
	return r, err
}

// assemblers are reused: otherwise their buffers would be most of what a parse allocates.
var assemblers = sync.Pool{New: func() any {
	return &assembler{canonical: true, out: make([]byte, 0, 512)}
}}

// ResolveBytes is Resolve for a reference in a buffer. The result does not share ref's memory.
func (u URL) ResolveBytes(ref []byte) (URL, error) {
	// This is safe: Resolve copies what it keeps and its errors do not hold the input, so nothing
	// uses the string after this call.
	return u.Resolve(unsafe.String(unsafe.SliceData(ref), len(ref)))
}

func (u URL) layout() layout {
	h := u.hostStart()
	return layout{
		s: u.s, userEnd: h, passEnd: h, hostStart: h,
		hostEnd: int(u.hostEnd), pathStart: int(u.pathStart),
		pathEnd: int(u.pathEnd), queryEnd: len(u.s),
	}
}

// hostStart returns where the host begins in u.s. It is 0 for the zero URL.
func (u URL) hostStart() int {
	if u.s == "" {
		return 0
	}
	return hostStart(u.s[4] == 's')
}

func hostStart(https bool) int {
	if https {
		return len("https://")
	}
	return len("http://")
}

// Clone returns a copy of u in its own memory. Call it before you keep a URL that shares memory
// with others, such as a URL of a link.Batch or of a Link from link.Peek.
func (u URL) Clone() URL {
	u.s = strings.Clone(u.s)
	return u
}

// String returns the canonical form.
func (u URL) String() string { return u.s }

// IsZero reports whether u is the zero URL.
func (u URL) IsZero() bool { return u.s == "" }

// Scheme returns "http" or "https".
func (u URL) Scheme() string { return u.s[:max(0, u.hostStart()-len("://"))] }

// Host returns the host name in lower-case ASCII without the port. An IPv6 address keeps its
// brackets.
func (u URL) Host() string { return u.s[u.hostStart():u.hostEnd] }

// Port returns the effective port: 80 or 443 if the URL names none.
func (u URL) Port() string {
	switch {
	case u.hostEnd < u.pathStart:
		return u.s[u.hostEnd+1 : u.pathStart]
	case u.s == "":
		return ""
	case u.s[4] == 's':
		return "443"
	}
	return "80"
}

// Authority returns the host, with ":port" if the port is not the scheme's default. This is the
// Host header.
func (u URL) Authority() string { return u.s[u.hostStart():u.pathStart] }

// Origin returns scheme://authority: the scope of a robots.txt file (RFC 9309, 2.3).
func (u URL) Origin() string { return u.s[:u.pathStart] }

// Root returns the root page of u's origin, and the zero URL for the zero URL. It shares u's memory.
func (u URL) Root() URL {
	if u.s == "" {
		return u
	}
	return URL{u.s[:u.pathStart+1], u.hostEnd, u.pathStart, u.pathStart + 1}
}

// RequestURI returns the path and the query as they stand in a request line.
func (u URL) RequestURI() string { return u.s[u.pathStart:] }

// Path returns the path. It begins with a slash and has no query.
func (u URL) Path() string { return u.s[u.pathStart:u.pathEnd] }

// Query returns the text after the first question mark. ok is false if the URL has no question
// mark.
func (u URL) Query() (q string, ok bool) {
	if int(u.pathEnd) >= len(u.s) {
		return "", false
	}
	return u.s[u.pathEnd+1:], true
}

// MarshalText returns the canonical form, for configuration files and JSON.
func (u URL) MarshalText() ([]byte, error) { return []byte(u.s), nil }

// UnmarshalText parses text with Parse. An empty text gives the zero URL.
func (u *URL) UnmarshalText(text []byte) (err error) {
	if len(text) == 0 {
		*u = URL{}
		return nil
	}
	if *u, err = (URL{}).ResolveBytes(text); err != nil {
		return fmt.Errorf("parse %q: %w", text[:min(len(text), 200)], err)
	}
	return nil
}
