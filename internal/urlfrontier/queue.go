package urlfrontier

import (
	"math"

	"github.com/orbweaver/orbweaver/internal/store/heap"
)

// never is a time that does not come.
const never = math.MaxInt64

// Bytes that the accounting of memory counts, besides texts.
const (
	entryBytes = 240
	queueBytes = 640
	crawlBytes = 512
)

// An entry is a known URL.
type entry struct {
	q       *queue
	url     string
	meta    []byte // an encoded pb.URLInfo with the metadata only
	created int64  // seconds
	due     int64  // seconds; never: completed
	lease   int64  // end of the lease in milliseconds; 0: not leased
	number  uint64 // of arrival
	at      int    // index in one of the heaps of its queue, or -1
	in      int    // index in q.all
	known   bool   // the client has fetched it
}

func (e *entry) size() int64     { return int64(len(e.url)+len(e.meta)) + entryBytes }
func (e *entry) completed() bool { return e.due == never }

// A queue has the URLs of one key.
type queue struct {
	c   *crawl
	key string

	all       []*entry          // in order of arrival
	waiting   heap.Heap[*entry] // not leased, by due date
	leased    heap.Heap[*entry] // by the end of the lease
	completed int

	delay    int64 // seconds; -1: the general one
	blocked  int64 // seconds; until then it gives nothing
	limit    uint32
	produced int64 // milliseconds; when it last gave URLs

	number uint64 // of arrival
	wake   int64  // milliseconds: before that it gives nothing
	here   int    // index in its crawl's heap
	there  int    // index in the heap of all queues
}

func newQueue(c *crawl, key string, number uint64) *queue {
	place := func(e *entry) *int { return &e.at }
	return &queue{
		c: c, key: key, delay: -1, number: number, here: -1, there: -1,
		waiting: heap.Heap[*entry]{Place: place, Less: func(a, b *entry) bool {
			return a.due < b.due || a.due == b.due && a.number < b.number
		}},
		leased: heap.Heap[*entry]{Place: place, Less: func(a, b *entry) bool { return a.lease < b.lease }},
	}
}

func (q *queue) size() int64 { return int64(len(q.key)) + queueBytes }

// wakes returns when q may give a URL, in milliseconds. delay is the general one in seconds.
func (q *queue) wakes(delay int64) int64 {
	at := int64(never)
	if len(q.waiting.Items) > 0 {
		at = q.waiting.Items[0].due * 1000
	}
	if len(q.leased.Items) > 0 {
		at = min(at, q.leased.Items[0].lease)
	}
	if at == never || q.limit > 0 && q.completed >= int(q.limit) {
		return never
	}
	if q.delay >= 0 {
		delay = q.delay
	}
	return max(at, q.blocked*1000, q.produced+delay*1000)
}

// before orders queues: the one that could give URLs first, then the one that gave longest ago.
func before(a, b *queue) bool {
	switch {
	case a.wake != b.wake:
		return a.wake < b.wake
	case a.produced != b.produced:
		return a.produced < b.produced
	}
	return a.number < b.number
}

// expire ends the leases that are over.
func (q *queue) expire(now int64) {
	for len(q.leased.Items) > 0 && q.leased.Items[0].lease <= now {
		e := q.leased.Pop()
		e.lease = 0
		q.waiting.Push(e)
	}
}

// inProcess returns the number of leases that are not over.
func (q *queue) inProcess(now int64) int {
	n := 0
	for _, e := range q.leased.Items {
		if e.lease > now {
			n++
		}
	}
	return n
}

// active reports whether q has URLs and is not blocked.
func (q *queue) active(now int64) bool { return len(q.all) > q.completed && q.blocked*1000 <= now }

// put adds e to q.
func (q *queue) put(e *entry) {
	e.q, e.in, e.at = q, len(q.all), -1
	q.all = append(q.all, e)
	q.settle(e)
}

// settle puts e where its date and its lease want it.
func (q *queue) settle(e *entry) {
	switch {
	case e.completed():
		q.completed++
	case e.lease > 0:
		q.leased.Push(e)
	default:
		q.waiting.Push(e)
	}
}

// unsettle takes e out of where settle has put it.
func (q *queue) unsettle(e *entry) {
	switch {
	case e.completed():
		q.completed--
	case e.lease > 0:
		q.leased.Remove(e)
	default:
		q.waiting.Remove(e)
	}
}

// drop takes e out of q. The last URL takes its place in the order of arrival.
func (q *queue) drop(e *entry) {
	q.unsettle(e)
	last := len(q.all) - 1
	q.all[e.in] = q.all[last]
	q.all[e.in].in = e.in
	q.all[last] = nil
	q.all = q.all[:last]
}

// A crawl is a namespace of queues and URLs.
type crawl struct {
	id     string
	queues map[string]*queue
	list   []*queue // in order of arrival
	urls   map[string]*entry
	ready  heap.Heap[*queue] // by wake
}

func newCrawl(id string) *crawl {
	return &crawl{id: id, queues: map[string]*queue{}, urls: map[string]*entry{},
		ready: heap.Heap[*queue]{Less: before, Place: func(q *queue) *int { return &q.here }}}
}
