package placement

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mathext/prng"
	"pgregory.net/rapid"
)

// TestTwister: the generator gives the published numbers.
func TestTwister(t *testing.T) {
	src := prng.NewMT19937_64()
	src.SeedFromKeys([]uint64{0x12345, 0x23456, 0x34567, 0x45678})
	// mt19937-64.out.txt by Nishimura and Matsumoto
	for i, want := range []uint64{7266447313870364031, 4946485549665804864, 16945909448695747420, 16394063075524226720,
		4873882236456199058} {
		if got := src.Uint64(); got != want {
			t.Errorf("output %d is %d, want %d", i, got, want)
		}
	}
}

// TestNamesAreSeeds: names that are prefixes of others, or that init_by_array64 could confuse, have
// no point in common.
func TestNamesAreSeeds(t *testing.T) {
	names := []string{"a", "aa", "ab", "b", "ba", "cba", "dcba", "agent-1", "agent-10", "agent-2", "\x01a", "a\x00",
		"\x00", "\x00\x00", strings.Repeat("x", maxName), strings.Repeat("x", maxName-1)}
	whose := map[uint64]string{}
	for _, name := range names {
		for _, p := range distinct(twister(name).Uint64, 1000) {
			if other, ok := whose[p]; ok {
				t.Fatalf("%q and %q have the same point", name, other)
			}
			whose[p] = name
		}
	}
}

// TestDistinct: repeated numbers are skipped, and a larger result contains a smaller one.
func TestDistinct(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nums := rapid.SliceOfN(rapid.Uint64Range(0, 30), 5, 60).Draw(t, "numbers")
		var want []uint64
		for _, n := range nums {
			if !slices.Contains(want, n) {
				want = append(want, n)
			}
		}
		want = want[:rapid.IntRange(1, len(want)).Draw(t, "n")]
		i := -1
		got := distinct(func() uint64 { i++; return nums[i] }, len(want))
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Fatalf("got %d, want %d", got, want)
		}
	})
}

// TestNearestReplica compares Owner and Nearest with a search of all replicas, also around 0 and
// for a point in the middle of two replicas.
func TestNearestReplica(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		near := rapid.Custom(func(t *rapid.T) uint64 {
			return rapid.SampledFrom([]uint64{0, 1 << 62, 1 << 63, 3 << 62}).Draw(t, "base") +
				uint64(rapid.IntRange(-20, 20).Draw(t, "off"))
		})
		agents := named(rapid.IntRange(1, 20).Draw(t, "agents"))
		var rs []replica
		for i, p := range rapid.SliceOfNDistinct(near, len(agents), 40, rapid.ID[uint64]).Draw(t, "points") {
			who := i // each agent has one replica
			if i >= len(agents) {
				who = rapid.IntRange(0, len(agents)-1).Draw(t, "whose")
			}
			rs = append(rs, replica{p, uint16(who)})
		}
		slices.SortFunc(rs, func(a, b replica) int { return cmp.Compare(a.point, b.point) })
		r := must[*Ring](t)(ringOf(agents, 1, rs))
		p := near.Draw(t, "p")
		byDistance := slices.Clone(rs)
		slices.SortFunc(byDistance, func(a, b replica) int {
			up := func(x replica) bool { return x.point-p <= p-x.point }
			d := func(x replica) uint64 { return min(x.point-p, p-x.point) }
			return cmp.Or(cmp.Compare(d(a), d(b)), map[bool]int{true: -1, false: 1}[up(a)])
		})
		var want []Owner
		for _, x := range byDistance {
			if a := agents[x.agent]; !slices.Contains(want, a) {
				want = append(want, a)
			}
		}
		if got := agents[r.owner(p)]; got != want[0] {
			t.Fatalf("owner of %d is %v, want %v", p, got, want[0])
		}
		n := rapid.IntRange(1, len(agents)).Draw(t, "t")
		if got := r.nearest(nil, p, n); !slices.Equal(got, want[:n]) {
			t.Fatalf("nearest to %d are %v, want %v", p, got, want[:n])
		}
	})
}

