package frontier

import (
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
)

// An Explanation tells why a host is or is not being fetched now. It is for people.
type Explanation struct {
	Host string
	// State is one of the states in the package comment: "unknown", "ready", "resting" and so on.
	State   string
	Queued  int64  // number of links, without the one in process and those in the pools
	Next    string // the URL in process, or the first one in the queue
	Number  uint64 // request number of Next; 0 for a prerequisite
	Level   uint8
	Attempt int
	Address string    // "" if unknown
	Due     time.Time // when it may be fetched; zero: now, or not predictable
	Behind  int       // number of hosts that come before it
	Slow    int       // pauses that are not yet forgiven
	Delay   time.Duration
	Open    bool     // nobody knows when it may be fetched: another request, lease or application must come first
	Reasons []string // why it is not fetched now, in plain words
}

// Reasons of an Explanation that a caller which knows more may replace.
const (
	TurnNext    = "its turn is next"
	HostBlocked = "blocked by the operator"
)

// String formats e as lines, one for each fact.
func (e Explanation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", e.Host, e.State)
	if e.Queued > 0 {
		fmt.Fprintf(&b, ", %s queued", english.Plural(int(e.Queued), "link", ""))
	}
	b.WriteByte('\n')
	if e.Next != "" {
		fmt.Fprintf(&b, "  next: %s (request %d", e.Next, e.Number)
		if e.Level > 0 {
			fmt.Fprintf(&b, ", level %d", e.Level)
		}
		if e.Attempt > 0 {
			fmt.Fprintf(&b, ", attempt %d", e.Attempt+1)
		}
		b.WriteString(")\n")
	}
	for _, r := range e.Reasons {
		fmt.Fprintf(&b, "  %s\n", r)
	}
	return b.String()
}

// Explain tells what holds a host back at now. Unlike all other methods it may take time in proportion to the number of
// hosts that come before this one.
func (f *Frontier) Explain(host string, now time.Time) (e Explanation) {
	f.tick(now)
	e = Explanation{Host: host, State: "unknown"}
	why := func(format string, a ...any) { e.Reasons = append(e.Reasons, fmt.Sprintf(format, a...)) }
	h := f.hosts.dict.of(host)
	if n := f.pools.links; n > 0 {
		defer func() {
			why("%s in the pools, in no host's queue yet; some may be of this host",
				english.Plural(int(n), "link is", "links are"))
		}()
	}
	if h == nil {
		why("no link is queued")
		return e
	}
	e.State, e.Queued, e.Slow = h.state.String(), h.links(), int(h.slow)
	e.Delay = max(f.HostDelay(h.name), h.delay)
	if a := h.addr(); a.IsValid() {
		e.Address = a.String()
	}
	if c := f.hosts.visits.link(h); c != nil {
		e.show(*c)
	} else if c, ok, err := f.hosts.peek(h); err != nil {
		why("its queue cannot be read: %v", err)
	} else if ok {
		e.show(c)
	}
	if h.retired {
		why(HostBlocked)
	}
	switch h.state {
	case inProcess:
		why("a request is open for %s; one at a time is allowed", f.time.ago(f.hosts.visits.began(h)))
	case resolving:
		why("its address is being looked up for %s", f.time.ago(f.hosts.visits.began(h)))
	case exhausted:
		why("no link is queued")
	}
	if !h.busy() && f.hosts.withheld(h) {
		e.Open = true
		why("the links of its applications are held for now")
	} else if !h.busy() && h.at > f.time.now {
		if e.Due = f.time.timeAt(h.at); h.slowUntil >= h.at && h.slow == 0 {
			why("paused until %s, in %s, as the host asks with Retry-After", clockText(e.Due), f.time.until(h.at))
		} else if h.slowUntil >= h.at {
			why("paused until %s, in %s (%s not yet forgiven)", clockText(e.Due), f.time.until(h.at),
				english.Plural(int(h.slow), "pause", ""))
		} else if f.hosts.byShare(h) {
			why("host share: at most one request in %s, until %s, in %s", round(f.hosts.distance()),
				clockText(e.Due), f.time.until(h.at))
		} else {
			why("delay of %s until %s, in %s", e.Delay, clockText(e.Due), f.time.until(h.at))
		}
	}
	quiet := func(k bucketKey, last string, freeAt int64) {
		by := ""
		if last != "" {
			by = ", last used by " + last + ","
		}
		t := f.time.timeAt(freeAt)
		why("%s%s rests until %s, in %s", f.hosts.shares.show(k), by, clockText(t), f.time.until(freeAt))
		if t.After(e.Due) {
			e.Due = t
		}
	}
	if h.state == parked {
		addr, site := f.hosts.shares.keys(h, h.addr())
		last := ""
		if h.share > unasked {
			last = h.name
		}
		addrAt, siteAt := f.hosts.shares.freeAt(h, true)
		if addrAt > f.time.now {
			quiet(addr, last, addrAt)
		}
		if siteAt > f.time.now {
			quiet(site, last, siteAt)
		}
		return e
	}
	if h.state != ready {
		return e
	}
	if g := f.hosts.shares.groupOf(h); g.parkedAt != nil {
		e.State = parked.String()
		for _, b := range [...]*bucket{g.addr, g.site} {
			switch {
			case b == nil || b.free(f.time.now):
			case b.holder != nil:
				e.Open = true
				why("%s is busy with %s for %s", f.hosts.shares.show(b.key), b.holder.name,
					f.time.ago(f.hosts.visits.began(b.holder)))
			case f.hosts.shares.awaited(b):
				e.Open = true
				why("waits for the lease of %s, which another agent may have", f.hosts.shares.show(b.key))
			default:
				quiet(b.key, b.last, b.freeAt)
			}
		}
	}
	e.Behind = f.hosts.behind(h)
	if e.Behind > 0 {
		why("%s with earlier request numbers", english.Plural(e.Behind, "host comes first", "hosts come first"))
	} else if e.State == "ready" {
		why(TurnNext)
	}
	return e
}

func (e *Explanation) show(c entry) {
	e.Number, e.Attempt = c.number, int(c.attempt)
	if l, err := decode(c); err == nil {
		e.Next, e.Level = strings.Clone(l.URL.String()), l.Level
	}
}

// peek returns h's first link without removing it.
func (hs *hosts) peek(h *host) (e entry, ok bool, err error) {
	if h.front.len() > 0 {
		return h.front.items[h.front.head], true, nil
	}
	if h.q.n == 0 {
		return entry{}, false, nil
	}
	q := hs.lead(h)
	c := q.head
	if c.buf == nil {
		if c.buf, err = hs.queues.read(q.place(0)); err != nil {
			return entry{}, false, err
		}
	}
	number, enc, _, err := c.at(int(c.r))
	return entry{number: number, level: q.level, enc: enc}, err == nil, err
}

// behind counts the hosts that come before h: among the ready ones, or among those parked at the same bucket.
func (hs *hosts) behind(h *host) (n int) {
	mine := hs.placeOf(h)
	groups := &hs.shares.ready
	if b := hs.shares.groupOf(h).parkedAt; b != nil {
		groups = b.parked
	}
	groups.before(mine, func(g *group) { n += g.hosts.before(mine, nil) })
	return n
}

func clockText(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }

func round(d time.Duration) time.Duration {
	if d >= time.Minute {
		return d.Round(time.Second)
	}
	return d.Round(time.Millisecond)
}
