package contents

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// BenchmarkKnown asks for 64 of 500,000 contents on disk per call.
func BenchmarkKnown(b *testing.B) {
	table, err := Open(disk.OS, b.TempDir()+"/contents", Config{MemoryBytes: 4 << 20})
	must.Do(b, err)
	ended := make(chan error, 1)
	go func() { ended <- table.Run(b.Context()) }()
	const all, call = 500_000, 64
	qs := make([]Question, call)
	page := Original{URL: "http://www.example.org/a/page/of/ordinary/length", Date: time.Unix(1, 0)}
	for n := 0; n < all; n += call {
		for i := range qs {
			qs[i] = Question{digestOf(n + i), page, true}
		}
		if _, err := table.Ask(b.Context(), qs); err != nil {
			b.Fatal(err)
		}
	}
	other := Original{URL: "http://www.example.org/another", Date: time.Unix(1, 0)}
	rng := rand.New(rand.NewPCG(1, 1))
	n := 0
	for b.Loop() {
		for i := range qs {
			qs[i] = Question{Digest: digestOf(rng.IntN(all)), Page: other}
		}
		as, err := table.Ask(b.Context(), qs)
		if err != nil || as[0].First {
			b.Fatal(as, err)
		}
		n += call
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "questions/s")
	b.ReportMetric(b.Elapsed().Seconds()*1000/float64(n/call), "ms/call")
}
