package contents_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/warc"
)

// durable tells a0 that pages with one content each are durable. In the first view of three agents,
// a1 is the second agent of these contents.
func durable(j *judges, pages int) {
	for n := range pages {
		digest := [20]byte{1, byte(n), byte(n >> 8)}
		page := warc.Original{URL: fmt.Sprintf("http://h.example/%d", n), Date: time.Now()}
		j.agents["a0"].Durable(digest, page)
	}
}

// isKnown reports whether an agent knows the first of these pages.
func isKnown(t *testing.T, j *judges, agent string) bool {
	t.Helper()
	q := &pb.ContentsRequest{Contents: []*pb.Content{{Digest: append([]byte{1}, make([]byte, 19)...),
		Page: &pb.ContentPage{Url: "http://other.example/", DateMs: 1}}}}
	r := must.Get(j.agents[agent].Answer(t.Context(), rpc.Caller{}, q))(t)
	return r.Answers[0].GetFirst().GetUrl() == "http://h.example/0"
}

// An agent that cannot be reached is told later, or given up after a while. Other agents are told
// meanwhile. If contents get another second agent while they are queued, that agent is told.
func TestOriginals(t *testing.T) {
	for _, c := range []struct {
		name         string
		away         time.Duration // how long a1 cannot be reached
		err          error
		moves        bool // to a2
		told, untold int64
	}{
		{"at once", 0, nil, false, 200, 0},
		{"away for a while", 3 * time.Second, rpc.ErrUnreachable, false, 200, 0},
		{"away for long", time.Hour, rpc.ErrUnreachable, false, 0, 200},
		{"refuses", time.Hour, rpc.ErrRejected, false, 0, 200},
		{"moves", time.Hour, rpc.ErrUnreachable, true, 200, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := newJudges(t, 1, 3)
				began, k := time.Now(), j.agents["a0"]
				j.away = func(_ context.Context, to string) error {
					if to == "a1" && time.Since(began) < c.away {
						return c.err
					}
					return nil
				}
				durable(j, 200)
				k.Durable([20]byte{2}, warc.Original{URL: "http://h.example/", Date: time.Now()}) // for a2
				time.Sleep(time.Second)
				if n := k.Counts().Told; n != 1 && n != c.told+1 {
					t.Errorf("%d pages told after a second, want at least the page of a2", n)
				}
				to := "a1"
				if c.moves {
					to = "a2"
					time.Sleep(time.Second)
					j.view.Add(1)
				}
				time.Sleep(20 * time.Second)
				if n := k.Counts(); n.Told != c.told+1 || n.Untold != c.untold {
					t.Errorf("%d told, %d not, want %d and %d", n.Told, n.Untold, c.told+1, c.untold)
				}
				if known := isKnown(t, j, to); known != (c.told > 0) {
					t.Errorf("known at %s: %v", to, known)
				}
				j.close()
				if pages, queues := k.Waiting(); pages != 0 || queues != 0 {
					t.Errorf("%d wait in %d queues", pages, queues)
				}
			})
		})
	}
}

// The number of queued pages is bounded, and pages that are queued at the end are given up.
func TestOriginalsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJudges(t, 1, 3)
		k := j.agents["a0"]
		var calls atomic.Int64
		j.away = func(ctx context.Context, _ string) error {
			calls.Add(1)
			<-ctx.Done()
			return errors.Join(rpc.ErrUnreachable, ctx.Err())
		}
		durable(j, originalsMost+10)
		if n := k.Counts(); n.Untold != 10 {
			t.Errorf("%d pages refused, want 10", n.Untold)
		}
		time.Sleep(time.Second)
		j.close()
		if n := k.Counts(); n.Untold != originalsMost+10 || n.Told != 0 || calls.Load() != 1 {
			t.Errorf("%d told, %d not, want 0 and %d; %d calls", n.Told, n.Untold, originalsMost+10, calls.Load())
		}
	})
}
