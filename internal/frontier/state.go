package frontier

import (
	"errors"
	"math"
	"slices"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/fields"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

func siteOf(host string) string { return weburl.Site(host) }

// Stats describes the content of the frontier.
type Stats struct {
	Hosts int `json:"hosts"` // in the dictionary

	Ready         int `json:"ready"`          // may be fetched now
	Resting       int `json:"resting"`        // held back by a delay: their own, or that of their address or site
	RestingShared int `json:"resting_shared"` // of these: held back by their address or site
	Paused        int `json:"paused"`         // after a 429, a 503 or trouble
	Resolving     int `json:"resolving"`      // being looked up
	Fetching      int `json:"fetching"`       // with an open request
	Blocked       int `json:"blocked"`        // blocked by the operator
	Empty         int `json:"empty"`          // without links, but with a delay or a pause to remember

	Queued       int64 `json:"queued"`        // links that are not in process
	Pooled       int64 `json:"pooled"`        // of these: in the pools, in no host's queue yet
	BlockedLinks int64 `json:"blocked_links"` // of these: in the queues of blocked hosts
	Withdrawn    int64 `json:"withdrawn"`     // of these: withdrawn, not yet delivered by Withdrawn
	Aside        int64 `json:"aside"`         // of these: set aside, because an exclusion matches them

	RAMBytes     int64 `json:"ram_bytes"`     // estimate for hosts, queues in RAM and frames in RAM
	SpilledBytes int64 `json:"spilled_bytes"` // queues on disk
	SpillFiles   int   `json:"spill_files"`
	PoolBytes    int64 `json:"pool_bytes"` // pools on disk
	PoolFiles    int   `json:"pool_files"`

	LeasesAwaited int   `json:"leases_awaited"` // addresses and sites whose lease hosts wait for
	LeaseWaits    int64 `json:"lease_waits"`    // how often a host whose turn it was began to wait
}

// Stats returns the current figures, in constant time.
func (f *Frontier) Stats() Stats {
	s := f.hosts.stats
	s.Hosts = f.hosts.dict.len()
	s.RestingShared, s.LeaseWaits = f.hosts.shares.heldBack, f.hosts.shares.leaseWaits
	s.Ready -= s.RestingShared
	s.Resting += s.RestingShared
	s.Queued = f.hosts.queued + f.pools.links
	s.Pooled = f.pools.links
	s.Withdrawn = f.withdrawn.n
	s.Aside = f.aside.Len()
	s.RAMBytes = f.queues.ram + f.queues.fixed + f.hosts.overhead()
	s.SpilledBytes = f.queues.spilled
	s.SpillFiles = f.queues.segments
	s.PoolBytes = f.pools.bytes
	s.PoolFiles = f.pools.onDisk
	s.LeasesAwaited = len(f.hosts.shares.awaiting)
	return s
}

// Len returns the number of links that are queued or in process, including those of blocked hosts.
func (f *Frontier) Len() int64 {
	return f.hosts.queued + f.pools.links + int64(f.hosts.stats.Fetching+f.hosts.stats.Resolving)
}

// Pending returns the number of links that are queued or in process, without those in the queues of blocked hosts, and
// without those set aside that need no review. At 0 the crawl is complete. Links of blocked hosts in the pools count
// until the pools are read, which happens before.
func (f *Frontier) Pending() int64 {
	return f.hosts.queued + f.pools.links - f.hosts.stats.BlockedLinks - (f.aside.Len() - f.aside.review) +
		int64(f.hosts.stats.Fetching+f.hosts.stats.Resolving)
}

// ErrHostState means that an encoded HostState cannot be decoded.
var ErrHostState = errors.New("damaged host state")

// A HostState is the part of a host's state that must survive a restart or a handoff. The crawl journals it.
type HostState struct {
	Host      string
	Delay     time.Duration // the host's own delay (Crawl-delay)
	NotBefore time.Time     // end of the quiet time or pause
	Slow      uint8         // pauses that are not yet forgiven
	SlowUntil time.Time     // end of the last pause
	Blocked   bool          // see Block; it is not encoded
	Origins   []OriginState // those that fail; only for the caller, the Frontier sets none and ignores them
}

// An OriginState is the part of the state of a failing origin (scheme, host and port) that must survive as well.
type OriginState struct {
	Origin   string    // as of weburl.URL.Origin
	Cause    string    // of the last failure, in a word
	Failures uint8     // in a row
	Until    time.Time // no try before
}

// MaxOrigins bounds the Origins of a HostState.
const MaxOrigins = 16

// AppendTo appends the encoding of s to dst:
//
//	uvarint length of the host name
//	bytes   host name
//	byte    0
//	byte    slow
//	varint  delay in nanoseconds
//	varint  not before, in nanoseconds since 1970; 0: none
//	varint  slow until, in nanoseconds since 1970; 0: none
//
// and for each of the Origins, at most MaxOrigins:
//
//	uvarint length of the origin
//	bytes   origin
//	uvarint length of the cause
//	bytes   cause
//	byte    failures
//	varint  until, in nanoseconds since 1970; 0: none
func (s HostState) AppendTo(dst []byte) []byte {
	c := fields.Write(dst)
	s.fields(c)
	for _, o := range s.Origins[:min(len(s.Origins), MaxOrigins)] {
		o.fields(c)
	}
	return c.Written()
}

func (s *HostState) fields(c *fields.Codec) {
	fields.Text(c, &s.Host, 1<<16)
	c.Tag(0)
	fields.Byte(c, &s.Slow)
	c.Check(s.Slow <= maxSlow)
	fields.Int(c, &s.Delay)
	nano(c, &s.NotBefore)
	nano(c, &s.SlowUntil)
}

func (o *OriginState) fields(c *fields.Codec) {
	fields.Text(c, &o.Origin, math.MaxInt)
	fields.Text(c, &o.Cause, math.MaxInt)
	fields.Byte(c, &o.Failures)
	nano(c, &o.Until)
}

func nano(c *fields.Codec, t *time.Time) {
	var n int64
	if !t.IsZero() {
		n = t.UnixNano()
	}
	if fields.Int(c, &n); c.Reads() && n != 0 {
		*t = time.Unix(0, n)
	}
}

// DecodeHostState decodes what AppendTo wrote.
func DecodeHostState(src []byte) (s HostState, err error) {
	c := fields.Read(src)
	for s.fields(c); c.Left() > 0; {
		var o OriginState
		o.fields(c)
		c.Check(len(s.Origins) < MaxOrigins)
		s.Origins = append(s.Origins, o)
	}
	if !c.Ok() {
		return HostState{}, ErrHostState
	}
	return s, nil
}

// Host returns the state of a host. It is empty if the frontier does not know the host.
func (f *Frontier) Host(host string) HostState {
	h := f.hosts.dict.of(host)
	if h == nil {
		return HostState{Host: host}
	}
	return f.hosts.hostState(h)
}

func (hs *hosts) hostState(h *host) HostState {
	s := HostState{Host: h.name, Delay: h.delay, Slow: h.slow, Blocked: h.retired}
	if h.at > 0 {
		s.NotBefore = hs.time.epoch.Add(time.Duration(h.at)).Round(0)
	}
	if h.slow > 0 || h.slowUntil > 0 {
		s.SlowUntil = hs.time.epoch.Add(time.Duration(h.slowUntil)).Round(0)
	}
	return s
}

// EachHost calls fn for each host with something to remember. It stops at the first error. The times of the states are
// of the wall clock as it is at now.
func (f *Frontier) EachHost(now time.Time, fn func(HostState) error) error {
	if !f.time.epoch.IsZero() {
		f.time.follow(now)
	}
	for h := range f.hosts.dict.all() {
		if h.at > f.time.now || h.slow > 0 || h.retired || h.delay > 0 {
			if err := fn(f.hosts.hostState(h)); err != nil {
				return err
			}
		}
	}
	return nil
}

// Restore applies a state that Host or EachHost returned. If a host has several states, the last one decides whether it
// is blocked. A pause ends at most SlowMax from now, whatever the clock was when the state was written. Before the
// frontier knows the time, it keeps the state and applies it at the first call with a time.
func (f *Frontier) Restore(s HostState) {
	if f.time.epoch.IsZero() {
		f.restored = append(f.restored, s)
		return
	}
	f.restore([]HostState{s})
}

func (f *Frontier) restore(ss []HostState) {
	end := f.time.now + int64(f.cfg.SlowMax)
	for _, s := range ss {
		if !s.Blocked {
			f.Unblock(s.Host)
		}
		h := f.hosts.host(s.Host)
		busy := h.busy()
		if !busy {
			f.hosts.leave(h)
		}
		own := f.hosts.extras.need(h) // may stay empty until trim
		own.delay, own.slow = max(s.Delay, 0), min(s.Slow, maxSlow)
		if !s.NotBefore.IsZero() {
			f.hosts.notBefore(h, min(f.time.since(s.NotBefore), end))
		}
		if !s.SlowUntil.IsZero() {
			own.slowUntil = min(f.time.since(s.SlowUntil), end)
		}
		if s.Blocked {
			f.hosts.retire(h)
		}
		f.hosts.extras.trim(h)
		if !busy {
			f.hosts.place(h)
		}
	}
}

// Hush starts the quiet times of all hosts, addresses and sites now, including those met later. Call it when a crawl
// that has just ended may have fetched any host. A host with a longer delay of its own also needs Touched.
func (f *Frontier) Hush(now time.Time) {
	f.tick(now)
	f.hosts.hush()
	f.time.quieted, f.time.quietFrom, f.time.quietTill = true, f.time.now, f.time.now+int64(f.cfg.HostDelay)
	for _, h := range slices.Collect(f.hosts.dict.all()) { // a copy, because hosts may be removed
		busy := h.busy()
		if !busy {
			f.hosts.leave(h)
		}
		f.hosts.notBefore(h, f.time.now+int64(max(f.cfg.HostDelay, f.HostDelay(h.name), h.delay)))
		if !busy {
			f.hosts.place(h)
		}
	}
}

// Touched starts the quiet time of host now, at least delay. Call it when a crawl that has just ended may have fetched
// the host. It also starts the quiet times of all addresses and sites, because it is unknown which of them the host
// used.
func (f *Frontier) Touched(host string, delay time.Duration, now time.Time) {
	f.tick(now)
	f.hosts.hush()
	h := f.hosts.host(host)
	busy := h.busy()
	if !busy {
		f.hosts.leave(h)
	}
	if delay > h.delay {
		f.hosts.extras.need(h).delay = delay // for a snapshot that is taken before its next request
	}
	f.hosts.notBefore(h, f.time.now+int64(max(f.HostDelay(h.name), h.delay)))
	if !busy {
		f.hosts.place(h)
	}
}
