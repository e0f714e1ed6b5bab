package state_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/RoaringBitmap/roaring/v2/roaring64"
	"github.com/google/go-cmp/cmp"

	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/store/keyset"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

func sampleFinish(t testing.TB) state.Finish {
	u := must.Get(weburl.Parse("http://a.example/x?y"))(t)
	return state.Finish{
		Link: link.Link{URL: u, Hops: "LLR", Seed: "a.example"}, Number: 1 << 50, Code: -61,
		Kind: "robots-unreachable", Cause: "robots.txt: connection refused", Mime: "text/html",
		Size: 1 << 40, Began: time.UnixMicro(1234567890123456).UTC(), Took: 1500 * time.Microsecond, Delay: time.Minute,
		Flags: state.FlagPage | state.FlagTruncated, Digest: [20]byte{1, 2, 3}, Body: [20]byte{4},
		File: "x.warc.gz", End: 77,
		Tries: 4, Found: 1000,
		Skips: []state.Skip{{Reason: "outOfScope", N: 7}, {Reason: "nofollow", N: 1}},
	}
}

func TestFinishRoundTrip(t *testing.T) {
	for _, f := range []state.Finish{sampleFinish(t), {Link: sampleFinish(t).Link, Began: time.UnixMicro(0).UTC()}} {
		enc := f.AppendTo(nil)
		got := must.Get(state.DecodeFinish(enc))(t)
		if diff := cmp.Diff(f, got, cmp.AllowUnexported(state.Finish{}, state.Skip{}, weburl.URL{})); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		for n := range enc {
			if _, err := state.DecodeFinish(enc[:n]); err == nil {
				t.Errorf("%d of %d bytes were taken for a finish", n, len(enc))
			}
		}
	}
}

// TestFlags checks the flags that two bits together stand for.
func TestFlags(t *testing.T) {
	for _, test := range []struct {
		flags                      byte
		earlier, truncated, shared bool
	}{
		{flags: state.FlagDuplicate}, {flags: state.FlagTruncated, truncated: true},
		{flags: state.FlagEarlier, earlier: true}, {flags: state.FlagEarlier | state.FlagPage, earlier: true},
		{flags: state.FlagShared, shared: true},
		{flags: state.FlagShared | state.FlagTruncated, shared: true, truncated: true},
		{flags: state.FlagUnkept | state.FlagTruncated, truncated: true},
	} {
		f := state.Finish{Flags: test.flags}
		if f.IsEarlier() != test.earlier || f.IsTruncated() != test.truncated || f.IsShared() != test.shared {
			t.Errorf("%+v: %t, %t, %t", test, f.IsEarlier(), f.IsTruncated(), f.IsShared())
		}
	}
}

func TestOriginalRoundTrip(t *testing.T) {
	for _, stored := range [][20]byte{{}, {0, 7, 0}} {
		want := warc.Original{URL: "http://a.example/", Date: time.UnixMilli(1234567890123).UTC(), ID: [16]byte{4, 5},
			Stored: stored}
		enc := state.AppendOriginal(nil, [20]byte{9}, want)
		digest, got, err := state.DecodeOriginal(enc)
		if err != nil || digest != [20]byte{9} || got != want {
			t.Errorf("%v %+v, %v", digest, got, err)
		}
	}
}

func TestVisitedRoundTrip(t *testing.T) {
	f := sampleFinish(t)
	f.State = []byte("state")
	got, err := state.DecodeFinish(f.AppendTo(nil))
	if err != nil || string(got.State) != "state" {
		t.Fatalf("%q, %v", got.State, err)
	}
	f.Link.Via = "http://b.example/"
	l, planned, err := state.DecodeVisited(state.AppendVisited(nil, f.Link, f.State))
	if err != nil || string(planned) != "state" || l.URL != f.Link.URL || l.Hops != f.Link.Hops ||
		l.Seed != f.Link.Seed || l.Via != "" {
		t.Errorf("%+v %q, %v", l, planned, err)
	}
	for _, bad := range []string{"", "\x00\x00\x00\x00\x00x", string(state.AppendVisited(nil, f.Link, nil))} {
		if _, _, err := state.DecodeVisited([]byte(bad)); err == nil {
			t.Errorf("%q was taken for a state", bad)
		}
	}
}

func TestSentRecord(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 1000 {
		var want []uint64
		for range rng.IntN(50) {
			want = append(want, 1+rng.Uint64N(state.MaxNumber))
		}
		returned := rng.IntN(2) == 1
		got, back, err := state.DecodeSent(nil, state.AppendSent(nil, want, returned), state.MaxNumber)
		if err != nil || back != returned || !slices.Equal(got, want) {
			t.Fatalf("%v %v came back as %v %v, %v", want, returned, got, back, err)
		}
	}
	if _, _, err := state.DecodeSent(nil, state.AppendSent(nil, []uint64{8}, false), 7); err == nil {
		t.Error("a number that no accept has is taken")
	}
}

