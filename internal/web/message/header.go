package message

import "strings"

// Field is one line of a header. A line without a colon is a Field with an empty Name.
type Field struct{ Name, Value string }

// Header holds a response's fields in their original order.
type Header []Field

// Get returns the first value of name, or "". It ignores letter case.
func (h Header) Get(name string) string {
	for i := range h {
		if len(h[i].Name) == len(name) && strings.EqualFold(h[i].Name, name) {
			return h[i].Value
		}
	}
	return ""
}

// Values returns all values of name in their order. It ignores letter case.
func (h Header) Values(name string) []string {
	var vs []string
	for i := range h {
		if len(h[i].Name) == len(name) && strings.EqualFold(h[i].Name, name) {
			vs = append(vs, h[i].Value)
		}
	}
	return vs
}

// Tokens calls f for each comma-separated element of all values of name. It stops when f returns
// false.
func (h Header) Tokens(name string, f func(string) bool) {
	for i := range h {
		if len(h[i].Name) != len(name) || !strings.EqualFold(h[i].Name, name) {
			continue
		}
		for t := range strings.SplitSeq(h[i].Value, ",") {
			if t = trim(t); t != "" && !f(t) {
				return
			}
		}
	}
}

// HasToken reports whether a comma-separated element of name is token. It ignores letter case.
func (h Header) HasToken(name, token string) (found bool) {
	h.Tokens(name, func(t string) bool {
		found = strings.EqualFold(t, token)
		return !found
	})
	return found
}

// MaxFields is the maximum number of lines in a header.
const MaxFields = 5000

// ParseFields reads the lines after the status line, up to the empty line. It accepts what the web
// sends: bare LF, spaces before the colon, lines without a colon, and folded lines (RFC 9112, 5.2),
// which it joins with a space. ok is false if there are more than MaxFields lines.
func ParseFields(s string) (h Header, ok bool) {
	n := strings.Count(s, "\n")
	h = make(Header, 0, min(n, MaxFields))
	for s != "" {
		line, rest, _ := strings.Cut(s, "\n")
		s = rest
		line = strings.TrimSuffix(line, "\r")
		if line == "" {
			break
		}
		if (line[0] == ' ' || line[0] == '\t') && len(h) > 0 {
			var fold []string
			for {
				if t := trim(line); t != "" {
					fold = append(fold, t)
				}
				if s == "" || (s[0] != ' ' && s[0] != '\t') {
					break
				}
				line, s, _ = strings.Cut(s, "\n")
				line = strings.TrimSuffix(line, "\r")
			}
			if last := &h[len(h)-1]; len(fold) > 0 {
				last.Value = strings.TrimLeft(last.Value+" "+strings.Join(fold, " "), " ")
			}
			continue
		}
		if len(h) == MaxFields {
			return h, false
		}
		if name, value, colon := strings.Cut(line, ":"); colon {
			h = append(h, Field{trim(name), trim(value)})
		} else {
			h = append(h, Field{"", trim(line)})
		}
	}
	return h, true
}

// trim removes optional white space (RFC 9110, 5.6.3).
func trim(s string) string { return strings.Trim(s, " \t") }

// ParseStatus reads a status line without its line end: HTTP/d[.d] SP 3DIGIT [SP reason]. It
// accepts more than one space and a missing reason.
func ParseStatus(line string) (proto string, major, minor, status int, ok bool) {
	line = strings.TrimRight(line, "\r")
	rest, is := strings.CutPrefix(line, "HTTP/")
	if !is || rest == "" || rest[0] < '0' || rest[0] > '9' {
		return "", 0, 0, 0, false
	}
	major, n := int(rest[0]-'0'), 1
	if len(rest) > 2 && rest[1] == '.' && rest[2] >= '0' && rest[2] <= '9' {
		minor, n = int(rest[2]-'0'), 3
	}
	proto = line[:len("HTTP/")+n]
	rest = rest[n:]
	code := strings.TrimLeft(rest, " \t")
	if len(code) == len(rest) || len(code) < 3 {
		return "", 0, 0, 0, false
	}
	for i := range 3 {
		if code[i] < '0' || code[i] > '9' {
			return "", 0, 0, 0, false
		}
		status = status*10 + int(code[i]-'0')
	}
	if len(code) > 3 && code[3] != ' ' && code[3] != '\t' || status < 100 {
		return "", 0, 0, 0, false
	}
	return proto, major, minor, status, true
}

// A Head is the beginning of a response: its status line and its fields.
type Head struct {
	Proto  string // such as "HTTP/1.1"; empty without a status line that can be read
	Status int    // 0 without such a line
	Header Header
}

// ReadHead reads the head of a stored response, as a Fetcher reads it from the network. It never fails: of a head that
// does not begin with a status line, all lines are fields.
func ReadHead(b []byte) (h Head) {
	text := string(b)
	line, fields, _ := strings.Cut(text, "\n")
	ok := false
	if h.Proto, _, _, h.Status, ok = ParseStatus(line); !ok && !strings.HasPrefix(line, "HTTP/") {
		fields = text
	}
	h.Header, _ = ParseFields(fields)
	return h
}

// Empty reports that such a response has no body, whatever its fields say (RFC 9112, 6.3).
func (h *Head) Empty() bool { return h.Status == 204 || h.Status == 304 || h.Status == 101 }

// Transfer reports how the body is transferred: chunked, or with another transfer coding around the chunks, so that it
// ends with the connection. HTTP versions below 1.1 have no transfer coding (RFC 9112, 6.1).
func (h *Head) Transfer() (chunked, other bool) {
	// Both numbers of a version have one digit, so the strings compare as the versions do.
	if h.Proto < "HTTP/1.1" || h.Empty() {
		return false, false
	}
	h.Header.Tokens("Transfer-Encoding", func(t string) bool {
		chunked = strings.EqualFold(t, "chunked") // the last one counts
		other = other || !strings.EqualFold(t, "identity")
		return true
	})
	return chunked, other && !chunked
}
