package contents_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/orbweaver/orbweaver/internal/cluster/contents"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// mostMillis is the last date that a page may have.
const mostMillis = 253402300799999

func ask(cs ...*pb.Content) *pb.ContentsRequest { return &pb.ContentsRequest{Contents: cs} }

func content(digest int, p *pb.ContentPage) *pb.Content {
	return &pb.Content{Digest: make([]byte, digest), Page: p}
}

func page(url string) *pb.ContentPage { return &pb.ContentPage{Url: url} }

// TestHostile: questions and answers beyond their bounds are refused, and those at their bounds are not.
func TestHostile(t *testing.T) {
	const url = "http://a.example/"
	long := url + strings.Repeat("a", contents.MaxURL-len(url))
	one, two := content(20, page(url)), ask(content(20, page(url)), content(20, page(url)))
	answer := func(as ...*pb.ContentAnswer) *pb.ContentsResponse { return &pb.ContentsResponse{Answers: as} }
	for want, qs := range map[error][]*pb.ContentsRequest{
		nil: {ask(one), ask(slices.Repeat([]*pb.Content{one}, 128)...), ask(content(20, page(long))),
			ask(content(20, &pb.ContentPage{Url: url, DateMs: mostMillis, Stored: make([]byte, 20)}))},
		rpc.ErrMalformed: {ask(), ask(nil), ask(one, nil), ask(content(10, page(url))), ask(content(0, page(url))),
			ask(content(20, nil)), ask(content(20, page(""))), ask(content(20, page(long+"a"))),
			ask(content(20, page("http://a.example/\r\nWARC-Type: x"))), ask(content(20, page("HTTP://a.example/"))),
			ask(content(20, &pb.ContentPage{Url: url, DateMs: mostMillis + 1})),
			ask(content(20, &pb.ContentPage{Url: url, Stored: make([]byte, 10)})),
			ask(content(20, &pb.ContentPage{Stored: make([]byte, 20)}))},
		rpc.ErrTooLarge: {ask(slices.Repeat([]*pb.Content{one}, 129)...)},
	} {
		for _, q := range qs {
			if err := contents.Call.Request(q); !errors.Is(err, want) {
				t.Errorf("%v: %v, want %v", q, err, want)
			}
		}
	}
	for want, rs := range map[error][]*pb.ContentsResponse{
		nil: {answer(nil, nil), answer(&pb.ContentAnswer{Claimed: true}, &pb.ContentAnswer{First: page(url)}),
			answer(&pb.ContentAnswer{First: page("")}, nil)},
		rpc.ErrMalformed: {answer(), answer(nil), answer(nil, nil, nil),
			answer(nil, &pb.ContentAnswer{Claimed: true, First: page(url)}),
			answer(nil, &pb.ContentAnswer{First: page("a.example")}),
			answer(nil, &pb.ContentAnswer{First: &pb.ContentPage{DateMs: 1}})},
	} {
		for _, r := range rs {
			if err := contents.Call.Response(two, r); !errors.Is(err, want) {
				t.Errorf("%v: %v, want %v", r, err, want)
			}
		}
	}
}

// FuzzRequest: an agent refuses any request, or its pages are within their bounds and it answers each of them.
func FuzzRequest(f *testing.F) {
	for _, q := range []*pb.ContentsRequest{ask(), ask(content(20, page("http://a.example/"))),
		ask(&pb.Content{Digest: make([]byte, 20), Page: page("http://b.example/?q"), Archived: true},
			content(20, &pb.ContentPage{Url: "http://c.example/", DateMs: 1700000000123, Stored: make([]byte, 20)}))} {
		f.Add(encoded(f, q))
	}
	var running sync.WaitGroup
	ctx, stop := context.WithCancel(f.Context())
	mem := testdisk.NewMem()
	must.Do(f, errors.Join(mem.MkdirAll("/state", 0o755), mem.SyncDir("/")))
	table := must.Get(contents.Open(mem, "/state/contents", contents.Config{}))(f)
	k := contents.NewService(contents.Parts{Running: &running}, table)
	k.Begin(ctx)
	f.Cleanup(func() {
		stop()
		running.Wait()
		table.Close()
	})
	f.Fuzz(func(t *testing.T, b []byte) {
		var q pb.ContentsRequest
		if proto.Unmarshal(b, &q) != nil || contents.Call.Request(&q) != nil {
			return
		}
		if len(q.Contents) == 0 || len(q.Contents) > 128 ||
			slices.ContainsFunc(q.Contents, func(c *pb.Content) bool { return !isPage(c.Page) }) {
			t.Fatalf("%v", &q)
		}
		r, err := k.Answer(t.Context(), rpc.Caller{}, &q)
		if err == nil {
			err = contents.Call.Response(&q, r)
		}
		if err != nil {
			t.Fatalf("%v is answered with %v, %v", &q, r, err)
		}
	})
}

// FuzzResponse: an agent refuses any answer, or the page in it is within its bounds.
func FuzzResponse(f *testing.F) {
	f.Add(encoded(f, &pb.ContentsResponse{Answers: []*pb.ContentAnswer{{Claimed: true}}}))
	f.Add(encoded(f, &pb.ContentsResponse{Answers: []*pb.ContentAnswer{{First: page("http://a.example/")}}}))
	q := ask(content(20, page("http://a.example/")))
	f.Fuzz(func(t *testing.T, b []byte) {
		var r pb.ContentsResponse
		if proto.Unmarshal(b, &r) != nil || contents.Call.Response(q, &r) != nil {
			return
		}
		if len(r.Answers) != 1 {
			t.Fatalf("%v", &r)
		}
		if first := r.Answers[0].GetFirst(); first.GetUrl() != "" && (!isPage(first) || r.Answers[0].Claimed) {
			t.Fatalf("%v", &r)
		}
	})
}

// isPage reports whether the fields of a page are within their bounds.
func isPage(p *pb.ContentPage) bool {
	u, err := weburl.Parse(p.GetUrl())
	return err == nil && u.String() == p.Url && len(p.Url) <= contents.MaxURL && p.DateMs <= mostMillis &&
		(len(p.Stored) == 0 || len(p.Stored) == 20)
}

func encoded(t testing.TB, m proto.Message) []byte {
	t.Helper()
	b := must.Get(proto.Marshal(m))(t)
	return b
}
