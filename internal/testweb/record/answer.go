package record

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/orbweaver/orbweaver/internal/testweb"
)

const (
	textType = "text/plain; charset=utf-8"
	closing  = "Connection: close\r\n"
	// wholeThenClose is a Reply.Cut that exceeds every response.
	wholeThenClose = math.MaxInt32
)

func (a *Archive) Answer(dst []byte, q testweb.Query) ([]byte, testweb.Reply) {
	start := len(dst)
	h := &a.hosts[q.Host]
	var r testweb.Reply
	r.Page = -1
	o := origin{q.Secure, q.Port}
	if q.Target != "/robots.txt" {
		r.Rule, r.Denied = h.rules(o).Forbids(q.Target)
	}
	c, page, ok := a.find(q.Host, o, q.Target)
	if !ok {
		r.Status = 404
		return r.Respond(dst, q, textType, "", "This URL was not recorded.\n"), r
	}
	dst, cut, err := a.response(dst, c)
	if err != nil {
		a.unread.Add(1)
		r.Status = 500
		return r.Respond(dst[:start], q, textType, "", "The recorded response cannot be read any more.\n"), r
	}
	r.Page = page
	m := message{b: dst, start: start, cut: cut, askedClose: q.Close}
	m.mend()
	dst = m.b
	r.Status, r.HeadLen, r.RetryAfter, r.Coded = m.status, m.body-start, m.retryAfter, m.coded
	if q.Head {
		dst = dst[:m.body]
	}
	switch {
	case m.short:
		r.Fault, r.Cut = testweb.CloseAfter, len(dst)-start
	case m.closes: // the end of the connection ends the body
		r.Fault, r.Cut = testweb.CloseAfter, wholeThenClose
	}
	return dst, r
}

// response appends header and body of a capture, as they are in its records. cut means that the body is incomplete.
func (a *Archive) response(dst []byte, c capture) (_ []byte, cut bool, err error) {
	start := len(dst)
	head := c.head()
	dst, cut, err = content(dst, a.files[head.file()], head.offset(), a.cfg.MaxResponse)
	if err != nil || head == c.body&^alsoHead {
		return dst, cut, err
	}
	end, whole := headEnd(dst[start:])
	dst = dst[:start+end]
	if !whole {
		dst = append(dst, "\r\n\r\n"...)
	}
	at := len(dst)
	dst, cut, err = content(dst, a.files[c.body.file()], c.body.offset(), a.cfg.MaxResponse)
	if err != nil {
		return dst, cut, err
	}
	end, _ = headEnd(dst[at:])
	return slices.Delete(dst, at, at+end), cut, nil
}

// headEnd returns where the body begins, which is after the first empty line. If there is none, everything is header
// and whole is false.
func headEnd(b []byte) (end int, whole bool) {
	for end < len(b) {
		i := bytes.IndexByte(b[end:], '\n')
		if i < 0 {
			break
		}
		line := b[end : end+i]
		end += i + 1
		if len(line) == 0 || len(line) == 1 && line[0] == '\r' {
			return end, true
		}
	}
	return len(b), false
}

// A message is a response that mend repairs. b[start:] is the recorded response at first, and then the one to send.
type message struct {
	b           []byte
	start, body int
	cut         bool // the body is incomplete
	askedClose  bool
	status      int
	retryAfter  time.Duration
	coded       bool // the body has a content coding
	closes      bool // the end of the connection ends the body
	short       bool // the body is shorter than announced, so the connection must close after it
}

// A span is a line of a header, including its end.
type span struct{ from, to int }

