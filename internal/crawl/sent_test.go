package crawl

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/RoaringBitmap/roaring/v2/roaring64"

	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

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
		if n, _, err := h.Sent(p); err != nil || n != int64(len(numbers)) {
			t.Fatal(n, err)
		}
	})
}

// A URL has two keys in the seen-set: one at its owner, and one at other agents.
func TestForeignKey(t *testing.T) {
	u := weburl.MustParse("http://a.example/x")
	k := u.Key()
	if isForeign(k, u) || !isForeign(foreignKey(k), u) || foreignKey(foreignKey(k)) != k {
		t.Errorf("%v %v", k, foreignKey(k))
	}
}
