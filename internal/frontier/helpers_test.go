package frontier

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func linkOf(t testing.TB, url string, level uint8) link.Link {
	t.Helper()
	u, err := weburl.Parse(url)
	if err != nil {
		t.Fatalf("parse %q: %v", url, err)
	}
	return link.Link{URL: u, Level: level}
}

var loopback = netip.MustParseAddr("192.0.2.7")

// take gets the next link and ends it at once.
func take(t testing.TB, f *Frontier, now time.Time) (link.Link, bool) {
	t.Helper()
	for {
		task, _, ok := f.Next(now)
		if !ok {
			return link.Link{}, false
		}
		if !task.Addr.IsValid() && !f.cfg.NoAddresses {
			f.Resolved(task.Host, loopback, now.Add(time.Hour), now)
			continue
		}
		must.Do(t, f.Done(task.Host, Done{}, now))
		return task.Link, true
	}
}

// manyLinks returns n links on hosts of very different size.
func manyLinks(t testing.TB, n, hosts int) []link.Link {
	r := rand.New(rand.NewPCG(1, 2))
	var ls []link.Link
	for i := range n {
		host := int(float64(hosts) * r.Float64() * r.Float64() * r.Float64())
		l := linkOf(t, fmt.Sprintf("http://h%d.example/%d", host, i), 0)
		l.Via, l.Hops, l.Seed = fmt.Sprintf("http://h%d.example/", host), "LL", "seed.example"
		ls = append(ls, l)
	}
	return ls
}

// pooling returns a frontier in which nearly all links go through the pool.
func pooling(t testing.TB, fs disk.FS, cfg Config) *Frontier {
	t.Helper()
	if cfg.Active == 0 {
		cfg.Active = 10
	}
	return openOn(t, fs, cfg)
}

// bulk pushes ls in batches of n.
func bulk(t testing.TB, f *Frontier, ls []link.Link, n int) {
	t.Helper()
	for len(ls) > 0 {
		k := min(n, len(ls))
		must.Do(t, f.Push(ls[:k]))
		ls = ls[k:]
	}
}

func open(t testing.TB, cfg Config) *Frontier {
	t.Helper()
	return openOn(t, testdisk.NewMem(), cfg)
}

// openOn is open on a disk.
func openOn(t testing.TB, fs disk.FS, cfg Config) *Frontier {
	t.Helper()
	f, err := Open(fs, "frontier", cfg)
	must.Do(t, err)
	return f
}

func push(t testing.TB, f *Frontier, urls ...string) {
	t.Helper()
	for _, u := range urls {
		must.Do(t, f.Push([]link.Link{linkOf(t, u, 0)}))
	}
}

// begin gets the next link of a host with an address, and looks hosts up before.
func begin(t testing.TB, f *Frontier, now time.Time) Task {
	t.Helper()
	for {
		task, wake, ok := f.Next(now)
		if !ok {
			t.Fatalf("nothing is due at %v; wake %v, %v", now, wake, f.Err())
		}
		if task.Addr.IsValid() {
			return task
		}
		f.Resolved(task.Host, loopback, now.Add(time.Hour), now)
	}
}

// shows checks that the pending links are want, in this order.
func shows(t testing.TB, f *Frontier, want []link.Link) {
	t.Helper()
	i := 0
	if err := f.each(func(l link.Link) error {
		if i == len(want) || l != want[i] {
			return fmt.Errorf("link %d is %.100v, want another", i, l)
		}
		i++
		return nil
	}); err != nil || i != len(want) {
		t.Fatalf("%d links pending, want %d, %v", i, len(want), err)
	}
}

// drains takes all links and checks that they are want, in this order, and that nothing is left. It calls see after
// each link, unless see is nil.
func drains(t testing.TB, f *Frontier, want []link.Link, see func()) {
	t.Helper()
	for i, w := range want {
		got, ok := take(t, f, start)
		if !ok || got != w {
			t.Fatalf("link %d: %.100v, %v; want %.100v (%v)", i, got, ok, w, f.Err())
		}
		if see != nil {
			see()
		}
		if i%1000 == 0 {
			must.Do(t, f.check())
		}
	}
	if s := f.Stats(); s != (Stats{}) {
		t.Errorf("the empty frontier has stats %+v", s)
	}
}

// ahead reports whether k comes before o: by higher level, then warm hosts first, then by lower request number.
func (k key) ahead(o key) bool {
	if k.level != o.level {
		return k.level > o.level
	}
	if k.warm != o.warm {
		return k.warm
	}
	return k.number < o.number
}

// ram returns the number of bytes of q's blocks in RAM.
func (q *queue) ram() int64 {
	n := int64(cap(q.head.buf))
	if q.tail != nil {
		n += q.tail.ram
	}
	return n
}
