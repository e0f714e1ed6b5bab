package urlfrontier

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/orbweaver/orbweaver/internal/store/heap"
	"github.com/orbweaver/orbweaver/internal/urlfrontier/pb"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// Limits of what clients send.
const (
	MaxURL  = 8 << 10  // bytes of a URL
	MaxName = 255      // bytes of a key or of a crawl's ID
	MaxItem = 64 << 10 // bytes of a URL with its metadata
	// MostURLs is the number of URLs that one call of GetURLs gives, and mostTaken the number of their bytes, roughly.
	MostURLs  = 10_000
	mostTaken = 4 << 20
	// maxDate is the last second of the year 9999. Later dates are taken for it.
	maxDate = 253402300799
	// defaultLease is the lease in seconds, if the client names none. It is that of the reference server.
	defaultLease = 30
	// defaultCrawl is the ID of the crawl without one.
	defaultCrawl = "DEFAULT"
)

// errArgument reports a wrong value in a call.
var errArgument = errors.New("wrong value")

// crawlID returns the ID of a crawl.
func crawlID(id string) (string, error) {
	if id == "" {
		return defaultCrawl, nil
	}
	return id, checkName("crawlID", id)
}

// checkName checks the key of a queue or the ID of a crawl.
func checkName(what, name string) error {
	if len(name) > MaxName {
		return fmt.Errorf("%w: %s of %d bytes; at most %d are allowed", errArgument, what, len(name), MaxName)
	}
	if !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		return fmt.Errorf("%w: %s %.80q has control characters", errArgument, what, name)
	}
	return nil
}

// normal returns the item as it is stored. ok is false if it is invalid.
func normal(item *pb.URLItem, now int64) (out *pb.URLItem, ok bool) {
	info, _ := infoOf(item)
	if info == nil || info.Url == "" || len(info.Url) > MaxURL || proto.Size(item) > MaxItem ||
		!utf8.ValidString(info.Url) || strings.ContainsFunc(info.Url, notOfURL) {
		return nil, false
	}
	out = proto.CloneOf(item)
	info, _ = infoOf(out)
	info.ProtoReflect().SetUnknown(nil)
	if info.Key == "" {
		u, err := weburl.Parse(info.Url)
		if err != nil || u.Host() == "" {
			return nil, false
		}
		info.Key = u.Host()
	}
	id, err := crawlID(info.CrawlID)
	if err != nil || checkName("key", info.Key) != nil {
		return nil, false
	}
	info.CrawlID, out.ID, out.CreationDate = id, "", uint64(now/1000)
	return out, true
}

// notOfURL reports characters that no URL has.
func notOfURL(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }

// Put adds a URL. The status is what the client is to be told once commit(change) has returned.
func (s *Store) Put(item *pb.URLItem, now int64) (status pb.AckMessage_Status, change uint64, err error) {
	item, ok := normal(item, now)
	if !ok {
		return pb.AckMessage_SKIPPED, 0, nil
	}
	info, known := infoOf(item)
	s.mu.Lock()
	defer s.mu.Unlock()
	var e *entry
	if c := s.crawls[info.CrawlID]; c != nil {
		e = c.urls[info.Url]
	}
	switch {
	case e != nil && !known:
		return pb.AckMessage_SKIPPED, s.appended, s.err // after the change that made it known
	case e != nil:
		item.CreationDate = uint64(e.created)
		if more := s.growth(e, info); more > 0 && s.bytes+more > s.cfg.MemoryBytes+s.cfg.MemoryBytes/8 {
			return pb.AckMessage_FAIL, 0, s.err
		}
	case s.bytes > s.cfg.MemoryBytes:
		return pb.AckMessage_FAIL, 0, s.err
	}
	change, err = s.change(&pb.Stored{Item: item})
	return pb.AckMessage_OK, change, err
}

// growth returns how many more bytes of RAM a known URL needs with this info.
func (s *Store) growth(e *entry, info *pb.URLInfo) int64 {
	meta := int64(0)
	if len(info.Metadata) > 0 {
		meta = int64(proto.Size(&pb.URLInfo{Metadata: info.Metadata}))
	}
	more := meta - int64(len(e.meta))
	if e.q.key != info.Key && e.q.c.queues[info.Key] == nil {
		more += int64(len(info.Key)) + queueBytes
	}
	return more
}

