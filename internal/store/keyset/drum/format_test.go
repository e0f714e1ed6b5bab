package drum

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/s2"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// unmix is the inverse of mix.
func unmix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0x9cb4b2f8129337db
	x ^= x >> 33
	x *= 0x4f74430c22a54005
	return x ^ x>>33
}

func TestMixIsABijection(t *testing.T) {
	for _, x := range []uint64{0, 1, 1 << 63, ^uint64(0), 0x123456789abcdef} {
		if got := unmix(mix(x)); got != x {
			t.Errorf("unmix(mix(%#x)) = %#x", x, got)
		}
	}
}

func TestClasses(t *testing.T) {
	for _, c := range []struct {
		m     int64
		class uint8
		width uint
	}{
		{0, 0, 38}, {1, 0, 38}, {2, 1, 42}, {16, 1, 42}, {17, 2, 46}, {256, 2, 46}, {257, 3, 50}, {1 << 16, 4, 54},
		{1<<16 + 1, 5, 58}, {1 << 24, 6, 62}, {1<<24 + 1, 7, 64}, {1 << 40, 7, 64},
	} {
		if got := classOf(c.m); got != c.class || width(got) != c.width {
			t.Errorf("classOf(%d) = %d with %d bits, want %d with %d", c.m, got, width(got), c.class, c.width)
		}
	}
}

// TestLists writes and reads lists of every class and many lengths.
func TestLists(t *testing.T) {
	rng := testseed.Rand(t)
	for range 300 {
		var w blockWriter
		type want struct {
			h      uint64
			class  uint8
			vals   []uint64
			values []uint64
		}
		var wants []want
		withValues := rng.IntN(2) == 0
		h := rng.Uint64N(1 << 40)
		for range 1 + rng.IntN(20) {
			part := rng.IntN(4) == 0
			x := want{h: h, class: uint8(rng.IntN(8))}
			n := 1 + rng.IntN(1<<rng.IntN(10))
			for range n {
				v := rng.Uint64() >> (64 - width(x.class))
				if part && rng.IntN(2) == 0 { // numbers close together
					v = 1<<(width(x.class)-1) + rng.Uint64N(5000)
				}
				x.vals = append(x.vals, v)
			}
			slices.Sort(x.vals)
			x.vals = slices.Compact(x.vals)
			if withValues {
				for range x.vals {
					x.values = append(x.values, rng.Uint64())
				}
			}
			w.add(x.h, x.class, x.vals, x.values, part)
			wants = append(wants, x)
			h += rng.Uint64N(3) * rng.Uint64N(1<<rng.IntN(58))
		}
		buf := append(slices.Clone(w.finish()), bytes.Repeat([]byte{0xff}, slack)...)
		var b block
		must.Do(t, b.parse(buf, withValues))
		var l list
		out := make([]uint64, listKeys)
		for i, x := range wants {
			must.Do(t, b.next(&l))
			got, err := b.read(&l, out)
			if err != nil {
				t.Fatalf("list %d: %v", i, err)
			}
			if l.h != x.h || l.class != x.class || !slices.Equal(got, x.vals) {
				t.Fatalf("list %d of host %x class %d: %x, want %x %d %x", i, l.h, l.class, got, x.h, x.class, x.vals)
			}
			for j, v := range x.values {
				if g := b.value(l.index + j); g != v {
					t.Fatalf("value %d of list %d: %x, want %x", j, i, g, v)
				}
			}
		}
		if err := b.next(&l); err != nil || l.n != 0 {
			t.Fatalf("after the last list: %v, a list of %d keys; want none", err, l.n)
		}
	}
}

func TestSortQueries(t *testing.T) {
	rng := testseed.Rand(t)
	for range 60 {
		shift := 52 + rng.IntN(12)
		q := make([]query, rng.IntN(3000))
		for i := range q {
			q[i].h = rng.Uint64() >> (64 - shift)
			if rng.IntN(2) == 0 {
				q[i].h = 77
			}
			q[i].p = rng.Uint64() >> rng.IntN(64)
		}
		want := slices.Clone(q)
		slices.SortFunc(want, func(a, b query) int {
			switch {
			case a.less(b.key):
				return -1
			case b.less(a.key):
				return 1
			}
			return 0
		})
		sortQueries(q, make([]query, len(q)), shift)
		if !slices.EqualFunc(q, want, func(a, b query) bool { return a.key == b.key }) {
			t.Fatal("not sorted")
		}
	}
}

// smallFrames is the length of golden's part file that does not depend on the compressor.
var smallFrames int