// TestMiddle: of two replicas at the same distance the upper one counts, also across 0.
func TestMiddle(t *testing.T) {
	r := must[*Ring](t)(ringOf(named(2), 1, []replica{{10, 0}, {1 << 63, 1}}))
	for p, want := range map[uint64]uint16{5 + 1<<62: 1, 5 + 3<<62: 0, 6 + 1<<62: 1, 4 + 1<<62: 0, 10: 0, 9: 0,
		1 << 63: 1, 1<<63 + 1: 1} {
		if got := r.owner(p); got != want {
			t.Errorf("owner of %x is %d, want %d", p, got, want)
		}
		if got := r.nearest(nil, p, 2); got[0] != r.agents[want] || len(got) != 2 {
			t.Errorf("nearest to %x are %v, want %d first", p, got, want)
		}
	}
}

// TestReplicas: an agent has kappa times its capacity replicas, and at least one. The replicas for
// a smaller kappa are among those for a larger one. So a larger kappa moves some hosts to and from
// an agent, not all.
func TestReplicas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		agents := some(t, 1, 6)
		k := rapid.IntRange(1, 300).Draw(t, "kappa")
		few, many := must[*Ring](t)(NewRing(agents, k)), must[*Ring](t)(NewRing(agents, k+1))
		points, all := map[string][]uint64{}, map[string][]uint64{}
		for _, r := range few.replicas {
			points[few.agents[r.agent].Name] = append(points[few.agents[r.agent].Name], r.point)
		}
		for _, r := range many.replicas {
			all[many.agents[r.agent].Name] = append(all[many.agents[r.agent].Name], r.point)
		}
		for _, a := range agents {
			want := max(1, int(math.Round(float64(k)*a.Capacity)))
			if got := len(points[a.Name]); got != want {
				t.Fatalf("kappa %d: %v has %d replicas, want %d", k, a, got, want)
			}
			for _, p := range points[a.Name] {
				if !slices.Contains(all[a.Name], p) {
					t.Fatalf("kappa %d: %v has a replica at %x that it has not with %d", k, a, p, k+1)
				}
			}
		}
	})
	if r := must[*Ring](t)(NewRing(named(2), 0)); len(r.replicas) != 2*Replicas {
		t.Errorf("by default two agents have %d replicas", len(r.replicas))
	}
}

// TestRangesOfReplicas: an agent's range ends where a neighbour's begins, exactly in the middle of
// two replicas, also around 0.
func TestRangesOfReplicas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		agents := named(rapid.IntRange(1, 4).Draw(t, "agents"))
		near := rapid.Custom(func(t *rapid.T) uint64 {
			return rapid.SampledFrom([]uint64{0, 1 << 62, 1 << 63}).Draw(t, "base") +
				uint64(rapid.IntRange(-9, 9).Draw(t, "off"))
		})
		var rs []replica
		for i, p := range rapid.SliceOfNDistinct(near, len(agents), 12, rapid.ID[uint64]).Draw(t, "points") {
			rs = append(rs, replica{p, uint16(i % len(agents))})
		}
		slices.SortFunc(rs, func(a, b replica) int { return cmp.Compare(a.point, b.point) })
		r := must[*Ring](t)(ringOf(agents, 1, rs))
		checkRanges(t, r, func(p uint64) Owner { return agents[r.owner(p)] })
	})
}

// TestConflict: two agents with the same point are refused by name, in any order.
func TestConflict(t *testing.T) {
	agents := named(3)
	_, err := ringOf(agents, 1, []replica{{5, 0}, {9, 2}, {9, 1}, {12, 0}})
	checkConflict(t, err)
	_, err = rendezvousOf(agents, 16, func(name string) uint64 { return uint64(len(strings.TrimRight(name, "12"))) })
	checkConflict(t, err)
}

