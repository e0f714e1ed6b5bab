package boundary

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A taken page is what a receiver has read.
type taken struct {
	url     string
	records []byte
}

// A taker reads at most that many octets of each page.
type taker struct {
	most    int64
	pages   []taken
	err     error // of each page
	durable func() error
}

func (k *taker) TakePage(_ context.Context, _ string, page link.Link, records io.Reader) (func() error, error) {
	if k.err != nil {
		return nil, k.err
	}
	b, err := io.ReadAll(io.LimitReader(records, k.most))
	k.pages = append(k.pages, taken{page.URL.String(), b})
	return k.durable, err
}

// serve runs an agent that takes pages. call calls it with a client of its own, because calls of one client to an agent
// that fails wait.
func serve(t testing.TB, k *taker) (call func(func(*rpc.Peer) error) error, s *rpc.Server) {
	t.Helper()
	if k.durable == nil {
		k.durable = func() error { return nil }
	}
	l := must.Get(rpc.Listen(rpc.System, "127.0.0.1:0", nil))(t)
	crawl := rpc.ID{1}
	s = rpc.NewServer(l, rpc.ServerConfig{Crawl: func() rpc.ID { return crawl },
		Admitted: func(rpc.Caller) bool { return true }, MemoryBytes: 1})
	Serve(s, k)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
		l.Close()
	})
	return func(ask func(*rpc.Peer) error) error {
		c := rpc.NewClient(rpc.ClientConfig{Seed: 1,
			Self: func() rpc.Caller { return rpc.Caller{Name: "a2", Boot: 1, Crawl: crawl} }})
		defer c.Close()
		return ask(c.Peer("a1", l.Addr()))
	}, s
}

// pageLink returns the link of a page that is stored at a place.
func pageLink(url string, at link.Stored) link.Link {
	l := link.Link{URL: weburl.MustParse(url)}
	l.SetDestination(link.Destination{Category: 3, Hash: 7})
	l.SetStored(at)
	return l
}

// storing returns a Store with a file of these octets, and the place of a part of it.
func storing(t *testing.T, octets []byte) (s *Store, at func(from, to int64) link.Stored) {
	t.Helper()
	const name = "boundary-1.warc.gz"
	mem := testdisk.NewMem()
	s = open(t, mem)
	must.Do(t, disk.WriteFile(mem, "/boundary/archive/"+name, octets))
	return s, func(from, to int64) link.Stored { return link.Stored{File: name, From: from, To: to} }
}

// TestPages: pages of any size arrive in order and unchanged, also if the receiver reads only a part of one.
func TestPages(t *testing.T) {
	octets := bytes.Repeat([]byte("0123456789abcdef"), 100_000)
	s, at := storing(t, octets)
	k := &taker{most: 1 << 20}
	call, server := serve(t, k)
	sent := func(pages ...link.Link) error {
		return call(func(p *rpc.Peer) error { return send(t.Context(), p, s, pages) })
	}
	pages := []link.Link{pageLink("http://a.example/", at(7, 10)), pageLink("http://a.example/large", at(0, 1_600_000)),
		pageLink("http://b.example/", at(1_599_999, 1_600_000))}
	if err := sent(pages...); err != nil || server.Counts().Calls["Pages"] != 1 {
		t.Fatalf("%v, counts %v", err, server.Counts().Calls)
	}
	want := []taken{{"http://a.example/", []byte("789")}, {"http://a.example/large", octets[:1<<20]},
		{"http://b.example/", []byte("f")}}
	same := func(a, b taken) bool { return a.url == b.url && bytes.Equal(a.records, b.records) }
	if !slices.EqualFunc(k.pages, want, same) {
		t.Errorf("%.100q arrive, want %.100q", k.pages, want)
	}
}

