package crawl

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/RoaringBitmap/roaring/v2/roaring64"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/journal"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// Random accepts and finishes with checkpoints between them. The parts are tiny, so that they are
// kept, merged and dropped. Pending links, their order and the keys must agree with the model.
func TestLedger(t *testing.T) {
	defer func(s, l int64) { smallPart, largePart = s, l }(smallPart, largePart)
	smallPart, largePart = 300, 1500
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 11))
		fs := testdisk.NewMem()
		j, err := journal.Open(fs, "j", journal.Config{})
		if err != nil {
			t.Fatal(err)
		}
		var (
			accepted uint64
			pending  = map[uint64]string{}
			keys     = map[weburl.Key]bool{}
			kept     int
		)
		for range 60 {
			for range rng.IntN(30) {
				accepted++
				u, err := weburl.Parse(fmt.Sprintf("http://h%d.example/%d", rng.IntN(5), accepted))
				if err != nil {
					t.Fatal(err)
				}
				pending[accepted] = u.String()
				keys[u.Key()] = true
				if err := j.Append([]journal.Record{{Kind: kindAccept,
					Payload: weburl.Link{URL: u}.AppendTo(nil)}}); err != nil {
					t.Fatal(err)
				}
			}
			// Finished are mostly the oldest, as breadth-first order has it.
			for _, n := range slices.Sorted(maps.Keys(pending))[:rng.IntN(len(pending)+1)] {
				if rng.IntN(4) == 0 {
					continue
				}
				u, err := weburl.Parse(pending[n])
				if err != nil {
					t.Fatal(err)
				}
				f := finish{link: weburl.Link{URL: u}, number: n, began: time.UnixMicro(1)}
				if err := j.Append([]journal.Record{{Kind: kindFinish, Payload: f.appendTo(nil)}}); err != nil {
					t.Fatal(err)
				}
				delete(pending, n)
				if rng.IntN(3) == 0 {
					break
				}
			}
			if rng.IntN(2) == 0 {
				c, err := j.Begin()
				if err != nil {
					t.Fatal(err)
				}
				before, err := c.Parts()
				if err != nil {
					t.Fatal(err)
				}
				k := &checkpoint{Checkpoint: c, keys: plainKeys{}}
				if err := k.put(kindNumber, binary.AppendUvarint(nil, accepted)); err != nil {
					t.Fatal(err)
				}
				if err := k.mergeLinks(all()); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				if err := j.Adopt(c, c.Finish()); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				c2, err := j.Begin()
				if err != nil {
					t.Fatal(err)
				}
				after, err := c2.Parts()
				if err != nil {
					t.Fatal(err)
				}
				c2.Abandon()
				for _, p := range after {
					if p.Label[0] == kindPending &&
						slices.ContainsFunc(before,
							func(q journal.Part) bool {
								return string(q.Label) == string(p.Label) && q.Bytes == p.Bytes
							}) {
						kept++
					}
				}
			}
			if err := j.Commit(); err != nil {
				t.Fatal(err)
			}
			checkLedger(t, fs, fmt.Sprint("seed ", seed), accepted, pending, keys)
		}
		if kept == 0 {
			t.Errorf("seed %d: no part was taken over", seed)
		}
	}
}

