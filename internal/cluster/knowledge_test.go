package cluster

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/handoff"
	"github.com/orbweaver/orbweaver/internal/cluster/outbox"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/store/keyset"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/textweb"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// TestStateVersion: a state with a version that no agent uses is refused. Its versions would be marked one by one.
func TestStateVersion(t *testing.T) {
	encoded := link.Link{URL: weburl.MustParse("http://a.example/")}.AppendTo(nil)
	in := newLearner(t.Context(), New(Others{}).tenants, "a2", func(link.Link) bool { return true })
	for version, bad := range map[uint64]bool{versionReplica: false, versionLeaving: false, versionLeaving + 1: true,
		1 << 63: true} {
		r := handoff.Record{Kind: handoff.Finish, Number: version, Link: encoded, State: []byte("state")}
		if err := in.finish(&r); errors.Is(err, handoff.ErrRecord) != bad {
			t.Errorf("version %d: %v", version, err)
		}
	}
}

// TestLeavePassesOn: an agent that leaves tells the others what it knows of hosts that it has never
// contacted, also truncated keys and counts of pages.
func TestLeavePassesOn(t *testing.T) {
	movesModel(t, 4, func(seed uint64) moves {
		whole := handoff.Record{Kind: handoff.Known, Host: link.HostKey("lost.example"), Width: keyset.WholeKey,
			Paths: []uint64{1 << 40, 2 << 50, 3 << 60}}
		short := whole
		short.Width, short.Paths = 46, []uint64{5, 1 << 40}
		pages := handoff.Record{Kind: handoff.Pages, Name: "lost.example", Counter: 99, Pages: 4}
		told := func(c *cluster) (n int, counted int64) {
			for _, node := range c.present() {
				if w := node.w.Load(); w != nil && !w.cl.leaving.state.on {
					if err := w.cl.loop.Run.Do(context.Background(), "test", func(time.Time) {
						done := w.cl.ranges.rangeOf(doneKey(link.Key{Host: whole.Host}).Host)
						n += done.N
						counted += w.cl.PagesElsewhere(pages.Name)
					}); err != nil {
						t.Error(err)
					}
				}
			}
			return n, counted
		}
		return moves{agents: 3, begin: 3, kind: "leave", tiny: seed%2 == 1,
			before: func(n *node) {
				if err := n.w.Load().cl.tenants.handed(context.Background(), "gone",
					pages.AppendTo(short.AppendTo(whole.AppendTo(nil)))); err != nil {
					t.Error(err)
				}
			},
			after: func(c *cluster) {
				if n, counted := told(c); n != 5 || counted != 4 {
					t.Errorf("seed %d: the others know %d keys and %d pages of the host, want 5 and 4", seed, n,
						counted)
				}
			}}
	})
}

// answers counts the answers that tell of a page: a recrawl visits these pages again.
func answers(rs []textweb.Request) (n int) {
	for _, r := range rs {
		if r.Status/100 == 2 || r.Status/100 == 3 {
			n++
		}
	}
	return n
}

// TestMovesRecrawl: whatever moves, each page is visited again as often as configured, by the agent
// that owns its host then.
func TestMovesRecrawl(t *testing.T) {
	for _, kind := range []string{"join", "leave", "flap"} {
		t.Run(kind, func(t *testing.T) {
			movesModel(t, 12, func(seed uint64) moves {
				begin := 3
				if kind != "leave" {
					begin = 2
				}
				return moves{agents: 3, begin: begin, kind: kind, rounds: 2, harsh: seed%2 == 1}
			})
		})
	}
}

// Other agents may call an agent whose run has not begun, or never begins. Such a call waits no longer than its
// context.
func TestCallsBeforeTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mine := static{func(string) (string, bool) { return "", true }}
		mem := testdisk.NewMem()
		box := must.Get(outbox.Open(mem, "outbox", outbox.Config{}))(t)
		s := newStory(t, "seed http://a.example/")
		s.with = func() (Others, error) { return Others{Placement: mine, Exchange: mine, Outbox: box}, nil }
		w := must.Get(s.open(mem))(t)
		l := link.Link{URL: weburl.MustParse("http://a.example/1"), Hops: "L"}
		pending := (&handoff.Record{Kind: handoff.Accept, Link: l.AppendTo(nil)}).AppendTo(nil)
		for name, call := range map[string]func(ctx context.Context) error{
			"receive": func(ctx context.Context) error { return w.cl.Receive(ctx, []link.Link{l}, 0) },
			"handed": func(ctx context.Context) error {
				q := &pb.HandRequest{Count: 1, Records: pending}
				_, err := w.cl.tenants.answerHand(ctx, rpc.Caller{Name: "a2"}, q)
				return err
			},
			"claim": func(ctx context.Context) error {
				_, err := w.cl.tenants.answerClaim(ctx, rpc.Caller{Name: "a2"}, aExample)
				return err
			},
			"pulse": func(ctx context.Context) error { _, err := w.cl.Pulse(ctx); return err },
			"end":   func(ctx context.Context) error { _, err := w.cl.End(ctx, 0); return err },
			"leave": func(ctx context.Context) error { return w.cl.Leave(ctx, time.Minute, time.Minute/2) },
			"stay":  func(ctx context.Context) error { _, err := w.cl.Stay(ctx); return err },
		} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			err := call(ctx)
			if !errors.Is(err, context.DeadlineExceeded) || !strings.HasPrefix(err.Error(), name+": ") {
				t.Errorf("%s: %v", name, err)
			}
			cancel()
		}
		must.Do(t, errors.Join(w.close(), box.Close()))
	})
}
