package weburl

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"unsafe"
)

// Errors of Parse and Resolve; test with errors.Is.
var (
	ErrScheme  = errors.New("not an http or https URL")
	ErrInvalid = errors.New("invalid URL")
	ErrTooLong = errors.New("URL too long")
)

// Errors that say more than ErrInvalid; made once, because a page may hold
// thousands of them.
var (
	errRelative = fmt.Errorf("%w: relative reference without a base", ErrInvalid)
	errNoHost   = fmt.Errorf("%w: no host", ErrInvalid)
	errHostChar = fmt.Errorf("%w: forbidden character in host", ErrInvalid)
	errHostLong = fmt.Errorf("%w: host name over 253 octets", ErrInvalid)
	errLabel    = fmt.Errorf("%w: host name with an empty label or one over 63 octets", ErrInvalid)
	errDomain   = fmt.Errorf("%w: not an internationalized domain name", ErrInvalid)
	errIPv4     = fmt.Errorf("%w: not an IPv4 address though its last label is a number", ErrInvalid)
	errIPv6     = fmt.Errorf("%w: not an IPv6 address in brackets", ErrInvalid)
	errPort     = fmt.Errorf("%w: port is not a number from 0 to 65535", ErrInvalid)
)

const (
	// MaxParse is the longest input and the longest canonical URL in octets.
	MaxParse = 1<<16 - 1
	// MaxLength is the longest URL in octets that is worth crawling. Servers
	// and browsers differ; it is Heritrix's bound (UURI.MAX_URL_LENGTH).
	MaxLength = 2083
	// maxHost is the longest domain name in octets (RFC 1035, 2.3.4).
	maxHost = 253
	// maxLabel is the longest part of one between its dots.
	maxLabel = 63
)

// URL is an absolute http or https URL in canonical form. It is comparable;
// the zero URL stands for none, and all its parts are empty.
type URL struct {
	s string
	// Offsets into s: the host ends at hostEnd, the authority at pathStart,
	// the path at pathEnd. The scheme tells where the host begins.
	hostEnd, pathStart, pathEnd uint16
}

// Parse reads an absolute URL and returns its canonical form.
func Parse(raw string) (URL, error) { return URL{}.Resolve(raw) }

// MustParse is Parse for constants and tests: it panics on error.
func MustParse(raw string) URL {
	u, err := Parse(raw)
	if err != nil {
		panic(fmt.Sprintf("weburl: parse %q: %v", raw, err))
	}
	return u
}

// Resolve reads ref as a reference found on a page at u (a zero u: ref must be
// absolute). It costs one allocation, none where the result is u.
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
	if cap(a.out) <= 4096 { // not the rare giant's
		assemblers.Put(a)
	}
	return r, err
}

// assemblers are reused, because their buffers would be most of what a parse
// allocates.
var assemblers = sync.Pool{New: func() any {
	return &assembler{canonical: true, out: make([]byte, 0, 512)}
}}

// ResolveBytes is Resolve for a reference that lies in a buffer. The result
// does not share ref's memory.
func (u URL) ResolveBytes(ref []byte) (URL, error) {
	// Resolve copies what it keeps and its errors do not hold the input, so
	// the string need not outlive this call.
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

// hostStart is 0 for the zero URL.
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

// Clone is u in memory of its own: for who keeps a URL that shares its memory
// with others, as those of a Batch and of a decoded Link do.
func (u URL) Clone() URL {
	u.s = strings.Clone(u.s)
	return u
}

// String is the canonical form.
func (u URL) String() string { return u.s }

// IsZero says whether u stands for no URL.
func (u URL) IsZero() bool { return u.s == "" }

// Scheme is "http" or "https".
func (u URL) Scheme() string { return u.s[:max(0, u.hostStart()-len("://"))] }

// Host is the host name in lower-case ASCII without the port; an IPv6 address keeps its brackets.
func (u URL) Host() string { return u.s[u.hostStart():u.hostEnd] }

// Port is the effective port, 80 or 443 where the URL names none.
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

// Authority is the host, with ":port" where it is not the scheme's default: the Host header.
func (u URL) Authority() string { return u.s[u.hostStart():u.pathStart] }

// Origin is scheme://authority: what a robots.txt speaks for (RFC 9309, 2.3).
func (u URL) Origin() string { return u.s[:u.pathStart] }

// RequestURI is path and query as they stand in a request line.
func (u URL) RequestURI() string { return u.s[u.pathStart:] }

// Path begins with a slash and has no query.
func (u URL) Path() string { return u.s[u.pathStart:u.pathEnd] }

// Query is what follows the first question mark; ok is false where there is none.
func (u URL) Query() (q string, ok bool) {
	if int(u.pathEnd) >= len(u.s) {
		return "", false
	}
	return u.s[u.pathEnd+1:], true
}

// MarshalText is the canonical form, for configuration files and JSON.
func (u URL) MarshalText() ([]byte, error) { return []byte(u.s), nil }

// UnmarshalText is Parse; an empty text is the zero URL.
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
