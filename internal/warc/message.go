package warc

import (
	"bytes"
	"fmt"
	"io"
	"strings"
)

// Message reads the current record as an HTTP message. head is the HTTP header, with its empty line; nil if the record
// holds none. body is the payload, as Payload returns it. Of a revisit record, body is empty or a part of its
// original's.
func (rec *Record) Message() (head []byte, body io.Reader, err error) {
	if !rec.isHTTP() {
		return nil, rec, nil
	}
	head, rest, err := readHead(rec)
	if err != nil {
		return nil, nil, err
	}
	h := parseHead(head)
	body = io.MultiReader(bytes.NewReader(rest), rec)
	if h.Chunked {
		body = newDechunker(body)
	}
	codings := strings.Split(h.Encoding, ",")
	if len(codings) > maxCodings {
		return nil, nil, fmt.Errorf("record at %d: %d content codings; at most %d are supported",
			rec.Offset, len(codings), maxCodings)
	}
	for i := len(codings) - 1; i >= 0; i-- {
		body = decoder(strings.TrimSpace(codings[i]), body)
	}
	return head, body, nil
}
