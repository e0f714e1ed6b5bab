package boundary

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

const (
	// pageChunk is how much of a page is sent in one message.
	pageChunk = 64 << 10
	// maxPage bounds the records of a page in octets.
	maxPage = 1 << 40
)

// Call sends pages to the agent that keeps them: of each the encoding of its link, and its WARC records in parts. The
// answer means that they are durable there.
var Call = rpc.Stream[pb.PagesRequest, pb.PagesResponse]{Call: rpc.CallPages}

// A Taker keeps pages of other agents: a cluster.Clustered.
type Taker interface {
	// TakePage takes a page that agent from sends. It reads records to their end, unless it has the page already. When
	// durable returns nil, the page is durable. After an ErrNotKeeper or a crawl.ErrNotRunning the page comes again. A
	// crawl.ErrImport means that the records are no page.
	TakePage(ctx context.Context, from string, page link.Link, records io.Reader) (durable func() error, err error)
}

// ErrNotKeeper reports a page that belongs to another agent by this agent's view.
var ErrNotKeeper = errors.New("the page belongs to another agent")

// Serve makes a server take the pages that other agents send, before it runs.
func Serve(s *rpc.Server, t Taker) {
	Call.Serve(s, func(ctx context.Context, from rpc.Caller, receive func() (*pb.PagesRequest, error)) (
		*pb.PagesResponse, error) {
		pages := &pageReader{receive: receive}
		err := takeAll(ctx, from.Name, pages, t)
		return &pb.PagesResponse{Count: uint32(pages.n)}, err
	})
}

// takeAll takes the pages of a call.
func takeAll(ctx context.Context, from string, pages *pageReader, t Taker) (err error) {
	var durable []func() error
	for err == nil {
		var page link.Link
		if page, err = pages.next(); err != nil {
			break
		}
		var wait func() error
		if wait, err = t.TakePage(ctx, from, page, pages); err == nil {
			durable = append(durable, wait)
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	// Even after an error, the pages before it are taken. If they come again, they are known.
	for _, wait := range durable {
		if err == nil {
			err = wait()
		}
	}
	switch {
	case errors.Is(err, crawl.ErrNotRunning), errors.Is(err, ErrNotKeeper):
		return rpc.ErrAgain
	case errors.Is(err, crawl.ErrImport):
		return fmt.Errorf("%w: %w", rpc.ErrMalformed, err)
	}
	return err
}

// errStored reports a stored page that cannot be read.
var errStored = errors.New("a stored page cannot be read")

// send sends pages of a Store to the agent that keeps them. Without an error they are durable there. The agent holds
// the sender back if it is slower.
func send(ctx context.Context, to *rpc.Peer, from *Store, pages []link.Link) error {
	return Call.Ask(ctx, to, func(send func(*pb.PagesRequest) error) error {
		buf := make([]byte, pageChunk)
		for _, page := range pages {
			if err := sendPage(send, from, page, buf); err != nil {
				return err
			}
		}
		return nil
	}, func(r *pb.PagesResponse) error {
		if int(r.Count) != len(pages) {
			return rpc.Malformedf("%d of %d pages acknowledged", r.Count, len(pages))
		}
		return nil
	})
}

func sendPage(send func(*pb.PagesRequest) error, from *Store, page link.Link, buf []byte) error {
	at, _ := page.Stored()
	r, err := from.Read(at)
	if err != nil {
		return fmt.Errorf("%w: %w", errStored, err)
	}
	defer r.Close()
	size := at.To - at.From
	m := &pb.PagesRequest{Link: page.WithoutStored().AppendTo(nil), Size: uint64(size)}
	for left := size; left > 0; m = new(pb.PagesRequest) {
		m.Records = buf[:min(left, int64(len(buf)))]
		if _, err := io.ReadFull(r, m.Records); err != nil {
			return fmt.Errorf("%w: %w", errStored, err)
		}
		left -= int64(len(m.Records))
		if err := send(m); err != nil {
			return err
		}
	}
	return nil
}

// A pageReader reads the pages of a call, one after the other.
type pageReader struct {
	receive func() (*pb.PagesRequest, error) // io.EOF after the last one
	chunk   []byte
	left    int64 // octets of the page that were not received
	n       int
}

// next skips the rest of the present page and returns the link of the next one. The error is io.EOF after the last
// page. An error of a page is an rpc.ErrMalformed.
func (p *pageReader) next() (found link.Link, err error) {
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
		return found, rpc.Malformedf("link of page %d", p.n)
	case !ok:
		return found, rpc.Malformedf("page %d has no destination", p.n)
	case m.Size == 0 || m.Size > maxPage:
		return found, rpc.Malformedf("page %d of %d octets", p.n, m.Size)
	}
	p.n++
	p.left = int64(m.Size)
	return found, p.take(m)
}

// take takes a part of the page.
func (p *pageReader) take(m *pb.PagesRequest) error {
	if len(m.Records) == 0 || int64(len(m.Records)) > p.left {
		return rpc.Malformedf("%d octets of page %d, which has %d left", len(m.Records), p.n-1, p.left)
	}
	p.chunk, p.left = m.Records, p.left-int64(len(m.Records))
	return nil
}

// Read reads the WARC records of the page.
func (p *pageReader) Read(b []byte) (int, error) {
	if len(p.chunk) == 0 {
		if p.left == 0 {
			return 0, io.EOF
		}
		m, err := p.receive()
		switch {
		case errors.Is(err, io.EOF):
			return 0, rpc.Malformedf("page %d ends %d octets early", p.n-1, p.left)
		case err != nil:
			return 0, err
		case len(m.Link) > 0 || m.Size > 0:
			return 0, rpc.Malformedf("page %d begins before page %d has ended", p.n, p.n-1)
		}
		if err := p.take(m); err != nil {
			return 0, err
		}
	}
	n := copy(b, p.chunk)
	p.chunk = p.chunk[n:]
	return n, nil
}
