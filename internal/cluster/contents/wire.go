package contents

import (
	"fmt"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// maxQuestions bounds the questions in one call.
const maxQuestions = 128

// Call asks the second agent of contents which pages have them. There is an answer to each question, in their order.
var Call = rpc.Method[pb.ContentsRequest, pb.ContentsResponse]{Call: rpc.CallContents, Request: checkQuestions,
	Response: checkAnswers}

func checkQuestions(q *pb.ContentsRequest) error {
	if len(q.Contents) == 0 {
		return rpc.Malformedf("no contents")
	}
	if len(q.Contents) > maxQuestions {
		return fmt.Errorf("%w: %d contents", rpc.ErrTooLarge, len(q.Contents))
	}
	for i, c := range q.Contents {
		if len(c.GetDigest()) != len(Digest{}) {
			return rpc.Malformedf("digest of %d octets", len(c.GetDigest()))
		}
		if err := checkPage(c.Page); err != nil {
			return err
		}
		if c.Page.GetUrl() == "" {
			return rpc.Malformedf("content %d of no page", i)
		}
	}
	return nil
}

func checkAnswers(q *pb.ContentsRequest, r *pb.ContentsResponse) error {
	if len(r.Answers) != len(q.Contents) {
		return rpc.Malformedf("%d answers to %d contents", len(r.Answers), len(q.Contents))
	}
	for i, a := range r.Answers {
		if err := checkPage(a.GetFirst()); err != nil {
			return err
		}
		if a.GetClaimed() && a.GetFirst().GetUrl() != "" {
			return rpc.Malformedf("answer %d: a page that is claimed", i)
		}
	}
	return nil
}

// checkPage accepts only canonical URLs, because the URL is written into records and logs. It also accepts no page.
func checkPage(p *pb.ContentPage) error {
	switch url := p.GetUrl(); {
	case len(url) > MaxURL:
		return rpc.Malformedf("URL of %d octets", len(url))
	case p.GetDateMs() > maxMillis:
		return rpc.Malformedf("date %d ms", p.GetDateMs())
	case url == "" && (p.GetDateMs() != 0 || len(p.GetStored()) > 0):
		return rpc.Malformedf("date or digest of no page")
	case len(p.GetStored()) > 0 && len(p.GetStored()) != len(Digest{}):
		return rpc.Malformedf("digest of %d octets", len(p.GetStored()))
	case url != "":
		if u, err := weburl.Parse(url); err != nil || u.String() != url {
			return rpc.Malformedf("URL %.64q", url)
		}
	}
	return nil
}

func request(qs []Question) *pb.ContentsRequest {
	w := &pb.ContentsRequest{Contents: make([]*pb.Content, len(qs))}
	for i := range qs {
		q := &qs[i]
		w.Contents[i] = &pb.Content{Digest: q.Digest[:], Page: pageMessage(&q.Page), Archived: q.Archived}
	}
	return w
}

// questions returns the questions of a message that is checked.
func questions(w *pb.ContentsRequest) []Question {
	qs := make([]Question, len(w.Contents))
	for i, c := range w.Contents {
		qs[i] = Question{Digest: Digest(c.Digest), Page: pageIn(c.Page), Archived: c.Archived}
	}
	return qs
}

func response(as []Answer) *pb.ContentsResponse {
	w := &pb.ContentsResponse{Answers: make([]*pb.ContentAnswer, len(as))}
	for i := range as {
		w.Answers[i] = &pb.ContentAnswer{Claimed: as[i].Claimed}
		if as[i].Page.URL != "" {
			w.Answers[i].First = pageMessage(&as[i].Page)
		}
	}
	return w
}

// answers returns the answers of a message that is checked.
func answers(w *pb.ContentsResponse) []Answer {
	as := make([]Answer, len(w.Answers))
	for i, a := range w.Answers {
		page, claimed := pageIn(a.GetFirst()), a.GetClaimed()
		as[i] = Answer{First: page.URL == "" && !claimed, Claimed: claimed, Page: page}
	}
	return as
}

func pageMessage(p *Original) *pb.ContentPage {
	w := &pb.ContentPage{Url: p.URL, DateMs: uint64(p.Date.UnixMilli())}
	if p.Stored != (Digest{}) {
		w.Stored = p.Stored[:]
	}
	return w
}

func pageIn(w *pb.ContentPage) (p Original) {
	if w.GetUrl() != "" {
		p = Original{URL: w.Url, Date: time.UnixMilli(int64(w.DateMs)).UTC()}
		copy(p.Stored[:], w.Stored)
	}
	return p
}
