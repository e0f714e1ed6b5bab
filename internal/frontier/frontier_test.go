package frontier

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// TestSlowDown checks that each trouble doubles the pause and that quiet time halves it.
func TestSlowDown(t *testing.T) {
	f := open(t, Config{SlowMax: time.Hour})
	now := start
	pause := func() time.Duration {
		t.Helper()
		push(t, f, "http://a.example/")
		task := begin(t, f, now)
		must.Do(t, f.Done(task.Host, Done{SlowDown: true}, now))
		s := f.Host(task.Host)
		d := s.NotBefore.Sub(now)
		now = s.NotBefore
		return d
	}
	for i, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		want *= time.Minute
		if got := pause(); got < want*9/10 || got > min(want*11/10, time.Hour) {
			t.Errorf("pause %d is %v, want %v within a tenth", i+1, got, want)
		}
	}
	// After the eighth pause, the next one would be 2^8 minutes. Three quiet half-hours reduce it to 2^5.
	now = now.Add(91 * time.Minute)
	if got := pause(); got < 29*time.Minute || got > 36*time.Minute {
		t.Errorf("after 91 quiet minutes the pause is %v, want 32m within a tenth", got)
	}
	now = now.Add(24 * time.Hour)
	if _, _, ok := f.Next(now); ok || f.hosts.dict.len() != 0 {
		t.Errorf("after a day %d hosts are remembered, want none", f.hosts.dict.len())
	}
	if got := pause(); got > 66*time.Second {
		t.Errorf("after a day the pause is %v, want 1m", got)
	}
}

// A host that refuses some requests is asked about as often as it wants. It is asked ever less if it refuses most, and
// never before the time that it has asked for.
func TestRefusals(t *testing.T) {
	const asked, delay = 5 * time.Second, 2 * time.Second
	answers := map[string]Done{
		".": {}, "?": {Failed: true}, "x": {SlowDown: true, RetryAfter: asked}, "X": {SlowDown: true},
	}
	var fifth strings.Builder // of the answers are refusals, in no order
	for draw := rand.New(rand.NewPCG(1, 1)); fifth.Len() < 500; {
		fifth.WriteByte("....x"[draw.IntN(5)])
	}
	for _, c := range []struct {
		answers     string
		least, most time.Duration // the longest pause of the last 50
	}{
		{"....x", asked, asked * 11 / 10},
		{fifth.String(), asked, 45 * time.Second},
		{"....X", 54 * time.Second, 66 * time.Second},
		{".x", asked, asked * 11 / 10},
		{"?x", time.Hour, 24 * time.Hour},
		{".xx", time.Hour, 24 * time.Hour},
		{"x", time.Hour, 24 * time.Hour},
	} {
		f := open(t, Config{HostDelay: delay})
		now, longest := start, time.Duration(0)
		for i := range 500 {
			push(t, f, fmt.Sprintf("http://a.example/%d", i))
			task := begin(t, f, now)
			how := c.answers[i%len(c.answers)]
			d := answers[string(how)]
			must.Do(t, f.Done(task.Host, d, now))
			next := f.Host(task.Host).NotBefore
			if rest := next.Sub(now); rest < max(delay, d.RetryAfter) {
				t.Fatalf("%s: %s after the answer %c", c.answers, rest, how)
			} else if i >= 450 {
				longest = max(longest, rest)
			}
			now = next
		}
		if longest < c.least || longest > c.most {
			t.Errorf("%.10s: the longest pause is %s, want %s to %s", c.answers, longest, c.least, c.most)
		}
		must.Do(t, f.Close())
	}
}

