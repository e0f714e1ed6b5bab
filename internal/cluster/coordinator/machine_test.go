package coordinator

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/orbweaver/orbweaver/internal/cluster/assignment"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func openMachine(t testing.TB, fs disk.FS) *Machine {
	t.Helper()
	m := must.Get(OpenMachine(MachineConfig{FS: fs, Dir: "coordinator", MemoryBytes: 1 << 20}))(t)
	return m
}

func closeMachine(t testing.TB, m *Machine) {
	t.Helper()
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}

func member(name string, capacity float64) assignment.Member {
	return assignment.Member{Name: name, Instance: [16]byte{1}, Boot: 1, Capacity: capacity, Addr: "192.0.2.1:7470",
		State: assignment.Up}
}

// rosterOf returns a roster of agents with these capacities, which are called a, b, and so on.
func rosterOf(capacities ...float64) *assignment.Roster {
	r := &assignment.Roster{}
	for i, c := range capacities {
		r.Members = append(r.Members, member(string(rune('a'+i)), c))
	}
	return r
}

// read returns all entries from a number on, in calls that begin where the last one ended.
func read(t testing.TB, m *Machine, from uint64) (es []assignment.Entry) {
	t.Helper()
	for {
		data, _, err := m.entries(from)
		must.Do(t, err)
		if len(data) == 0 {
			return es
		}
		for len(data) > 0 {
			e, rest, err := assignment.Decode(data)
			if err != nil || e.Number != from {
				t.Fatalf("entry %d, want %d: %v", e.Number, from, err)
			}
			es, data = append(es, e), rest
			from++
		}
	}
}

// snapshotOf returns the bytes of the machine's snapshot.
func snapshotOf(t testing.TB, m *Machine) []byte {
	t.Helper()
	s := must.Get(m.Snapshot())(t)
	defer s.Release()
	var b bytes.Buffer
	must.Do(t, s.Write(&b))
	return b.Bytes()
}

// randomCommand returns a command; some are malformed or stale.
func randomCommand(r *rand.Rand, m *Machine) []byte {
	roster := m.Roster()
	switch r.IntN(12) {
	case 0:
		next := &assignment.Roster{Lost: roster.Lost}
		for i := range 8 {
			if r.IntN(3) > 0 {
				a := member(string(rune('a'+i)), float64(1+r.IntN(4))/2)
				a.State, a.Instance[0] = assignment.Up+assignment.State(r.IntN(5)/4), byte(r.IntN(2))
				next.Members = append(next.Members, a)
			}
		}
		return encodeRoster(roster.Term-uint64(r.IntN(5)/4), 0, next)
	case 1:
		return encode(cmdClaim, Claim{Crawl: [16]byte{byte(r.IntN(256))}, Group: [16]byte{byte(r.IntN(256))},
			Settings: map[string]string{"a": fmt.Sprint(r.IntN(9))}})
	case 2:
		return encode(cmdRead, map[string]uint64{string(rune('a' + r.IntN(8))): uint64(r.IntN(int(roster.Term) + 2))})
	case 3:
		return []byte{cmdNothing}
	case 4:
		b := encodeAssign(assign{}, []string{"a.example"})
		return b[:r.IntN(len(b))]
	}
	var a assign
	if r.IntN(2) == 0 {
		a.Loads, a.Unit = map[string]uint64{}, 1+r.Uint64N(5)
		for i := range r.IntN(8) {
			a.Loads[string(rune('a'+i))] = r.Uint64N(100)
		}
	} else if r.IntN(3) == 0 {
		a.Away = []string{"a", "c"}
	}
	hosts := make([]string, 1+r.IntN(200))
	for i := range hosts {
		hosts[i] = fmt.Sprintf("h%d.example", r.IntN(20_000))
	}
	return encodeAssign(a, hosts)
}

