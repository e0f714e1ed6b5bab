package spare

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// TestHostile: requests and answers beyond their bounds are refused, and those at their bounds are not.
func TestHostile(t *testing.T) {
	file := func(name string, size uint64, digest int) *pb.CopyFile {
		return &pb.CopyFile{Name: name, Size: size, Digest: make([]byte, digest)}
	}
	whole := file("a.warc.gz", maxFileSize, 32)
	instance, name := make([]byte, 16), string(make([]byte, MaxName))
	for want, qs := range map[error][]*pb.CopyRequest{
		nil: {{Kind: kindList}, {Kind: kindDrop}, {Kind: kindPart, File: whole},
			{Kind: kindPart, File: whole, Offset: maxFileSize - maxPart, Data: make([]byte, maxPart)},
			{Kind: kindPart, File: whole, Offset: maxFileSize}, {Kind: kindPart, File: file(name, 0, 32)},
			{Kind: kindPages, Agent: "a1", Instance: instance, Pages: make([]byte, 16*maxPages)}},
		rpc.ErrTooLarge: {{Kind: kindPart, File: whole, Data: make([]byte, maxPart+1)},
			{Kind: kindPages, Agent: "a1", Instance: instance, Pages: make([]byte, 16*(maxPages+1))}},
		rpc.ErrMalformed: {{}, {Kind: kindPages + 1}, {Kind: math.MaxUint32}, {Kind: kindList, Data: []byte("x")},
			{Kind: kindDrop, File: whole}, {Kind: kindList, Offset: 1}, {Kind: kindDrop, Agent: "a1"},
			{Kind: kindList, Instance: instance}, {Kind: kindPart, File: whole, Pages: make([]byte, 16)},
			{Kind: kindPart}, {Kind: kindPart, File: file("", 1, 32)}, {Kind: kindPart, File: file(name+"x", 1, 32)},
			{Kind: kindPart, File: file("a.warc.gz", maxFileSize+1, 32)}, {Kind: kindPart, File: file("a.warc.gz", 1,
				31)},
			{Kind: kindPart, File: file("a.warc.gz", 1, 32), Offset: 1, Data: []byte("x")},
			{Kind: kindPart, File: file("a.warc.gz", 1, 32), Offset: math.MaxUint64, Data: []byte("xx")},
			{Kind: kindPages, Agent: "../a1", Instance: instance, Pages: make([]byte, 16)},
			{Kind: kindPages, Agent: "a1", Instance: instance[:15], Pages: make([]byte, 16)},
			{Kind: kindPages, Agent: "a1", Instance: instance, Pages: make([]byte, 17)},
			{Kind: kindPages, Agent: "a1", Instance: instance}},
	} {
		for i, q := range qs {
			if err := Call.Request(q); !errors.Is(err, want) {
				t.Errorf("request %d: %v, want %v", i, err, want)
			}
		}
	}
	nine := &pb.CopyRequest{Kind: kindPages, Pages: make([]byte, 16*9)}
	files := slices.Repeat([]*pb.CopyFile{whole}, maxFiles)
	for want, rs := range map[error][]*pb.CopyResponse{
		nil: {{Known: []byte{255, 1}}, {Known: []byte{0, 0}, Files: files, Have: maxFileSize}},
		rpc.ErrMalformed: {{}, {Known: []byte{255}}, {Known: []byte{255, 2}}, {Known: []byte{0, 0, 0}},
			{Known: []byte{0, 0}, Files: append(files, whole)}, {Known: []byte{0, 0}, Have: maxFileSize + 1},
			{Known: []byte{0, 0}, Files: []*pb.CopyFile{{}}}},
	} {
		for i, r := range rs {
			if err := Call.Response(nine, r); !errors.Is(err, want) {
				t.Errorf("answer %d: %v, want %v", i, err, want)
			}
		}
	}
}

// TestPagesArrive: the keys of pages, and what is known of them, arrive as they are.
func TestPagesArrive(t *testing.T) {
	rng := testseed.Rand(t)
	for n := range 20 {
		var pages []link.Link
		var keys []link.Key
		known := make([]bool, n)
		for i := range n {
			u := weburl.MustParse("http://" + string(rune('a'+rng.IntN(26))) + ".example/" + string(rune('a'+i)))
			pages, keys, known[i] = append(pages, link.Link{URL: u}), append(keys, link.KeyOf(u)), rng.IntN(2) == 0
		}
		q, r := &pb.CopyRequest{Pages: pagesToWire(pages)}, &pb.CopyResponse{Known: knownToWire(known)}
		if got := pagesFromWire(q.Pages); !slices.Equal(got, keys) {
			t.Errorf("%d pages: keys %v, want %v", n, got, keys)
		}
		if err := Call.Response(q, r); err != nil {
			t.Errorf("%d pages: %v", n, err)
		}
		for i := range n {
			if got := isKnown(r, i); got != known[i] {
				t.Errorf("page %d of %d: %t", i, n, got)
			}
		}
	}
}