// TestBounds checks that neither Retry-After nor NotBefore holds a host back for longer than SlowMax.
func TestBounds(t *testing.T) {
	for name, d := range map[string]Done{
		"retry-after": {RetryAfter: 1000 * time.Hour},
		"both":        {RetryAfter: 1000 * time.Hour, SlowDown: true},
		"not before":  {NotBefore: start.Add(1000 * time.Hour)},
	} {
		f := open(t, Config{})
		push(t, f, "http://a.example/1", "http://a.example/2")
		task := begin(t, f, start)
		must.Do(t, f.Done(task.Host, d, start))
		if _, wake, ok := f.Next(start); ok || wake.Sub(start) != 24*time.Hour {
			t.Errorf("%s: %v, wake in %v; want false, 24h", name, ok, wake.Sub(start))
		}
	}
}

func TestDoneOfNobody(t *testing.T) {
	f := open(t, Config{})
	push(t, f, "http://a.example/")
	for _, host := range []string{"a.example", "b.example"} {
		if err := f.Done(host, Done{}, start); !errors.Is(err, ErrNotInProcess) {
			t.Errorf("Done(%q): %v, want ErrNotInProcess", host, err)
		}
	}
	f.Resolved("a.example", loopback, start, start) // must do nothing
	f.Unblock("b.example")
	if got, ok := take(t, f, start); !ok || got.URL.String() != "http://a.example/" {
		t.Errorf("got %v, %v", got, ok)
	}
}

// TestAddresses checks which hosts are looked up, and when they are looked up again.
func TestAddresses(t *testing.T) {
	f := open(t, Config{HostDelay: time.Second, IPDelay: time.Second})
	push(t, f, "http://192.0.2.1/", "http://[2001:db8::1]/")
	push(t, f, "http://a.example/1", "http://a.example/2", "http://a.example/3")
	for _, want := range []string{"192.0.2.1", "2001:db8::1"} {
		task, _, ok := f.Next(start)
		if !ok || task.Addr != netip.MustParseAddr(want) {
			t.Fatalf("address %v, want %s from the URL", task.Addr, want)
		}
		must.Do(t, f.Done(task.Host, Done{}, start))
	}
	// An address with a TTL of zero may be used for one request.
	task, _, ok := f.Next(start)
	if !ok || task.Addr.IsValid() {
		t.Fatalf("address %v before the look-up, want none", task.Addr)
	}
	f.Resolved(task.Host, netip.MustParseAddr("::ffff:192.0.2.5"), start, start)
	if task, _, ok = f.Next(start); !ok || task.Addr != netip.MustParseAddr("192.0.2.5") {
		t.Fatalf("address %v after the look-up", task.Addr)
	}
	must.Do(t, f.Done(task.Host, Done{}, start))
	now := start.Add(time.Second)
	if task, _, ok = f.Next(now); !ok || task.Addr.IsValid() || task.Link.URL.String() != "http://a.example/2" {
		t.Fatalf("after the TTL: %v at %v, want no address", task.Link.URL, task.Addr)
	}
	// A failed look-up counts as trouble.
	f.Resolved(task.Host, netip.Addr{}, now, now)
	if _, wake, ok := f.Next(now); ok || wake.Sub(now) < 50*time.Second {
		t.Errorf("after a failed look-up: %v, wake in %v; want a pause", ok, wake.Sub(now))
	}
	must.Do(t, f.check())
}

// TestNoAddresses checks that through a proxy nothing is looked up and SiteDelay still holds.
func TestNoAddresses(t *testing.T) {
	f := open(t, Config{HostDelay: -1, Burst: -1, IPDelay: time.Hour, SiteDelay: time.Second, NoAddresses: true})
	push(t, f, "http://a.x.example/", "http://b.x.example/", "http://c.y.example/")
	var got []string
	for {
		task, wake, ok := f.Next(start)
		if !ok {
			if !wake.IsZero() { // the third host waits for a Done, not for a time
				t.Errorf("wake %v, want zero", wake)
			}
			break
		}
		got = append(got, task.Host)
	}
	if diff := cmp.Diff([]string{"a.x.example", "c.y.example"}, got); diff != "" {
		t.Error(diff)
	}
}

