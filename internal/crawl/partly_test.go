package crawl_test

import (
	"context"
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/crawl/ledger"
	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/warc"
)

// partly is the Cluster of a single agent that compares contents, and needs leases if grip is not nil.
// It implements ledger.Sealer.
type partly struct {
	watcher
	grip func() bool

	mu      sync.Mutex // guards the fields below
	firsts  map[[20]byte]warc.Original
	permits map[uint64]*visit.Permit // by point
}

func newPartly(grip func() bool) *partly {
	return &partly{grip: grip, firsts: map[[20]byte]warc.Original{}, permits: map[uint64]*visit.Permit{}}
}

// cluster returns what the crawl asks.
func (p *partly) cluster() crawl.Cluster { return crawl.Cluster{Turns: p, Contents: p} }

func (p *partly) Bind(l *crawl.Loop) []crawl.Obstacle {
	l.Ledger.Join(p)
	return p.watcher.Bind(l)
}

// Kinds, Save and Load implement ledger.Participant: the journal has no records of it.
func (*partly) Kinds() []ledger.Kind                           { return nil }
func (*partly) Save(func(byte, []byte) error, time.Time) error { return nil }
func (*partly) Load(byte, []byte) error                        { return nil }

func (p *partly) Permit(host string) *visit.Permit {
	if p.grip == nil {
		return nil
	}
	points := p.loop.Frontier.Points(host)
	permit := visit.NewPermit(p.grip, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, point := range points {
			delete(p.permits, point)
		}
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, point := range points {
		p.permits[point] = permit
	}
	return permit
}

// cutOff ends the visits that use a point, and returns their number.
func (p *partly) cutOff(points []uint64) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, point := range points {
		if permit := p.permits[point]; permit != nil && permit.CutOff() {
			n++
		}
	}
	return n
}

func (p *partly) First(_ context.Context, x *warc.Exchange, _ int64) (first warc.Original, dup, asked bool, err error) {
	digest, _, ok, err := warc.Digests(x)
	if err != nil || !ok {
		return first, false, false, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	first, dup = p.firsts[digest]
	return first, dup && first.URL != x.URL, true, nil
}

func (p *partly) Seal(b *ledger.Batch) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	b.EachFinish(func(f *state.Finish) {
		if _, dup := p.firsts[f.Body]; !dup && f.First != nil {
			p.firsts[f.Body] = *f.First
		}
	})
	return nil
}