// TestReplicas gives the same commands to two machines. One of them is replaced now and then by a machine that is made
// of a snapshot; some of the snapshots were taken earlier and are written later.
func TestReplicas(t *testing.T) {
	r := testseed.Rand(t)
	one, two := openMachine(t, testdisk.NewMem()), openMachine(t, testdisk.NewMem())
	defer func() { closeMachine(t, one); closeMachine(t, two) }()
	owner := map[string]string{}
	for i := range 600 {
		c := randomCommand(r, one)
		a, b := one.Apply(uint64(i), c), two.Apply(uint64(i), c)
		if fmt.Sprint(a) != fmt.Sprint(b) {
			t.Fatalf("command %d: results %v and %v", i, a, b)
		}
		if one.Digest() != two.Digest() {
			t.Fatalf("command %d: the machines differ", i)
		}
		if r.IntN(40) > 0 {
			continue
		}
		from := two
		if r.IntN(2) == 0 {
			from = one
		}
		s := must.Get(from.Snapshot())(t)
		later := randomCommand(r, one)
		one.Apply(0, later)
		var b2 bytes.Buffer
		must.Do(t, s.Write(&b2))
		if r.IntN(2) == 0 { // into a machine that has other entries
			two.Apply(0, later)
			two.Apply(0, encodeAssign(assign{}, []string{"elsewhere.example"}))
		} else {
			closeMachine(t, two)
			two = openMachine(t, testdisk.NewMem())
		}
		must.Do(t, two.Restore(&b2))
		s.Release()
		if two.Apply(0, later); one.Digest() != two.Digest() {
			t.Fatalf("command %d: the machines differ after a restore", i)
		}
	}
	all := read(t, one, 1)
	for _, e := range all {
		for _, s := range e.Shares {
			for _, h := range s.Hosts {
				if other := owner[h]; other != "" {
					t.Fatalf("%s is assigned to %s and to %s", h, other, s.Agent)
				}
				owner[h] = s.Agent
			}
		}
	}
	hosts, by := one.counts()
	got := uint64(0)
	for _, n := range by {
		got += n
	}
	if hosts != uint64(len(owner)) || got != hosts || hosts < 5000 {
		t.Errorf("%d hosts, %d by agent, %d in the stream", hosts, got, len(owner))
	}
	for range 20 {
		from := uint64(1 + r.IntN(len(all)+1))
		if rest := read(t, two, from); len(rest) != len(all)-int(from-1) {
			t.Errorf("%d entries from %d on, of %d", len(rest), from, len(all))
		}
	}
	hostsOf := slices.Collect(maps.Keys(owner))
	numbers, err := two.check(append(hostsOf[:1000:1000], "nowhere.example"))
	if err != nil || numbers[1000] != 0 {
		t.Errorf("a host that nobody named has the number %d, %v", numbers[1000], err)
	}
	for i, h := range hostsOf[:1000] {
		n := numbers[i]
		if n == 0 || !slices.ContainsFunc(all[n-1].Shares, func(s assignment.Share) bool {
			return s.Agent == owner[h] && slices.Contains(s.Hosts, h)
		}) {
			t.Fatalf("%s has the number %d, whose entry does not have it", h, n)
		}
	}
}

// TestShares compares the turns with exact shares, after every host.
func TestShares(t *testing.T) {
	r := testseed.Rand(t)
	for range 50 {
		capacities := make([]float64, 1+r.IntN(12))
		for i := range capacities {
			capacities[i] = 0.1 + 3*r.Float64()
			if r.IntN(2) == 0 {
				capacities[i] = 1
			}
		}
		roster := rosterOf(capacities...)
		c := chooser{}
		got, total := make([]float64, len(capacities)), 0.0
		for _, m := range roster.Members {
			total += float64(weight(m.Capacity))
		}
		for n := range 5000 {
			if n%100 == 0 && !c.candidates(roster, nil) {
				t.Fatal("no candidates")
			}
			got[c.next()]++
			for i, m := range roster.Members {
				want := float64(n+1) * float64(weight(m.Capacity)) / total
				if d := got[i] - want; d >= 1.0001 || d <= -1.0001 {
					t.Fatalf("after %d hosts agent %s of %v has %v, its share is %.2f", n+1, m.Name, capacities, got[i],
						want)
				}
			}
		}
	}
}

// TestTakesTurns shows the paper's round-robin.
func TestTakesTurns(t *testing.T) {
	m := openMachine(t, testdisk.NewMem())
	defer closeMachine(t, m)
	if err := m.Apply(1, encodeAssign(assign{}, []string{"h0.example"})); err != errNobody {
		t.Errorf("without agents: %v", err)
	}
	m.Apply(2, encodeRoster(0, 0, rosterOf(1, 1, 1)))
	for i := range 7 {
		m.Apply(uint64(i), encodeAssign(assign{}, []string{fmt.Sprintf("h%d.example", i)}))
	}
	got := ""
	for _, e := range read(t, m, 2) {
		got += e.Shares[0].Agent
	}
	if got != "abcabca" {
		t.Errorf("got %s", got)
	}
	m.Apply(9, encodeAssign(assign{Away: []string{"a", "b"}}, []string{"x.example", "y.example"}))
	m.Apply(10, encodeAssign(assign{Away: []string{"a", "b", "c"}}, []string{"z.example"}))
	last := read(t, m, 9)
	if s := last[0].Shares; len(s) != 1 || s[0].Agent != "c" || len(last) != 2 {
		t.Errorf("with agents away: %+v", last)
	}
}

