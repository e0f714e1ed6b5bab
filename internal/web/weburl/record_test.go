package weburl

import "strings"

// A Record is an http or https URL as the URL standard parses it, before the canonical form. Its
// methods have the names of the standard's URL class (6.1).
type Record struct{ l layout }

// ParseWHATWG parses input against base as the URL standard does. An empty base means "no base". A
// base with another scheme is accepted only if input does not need a base; otherwise the error is
// ErrScheme.
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

// Href returns the whole URL.
func (r Record) Href() string { return r.l.s }

// Protocol returns "http:" or "https:".
func (r Record) Protocol() string {
	return r.l.s[:strings.IndexByte(r.l.s, ':')+1]
}

// Username returns the user name, percent-encoded.
func (r Record) Username() string {
	if r.l.s == "" {
		return ""
	}
	return r.l.s[len(r.Protocol())+len("//") : r.l.userEnd]
}

// Password returns the password, percent-encoded.
func (r Record) Password() string {
	return strings.TrimPrefix(r.l.s[r.l.userEnd:r.l.passEnd], ":")
}

// Host returns Hostname, with ":port" if the port is not the scheme's default.
func (r Record) Host() string { return r.l.s[r.l.hostStart:r.l.pathStart] }

// Hostname returns the host without the port. An IPv6 address keeps its brackets.
func (r Record) Hostname() string { return r.l.s[r.l.hostStart:r.l.hostEnd] }

// Port returns the port, or "" if it is the scheme's default.
func (r Record) Port() string {
	return strings.TrimPrefix(r.l.s[r.l.hostEnd:r.l.pathStart], ":")
}

// Pathname returns the path, which begins with a slash.
func (r Record) Pathname() string { return r.l.s[r.l.pathStart:r.l.pathEnd] }

// Search returns the query with its question mark, or "" if the query is empty.
func (r Record) Search() string { return dropLoneDelimiter(r.l.s[r.l.pathEnd:r.l.queryEnd]) }

// Hash returns the fragment with its number sign, or "" if the fragment is empty.
func (r Record) Hash() string { return dropLoneDelimiter(r.l.s[r.l.queryEnd:]) }

// dropLoneDelimiter returns "" if s is only a "?" or a "#".
func dropLoneDelimiter(s string) string {
	if len(s) == 1 {
		return ""
	}
	return s
}
