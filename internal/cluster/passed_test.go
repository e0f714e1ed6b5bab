package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/handoff"
	"github.com/orbweaver/orbweaver/internal/cluster/outbox"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testparts"
	"github.com/orbweaver/orbweaver/internal/testkit/textweb"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// An agent with an older view sends a link to another agent, which must pass it on. That agent is
// killed with its disk before it can. The link is fetched all the same, whether the owner had the
// passing agent's replica or could not be reached at all.
func TestPassedOn(t *testing.T) {
	for _, c := range []struct {
		name  string
		ships bool // the passing agent can ship to the owner, and cannot push
	}{{"owner not there", false}, {"owner has the replica", true}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { passedOn(t, c.ships) })
		})
	}
}

// hostBetween returns a host that belongs to different agents in two views.
func hostBetween(older, newer *roster, byOlder, byNewer string) string {
	for i := 0; ; i++ {
		host := fmt.Sprintf("h%d.example", i)
		key := weburl.HostKey(host)
		if older.nearest(key)[0] == byOlder && newer.nearest(key)[0] == byNewer {
			return host
		}
	}
}

func passedOn(t *testing.T, ships bool) {
	older, newer, last := &roster{names: "a0 a1"}, &roster{names: "a0 a1 a2"}, &roster{names: "a0 a2"}
	found, moved := hostBetween(older, newer, "a0", "a0"), hostBetween(older, newer, "a1", "a2")
	seed, link := "http://"+found+"/", "http://"+moved+"/1"
	b := &band{
		t: t, acked: map[string]map[weburl.Key][]time.Duration{},
		Diary: textweb.NewDiary(textweb.Parse(t, fmt.Sprintf("dns %s 192.0.2.1\ndns %s 192.0.2.2\n%s %s\n%s\n", found,
			moved, seed, link, link)), 1, 22),
	}
	for i, view := range []*roster{older, newer, newer} {
		m := b.enlist(rand.New(rand.NewPCG(1, 21)), 1, fmt.Sprint("a", i), fate{moves: true})
		m.seeds = []weburl.URL{weburl.MustParse(seed)}
		m.view.Store(view)
		m.late = i == 2
	}
	finder, passer, owner := b.mates[0], b.mates[1], b.mates[2]
	passer.mute = true
	finder.open()
	passer.open()
	if ships {
		owner.open()
	}
	time.Sleep(5 * time.Second)
	passer.end(pause{kill: true})
	passer.dead, passer.mem = true, nil
	if ships {
		owner.loses(passer.name)
	} else {
		owner.view.Store(last)
		owner.open()
	}
	finder.loses(passer.name)
	finder.gains(owner.name)
	b.finish()
	b.closes()
	if n := b.fetched(link); n != 1 {
		t.Errorf("%s was fetched %d times\n%s\n%s", link, n, b.Log.String(), b.Web.ByAgent())
	}
}

// closes waits until the agents have ended, and closes their open files.
func (b *band) closes() {
	for _, m := range b.living() {
		w := m.w.Load()
		if stop := <-m.ended; stop != crawl.Finished || w.Pending() != 0 {
			b.t.Errorf("%s: stop %s, %d pending", m.name, stop, w.Pending())
		}
		m.tasks.Wait()
		err := errors.Join(w.cl.Outbox.Close(), w.cl.Copies.Out.Close(), w.cl.Copies.Waiting.Close())
		if err := errors.Join(err, w.close(), m.store.Close()); err != nil {
			b.t.Fatal(err)
		}
	}
}

// fetched counts the requests for a URL.
func (b *band) fetched(url string) (n int) {
	for _, r := range b.Web.Told() {
		if r.URL == url {
			n++
		}
	}
	return n
}

