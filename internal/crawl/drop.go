package crawl

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// A drop is one record of the journal, however many links it covers: all links of a host that were
// accepted before it. From then on none of them is fetched. Those that wait in queues are finished
// in slices while the crawl continues. The others are finished when they come out of the pools or
// the seen-set. A visit that is under way ends as usual and is not repeated. After a restart the
// record tells which pending links are dropped. A checkpoint removes the record when no such link
// can be left.

// A drop is the last command to drop a host's links.
type drop struct {
	nth  uint64 // among all drops of the crawl, from 1
	last uint64 // the number of the last accept before it
	at   time.Time
}

// gives reports whether the drop applies to a link whose accept has this number.
func (d drop) gives(number uint64) bool { return number > 0 && number <= d.last }

// appendDrop appends the encoding of a drop: uvarint nth, uvarint last, varint Unix
// milliseconds, the host.
func appendDrop(dst []byte, host string, d drop) []byte {
	dst = binary.AppendUvarint(dst, d.nth)
	dst = binary.AppendUvarint(dst, d.last)
	dst = binary.AppendVarint(dst, d.at.UnixMilli())
	return append(dst, host...)
}

func decodeDrop(p []byte) (host string, d drop, err error) {
	nth, n := binary.Uvarint(p)
	if n <= 0 {
		return "", d, state.ErrRecord
	}
	last, m := binary.Uvarint(p[n:])
	if m <= 0 || nth == 0 || last > state.MaxNumber {
		return "", d, state.ErrRecord
	}
	at, k := binary.Varint(p[n+m:])
	if k <= 0 || n+m+k == len(p) {
		return "", d, state.ErrRecord
	}
	return string(p[n+m+k:]), drop{nth, last, time.UnixMilli(at)}, nil
}

// Drop discards all waiting links of host, in its queue, in the pools and among the
// retries. From now on the crawl fetches none of them, and it finishes them one after the
// other. It accepts links that it finds later as before, unless the host is blocked. Drop
// returns a message that says how many links waited in the queue; links in the pools are
// not counted by host. Otherwise it is like Block.
func (c *Crawler) Drop(ctx context.Context, host string) (string, error) {
	return c.order(ctx, "drop", host, func(now time.Time) (string, error) {
		e, n, _ := c.waiting(host, now)
		if err := c.drop(host, now); err != nil {
			c.fatal = err
			return "", err
		}
		c.Events.Write("host-dropped", report.F("host", host), report.F("links", n))
		if err := c.secure(); err != nil {
			return "", err
		}
		s := host + ": " + links(n) + " dropped"
		if p := c.Frontier.Stats().Pooled; p > 0 {
			s += "; those among the " + links(p) + " of all hosts in the pools on disk follow as the pools are read"
		}
		return s + underWay(e), nil
	})
}

func (c *Crawler) drop(host string, now time.Time) error {
	d := drop{c.drops.nth + 1, c.ledger.Accepted(), now}
	c.activity++
	c.drops.put(host, d)
	c.ledger.Add(state.Drop, appendDrop(nil, host, d))
	c.Frontier.Withdraw(host)
	c.Frontier.ReviewAside()
	if err := c.withdrawLater(host); err != nil {
		return fmt.Errorf("drop %s: %w", host, err)
	}
	if f, ok := c.planner.(visit.Forgetter); ok {
		f.Forget(host, now)
	}
	return nil
}

// drops has the last drop of each host. The dispatcher changes it, and workers read it. While
// it is empty, as in most crawls, reading takes no lock.
type drops struct {
	nth uint64       // number of the last drop; the dispatcher's
	n   atomic.Int64 // len(of)
	mu  sync.RWMutex // guards of
	of  map[string]drop
}

// last returns the last drop of host, or the zero drop.
func (s *drops) last(host string) drop {
	if s.n.Load() == 0 {
		return drop{}
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.of[host]
}

// put stores a drop.
func (s *drops) put(host string, d drop) {
	s.nth = max(s.nth, d.nth)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = map[string]drop{}
	}
	s.of[strings.Clone(host)] = d
	s.n.Store(int64(len(s.of)))
}

// forget removes the drops for which fn returns true.
func (s *drops) forget(fn func(host string, d drop) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for host, d := range s.of {
		if fn(host, d) {
			delete(s.of, host)
		}
	}
	s.n.Store(int64(len(s.of)))
}

// dropped reports whether the operator dropped the accept with this number. Safe for
// concurrent use.
func (c *Crawler) dropped(host string, number uint64) bool {
	return c.drops.last(host).gives(number)
}

// Overtaken reports whether the operator dropped v's host since the dispatcher took v from
// its queue. Then v is neither begun nor repeated. The owner of v may call it. It compares
// counts of drops, because a URL that is visited again has no number of an accept. A fetch of
// robots.txt for another host is never overtaken.
func (c *Crawler) Overtaken(v *visit.Attempt) bool {
	return c.drops.last(v.Task.Host).nth > v.Drops && !visit.IsErrand(v.Task.Link)
}

// begins and ends count the visits in progress by the number of drops before them.
func (c *Crawler) begins(v *visit.Attempt) {
	v.Drops = c.drops.nth
	c.underWay[v.Drops]++
	v.Permit = c.cluster.Permit(v.Task.Host)
}

