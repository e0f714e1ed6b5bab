package frontier

import (
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// delayOf makes Delays of a function.
type delayOf func(host string) (time.Duration, bool)

func (f delayOf) Of(host string) (time.Duration, bool) { return f(host) }

// A raised delay counts from the end of the last response. A lowered one counts from now. Neither shortens a pause, a
// Crawl-delay or a wait that is longer than the delay. A busy host gets the new delay at its next response.
func TestRedelay(t *testing.T) {
	delay := 10 * time.Second
	f := open(t, Config{Delays: delayOf(func(h string) (time.Duration, bool) { return delay, h != "other.example" })})
	defer f.Close()
	now := start
	end := func(host string, d Done) {
		t.Helper()
		push(t, f, "http://"+host+"/", "http://"+host+"/2")
		task := begin(t, f, now)
		if task.Host != host {
			t.Fatalf("%s is due, want %s", task.Host, host)
		}
		must.Do(t, f.Done(host, d, now))
	}
	end("rests.example", Done{})
	end("robots.example", Done{Delay: 8 * time.Second})
	end("waits.example", Done{NotBefore: now.Add(11 * time.Second)})
	end("asked.example", Done{RetryAfter: 9 * time.Second})
	end("slowed.example", Done{SlowDown: true})
	end("other.example", Done{})
	push(t, f, "http://busy.example/", "http://busy.example/2", "http://new.example/")
	begin(t, f, now)
	now = now.Add(time.Second)
	was := delay
	change := func(to time.Duration) {
		delay = to
		f.Redelay(func(host string) (time.Duration, bool) { return was, host != "other.example" }, now)
		was = to
		must.Do(t, f.check())
	}
	check := func(host string, want time.Duration) {
		t.Helper()
		if got := f.Host(host).NotBefore.Sub(now); got != want {
			t.Errorf("delay of %s: %s waits for %s, want %s", delay, host, got, want)
		}
	}
	slowed := f.Host("slowed.example").NotBefore.Sub(now)
	change(30 * time.Second)
	check("rests.example", 29*time.Second)
	check("robots.example", 29*time.Second)
	check("asked.example", 29*time.Second)
	check("other.example", time.Second)
	check("slowed.example", slowed)
	now = now.Add(time.Second)
	change(2 * time.Second)
	check("rests.example", 2*time.Second)
	check("robots.example", 8*time.Second)
	check("asked.example", 7*time.Second)
	check("other.example", 0)
	check("slowed.example", slowed-time.Second)
	if err := f.Done("busy.example", Done{}, now); err != nil {
		t.Error(err)
	}
	check("busy.example", 2*time.Second)
}

// A host that is ready rests again if its new delay is not over yet.
func TestRedelayReady(t *testing.T) {
	delay := 10 * time.Second
	f := open(t, Config{Delays: delayOf(func(string) (time.Duration, bool) { return delay, true })})
	defer f.Close()
	push(t, f, "http://a.example/", "http://a.example/2")
	take(t, f, start)
	delay = 30 * time.Second
	f.Redelay(func(string) (time.Duration, bool) { return 10 * time.Second, true }, start.Add(12*time.Second))
	if task, wake, ok := f.Next(start.Add(12 * time.Second)); ok || !wake.Equal(start.Add(30*time.Second)) {
		t.Errorf("%+v, %v, wake %v", task, ok, wake)
	}
	if _, _, ok := f.Next(start.Add(30 * time.Second)); !ok {
		t.Error("it is not due after its delay")
	}
}
