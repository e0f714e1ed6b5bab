package warc

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/orbweaver/orbweaver/internal/web/message"
)

// Message reads the current record as an HTTP message. head is the HTTP header, with its empty line; nil if the record
// holds none. body is the payload, as Payload returns it, and size its number of bytes, or -1 if that is known only at
// the end. Of a revisit record, body is empty or a part of its original's. If the body has too many codings, the error
// wraps message.ErrLayers, and head is there all the same.
func (rec *Record) Message(ctx context.Context) (head []byte, body io.Reader, size int64, err error) {
	return rec.message(ctx, true)
}

// CodedMessage is Message with the content codings left in place.
func (rec *Record) CodedMessage(ctx context.Context) (head []byte, body io.Reader, size int64, err error) {
	return rec.message(ctx, false)
}

func (rec *Record) message(ctx context.Context, decode bool) (head []byte, body io.Reader, size int64, err error) {
	if !rec.isHTTP() {
		body, _ = new(message.Head).Coded(ctx, rec)
		return nil, body, rec.Size, nil
	}
	head, rest, err := readHead(rec)
	if err != nil {
		return nil, nil, 0, err
	}
	h := message.ReadHead(head)
	body, size = io.MultiReader(bytes.NewReader(rest), rec), rec.Size-int64(len(head))
	if decode {
		if body, size, err = h.Content(ctx, body, size); err != nil {
			return head, nil, 0, fmt.Errorf("record at %d: %w", rec.Offset, err)
		}
		return head, body, size, nil
	}
	body, chunked := h.Coded(ctx, body)
	if chunked {
		size = -1
	}
	return head, body, size, nil
}

// Payload returns the content that the current record is about. For an HTTP message this is the body without transfer
// coding and content coding, as a crawl reads it; for any other record it is the content block. The caller must read it
// before the next call of the Reader. Package message describes its errors; each read ends with ctx. The payload can be
// much larger than the record, so the caller must bound what it keeps.
func (rec *Record) Payload(ctx context.Context) (io.Reader, error) {
	_, body, _, err := rec.Message(ctx)
	return body, err
}

// isHTTP reports whether the content begins with an HTTP header.
func (rec *Record) isHTTP() bool {
	return hasPrefixFold(strings.TrimSpace(rec.Header.Value("Content-Type")), "application/http") && rec.Size > 0 ||
		rec.Header.Value("Content-Type") == "" && hasHTTP(rec.Type(), rec.URL()) && rec.Size > 0
}

// HTTPHead reads the HTTP header of the current record. It returns nil if the content does not begin with one. It must
// be called before any other read of the content.
func (rec *Record) HTTPHead() ([]byte, error) {
	if !rec.isHTTP() {
		return nil, nil
	}
	head, _, err := readHead(rec)
	return head, err
}
