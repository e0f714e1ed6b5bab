package orders

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
)

// few draws orders of few agents about few subjects, so that they often supersede one another.
var few = rapid.Custom(func(t *rapid.T) Order {
	return Order{
		Clock: rapid.Uint64Range(1, 60).Draw(t, "clock"),
		Agent: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "agent"), At: begin,
		Verb:  rapid.SampledFrom([]string{"pause", "block"}).Draw(t, "verb"),
		About: rapid.SampledFrom([]string{"", "x", "y", "z"}).Draw(t, "about"),
		Off:   rapid.Bool().Draw(t, "off"),
	}
})

// different draws orders of which no two have the same mark.
func different(most int) *rapid.Generator[[]Order] {
	return rapid.SliceOfNDistinct(few, 0, most, Order.Mark)
}

// model returns what stands and what is kept without bounds, by the definition.
func model(all []Order) (past, standing []Order) {
	latest := map[subject]Order{}
	for _, o := range all {
		if l, ok := latest[o.subject()]; !ok || o.Mark().Compare(l.Mark()) > 0 {
			latest[o.subject()] = o
		}
	}
	for _, o := range latest {
		if !o.Off {
			standing = append(standing, o)
		}
	}
	slices.SortFunc(standing, compare)
	return slices.SortedFunc(slices.Values(all), compare), standing
}

func checkEqual(t *rapid.T, s *Set, past, standing []Order) {
	t.Helper()
	if got := s.Standing(); !slices.Equal(got, standing) {
		t.Fatalf("standing\n%v\nwant\n%v", got, standing)
	}
	if got := s.Past(); !slices.Equal(got, past) {
		t.Fatalf("past\n%v\nwant\n%v", got, past)
	}
}

// scattered merges all orders into the set in another sequence, in groups, and some of them again.
func scattered(t *rapid.T, s *Set, all []Order) {
	rest := rapid.Permutation(all).Draw(t, "sequence")
	again := rapid.SliceOf(rapid.IntRange(0, max(0, len(all)-1))).Draw(t, "again")
	for _, i := range again {
		if i < len(all) {
			rest = append(rest, all[i])
		}
	}
	for len(rest) > 0 {
		n := rapid.IntRange(1, len(rest)).Draw(t, "group")
		s.Merge(rest[:n])
		rest = rest[n:]
	}
}

// TestMerge: a set without a reached bound is its orders, whatever the sequence and the groups.
func TestMerge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := different(60).Draw(t, "orders")
		past, standing := model(all)
		one, other := NewSet(), NewSet()
		if added := one.Merge(all); !slices.Equal(added, past) {
			t.Fatalf("added %v, want %v", added, past)
		}
		scattered(t, other, all)
		for _, s := range []*Set{one, other} {
			checkEqual(t, s, past, standing)
			digest := s.Digest()
			if added := s.Merge(all); added != nil {
				t.Fatalf("added again: %v", added)
			}
			if s.Digest() != digest {
				t.Fatal("the digest has changed")
			}
			for _, o := range all {
				if got, ok := s.Find(o.ID()); !ok || got != o {
					t.Fatalf("%s is %v, %v", o.ID(), got, ok)
				}
			}
		}
		if one.Digest() != other.Digest() {
			t.Fatal("equal sets, different digests")
		}
		if len(all) > 0 {
			if less := newSet(one.bounds); len(less.Merge(past[1:])) != len(past)-1 || less.Digest() == one.Digest() {
				t.Fatal("different sets, equal digests")
			}
		}
	})
}

// TestBounds: with small bounds, too, a set depends only on the orders that it has seen. Only an order whose Off was
// forgotten may stand in addition, and only if it came after that.
func TestBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := bounds{MaxStanding, rapid.IntRange(0, 8).Draw(t, "past"), rapid.IntRange(1, 6).Draw(t, "latest")}
		all := different(60).Draw(t, "orders")
		past, standing := b.keep(slices.SortedFunc(slices.Values(all), compare))
		_, want := model(all)
		if !slices.Equal(standing, want) {
			t.Fatalf("standing %v, want %v", standing, want)
		}
		subjects, superseded, off := map[subject]bool{}, 0, 0
		for _, o := range slices.Backward(past) {
			switch {
			case subjects[o.subject()]:
				superseded++
			case o.Off:
				off++
			}
			subjects[o.subject()] = true
		}
		if superseded > b.past || off > b.latest {
			t.Fatalf("%d superseded orders and %d Off ones, bounds %+v", superseded, off, b)
		}
		// An order whose Off was forgotten may come after that, and then it stands.
		s := newSet(b)
		scattered(t, s, all)
		returned := func(o Order) bool { return !subjects[o.subject()] && !o.Off }
		if slices.ContainsFunc(all, returned) {
			got := s.Standing()
			if got = slices.DeleteFunc(got, returned); !slices.Equal(got, standing) {
				t.Fatalf("standing %v, want %v", got, standing)
			}
			all = slices.DeleteFunc(all, returned)
			s = newSet(b)
			scattered(t, s, all)
		}
		checkEqual(t, s, past, standing)
	})
}