// A Want is what GetURLs asks for.
type Want struct {
	Any    bool   // of any crawl
	Crawl  string // else of this one
	Key    string // "": of any queue
	Queues int    // at most; 0: no limit
	URLs   int    // at most for a queue, with those that are leased; 0: no limit
	Lease  int64  // seconds; 0: the default
}

// Take leases URLs that are due. They may be used once commit(change) has returned. It returns copies of the entries,
// which share their texts with the Store: decoded, metadata take many times as much memory.
func (s *Store) Take(w Want, now int64) (taken []entry, change uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil || s.inactive {
		return nil, 0, s.err
	}
	if w.Queues <= 0 {
		w.Queues = MostURLs
	}
	if w.Lease <= 0 {
		w.Lease = defaultLease
	}
	from := &s.ready
	if !w.Any {
		c := s.crawls[w.Crawl]
		if c == nil {
			return nil, 0, nil
		}
		from = &c.ready
		if w.Key != "" {
			from = &heap.Heap[*queue]{Less: before, Place: func(*queue) *int { return new(int) }}
			if q := c.queues[w.Key]; q != nil {
				from.Items = []*queue{q}
			}
		}
	}
	size := 0
	var looked []*queue // taken out of from, so that the next one comes
	var ms []proto.Message
	more := func() bool { return len(taken) < MostURLs && size < mostTaken }
	for len(ms) < w.Queues && more() && len(from.Items) > 0 && from.Items[0].wake <= now {
		q := from.Pop()
		looked = append(looked, q)
		q.expire(now)
		m := &pb.Leased{Crawl: q.c.id, Key: q.key, ProducedMs: now, LeaseMs: now + w.Lease*1000}
		room := MostURLs - len(taken)
		if w.URLs > 0 {
			room = min(room, w.URLs-len(q.leased.Items))
		}
		var given []*entry
		for len(given) < room && more() && len(q.waiting.Items) > 0 && q.waiting.Items[0].due*1000 <= now {
			e := q.waiting.Pop()
			given = append(given, e)
			size += len(e.url) + len(e.meta)
		}
		for _, e := range given {
			q.waiting.Push(e) // applying the change leases it
			m.Urls, taken = append(m.Urls, e.url), append(taken, *e)
		}
		if len(given) > 0 {
			ms = append(ms, m)
		}
	}
	for _, q := range looked {
		if w.Key == "" {
			from.Push(q)
		}
		s.rewake(q)
	}
	if len(ms) == 0 {
		return nil, s.appended, nil
	}
	change, err = s.change(ms...)
	return taken, change, err
}

// set changes the settings of a queue. It makes the queue if it is missing.
func (s *Store) set(id, key string, fn func(*pb.Queue)) (change uint64, err error) {
	if id, err = crawlID(id); err != nil {
		return 0, err
	}
	if err := checkName("key", key); err != nil {
		return 0, err
	}
	if key == "" {
		return 0, fmt.Errorf("%w: no key; name a queue", errArgument)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m := &pb.Queue{Crawl: id, Key: key}
	if q := s.find(id, key); q != nil {
		m = q.settings()
	} else if s.bytes > s.cfg.MemoryBytes {
		return 0, errFull
	}
	fn(m)
	return s.change(m)
}

// find returns a queue, or nil.
func (s *Store) find(id, key string) *queue {
	if c := s.crawls[id]; c != nil {
		return c.queues[key]
	}
	return nil
}

// setGeneral changes what is not of one queue.
func (s *Store) setGeneral(fn func(*pb.General)) (change uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.general()
	fn(m)
	return s.change(m)
}

// remove deletes a queue, or with a nil key a crawl. It returns the number of URLs.
func (s *Store) remove(id string, key *string) (urls int, change uint64, err error) {
	if id, err = crawlID(id); err != nil {
		return 0, 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.crawls[id]
	switch {
	case c == nil:
		return 0, s.appended, s.err
	case key == nil:
		urls = len(c.urls)
	case c.queues[*key] == nil:
		return 0, s.appended, s.err
	default:
		urls = len(c.queues[*key].all)
	}
	change, err = s.change(&pb.Deleted{Crawl: id, Key: key})
	return urls, change, err
}
