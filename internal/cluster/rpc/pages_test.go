package rpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// pageLink returns the encoding of a page's link.
func pageLink(url string) []byte {
	l := weburl.Link{URL: weburl.MustParse(url)}
	l.SetDestination(weburl.Destination{Category: 3, Hash: 7})
	return l.AppendTo(nil)
}

func pageOf(url string, records []byte) Page {
	return Page{Link: pageLink(url), Size: int64(len(records)),
		Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(records)), nil }}
}

// TestPages: pages of any size arrive in order and unchanged, also if the receiver reads only a part of one.
func TestPages(t *testing.T) {
	large := bytes.Repeat([]byte("0123456789abcdef"), 100_000)
	type got struct {
		url     string
		records []byte
	}
	var pages []got
	keys := bundles(t, "a1", "a2")
	l, _ := serve(t, keys["a1"], Handlers{Pages: func(_ context.Context, from Caller, r *PageReader) error {
		for {
			link, err := r.Next()
			if err == io.EOF {
				return nil
			}
			if err != nil {
				return err
			}
			b, err := io.ReadAll(io.LimitReader(r, 1<<20))
			if err != nil {
				return err
			}
			pages = append(pages, got{link.URL.String(), b})
		}
	}})
	p := client(t, keys["a2"], caller("a2"), nil).Peer("a1", l.Addr())
	sent := []Page{pageOf("http://a.example/", []byte("one")), pageOf("http://a.example/large", large),
		pageOf("http://b.example/", []byte("three"))}
	if err := p.Pages(t.Context(), sent); err != nil {
		t.Fatal(err)
	}
	want := []got{{"http://a.example/", []byte("one")}, {"http://a.example/large", large[:1<<20]},
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
	keys := bundles(t, "a1", "a2")
	l, s := serve(t, keys["a1"], Handlers{Pages: func(_ context.Context, _ Caller, r *PageReader) error {
		if _, err := r.Next(); err != nil {
			return err
		}
		return ErrAgain
	}})
	p := client(t, keys["a2"], caller("a2"), nil).Peer("a1", l.Addr())
	large := make([]byte, 8<<20)
	if err := p.Pages(t.Context(), []Page{pageOf("http://a.example/", large)}); !errors.Is(err, ErrAgain) {
		t.Errorf("%v, want %v", err, ErrAgain)
	}
	gone := errors.New("the file is gone")
	bad := pageOf("http://a.example/", large)
	bad.Open = func() (io.ReadCloser, error) { return nil, gone }
	if err := p.Pages(t.Context(), []Page{bad}); !errors.Is(err, gone) {
		t.Errorf("%v, want %v", err, gone)
	}
	short := pageOf("http://a.example/", []byte("short"))
	short.Size = 100
	if err := p.Pages(t.Context(), []Page{short}); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%v, want %v", err, io.ErrUnexpectedEOF)
	}
	noPlace := Page{Link: weburl.Link{URL: weburl.MustParse("http://a.example/")}.AppendTo(nil), Size: 1,
		Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader([]byte("x"))), nil }}
	if err := p.Pages(t.Context(), []Page{noPlace}); !errors.Is(err, ErrRejected) {
		t.Errorf("%v, want %v", err, ErrRejected)
	}
	if n := s.Counts().Refused["malformed"]; n != 1 {
		t.Errorf("%d malformed messages counted, want 1", n)
	}
}

// TestPageReader reads hostile sequences of messages.
func TestPageReader(t *testing.T) {
	link := pageLink("http://a.example/")
	part := func(n int) *pb.PagesRequest { return &pb.PagesRequest{Records: make([]byte, n)} }
	begin := func(size uint64, n int) *pb.PagesRequest {
		return &pb.PagesRequest{Link: link, Size: size, Records: make([]byte, n)}
	}
	for name, ms := range map[string][]*pb.PagesRequest{
		"no link":             {part(3)},
		"two links":           {{Link: append(link[:len(link):len(link)], link...), Size: 1, Records: []byte("x")}},
		"no size":             {begin(0, 1)},
		"too large":           {begin(maxPage+1, 1)},
		"more than its size":  {begin(3, 4)},
		"more than its size ": {begin(5, 3), part(3)},
		"an empty part":       {begin(5, 3), part(0)},
		"ends early":          {begin(5, 3)},
		"begins early":        {begin(5, 3), begin(5, 3)},
	} {
		r := &PageReader{receive: func() (*pb.PagesRequest, error) {
			if len(ms) == 0 {
				return nil, io.EOF
			}
			m := ms[0]
			ms = ms[1:]
			return m, nil
		}}
		var err error
		for err == nil {
			_, err = r.Next()
		}
		if !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v, want %v", name, err, ErrMalformed)
		}
	}
}

// FuzzPages: a stream of any messages ends, and no page has more octets than it says.
func FuzzPages(f *testing.F) {
	one, err := proto.Marshal(&pb.PagesRequest{Link: pageLink("http://a.example/"), Size: 2, Records: []byte("ab")})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(one, one)
	f.Add(one[:len(one)-1], one)
	f.Fuzz(func(t *testing.T, a, b []byte) {
		ms := [][]byte{a, b}
		r := &PageReader{receive: func() (*pb.PagesRequest, error) {
			if len(ms) == 0 {
				return nil, io.EOF
			}
			m := new(pb.PagesRequest)
			if err := proto.Unmarshal(ms[0], m); err != nil {
				return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
			}
			ms = ms[1:]
			return m, nil
		}}
		deadline := time.Now().Add(time.Minute)
		for time.Now().Before(deadline) {
			if _, err := r.Next(); err != nil {
				return
			}
			size := r.left + int64(len(r.chunk))
			if n, _ := io.Copy(io.Discard, r); n > size {
				t.Fatalf("%d octets of a page of %d", n, size)
			}
		}
		t.Fatal("the stream does not end")
	})
}
