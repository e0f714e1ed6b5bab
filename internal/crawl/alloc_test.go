package crawl

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/RoaringBitmap/roaring/v2/roaring64"

	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// allocated returns the bytes that f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

type followAll struct{}

func (followAll) Follow(*Page, *weburl.Link) Choice { return Take }

// The crawl asks a Strategy about every link of every page, and knows most of them already. That
// must cost no memory.
func TestFollowKnownAllocatesNothing(t *testing.T) {
	c := &Crawler{Parts: Parts{Strategy: followAll{}}, known: new(known)}
	u, err := weburl.Parse("http://a.example/page")
	if err != nil {
		t.Fatal(err)
	}
	c.known.add(u.Key())
	v := new(visit)
	if n := testing.AllocsPerRun(100, func() { c.follow(v, weburl.Link{URL: u, Hops: "L"}, u.Key()) }); n != 0 {
		t.Errorf("%v allocations for a known link, want none", n)
	}
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
