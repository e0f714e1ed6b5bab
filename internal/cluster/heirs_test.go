package cluster

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/handoff"
	"github.com/orbweaver/orbweaver/internal/cluster/outbox"
	"github.com/orbweaver/orbweaver/internal/store/keyset"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testparts"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

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

// finishedKeys returns the whole keys of the URLs that a record says are finished.
func finishedKeys(r *handoff.Record) (keys []weburl.Key) {
	switch {
	case r.Kind == handoff.Finish:
		keys = append(keys, r.Key())
	case r.Kind == handoff.Known && r.Width == keyset.WholeKey:
		for _, p := range r.Paths {
			keys = append(keys, weburl.Key{Host: r.Host, Path: p})
		}
	}
	return keys
}
