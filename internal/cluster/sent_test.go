package cluster

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/handoff"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// An away keeps the pages of a.example for another agent, which never takes them.
type away struct {
	refuser
	at atomic.Pointer[link.Stored] // the page that was stored last
}

func (a *away) Write(x *warc.Exchange) (link.Stored, error) {
	at, err := a.Store.Write(x)
	a.at.Store(&at)
	return at, err
}

func (a *away) Send(context.Context, string, []link.Link) error { return errLost }

// A link of another agent cannot stand for one of this agent's own pages, nor for its own fetch of a robots.txt.
// Otherwise it would end the run: this one, or the next one, which would look for the page.
func TestSentLinkIsALink(t *testing.T) {
	const own, others = "http://a.example/sent", "http://b.example/sent"
	for name, send := range map[string]func(ctx context.Context, w *world, l link.Link) error{
		"received": func(ctx context.Context, w *world, l link.Link) error {
			return w.cl.Receive(ctx, []link.Link{l}, 0)
		},
		"handed": func(ctx context.Context, w *world, l link.Link) error {
			r := handoff.Record{Kind: handoff.Accept, Number: 1, Link: l.AppendTo(nil)}
			return w.cl.tenants.handed(ctx, "a2", r.AppendTo(nil))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStory(t, `
seed http://a.example/
dns a.example 192.0.2.1
dns b.example 192.0.2.2
http://a.example/ /out
http://a.example/out
http://a.example/sent
http://b.example/sent
`)
				placed := static{func(host string) (string, bool) { return "other", host == "a.example" }}
				pages := new(away)
				s.among(Others{Placement: placed, Exchange: placed, Boundary: pages, Pages: pages}, nil, &pages.refuser)
				mem := testdisk.NewMem()
				w, end := s.start(t, mem)
				time.Sleep(time.Minute) // the page /out is stored
				for _, u := range []string{own, others} {
					l := link.Link{URL: weburl.MustParse(u), Hops: "L"}
					l.SetImported()
					l.SetStored(*pages.at.Load())
					l.SetVersion(1)
					must.Do(t, send(t.Context(), w, l))
				}
				errand := link.Link{URL: weburl.MustParse("http://a.example/errand"), Via: "nothing", Hops: "P"}
				must.Do(t, send(t.Context(), w, errand))
				time.Sleep(time.Minute)
				end()
				w, end = s.start(t, mem)
				time.Sleep(time.Minute)
				status := w.View.Status()
				end()
				if n := status.Cluster.Outgoing; n != 2 || status.Cluster.Boundary.Waiting != 1 {
					t.Errorf("%d wait for other agents, and %d are pages", n, status.Cluster.Boundary.Waiting)
				}
				var fetched []string
				for _, q := range s.web.Told() {
					if q.URL == own || q.URL == others || q.URL == errand.URL.String() {
						fetched = append(fetched, q.URL)
					}
				}
				if !slices.Equal(fetched, []string{own}) {
					t.Errorf("requests: %q", fetched)
				}
			})
		})
	}
}
