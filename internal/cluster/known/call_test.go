package known

import (
	"bytes"
	"errors"
	"testing"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// TestHostile: questions and answers beyond their bounds are refused, and those at their bounds are not.
func TestHostile(t *testing.T) {
	for n, want := range map[int]error{6: nil, 6 * 10_000: nil, 0: rpc.ErrMalformed, 5: rpc.ErrMalformed,
		9: rpc.ErrMalformed, 6*10_000 + 1: rpc.ErrMalformed, 6 * 10_001: rpc.ErrTooLarge} {
		if err := Call.Request(&pb.KnownRequest{Fingerprints: make([]byte, n)}); !errors.Is(err, want) {
			t.Errorf("%d octets: %v, want %v", n, err, want)
		}
	}
	for _, c := range []struct {
		n     int
		known string
		want  error
	}{
		{1, "\x01", nil}, {8, "\xff", nil}, {9, "\xff\x01", nil},
		{1, "", rpc.ErrMalformed}, {1, "\x02", rpc.ErrMalformed},
		{8, "\x00\x00", rpc.ErrMalformed}, {9, "\x00", rpc.ErrMalformed}, {9, "\x00\x02", rpc.ErrMalformed},
	} {
		q := Request(make([]uint64, c.n)...)
		if err := Call.Response(q, &pb.KnownResponse{Known: []byte(c.known)}); !errors.Is(err, c.want) {
			t.Errorf("%q to %d questions: %v, want %v", c.known, c.n, err, c.want)
		}
	}
}

// TestAnswer: the answer has the bit of each fingerprint that the agent has, and no other.
func TestAnswer(t *testing.T) {
	d := New(crawl{1})
	keys, fs := make([]link.Key, 9), make([]uint64, 9)
	for i := range keys {
		keys[i] = link.Key{Host: uint64(i), Path: 1 << i}
		fs[i] = d.Fingerprint(keys[i])
	}
	for _, i := range []int{1, 2, 7, 8} {
		d.Add(keys[i], d.Now())
	}
	r, err := d.Answer(t.Context(), rpc.Caller{}, Request(fs...))
	if err != nil || !bytes.Equal(r.Known, []byte{0b1000_0110, 1}) {
		t.Errorf("%b, %v", r.GetKnown(), err)
	}
	want := []byte{0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0, 0, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	if got := Request(0x123456789abc, 1, 1<<48-1).Fingerprints; !bytes.Equal(got, want) {
		t.Errorf("on the wire %x, want %x", got, want)
	}
}

// FuzzKnown: any question that is let through has a right answer, and any answer that is let through has one bit for
// each fingerprint at most.
func FuzzKnown(f *testing.F) {
	f.Add(Request(1, 2, 1<<48-1).Fingerprints, []byte{5})
	d := New(crawl{1})
	f.Fuzz(func(t *testing.T, fingerprints, known []byte) {
		q, r := &pb.KnownRequest{Fingerprints: fingerprints}, &pb.KnownResponse{Known: known}
		if Call.Request(q) != nil {
			return
		}
		n := len(fingerprints) / 6
		if n == 0 || n > 10_000 || len(fingerprints)%6 != 0 {
			t.Fatalf("%d octets are let through", len(fingerprints))
		}
		if a, err := d.Answer(t.Context(), rpc.Caller{}, q); err != nil || Call.Response(q, a) != nil {
			t.Fatalf("%x is answered with %v, %v", fingerprints, a, err)
		}
		if Call.Response(q, r) == nil && (len(known) != (n+7)/8 || n%8 > 0 && known[n/8] >= 1<<(n%8)) {
			t.Fatalf("%x is let through for %d fingerprints", known, n)
		}
	})
}
