// Package retry answers: what has failed, when is it tried again, and what must the operator know of it?
//
// A URL that failed, while its host works, waits in a Book beside the queues, so that its host goes on. When its time
// comes, it returns to the queue of its host, and the Book remembers how often it was visited, and the number of its
// accept, which its place in the queue does not tell. The Book also counts the failed look-ups of hosts. Origins are
// those that fail: their URLs wait until one of them has been tried. Failures has the seeds that brought no response,
// and why a robots.txt could not be fetched.
//
// The dispatcher of the crawl loop owns all of them.
package retry

import (
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/store/heap"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// most bounds the URLs that wait for a retry outside of the queues. Beyond it, a URL waits at the front of its host's
// queue, and the host waits with it.
const most = 100_000

// A Book has the URLs that will be tried again.
type Book struct {
	later    heap.Heap[*Delayed]  // by At
	attempts map[link.Key]int     // visits made to URLs that came back
	numbers  map[link.Key]uint64  // of the accepts of URLs that are queued again
	failed   map[link.Key]Failure // of all URLs that will be tried again, also of those that wait in a queue
	lookups  lookups
	rng      *rand.Rand
}

// NewBook returns an empty Book. seed is that of Jitter.
func NewBook(seed uint64) *Book {
	return &Book{rng: rand.New(rand.NewPCG(seed, 0x6f7262)),
		later:    heap.Heap[*Delayed]{Less: func(a, b *Delayed) bool { return a.At.Before(b.At) }},
		attempts: map[link.Key]int{}, numbers: map[link.Key]uint64{}, failed: map[link.Key]Failure{}}
}

// A Delayed is a URL that failed, while its host works, and waits for its retry.
type Delayed struct {
	At      time.Time
	Link    link.Link
	Number  uint64 // of its accept; 0: it is finished, and is visited again
	Attempt int    // visits so far
	First   bool   // it comes before the other URLs of its host, because URLs of its origin wait for its end
}

// Jitter changes a wait by up to a tenth, so that URLs that failed together are not retried together.
func (b *Book) Jitter(d time.Duration) time.Duration {
	return d + time.Duration((b.rng.Float64()-0.5)*0.2*float64(d))
}

// Put lets a URL wait beside the queues. It reports false, and does nothing, if too many wait already.
func (b *Book) Put(d Delayed) bool {
	if len(b.later.Items)+len(b.attempts) >= most {
		return false
	}
	b.later.Push(&d)
	return true
}

// Due takes the next URL that is due, which then has its attempts and its number. If none is due, next is when one will
// be; zero means that none waits.
func (b *Book) Due(now time.Time) (d Delayed, next time.Time, ok bool) {
	if len(b.later.Items) == 0 {
		return d, next, false
	}
	if at := b.later.Items[0].At; at.After(now) {
		return d, at, false
	}
	d = *b.later.Pop()
	b.attempts[d.Link.Key()], b.numbers[d.Link.Key()] = d.Attempt, d.Number
	return d, next, true
}

// Waiting returns how many URLs wait beside the queues.
func (b *Book) Waiting() int { return len(b.later.Items) }

// Next returns the URL that is due next.
func (b *Book) Next() (d Delayed, ok bool) {
	if len(b.later.Items) == 0 {
		return d, false
	}
	return *b.later.Items[0], true
}

// All yields the URLs that wait beside the queues, in no order.
func (b *Book) All() iter.Seq[*Delayed] {
	return slices.Values(b.later.Items)
}

// Of yields the URLs of a host that wait beside the queues.
func (b *Book) Of(host string) iter.Seq[*Delayed] {
	return func(yield func(*Delayed) bool) {
		for d := range b.All() {
			if d.Link.URL.Host() == host && !yield(d) {
				return
			}
		}
	}
}

// Withdraw removes the URLs of a host that wait beside the queues, and returns them.
func (b *Book) Withdraw(host string) (its []frontier.Waiting) {
	b.later.Items = slices.DeleteFunc(b.later.Items, func(d *Delayed) bool {
		mine := d.Link.URL.Host() == host
		if mine {
			its = append(its, frontier.Waiting{Link: d.Link, Number: d.Number, Attempt: d.Attempt})
		}
		return mine
	})
	b.later.Init()
	return its
}

// Attempts returns the number of visits to a URL that came back, besides those that its queue counts.
func (b *Book) Attempts(k link.Key) int { return b.attempts[k] }

// SetAttempts sets the number of visits to a URL that came back; 0 forgets it.
func (b *Book) SetAttempts(k link.Key, n int) {
	if n == 0 {
		delete(b.attempts, k)
		return
	}
	b.attempts[k] = n
}

// Number returns the number of the accept of a waiting URL. number is the one in its queue. 0 means that the URL is
// finished and waits for another visit.
func (b *Book) Number(k link.Key, number uint64) uint64 {
	if n, ok := b.numbers[k]; ok {
		return n
	}
	return number
}

// SetNumber keeps the number of the accept of a URL that is queued again.
func (b *Book) SetNumber(k link.Key, number uint64) { b.numbers[k] = number }

// Leave forgets the attempts and the number of a URL that leaves its queue.
func (b *Book) Leave(k link.Key) {
	delete(b.attempts, k)
	delete(b.numbers, k)
}

// Forget forgets a URL that is finished, or leaves this agent.
func (b *Book) Forget(k link.Key) {
	b.Leave(k)
	delete(b.failed, k)
}

// A Failure tells how a URL that will be tried again has failed. Without it, a waiting crawl would seem to do nothing.
type Failure struct {
	Kind string
	At   time.Time // not before this time; in the past if something else decides
}

// NoteFailure records that a URL has failed and will be visited again at a time. If its robots.txt cannot be fetched,
// the reason of that is kept. Beyond 200,000 URLs it records nothing.
func (b *Book) NoteFailure(k link.Key, kind string, at time.Time) {
	old, known := b.failed[k]
	if !known && len(b.failed) >= 2*most {
		return
	}
	if known && kind == visit.RobotsUnreachable.String() {
		kind = old.Kind
	}
	b.failed[k] = Failure{kind, at}
}

// Failure returns how a URL has failed that will be tried again.
func (b *Book) Failure(k link.Key) (f Failure, ok bool) {
	f, ok = b.failed[k]
	return f, ok
}

// Sum counts the URLs that will be tried again by kind, and returns when the next one is due; zero means unknown.
func (b *Book) Sum(now time.Time) (kinds map[string]int64, next time.Time) {
	kinds = make(map[string]int64)
	for _, e := range b.failed {
		kinds[e.Kind]++
		if e.At.After(now) && (next.IsZero() || e.At.Before(next)) {
			next = e.At
		}
	}
	return kinds, next
}

// FailedLookUps returns how many look-ups of a host have failed in a row.
func (b *Book) FailedLookUps(host string) int { return b.lookups.of(host) }

// LookUpFailed counts a failed look-up of a host, and returns how many have failed in a row.
func (b *Book) LookUpFailed(host string) int { return b.lookups.add(host) }

// HostAnswers forgets the failed look-ups of a host.
func (b *Book) HostAnswers(host string) { b.lookups.clear(host) }

// lookups counts failed look-ups in a row by host. It knows at most 2*lookupsMax hosts and forgets
// older ones.
type lookups struct{ now, before map[string]int }

const lookupsMax = 1 << 16

func (t *lookups) of(host string) int {
	if n, ok := t.now[host]; ok {
		return n
	}
	return t.before[host]
}

// add counts one more failure.
func (t *lookups) add(host string) int {
	n := t.of(host) + 1
	if len(t.now) >= lookupsMax || t.now == nil {
		t.now, t.before = make(map[string]int), t.now
	}
	t.now[strings.Clone(host)] = n
	return n
}

func (t *lookups) clear(host string) {
	delete(t.now, host)
	delete(t.before, host)
}
