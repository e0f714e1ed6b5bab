package fetch

import (
	"bytes"
	"errors"
	"net"
	"os"
	"strings"

	"github.com/orbweaver/orbweaver/internal/web/message"
)

// framing is how the end of a body is found (RFC 9112, 6.3).
type framing uint8

const (
	byClose framing = iota
	byNothing
	byLength
	byChunks
)

type frame struct {
	kind   framing
	length int64
}

// frameOf returns the framing of r's body. If the Content-Length is not a number, or if two of them
// differ, no length can be trusted: frameOf notes that, and the body ends with the connection.
func frameOf(r *Response) frame {
	h := message.Head{Proto: r.Proto, Status: r.Status, Header: r.Header}
	if h.Empty() {
		return frame{kind: byNothing}
	}
	switch chunked, other := h.Transfer(); {
	case chunked:
		return frame{kind: byChunks}
	case other:
		return frame{kind: byClose}
	}
	f := frame{kind: byClose}
	bad := false
	for i := range r.Header {
		if !strings.EqualFold(r.Header[i].Name, "Content-Length") {
			continue
		}
		for t := range strings.SplitSeq(r.Header[i].Value, ",") {
			n, ok := parseLength(strings.Trim(t, " \t"))
			if !ok || f.kind == byLength && n != f.length {
				bad = true
				continue
			}
			f = frame{byLength, n}
		}
	}
	if bad {
		r.note("bad-content-length")
		return frame{kind: byClose}
	}
	return f
}

func parseLength(s string) (n int64, ok bool) {
	if s == "" || len(s) > 64 {
		return 0, false
	}
	for i := range len(s) {
		d := s[i] - '0'
		if d > 9 || n > (1<<62)/10 {
			return 0, false
		}
		n = n*10 + int64(d)
	}
	return n, true
}

// keepAlive reports whether the server accepts another request on the connection, if the end of the
// body is found without closing it.
func keepAlive(major, minor int, h Header) bool {
	switch {
	case major != 1 || h.HasToken("Connection", "close"):
		return false
	case minor == 0:
		return h.HasToken("Connection", "keep-alive")
	}
	// A response with both framings may be an attempt to smuggle a response (RFC 9112, 6.1).
	return h.Get("Transfer-Encoding") == "" || h.Get("Content-Length") == ""
}

func isTimeout(err error) bool {
	var t net.Error
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &t) && t.Timeout()
}

func trimEOL(b []byte) []byte { return bytes.TrimLeft(b, "\r\n") }

func firstLine(b []byte) string {
	line, _, _ := bytes.Cut(b, []byte("\n"))
	return string(line)
}
