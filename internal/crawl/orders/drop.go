package orders

import (
	"encoding/binary"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/ledger"
	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/store/fields"
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

// fields names the fields of a drop: uvarint nth, uvarint last, varint Unix milliseconds. The host follows them.
func (d *drop) fields(c *fields.Codec) *fields.Codec {
	fields.Uint(c, &d.nth)
	fields.Uint(c, &d.last)
	c.Check(d.nth > 0 && d.last <= state.MaxNumber)
	c.Milli(&d.at)
	return c
}

func appendDrop(dst []byte, host string, d drop) []byte {
	return append(d.fields(fields.Write(dst)).Written(), host...)
}

func decodeDrop(p []byte) (host string, d drop, err error) {
	c := d.fields(fields.Read(p))
	if c.Left() == 0 {
		return "", drop{}, state.ErrRecord
	}
	return string(c.Rest()), d, nil
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
	maps.DeleteFunc(s.of, fn)
	s.n.Store(int64(len(s.of)))
}

// Drop notes that all links of a host were dropped that were accepted so far; last is the number of the last accept. It
// returns the record for the journal.
func (g *Gate) Drop(host string, last uint64, now time.Time) (record []byte) {
	d := drop{g.drops.nth + 1, last, now}
	g.drops.put(host, d)
	return appendDrop(nil, host, d)
}

// Dropped reports whether the operator dropped the accept with this number. Safe for
// concurrent use.
func (g *Gate) Dropped(host string, number uint64) bool { return g.drops.last(host).gives(number) }

// Drops reports whether any host's links were dropped, and may still wait. Safe for concurrent use.
func (g *Gate) Drops() bool { return g.drops.n.Load() > 0 }

// EachDrop calls fn for each host with its last drop, and the time of that.
func (g *Gate) EachDrop(fn func(host string, at time.Time)) {
	for host, d := range g.drops.of {
		fn(host, d.at)
	}
}

// Overtaken reports whether the operator dropped v's host since the dispatcher took v from
// its queue. Then v is neither begun nor repeated. The owner of v may call it. It compares
// counts of drops, because a URL that is visited again has no number of an accept. A fetch of
// robots.txt for another host is never overtaken.
func (g *Gate) Overtaken(v *visit.Attempt) bool {
	return g.drops.last(v.Task.Host).nth > v.Drops && !visit.IsErrand(v.Task.Link)
}

// Begins and Ends count the visits in progress by the number of drops before them.
func (g *Gate) Begins(v *visit.Attempt) {
	v.Drops = g.drops.nth
	g.underWay[v.Drops]++
}

// Ends ends what Begins began.
func (g *Gate) Ends(v *visit.Attempt) {
	if g.underWay[v.Drops]--; g.underWay[v.Drops] <= 0 {
		delete(g.underWay, v.Drops)
	}
}

// A link that the seen-set holds back carries the number of drops before it was found, as a uvarint
// after its encoding; nothing means none. So when the link comes out, the crawl knows whether it
// was found before its host was dropped.

// Stamp returns the encoding of a link for the seen-set, with the number of drops. If there was a drop, it appends to
// buf, and stamped is valid until the caller reuses that memory. grown is buf after that.
func (g *Gate) Stamp(enc, buf []byte) (stamped, grown []byte) {
	if g.drops.nth == 0 {
		return enc, buf
	}
	from := len(buf)
	buf = binary.AppendUvarint(append(buf, enc...), g.drops.nth)
	return buf[from:], buf
}

// Unstamp removes the number of drops from the encoding of l. dropped reports whether l's
// host was dropped since l was found.
func (g *Gate) Unstamp(aux []byte, l link.Link) (enc []byte, dropped bool, err error) {
	if g.drops.nth == 0 {
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
	return aux[:n], g.drops.last(l.URL.Host()).nth > drops, nil
}

func (*Gate) Kinds() []ledger.Kind { return []ledger.Kind{{Kind: state.Drop, Name: "drop"}} }

func (g *Gate) Save(put func(kind byte, p []byte) error, _ time.Time) error {
	g.forgetDrops()
	for host, d := range g.drops.of {
		if err := put(state.Drop, appendDrop(nil, host, d)); err != nil {
			return err
		}
	}
	return nil
}

func (g *Gate) Load(_ byte, p []byte) error {
	host, d, err := decodeDrop(p)
	if err == nil {
		g.drops.put(host, d)
	}
	return err
}

// forgetDrops forgets the drops that cannot matter any more: no link found before them waits,
// and no visit that began before them is in progress. Links that the seen-set holds back,
// links in the outbox and URLs that a Planner remembers cannot be told by host without
// reading them; while there are any, all drops stay. The last drop always stays, so that the
// count of drops, which is stored with held links, never decreases.
func (g *Gate) forgetDrops() {
	if !g.Drops() || g.loop.Hides() || g.frontier.Stats().Withdrawn > 0 || g.frontier.Stats().Aside > 0 {
		return
	}
	first := g.drops.nth
	for nth := range g.underWay {
		first = min(first, nth)
	}
	g.drops.forget(func(host string, d drop) bool {
		return d.nth <= first && d.nth < g.drops.nth && !g.frontier.Withdrawing(host)
	})
}