// mend repairs the response as the package documentation describes.
func (m *message) mend() {
	end, whole := headEnd(m.b[m.start:])
	m.body = m.start + end
	if !whole {
		at := m.body
		for at > m.start && (m.b[at-1] == '\r' || m.b[at-1] == '\n') {
			at--
		}
		m.b = append(m.b[:at], "\r\n\r\n"...)
		m.body = len(m.b)
	}
	status, _, _ := parseStatus(m.b[m.start:min(m.start+40, len(m.b))])
	m.status = int(status)

	f := m.fields()
	body := m.b[m.body:]
	m.coded = f.coding != "" && f.coding != "identity" && coded(f.coding, body)
	if status == 204 || status == 304 {
		m.b, body = m.b[:m.body], nil
		f.lengths, f.chunked = nil, false
	}
	var drop []span
	length := -1 // to be added as Content-Length; -1: none
	switch {
	case f.chunked && (f.minor != 0 || f.major >= 2):
		drop = m.chunks(body, &f)
	case len(f.lengths) > 0:
		switch {
		case f.agree && f.length == int64(len(body)):
		case m.cut && f.agree && f.length > int64(len(body)):
			m.short = true
		default:
			drop, length = append(drop, f.lengths...), len(body)
			if f.coding != "" && !coded(f.coding, body) {
				drop = append(drop, f.codings...)
			}
		}
	case status == 204 || status == 304:
	case f.major >= 2 && !m.cut:
		length = len(body)
	default:
		m.closes = true
	}
	var add []byte
	if length >= 0 {
		add = append(strconv.AppendInt(append(add, "Content-Length: "...), int64(length), 10), "\r\n"...)
	}
	if m.askedClose && !f.close {
		add = append(add, closing...)
	}
	if len(drop) > 0 || len(add) > 0 || f.major >= 2 {
		m.rewrite(drop, add, f.major >= 2)
	}
}

// fields are the parts of a header that describe how the body is sent.
type fields struct {
	major, minor byte
	lengths      []span
	length       int64
	agree        bool // all Content-Length fields have the same valid value
	chunked      bool
	coding       string
	codings      []span
	close        bool
}

func (m *message) fields() fields {
	f := fields{major: 1, minor: 1, agree: true}
	pos := m.start
	for n := 0; pos < m.body; n++ {
		i := bytes.IndexByte(m.b[pos:m.body], '\n')
		if i < 0 {
			break
		}
		line := span{pos, pos + i + 1}
		pos = line.to
		text := bytes.TrimRight(m.b[line.from:line.to], "\r\n")
		if n == 0 {
			if v, ok := bytes.CutPrefix(text, []byte("HTTP/")); ok && len(v) > 0 {
				f.major, f.minor = v[0]-'0', 0
				if len(v) > 2 && v[1] == '.' {
					f.minor = v[2] - '0'
				}
			}
			continue
		}
		name, value, _ := bytes.Cut(text, []byte{':'})
		name, value = bytes.TrimRight(name, " \t"), bytes.TrimSpace(value)
		switch {
		case fold(name, "content-length"):
			v, err := strconv.ParseInt(string(value), 10, 64)
			f.agree = f.agree && err == nil && v >= 0 && (len(f.lengths) == 0 || v == f.length)
			f.length = v
			f.lengths = append(f.lengths, line)
		case fold(name, "transfer-encoding"):
			f.chunked = f.chunked || bytes.Contains(bytes.ToLower(value), []byte("chunked"))
		case fold(name, "content-encoding"):
			f.coding = string(bytes.ToLower(value))
			f.codings = append(f.codings, line)
		case fold(name, "connection"):
			f.close = f.close || bytes.Contains(bytes.ToLower(value), []byte("close"))
		case fold(name, "retry-after") && (m.status == 429 || m.status == 503):
			if v, err := strconv.Atoi(string(value)); err == nil && v > 0 && v < 1e6 {
				m.retryAfter = time.Duration(v) * time.Second
			}
		}
	}
	return f
}

// chunks repairs a body that its header calls chunked. It returns the lines to be removed from the header.
func (m *message) chunks(body []byte, f *fields) (drop []span) {
	end, state := walkChunks(body)
	switch state {
	case wholeChunks:
		m.b = m.b[:m.body+end]
	case openTrailer:
		m.b = append(m.b[:m.body+end], "\r\n"...)
	case cutChunks:
		m.short = true
	case noChunks:
		drop = append(drop, f.lengths...)
		if f.coding != "" && !coded(f.coding, body) {
			drop = append(drop, f.codings...)
		}
		var line [20]byte
		size := append(strconv.AppendInt(line[:0], int64(len(body)), 16), "\r\n"...)
		if len(body) > 0 {
			m.b = slices.Insert(m.b, m.body, size...)
			m.b = append(m.b, "\r\n"...)
		}
		if m.cut {
			m.short = true
		} else {
			m.b = append(m.b, "0\r\n\r\n"...)
		}
	}
	return drop
}