// golden returns the files of the current version: a run, a manifest and a part.
func golden(t *testing.T) map[string][]byte {
	mem := testdisk.NewMem()
	v := &volume{fs: mem, dir: "g", blockBytes: 400}
	must.Do(t, mem.MkdirAll("g", 0o755))
	s := &Store{vol: v, seed: 42, bucketBits: 1, shift: 63, buckets: make([]bucket, 2), pool: &pool{}}
	s.gen, s.heldWriter = &generation{slab: log{pool: s.pool}}, newHeldWriter(1)
	s.tune.slabKeys = 1 << 20
	w, err := v.newRun(7, 1)
	must.Do(t, err)
	h := uint64(1) << 63
	for i := range uint64(40) {
		class := uint8(i % 4)
		h += mix(i) >> 10 & 3 * (mix(i) >> 8)
		vals := []uint64{}
		for j := range i*i%23 + 1 {
			vals = append(vals, mix(i*100+j)>>(64-width(class)))
		}
		slices.Sort(vals)
		must.Do(t, w.add(h, class, vals, nil))
		h++
	}
	long := make([]uint64, 1500)
	for i := range long {
		long[i] = mix(uint64(i)) >> (64 - width(6))
	}
	slices.Sort(long)
	must.Do(t, w.add(^uint64(0), 6, long, nil))
	r, err := w.finish()
	must.Do(t, err)
	must.Do(t, s.writeManifest([][]*run{{}, {r}}, []byte("a mark")))
	s.num.Store(7)
	for i := range 3 {
		it := Item{Key: nth(uint64(i), 1), Aux: fmt.Appendf(nil, "aux %d", i)}
		must.Do(t, s.hold(opAdd, &it, keyOf(it.Key, s.seed)))
	}
	must.Do(t, s.commit())
	smallFrames = int(s.part.size)
	for i := range 100 { // enough to be compressed
		it := Item{Key: nth(uint64(3+i), 1), Aux: fmt.Appendf(nil, "%d%s", i, strings.Repeat(" an aux", i))}
		must.Do(t, s.hold(opAdd, &it, keyOf(it.Key, s.seed)))
	}
	must.Do(t, s.commit())
	files := map[string][]byte{}
	for _, name := range []string{"run-00000007", "manifest", "held-00000008"} {
		b, err := disk.ReadFile(mem, "g/"+name, 1<<20)
		must.Do(t, err)
		files[name] = b
	}
	return files
}

// TestGolden checks that the current version writes the same bytes as before, and reads them. UPDATE_GOLDEN=1 writes
// the files again; a changed format needs a new version.
func TestGolden(t *testing.T) {
	const last = "v1"
	for name, got := range golden(t) {
		file := filepath.Join("testdata", last, name)
		if os.Getenv("UPDATE_GOLDEN") != "" {
			must.Do(t, os.MkdirAll(filepath.Dir(file), 0o755))
			must.Do(t, os.WriteFile(file, got, 0o644))
		}
		want, err := os.ReadFile(file)
		must.Do(t, err)
		if strings.HasPrefix(name, "held") {
			got, want = got[:smallFrames], want[:smallFrames]
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s differs from the golden file", name)
		}
	}
	const held = 103
	mem := testdisk.NewMem()
	must.Do(t, mem.MkdirAll("g", 0o755))
	for _, name := range []string{"run-00000007", "manifest", "held-00000008"} {
		b, err := os.ReadFile(filepath.Join("testdata", last, name))
		must.Do(t, err)
		must.Do(t, disk.WriteFile(mem, "g/"+name, b))
	}
	s, got := openCollecting(t, mem, "g", Config{})
	st := s.Stats()
	if len(s.Damaged()) > 0 || st.Held != held || st.Runs != 1 || st.Keys < 1500 || string(s.Mark()) != "a mark" {
		t.Errorf("%+v, mark %q, damaged %v", st, s.Mark(), s.Damaged())
	}
	must.Do(t, s.Flush())
	if len(got) != held || got[nth(held-1, 1)] != 1 {
		t.Errorf("%d held items were emitted, want %d: %v", len(got), held, got)
	}
	must.Do(t, s.Close())
}

// FuzzBlock checks that no input makes the decoder panic, hang or read beyond the buffer.
func FuzzBlock(f *testing.F) {
	var w blockWriter
	w.add(1, 0, []uint64{5}, []uint64{1}, false)
	w.add(1, 2, []uint64{5, 6, 1 << 45}, []uint64{1, 2, 3}, false)
	w.add(9, 6, []uint64{1 << 61, 1<<61 + 1}, []uint64{1, 2}, true)
	f.Add(slices.Clone(w.finish()), true)
	w.add(3, 7, []uint64{^uint64(0)}, nil, false)
	f.Add(slices.Clone(w.finish()), false)
	f.Fuzz(func(t *testing.T, data []byte, withValues bool) {
		buf := append(slices.Clone(data), make([]byte, slack)...)
		var b block
		if err := b.parse(buf, withValues); err == nil {
			readAll(t, &b, withValues)
		}
		if len(data) < blockHead {
			return
		}
		if err := b.parseChecked(buf, withValues); err == nil { // without the checksum
			readAll(t, &b, withValues)
		}
	})
}

