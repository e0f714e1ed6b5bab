package cluster

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/handoff"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/store/keyset"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// An agent takes the only other agent for lost for some seconds. What it accepts in that time has
// no heir. When the other agent is back, it must get those records, too. Otherwise it could learn
// that a page is finished, and lack a link of the page.
func TestHeirIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		others := &heirs{otherAgents: newOtherAgents(30*time.Second, 0), told: map[link.Key]handoff.Kind{}}
		s := newStory(t, `
delay 1s
seed http://a.example/
seed http://x.example/
dns a.example 192.0.2.1
dns x.example 192.0.2.2
http://x.example/ http://b.example/1
http://a.example/robots.txt robots=User-agent:_*;Crawl-delay:_20
http://a.example/ /1
http://a.example/1
`)
		s.among(Others{Placement: others, Exchange: others}, others, nil)
		w, end := s.start(t, testdisk.NewMem())
		sees := func(alone bool, until time.Duration) {
			others.alone.Store(alone)
			w.cl.ViewChanged()
			time.Sleep(until - time.Since(others.start))
		}
		sees(false, 10*time.Second) // a link of x.example's page cannot be sent before 30 s
		sees(true, 25*time.Second)  // a.example's page comes after 20 s
		sees(false, 38*time.Second) // and its link after 40 s
		end()
		page := others.told[link.KeyOf(weburl.MustParse("http://a.example/"))]
		found := others.told[link.KeyOf(weburl.MustParse("http://a.example/1"))]
		if page != handoff.Finish || found == 0 {
			t.Errorf("the heir was told of the page %q, of its link %q", page, found)
		}
	})
}

// TestHeirsHaveAll: an agent that leaves knows whether its heirs have all that it knows. They may lack it if the limit
// ends the leave, if they were not told all of an earlier run, and if there are none.
func TestHeirsHaveAll(t *testing.T) {
	const limit, late = 30 * time.Second, time.Hour
	for _, c := range []struct {
		name    string
		named   time.Duration // when the heir begins to accept finishes
		untold  bool          // the others do not hear that the agent leaves
		restart bool          // the agent reads its archive for long after a restart
		alone   bool          // the heir is lost
		changed bool          // the heirs change after the leave
		want    bool
	}{
		{name: "all", want: true},
		{name: "a finish waits", named: late},
		{name: "the others are not told", untold: true},
		{name: "names of an earlier run", restart: true},
		{name: "no heir", alone: true},
		{name: "the heirs change", changed: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				others := &heirs{otherAgents: newOtherAgents(0, 0), told: map[link.Key]handoff.Kind{}}
				others.namedAt, others.moved = c.named, 5*time.Second
				s := safeStory(t, others.otherAgents, nil)
				o := Others{Placement: others, Exchange: others}
				others.untold = c.untold
				if c.restart {
					o.Names = &slowNames{o: others.otherAgents, until: late}
				}
				s.among(o, others.otherAgents, nil)
				mem := testdisk.NewMem()
				w, end := s.start(t, mem)
				time.Sleep(6 * time.Second)
				if c.restart {
					end()
					w, end = s.start(t, mem)
				}
				others.alone.Store(c.alone)
				w.cl.ViewChanged()
				if err := w.cl.Leave(t.Context(), limit, limit/2); err != nil {
					t.Error(err)
				}
				time.Sleep(2 * limit)
				others.alone.Store(c.alone || c.changed)
				if got := w.cl.TellShipped(); got != c.want {
					t.Errorf("the heirs have all: %t, want %t", got, c.want)
				}
				if stop := end(); stop != crawl.Left {
					t.Errorf("stop %s", stop)
				}
			})
		})
	}
}

// heirs are otherAgents that can be absent, and record what they learn of URLs.
type heirs struct {
	*otherAgents
	alone atomic.Bool
	told  map[link.Key]handoff.Kind // the last kind
}

type noHeir struct{}

func (noHeir) Heir(uint64) string { return "" }

func (o *heirs) Heirs() Heirs {
	if o.alone.Load() {
		return noHeir{}
	}
	return oneHeir{}
}

func (o *heirs) Ship(_ context.Context, _ string, _ uint64, records []byte, _ int) error {
	rs, err := decoded(records)
	for _, r := range rs {
		switch {
		case r.Kind == handoff.Accept, r.Kind == handoff.Finish:
			o.told[r.Key()] = r.Kind
		case r.Kind == handoff.Known && r.Width == keyset.WholeKey:
			for _, p := range r.Paths {
				o.told[link.Key{Host: r.Host, Path: p}] = handoff.Finish
			}
		}
	}
	return err
}