func checkConflict(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, ErrConflict) || !strings.Contains(err.Error(), `"agent-1" and "agent-2"`) ||
		!strings.Contains(err.Error(), "choose another name") {
		t.Errorf("conflict: %v", err)
	}
}

func TestErrors(t *testing.T) { each(t, testErrors[*Ring], testErrors[*Rendezvous]) }

func testErrors[T changing[T]](t *testing.T, build func([]Owner) (T, error)) {
	x := must[T](t)(build([]Owner{{"a", 1}, {"b", 1}}))
	for _, test := range []struct {
		agent Owner
		err   error
		says  string
	}{
		{Owner{"", 1}, ErrAgent, "name is empty"},
		{Owner{strings.Repeat("n", 256), 1}, ErrAgent, "256 octets"},
		{Owner{"c", 0}, ErrAgent, "capacity 0"},
		{Owner{"c", -1}, ErrAgent, "capacity -1"},
		{Owner{"c", math.NaN()}, ErrAgent, "capacity NaN"},
		{Owner{"c", math.Inf(1)}, ErrAgent, "capacity +Inf"},
		{Owner{"c", 1001}, ErrAgent, "at most 1000"},
		{Owner{"a", 2}, ErrDuplicate, `"a"`},
	} {
		for how, err := range map[string]error{"With": second(x.With(test.agent)),
			"New": second(build([]Owner{{"a", 1}, test.agent}))} {
			if !errors.Is(err, test.err) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%s %v: %v", how, test.agent, err)
			}
		}
	}
	many := make([]Owner, 2000)
	for i := range many {
		many[i] = Owner{fmt.Sprint(i), 1000}
	}
	for _, test := range []struct {
		what string
		err  error
		want error
	}{
		{"none", second(build(nil)), ErrEmpty},
		{"too much", second(build(many)), ErrAgent},
		{"too many", second(build(make([]Owner, maxAgents+1))), ErrAgent},
		{"unknown", second(x.Without("c")), ErrUnknown},
		{"last", second(must[T](t)(x.Without("a")).Without("b")), ErrEmpty},
	} {
		if !errors.Is(test.err, test.want) {
			t.Errorf("%s: %v", test.what, test.err)
		}
	}
	for _, k := range []int{-1, MaxReplicas + 1} {
		if _, err := NewRing(named(1), k); err == nil {
			t.Errorf("%d replicas", k)
		}
	}
	for _, n := range []int{-1, 1, 3, 1 << 27} {
		if _, err := NewRendezvous(named(1), n); err == nil {
			t.Errorf("%d buckets", n)
		}
	}
	// Arguments and results are copies.
	given := []Owner{{"b", 1}, {"a", 1}}
	y := must[T](t)(build(given))
	owner := y.Owner(1)
	given[0].Name, given[1].Name = "x", "y"
	y.Agents()[0].Name = "z"
	if y.Owner(1) != owner || y.Agents()[0].Name != "a" {
		t.Error("a value has changed")
	}
}

func second[T any](_ T, err error) error { return err }

// TestExponential: the logarithm does not rise with h. Its error is at most 1 in 8,000 of the
// number, plus 2e-8.
func TestExponential(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := rapid.Uint64().Draw(t, "h")
		if rapid.Bool().Draw(t, "top") {
			h = ^(h >> rapid.IntRange(1, 60).Draw(t, "by"))
		}
		got := float64(exponential(h)) / (1 << logBits)
		// The difference to 1 is exact; a logarithm near 1 is not.
		u, _ := new(big.Float).SetInt(new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 64),
			new(big.Int).SetUint64(h))).Float64()
		want := -math.Log1p(-u/(1<<64)) / math.Ln2
		if h < 1<<63 {
			want = 64 - math.Log2(float64(max(h, 1)))
		}
		if math.Abs(got-want) > min(want/8000+1.0/(1<<logBits), 2e-8) {
			t.Fatalf("-log2(%x/2^64) = %v, want %v", h, got, want)
		}
		if g := h + 1 + rapid.Uint64Range(0, 1<<rapid.IntRange(0, 60).Draw(t, "bits")).Draw(t, "step"); g > h &&
			exponential(g) > exponential(h) {
			t.Fatalf("rises from %x to %x", h, g)
		}
	})
	if exponential(0) != 64<<logBits || exponential(math.MaxUint64) == 0 {
		t.Error("at the ends")
	}
	for i := range 1 << cellBits {
		h := uint64(1<<cellBits+i) << (63 - cellBits)
		if exponential(h) >= exponential(h-1) {
			t.Errorf("does not fall at cell %d", i)
		}
	}
}

