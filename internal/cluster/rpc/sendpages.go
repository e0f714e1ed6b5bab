package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

const (
	// pageChunk is how much of a page is sent in one message.
	pageChunk = 64 << 10
	// maxPage bounds the records of a page in octets.
	maxPage = 1 << 40
)

// A SentPage is a page that the receiver keeps: the encoding of its link, and its WARC records.
type SentPage struct {
	Link []byte
	Size int64 // of the records in octets
	Open func() (io.ReadCloser, error)
}

var pages = Stream[pb.PagesRequest, pb.PagesResponse]{CallPages}

// Pages sends pages to the agent that keeps them. Without an error they are durable there. The agent holds the sender
// back if it is slower.
func (p *Peer) Pages(ctx context.Context, sent []SentPage) error {
	return pages.Ask(ctx, p, func(send func(*pb.PagesRequest) error) error {
		buf := make([]byte, pageChunk)
		for _, page := range sent {
			if err := sendPage(send, page, buf); err != nil {
				return err
			}
		}
		return nil
	}, func(r *pb.PagesResponse) error {
		if int(r.Count) != len(sent) {
			return malformed("%d of %d pages acknowledged", r.Count, len(sent))
		}
		p.client.counts.pages.Add(uint64(len(sent)))
		return nil
	})
}

// ErrStored reports a stored page that cannot be read.
var ErrStored = errors.New("a stored page cannot be read")

func sendPage(send func(*pb.PagesRequest) error, page SentPage, buf []byte) error {
	r, err := page.Open()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrStored, err)
	}
	defer r.Close()
	m := &pb.PagesRequest{Link: page.Link, Size: uint64(page.Size)}
	for left := page.Size; left > 0; m = new(pb.PagesRequest) {
		m.Records = buf[:min(left, int64(len(buf)))]
		if _, err := io.ReadFull(r, m.Records); err != nil {
			return fmt.Errorf("%w: %w", ErrStored, err)
		}
		left -= int64(len(m.Records))
		if err := send(m); err != nil {
			return err
		}
	}
	return nil
}

// A PageReader reads the pages of a call, one after the other.
type PageReader struct {
	receive func() (*pb.PagesRequest, error) // io.EOF after the last one
	chunk   []byte
	left    int64 // octets of the page that were not received
	n       int
}

// Next skips the rest of the present page and returns the link of the next one. The error is io.EOF after the last
// page. An error of a page is an ErrMalformed.
func (p *PageReader) Next() (found link.Link, err error) {
	if _, err := io.Copy(io.Discard, p); err != nil {
		return found, err
	}
	m, err := p.receive()
	if err != nil {
		return found, err
	}
	found, n, err := link.Decode(m.Link)
	switch _, ok := found.Destination(); {
	case err != nil || n != len(m.Link) || found.URL.IsZero():
		return found, malformed("link of page %d", p.n)
	case !ok:
		return found, malformed("page %d has no destination", p.n)
	case m.Size == 0 || m.Size > maxPage:
		return found, malformed("page %d of %d octets", p.n, m.Size)
	}
	p.n++
	p.left = int64(m.Size)
	return found, p.take(m)
}

// take takes a part of the page.
func (p *PageReader) take(m *pb.PagesRequest) error {
	if len(m.Records) == 0 || int64(len(m.Records)) > p.left {
		return malformed("%d octets of page %d, which has %d left", len(m.Records), p.n-1, p.left)
	}
	p.chunk, p.left = m.Records, p.left-int64(len(m.Records))
	return nil
}

// Read reads the WARC records of the page.
func (p *PageReader) Read(b []byte) (int, error) {
	if len(p.chunk) == 0 {
		if p.left == 0 {
			return 0, io.EOF
		}
		m, err := p.receive()
		switch {
		case errors.Is(err, io.EOF):
			return 0, malformed("page %d ends %d octets early", p.n-1, p.left)
		case err != nil:
			return 0, err
		case len(m.Link) > 0 || m.Size > 0:
			return 0, malformed("page %d begins before page %d has ended", p.n, p.n-1)
		}
		if err := p.take(m); err != nil {
			return 0, err
		}
	}
	n := copy(b, p.chunk)
	p.chunk = p.chunk[n:]
	return n, nil
}
