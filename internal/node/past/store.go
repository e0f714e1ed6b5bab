package past

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/output/moved"
	"github.com/orbweaver/orbweaver/internal/output/segment"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/object"
	"github.com/orbweaver/orbweaver/internal/store/stores"
	"github.com/orbweaver/orbweaver/internal/warc"
)

// A Place is the store of a crawl.
type Place = stores.Place

// Moved returns a file system that also has the files of segments that were removed here because a store has them.
func Moved(fsys disk.FS, p Place) disk.FS {
	return moved.New(context.Background(), fsys, moved.Config{Place: p})
}

// checkTime bounds the request of CheckStore.
const checkTime = 10 * time.Second

// CheckStore returns an *input.ConfigError if the crawl in dir cannot send to a place: it names no store or one inside
// of dir, or the store refuses a list. If the crawl is resumed, the error also says that the store is empty, although
// segments were sent there: its disk may not be mounted. A store that cannot be reached may come back.
func CheckStore(fsys disk.FS, dir string, p Place, resume bool) error {
	if p.URL == "" {
		return nil
	}
	if to, ok := strings.CutPrefix(p.URL, "file://"); ok && inside(dir, to) {
		return input.Errorf("{store} %s is in the crawl directory %s; name another one", p.URL, dir)
	}
	if err := p.CheckOptions(); err != nil {
		return input.Errorf("{store-option} %v", err)
	}
	fsys = cmp.Or(fsys, disk.OS)
	store, err := stores.Open(fsys, p, object.Config{Tries: 1})
	if err != nil {
		return input.Errorf("{store} %v", err)
	}
	ctx, end := context.WithTimeout(context.Background(), checkTime)
	defer end()
	page, err := store.List(ctx, warc.CrawlData+"/", "", 1)
	if err != nil && !object.Temporary(err) && ctx.Err() == nil {
		return input.Errorf("{store} %v", err)
	}
	if err != nil || !resume || len(page.Objects) > 0 || page.Strange > 0 {
		return nil
	}
	n, last, err := segment.Sent(fsys, dir, store.Location(""))
	if n == 0 {
		return err
	}
	if _, err := store.Stat(ctx, last); !errors.Is(err, object.ErrNotFound) { // its lists may be late
		return nil
	}
	return input.Errorf("{store} %s is empty, but this crawl has sent segments to it (%d): check that its disk is "+
		"mounted, and that it is the same store. If they are lost, give another {store}: it gets the segments "+
		"that %s still has", p.URL, n, dir)
}

// inside reports whether path is dir or below it.
func inside(dir, path string) bool {
	a, err := filepath.Abs(dir)
	b, bad := filepath.Abs(path)
	rel, worse := filepath.Rel(a, b)
	return errors.Join(err, bad, worse) == nil && filepath.IsLocal(rel)
}

// patience is how long SendRest tries while the store is away, and stopping how long it sends after a signal.
const (
	patience = time.Minute
	stopping = 20 * time.Second
)

// keepSending sends committed segments until ctx is done. While the store is away it waits.
func (s *Segments) keepSending(ctx context.Context) {
	if s.Store.URL == "" {
		return
	}
	w, err := s.open(nil)
	if err != nil { // CheckStore has opened it
		s.Events.Write("store-failed", report.F("error", err.Error()))
		return
	}
	for last := ""; ; {
		err := s.send(ctx, w, false)
		if err == nil {
			last = ""
		} else if ctx.Err() == nil {
			if err.Error() != last {
				last = err.Error()
				s.Events.Write("store-failed", report.F("error", last))
			}
			if !clock.Pause(ctx, time.Minute) {
				return
			}
		}
		select {
		case <-s.ended:
		case <-time.After(lookAgain):
		case <-ctx.Done():
			return
		}
	}
}