// TestBurst checks that without a delay a host has several requests in a row, which share a connection. With a delay it
// has its turn in the order of request numbers.
func TestBurst(t *testing.T) {
	urls := []string{"http://a.example/1", "http://b.example/2", "http://a.example/3", "http://b.example/4",
		"http://a.example/5", "http://c.example/6", "http://a.example/7"}
	for _, tt := range []struct {
		name string
		cfg  Config
		want string
	}{
		{"no delay", Config{HostDelay: -1, Burst: 3}, "1 3 5 2 4 6 7"},
		{"one in a row", Config{HostDelay: -1, Burst: -1}, "1 2 3 4 5 6 7"},
		{"a delay", Config{HostDelay: time.Second, Burst: 3}, "1 2 6 3 4 5 7"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := open(t, tt.cfg)
			push(t, f, urls...)
			var got []string
			for now := start; f.Len() > 0; {
				task, wake, ok := f.Next(now)
				switch {
				case !ok:
					now = wake
				case !task.Addr.IsValid():
					f.Resolved(task.Host, loopback, now.Add(time.Hour), now)
				default:
					got = append(got, strings.TrimPrefix(task.Link.URL.RequestURI(), "/"))
					must.Do(t, f.Done(task.Host, Done{}, now))
				}
			}
			if s := strings.Join(got, " "); s != tt.want {
				t.Errorf("order %s, want %s", s, tt.want)
			}
		})
	}
}

// TestClockSteps checks that a clock that goes back shortens no quiet time.
func TestClockSteps(t *testing.T) {
	f := open(t, Config{HostDelay: 2 * time.Second})
	push(t, f, "http://a.example/1", "http://a.example/2")
	task := begin(t, f, start.Add(time.Minute))
	must.Do(t, f.Done(task.Host, Done{}, start))
	want := start.Add(time.Minute + 2*time.Second)
	if _, wake, ok := f.Next(want.Add(-time.Millisecond)); ok || !wake.Equal(want) {
		t.Errorf("%v, wake %v; want false, %v", ok, wake, want)
	}
}

func TestHostState(t *testing.T) {
	f := open(t, Config{})
	push(t, f, "http://a.example/1", "http://a.example/2", "http://b.example/")
	task := begin(t, f, start)
	must.Do(t, f.Done(task.Host, Done{Delay: 7 * time.Second, SlowDown: true}, start))
	f.Block("c.example")
	want := map[string]HostState{}
	must.Do(t, f.EachHost(start, func(s HostState) error { want[s.Host] = s; return nil }))
	a, c := want["a.example"], want["c.example"]
	if len(want) != 2 || a.Delay != 7*time.Second || a.Slow != 1 || !c.Blocked {
		t.Fatalf("states %+v", want)
	}
	later := start.Add(5 * time.Second)
	for _, before := range []bool{true, false} { // restored before the frontier knows the time, or after
		g := open(t, Config{})
		if !before {
			g.Next(later)
		}
		for _, s := range want {
			d, err := DecodeHostState(s.AppendTo(nil))
			must.Do(t, err)
			d.Blocked = s.Blocked // the encoding does not have it
			g.Restore(d)
		}
		push(t, g, "http://a.example/2", "http://c.example/")
		g.Touched("b.example", 0, later)
		push(t, g, "http://b.example/")
		must.Do(t, g.check())
		got := g.Host("a.example")
		if !got.NotBefore.Equal(want["a.example"].NotBefore) || got.Slow != 1 || got.Delay != 7*time.Second {
			t.Errorf("restored %+v, want %+v", got, want["a.example"])
		}
		if _, wake, ok := g.Next(later); ok || !wake.Equal(later.Add(2*time.Second)) {
			t.Errorf("%v, wake %v; want the end of the touched host's quiet time", ok, wake)
		}
		s := g.Stats()
		if s.Blocked != 1 || s.Paused != 1 || s.Resting != 1 || s.BlockedLinks != 1 || g.Len() != 3 ||
			g.Pending() != 2 {
			t.Errorf("stats %+v", s)
		}
	}
	// A state from a clock that is far ahead must not hold a host back for ever.
	g := open(t, Config{})
	far := start.Add(1e6 * time.Hour)
	g.Restore(HostState{Host: "a.example", NotBefore: far, SlowUntil: far, Slow: 3})
	push(t, g, "http://a.example/")
	if _, wake, _ := g.Next(start); wake.Sub(start) != 24*time.Hour {
		t.Errorf("wake in %v, want 24h", wake.Sub(start))
	}
}

