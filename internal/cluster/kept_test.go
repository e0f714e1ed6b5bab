package cluster

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/boundary"
	"github.com/orbweaver/orbweaver/internal/cluster/handoff"
	"github.com/orbweaver/orbweaver/internal/cluster/known"
	"github.com/orbweaver/orbweaver/internal/cluster/members"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// keeper is the other agents of one that keeps some pages. One of them is its heir, and another one does not answer:
// it gets no page.
type keeper struct {
	static
	refuser
	mu    sync.Mutex
	names []string // URLs of its archive that the heir can name, with their Refetches
}

func (k *keeper) Heirs() Heirs { return oneHeir{} }

func (k *keeper) Keeper(to link.Destination) (string, bool) { return "other", to.Hash != 1 }

func (k *keeper) Send(context.Context, string, []link.Link) error { return errLost }

func (k *keeper) TellLeft(context.Context) error { return nil }

func (k *keeper) Ship(_ context.Context, _ string, _ uint64, records []byte, _ int) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	rs, err := decoded(records)
	for _, r := range rs {
		if r.Disposition == handoff.Archived {
			l, _, bad := link.Decode(r.Link)
			k.names, err = append(k.names, nameText(l)), cmp.Or(err, bad)
		}
	}
	return err
}

func nameText(l link.Link) string {
	return l.URL.String() + strings.Repeat(" again", int(l.Refetches()))
}

func (k *keeper) named(l link.Link) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Contains(k.names, nameText(l))
}

// An agent has fetched a page that it keeps. Its heir does not have the finish yet, because a page that was fetched
// before waits for another agent. An agent that has fetched the page, too, is told that it may forget its copy only
// when the heir can name the page. Otherwise the loss of this machine loses a page that no agent fetches again.
func TestKeptAfterNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStory(t, `
seed http://a.example/out
seed http://a.example/kept
delay 1s
dns a.example 192.0.2.1
http://a.example/out
http://a.example/kept
`)
		k := &keeper{static: static{func(string) (string, bool) { return "self", true }}}
		s.among(Others{Placement: k, Exchange: k, Boundary: k, Pages: k,
			Durable: known.New(new(members.Members))}, k, &k.refuser)
		w, end := s.start(t, testdisk.NewMem())
		time.Sleep(10 * time.Second)
		page := link.Link{URL: weburl.MustParse("http://a.example/kept")}
		if n := len(s.web.Told()); n != 3 { // with robots.txt
			t.Errorf("%d requests", n)
		}
		if k.named(page) {
			t.Error("the heir has the finish already")
		}
		if w.cl.Durable.Has(w.cl.Durable.Fingerprint(boundary.DurableKey(page))) {
			t.Error("other agents need not send the page, and no agent can name it")
		}
		page.SetDestination(link.Destination{})
		for refetches := range uint8(2) {
			page.SetRefetches(refetches)
			durable, err := w.cl.exports.TakePage(t.Context(), "a2", page, nil)
			if err == nil {
				err = durable()
			}
			if err != nil || !k.named(page) {
				t.Errorf("another agent may forget %s, and no agent can name it: %v", nameText(page), err)
			}
		}
		end()
	})
}