// exchange sends orders from one set to the other in pages, as agents do.
func exchange(t *rapid.T, from, to *Set, most int) {
	var mark Mark
	for more := true; more; {
		var os []Order
		os, mark, more = from.Page(mark, most)
		size := 0
		for _, o := range os {
			size += len(o.AppendTo(nil))
		}
		if len(os) > 1 && size > most || more && len(os) == 0 {
			t.Fatalf("%d orders of %d bytes, at most %d, more %v", len(os), size, most, more)
		}
		to.Merge(os)
	}
}

// TestGossip: sets at which operators give orders and that hear of some of the others' become equal as soon as all
// have heard of all. An order supersedes all orders that its agent had seen, also if its clock is behind.
func TestGossip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := bounds{MaxStanding, MaxPast, MaxLatest}
		if rapid.Bool().Draw(t, "small") {
			b = bounds{3, 5, 4}
		}
		sets := make([]*Set, rapid.IntRange(3, 5).Draw(t, "sets"))
		for i := range sets {
			sets[i] = newSet(b)
		}
		anySet := rapid.IntRange(0, len(sets)-1)
		var all []Order
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			s := anySet.Draw(t, "set")
			if rapid.Bool().Draw(t, "hears") {
				exchange(t, sets[anySet.Draw(t, "from")], sets[s], rapid.IntRange(1, 500).Draw(t, "page"))
				continue
			}
			o := few.Draw(t, "order")
			now := begin.Add(time.Duration(rapid.IntRange(-3000, 3000).Draw(t, "skew")) * time.Microsecond)
			before := sets[s].Past()
			stands := slices.ContainsFunc(sets[s].Standing(), func(x Order) bool { return x.subject() == o.subject() })
			full := !o.Off && !stands && len(sets[s].Standing()) >= b.standing
			got, err := sets[s].Give(o, fmt.Sprint("a", s), now)
			if full && errors.Is(err, ErrFull) {
				continue
			}
			if full || err != nil {
				t.Fatalf("%d stand, Give: %v", len(sets[s].Standing()), err)
			}
			want := o
			want.Agent, want.At, want.Clock = fmt.Sprint("a", s), now.Truncate(time.Millisecond), got.Clock
			if got != want || got.Clock < uint64(now.UnixMilli())<<16 {
				t.Fatalf("%v, want %v", got, want)
			}
			for _, x := range before {
				if x.Clock >= got.Clock {
					t.Fatalf("%v is given after %v", got, x)
				}
			}
			all = append(all, got)
		}
		// After two times around a ring, all sets have forgotten the same. After another one, all have the orders that
		// stand again because their Off was forgotten.
		for i := range 3 * len(sets) {
			exchange(t, sets[i%len(sets)], sets[(i+1)%len(sets)], 200)
		}
		past, standing := sets[0].Past(), sets[0].Standing()
		if b.past == MaxPast {
			past, standing = model(all)
		}
		for _, s := range sets {
			checkEqual(t, s, past, standing)
			if s.Digest() != sets[0].Digest() {
				t.Fatal("the digests differ")
			}
		}
	})
}

// TestSameMark: sets that have seen different orders with the same mark agree on one of them.
func TestSameMark(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOfN(few, 0, 40).Draw(t, "orders")
		chosen := map[Mark]Order{}
		for _, o := range all {
			if x, ok := chosen[o.Mark()]; !ok || compare(o, x) > 0 {
				chosen[o.Mark()] = o
			}
		}
		past, standing := model(slices.Collect(maps.Values(chosen)))
		s := NewSet()
		scattered(t, s, all)
		checkEqual(t, s, past, standing)
	})
}