// A host moves while its owner cannot send the links of a page of the host, and then
// the owner is lost for good. The new owner is not told that the page is finished
// before its links are safe, so it fetches the page again and finds them.
func TestGivenWithLinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		older, newer := &roster{names: "a0 a1"}, &roster{names: "a0 a1 a2"}
		moves, stays := hostBetween(older, newer, "a0", "a2"), hostBetween(older, newer, "a1", "a1")
		seed, link := "http://"+moves+"/", "http://"+stays+"/1"
		b := &band{
			t: t, acked: map[string]map[weburl.Key][]time.Duration{},
			Diary: textweb.NewDiary(textweb.Parse(t, fmt.Sprintf("dns %s 192.0.2.1\ndns %s 192.0.2.2\n%s %s\n%s\n",
				moves,
				stays, seed, link, link)), 1, 22),
		}
		for i := range 3 {
			m := b.enlist(rand.New(rand.NewPCG(1, 21)), 1, fmt.Sprint("a", i), fate{moves: true})
			m.seeds = []weburl.URL{weburl.MustParse(seed)}
			m.view.Store(older)
		}
		lost, owner, comes := b.mates[0], b.mates[1], b.mates[2]
		lost.mute = true
		lost.open()
		owner.open()
		time.Sleep(5 * time.Second)
		comes.view.Store(newer)
		comes.late = true
		comes.open()
		lost.gains(comes.name)
		owner.gains(comes.name)
		time.Sleep(5 * time.Second)
		lost.end(pause{kill: true})
		lost.dead, lost.mem = true, nil
		owner.loses(lost.name)
		comes.loses(lost.name)
		b.finish()
		b.closes()
		if n := b.fetched(link); n != 1 {
			t.Errorf("%s was fetched %d times\n%s\n%s", link, n, b.Log.String(), b.Web.ByAgent())
		}
	})
}

// An agent takes the only other agent for lost for some seconds. What it accepts in that time has
// no heir. When the other agent is back, it must get those records, too. Otherwise it could learn
// that a page is finished, and lack a link of the page.
func TestHeirIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		others := &heirs{
			company: newCompany(30*time.Second, 0), told: map[weburl.Key]handoff.Kind{},
		}
		var boxes boxes
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
		s.with = func() (Others, error) {
			err := boxes.open(s.disk.Load(), outbox.Config{})
			return Others{Peers: others, Outbox: boxes.links,
				Copies: &Copies{Shipper: others, Out: boxes.records, Waiting: boxes.finishes}}, err
		}
		w, err := s.open(testdisk.NewMem())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := w.Run(ctx)
			ended <- err
		}()
		sees := func(alone bool, until time.Duration) {
			others.alone.Store(alone)
			w.cl.ViewChanged()
			time.Sleep(until - time.Since(others.start))
		}
		sees(false, 10*time.Second) // a link of x.example's page cannot be sent before 30 s
		sees(true, 25*time.Second)  // a.example's page comes after 20 s
		sees(false, 38*time.Second) // and its link after 40 s
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := errors.Join(boxes.close(), w.close()); err != nil {
			t.Fatal(err)
		}
		page, link := weburl.MustParse("http://a.example/").Key(), weburl.MustParse("http://a.example/1").Key()
		if others.told[page] != handoff.Finish || others.told[link] == 0 {
			t.Errorf("the heir was told of the page %q, of its link %q", others.told[page], others.told[link])
		}
	})
}

// boxes are the outboxes of a crawl with replication, and the queue of its waiting finishes.
type boxes struct {
	links, records *outbox.Outbox
	finishes       *outbox.Queue
}

func (b *boxes) open(fs *testdisk.Mem, c outbox.Config) (err error) {
	if b.links, err = outbox.Open(fs, testparts.Dir+"/state/outbox", c); err != nil {
		return err
	}
	if b.records, err = outbox.Open(fs, testparts.Dir+"/state/shipping", c); err != nil {
		return err
	}
	b.finishes, err = outbox.OpenQueue(fs, testparts.Dir+"/state/waiting", c.MemoryBytes)
	return err
}

func (b *boxes) close() error {
	return errors.Join(b.links.Close(), b.records.Close(), b.finishes.Close())
}

// heirs is a company that can be absent, and records what it learns of URLs.
type heirs struct {
	*company
	alone atomic.Bool
	told  map[weburl.Key]handoff.Kind // the last kind
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
	for len(records) > 0 {
		r, used, err := handoff.Decode(records, nil)
		if err != nil {
			return err
		}
		if r.Kind == handoff.Accept {
			o.told[r.Key()] = r.Kind
		}
		for _, k := range finishedKeys(&r) {
			o.told[k] = handoff.Finish
		}
		records = records[used:]
	}
	return nil
}