func checkLedger(t *testing.T, fs disk.FS, when string, accepted uint64, pending map[uint64]string,
	keys map[weburl.Key]bool) {
	t.Helper()
	g := ledger{done: roaring64.New(), verdict: all()}
	if _, err := journal.ReplayWithout(fs, "j", anyPart,
		func(kind byte, p []byte) error { return g.read(kind, p) }); err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	if g.last != accepted {
		t.Fatalf("%s: %d accepts, want %d", when, g.last, accepted)
	}
	var order []uint64
	gotKeys := map[weburl.Key]int{}
	number := uint64(0)
	link := func(n uint64, enc []byte) error {
		l, _, err := weburl.DecodeLink(enc)
		if err != nil || g.done.Contains(n) {
			return err
		}
		if pending[n] != l.URL.String() {
			t.Fatalf("%s: %d is %s, want %q", when, n, l.URL, pending[n])
		}
		order = append(order, n)
		return nil
	}
	if _, err := journal.Replay(fs, "j", func(kind byte, p []byte) error {
		switch kind {
		case kindNumber:
			number, _ = binary.Uvarint(p)
		case kindAccept:
			l, _, err := weburl.DecodeLink(p)
			if err != nil {
				return err
			}
			gotKeys[l.URL.Key()]++
			number++
			return link(number, p)
		case kindPending:
			n, enc, err := splitPending(p)
			if err != nil {
				return err
			}
			return link(n, enc)
		case kindKeys:
			ks, err := decodeKeys(nil, p)
			for _, k := range ks {
				gotKeys[k]++
			}
			return err
		}
		return nil
	}); err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	if want := slices.Sorted(maps.Keys(pending)); !slices.Equal(order, want) {
		t.Fatalf("%s: pending are %v, want %v", when, order, want)
	}
	if len(gotKeys) != len(keys) {
		t.Fatalf("%s: %d keys, want %d", when, len(gotKeys), len(keys))
	}
	for k, n := range gotKeys {
		if !keys[k] || n != 1 {
			t.Fatalf("%s: key %v %d times, known: %v", when, k, n, keys[k])
		}
	}
}

// Pieces join to the original, and a damaged set of numbers is an error.
func TestDone(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	done := roaring64.New()
	for range 5000 {
		done.Add(rng.Uint64N(maxNumber))
	}
	done.AddRange(0, 7)
	done.AddRange(1<<33, 1<<33+100_000)
	b := appendRuns(nil, done)
	var s pieces
	var whole []byte
	records := 0
	if err := putPieces(kindDone, b, 1000, func(kind byte, p []byte) error {
		records++
		if len(p) > 1001 || kind != kindDone || whole != nil {
			t.Fatalf("piece of %d bytes, kind %c", len(p), kind)
		}
		var err error
		whole, err = s.add(p)
		return err
	}); err != nil || records < 2 {
		t.Fatalf("%d pieces, %v", records, err)
	}
	got, err := decodeRuns(whole, maxNumber)
	if err != nil || !got.Equals(done) {
		t.Fatalf("got other numbers, %v", err)
	}
	if _, err := s.add(nil); err == nil {
		t.Error("an empty piece is taken")
	}
	for _, b := range [][]byte{{1}, {0x80}, {0, 0x80}, binary.AppendUvarint([]byte{1}, 1<<41),
		binary.AppendUvarint(nil, 1<<63)} {
		if _, err := decodeRuns(b, maxNumber); err == nil {
			t.Errorf("%x is taken for a set", b)
		}
	}
	if b := appendRuns(nil, roaring64.New()); len(b) != 0 {
		t.Errorf("no numbers are %x", b)
	}
}

func FuzzLedger(f *testing.F) {
	f.Add(append([]byte{0}, appendRuns(nil, roaring64.BitmapOf(1, 2, 3, 1<<23))...), label(kindPending, 1, 300))
	f.Add([]byte{1, 2, 3}, []byte("P"))
	f.Fuzz(func(t *testing.T, p, b []byte) {
		g := ledger{done: roaring64.New(), last: 1 << 24}
		if err := g.read(kindDone, p); err == nil && len(p) > 0 {
			again, err := decodeRuns(appendRuns(nil, g.done), g.last)
			if err != nil || !again.Equals(g.done) {
				t.Errorf("%v became %v, %v", g.done, again, err)
			}
		}
		_ = g.read(kindNumber, p)
		_ = g.read(kindFinish, p)
		_, _, _ = splitPending(p)
		if kind, first, last, err := parseLabel(b); err == nil {
			if k, f, l, err := parseLabel(label(kind, first, last)); err != nil || k != kind || f != first ||
				l != last {
				t.Errorf("%c %d to %d became %c %d to %d, %v", kind, first, last, k, f, l, err)
			}
		}
	})
}