// TestMergeChecks: an order that breaks the rules is skipped. The time of others is kept in whole milliseconds of UTC,
// so that equal orders are equal.
func TestMergeChecks(t *testing.T) {
	s := NewSet()
	bad := sample()
	bad.Verb = "No"
	late := sample()
	late.Clock = maxClock + 1
	good := sample()
	good.At = begin.Add(99 * time.Microsecond).In(time.FixedZone("east", 3600))
	if added := s.Merge([]Order{bad, late, good}); !slices.Equal(added, []Order{sample()}) {
		t.Errorf("added %v", added)
	}
	if added := s.Merge([]Order{good, sample()}); added != nil {
		t.Errorf("added again %v", added)
	}
}

func TestGive(t *testing.T) {
	s := NewSet()
	if _, err := s.Give(Order{Verb: "No"}, "a1", begin); !errors.Is(err, ErrOrder) {
		t.Errorf("a verb that is none: %v", err)
	}
	if _, err := s.Give(Order{Verb: "pause"}, "", begin); !errors.Is(err, ErrOrder) {
		t.Errorf("no agent: %v", err)
	}
	first, err := s.Give(Order{Verb: "pause"}, "a1", begin)
	if want := uint64(begin.UnixMilli()) << 16; err != nil || first.Clock != want || first.At != begin {
		t.Errorf("%+v, %v, want clock %#x", first, err, want)
	}
	// The clock of another agent is a day ahead.
	ahead := first
	ahead.Agent, ahead.Clock = "a2", uint64(begin.Add(24*time.Hour).UnixMilli())<<16
	s.Merge([]Order{ahead})
	resume, err := s.Give(Order{Verb: "pause", Off: true}, "a1", begin.Add(time.Second))
	if err != nil || resume.Clock != ahead.Clock+1 || resume.At != begin.Add(time.Second) {
		t.Errorf("%+v, %v", resume, err)
	}
	if got := s.Standing(); len(got) != 0 {
		t.Errorf("standing %v", got)
	}
	if got, err := NewSet().Give(Order{Verb: "pause"}, "a1", time.UnixMilli(-5)); err != nil || got.Clock != 0 {
		t.Errorf("before 1970: %+v, %v", got, err)
	}
	last := first
	last.Clock = maxClock
	s.Merge([]Order{last})
	if got, err := s.Give(Order{Verb: "pause"}, "a1", begin); !errors.Is(err, ErrOrder) {
		t.Errorf("after the last clock: %+v, %v", got, err)
	}
}