func (c *Crawler) ends(v *visit.Attempt) {
	if c.underWay[v.Drops]--; c.underWay[v.Drops] <= 0 {
		delete(c.underWay, v.Drops)
	}
	v.Permit.Release()
}

// forgetDrops forgets the drops that cannot matter any more: no link found before them waits,
// and no visit that began before them is in progress. Links that the seen-set holds back,
// links in the outbox and URLs that a Planner remembers cannot be told by host without
// reading them; while there are any, all drops stay. The last drop always stays, so that the
// count of drops, which is stored with held links, never decreases.
func (c *Crawler) forgetDrops() {
	if c.drops.n.Load() == 0 || c.planner != nil || c.planned || c.Seen.Holds() || c.Frontier.Stats().Withdrawn > 0 ||
		c.Frontier.Stats().Aside > 0 || !c.cluster.Settled() {
		return
	}
	first := c.drops.nth
	for nth := range c.underWay {
		first = min(first, nth)
	}
	c.drops.forget(func(host string, d drop) bool {
		return d.nth <= first && d.nth < c.drops.nth && !c.Frontier.Withdrawing(host)
	})
}

// dropSlice bounds the dropped links that are finished in one turn of the dispatcher, which
// takes a few milliseconds. It is a variable so that tests can make it small.
var dropSlice = 256

// giveUp finishes some dropped links, and reports whether more of them wait.
func (c *Crawler) giveUp(now time.Time) (more bool) {
	if c.stop != notStopping || c.fatal != nil {
		return false
	}
	done, err := c.Frontier.Withdrawn(dropSlice, func(w frontier.Waiting) error {
		if visit.IsErrand(w.Link) { // hosts that need the robots.txt ask for it again
			delete(c.errands, errandID(w.Link))
			return nil
		}
		t := frontier.Task{Link: w.Link, Host: w.Link.URL.Host(), Attempt: w.Attempt, Number: w.Number}
		k := t.Link.Key()
		if sent, err := c.cluster.SendAway(w); sent || err != nil {
			return err
		}
		t.Attempt += c.attempts[k]
		if number, ok := c.requeued[k]; ok {
			t.Number = number
		}
		delete(c.attempts, k)
		c.finishDropped(t, now)
		return c.fatal
	})
	if c.fatal == nil && err != nil {
		c.fatal = fmt.Errorf("frontier: %w", err)
	}
	c.append()
	return !done
}

// withdraw finishes the link of a visit that ended without a finish and whose host was
// dropped meanwhile.
func (c *Crawler) withdraw(v *visit.Attempt) {
	c.withdrawLink(v.Task.Link, v.Task.Number, v.Task.Attempt)
}

func (c *Crawler) withdrawLink(l link.Link, number uint64, attempt int) {
	if err := c.Frontier.PushWithdrawn([]frontier.Waiting{{Link: l, Number: number, Attempt: attempt}}); err != nil &&
		c.fatal == nil {
		c.fatal = fmt.Errorf("frontier: %w", err)
	}
}

// finishDropped finishes a dropped link that is in no queue.
func (c *Crawler) finishDropped(t frontier.Task, now time.Time) {
	v := c.visits.New(t)
	v.Plan().Before, v.Outcome = c.revisiting[t.Link.Key()], visit.Dropped
	c.finish(v, now)
	c.visits.Recycle(v)
}

// A link that the seen-set holds back carries the number of drops before it was found, as a uvarint
// after its encoding; nothing means none. So when the link comes out, the crawl knows whether it
// was found before its host was dropped.

// stamp appends the number of drops to the encoding of a link for the seen-set.
func (c *Crawler) stamp(enc []byte) []byte {
	if c.drops.nth == 0 {
		return enc
	}
	from := len(c.stamped)
	c.stamped = binary.AppendUvarint(append(c.stamped, enc...), c.drops.nth)
	return c.stamped[from:]
}

// unstamp removes the number of drops from the encoding of l. dropped reports whether l's
// host was dropped since l was found.
func (c *Crawler) unstamp(aux []byte, l link.Link) (enc []byte, dropped bool, err error) {
	if c.drops.nth == 0 {
		return aux, false, nil
	}
	_, n, err := link.Peek(aux)
	drops := uint64(0)
	if err == nil && n < len(aux) {
		w := 0
		if drops, w = binary.Uvarint(aux[n:]); w != len(aux)-n {
			err = state.ErrRecord
		}
	}
	if err != nil {
		return nil, false, fmt.Errorf("link from seen: %w", err)
	}
	return aux[:n], c.drops.last(l.URL.Host()).nth > drops, nil
}

// acceptDropped accepts and finishes a link that was found before its host was dropped. Its
// finish does not belong to the visit whose links are being accepted.
func (c *Crawler) acceptDropped(enc []byte, number uint64) error {
	l, _, err := link.Decode(enc)
	if err != nil {
		return fmt.Errorf("link from seen: %w", err)
	}
	others := c.skips.counted
	c.skips.counted = nil
	c.finishDropped(frontier.Task{Link: l, Host: l.URL.Host(), Number: number}, c.cfg.Now())
	c.skips.counted = others
	return c.fatal
}