// Any bytes are decoded as numbers of accepts, or refused.
func FuzzSentRecord(f *testing.F) {
	f.Add(state.AppendSent(nil, []uint64{1, 2, 3, 900, 5}, false))
	f.Add(state.AppendSent(nil, []uint64{7}, true))
	f.Add([]byte{2})
	f.Fuzz(func(t *testing.T, p []byte) {
		numbers, returned, err := state.DecodeSent(nil, p, 1000)
		if err != nil {
			return
		}
		for _, n := range numbers {
			if n == 0 || n > 1000 {
				t.Fatalf("number %d", n)
			}
		}
		again, back, err := state.DecodeSent(nil, state.AppendSent(nil, numbers, returned), 1000)
		if err != nil || back != returned || !slices.Equal(again, numbers) {
			t.Fatalf("%v came back as %v", numbers, again)
		}
		h := state.History{Last: 1000, Done: roaring64.New()}
		if n, _, err := h.CountEnded(p); err != nil || n != int64(len(numbers)) {
			t.Fatal(n, err)
		}
	})
}

func FuzzHeld(f *testing.F) {
	f.Add(state.AppendHeld(nil, nil))
	f.Add(state.AppendHeld(nil, []keyset.HeldFile{{Num: 1, End: 2, Items: 3}, {Num: 1 << 40, End: 1 << 50, Items: 7}}))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, p []byte) {
		files, mark, err := state.DecodeHeld(p)
		if err != nil || !mark {
			return
		}
		again, _, err := state.DecodeHeld(state.AppendHeld(nil, files))
		if err != nil || !slices.Equal(files, again) {
			t.Fatalf("%v became %v, %v", files, again, err)
		}
	})
}

func FuzzCrawl(f *testing.F) {
	f.Add(state.Crawl, state.AppendCrawl(nil, keyset.Crawl{1, 2, 3}))
	f.Add(state.Accept, []byte{state.Version})
	f.Fuzz(func(t *testing.T, kind byte, p []byte) {
		id, err := state.DecodeCrawl(kind, p)
		if err == nil && string(state.AppendCrawl(nil, id)) != string(p) {
			t.Fatalf("%x is %s", p, id)
		}
	})
}

// Pieces join to the original, and a damaged set of numbers is an error.
func TestDone(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	done := roaring64.New()
	for range 5000 {
		done.Add(rng.Uint64N(state.MaxNumber))
	}
	done.AddRange(0, 7)
	done.AddRange(1<<33, 1<<33+100_000)
	b := state.AppendRuns(nil, done)
	var s state.Pieces
	var whole []byte
	records := 0
	if err := state.PutPieces(state.Done, b, 1000, func(kind byte, p []byte) error {
		records++
		if len(p) > 1001 || kind != state.Done || whole != nil {
			t.Fatalf("piece of %d bytes, kind %c", len(p), kind)
		}
		var err error
		whole, err = s.Add(p)
		return err
	}); err != nil || records < 2 {
		t.Fatalf("%d pieces, %v", records, err)
	}
	got, err := state.DecodeRuns(whole, state.MaxNumber)
	if err != nil || !got.Equals(done) {
		t.Fatalf("got other numbers, %v", err)
	}
	if _, err := s.Add(nil); err == nil {
		t.Error("an empty piece is taken")
	}
	for _, b := range [][]byte{{1}, {0x80}, {0, 0x80}, binary.AppendUvarint([]byte{1}, 1<<41),
		binary.AppendUvarint(nil, 1<<63)} {
		if _, err := state.DecodeRuns(b, state.MaxNumber); err == nil {
			t.Errorf("%x is taken for a set", b)
		}
	}
	if b := state.AppendRuns(nil, roaring64.New()); len(b) != 0 {
		t.Errorf("no numbers are %x", b)
	}
}

func FuzzHistory(f *testing.F) {
	f.Add(append([]byte{0}, state.AppendRuns(nil, roaring64.BitmapOf(1, 2, 3, 1<<23))...),
		state.Label(state.Pending, 1, 300))
	f.Add([]byte{1, 2, 3}, []byte("P"))
	f.Fuzz(func(t *testing.T, p, b []byte) {
		h := state.History{Done: roaring64.New(), Last: 1 << 24}
		if err := h.Runs(0, p); err == nil && len(p) > 0 {
			again, err := state.DecodeRuns(state.AppendRuns(nil, h.Done), h.Last)
			if err != nil || !again.Equals(h.Done) {
				t.Errorf("%v became %v, %v", h.Done, again, err)
			}
		}
		_ = h.Number(0, p)
		_, _ = state.DecodeFinish(p)
		_, _, _ = state.SplitPending(p)
		if kind, first, last, err := state.ParseLabel(b); err == nil {
			if k, f, l, err := state.ParseLabel(state.Label(kind, first, last)); err != nil || k != kind ||
				f != first || l != last {
				t.Errorf("%c %d to %d became %c %d to %d, %v", kind, first, last, k, f, l, err)
			}
		}
	})
}

