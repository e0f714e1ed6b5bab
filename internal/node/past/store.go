package past

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/object"
	"github.com/orbweaver/orbweaver/internal/store/stores"
)

// A Place is the store of a crawl.
type Place = stores.Place

// CheckStore returns an *input.ConfigError if a place names no store. It makes no request.
func CheckStore(fsys disk.FS, p Place) error {
	if p.URL == "" {
		return nil
	}
	if _, err := stores.Open(cmp.Or(fsys, disk.OS), p, object.Config{}); err != nil {
		return input.Errorf("{store} %v", err)
	}
	return nil
}

// patience is how often a request is made at the end of a crawl while the store is away: for a minute or two.
const patience = 9

// keepSending sends committed segments until ctx is done. While the store is away it waits.
func (s *Segments) keepSending(ctx context.Context) {
	for s.Store.URL != "" {
		if err := s.send(ctx, 0); err != nil && ctx.Err() == nil {
			s.Events.Write("store-failed", report.F("error", err.Error()))
			if !clock.Pause(ctx, time.Minute) {
				return
			}
		}
		if !clock.Pause(ctx, lookAgain) {
			return
		}
	}
}

// SendRest sends all segments that are not in the store. It gives up if the store is away for a minute or two.
func (s *Segments) SendRest(ctx context.Context) error {
	if s.Store.URL == "" {
		return nil
	}
	if err := s.send(ctx, patience); err != nil {
		return fmt.Errorf("%w; the segments that the store lacks stay in %s, and the next run sends them", err, s.Dir)
	}
	return nil
}

// send sends all segments that are not in the store. tries is how often it makes a request that fails for the moment;
// 0 is no bound.
func (s *Segments) send(ctx context.Context, tries int) error {
	w := &waits{events: s.Events}
	store, err := stores.Open(cmp.Or(s.FS, disk.OS), s.Store, object.Config{Tries: tries, Clock: s.Clock, Waits: w})
	if err != nil {
		return err
	}
	c := s.committer()
	names, err := c.Unsent(store)
	if err != nil || len(names) == 0 && tries == 0 {
		return err
	}
	for _, name := range names {
		m, err := c.Send(ctx, store, name)
		if err != nil {
			return err
		}
		w.told.Store(false)
		s.Events.Write("segment-stored", report.F("segment", m.Segment), report.F("files", len(m.Files)),
			report.F("bytes", m.Bytes))
	}
	// At the end they are always sent: a kill, or a store that went away, may have left older ones there.
	return c.SendLists(ctx, store)
}

// A waits writes an event when the store is away. It implements object.Waiter.
type waits struct {
	events interface {
		Write(kind string, fields ...report.Field)
	}
	told atomic.Bool // since a segment was sent
}

func (w *waits) Waits(why error, _ time.Duration) {
	if !w.told.Swap(true) {
		w.events.Write("store-away", report.F("error", why.Error()))
	}
}
