package cluster

import (
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/handoff"
	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/store/keyset"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// TestShippedRecords: a finish is shipped with its URL and what the archive has, a clock with the
// whole politeness state of the host.
func TestShippedRecords(t *testing.T) {
	now := time.Unix(1e9, 0)
	url := weburl.MustParse("http://a.example/1")
	key := link.KeyOf(url)
	found := link.Link{URL: url, Hops: "LL", Seed: "s.example", Level: 2}
	encoded := found.AppendTo(nil)
	found.Via = "http://s.example/"
	for name, c := range map[string]struct {
		stage func(cl *Clustered)
		want  handoff.Record
	}{
		"archived": {
			func(cl *Clustered) {
				cl.shipping.copyFinish(&state.Finish{Link: found, Number: 7, Code: 200, File: "a.warc.gz",
					State: []byte("plan")})
			},
			handoff.Record{Kind: handoff.Finish, Number: 7, Disposition: handoff.Archived, Link: encoded,
				State: []byte("plan")},
		},
		"not archived": {
			func(cl *Clustered) { cl.shipping.copyFinish(&state.Finish{Link: found, Number: 8, Code: -2}) },
			handoff.Record{Kind: handoff.Finish, Number: 8, Link: encoded},
		},
		"key": {
			func(cl *Clustered) {
				cl.shipping.copyKnown(key.Host, keyset.List{Width: keyset.WholeKey, Paths: []uint64{key.Path}})
			},
			handoff.Record{Kind: handoff.Known, Host: key.Host, Width: 64, Paths: []uint64{key.Path}},
		},
		"clock": {
			func(cl *Clustered) {
				cl.shipping.copyClock(frontier.HostState{Host: "a.example", Delay: time.Second,
					NotBefore: now.Add(time.Minute), Slow: 2, SlowUntil: now.Add(30 * time.Second),
					Blocked: true}, now) // held
			},
			handoff.Record{Kind: handoff.Clock, Name: "a.example", Politeness: handoff.Politeness{Delay: time.Second,
				Quiet: time.Minute, SlowFor: 30 * time.Second, Slow: 2}},
		},
		"idle clock": {
			func(cl *Clustered) { cl.shipping.copyClock(frontier.HostState{Host: "a.example"}, now) },
			handoff.Record{Kind: handoff.Clock, Name: "a.example"},
		},
	} {
		cl := New(Others{Copies: &Copies{}})
		cl.shipping.epochs = []epoch{{began: now}}
		c.stage(cl)
		got, want := cl.shipping.arena, c.want.AppendTo(nil)
		if _, n, err := handoff.Decode(got, nil); err != nil || n != len(got) || string(got) != string(want) {
			t.Errorf("%s: %x, %v, want %x", name, got, err, want)
		}
	}
}
