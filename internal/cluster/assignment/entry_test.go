package assignment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
)

// hosts returns n distinct hosts with names of ordinary length.
func hosts(r *rand.Rand, n int) []string {
	tops := []string{"com", "org", "net", "de", "co.uk", "fr"}
	seen := map[string]bool{}
	for len(seen) < n {
		name := ""
		for range 2 + r.IntN(4) {
			name += string("bcdfghklmnprstvw"[r.IntN(16)]) + string("aeiou"[r.IntN(5)])
		}
		if r.IntN(2) == 0 {
			name = "www." + name
		}
		seen[name+"."+tops[r.IntN(len(tops))]] = true
	}
	out := make([]string, 0, n)
	for h := range seen {
		out = append(out, h)
	}
	slices.Sort(out)
	return out
}

func shares(r *rand.Rand, n, agents int) []Share {
	out := make([]Share, min(n, agents))
	for i := range out {
		out[i].Agent = fmt.Sprintf("agent-%04d", i)
	}
	for i, h := range hosts(r, n) {
		s := &out[i%len(out)]
		s.Hosts = append(s.Hosts, h)
	}
	return out
}

func roster(r *rand.Rand, n int) *Roster {
	m := func(i int) Member {
		return Member{Name: fmt.Sprintf("agent-%04d", i), Instance: [16]byte{byte(i), byte(r.IntN(256))},
			Boot: r.Uint64() >> r.IntN(64), Capacity: 0.5 + r.Float64(), Addr: fmt.Sprintf("192.0.2.%d:7470", i%256),
			State: Up + State(r.IntN(2))}
	}
	out := &Roster{Ended: r.IntN(4) == 0}
	for i := range n {
		if r.IntN(5) > 0 {
			out.Members = append(out.Members, m(i))
		}
		if r.IntN(5) == 0 {
			out.Lost = append(out.Lost, m(i))
		}
	}
	return out
}

func TestStream(t *testing.T) {
	r := testseed.Rand(t)
	var want []Entry
	var b []byte
	for n := range uint64(60) {
		e := Entry{Number: n + 1}
		if r.IntN(3) == 0 {
			e.Roster = roster(r, r.IntN(20))
			e.Roster.Term = e.Number
		} else {
			e.Shares = shares(r, 1+r.IntN(200), 1+r.IntN(10))
		}
		want, b = append(want, e), e.AppendTo(b)
	}
	for i, w := range want {
		e, rest, err := Decode(b)
		if err != nil || !reflect.DeepEqual(e, w) {
			t.Fatalf("entry %d: got %+v, %v; want %+v", i, e, err, w)
		}
		for cut := range len(b) - len(rest) {
			if i < 8 {
				if _, _, err := Decode(b[:cut]); !errors.Is(err, ErrMalformed) {
					t.Fatalf("entry %d, the first %d bytes: %v", i, cut, err)
				}
			}
		}
		b = rest
	}
	if len(b) > 0 {
		t.Errorf("%d bytes are left", len(b))
	}
}

// TestLargest encodes entries at the limits.
func TestLargest(t *testing.T) {
	r := testseed.Rand(t)
	long := Entry{Number: 1<<64 - 1, Shares: []Share{{Agent: strings.Repeat("a", maxName)}}}
	for n := 0; n+254 <= MaxHostBytes; n += 254 {
		var h []byte
		for len(h) < 253 {
			if len(h)%64 == 63 {
				h = append(h, '.')
			} else {
				h = append(h, "abcdefghijklmnopqrstuvwxyz"[r.IntN(26)])
			}
		}
		long.Shares[0].Hosts = append(long.Shares[0].Hosts, string(h))
	}
	slices.Sort(long.Shares[0].Hosts)
	many := Entry{Number: 1, Shares: shares(r, MaxHosts, MaxMembers)}
	members := Entry{Number: 1, Roster: roster(r, 0)}
	for i := range MaxMembers {
		name := fmt.Sprintf("%0*d", maxName, i)
		members.Roster.Members = append(members.Roster.Members, Member{Name: name, Boot: 1<<64 - 1,
			Instance: [16]byte{byte(r.IntN(256))}, Capacity: 1, Addr: strings.Repeat("b", maxAddr), State: Up})
	}
	members.Roster.Lost = members.Roster.Members
	for name, e := range map[string]Entry{"long names": long, "many hosts": many, "members": members} {
		b := e.AppendTo(nil)
		got, rest, err := Decode(b)
		if err != nil || len(rest) > 0 || len(b) > MaxEntry || got.Number != e.Number {
			t.Errorf("%s: %d bytes, %d left, %v", name, len(b), len(rest), err)
		}
	}
}

