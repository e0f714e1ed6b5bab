package stream

import (
	"container/list"
	"math"
	"slices"
	"testing"

	"github.com/orbweaver/orbweaver/internal/web/link"
)

// The stream knows which items are new: the numbers of new items come in order, each once, and the
// numbers of known items are lower.
func TestStreamKnowsWhatIsNew(t *testing.T) {
	for _, shape := range []Shape{Uniform, Zipf} {
		s := New(7, shape)
		met := map[link.Key]uint64{}
		items := make([]Item, 1000)
		fresh := 0
		for batch := range 200 {
			oneIn := 10
			if batch < 5 {
				oneIn = 1
			}
			before := len(met)
			s.Next(items, oneIn)
			for i := range items {
				n, ok := s.Number(&items[i])
				if !ok {
					t.Fatalf("%v: item %d is not the stream's own", shape, i)
				}
				old, known := met[items[i].Key]
				if known && old != n || !known && n != uint64(len(met)) {
					t.Fatalf("%v: number %d, known %v as %d, %d met", shape, n, known, old, len(met))
				}
				met[items[i].Key] = n
				l, size, err := link.Decode(items[i].Aux)
				if err != nil || size != len(items[i].Aux) || l.URL.String() == "" {
					t.Fatalf("%v: %q is no link: %v", shape, items[i].Aux, err)
				}
			}
			if batch < 5 && len(met)-before != len(items) {
				t.Fatalf("%d of %d are new, want all", len(met)-before, len(items))
			}
			if batch >= 5 {
				fresh += len(met) - before
			}
		}
		if int64(len(met)) != s.Fresh() || s.items != 200_000 {
			t.Errorf("%v: %d met, %d fresh, %d items", shape, len(met), s.Fresh(), s.items)
		}
		if share := float64(fresh) / 195_000; math.Abs(share-0.1) > 0.005 {
			t.Errorf("%v: %.4f are new, want 0.1", shape, share)
		}
	}
}

func TestStreamIsTheSeeds(t *testing.T) {
	a, b, c := New(1, Zipf), New(1, Zipf), New(2, Zipf)
	x, y, z := make([]Item, 500), make([]Item, 500), make([]Item, 500)
	for range 10 {
		a.Next(x, 10)
		b.Next(y, 10)
		c.Next(z, 10)
		same := 0
		for i := range x {
			if x[i].Key != y[i].Key || !slices.Equal(x[i].Aux, y[i].Aux) {
				t.Fatal("two streams of a seed differ")
			}
			if x[i].Key == z[i].Key {
				same++
			}
		}
		if same > 0 {
			t.Fatalf("streams of two seeds share %d keys", same)
		}
	}
}

// TestZipfIsCacheable: the 50,000 URLs used last answer about eight in ten.
func TestZipfIsCacheable(t *testing.T) {
	rate := func(shape Shape) float64 {
		s := New(3, shape)
		items := make([]Item, 1000)
		for range 2000 { // 2 million known
			s.Next(items, 1)
		}
		order, at := list.New(), map[link.Key]*list.Element{}
		hits, asked := 0, 0
		for n := range 1000 {
			s.Next(items, 10)
			for i := range items {
				k := items[i].Key
				e, hit := at[k]
				if n >= 200 { // the cache is warm
					asked++
					if hit {
						hits++
					}
				}
				if hit {
					order.MoveToFront(e)
					continue
				}
				at[k] = order.PushFront(k)
				if order.Len() > 50_000 {
					delete(at, order.Remove(order.Back()).(link.Key))
				}
			}
		}
		return float64(hits) / float64(asked)
	}
	if r := rate(Zipf); r < 0.77 || r > 0.83 {
		t.Errorf("zipf: 50,000 URLs answer %.3f, want about 0.8", r)
	} else {
		t.Logf("zipf: %.3f", r)
	}
	if r := rate(Uniform); r > 0.05 {
		t.Errorf("uniform: 50,000 URLs answer %.3f, want next to none", r)
	}
}

// TestHostsArePowerLaw: a few hosts have many URLs, most hosts have one or two.
func TestHostsArePowerLaw(t *testing.T) {
	s := New(5, Uniform)
	items := make([]Item, 1000)
	sizes := map[uint64]int{}
	const urls = 400_000
	bytes := 0
	for range urls / len(items) {
		s.Next(items, 1)
		for i := range items {
			sizes[items[i].Key.Host]++
			bytes += len(items[i].Aux)
		}
	}
	largest, small := 0, 0
	for _, n := range sizes {
		largest = max(largest, n)
		if n <= 2 {
			small++
		}
	}
	t.Logf("%d hosts, the largest has %d URLs, %d have one or two; %d bytes a link", len(sizes), largest, small,
		bytes/urls)
	if len(sizes) < urls/40 || largest < urls/50 || largest > urls/5 || small < len(sizes)/3 {
		t.Errorf("%d hosts of %d URLs, the largest has %d, %d have one or two", len(sizes), urls, largest, small)
	}
	if per := bytes / urls; per < 120 || per > 220 {
		t.Errorf("%d bytes a link", per)
	}
}

func TestLogUniform(t *testing.T) {
	s := New(1, Uniform)
	var count [16]int
	for range 150_000 {
		r := s.logUniform(s.next(), 15)
		if r < 1 || r >= 1<<15 {
			t.Fatalf("%d is not from 1 to 2^15-1", r)
		}
		e := 0
		for r>>1 != 0 {
			r >>= 1
			e++
		}
		count[e]++
	}
	for e, n := range count[:15] {
		if n < 9_000 || n > 11_000 {
			t.Errorf("%d of 150,000 from 2^%d to 2^%d, want about 10,000", n, e, e+1)
		}
	}
	if r := s.logUniform(math.MaxUint64, 30); r >= 1<<30 {
		t.Errorf("the largest is %d", r)
	}
}

// A Judge finds each kind of false answer.
func TestJudge(t *testing.T) {
	s := New(9, Uniform)
	j := NewJudge(s, 1000)
	items := make([]Item, 300)
	s.Next(items, 1)
	for i := range items[:299] {
		if n, ok := j.Emitted(&items[i]); !ok || n != uint64(i) {
			t.Fatalf("item %d: %d, %v", i, n, ok)
		}
	}
	if j.Missing() != 1 || j.Told() != 299 || j.Twice != 0 || j.Foreign != 0 {
		t.Errorf("after 299 of 300: %+v", j)
	}
	j.Emitted(&items[7])
	wrong := items[299]
	wrong.Key.Path++
	j.Emitted(&wrong)
	j.Emitted(&Item{Key: items[299].Key, Aux: []byte("short")})
	j.Emitted(&Item{Key: items[299].Key, Aux: items[298].Aux})
	if j.Missing() != 1 || j.Twice != 1 || j.Foreign != 3 {
		t.Errorf("missing %d, twice %d, foreign %d, want 1, 1, 3", j.Missing(), j.Twice, j.Foreign)
	}
}

func BenchmarkNext(b *testing.B) {
	for _, shape := range []Shape{Uniform, Zipf} {
		b.Run(shape.String(), func(b *testing.B) {
			s := New(1, shape)
			items := make([]Item, 1000)
			for range 1000 {
				s.Next(items, 1)
			}
			b.ResetTimer()
			for b.Loop() {
				s.Next(items, 10)
			}
			b.ReportMetric(float64(b.N)*1000/b.Elapsed().Seconds(), "items/s")
		})
	}
}