func FuzzDecodeHostState(f *testing.F) {
	full := HostState{Host: "a.example", Delay: time.Second, NotBefore: start, Slow: 3, SlowUntil: start}
	f.Add(full.AppendTo(nil))
	f.Add(HostState{}.AppendTo(nil))
	f.Add(HostState{Host: "a.example", Origins: []OriginState{{"http://a.example:81", "connect", 3, start},
		{Origin: "https://a.example", Cause: "tls", Failures: 255}}}.AppendTo(nil))
	f.Add([]byte("\x80"))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := DecodeHostState(b)
		if err != nil {
			return
		}
		again, err := DecodeHostState(s.AppendTo(nil))
		same := again.Host == s.Host && again.Delay == s.Delay && again.Blocked == s.Blocked &&
			cmp.Equal(again.Origins, s.Origins)
		if err != nil || !again.NotBefore.Equal(s.NotBefore) || !same {
			t.Fatalf("%+v, %v; want %+v", again, err, s)
		}
		g := open(t, Config{})
		g.Restore(s)
		g.Next(start)
		must.Do(t, g.check())
		if _, wake, ok := g.Next(start); ok || !wake.IsZero() {
			t.Fatalf("Next without links: %v, wake %v; want false, zero", ok, wake)
		}
	})
}

// TestRestoredOrder checks that links from each, pushed into another frontier, come out in the same order.
func TestRestoredOrder(t *testing.T) {
	f := open(t, Config{HostDelay: -1, Burst: -1, MemoryBytes: 3000})
	must.Do(t, f.Push(manyLinks(t, 500, 10)))
	for range 20 {
		take(t, f, start)
	}
	for range 3 { // in process during the snapshot
		begin(t, f, start)
	}
	g := open(t, Config{HostDelay: -1, Burst: -1})
	var want []string
	must.Do(t, f.each(func(l link.Link) error {
		want = append(want, l.URL.String())
		return g.Push([]link.Link{l})
	}))
	if len(want) != 480 || g.Len() != 480 || f.Len() != 480 {
		t.Fatalf("%d links from each, %d restored, %d pending; want 480", len(want), g.Len(), f.Len())
	}
	for i, u := range want {
		if n := strings.LastIndexByte(u, '/'); u[n+1:] != strconv.Itoa(i+20) {
			t.Fatalf("each gives %s at position %d", u, i)
		}
		if got, ok := take(t, g, start); !ok || got.URL.String() != u {
			t.Fatalf("got %v, want %s", got, u)
		}
	}
}