// allocated returns the bytes that f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// A checkpoint reads which URLs are finished. In breadth-first order they are short runs with gaps,
// and reading one run must not copy its neighbours.
func TestDecodeRunsCopiesNothing(t *testing.T) {
	const longRun = 1 << 12 // from which a run is added as a range
	for _, c := range []struct{ runs, length uint64 }{{10_000, 2}, {10_000, 1}, {50, longRun}, {50, 3 * longRun}} {
		t.Run(fmt.Sprintf("%d of %d", c.runs, c.length), func(t *testing.T) {
			want := roaring64.New()
			at := uint64(1)
			var short []uint64
			for range c.runs {
				for n := range c.length {
					short = append(short, at+n)
				}
				at += c.length + 2
			}
			want.AddMany(short)
			enc := state.AppendRuns(nil, want)
			var got *roaring64.Bitmap
			var err error
			const most = 2 << 20 // with ranges alone it is 9 MB and 18 MB for the first cases
			if n := allocated(func() { got, err = state.DecodeRuns(enc, at) }); n > most {
				t.Errorf("%d bytes allocated, want at most %d", n, most)
			}
			if err != nil || !got.Equals(want) {
				t.Errorf("error %v; %d numbers, want %d", err, got.GetCardinality(), want.GetCardinality())
			}
		})
	}
}

func TestSpan(t *testing.T) {
	began := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	now := began.Add(2 * time.Hour)
	b := state.AppendSpan(nil, began, time.Hour, now)
	started, took, written, err := state.DecodeSpan(b)
	if err != nil || !started.Equal(began) || took != time.Hour || !written.Equal(now) {
		t.Errorf("%v, %v, %v, %v; want %v, 1h, %v", started, took, written, err, began, now)
	}
	for _, bad := range [][]byte{nil, b[:1], append(b, 1)} {
		if _, _, _, err := state.DecodeSpan(bad); err == nil {
			t.Errorf("%x is decoded without an error", bad)
		}
	}
}

// Records come back from RAM, from a file, and from both, in their order.
func TestSpool(t *testing.T) {
	defer func(n int) { state.SpoolBytes = n }(state.SpoolBytes)
	state.SpoolBytes = 100
	for n := range 40 {
		fs := testdisk.NewMem()
		s := state.NewSpool(fs, "spool")
		var want []string
		for i := range n {
			p := strings.Repeat("x", i*i%50)
			want = append(want, fmt.Sprint(string(rune('A'+i%3)), 1<<i, p))
			must.Do(t, s.Add('A'+byte(i%3), 1<<i, []byte(p)))
		}
		for range 2 { // it can be read again
			var got []string
			if err := s.Each(func(kind byte, number uint64, p []byte) error {
				got = append(got, fmt.Sprint(string(rune(kind)), number, string(p)))
				return nil
			}); err != nil || !slices.Equal(got, want) || s.Empty() != (n == 0) {
				t.Fatalf("%d records: got %q, %v, want %q", n, got, err, want)
			}
		}
		must.Do(t, s.Close())
		if es, err := fs.ReadDir("."); len(es) != 0 {
			t.Fatalf("%d records: %d files are left, %v", n, len(es), err)
		}
	}
}

// A kind has one row, and a kind without a row is damage.
func TestTable(t *testing.T) {
	var table state.Table[*[]byte, int, int, int]
	table.Add('a', "a", func(to *[]byte, kind byte, p []byte) error {
		*to = append(append(*to, kind), p...)
		return nil
	}, nil, nil, nil)
	var got []byte
	if err := table.Resume(&got)('a', []byte("x")); err != nil || string(got) != "ax" {
		t.Errorf("%q, %v", got, err)
	}
	if err := table.Repair(1)('a', nil); err != nil {
		t.Error(err)
	}
	if err := table.Transfer(1)('b', nil); !errors.Is(err, state.ErrRecord) {
		t.Errorf("a kind without a row: %v", err)
	}
	defer func() {
		if recover() == nil {
			t.Error("a kind has two rows")
		}
	}()
	table.Add('a', "b", nil, nil, nil, nil)
}

// A Spool in RAM allocates little more than it holds: each reading of the waiting links makes one.
func TestSpoolAllocations(t *testing.T) {
	const records = 30000 // 3 MB, below SpoolBytes
	p := make([]byte, 95)
	var s *state.Spool
	got := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			s = state.NewSpool(testdisk.NewMem(), "spool")
			for n := range uint64(records) {
				must.Do(b, s.Add(state.Pending, n, p))
			}
		}
	})
	if most := int64(records * 100 * 5 / 4); got.AllocedBytesPerOp() > most {
		t.Errorf("%d bytes for %d records of 100: at most %d", got.AllocedBytesPerOp(), records, most)
	}
}
