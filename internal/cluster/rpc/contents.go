package rpc

import (
	"context"
	"fmt"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

const (
	// MaxContents bounds the contents in one call, MaxContentURL the URL of a page.
	MaxContents   = 128
	MaxContentURL = 4096
	digestLen     = 20
	maxMillis     = 253402300799999 // the end of the year 9999
)

// A Content is a question about the body of a page, by its digest without chunk sizes.
type Content struct {
	Digest [digestLen]byte
	Page   ContentPage
	// Archived reports that Page is archived in full and durable. From now on the receiver may
	// name it to other agents.
	Archived bool
}

// A ContentAnswer names the page that has a content.
type ContentAnswer struct {
	// First is archived in full. Zero: no page is, or the asking page is.
	First ContentPage
	// Claimed, with a zero First, reports that another page asked before and is not archived
	// yet.
	Claimed bool
}

// A ContentPage is a page with a content.
type ContentPage struct {
	URL string
	// Date is the date of its record, to the millisecond.
	Date time.Time
	// Stored is the digest of its payload as stored, if it is stored with chunk sizes; zero otherwise.
	Stored [digestLen]byte
}

// Contents asks the agent that judges these contents which pages have them. It returns
// one answer for each content, in their order.
func (p *Peer) Contents(ctx context.Context, cs []Content) (as []ContentAnswer, err error) {
	err = p.call(ctx, CallContents, func(ctx context.Context) error {
		res, err := unary[pb.ContentsResponse](ctx, p, CallContents, contentsToWire(cs))
		if err == nil {
			as, err = contentAnswersFromWire(res, len(cs))
		}
		return err
	})
	return as, err
}

func contentsToWire(cs []Content) *pb.ContentsRequest {
	w := &pb.ContentsRequest{Contents: make([]*pb.Content, len(cs))}
	for i := range cs {
		w.Contents[i] = &pb.Content{Digest: cs[i].Digest[:], Page: contentPageToWire(cs[i].Page),
			Archived: cs[i].Archived}
	}
	return w
}

func contentsFromWire(w *pb.ContentsRequest) ([]Content, error) {
	if len(w.Contents) == 0 {
		return nil, malformed("no contents")
	}
	if len(w.Contents) > MaxContents {
		return nil, fmt.Errorf("%w: %d contents", ErrTooLarge, len(w.Contents))
	}
	cs := make([]Content, len(w.Contents))
	for i, c := range w.Contents {
		if len(c.GetDigest()) != digestLen {
			return nil, malformed("digest of %d octets", len(c.GetDigest()))
		}
		page, err := contentPageFromWire(c.Page)
		if err == nil && page.URL == "" {
			err = malformed("content %d of no page", i)
		}
		if err != nil {
			return nil, err
		}
		cs[i] = Content{Digest: [digestLen]byte(c.Digest), Page: page, Archived: c.Archived}
	}
	return cs, nil
}

func contentAnswersToWire(as []ContentAnswer) *pb.ContentsResponse {
	w := &pb.ContentsResponse{Answers: make([]*pb.ContentAnswer, len(as))}
	for i, a := range as {
		w.Answers[i] = &pb.ContentAnswer{Claimed: a.Claimed}
		if a.First.URL != "" {
			w.Answers[i].First = contentPageToWire(a.First)
		}
	}
	return w
}

// contentAnswersFromWire reads the answers to a number of questions.
func contentAnswersFromWire(w *pb.ContentsResponse, asked int) ([]ContentAnswer, error) {
	if len(w.Answers) != asked {
		return nil, malformed("%d answers to %d contents", len(w.Answers), asked)
	}
	as := make([]ContentAnswer, asked)
	for i, a := range w.Answers {
		first, err := contentPageFromWire(a.GetFirst())
		if err == nil && a.GetClaimed() && first.URL != "" {
			err = malformed("answer %d: a page that is claimed", i)
		}
		if err != nil {
			return nil, err
		}
		as[i] = ContentAnswer{First: first, Claimed: a.GetClaimed()}
	}
	return as, nil
}

func contentPageToWire(p ContentPage) *pb.ContentPage {
	if p.URL == "" {
		return &pb.ContentPage{}
	}
	w := &pb.ContentPage{Url: p.URL, DateMs: uint64(p.Date.UnixMilli())}
	if p.Stored != [digestLen]byte{} {
		w.Stored = p.Stored[:]
	}
	return w
}

// contentPageFromWire accepts only canonical URLs, because the URL is written into records and
// logs.
func contentPageFromWire(w *pb.ContentPage) (p ContentPage, err error) {
	switch url := w.GetUrl(); {
	case len(url) > MaxContentURL:
		return p, malformed("URL of %d octets", len(url))
	case w.GetDateMs() > maxMillis:
		return p, malformed("date %d ms", w.GetDateMs())
	case url == "" && (w.GetDateMs() != 0 || len(w.GetStored()) > 0):
		return p, malformed("date or digest of no page")
	case len(w.GetStored()) > 0 && len(w.GetStored()) != digestLen:
		return p, malformed("digest of %d octets", len(w.GetStored()))
	case url == "":
		return p, nil
	default:
		if u, err := weburl.Parse(url); err != nil || u.String() != url {
			return p, malformed("URL %.64q", url)
		}
		copy(p.Stored[:], w.GetStored())
		p.URL, p.Date = url, time.UnixMilli(int64(w.DateMs)).UTC()
		return p, nil
	}
}