// TestWhale has many hosts at one address and a few others elsewhere. Each request must cost the same as without
// them.
func TestWhale(t *testing.T) {
	hosts := testtier.Rounds(10_000, 100_000)
	f := open(t, Config{HostDelay: time.Second, IPDelay: 100 * time.Millisecond, SiteDelay: 50 * time.Millisecond})
	var ls []link.Link
	for i := range hosts {
		ls = append(ls, linkOf(t, fmt.Sprintf("http://h%d.s%d.example/", i, i%7), 0))
		if i%1000 == 0 {
			ls = append(ls, linkOf(t, fmt.Sprintf("http://small%d.example/", i), 0))
		}
	}
	must.Do(t, f.Push(ls))
	now := start
	whale, small := 0, 0
	var last time.Time
	for whale < 500 {
		task, wake, ok := f.Next(now)
		switch {
		case !ok:
			now = wake
		case !task.Addr.IsValid():
			addr := loopback
			if task.Host[0] == 's' {
				addr = netip.AddrFrom4([4]byte{198, 51, 100, byte(small)})
			}
			f.Resolved(task.Host, addr, now.Add(time.Hour), now)
		default:
			if task.Host[0] == 's' {
				small++
			} else {
				if whale++; now.Sub(last) < 100*time.Millisecond {
					t.Fatalf("%s: %v after the previous one, want at least 100ms", task.Host, now.Sub(last))
				}
				last = now
				if want := fmt.Sprintf("h%d.s%d.example", whale-1, (whale-1)%7); task.Host != want {
					t.Fatalf("%s, want %s", task.Host, want)
				}
			}
			must.Do(t, f.Done(task.Host, Done{}, now))
		}
	}
	if small != hosts/1000 {
		t.Errorf("%d small hosts fetched, want %d", small, hosts/1000)
	}
	// The hosts follow each other at 100 ms: none waited for more than its own address.
	if took := now.Sub(start); took != 499*100*time.Millisecond {
		t.Errorf("500 requests to the whale took %v, want 49.9s", took)
	}
	must.Do(t, f.check())
	if s := f.Stats(); s.RestingShared < hosts-1000 {
		t.Errorf("%d hosts parked, want at least %d: %+v", s.RestingShared, hosts-1000, s)
	}
	e := f.Explain(fmt.Sprintf("h%d.s%d.example", hosts-1, (hosts-1)%7), now)
	if e.State != "resting" || e.Behind == 0 {
		t.Errorf("want a parked host behind others, got %s", e)
	}
}

// BenchmarkPool pushes links and takes them back, with nearly all of them going through the pool.
func BenchmarkPool(b *testing.B) {
	for _, hosts := range []int{100, 100_000} {
		for _, memory := range []int64{1 << 30, 8 << 20} {
			b.Run(fmt.Sprintf("hosts=%d/memory=%dM", hosts, memory>>20), func(b *testing.B) {
				cfg := Config{HostDelay: -1, Burst: -1, MemoryBytes: memory, Active: 20, NoAddresses: true}
				f, err := Open(disk.OS, b.TempDir(), cfg)
				must.Do(b, err)
				defer f.Close()
				ls := manyLinks(b, 200_000, hosts)
				n := 0
				for b.Loop() {
					for i := 0; i < len(ls); i += 200 {
						must.Do(b, f.Push(ls[i:min(i+200, len(ls))]))
					}
					for range ls {
						if _, ok := take(b, f, start); !ok {
							b.Fatal(f.Err())
						}
					}
					n += 2 * len(ls)
				}
				b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "ops/s")
			})
		}
	}
}

func BenchmarkPushPop(b *testing.B) {
	for _, hosts := range []int{100, 100_000} {
		for _, memory := range []int64{1 << 30, 8 << 20} {
			b.Run(fmt.Sprintf("hosts=%d/memory=%dM", hosts, memory>>20), func(b *testing.B) {
				f := open(b, Config{HostDelay: -1, Burst: -1, MemoryBytes: memory})
				ls := manyLinks(b, 200_000, hosts)
				now, n := start, 0
				for b.Loop() {
					for i := 0; i < len(ls); i += 200 {
						must.Do(b, f.Push(ls[i:min(i+200, len(ls))]))
					}
					for range ls {
						if _, ok := take(b, f, now); !ok {
							b.Fatal(f.Err())
						}
					}
					n += len(ls)
				}
				b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "urls/s")
			})
		}
	}
}

// TestTouchedKeepsDelay checks that Touched records the delay: a crawl may stop, with a snapshot, before a host that it
// took over has had another request.
func TestTouchedKeepsDelay(t *testing.T) {
	now := time.Unix(1e9, 0)
	f := open(t, Config{HostDelay: time.Second})
	defer f.Close()
	f.Touched("a.example", 5*time.Second, now)
	if got := f.Host("a.example"); got.Delay != 5*time.Second || !got.NotBefore.Equal(now.Add(5*time.Second)) {
		t.Errorf("after Touched: %+v, want a delay of 5s from %s", got, now)
	}
}