const (
	wholeChunks = iota
	openTrailer // the last chunk is there, but not the empty line after it
	cutChunks
	noChunks
)

// walkChunks reads the chunks (RFC 9112, 7.1) and returns where they end. If the body does not begin with a chunk, the
// state is noChunks: the writer removed the chunks. If the chunks end or break later, the state is cutChunks.
func walkChunks(b []byte) (end, state int) {
	for n := 0; ; n++ {
		i := bytes.IndexByte(b[end:min(len(b), end+4096)], '\n')
		if i < 0 {
			if n == 0 || len(b)-end > 4096 {
				return 0, noChunks
			}
			return len(b), cutChunks
		}
		text, _, _ := bytes.Cut(bytes.TrimRight(b[end:end+i], "\r"), []byte{';'})
		size, err := strconv.ParseUint(string(bytes.TrimSpace(text)), 16, 62)
		if err != nil {
			if n == 0 {
				return 0, noChunks
			}
			return len(b), cutChunks // a client reads up to here
		}
		end += i + 1
		if size == 0 {
			return trailer(b, end)
		}
		if size > uint64(len(b)-end) {
			return len(b), cutChunks
		}
		end += int(size)
		switch rest := b[end:]; {
		case bytes.HasPrefix(rest, []byte("\r\n")):
			end += 2
		case bytes.HasPrefix(rest, []byte("\n")):
			end++
		case n == 0 && len(rest) > 1:
			return 0, noChunks
		default:
			return len(b), cutChunks
		}
	}
}

// trailer returns the end of the empty line after the last chunk.
func trailer(b []byte, end int) (int, int) {
	for {
		i := bytes.IndexByte(b[end:], '\n')
		if i < 0 {
			return end, openTrailer
		}
		line := bytes.TrimRight(b[end:end+i], "\r")
		end += i + 1
		if len(line) == 0 {
			return end, wholeChunks
		}
	}
}

// coded reports whether a body may have the content coding that its header names.
func coded(coding string, body []byte) bool {
	prefix := func(p string) bool { return bytes.HasPrefix(body, []byte(p)) }
	switch coding {
	case "gzip", "x-gzip":
		return prefix("\x1f\x8b")
	case "zstd":
		return prefix("\x28\xb5\x2f\xfd")
	case "deflate", "br":
		text := body[:min(len(body), 512)]
		for n := 0; n < utf8.UTFMax && len(text) > 0 && !utf8.Valid(text); n++ { // the last character may be incomplete
			text = text[:len(text)-1]
		}
		return !utf8.Valid(text) || len(text) == 0
	}
	return true
}

// rewrite removes lines from the header and adds others after the status line. If version is set, it changes the
// protocol to HTTP/1.1.
func (m *message) rewrite(drop []span, add []byte, version bool) {
	head := make([]byte, 0, m.body-m.start+len(add)+8)
	first := bytes.IndexByte(m.b[m.start:m.body], '\n') + 1
	line := m.b[m.start : m.start+first]
	if version {
		if i := bytes.IndexByte(line, ' '); i > 0 {
			head, line = append(head, "HTTP/1.1"...), line[i:]
		}
	}
	head = append(append(head, line...), add...)
	slices.SortFunc(drop, func(x, y span) int { return x.from - y.from })
	pos := m.start + first
	for _, d := range drop {
		head = append(head, m.b[pos:d.from]...)
		pos = d.to
	}
	head = append(head, m.b[pos:m.body]...)
	m.b = slices.Replace(m.b, m.start, m.body, head...)
	m.body = m.start + len(head)
}