// TestPagesRefused: the receiver's reason reaches the sender, also if it stops reading, and so does a file that the
// sender cannot read.
func TestPagesRefused(t *testing.T) {
	s, at := storing(t, make([]byte, 8<<20))
	k := &taker{most: 1 << 40}
	call, server := serve(t, k)
	sent := func(pages ...link.Link) error {
		return call(func(p *rpc.Peer) error { return send(t.Context(), p, s, pages) })
	}
	large := pageLink("http://a.example/", at(0, 8<<20))
	noPlace := link.Link{URL: large.URL}
	noPlace.SetStored(at(0, 1))
	lost := errors.New("the disk is on fire")
	for _, c := range []struct {
		page          link.Link
		take, durable error
		want          error
	}{
		{large, ErrNotKeeper, nil, rpc.ErrAgain},
		{large, crawl.ErrNotRunning, nil, rpc.ErrAgain},
		{large, nil, crawl.ErrNotRunning, rpc.ErrAgain},
		{large, crawl.ErrImport, nil, rpc.ErrRejected},
		{pageLink("http://a.example/", link.Stored{File: "gone.warc.gz", To: 1}), nil, nil, fs.ErrNotExist},
		{pageLink("http://a.example/", at(8<<20-5, 8<<20+5)), nil, nil, io.ErrUnexpectedEOF},
		{noPlace, nil, nil, rpc.ErrRejected},
		{large, nil, nil, nil},
	} {
		k.err, k.durable = c.take, func() error { return c.durable }
		if err := sent(c.page); !errors.Is(err, c.want) {
			t.Errorf("%v, want %v", err, c.want)
		}
	}
	k.err = lost
	if err := sent(large); err == nil || errors.Is(err, rpc.ErrRejected) ||
		errors.Is(err, rpc.ErrAgain) {
		t.Errorf("a failure of the receiver: %v", err)
	}
	if n := server.Counts().Refused["malformed"]; n != 2 {
		t.Errorf("%d malformed messages counted, want 2", n)
	}
}

// stream returns a call with messages that no sender sends.
func stream(ctx context.Context, ms ...*pb.PagesRequest) func(*rpc.Peer) error {
	return func(p *rpc.Peer) error {
		return Call.Ask(ctx, p, func(send func(*pb.PagesRequest) error) error {
			for _, m := range ms {
				if err := send(m); err != nil {
					return err
				}
			}
			return nil
		}, func(*pb.PagesResponse) error { return nil })
	}
}

// TestHostilePages: hostile sequences of messages are refused, and counted.
func TestHostilePages(t *testing.T) {
	link := pageLink("http://a.example/", link.Stored{}).WithoutStored().AppendTo(nil)
	part := func(n int) *pb.PagesRequest { return &pb.PagesRequest{Records: make([]byte, n)} }
	begin := func(size uint64, n int) *pb.PagesRequest {
		return &pb.PagesRequest{Link: link, Size: size, Records: make([]byte, n)}
	}
	k := &taker{most: 2}
	call, s := serve(t, k)
	if err := call(stream(t.Context(), begin(3, 1), part(2), begin(1, 1))); err != nil || len(k.pages) != 2 {
		t.Errorf("two pages: %v, %d arrive", err, len(k.pages))
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
		err := call(stream(t.Context(), ms...))
		if n := s.Counts().Refused["malformed"] - before; !errors.Is(err, rpc.ErrRejected) || n != 1 {
			t.Errorf("%s: %v, %d counted as malformed", name, err, n)
		}
	}
}

// FuzzPages: a stream of any messages ends, and no page has more octets than it says.
func FuzzPages(f *testing.F) {
	encoded := func(m *pb.PagesRequest) []byte {
		b := must.Get(proto.Marshal(m))(f)
		return b
	}
	one := &pb.PagesRequest{Link: pageLink("http://a.example/", link.Stored{}).WithoutStored().AppendTo(nil), Size: 2,
		Records: []byte("ab")}
	first := encoded(one)
	f.Add(first, first)
	f.Add(first[:len(first)-1], first)
	f.Add(encoded(&pb.PagesRequest{Link: one.Link, Size: 4, Records: []byte("ab")}),
		encoded(&pb.PagesRequest{Records: []byte("ab")}))
	k := &taker{most: 1 << 40}
	call, _ := serve(f, k)
	f.Fuzz(func(t *testing.T, a, b []byte) {
		ms := []*pb.PagesRequest{{}, {}}
		if proto.Unmarshal(a, ms[0]) != nil || proto.Unmarshal(b, ms[1]) != nil {
			return
		}
		k.pages = nil
		err := call(stream(t.Context(), ms...))
		var sizes []uint64
		for _, m := range ms {
			if len(m.Link) > 0 {
				sizes = append(sizes, m.Size)
			}
		}
		for i, page := range k.pages {
			if n := uint64(len(page.records)); n > sizes[i] || n < sizes[i] && (err == nil || i+1 < len(k.pages)) {
				t.Fatalf("%d octets of page %d of %d, %v", n, i, sizes[i], err)
			}
		}
	})
}
