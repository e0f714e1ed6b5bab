package frontier

import (
	"net/netip"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// A handedLease is a HostLease that frontiers pass on: one at a time has it.
type handedLease struct {
	freeLease
	notes map[uint64]LeaseNote
	came  map[uint64]bool
	ended time.Time
	due   time.Time
}

func (l *handedLease) Keep(_, key uint64, n LeaseNote, _ time.Time) {
	l.notes[key], l.came[key] = n, false
}

func (l *handedLease) Expect(_ uint64, due, _ time.Time) { l.due = due }

func (l *handedLease) Kept(_, key uint64, _ time.Time) (n LeaseNote, ok bool) {
	n, known := l.notes[key]
	if known && !l.came[key] {
		return LeaseNote{}, false
	}
	n.Ended = l.ended
	if n.Robots == 0 {
		l.came[key] = false
	}
	return n, known || !l.ended.IsZero()
}

// hand gives the lease to another frontier.
func (l *handedLease) hand() {
	for key := range l.notes {
		l.came[key] = true
	}
}

// fetch returns when the frontier gives out a link of its only host, and what it knows of the robots.txt then.
func fetch(t *testing.T, f *Frontier, now time.Time) (time.Time, Task) {
	t.Helper()
	for range 10 {
		task, wake, ok := f.Next(now)
		switch {
		case ok && !task.Addr.IsValid():
			f.Resolved(task.Host, netip.MustParseAddr("192.0.2.1"), now.Add(time.Hour), now)
		case ok:
			return now, task
		case wake.IsZero():
			t.Fatal("no link comes")
		default:
			now = wake
		}
	}
	t.Fatal("no link after ten wakes")
	return now, Task{}
}

// TestHostsState: a host's delay, pauses and robots.txt hold for the frontier that gets its lease next.
func TestHostsState(t *testing.T) {
	for _, site := range []time.Duration{0, time.Second} {
		l := &handedLease{notes: map[uint64]LeaseNote{}, came: map[uint64]bool{}}
		cfg := Config{HostDelay: 2 * time.Second, SiteDelay: site, HostLease: l, SlowBase: time.Minute}
		a, b := open(t, cfg), open(t, cfg)
		push(t, a, "http://www.a.example/1", "http://www.a.example/2")
		push(t, b, "http://www.a.example/3", "http://www.a.example/4")
		finish := func(f *Frontier, d Done, now time.Time) {
			t.Helper()
			must.Do(t, f.Done("www.a.example", d, now))
		}

		now, _ := fetch(t, a, start)
		print := RobotsPrint{Origin: "http://www.a.example", Print: 7}
		finish(a, Done{Delay: 30 * time.Second, Robots: print}, now)
		if got := l.due.Sub(now); got != 30*time.Second {
			t.Errorf("site delay %v: the host is expected after %v, want 30s", site, got)
		}
		l.hand()
		at, task := fetch(t, b, now)
		if got := at.Sub(now); got != 30*time.Second {
			t.Errorf("site delay %v: the next agent's request comes after %v, want the Crawl-delay of 30s", site, got)
		}
		if task.Robots != 7 {
			t.Errorf("site delay %v: the next agent hears %d of robots.txt, want 7", site, task.Robots)
		}
		finish(b, Done{SlowDown: true}, at)
		l.hand()
		now = at
		if at, _ = fetch(t, a, now); at.Sub(now) < 54*time.Second {
			t.Errorf("site delay %v: a request %v after a 429, want a pause of a minute", site, at.Sub(now))
		}
		finish(a, Done{SlowDown: true}, at)
		l.hand()
		now = at
		if at, _ = fetch(t, b, now); at.Sub(now) < 108*time.Second {
			t.Errorf("site delay %v: a request %v after the second 429, want a pause of two minutes", site, at.Sub(now))
		}
	}
}

// TestHostsStateLost: if the last agent is lost with its notes, the host's delay begins when that agent has stopped.
func TestHostsStateLost(t *testing.T) {
	l := &handedLease{notes: map[uint64]LeaseNote{}, came: map[uint64]bool{}, ended: start.Add(-time.Second)}
	f := open(t, Config{HostDelay: 8 * time.Second, SiteDelay: time.Second, HostLease: l})
	push(t, f, "http://www.a.example/1")
	if at, _ := fetch(t, f, start); at.Sub(start) != 7*time.Second {
		t.Errorf("a request %v after the start, want 7s", at.Sub(start))
	}
}
