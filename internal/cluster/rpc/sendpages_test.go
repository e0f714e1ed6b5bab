package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// pageLink returns the encoding of a page's link.
func pageLink(url string) []byte {
	l := link.Link{URL: weburl.MustParse(url)}
	l.SetDestination(link.Destination{Category: 3, Hash: 7})
	return l.AppendTo(nil)
}

func pageOf(url string, records []byte) rpc.SentPage {
	return rpc.SentPage{Link: pageLink(url), Size: int64(len(records)),
		Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(records)), nil }}
}

// A stored page is what a receiver has read.
type stored struct {
	url     string
	records []byte
}

// keeps returns a handler that reads at most that many octets of each page.
func keeps(pages *[]stored, most int64) rpc.Handlers {
	return rpc.Handlers{Pages: func(_ context.Context, _ rpc.Caller, r *rpc.PageReader) error {
		*pages = nil
		for {
			link, err := r.Next()
			if err == io.EOF {
				return nil
			}
			if err != nil {
				return err
			}
			b, err := io.ReadAll(io.LimitReader(r, most))
			if *pages = append(*pages, stored{link.URL.String(), b}); err != nil {
				return err
			}
		}
	}}
}

// TestPages: pages of any size arrive in order and unchanged, also if the receiver reads only a part of one.
func TestPages(t *testing.T) {
	large := bytes.Repeat([]byte("0123456789abcdef"), 100_000)
	var pages []stored
	keys := bundles(t, "a1", "a2")
	l, s := serve(t, keys["a1"], keeps(&pages, 1<<20))
	p := client(t, keys["a2"], caller("a2"), nil).Peer("a1", l.Addr())
	sent := []rpc.SentPage{pageOf("http://a.example/", []byte("one")), pageOf("http://a.example/large", large),
		pageOf("http://b.example/", []byte("three"))}
	if err := p.Pages(t.Context(), sent); err != nil || s.Counts().Calls["Pages"] != 1 {
		t.Fatalf("%v, counts %v", err, s.Counts().Calls)
	}
	want := []stored{{"http://a.example/", []byte("one")}, {"http://a.example/large", large[:1<<20]},
		{"http://b.example/", []byte("three")}}
	if len(pages) != len(want) {
		t.Fatalf("%d pages, want %d", len(pages), len(want))
	}
	for i := range want {
		if pages[i].url != want[i].url || !bytes.Equal(pages[i].records, want[i].records) {
			t.Errorf("page %d: %q with %d octets, want %q with %d", i, pages[i].url, len(pages[i].records), want[i].url,
				len(want[i].records))
		}
	}
}

// TestPagesRefused: the receiver's reason reaches the sender, also if it stops reading, and so does a file that the
// sender cannot read.
func TestPagesRefused(t *testing.T) {
	l, s := serve(t, nil, rpc.Handlers{Pages: func(_ context.Context, _ rpc.Caller, r *rpc.PageReader) error {
		if _, err := r.Next(); err != nil {
			return err
		}
		return rpc.ErrAgain
	}})
	large := make([]byte, 8<<20)
	gone := errors.New("the file is gone")
	bad, short, noPlace := pageOf("http://a.example/", large), pageOf("http://a.example/", []byte("short")),
		pageOf("http://a.example/", []byte("x"))
	bad.Open = func() (io.ReadCloser, error) { return nil, gone }
	short.Size = 100
	noPlace.Link = link.Link{URL: weburl.MustParse("http://a.example/")}.AppendTo(nil)
	p := peer(t, "a2", l)
	for _, c := range []struct {
		page rpc.SentPage
		want error
	}{{pageOf("http://a.example/", large), rpc.ErrAgain}, {bad, gone}, {short, io.ErrUnexpectedEOF},
		{noPlace, rpc.ErrRejected}} {
		if err := p.Pages(t.Context(), []rpc.SentPage{c.page}); !errors.Is(err, c.want) {
			t.Errorf("%v, want %v", err, c.want)
		}
	}
	if n := s.Counts().Refused["malformed"]; n != 1 {
		t.Errorf("%d malformed messages counted, want 1", n)
	}
}

