package warc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
)

// ErrCodings means that a body has too many content codings, one over the other, to be decoded.
var ErrCodings = errors.New("content codings")

// Message reads the current record as an HTTP message. head is the HTTP header, with its empty line; nil if the record
// holds none. body is the payload, as Payload returns it, and size its number of bytes, or -1 if that is known only at
// the end. Of a revisit record, body is empty or a part of its original's. If the body has too many codings, the error
// wraps ErrCodings.
func (rec *Record) Message() (head []byte, body io.Reader, size int64, err error) {
	return rec.message(true)
}

// CodedMessage is Message with the content codings left in place.
func (rec *Record) CodedMessage() (head []byte, body io.Reader, size int64, err error) {
	return rec.message(false)
}

func (rec *Record) message(decode bool) (head []byte, body io.Reader, size int64, err error) {
	if !rec.isHTTP() {
		return nil, rec, rec.Size, nil
	}
	head, rest, err := readHead(rec)
	if err != nil {
		return nil, nil, 0, err
	}
	h := parseHead(head)
	body, size = io.MultiReader(bytes.NewReader(rest), rec), rec.Size-int64(len(head))
	if h.Chunked {
		body, size = newDechunker(body), -1
	}
	if h.Encoding == "" || !decode {
		return head, body, size, nil
	}
	codings := strings.Split(h.Encoding, ",")
	if len(codings) > maxCodings {
		return nil, nil, 0, fmt.Errorf("record at %d: %d %w; at most %d are supported",
			rec.Offset, len(codings), ErrCodings, maxCodings)
	}
	for i := len(codings) - 1; i >= 0; i-- {
		body = decoder(strings.TrimSpace(codings[i]), body)
	}
	return head, body, -1, nil
}