func TestMalformed(t *testing.T) {
	up := func(name string) Member { return Member{Name: name, Capacity: 1, Addr: "a:1", State: Up} }
	with := func(change func(m *Member)) *Roster {
		m := up("a")
		change(&m)
		return &Roster{Members: []Member{m}}
	}
	for name, e := range map[string]Entry{
		"number 0":        {Shares: []Share{{"a", []string{"h.example"}}}},
		"no shares":       {Number: 1},
		"no hosts":        {Number: 1, Shares: []Share{{"a", nil}}},
		"no agent":        {Number: 1, Shares: []Share{{"", []string{"h.example"}}}},
		"agents order":    {Number: 1, Shares: []Share{{"b", []string{"h.example"}}, {"a", []string{"i.example"}}}},
		"hosts order":     {Number: 1, Shares: []Share{{"a", []string{"h.example", "h.example"}}}},
		"not canonical":   {Number: 1, Shares: []Share{{"a", []string{"H.example"}}}},
		"not a host":      {Number: 1, Shares: []Share{{"a", []string{"a/b"}}}},
		"with a port":     {Number: 1, Shares: []Share{{"a", []string{"h.example:81"}}}},
		"too many hosts":  {Number: 1, Shares: []Share{{"a", hosts(testseed.Rand(t), MaxHosts+1)}}},
		"same name twice": {Number: 1, Roster: &Roster{Members: []Member{up("a"), up("a")}}},
		"joining":         {Number: 1, Roster: with(func(m *Member) { m.State = Joining })},
		"gone":            {Number: 1, Roster: with(func(m *Member) { m.State = Gone })},
		"capacity":        {Number: 1, Roster: with(func(m *Member) { m.Capacity = -1 })},
		"name":            {Number: 1, Roster: with(func(m *Member) { m.Name = "a\nb" })},
		"too many members": {Number: 1,
			Roster: &Roster{Members: slices.Repeat([]Member{up("a")}, MaxMembers+1)}},
	} {
		if got, _, err := Decode(e.AppendTo(nil)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
}

// TestBubbles uses the encoder and the decoder inside and outside of a bubble.
func TestBubbles(t *testing.T) {
	r := testseed.Rand(t)
	both := func(t *testing.T) {
		e := Entry{Number: 1, Shares: shares(r, 100, 3)}
		if _, _, err := Decode(e.AppendTo(nil)); err != nil {
			t.Error(err)
		}
	}
	synctest.Test(t, both)
	both(t)
}

func FuzzDecode(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	for n := range 4 {
		e := Entry{Number: uint64(n + 1), Shares: shares(r, 1+10*n, 3)}
		f.Add(e.AppendTo(nil)[4:])
		e.Roster = roster(r, 3*n)
		f.Add(e.AppendTo(nil)[4:])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		// The checksum would stop nearly all inputs.
		b = checksummed(append(make([]byte, 4), b...))
		e, rest, err := Decode(b)
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatal(err)
			}
			return
		}
		again, left, err := Decode(e.AppendTo(nil))
		if err != nil || len(left) > 0 || !reflect.DeepEqual(again, e) {
			t.Fatalf("%+v became %+v, %v", e, again, err)
		}
		if !bytes.HasSuffix(b, rest) {
			t.Fatal("the rest is not the end of the input")
		}
	})
}

func BenchmarkEntry(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	e := Entry{Number: 1, Shares: shares(r, MaxHosts, 4)}
	data := e.AppendTo(nil)
	report := func(b *testing.B) {
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/MaxHosts, "ns/host")
		b.ReportMetric(float64(len(data))/MaxHosts, "bytes/host")
	}
	b.Run("encode", func(b *testing.B) {
		for b.Loop() {
			data = e.AppendTo(data[:0])
		}
		report(b)
	})
	b.Run("decode", func(b *testing.B) {
		for b.Loop() {
			if _, _, err := Decode(data); err != nil {
				b.Fatal(err)
			}
		}
		report(b)
	})
}

// checksummed sets the checksum of an entry to what Decode computes.
func checksummed(b []byte) []byte {
	if n := Size(b); n > 0 && n <= len(b) {
		binary.LittleEndian.PutUint32(b, crc32.Checksum(b[4:n], crc32.MakeTable(crc32.Castagnoli)))
	}
	return b
}
