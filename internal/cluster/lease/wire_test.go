package lease

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
)

func randomBatch(r *rand.Rand) *Batch {
	d := func() time.Duration { return time.Duration(r.IntN(1e9)) * time.Microsecond }
	yes := func() bool { return r.IntN(2) == 0 }
	notes := func() (ns []Note) {
		for range r.IntN(4) {
			ns = append(ns, Note{r.Uint64(), d(), d(), uint8(r.IntN(256)), d() - time.Hour, r.Uint64()})
		}
		return ns
	}
	b := &Batch{From: AgentID(r.Uint64()), To: AgentID(r.Uint64()), Stamp: r.Uint64(), Answer: yes(), View: r.Uint64()}
	for range r.IntN(4) {
		b.Gives = append(b.Gives, Give{r.Uint64(), r.Uint64(), d(), notes()})
	}
	for range r.IntN(4) {
		b.Asks = append(b.Asks, Ask{r.Uint64(), d(), d(), yes(), yes(), yes(), r.Uint64(), notes()})
	}
	for range r.IntN(4) {
		b.Grants = append(b.Grants, Grant{r.Uint64(), r.Uint64(), r.Uint64(), d(), d(), d(), yes(), yes(), notes(),
			false, 0})
		if g := &b.Grants[len(b.Grants)-1]; yes() {
			g.Cold, g.Since = true, d()
		}
	}
	for range r.IntN(4) {
		b.Recalls = append(b.Recalls, Recall{r.Uint64(), r.Uint64(), yes()})
	}
	for range r.IntN(4) {
		b.Refused = append(b.Refused, r.Uint64())
	}
	if yes() {
		b.Survey, b.Lost = true, d()
		b.Lost -= d() // it may be negative
	}
	return b
}

func TestBatchComesBack(t *testing.T) {
	r := testseed.Rand(t)
	for range 300 {
		b := randomBatch(r)
		raw := b.AppendTo(nil)
		got, err := ParseBatch(raw)
		if err != nil {
			t.Fatalf("%+v: %v", b, err)
		}
		if diff := cmp.Diff(b, got); diff != "" {
			t.Fatal(diff)
		}
		for n := range raw {
			if _, err := ParseBatch(raw[:n]); !errors.Is(err, ErrBatch) {
				t.Fatalf("%d of %d bytes: %v", n, len(raw), err)
			}
		}
		if _, err := ParseBatch(append(raw, 0)); !errors.Is(err, ErrBatch) {
			t.Fatalf("a byte more: %v", err)
		}
	}
}

// TestRounding: waits get no shorter by encoding, and leases get no longer.
func TestRounding(t *testing.T) {
	d := 1500 * time.Nanosecond
	b := &Batch{
		Gives:  []Give{{Rest: d}},
		Asks:   []Ask{{Quiet: d, Rest: d}, {Rest: -d}, {Quiet: 2 * maxDuration}},
		Grants: []Grant{{Held: d, Term: d, Rest: d}},
		Survey: true, Lost: d,
	}
	got := must.Get(ParseBatch(b.AppendTo(nil)))(t)
	want := &Batch{
		Gives:  []Give{{Rest: 2 * time.Microsecond}},
		Asks:   []Ask{{Quiet: 2 * time.Microsecond, Rest: 2 * time.Microsecond}, {}, {Quiet: maxDuration}},
		Grants: []Grant{{Held: time.Microsecond, Term: time.Microsecond, Rest: 2 * time.Microsecond}},
		Survey: true, Lost: 2 * time.Microsecond,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// FuzzBatch: ParseBatch refuses any bytes, or encodes the result to the same bytes.
func FuzzBatch(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	f.Add([]byte{})
	f.Add([]byte{wireVersion, 0})
	for range 10 {
		f.Add(randomBatch(r).AppendTo(nil))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		b, err := ParseBatch(src)
		if err != nil {
			return
		}
		again := must.Get(ParseBatch(b.AppendTo(nil)))(t)
		if diff := cmp.Diff(b, again); diff != "" {
			t.Fatal(diff)
		}
		// A hostile batch, even with our names, must not cause a panic.
		now := time.Unix(0, 0)
		p := New(b.To, Config{Points: 100}, now)
		p.Look(&picture{members: []AgentID{b.To, b.From}}, now)
		p.Want(7, time.Second, now)
		_, _ = p.Serve(b, now)
		_ = p.Answered(b, now)
		for range 3 {
			now = now.Add(4 * time.Second)
			p.Contact(now, now)
			p.Calls(now)
		}
	})
}
