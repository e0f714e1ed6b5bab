package urlfrontier

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/orbweaver/orbweaver/internal/urlfrontier/pb"
)

// apply makes a change, live or in a replay. It never fails: it ignores changes of URLs and queues that are unknown.
func (s *Store) apply(m proto.Message) {
	switch m := m.(type) {
	case *pb.General:
		again := s.delay != int64(m.DelayS)
		if s.inactive, s.delay = m.Inactive, int64(m.DelayS); again {
			s.rewakeAll()
		}
	case *pb.Queue:
		q := s.queue(m.Crawl, m.Key)
		q.delay, q.blocked, q.limit, q.produced = -1, int64(m.BlockedUntilS), m.Limit, m.ProducedMs
		if m.DelayS != nil {
			q.delay = int64(*m.DelayS)
		}
		s.rewake(q)
	case *pb.Stored:
		s.store(m)
	case *pb.Leased:
		s.leased(m)
	case *pb.Deleted:
		s.deleted(m)
	}
}

// queue returns a queue, and makes it if it is missing.
func (s *Store) queue(id, key string) *queue {
	c := s.crawls[id]
	if c == nil {
		c = newCrawl(id)
		s.crawls[id] = c
		s.bytes += int64(len(id)) + crawlBytes
	}
	q := c.queues[key]
	if q == nil {
		s.number++
		q = newQueue(c, key, s.number)
		q.wake = never
		c.queues[key] = q
		c.list = append(c.list, q)
		c.ready.Push(q)
		s.ready.Push(q)
		s.bytes += q.size()
	}
	return q
}

// rewake computes anew when q may give URLs.
func (s *Store) rewake(q *queue) {
	q.wake = q.wakes(s.delay)
	q.c.ready.Fix(q)
	s.ready.Fix(q)
}

func (s *Store) rewakeAll() {
	for _, c := range s.crawls {
		for _, q := range c.list {
			s.rewake(q)
		}
	}
}

// store adds a URL, or replaces what is known of it.
func (s *Store) store(m *pb.Stored) {
	info, known := infoOf(m.Item)
	if info == nil {
		return
	}
	q := s.queue(info.CrawlID, info.Key)
	e := q.c.urls[info.Url]
	if e == nil {
		s.number++
		e = &entry{url: info.Url, created: int64(m.Item.CreationDate), number: s.number}
		q.c.urls[e.url] = e
	} else {
		s.bytes -= e.size()
		if e.q == q {
			q.unsettle(e)
		} else { // the client has given it another key
			s.moves++
			e.q.drop(e)
			s.rewake(e.q)
		}
	}
	e.meta, e.known, e.lease = nil, known, m.LeaseMs
	if len(info.Metadata) > 0 {
		// Marshal fails only for texts that are not UTF-8, which Put refuses.
		e.meta, _ = proto.MarshalOptions{Deterministic: true}.Marshal(&pb.URLInfo{Metadata: info.Metadata})
	}
	switch date := m.Item.GetKnown().GetRefetchableFromDate(); {
	case !known:
		e.due = e.created
	case date == 0:
		e.due, e.lease = never, 0
	default:
		e.due = int64(min(date, maxDate))
	}
	if e.q == q {
		q.settle(e)
	} else {
		q.put(e)
	}
	s.bytes += e.size()
	s.rewake(q)
}

// leased marks URLs that a queue has given.
func (s *Store) leased(m *pb.Leased) {
	q := s.queue(m.Crawl, m.Key)
	q.produced = m.ProducedMs
	for _, u := range m.Urls {
		if e := q.c.urls[u]; e != nil && e.q == q && !e.completed() {
			q.unsettle(e)
			e.lease = m.LeaseMs
			q.settle(e)
		}
	}
	s.rewake(q)
}

// deleted removes a queue, or a crawl.
func (s *Store) deleted(m *pb.Deleted) {
	c := s.crawls[m.Crawl]
	if c == nil {
		return
	}
	s.moves++
	c.list = slices.DeleteFunc(c.list, func(q *queue) bool {
		if m.Key != nil && q.key != *m.Key {
			return false
		}
		for _, e := range q.all {
			delete(c.urls, e.url)
			s.bytes -= e.size()
		}
		delete(c.queues, q.key)
		c.ready.Remove(q)
		s.ready.Remove(q)
		s.bytes -= q.size()
		return true
	})
	if len(c.list) == 0 {
		delete(s.crawls, c.id)
		s.bytes -= int64(len(c.id)) + crawlBytes
	}
}

// infoOf returns the URL of an item. known reports that the client has fetched it.
func infoOf(item *pb.URLItem) (info *pb.URLInfo, known bool) {
	if k := item.GetKnown(); k != nil {
		return k.Info, true
	}
	return item.GetDiscovered().GetInfo(), false
}

// info returns e as the API has it.
func (e *entry) info() *pb.URLInfo {
	info := &pb.URLInfo{}
	_ = proto.Unmarshal(e.meta, info) // it was encoded by us
	info.Url, info.Key, info.CrawlID = e.url, e.q.key, e.q.c.id
	return info
}

// item returns e with its state, as the API has it.
func (e *entry) item() *pb.URLItem {
	item := &pb.URLItem{CreationDate: uint64(e.created)}
	if !e.known {
		item.Item = &pb.URLItem_Discovered{Discovered: &pb.DiscoveredURLItem{Info: e.info()}}
		return item
	}
	known := &pb.KnownURLItem{Info: e.info()}
	if !e.completed() {
		known.RefetchableFromDate = uint64(e.due)
	}
	item.Item = &pb.URLItem_Known{Known: known}
	return item
}

// settings returns q without its URLs.
func (q *queue) settings() *pb.Queue {
	m := &pb.Queue{Crawl: q.c.id, Key: q.key, BlockedUntilS: uint64(q.blocked), Limit: q.limit, ProducedMs: q.produced}
	if q.delay >= 0 {
		d := uint32(q.delay)
		m.DelayS = &d
	}
	return m
}

func (s *Store) general() *pb.General {
	return &pb.General{Inactive: s.inactive, DelayS: uint32(s.delay)}
}
