package placement

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestContravariance: a host moves to an agent that joins or from an agent that leaves, and never
// between two others. A host's order of some agents is its order of all agents without the others.
// The value for a set of agents does not depend on how it was made.
func TestContravariance(t *testing.T) {
	each(t, testContravariance[*Ring], testContravariance[*Rendezvous])
}

func testContravariance[T changing[T]](t *testing.T, build func([]Owner) (T, error)) {
	rapid.Check(t, func(t *rapid.T) {
		agents := some(t, 1, 9)
		all := must[T](t)(build(agents))
		if other := must[T](t)(build(shuffled(t, agents))); !reflect.DeepEqual(all, other) {
			t.Fatal("the order in which agents are given matters")
		}
		n := rapid.IntRange(1, len(agents)).Draw(t, "that stay")
		stay, leave := agents[:n], agents[n:]
		part := must[T](t)(build(stay))
		less, more := all, part
		for _, a := range leave {
			less = must[T](t)(less.Without(a.Name))
			more = must[T](t)(more.With(a))
		}
		if !reflect.DeepEqual(less, part) {
			t.Fatal("Without differs from a set without the agent")
		}
		if !reflect.DeepEqual(more, all) {
			t.Fatal("With differs from a set with the agent")
		}
		for _, key := range keys(rapid.Uint64().Draw(t, "hosts"), 200) {
			before, after := part.Owner(key), all.Owner(key)
			if before != after && slices.Contains(stay, after) {
				t.Fatalf("host %x moved from %v to %v when %v came", key, before, after, leave)
			}
			order := all.Nearest(nil, key, len(agents))
			if order[0] != after || !sameSet(order, agents) {
				t.Fatalf("host %x of %v has the order %v", key, after, order)
			}
			want := slices.DeleteFunc(slices.Clone(order), func(a Owner) bool { return !slices.Contains(stay, a) })
			if got := part.Nearest(nil, key, len(stay)); !slices.Equal(got, want) {
				t.Fatalf("order of a part %v, of all %v", got, order)
			}
			first := rapid.IntRange(-1, len(agents)+1).Draw(t, "t")
			kept := Owner{Name: "kept"}
			want = append([]Owner{kept}, order[:max(0, min(first, len(order)))]...)
			if got := all.Nearest([]Owner{kept}, key, first); !slices.Equal(got, want) {
				t.Fatalf("the first %d: %v, want %v", first, got, want)
			}
		}
	})
}

func sameSet(a, b []Owner) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.SortFunc(a, byName)
	slices.SortFunc(b, byName)
	return slices.Equal(a, b)
}

// TestHeir: the agent that owned the hosts of a new agent is second in their order. So UbiCrawler
// finds the agent that has fetched their pages. If the new agent leaves, the heir owns the hosts.
func TestHeir(t *testing.T) { each(t, testHeir[*Ring], testHeir[*Rendezvous]) }

func testHeir[T changing[T]](t *testing.T, build func([]Owner) (T, error)) {
	rapid.Check(t, func(t *rapid.T) {
		agents := some(t, 2, 8)
		newcomer := agents[0]
		after := must[T](t)(build(agents))
		before := must[T](t)(after.Without(newcomer.Name))
		for _, key := range keys(rapid.Uint64().Draw(t, "hosts"), 200) {
			two := after.Nearest(nil, key, 2)
			was := before.Owner(key)
			if two[0] == newcomer && two[1] != was || two[0] != newcomer && two[0] != was {
				t.Fatalf("host %x: %v was the owner, %v are first with %v", key, was, two, newcomer)
			}
		}
	})
}

// TestRanges: the ranges of all agents cover the circle, and agree with Owner.
func TestRanges(t *testing.T) { each(t, testRanges[*Ring], testRanges[*Rendezvous]) }

func testRanges[T changing[T]](t *testing.T, build func([]Owner) (T, error)) {
	rapid.Check(t, func(t *rapid.T) {
		x := must[T](t)(build(some(t, 1, 6)))
		for r := range x.Ranges("nobody's") {
			t.Fatalf("a range of no agent: %v", r)
		}
		owner := checkRanges(t, x, nil)
		for _, key := range keys(rapid.Uint64().Draw(t, "hosts"), 200) {
			if got, want := owner(Point(key)), x.Owner(key); got != want {
				t.Fatalf("host %x of %v is in a range of %v", key, want, got)
			}
		}
	})
}

