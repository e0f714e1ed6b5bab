package local

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/sheet"
)

const (
	// listingsMost bounds the listings that an agent keeps, and listingAge how long it keeps one that nobody asks for.
	listingsMost = 8
	listingAge   = 10 * time.Minute
	// listingWait is how long a call waits for the end of a reading.
	listingWait = time.Second
	// listingBytes bounds the links of a page.
	listingBytes = 512 << 10
	// listingFile begins the names of the listings' files in the journal's directory.
	listingFile = "listing-"
)

// A Queue shows the links that wait. It has copies of the queue that operators read page by page. It implements
// operate.Queues.
type Queue struct {
	crawl  QueueCrawl
	run    Run
	clock  clock.Clock
	events *report.Events

	mu   sync.Mutex // guards the fields below
	last uint64
	open []*openListing // that used last is the last one
}

// A QueueCrawl has the links that wait.
type QueueCrawl interface {
	// List copies the links that match to a file with a number.
	List(ctx context.Context, nth int, match func(l *link.Link) bool) *crawl.Listing
	// Turns tells when each of the links is due, and why not now.
	Turns(ctx context.Context, links []link.Link) ([]crawl.LinkTurn, error)
	// Excluded says why an exclusion keeps a link from being fetched; "": none does.
	Excluded(l link.Link) string
}

// OpenQueue removes the files of a killed process from dir, in which the crawl makes them.
func OpenQueue(fs disk.FS, dir string, c QueueCrawl, run Run, clock clock.Clock,
	events *report.Events) (*Queue, error) {
	files, err := fs.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		if strings.HasPrefix(f.Name(), listingFile) {
			if err := fs.Remove(filepath.Join(dir, f.Name())); err != nil {
				return nil, err
			}
		}
	}
	return &Queue{crawl: c, run: run, clock: clock, events: events}, nil
}

type openListing struct {
	id   uint64
	list *crawl.Listing
	end  context.CancelFunc
	used time.Time
}

func (o *openListing) close() error {
	o.end()
	return o.list.Close()
}

// Close removes the copies.
func (s *Queue) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, o := range s.open {
		errs = append(errs, o.close())
	}
	s.open = nil
	return errors.Join(errs...)
}

// of returns a listing. If id is 0, it begins one of the links that match.
func (s *Queue) of(id uint64, match func(*link.Link) bool) (*openListing, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	var errs []error
	s.open = slices.DeleteFunc(s.open, func(o *openListing) bool {
		old := now.Sub(o.used) > listingAge
		if old {
			errs = append(errs, o.close())
		}
		return old
	})
	if id == 0 && len(s.open) == listingsMost {
		errs = append(errs, s.open[0].close())
		s.open = slices.Delete(s.open, 0, 1)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if id == 0 {
		s.last++
		ctx, end := context.WithCancel(context.Background())
		o := &openListing{id: s.last, list: s.crawl.List(ctx, int(s.last), match), end: end, used: now}
		s.open = append(s.open, o)
		return o, nil
	}
	i := slices.IndexFunc(s.open, func(o *openListing) bool { return o.id == id })
	if i < 0 {
		return nil, fmt.Errorf("the agent does not have the listing any more")
	}
	o := s.open[i]
	o.used = now
	s.open = append(slices.Delete(s.open, i, i+1), o)
	return o, nil
}

func (s *Queue) ListQueue(ctx context.Context, q *pb.ListQueue) (*pb.ListedQueue, error) {
	var match func(l *link.Link) bool
	if q.Listing == 0 {
		var err error
		if match, err = s.matcher(q); err != nil {
			return nil, err
		}
	}
	l, err := s.of(q.Listing, match)
	if err != nil {
		return nil, err
	}
	short, cancel := context.WithTimeout(ctx, listingWait)
	defer cancel()
	n, err := l.list.Count(short, true)
	if err != nil {
		return nil, notStarted(s.run, err)
	}
	r := &pb.ListedQueue{Listing: l.id, Next: q.From, Count: &pb.QueueCount{Waiting: n.Waiting, Matched: n.Matched,
		Reading: n.Reading, At: timestamppb.New(n.At)}}
	if n.Reading {
		return r, nil
	}
	links, next, more, err := l.list.Page(q.From, int(max(q.Limit, 1)), listingBytes)
	if err != nil {
		return nil, err
	}
	if q.Preview {
		for _, l := range links {
			r.Count.Examples = append(r.Count.Examples, l.URL.String())
		}
		return r, nil
	}
	var turns []crawl.LinkTurn
	if !q.Brief && len(links) > 0 {
		if turns, err = s.crawl.Turns(ctx, links); err != nil {
			return nil, err
		}
	}
	r.Next, r.More = next, more
	for i, l := range links {
		w := &pb.QueuedLink{Url: l.URL.String(), Depth: int32(l.Depth()), Via: l.Via, Hops: l.Hops,
			Level: int32(l.Level)}
		if turns != nil {
			if w.State, w.Why = turns[i].State, turns[i].Why; !turns[i].Due.IsZero() {
				w.Due = timestamppb.New(turns[i].Due)
			}
		}
		r.Links = append(r.Links, w)
	}
	return r, nil
}

// matcher returns the function that chooses the links of a listing.
func (s *Queue) matcher(q *pb.ListQueue) (func(l *link.Link) bool, error) {
	var exprs []string
	if q.Pattern != "" {
		exprs = []string{q.Pattern}
	}
	if err := sheet.CheckSize(q.Pattern); err != nil {
		return nil, err
	}
	pattern, err := sheet.Compile("pattern", exprs)
	if err != nil {
		return nil, err
	}
	return func(l *link.Link) (matches bool) {
		defer func() { // a goroutine of the crawl calls it
			if v := recover(); v != nil {
				Panicked(s.events)("ListQueue", v, debug.Stack())
			}
		}()
		return (q.Host == "" || l.URL.Host() == q.Host) && (pattern.None() || pattern.Match(l.URL.String())) &&
			(!q.Preview || s.crawl.Excluded(*l) == "")
	}, nil
}
