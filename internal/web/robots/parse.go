package robots

import (
	"strings"
	"time"
)

// ReadLimit is the number of bytes that Parse reads of a robots.txt. The RFC asks for at least 500
// KiB (RFC 9309, 2.5). Fetch one byte more, so that Parse can tell whether the limit cuts a line or
// falls at its end.
const ReadLimit = 500 << 10

// lineLimit is the number of bytes that Parse reads of a line; it drops the rest. This is Google's
// limit: eight times the longest URL of an old browser, less one byte.
const lineLimit = 8*2083 - 1

// delayCeiling keeps absurd Crawl-delays within a time.Duration.
const delayCeiling = 366 * 24 * time.Hour

type kind uint8

const (
	other kind = iota
	userAgent
	allow
	disallow
	crawlDelay
	sitemap
)

// A record is a line of a known kind. Its strings are parts of the body.
type record struct {
	text  string // the line without its comment and surrounding space
	value string
	line  int32 // the line's number, from 1
	kind  kind
}

// Rules is a parsed robots.txt, for all agents.
type Rules struct {
	records  []record
	sitemaps []string
}

// Parse reads a robots.txt. It never fails. It skips unreadable lines, and it ignores the bytes
// after ReadLimit and the line that the limit cuts (RFC 9309, 2.5).
func Parse(body []byte) *Rules {
	cut := false
	if len(body) > ReadLimit {
		c := body[ReadLimit]
		cut = c != '\n' && c != '\r'
		body = body[:ReadLimit]
	}
	s := string(body)
	// Skip a byte order mark, also an incomplete one.
	const bom = "\xEF\xBB\xBF"
	for i := 0; i < len(bom) && s != "" && s[0] == bom[i]; i++ {
		s = s[1:]
	}
	r := new(Rules)
	for n := int32(1); s != ""; n++ {
		line, rest := s, ""
		if i := strings.IndexAny(s, "\r\n"); i >= 0 {
			line, rest = s[:i], s[i+1:]
			if s[i] == '\r' && rest != "" && rest[0] == '\n' {
				rest = rest[1:]
			}
		} else if cut {
			break
		}
		s = rest
		if line != "" {
			r.read(line, n)
		}
	}
	return r
}

// Sitemaps returns the values of the Sitemap lines, as written and in their order. They belong to
// no group.
func (r *Rules) Sitemaps() []string { return r.sitemaps }

// read parses line number n.
func (r *Rules) read(line string, n int32) {
	if len(line) > lineLimit {
		line = line[:lineLimit]
	}
	// A NUL also ends a line, because Google's matcher reads C strings.
	if i := strings.IndexAny(line, "#\x00"); i >= 0 {
		line = line[:i]
	}
	line = strings.Trim(line, space)
	key, value, ok := split(line)
	if !ok {
		return
	}
	switch k := kindOf(key); k {
	case other:
	case sitemap:
		if value != "" {
			r.sitemaps = append(r.sitemaps, value)
		}
	default:
		r.records = append(r.records, record{text: line, value: value, line: n, kind: k})
	}
}

const space = " \t\n\v\f\r"

// split cuts a line at the colon. If the colon is missing, as it often is, split cuts at white
// space, but only if that leaves exactly two words.
func split(line string) (key, value string, ok bool) {
	sep := strings.IndexByte(line, ':')
	if sep < 0 {
		sep = strings.IndexAny(line, " \t")
		if sep < 0 || strings.ContainsAny(strings.TrimLeft(line[sep:], " \t"), " \t") {
			return "", "", false
		}
	}
	key = strings.Trim(line[:sep], space)
	return key, strings.Trim(line[sep+1:], space), key != ""
}

// keys are the prefixes that identify a line. They include the misspellings that are common enough
// to be obeyed.
var keys = []struct {
	prefix string
	kind   kind
}{
	{"user-agent", userAgent}, {"useragent", userAgent}, {"user agent", userAgent},
	{"allow", allow},
	{"disallow", disallow}, {"dissallow", disallow}, {"dissalow", disallow},
	{"disalow", disallow}, {"diasllow", disallow}, {"disallaw", disallow},
	{"sitemap", sitemap}, {"site-map", sitemap},
	{"crawl-delay", crawlDelay}, {"crawldelay", crawlDelay}, {"crawl delay", crawlDelay},
}

func kindOf(key string) kind {
	for _, k := range keys {
		if len(key) >= len(k.prefix) && strings.EqualFold(key[:len(k.prefix)], k.prefix) {
			return k.kind
		}
	}
	return other
}

// seconds reads the number at the front of a Crawl-delay, in seconds. ok is false if there is none.
func seconds(s string) (d time.Duration, ok bool) {
	var n, scale float64 = 0, 1
	digits, point := 0, false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c >= '0' && c <= '9':
			digits++
			if point {
				scale /= 10
				n += float64(c-'0') * scale
			} else {
				n = min(n*10+float64(c-'0'), 1e12)
			}
			continue
		case c == '.' && !point:
			point = true
			continue
		}
		break
	}
	if digits == 0 {
		return 0, false
	}
	return time.Duration(min(n, delayCeiling.Seconds()) * float64(time.Second)), true
}

// globalAgent reports whether the value of a User-agent line means all agents. "* and more" also
// means all.
func globalAgent(v string) bool {
	return v != "" && v[0] == '*' && (len(v) == 1 || strings.IndexByte(space, v[1]) >= 0)
}

// namesAgent reports whether the value of a User-agent line is agent. The name in the value ends at
// the first character outside A-Za-z_- (RFC 9309, 2.2.1). If digits is set, digits also belong to
// the name.
func namesAgent(v, agent string, digits bool) bool {
	return strings.EqualFold(v[:tokenLen(v, digits)], agent)
}

func tokenLen(s string, digits bool) int {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if !(c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' || c == '-' || digits && c >= '0' && c <= '9') {
			return i
		}
	}
	return len(s)
}