// checkRanges fails if the ranges of all agents of x do not cover the circle. It returns the owner
// of a point according to the ranges. owner, if not nil, returns the expected owner.
func checkRanges(t *rapid.T, x Placement, owner func(point uint64) Owner) func(point uint64) Owner {
	type piece struct {
		Range
		agent Owner
	}
	var pieces []piece
	for _, a := range x.Agents() {
		rs := slices.Collect(x.Ranges(a.Name))
		for r := range x.Ranges(a.Name) { // a caller may stop
			if r != rs[0] {
				t.Fatalf("the first range of %v is %x, and %x", a, r, rs[0])
			}
			break
		}
		for i, r := range rs {
			if r.First > r.Last || i > 0 && r.First-1 <= rs[i-1].Last {
				t.Fatalf("range %d of %v is %x", i, a, r)
			}
			pieces = append(pieces, piece{r, a})
		}
	}
	slices.SortFunc(pieces, func(a, b piece) int { return cmp.Compare(a.First, b.First) })
	from := uint64(0)
	for i, p := range pieces {
		if p.First != from || i > 0 && from == 0 {
			t.Fatalf("a range begins at %x, want %x", p.First, from)
		}
		if owner != nil && (owner(p.First) != p.agent || owner(p.Last) != p.agent) {
			t.Fatalf("%x is said to be %v's", p.Range, p.agent)
		}
		from = p.Last + 1
	}
	if from != 0 {
		t.Fatalf("no agent owns the points from %x on", from)
	}
	return func(point uint64) Owner {
		i, found := slices.BinarySearchFunc(pieces, point,
			func(p piece, at uint64) int { return cmp.Compare(p.First, at) })
		if !found {
			i--
		}
		return pieces[i].agent
	}
}

// TestCapacityGrows: an agent whose capacity grows takes hosts from others and gives none to them.
func TestCapacityGrows(t *testing.T) {
	each(t, testCapacityGrows[*Ring], testCapacityGrows[*Rendezvous])
}

func testCapacityGrows[T changing[T]](t *testing.T, build func([]Owner) (T, error)) {
	rapid.Check(t, func(t *rapid.T) {
		agents := some(t, 2, 6)
		small := must[T](t)(build(agents))
		grown := agents[0]
		grown.Capacity *= rapid.Float64Range(1, 3).Draw(t, "by")
		large := must[T](t)(must[T](t)(small.Without(grown.Name)).With(grown))
		for _, key := range keys(rapid.Uint64().Draw(t, "hosts"), 200) {
			if a, b := small.Owner(key), large.Owner(key); a.Name != b.Name && b.Name != grown.Name {
				t.Fatalf("host %x moved from %v to %v when %v grew", key, a, b, grown)
			}
		}
	})
}

// TestBalance: with any names, each agent has its share of the hosts, within five standard
// deviations. For random replicas, a share is a sum of w parts of the circle, with a deviation of
// 1/sqrt(2w). For buckets it is n trials.
func TestBalance(t *testing.T) {
	each(t, func(t *testing.T, build func([]Owner) (*Ring, error)) {
		k := must[*Ring](t)(build(named(1))).k
		testBalance(t, build, 100/float64(k), func(share, capacity float64) float64 {
			return share / math.Sqrt(2*float64(k)*capacity)
		})
	}, func(t *testing.T, build func([]Owner) (*Rendezvous, error)) {
		testBalance(t, build, 0, func(share, _ float64) float64 { return math.Sqrt(share * (1 - share) / (1 << 10)) })
	})
}

// testBalance gives each agent at least a capacity, because the normal law needs 100 replicas.
func testBalance[T changing[T]](t *testing.T, build func([]Owner) (T, error), least float64,
	deviation func(share, capacity float64) float64) {
	rapid.Check(t, func(t *rapid.T) {
		agents := some(t, 2, 12)
		for i := range agents {
			agents[i].Capacity = max(agents[i].Capacity, 0.5, least)
		}
		x := must[T](t)(build(agents))
		total, sum := 0.0, 0.0
		for _, a := range agents {
			total += a.Capacity
		}
		for i, a := range x.Agents() {
			share, want := x.Shares()[i], a.Capacity/total
			sum += share
			if d := deviation(want, a.Capacity); math.Abs(share-want) > 5*d {
				t.Fatalf("%v of %v has %.4f of the hosts, should have %.4f with a deviation of %.4f", a, agents, share,
					want, d)
			}
		}
		if math.Abs(sum-1) > 1e-9 {
			t.Fatalf("shares come to %v", sum)
		}
	})
}