func readAll(t *testing.T, b *block, withValues bool) {
	out := make([]uint64, listKeys)
	total := 0
	for {
		var l list
		if err := b.next(&l); err != nil {
			if !errors.Is(err, errBlock) {
				t.Fatal(err)
			}
			return
		}
		if l.n == 0 {
			break
		}
		vals, err := b.read(&l, out)
		if err != nil {
			return
		}
		total += len(vals)
		if withValues {
			b.value(l.index + l.n - 1)
		}
	}
	if total != b.keys {
		t.Fatalf("%d keys, but the header says %d", total, b.keys)
	}
}

func FuzzManifest(f *testing.F) {
	m := manifest{seed: 1, bucketBits: 6, mark: []byte("x"), runs: []manifestRun{{1, 2, 3, 4}, {5, 6, 7, 8}}}
	f.Add(m.encode())
	f.Add((&manifest{withValues: true}).encode())
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := decodeManifest(data)
		if err != nil {
			return
		}
		again, err := decodeManifest(m.encode())
		if err != nil || !slices.Equal(again.runs, m.runs) || !bytes.Equal(again.mark, m.mark) {
			t.Fatalf("%v, %v", again, err)
		}
	})
}

func FuzzFrame(f *testing.F) {
	var w frameWriter
	w.add(opAdd, &Item{Key: link.Key{Host: 1, Path: 2}, Aux: []byte("an aux of some length")}, false)
	w.add(opCheck, &Item{Key: link.Key{Host: 3, Path: 4}}, false)
	w.add(opAdd, &Item{Key: link.Key{Host: 5, Path: 6}, Aux: []byte("an aux of that length")}, false)
	sealFrame(w.buf, w.n, 0, 9)
	f.Add(slices.Clone(w.buf), false)
	packed := append(make([]byte, frameHead), s2.Encode(nil, w.buf[frameHead:])...)
	sealFrame(packed, w.n, len(w.buf)-frameHead, 9)
	f.Add(packed, false)
	f.Fuzz(func(t *testing.T, data []byte, withValues bool) {
		var buf []byte
		n, _, items, err := parseFrame(data, &buf)
		if err != nil {
			if len(data) < frameHead {
				return
			}
			n = 100
			if raw := binary.LittleEndian.Uint32(data[24:]); raw > 1<<20 {
				return
			}
			if items, err = unpackFrame(data, &buf); err != nil { // without the checksum
				items = data[frameHead:]
			}
		}
		r := itemReader{withValues: withValues}
		r.reset(items)
		for i := range min(n, 1000) {
			var it Item
			if _, err = r.next(&it, i%3 > 0); err != nil {
				return
			}
		}
	})
}

// TestFrameSharesAux checks that a frame returns each Aux unchanged, with any common parts.
func TestFrameSharesAux(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	alphabet := []string{"a", "b", "https://www.", "example", "/a/long/path/", "", "\x00", strings.Repeat("tail", 30)}
	for range 2000 {
		var w frameWriter
		var items []Item
		for range 1 + rng.IntN(12) {
			aux := ""
			for range rng.IntN(5) {
				aux += alphabet[rng.IntN(len(alphabet))]
			}
			items = append(items, Item{Key: link.Key{Host: rng.Uint64(), Path: rng.Uint64()}, Aux: []byte(aux)})
			w.add(opAdd, &items[len(items)-1], false)
		}
		sealFrame(w.buf, w.n, 0, 0)
		n, _, packed, err := parseFrame(w.buf, nil)
		if err != nil || int(n) != len(items) {
			t.Fatal(n, err)
		}
		var r itemReader
		r.reset(packed)
		var got []Item
		for range n {
			var it Item
			whole := rng.IntN(3) > 0
			must.Get(r.next(&it, whole))(t)
			if !whole {
				it.Aux = nil
			}
			got = append(got, it)
		}
		for i, want := range items {
			if got[i].Key != want.Key || got[i].Aux != nil && string(got[i].Aux) != string(want.Aux) {
				t.Fatalf("item %d: %q, want %q", i, got[i].Aux, want.Aux)
			}
		}
		if len(r.b) > 0 {
			t.Fatalf("%d bytes are left over", len(r.b))
		}
	}
	// Links of one page take little more than the bytes in which they differ.
	var w frameWriter
	tail := strings.Repeat("the page they stand on ", 5)
	for i := range 100 {
		w.add(opAdd, &Item{Aux: fmt.Appendf(nil, "https://www.example/%d%s", i, tail)}, false)
	}
	if n := len(w.buf); n > 100*24+200 {
		t.Errorf("100 links of a page take %d bytes, want at most %d", n, 100*24+200)
	}
}
