package testweb

import (
	"encoding/json"
	"net/netip"
	"reflect"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
)

func TestPageMarksAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pages := rapid.Int64Range(1, 5000).Draw(t, "pages")
		var m hostState
		want := map[int64]mark{}
		for range rapid.IntRange(0, 60).Draw(t, "n") {
			p := rapid.Int64Range(0, pages-1).Draw(t, "page")
			if got := m.mark(p); got != want[p] {
				t.Fatalf("page %d: got %d, want %d", p, got, want[p])
			}
			want[p] = mark(rapid.IntRange(1, 3).Draw(t, "mark"))
			m.setMark(p, pages, want[p])
		}
		got := map[int64]mark{}
		m.eachMark(func(p int64, k mark) { got[p] = k })
		if len(got) != len(want) {
			t.Fatalf("got %v, want %v", got, want)
		}
		for p, k := range want {
			if got[p] != k {
				t.Fatalf("page %d: eachMark gives %d, want %d", p, got[p], k)
			}
		}
	})
}

func TestURLSetAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s urlSet
		type counts struct{ asked, answered int }
		want := map[uint64]counts{}
		for range rapid.IntRange(0, 100).Draw(t, "n") {
			// Many hashes and few slots: hashes that differ only above bit 36 share a slot.
			h := rapid.Uint64Range(0, 7).Draw(t, "high")<<36 | rapid.Uint64Range(0, 3).Draw(t, "low")<<4
			ok := rapid.Bool().Draw(t, "ok")
			was := want[h]
			if a, b := s.get(h); a != was.asked || b != was.answered {
				t.Fatalf("%x: got %d, %d, want %+v", h, a, b, was)
			}
			a, b := s.add(h|rapid.Uint64Range(0, 15).Draw(t, "noise"), ok)
			if a != was.asked || b != was.answered {
				t.Fatalf("%x: counts before add: got %d, %d, want %+v", h, a, b, was)
			}
			was.asked = min(was.asked+1, 3)
			if ok {
				was.answered = min(was.answered+1, 3)
			}
			want[h] = was
		}
		if s.n != len(want) {
			t.Fatalf("got %d entries, want %d", s.n, len(want))
		}
	})
}

// touch sends requests to hosts through the tracker: for each robots.txt and two pages.
func touch(w *Web, o Origin, from, to int64) {
	t := w.track
	for n := from; n < to; n++ {
		c := &conn{web: w, id: n, local: o.Host(n).Addr}
		t.connected(c)
		for i, path := range []string{"/robots.txt", "/0", "/1"} {
			r := newRequest(c, t.originHost(c, n), strings.Clone(path), "GET")
			r.begin = n*1000 + int64(i)*100 + 1
			t.begin(c, r)
			rep := Reply{Status: 200, Page: int64(i) - 1}
			t.replied(r, &rep)
			r.complete, r.bytes = true, 22300
			t.end(r, r.begin+50)
		}
		t.closed(c)
	}
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestHostsAreCheap: each host has an address and a domain of its own here, which is the most expensive case.
func TestHostsAreCheap(t *testing.T) {
	hosts, most := int64(testtier.Rounds(5e4, 1e6)), int64(600)
	if testtier.Raced {
		hosts = 5e4
	}
	o := &fakeOrigin{hosts: 1 << 24, pages: 100, addr: func(n int64) netip.Addr {
		return netip.AddrFrom4([4]byte{127, byte(n >> 16), byte(n >> 8), byte(n)})
	}}
	w, err := New(Config{Origin: o, MaxHosts: int(hosts)})
	must.Do(t, err)
	defer w.Close()
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // or garbage collection would take most of the time
	before := heap()
	touch(w, o, 0, hosts)
	per := (heap() - before) / hosts
	t.Logf("%d bytes for each host", per)
	if per > most {
		t.Errorf("got %d bytes for each host, want at most %d", per, most)
	}
	touch(w, o, hosts, hosts+100)
	for n := hosts; n < hosts*3/2; n++ {
		w.track.connected(&conn{web: w, local: o.Host(n).Addr})
	}
	began := time.Now()
	r := w.Report()
	b, err := json.Marshal(r)
	must.Do(t, err)
	t.Logf("the report took %v and has %d bytes", time.Since(began), len(b))
	if len(b) > 2<<20 {
		t.Errorf("the report has %d bytes, want at most %d", len(b), 2<<20)
	}
	addrs := 0
	for i := range w.track.tab.Load().shards {
		addrs += len(w.track.tab.Load().shards[i].addrs)
	}
	if most := int(hosts*5/4) + 256*shards; addrs > most {
		t.Errorf("got %d addresses, want at most %d", addrs, most)
	}
	if len(r.Hosts) != maxListed || r.LeftOut["host"] != hosts-maxListed || r.LeftOut["address"] < hosts-maxListed ||
		r.LeftOut["site"] != hosts-maxListed || r.Requests != 3*hosts+300 || r.Untracked != 300 ||
		r.AtOnce["host"][1] != hosts || r.Gaps["host"].Gaps != 2*hosts || r.Origin.Fetched != 2*hosts {
		r.Hosts, r.Addrs, r.Sites = nil, nil, nil
		t.Errorf("got %+v", r)
	}
	runtime.KeepAlive(w)
}

func TestGapCounts(t *testing.T) {
	var a, b gapCounts
	for _, gap := range []time.Duration{0, time.Millisecond, time.Millisecond + 1, 3 * time.Second, time.Hour} {
		a.note(int64(gap), int64(2*time.Second))
	}
	b.note(int64(5*time.Second), 0)
	r := reportGaps(&a, &b)
	least := 0.0
	want := GapReport{Gaps: 6, Promised: 5, TooShort: 3, Least: &least, Lengths: []GapClass{
		{Seconds(time.Millisecond), 2}, {Seconds(2 * time.Millisecond), 1},
		{Seconds(5 * time.Second), 2}, {-Seconds(time.Second), 1},
	}}
	if !reflect.DeepEqual(r, want) {
		t.Errorf("got %+v, want %+v", r, want)
	}
	a.reset()
	if r := reportGaps(&a); !reflect.DeepEqual(r, GapReport{}) {
		t.Errorf("after reset: got %+v", r)
	}
}
