package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
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

// listings are copies of the queue that operators read page by page.
type listings struct {
	a    *Agent
	mu   sync.Mutex // guards the fields below
	last uint64
	open []*openListing // that used last is the last one
}

type openListing struct {
	id   uint64
	list *crawl.Listing
	end  context.CancelFunc
	used time.Time
}

// openListings removes the files of a killed process.
func (a *Agent) openListings() error {
	a.listings = &listings{a: a}
	a.onClose(a.listings.close)
	files, err := a.fs.ReadDir(a.dir("state", "journal"))
	if err != nil {
		return err
	}
	for _, f := range files {
		if strings.HasPrefix(f.Name(), listingFile) {
			if err := a.fs.Remove(a.dir("state", "journal", f.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

func (o *openListing) close() error {
	o.end()
	return o.list.Close()
}

func (s *listings) close() error {
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
func (s *listings) of(id uint64, match func(*link.Link) bool) (*openListing, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.a.now()
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
		o := &openListing{id: s.last, list: s.a.crawler.List(ctx, int(s.last), match), end: end, used: now}
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

// ListQueue implements operate.Queues.
func (o local) ListQueue(ctx context.Context, q *pb.ListQueue) (*pb.ListedQueue, error) {
	var match func(l *link.Link) bool
	if q.Listing == 0 {
		var err error
		if match, err = o.matcher(q); err != nil {
			return nil, err
		}
	}
	l, err := o.a.listings.of(q.Listing, match)
	if err != nil {
		return nil, err
	}
	short, cancel := context.WithTimeout(ctx, listingWait)
	defer cancel()
	n, err := l.list.Count(short, true)
	if w, ok := o.a.waiting(); ok && errors.Is(err, crawl.ErrNotRunning) {
		return nil, fmt.Errorf("the crawl has not started: the agent waits for %s", w.For)
	}
	if err != nil {
		return nil, err
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
		if turns, err = o.a.crawler.Turns(ctx, links); err != nil {
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
func (o local) matcher(q *pb.ListQueue) (func(l *link.Link) bool, error) {
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
				panicked(o.a.parts.Events)("ListQueue", v, debug.Stack())
			}
		}()
		return (q.Host == "" || l.URL.Host() == q.Host) && (pattern.None() || pattern.Match(l.URL.String())) &&
			(!q.Preview || o.a.crawler.Excluded(*l) == "")
	}, nil
}

// CheckPattern implements operate.Scoping.
func (o local) CheckPattern(pattern string) error {
	return cmp.Or(sheet.CheckSize(pattern), crawl.CheckExclusion(pattern))
}

// CheckHost implements operate.Scoping.
func (o local) CheckHost(host string) (string, error) { return input.Host(host) }

// Scope implements operate.Scoping.
func (o local) Scope() *pb.ScopeResponse {
	d := o.a.parts.Scope.Describe()
	return &pb.ScopeResponse{Kind: d.Kind.String(), Seeds: d.Seeds, Include: d.Include, Exclude: d.Exclude,
		Depth: int32(d.Depth), HostDepth: int32(d.HostDepth)}
}
