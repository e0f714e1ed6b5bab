package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/frontier"
)

// TestSum: the sum of several agents has all their numbers. It waits or stops only if all of them do, and leaves them
// as they were.
func TestSum(t *testing.T) {
	stamp := func(n time.Duration) clock.Stamp { return clock.Stamp{Time: time.Unix(1e9, 0).Add(n)} }
	one := crawl.Status{At: stamp(0), Elapsed: 2 * time.Second, Pages: 3, Bytes: 10, Queued: 1, Open: 1,
		LastURL:  "http://a/",
		Frontier: frontier.Stats{Ready: 1}, Errors: map[string]int64{"dns": 1}, Stop: crawl.Finished, WaitsFor: "x",
		Live: crawl.Live{Hosts: []frontier.Glimpse{{Host: "a"}}}}
	two := crawl.Status{At: stamp(1), Elapsed: time.Second, Pages: 4, Bytes: 20, Queued: 2, Open: 2,
		LastURL:  "http://b/",
		Frontier: frontier.Stats{Ready: 2, Paused: 1}, Errors: map[string]int64{"dns": 1, "tls": 5},
		Skipped: map[string]int64{"scope": 1}, NextRetry: stamp(9),
		Live: crawl.Live{Hosts: []frontier.Glimpse{{Host: "b"}}}}
	was := one.Errors["dns"]
	got := sum([]*crawl.Status{&one, &two})
	want := &crawl.Status{At: stamp(1), Elapsed: 2 * time.Second, Pages: 7, Bytes: 30, Queued: 3, Open: 3,
		LastURL: "http://b/", Frontier: frontier.Stats{Ready: 3, Paused: 1},
		Errors:  map[string]int64{"dns": 2, "tls": 5},
		Skipped: map[string]int64{"scope": 1}, Retrying: map[string]int64{}, NextRetry: stamp(9),
		Live: crawl.Live{Hosts: []frontier.Glimpse{{Host: "a"}, {Host: "b"}}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if one.Errors["dns"] != was || len(one.Live.Hosts) != 1 {
		t.Error("the sum has changed a part")
	}
	two.Stop = crawl.Finished
	if got := sum([]*crawl.Status{&one, &two}); got.Stop != crawl.Finished {
		t.Errorf("all have stopped, the sum is %q", got.Stop)
	}
}