// TestLots compares the numbers with a direct computation from the format.
func TestLots(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		agents := some(t, 2, 8)
		r := must[*Rendezvous](t)(NewRendezvous(agents, 64))
		key := rapid.Uint64().Draw(t, "key")
		b := int(Point(key) >> 58)
		number := func(a Owner) *big.Rat {
			i := slices.Index(r.agents, a)
			return big.NewRat(1, 1).SetFrac(new(big.Int).SetUint64(exponential(r.draw(i, b).hash)),
				big.NewInt(int64(a.weight(Replicas))))
		}
		order := r.Nearest(nil, key, len(agents))
		for i := 1; i < len(order); i++ {
			if number(order[i-1]).Cmp(number(order[i])) > 0 {
				t.Fatalf("%v comes before %v", order[i-1], order[i])
			}
		}
	})
}

// TestGolden has the values on which agents of two versions must agree.
func TestGolden(t *testing.T) {
	agents := []Owner{{"amber", 1}, {"birch", 1}, {"cedar", 2}, {"dune", 0.5}, {"élan", 3.25}}
	ring := must[*Ring](t)(NewRing(agents, 0))
	rendezvous := must[*Rendezvous](t)(NewRendezvous(agents, 0))
	even := must[*Rendezvous](t)(NewRendezvous(named(7), 0))
	var got bytes.Buffer
	fmt.Fprintf(&got, "replicas %x\n", distinct(twister("amber").Uint64, 3))
	fmt.Fprintf(&got, "numbers %x %x %x\n", exponential(1), exponential(0x123456789abcdef0),
		exponential(0xfffffffffffff000))
	for _, host := range []string{"a.example", "example.org", "www.example.com", "xn--bcher-kva.example", "192.0.2.1",
		"[2001:db8::1]"} {
		key := keyOf(host)
		fmt.Fprintf(&got, "%s %016x ring", host, Point(key))
		for _, a := range ring.Nearest(nil, key, 5) {
			fmt.Fprintf(&got, " %s", a.Name)
		}
		fmt.Fprint(&got, " rendezvous")
		for _, a := range rendezvous.Nearest(nil, key, 5) {
			fmt.Fprintf(&got, " %s", a.Name)
		}
		fmt.Fprintf(&got, " even %s\n", even.Owner(key).Name)
	}
	if got.String() != golden {
		t.Errorf("hosts have moved:\n%s", got.String())
	}
}

const golden = `replicas [314d8de8a3bf643e 87a7549782176291 c1a0e4cb6c8bc010]
numbers 8000000000000000 7a0a7ede49164e0 2f
a.example 78aca72056c005a5 ring dune élan birch amber cedar rendezvous cedar élan amber dune birch even agent-1
example.org f3c22f57664baecb ring élan amber dune cedar birch rendezvous amber birch élan cedar dune even agent-4
www.example.com d1500057dd130cc1 ring élan dune birch cedar amber rendezvous élan cedar dune amber birch even agent-5
xn--bcher-kva.example 9ff63df734a1545c ring élan cedar dune birch amber rendezvous élan dune amber cedar birch even agent-2
192.0.2.1 7a2dda3caf1beaa9 ring élan amber birch dune cedar rendezvous élan cedar amber dune birch even agent-4
[2001:db8::1] 11ce8ff13764a175 ring élan cedar dune birch amber rendezvous élan birch cedar dune amber even agent-1
`
