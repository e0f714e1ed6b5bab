package crawl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/journal"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// Random accepts and finishes with checkpoints between them. The parts are tiny, so that they are
// kept, merged and dropped. Pending links, their order and the keys must agree with the model.
func TestLedger(t *testing.T) {
	defer func(s, l int64) { smallPart, largePart = s, l }(smallPart, largePart)
	smallPart, largePart = 300, 1500
	for seed := range uint64(testtier.Rounds(4, 20)) {
		rng := rand.New(rand.NewPCG(seed, 11))
		fs := testdisk.NewMem()
		j, err := journal.Open(fs, "j", journal.Config{})
		must(t, err)
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
				must(t, err)
				pending[accepted] = u.String()
				keys[u.Key()] = true
				if err := j.Append([]journal.Record{{Kind: state.Accept,
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
				must(t, err)
				f := state.Finish{Link: weburl.Link{URL: u}, Number: n, Began: time.UnixMicro(1)}
				must(t, j.Append([]journal.Record{{Kind: state.Finished, Payload: f.AppendTo(nil)}}))
				delete(pending, n)
				if rng.IntN(3) == 0 {
					break
				}
			}
			if rng.IntN(2) == 0 {
				c, err := j.Begin()
				must(t, err)
				before, err := partsOf(c)
				must(t, err)
				k := &checkpoint{Checkpoint: c, keys: plainKeys{}}
				must(t, k.put(state.Number, binary.AppendUvarint(nil, accepted)))
				if err := k.mergeLinks(all(), &merge{History: state.NewHistory(spoolOf(fs, "j", 0))}); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				if err := j.Adopt(c, c.Finish()); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				c2, err := j.Begin()
				must(t, err)
				after, err := partsOf(c2)
				must(t, err)
				c2.Abandon()
				for _, p := range after {
					if p.Label[0] == state.Pending &&
						slices.ContainsFunc(before,
							func(q journal.Part) bool {
								return string(q.Label) == string(p.Label) && q.Bytes == p.Bytes
							}) {
						kept++
					}
				}
			}
			must(t, j.Commit())
			checkLedger(t, fs, fmt.Sprint("seed ", seed), accepted, pending, keys)
		}
		if kept == 0 {
			t.Errorf("seed %d: no part was taken over", seed)
		}
	}
}

func partsOf(c *journal.Checkpoint) ([]journal.Part, error) {
	f, err := c.Files()
	if err != nil {
		return nil, err
	}
	return f.Parts()
}

func checkLedger(t *testing.T, fs disk.FS, when string, accepted uint64, pending map[uint64]string,
	keys map[weburl.Key]bool) {
	t.Helper()
	h := state.NewHistory(spoolOf(fs, ".", 0))
	var order []uint64
	gotKeys := map[weburl.Key]int{}
	link := func(_ byte, n uint64, enc []byte) error {
		l, _, err := weburl.DecodeLink(enc)
		if err != nil {
			return err
		}
		if pending[n] != l.URL.String() {
			t.Fatalf("%s: %d is %s, want %q", when, n, l.URL, pending[n])
		}
		order = append(order, n)
		return nil
	}
	read := func(kind byte, p []byte) error {
		switch kind {
		case state.Number:
			return h.Number(0, p)
		case state.Done:
			return h.Runs(0, p)
		case state.Finished:
			f, err := state.DecodeFinish(p)
			if err != nil {
				return err
			}
			return h.Finish(f.Number)
		case state.Accept:
			l, _, err := weburl.PeekLink(p)
			if err != nil {
				return err
			}
			gotKeys[l.URL.Key()]++
			return h.Accept(kind, p)
		case state.Keys:
			ks, err := state.DecodeKeys(nil, p)
			for _, k := range ks {
				gotKeys[k]++
			}
			return err
		}
		return nil
	}
	files, err := journal.List(fs, "j")
	if err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	parts, err := state.PartsOf(files)
	if err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	err = errors.Join(files.Snapshot(read),
		files.Segments(func(_ bool, kind byte, p []byte) error { return read(kind, p) }))
	for _, p := range parts {
		if p.Label[0] == state.Keys {
			err = errors.Join(err, files.Part(p, read))
		}
		err = errors.Join(err, h.EachIn(files, p, link))
	}
	if err = errors.Join(err, h.EachLater(link, nil), h.Later.Close()); err != nil || h.Last != accepted {
		t.Fatalf("%s: %d accepts, want %d; %v", when, h.Last, accepted, err)
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