// TestShares: the shares of many hosts approach Shares.
func TestShares(t *testing.T) { each(t, testShares[*Ring], testShares[*Rendezvous]) }

func testShares[T changing[T]](t *testing.T, build func([]Owner) (T, error)) {
	x := must[T](t)(build([]Owner{{"a", 1}, {"b", 2}, {"c", 0.5}, {"d", 4}}))
	counts := map[string]float64{}
	const hosts = 100_000
	for _, key := range keys(1, hosts) {
		counts[x.Owner(key).Name]++
	}
	for i, a := range x.Agents() {
		got, want := counts[a.Name]/hosts, x.Shares()[i]
		if d := math.Sqrt(want * (1 - want) / hosts); math.Abs(got-want) > 5*d {
			t.Errorf("%s has %.4f of the hosts, its share is %.4f", a.Name, got, want)
		}
	}
	one := must[T](t)(build([]Owner{{"alone", 0.001}}))
	if s := one.Shares(); !slices.Equal(s, []float64{1}) || one.Owner(7).Name != "alone" ||
		len(one.Nearest(nil, 7, 3)) != 1 {
		t.Errorf("the share of a single agent is %v", s)
	}
}

// TestOwnerSaysNothingOfTheKey: an agent's hosts are spread evenly over the parts of a store that
// is split by the key or by drum's scrambled key, even with the seed 0.
func TestOwnerSaysNothingOfTheKey(t *testing.T) {
	each(t, testUncorrelated[*Ring], testUncorrelated[*Rendezvous])
}

func testUncorrelated[T changing[T]](t *testing.T, build func([]Owner) (T, error)) {
	murmur := func(x uint64) uint64 { // the hash of package drum
		x = (x ^ x>>33) * 0xff51afd7ed558ccd
		x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
		return x ^ x>>33
	}
	x := must[T](t)(build(named(4)))
	const hosts, parts = 200_000, 256
	for name, place := range map[string]func(uint64) uint64{
		"key": func(k uint64) uint64 { return k }, "low bits": func(k uint64) uint64 { return k << 56 },
		"drum": murmur, "drum, seed": func(k uint64) uint64 { return murmur(k ^ 0x1234567890abcdef) },
	} {
		counts := map[string]*[parts]float64{}
		for _, key := range keys(2, hosts) {
			who := x.Owner(key).Name
			if counts[who] == nil {
				counts[who] = new([parts]float64)
			}
			counts[who][place(key)>>56]++
		}
		if len(counts) != 4 {
			t.Fatalf("%d agents have hosts", len(counts))
		}
		for who, c := range counts {
			all, chi := 0.0, 0.0
			for _, n := range c {
				all += n
			}
			for _, n := range c {
				chi += (n - all/parts) * (n - all/parts) / (all / parts)
			}
			// Chi square with 255 degrees of freedom: 255 +- 22.6.
			if chi > 255+6*22.6 {
				t.Errorf("%s, %s: chi square %.0f", name, who, chi)
			}
		}
	}
}

// TestAllocations: look-ups do not allocate.
func TestAllocations(t *testing.T) { each(t, testAllocations[*Ring], testAllocations[*Rendezvous]) }

func testAllocations[T changing[T]](t *testing.T, build func([]Owner) (T, error)) {
	x := must[T](t)(build(append(named(20), Owner{"big", 3})))
	buf := make([]Owner, 0, 16)
	key := uint64(0)
	if n := testing.AllocsPerRun(1000, func() {
		key += gamma
		buf = append(buf[:0], x.Owner(key))
		buf = x.Nearest(buf[:0], key, 16)
	}); n != 0 || len(buf) != 16 {
		t.Errorf("%v allocations, %d agents", n, len(buf))
	}
}

func ExampleRing() {
	r, err := NewRing([]Owner{{"amber", 1}, {"birch", 1}, {"cedar", 2}}, 0)
	if err != nil {
		panic(err)
	}
	for _, a := range r.Nearest(nil, 42, 3) {
		fmt.Print(a.Name, " ")
	}
	// Output: cedar birch amber
}