// SendRest sends all segments that are not in the store, and the lists. It gives up if the store is away for a minute.
// If signalled, it ends after 20 s without an error: somebody waits for the end of the process.
func (s *Segments) SendRest(ctx context.Context, signalled bool) error {
	if s.Store.URL == "" {
		return nil
	}
	if signalled {
		var end context.CancelFunc
		ctx, end = context.WithTimeout(ctx, stopping)
		defer end()
	}
	ctx, give := context.WithCancelCause(ctx)
	defer give(nil)
	w, err := s.open(give)
	if err == nil {
		err = s.send(ctx, w, true)
	}
	if why := context.Cause(ctx); err != nil && why != nil && why != ctx.Err() { // it has given up
		err = fmt.Errorf("the segments could not be sent to %s: %w", s.Store.URL, why)
	}
	if err != nil && signalled {
		s.Events.Write("store-failed", report.F("error", err.Error()))
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w; the segments that the store lacks stay in %s, and the next run sends them", err, s.Dir)
	}
	return nil
}

// open opens the store. give is called if it is away for long; nil: it never is. A store is probed before its first
// write, so it is opened once for many segments.
func (s *Segments) open(give context.CancelCauseFunc) (w *watched, err error) {
	w = &watched{events: s.Events, clock: clock.Or(s.Clock), give: give}
	w.Store, err = stores.Open(cmp.Or(s.FS, disk.OS), s.Store, object.Config{Clock: s.Clock, Waits: w})
	if err == nil {
		s.room.opened(w)
	}
	return w, err
}

// send sends all segments that are not in the store. last says that it sends the lists in any case.
func (s *Segments) send(ctx context.Context, w *watched, last bool) error {
	c := s.committer()
	names, err := s.list(true)
	if err != nil || len(names) == 0 && !last && !s.unsentLists {
		return err
	}
	var failed error // the others are sent all the same: else they would fill the disk
	var apart elsewhere
	for _, name := range names {
		m, err := c.Send(ctx, w, name)
		if ctx.Err() != nil {
			return err
		}
		if err != nil {
			at, _ := segment.StoreOf(cmp.Or(s.FS, disk.OS), filepath.Join(warc.SegmentsDir(s.Dir, s.Crawl), name))
			if !apart.add(m, at, err) {
				failed = cmp.Or(failed, err)
			}
			continue
		}
		s.room.changed(name)
		s.Events.Write("segment-stored", report.F("segment", m.Segment), report.F("files", len(m.Files)),
			report.F("bytes", m.Bytes))
		if err := s.look(); err != nil {
			return err
		}
	}
	failed = cmp.Or(failed, apart.told())
	s.room.refuses(failed)
	if failed != nil {
		return failed
	}
	// At the end they are always sent: a kill, or a store that went away, may have left older ones there.
	if s.unsentLists = !s.sentLists.due(last, w.clock.Now()); s.unsentLists {
		return nil
	}
	err = c.SendLists(ctx, w)
	s.sentLists.done(w.clock.Now())
	if err == nil && last {
		err = c.SendIndex(ctx, w)
	}
	return err
}

// A watched store tells when it is away, and gives up if that takes long. It implements object.Waiter, too.
type watched struct {
	*object.Store
	events interface {
		Write(kind string, fields ...report.Field)
	}
	clock clock.Clock
	give  context.CancelCauseFunc // nil: it does not give up

	mu    sync.Mutex // guards since
	since time.Time  // of the first request that failed after one that did not; zero: the store is there
}

// Waits implements object.Waiter.
func (w *watched) Waits(why error, _ time.Duration) {
	w.mu.Lock()
	now, first := w.clock.Now(), w.since.IsZero()
	if first {
		w.since = now
	}
	long := now.Sub(w.since) >= patience
	w.mu.Unlock()
	if first {
		w.events.Write("store-away", report.F("error", why.Error()))
	}
	if long && w.give != nil {
		w.give(why)
	}
}

// awaySince returns since when the store has not answered; the zero time if it does.
func (w *watched) awaySince() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.since
}

// there notes that a request has succeeded.
func (w *watched) there(err error) {
	if err == nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.since = time.Time{}
	}
}

// Put implements segment.Store.
func (w *watched) Put(ctx context.Context, key string, c object.Content, when object.Condition) (object.Info, error) {
	i, err := w.Store.Put(ctx, key, c, when)
	w.there(err)
	return i, err
}

// List implements segment.Store.
func (w *watched) List(ctx context.Context, prefix, after string, max int) (object.Page, error) {
	p, err := w.Store.List(ctx, prefix, after, max)
	w.there(err)
	return p, err
}
