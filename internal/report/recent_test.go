package report

import (
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testclock"
)

// Since returns the last events, and its channel tells of the next one.
func TestSince(t *testing.T) {
	e, err := OpenEvents(disk.OS, t.TempDir()+"/events.jsonl", testclock.At(time.Unix(0, 0)))
	must.Do(t, err)
	defer e.Close()
	list, next, more := e.Since(0)
	if len(list) != 0 || next != 0 {
		t.Fatal(list, next)
	}
	select {
	case <-more:
		t.Error("there is an event")
	default:
	}
	e.Write("one", F("host", "a.example"))
	<-more
	const one = `{"type":"event","time":"1970-01-01T00:00:00.000Z","event":"one","host":"a.example"}`
	if list, next, _ = e.Since(0); len(list) != 1 || next != 1 || list[0] != one {
		t.Errorf("got %q up to %d", list, next)
	}
	if list, next, _ = e.Since(7); len(list) != 0 || next != 1 {
		t.Errorf("after the last: %q up to %d", list, next)
	}
	for range 2 * recentMost {
		e.Write("many")
	}
	if list, next, _ = e.Since(0); len(list) != recentMost || next != 2*recentMost+1 {
		t.Errorf("%d events up to %d", len(list), next)
	}
	e.Write("long", F("text", strings.Repeat("x", recentBytes)))
	e.Write("last")
	if list, _, _ = e.Since(0); len(list) != 1 || !strings.Contains(list[0], "last") {
		t.Errorf("%d events", len(list))
	}
}

// The latency of a host follows its last responses.
func TestLatency(t *testing.T) {
	var tally Tally
	add := func(d time.Duration, code int) { tally.Add(Visit{Host: "a.example", Code: code, Took: d}) }
	latency := func() time.Duration {
		h, _ := tally.HostCount("a.example")
		return h.Latency
	}
	if add(time.Second, -2); latency() != 0 {
		t.Errorf("after a failure: %s", latency())
	}
	if add(time.Second, 200); latency() != time.Second {
		t.Errorf("after one response: %s", latency())
	}
	if add(2*time.Second, 404); latency() != 1250*time.Millisecond {
		t.Errorf("after two responses: %s", latency())
	}
	for range 40 {
		add(100*time.Millisecond, 200)
	}
	if d := latency(); d < 99*time.Millisecond || d > 101*time.Millisecond {
		t.Errorf("after many responses: %s", d)
	}
	if _, ok := tally.HostCount("b.example"); ok || tally.HostKnown("b.example") || !tally.HostKnown("a.example") {
		t.Error("wrong hosts")
	}
}
