package crawl

import (
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

// A clock that was set back, while the journal was written or between two runs in it: the rest of a
// pause counts from then on.
func TestPausesOverClockChanges(t *testing.T) {
	noon := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	f, err := frontier.Open(testdisk.NewMem(), "q", frontier.Config{HostDelay: time.Second, NoAddresses: true})
	must.Do(t, err)
	defer f.Close()
	var p pastClock
	pause := func(host string, until time.Time) {
		p.hosts = append(p.hosts, frontier.HostState{Host: host, NotBefore: until, SlowUntil: until})
	}
	p.saw(noon)
	pause("before.example", noon.Add(10*time.Minute))
	p.saw(noon.Add(-2 * time.Hour))
	pause("after.example", noon.Add(-2*time.Hour+10*time.Minute))
	p.saw(noon.Add(-2*time.Hour + time.Minute))
	now := noon.Add(-2*time.Hour + 3*time.Minute)
	p.restore(f, now)
	f.Hush(now)
	for _, host := range []string{"before.example", "after.example"} {
		if got, want := f.Host(host).NotBefore.Sub(now), 7*time.Minute; got != want {
			t.Errorf("%s: %v are left of the pause, want %v", host, got, want)
		}
	}
}

// The rest of a pause when a crawl continues, by a clock that may have been set since: never more
// than at the last request.
func TestPausesOverClockChange(t *testing.T) {
	end := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC) // the last request
	for _, c := range []struct {
		name        string
		down        time.Duration // by the clock, from the last request to the next run
		pause, want time.Duration // left at end, and when it goes on
	}{
		{"at once", 0, 5 * time.Minute, 5 * time.Minute},
		{"later", time.Minute, 5 * time.Minute, 4 * time.Minute},
		{"when it is over", 10 * time.Minute, 5 * time.Minute, 0},
		{"set back by an hour", -time.Hour, 5 * time.Minute, 5 * time.Minute},
		{"set back by a month", -30 * 24 * time.Hour, 5 * time.Minute, 5 * time.Minute},
		{"set back, a pause that was over", -time.Hour, -10 * time.Minute, 0},
	} {
		f, err := frontier.Open(testdisk.NewMem(), "q", frontier.Config{HostDelay: time.Second, NoAddresses: true})
		must.Do(t, err)
		var p pastClock
		p.saw(end)
		p.saw(end.Add(-time.Minute))
		p.hosts = []frontier.HostState{{Host: "a.example", NotBefore: end.Add(c.pause), Slow: 1,
			SlowUntil: end.Add(c.pause)}}
		now := end.Add(c.down)
		p.restore(f, now)
		f.Hush(now)
		st := f.Host("a.example")
		if got := st.NotBefore.Sub(now); got != max(c.want, time.Second) {
			t.Errorf("%s: %v are left of the pause, want %v", c.name, got, max(c.want, time.Second))
		}
		if got := st.SlowUntil.Sub(now); max(got, 0) != c.want {
			t.Errorf("%s: it is slowed down for %v, want %v", c.name, got, c.want)
		}
		must.Do(t, f.Close())
	}
}

// A run with a shorter delay does not wait for what is left of the longer one. It obeys pauses and Crawl-delay.
func TestShorterDelayOfTheNextRun(t *testing.T) {
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	f, err := frontier.Open(testdisk.NewMem(), "q", frontier.Config{HostDelay: -1, NoAddresses: true})
	must.Do(t, err)
	defer f.Close()
	left := func(d time.Duration) time.Time { return now.Add(d) }
	p := pastClock{last: now, hosts: []frontier.HostState{
		{Host: "quiet.example", NotBefore: left(9 * time.Minute)},
		{Host: "crawl-delay.example", NotBefore: left(9 * time.Minute), Delay: 20 * time.Second},
		{Host: "paused.example", NotBefore: left(9 * time.Minute), SlowUntil: left(5 * time.Minute), Slow: 1},
		{Host: "paused-before.example", NotBefore: left(9 * time.Minute), SlowUntil: left(-time.Minute), Slow: 1},
	}}
	p.restore(f, now)
	f.Hush(now)
	for host, want := range map[string]time.Duration{"quiet.example": 0, "crawl-delay.example": 20 * time.Second,
		"paused.example": 5 * time.Minute, "paused-before.example": 0} {
		if got := max(f.Host(host).NotBefore.Sub(now), 0); got != want {
			t.Errorf("%s waits for %v, want %v", host, got, want)
		}
	}
}