// TestLeastLoaded assigns hosts whose sizes follow a power law, in small commands. The hosts' URLs become known when
// they are assigned. Least-loaded must divide the URLs more evenly.
func TestLeastLoaded(t *testing.T) {
	r := testseed.Rand(t)
	spread := func(least bool, sizes []uint64) float64 {
		m := openMachine(t, testdisk.NewMem())
		defer closeMachine(t, m)
		m.Apply(1, encodeRoster(0, 0, rosterOf(1, 1, 1, 1)))
		load := map[string]uint64{}
		for i := 0; i < len(sizes); i += 5 {
			var hosts []string
			for j := i; j < min(i+5, len(sizes)); j++ {
				hosts = append(hosts, fmt.Sprintf("h%d.example", j))
			}
			var a assign
			if least {
				a = assign{Loads: load, Unit: 20}
			}
			last, _ := m.Extent()
			m.Apply(uint64(i), encodeAssign(a, hosts))
			for _, s := range read(t, m, last+1)[0].Shares {
				for _, h := range s.Hosts {
					var n int
					fmt.Sscanf(h, "h%d.", &n)
					load[s.Agent] += sizes[n]
				}
			}
		}
		all := slices.Sorted(maps.Values(load))
		return float64(all[3]-all[0]) / float64(all[3])
	}
	var rr, ll float64
	for range 5 {
		sizes := make([]uint64, 2000)
		for i := range sizes {
			sizes[i] = uint64(min(100_000, 1/(0.00001+r.Float64())))
		}
		rr, ll = rr+spread(false, sizes)/5, ll+spread(true, sizes)/5
	}
	t.Logf("largest less smallest load, by the largest: %.3f in turns, %.3f least-loaded", rr, ll)
	if ll > rr {
		t.Errorf("least-loaded is less even: %.3f, in turns %.3f", ll, rr)
	}
}

// TestDiskFails fails each change of the disk in turn. The machine must fail, and not answer wrongly.
func TestDiskFails(t *testing.T) {
	r := testseed.Rand(t)
	var log [][]byte
	good := openMachine(t, testdisk.NewMem())
	defer closeMachine(t, good)
	for i := range 20 {
		c := randomCommand(r, good)
		if i == 0 {
			c = encodeRoster(0, 0, rosterOf(1, 1))
		}
		log = append(log, c)
		good.Apply(uint64(i), c)
	}
	snapshot := snapshotOf(t, good)
	run := func(fs disk.FS) error {
		m, err := OpenMachine(MachineConfig{FS: fs, Dir: "coordinator", MemoryBytes: 1 << 20})
		if err != nil {
			return err
		}
		defer m.Close()
		for i, c := range log {
			m.Apply(uint64(i), c)
			select {
			case err := <-m.Failed():
				if _, err := m.Snapshot(); err == nil {
					t.Error("a snapshot of a machine that has failed")
				}
				return err
			default:
			}
		}
		if m.Digest() != good.Digest() {
			t.Error("a machine that did not fail differs")
		}
		return m.Restore(bytes.NewReader(snapshot))
	}
	f := testdisk.NewFaulty(testdisk.NewMem(), nil)
	must.Do(t, run(f))
	_, changes := f.Calls()
	broken := errors.New("the disk is broken")
	failed := 0
	for n := range changes {
		if err := run(testdisk.NewFaulty(testdisk.NewMem(), testdisk.FailFrom(n, broken))); err != nil {
			failed++
			if !errors.Is(err, broken) {
				t.Errorf("change %d: %v", n, err)
			}
		}
	}
	if failed < 20 {
		t.Errorf("%d of %d faults were noticed", failed, changes)
	}
}

// TestDamagedSnapshot changes and cuts a snapshot. Restore must find it, and keep the state.
func TestDamagedSnapshot(t *testing.T) {
	r := testseed.Rand(t)
	m := openMachine(t, testdisk.NewMem())
	defer closeMachine(t, m)
	m.Apply(1, encodeRoster(0, 0, rosterOf(1, 1)))
	for i := range 10 {
		m.Apply(uint64(i), randomCommand(r, m))
	}
	good, was := snapshotOf(t, m), m.Digest()
	for i := range 300 {
		b := slices.Clone(good)
		if i%2 == 0 {
			b = b[:r.IntN(len(b))]
		} else {
			b[r.IntN(len(b))] ^= 1 << r.IntN(8)
		}
		if err := m.Restore(bytes.NewReader(b)); !errors.Is(err, ErrSnapshot) {
			t.Fatalf("damage %d: %v", i, err)
		}
		if m.Digest() != was {
			t.Fatalf("damage %d changed the state", i)
		}
	}
	err := m.Restore(io.MultiReader(bytes.NewReader(good), bytes.NewReader(good[:1])))
	if !errors.Is(err, ErrSnapshot) {
		t.Errorf("one byte more: %v", err)
	}
	if err := m.Restore(bytes.NewReader(good)); err != nil || m.Digest() != was {
		t.Errorf("the good snapshot: %v", err)
	}
}

// FuzzApply applies any bytes. The machine must stay usable.
func FuzzApply(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	seeds := openMachine(f, testdisk.NewMem())
	for range 30 {
		c := randomCommand(r, seeds)
		f.Add(c)
		seeds.Apply(1, c)
	}
	closeMachine(f, seeds)
	f.Fuzz(func(t *testing.T, command []byte) {
		m := openMachine(t, testdisk.NewMem())
		defer closeMachine(t, m)
		m.Apply(1, encodeRoster(0, 0, rosterOf(1)))
		m.Apply(2, command)
		select {
		case err := <-m.Failed():
			t.Fatal(err)
		default:
		}
		snapshotOf(t, m)
	})
}
