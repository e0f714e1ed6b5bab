package weburl

import "strings"

// A Record is an http or https URL as the URL standard parses it, before the
// canonical form. Its methods are named for the standard's URL class (6.1).
type Record struct{ l layout }

// ParseWHATWG parses input against base as the URL standard does. An empty
// base is none. A base of another scheme serves only an input that does not
// need it; otherwise the error is ErrScheme.
func ParseWHATWG(input, base string) (Record, error) {
	var b *layout
	if base != "" {
		r, err := parseRecord(base, nil)
		switch {
		case err == nil:
			b = &r.l
		case err != ErrScheme:
			return Record{}, err
		default:
			if scheme, _ := schemeOf(unbreak(trim(input))); scheme == schemeNone {
				return Record{}, ErrScheme
			}
		}
	}
	return parseRecord(input, b)
}

func parseRecord(input string, base *layout) (Record, error) {
	var a assembler
	if err := a.resolve(input, base); err != nil {
		return Record{}, err
	}
	if len(a.out) > MaxParse {
		return Record{}, ErrTooLong
	}
	a.s = string(a.out)
	return Record{a.layout}, nil
}

// Href is the whole URL.
func (r Record) Href() string { return r.l.s }

// Protocol is "http:" or "https:".
func (r Record) Protocol() string {
	return r.l.s[:strings.IndexByte(r.l.s, ':')+1]
}

// Username is percent-encoded.
func (r Record) Username() string {
	if r.l.s == "" {
		return ""
	}
	return r.l.s[len(r.Protocol())+len("//") : r.l.userEnd]
}

// Password is percent-encoded.
func (r Record) Password() string {
	return strings.TrimPrefix(r.l.s[r.l.userEnd:r.l.passEnd], ":")
}

// Host is Hostname, and ":port" where it is not the scheme's default.
func (r Record) Host() string { return r.l.s[r.l.hostStart:r.l.pathStart] }

// Hostname is the host without the port, an IPv6 address in brackets.
func (r Record) Hostname() string { return r.l.s[r.l.hostStart:r.l.hostEnd] }

// Port is empty where it is the scheme's default.
func (r Record) Port() string {
	return strings.TrimPrefix(r.l.s[r.l.hostEnd:r.l.pathStart], ":")
}

// Pathname begins with a slash.
func (r Record) Pathname() string { return r.l.s[r.l.pathStart:r.l.pathEnd] }

// Search is the query with its question mark, empty where the query is.
func (r Record) Search() string { return lone(r.l.s[r.l.pathEnd:r.l.queryEnd]) }

// Hash is the fragment with its number sign, empty where the fragment is.
func (r Record) Hash() string { return lone(r.l.s[r.l.queryEnd:]) }

func lone(s string) string {
	if len(s) == 1 {
		return ""
	}
	return s
}
