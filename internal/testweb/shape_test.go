package testweb

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

func TestLine(t *testing.T) {
	const second = int64(time.Second)
	credit := int64(lineCredit)
	var l line
	for _, tt := range []struct {
		now  int64
		n    int
		want int64
	}{
		{10 * second, 1000, 11*second - credit}, // the line was idle, so it has a little credit
		{10 * second, 1000, 12*second - credit}, // waits for the first
		{11 * second, 500, 12*second + second/2 - credit},
		{20 * second, 0, 20*second - credit},
		{20 * second, 4000, 24*second - credit},
	} {
		if got := l.carry(tt.now, tt.n, 1000); got != tt.want {
			t.Errorf("%d bytes at %v: got %v, want %v",
				tt.n, time.Duration(tt.now), time.Duration(got), time.Duration(tt.want))
		}
	}
}

// TestLineKeepsItsRate: a line never carries more than its rate and its credit allow, and is never idle while bytes
// wait.
func TestLineKeepsItsRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.Int64Range(1000, 1e9).Draw(t, "rate")
		var l line
		type piece struct{ now, at, n int64 }
		var all []piece
		now := int64(time.Hour)
		for range rapid.IntRange(1, 40).Draw(t, "pieces") {
			// A connection that reads the clock first may call carry second.
			now += rapid.Int64Range(-5e6, 50e6).Draw(t, "pause")
			n := rapid.Int64Range(0, 100_000).Draw(t, "n")
			all = append(all, piece{now, l.carry(now, int(n), rate), n})
		}
		for i := range all {
			sum := 0.0
			for _, p := range all[i:] {
				sum += float64(p.n)
				least := float64(all[i].now) - float64(lineCredit) + sum/float64(rate)*1e9
				if float64(p.at) < least-float64(len(all)) {
					t.Fatalf("%v bytes from %d on came through at %d, before %f", sum, all[i].now, p.at, least)
				}
			}
			if i > 0 && all[i].at > max(all[i].now, all[i-1].at)+all[i].n*1e9/rate+1 {
				t.Fatalf("piece %d waits too long: %+v after %+v", i, all[i], all[i-1])
			}
		}
	})
}

func TestLines(t *testing.T) {
	a, b := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("127.0.0.2")
	one, each := newShaper(Shape{BytesPerSecond: 1}), newShaper(Shape{BytesPerSecond: 40e6, PerClient: true})
	if one.lineOf(a) != one.lineOf(b) {
		t.Error("without PerClient: two clients have two lines")
	}
	if first := each.lineOf(a); first == each.lineOf(b) || first != each.lineOf(a) {
		t.Error("with PerClient: not one line for each client")
	}
	for _, tt := range []struct{ rate, want int64 }{{0, writeStep}, {1, 1 << 10}, {1e6, 20_000}, {40e6, writeStep}} {
		if got := newShaper(Shape{BytesPerSecond: tt.rate}).piece; int64(got) != tt.want {
			t.Errorf("pieces at %d bytes/s: got %d, want %d", tt.rate, got, tt.want)
		}
	}
	for i := range maxLines + 10 {
		each.lineOf(netip.AddrFrom4([4]byte{127, byte(i >> 16), byte(i >> 8), byte(i)}))
	}
	if len(each.lines) != maxLines {
		t.Errorf("got %d lines, want %d", len(each.lines), maxLines)
	}
}

// TestShape: a line that several clients and kinds of sites share keeps its rate, and a client is not blamed for
// waiting.
func TestShape(t *testing.T) {
	const size, rate, delay = 50_000, 500_000, 20 * time.Millisecond
	text := strings.Repeat("words and ", size/10)
	dir := t.TempDir()
	write(t, dir, "1", text)
	raw := func(c *RawConn, _ *httpRequest) bool {
		c.WriteString("HTTP/1.1 200 OK\r\nContent-Length: " + fmt.Sprint(size) + "\r\n\r\n" + text)
		return true
	}
	w := serving(t, Config{
		Shape:   Shape{BytesPerSecond: rate, Latency: 15 * time.Millisecond},
		Promise: Promise{HostDelay: delay, AddrDelay: delay},
		Origin:  &fakeOrigin{hosts: 10, pages: 10, size: size},
		Folders: []Folder{{Host: "folder.example", Dir: dir}},
		Sites: []Site{
			{Host: "site.example", Handler: Pages(map[string]string{"/1": text})}, {Host: "raw.example", Raw: raw},
		},
	})
	began := time.Now()
	var wg sync.WaitGroup
	for _, u := range []string{
		"http://h1.made.example/1", "https://h2.made.example/1", "http://folder.example/1", "https://site.example/1",
		"http://raw.example/1",
	} {
		wg.Go(func() {
			c := client(t, w)
			for i, least := range []time.Duration{30 * time.Millisecond, 15 * time.Millisecond} {
				time.Sleep(time.Duration(i) * delay)
				asked := time.Now()
				res, err := c.Get(u)
				if err != nil {
					t.Error(err)
					return
				}
				if took := time.Since(asked); took < least {
					t.Errorf("%s: request %d was answered after %v, want %v or more", u, i+1, took, least)
				}
				n, err := io.Copy(io.Discard, res.Body)
				res.Body.Close()
				if n != size || err != nil {
					t.Errorf("%s: got %d bytes, %v", u, n, err)
				}
			}
		})
	}
	wg.Wait()
	if took, least := time.Since(began), (10*size-rate/50)*time.Second/rate; took < least {
		t.Errorf("the downloads took %v, want %v or more", took, least)
	}
	until(t, "ended", func() bool { return w.Report().Active == 0 })
	if r := w.Report(); len(r.Violations) > 0 || r.Pages != 10 {
		t.Errorf("got %d pages, %v", r.Pages, r.Violations)
	}
}

// TestShapeNoticesLeaving: if a client closes while its response waits for the line, its request has ended.
func TestShapeNoticesLeaving(t *testing.T) {
	w := serving(t, Config{
		Shape: Shape{BytesPerSecond: 1000}, Origin: &fakeOrigin{hosts: 10, pages: 10, size: 100_000},
	})
	c := dial(t, w, "h1.made.example")
	io.WriteString(c, "GET /1 HTTP/1.1\r\nHost: h1.made.example\r\n\r\n")
	must.Get(io.ReadFull(c, make([]byte, 100)))(t)
	c.(*net.TCPConn).Close()
	until(t, "ended", func() bool { return w.Report().Hosts["h1.made.example"].Aborted == 1 })
}