// TestFull: with MaxStanding orders, another one is refused, but not one that replaces or takes back one of them.
func TestFull(t *testing.T) {
	s := NewSet()
	give := func(o Order) error { _, err := s.Give(o, "a1", begin); return err }
	var theirs, others []Order
	for i := range MaxStanding {
		theirs = append(theirs, Order{Clock: uint64(i), Agent: "a2", Verb: "block", About: fmt.Sprint("h", i)})
		others = append(others, Order{Clock: uint64(i), Agent: "a3", Verb: "block", About: fmt.Sprint("other", i)})
	}
	s.Merge(theirs[1:])
	if err := give(Order{Verb: "block", About: "h0"}); err != nil {
		t.Error(err)
	}
	if err := give(Order{Verb: "block", About: "one more"}); !errors.Is(err, ErrFull) {
		t.Errorf("one more: %v", err)
	}
	before := s.Digest()
	for _, list := range [][]Order{
		{{Verb: "block", About: "h8", Off: true}, {Verb: "block", About: "one more"},
			{Verb: "block", About: "two more"}},
		{{Verb: "block", About: "h8", Why: "again"}, {Verb: ""}},
	} {
		if given, err := s.GiveTogether(list, "a1", begin); err == nil || given != nil || s.Digest() != before {
			t.Errorf("%v: given %v, %v; changed: %v", list, given, err, s.Digest() != before)
		}
	}
	for _, o := range []Order{
		{Verb: "block", About: "h7", Why: "another reason"}, {Verb: "block", About: "unknown", Off: true},
		{Verb: "block", About: "h8", Off: true}, {Verb: "block", About: "one more"},
	} {
		if err := give(o); err != nil {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if got := len(s.Standing()); got != MaxStanding {
		t.Errorf("%d stand", got)
	}
	s.Merge(others)
	if got := len(s.Standing()); got != 2*MaxStanding {
		t.Errorf("%d stand after a merge", got)
	}
}

// TestLargest: a set at all its bounds, with orders of usual sizes, is below four megabytes. A block is kept however
// many orders follow it, and an Off for as long as the package says.
func TestLargest(t *testing.T) {
	var all []Order
	clock := uint64(begin.UnixMilli()) << 16
	add := func(about string, off bool) Order {
		clock += 1 << 16
		o := Order{Clock: clock, Agent: "crawler-1", At: begin, By: "alice@host", Why: "the site complained",
			Verb: "block", About: about, Off: off}
		all = append(all, o)
		return o
	}
	oldest := add("oldest.example", false)
	was := add("was.example", false)
	off := add("was.example", true)
	for i := range MaxLatest - 1 {
		add(fmt.Sprintf("host%d.example", i), false)
		add(fmt.Sprintf("host%d.example", i), i >= MaxStanding)
	}
	s := NewSet()
	s.Merge(all)
	for _, o := range []Order{oldest, off} {
		if _, ok := s.Find(o.ID()); !ok {
			t.Errorf("%v was discarded", o)
		}
	}
	if s.Merge([]Order{was}); len(s.Standing()) != MaxStanding+1 {
		t.Error("an order stands again that was taken back")
	}
	size := len(s.Encode())
	t.Logf("%d orders, %d bytes", len(s.Past()), size)
	if size > 4<<20 {
		t.Errorf("%d orders take %d bytes", len(s.Past()), size)
	}
	s.Merge([]Order{add("new.example", true)})
	if _, ok := s.Find(off.ID()); ok {
		t.Error("the oldest Off was kept beyond the bound")
	}
	if stand := s.Standing(); len(stand) != MaxStanding+1 || stand[0] != oldest {
		t.Errorf("%d stand, the first is %v", len(stand), stand[0])
	}
	if s.Merge([]Order{was}); len(s.Standing()) != MaxStanding+2 {
		t.Error("the order whose Off is forgotten does not stand again")
	}
}

// TestPage: a page has at most MaxPage orders, and at least one, also if that is larger than asked.
func TestPage(t *testing.T) {
	s := NewSet()
	var all []Order
	for i := range MaxPage + 10 {
		all = append(all, Order{Clock: uint64(i), Agent: "a", Verb: "x", About: fmt.Sprint(i)})
	}
	s.Merge(all)
	os, mark, more := s.Page(Mark{}, 1<<30)
	if len(os) != MaxPage || !more || mark != all[MaxPage-1].Mark() {
		t.Errorf("%d orders to %v, more %v", len(os), mark, more)
	}
	rest, mark, more := s.Page(mark, 1<<30)
	if !slices.Equal(append(os, rest...), all) || more || mark != all[len(all)-1].Mark() {
		t.Errorf("%d more orders to %v, more %v", len(rest), mark, more)
	}
	if os, next, more := s.Page(mark, 100); len(os) != 0 || next != mark || more {
		t.Errorf("after the last: %v to %v, more %v", os, next, more)
	}
	if os, _, more := s.Page(Mark{}, 1); len(os) != 1 || !more {
		t.Errorf("%d orders in 1 byte, more %v", len(os), more)
	}
	two := len(all[0].AppendTo(nil)) + len(all[1].AppendTo(nil))
	if os, _, _ := s.Page(Mark{}, two); len(os) != 2 {
		t.Errorf("%d orders in the bytes of two", len(os))
	}
	if os, _, _ := s.Page(Mark{}, two-1); len(os) != 1 {
		t.Errorf("%d orders in one byte less", len(os))
	}
	if os, _, _ := s.Page(Mark{Clock: 3, Agent: "Z"}, 1); len(os) != 1 || os[0] != all[3] {
		t.Errorf("between two orders: %v", os)
	}
}

// TestConcurrent: several goroutines may use a set, and what they were given does not change.
func TestConcurrent(t *testing.T) {
	random := testseed.Rand(t)
	seeds := []uint64{random.Uint64(), random.Uint64(), random.Uint64()}
	s, other := NewSet(), NewSet()
	var wg sync.WaitGroup
	for i, seed := range seeds {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, 0))
			s, other := s, other
			for range 200 {
				s, other = other, s
				o, err := s.Give(Order{Verb: "block", About: fmt.Sprint(r.IntN(20)), Off: r.IntN(2) == 0},
					fmt.Sprint("a", i), begin)
				if err != nil {
					t.Error(err)
				}
				past := s.Past()
				copied := slices.Clone(past)
				other.Merge(past)
				s.Merge(other.Standing())
				s.Digest()
				if got, ok := s.Find(o.ID()); !ok || got != o || !slices.Equal(past, copied) {
					t.Errorf("%s is %v, %v", o.ID(), got, ok)
				}
			}
		})
	}
	wg.Wait()
	other.Merge(s.Past())
	if s.Digest() != other.Digest() || len(s.Past()) != 600 {
		t.Errorf("%d orders, digests %x and %x", len(s.Past()), s.Digest(), other.Digest())
	}
}
