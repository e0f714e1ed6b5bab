package fetch

import (
	"errors"
	"strings"

	"github.com/orbweaver/orbweaver/internal/web/message"
)

// DecodeWhole is Decode for a body of which a part is worse than nothing, such as the rules of a robots.txt. why says
// in words why the body is not all that the server has; it is empty if it is. A body that MaxBody or limit cuts counts
// as whole, and so does a body without a length and without chunks that ends with the connection. The error is one of
// the spill file.
func (r *Response) DecodeWhole(limit int64) (body []byte, why string, err error) {
	body, _, err = r.Decode(limit)
	if err != nil && !errors.Is(err, ErrCoding) {
		return nil, "", err
	}
	why = r.transfer()
	if why == "" && (err != nil && !errors.Is(err, errNotCoded) || r.unreadable(body, err)) {
		why = "it cannot be decoded (Content-Encoding " + strings.Join(r.Header.Values("Content-Encoding"), ", ") + ")"
	}
	return body, why, nil
}

// transfer returns why the transfer of the body was not whole, or "".
func (r *Response) transfer() string {
	has := func(note string) bool { return strings.Contains(","+r.Note+",", ","+note+",") }
	switch {
	case r.Status == 206:
		return "the server sent a part of it, unasked (status 206)"
	case r.Truncated == TruncatedTime:
		return "cut off by a time bound"
	case r.Truncated == TruncatedDisconnect && has("broken-chunk"):
		return "its chunks are broken"
	case r.Truncated == TruncatedDisconnect:
		return "the connection ended before the end of the file"
	case has("bad-content-length"):
		return "its Content-Length is not one number"
	case r.Proto < "HTTP/1.1" && r.Header.Get("Transfer-Encoding") != "":
		return "it has a Transfer-Encoding in " + r.Proto // RFC 9112, 6.1: the framing is faulty
	}
	return ""
}

// unreadable reports that the body has a coding that was not undone, and is not text. Many servers name a coding for
// a text that has none. err is the error of Decode.
func (r *Response) unreadable(body []byte, err error) bool {
	if err == nil {
		named := false
		note := func(t string) bool {
			named = named || !strings.EqualFold(t, "identity") && !strings.EqualFold(t, "chunked")
			return true
		}
		r.Header.Tokens("Content-Encoding", note)
		r.Header.Tokens("Transfer-Encoding", note)
		if codings, _ := message.AppendCodings(nil, r.Header); !named || len(codings) > 0 {
			return false
		}
	}
	for _, b := range body { // the binary data bytes of MIME Sniffing
		if b < '\t' || b == 0x0b || b > '\r' && b < 0x1b || b > 0x1b && b < ' ' {
			return true
		}
	}
	return false
}