// stream sends messages of a call Pages, which no Client sends.
func stream(t *testing.T, p *rpc.Peer, ms ...*pb.PagesRequest) error {
	t.Helper()
	calls := connect.NewClient[pb.PagesRequest, pb.PagesResponse](p,
		"http://agent/orbweaver.exchange.v1.Exchange/Pages")
	stream, err := calls.CallClientStreamSimple(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range ms {
		if stream.Send(m) != nil {
			break // the receiver has answered
		}
	}
	_, err = stream.CloseAndReceive()
	return err
}

// TestHostilePages: hostile sequences of messages are refused, and counted.
func TestHostilePages(t *testing.T) {
	link := pageLink("http://a.example/")
	part := func(n int) *pb.PagesRequest { return &pb.PagesRequest{Records: make([]byte, n)} }
	begin := func(size uint64, n int) *pb.PagesRequest {
		return &pb.PagesRequest{Link: link, Size: size, Records: make([]byte, n)}
	}
	var pages []stored
	l, s := serve(t, nil, keeps(&pages, 2))
	p := peer(t, "a2", l)
	if err := stream(t, p, begin(3, 1), part(2), begin(1, 1)); err != nil || len(pages) != 2 {
		t.Errorf("two pages: %v, %d arrive", err, len(pages))
	}
	for name, ms := range map[string][]*pb.PagesRequest{
		"no link":             {part(3)},
		"two links":           {{Link: append(link[:len(link):len(link)], link...), Size: 1, Records: []byte("x")}},
		"no size":             {begin(0, 1)},
		"too large":           {begin(1<<40+1, 1)},
		"more than its size":  {begin(3, 4)},
		"more than its size ": {begin(5, 3), part(3)},
		"an empty part":       {begin(5, 3), part(0)},
		"ends early":          {begin(5, 3)},
		"begins early":        {begin(5, 3), begin(5, 3)},
	} {
		before := s.Counts().Refused["malformed"]
		err := stream(t, p, ms...)
		if n := s.Counts().Refused["malformed"] - before; connect.CodeOf(err) != connect.CodeInvalidArgument || n != 1 {
			t.Errorf("%s: %v, %d counted as malformed", name, err, n)
		}
	}
}

// FuzzPages: a stream of any messages ends, and no page has more octets than it says.
func FuzzPages(f *testing.F) {
	one := &pb.PagesRequest{Link: pageLink("http://a.example/"), Size: 2, Records: []byte("ab")}
	first := encoded(f, one)
	f.Add(first, first)
	f.Add(first[:len(first)-1], first)
	f.Add(encoded(f, &pb.PagesRequest{Link: one.Link, Size: 4, Records: []byte("ab")}),
		encoded(f, &pb.PagesRequest{Records: []byte("ab")}))
	var pages []stored
	l, _ := serve(f, nil, keeps(&pages, 1<<40))
	p := peer(f, "a2", l)
	f.Fuzz(func(t *testing.T, a, b []byte) {
		ms := []*pb.PagesRequest{{}, {}}
		if proto.Unmarshal(a, ms[0]) != nil || proto.Unmarshal(b, ms[1]) != nil {
			return
		}
		pages = nil
		err := stream(t, p, ms...)
		var sizes []uint64
		for _, m := range ms {
			if len(m.Link) > 0 {
				sizes = append(sizes, m.Size)
			}
		}
		for i, page := range pages {
			if n := uint64(len(page.records)); n > sizes[i] || n < sizes[i] && (err == nil || i+1 < len(pages)) {
				t.Fatalf("%d octets of page %d of %d, %v", n, i, sizes[i], err)
			}
		}
	})
}
