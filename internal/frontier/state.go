package frontier

import (
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

func siteOf(host string) string { return weburl.Site(host) }

// Stats counts what the frontier holds. Reading it costs the same however
// much that is.
type Stats struct {
	Hosts int `json:"hosts"` // in the dictionary

	Ready     int `json:"ready"`      // may be asked now
	Parked    int `json:"parked"`     // held back by their address or site
	Waiting   int `json:"waiting"`    // in their quiet time
	Slowed    int `json:"slowed"`     // pausing after 429, 503 or trouble
	Resolving int `json:"resolving"`  // being looked up
	InProcess int `json:"in_process"` // being asked
	Blocked   int `json:"blocked"`    // retired by the operator
	Exhausted int `json:"exhausted"`  // without links, a quiet time or a slow-down still runs

	Queued       int64 `json:"queued"`        // links that are not in process
	Pooled       int64 `json:"pooled"`        // of these: in the pools, in no host's queue yet
	BlockedLinks int64 `json:"blocked_links"` // of these: in the queues of blocked hosts
	Withdrawn    int64 `json:"withdrawn"`     // of these: to be shown by Withdrawn

	RAMBytes     int64 `json:"ram_bytes"`     // estimate: hosts, the queues in RAM and the pools' ends
	SpilledBytes int64 `json:"spilled_bytes"` // queues on disk
	SpillFiles   int   `json:"spill_files"`
	PoolBytes    int64 `json:"pool_bytes"` // pools on disk
	PoolFiles    int   `json:"pool_files"`

	LeasesAwaited int   `json:"leases_awaited"` // addresses and sites that hosts wait for
	LeaseWaits    int64 `json:"lease_waits"`    // how often hosts whose turn it was began to
}

// Stats returns the counts.
func (f *Frontier) Stats() Stats {
	s := f.stats
	s.Hosts = f.hosts.len()
	s.Ready -= s.Parked
	s.Queued = f.queued + f.pooled
	s.Pooled = f.pooled
	s.Withdrawn = f.withdrawn.n
	s.RAMBytes = f.ram + f.fixed + f.overhead()
	s.SpilledBytes = f.spilled
	s.SpillFiles = f.files
	s.PoolBytes = f.poolBytes
	s.PoolFiles = f.poolFiles
	s.LeasesAwaited = len(f.barred)
	return s
}

// Len is the number of links that are queued or in process, those of blocked
// hosts included.
func (f *Frontier) Len() int64 {
	return f.queued + f.pooled + int64(f.stats.InProcess+f.stats.Resolving)
}

// Pending is the number of links that are queued or in process, without those
// in the queues of blocked hosts. At 0 the crawl is complete; links of blocked
// hosts in the pools come to their queues as these are read, which is before.
func (f *Frontier) Pending() int64 {
	return f.queued + f.pooled - f.stats.BlockedLinks + int64(f.stats.InProcess+f.stats.Resolving)
}

// ErrHostState is an encoding of a HostState that cannot be read.
var ErrHostState = errors.New("damaged host state")

// A HostState is what outlives a stop of the crawl, for its journal.
type HostState struct {
	Host      string
	Delay     time.Duration // the host's own wish (Crawl-delay)
	NotBefore time.Time     // end of the quiet time or pause
	Slow      uint8         // pauses not yet forgiven
	SlowUntil time.Time     // end of the last pause
	Blocked   bool
}

// AppendTo appends s's encoding to dst:
//
//	uvarint length of the host name
//	bytes   host name
//	byte    1: blocked
//	byte    slow
//	varint  delay in nanoseconds
//	varint  not before, nanoseconds since 1970, 0 none
//	varint  slow until, likewise
func (s HostState) AppendTo(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s.Host)))
	dst = append(dst, s.Host...)
	var b byte
	if s.Blocked {
		b = 1
	}
	dst = append(dst, b, s.Slow)
	dst = binary.AppendVarint(dst, int64(s.Delay))
	dst = binary.AppendVarint(dst, unixNano(s.NotBefore))
	return binary.AppendVarint(dst, unixNano(s.SlowUntil))
}

func unixNano(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// DecodeHostState reads what AppendTo wrote, and nothing behind it.
func DecodeHostState(src []byte) (HostState, error) {
	k, n := binary.Uvarint(src)
	if n <= 0 || k > 1<<16 || uint64(len(src)-n) < k+2 {
		return HostState{}, ErrHostState
	}
	s := HostState{Host: string(src[n : n+int(k)])}
	n += int(k)
	s.Blocked, s.Slow = src[n] == 1, src[n+1]
	if src[n] > 1 || s.Slow > maxSlow {
		return HostState{}, ErrHostState
	}
	n += 2
	var v [3]int64
	for i := range v {
		x, w := binary.Varint(src[n:])
		if w <= 0 {
			return HostState{}, ErrHostState
		}
		v[i], n = x, n+w
	}
	if n != len(src) {
		return HostState{}, ErrHostState
	}
	s.Delay = time.Duration(v[0])
	if v[1] != 0 {
		s.NotBefore = time.Unix(0, v[1])
	}
	if v[2] != 0 {
		s.SlowUntil = time.Unix(0, v[2])
	}
	return s, nil
}

// Host returns what is to be remembered of a host.
func (f *Frontier) Host(host string) HostState {
	h := f.hosts.of(host)
	if h == nil {
		return HostState{Host: host}
	}
	return f.hostState(h)
}

func (f *Frontier) hostState(h *host) HostState {
	s := HostState{Host: h.name, Delay: h.delay, Slow: h.slow, Blocked: h.retired}
	if h.at > 0 {
		s.NotBefore = f.epoch.Add(time.Duration(h.at)).Round(0)
	}
	if h.slow > 0 || h.slowUntil > 0 {
		s.SlowUntil = f.epoch.Add(time.Duration(h.slowUntil)).Round(0)
	}
	return s
}

// EachHost shows the state of all hosts of which there is something to remember.
func (f *Frontier) EachHost(fn func(HostState) error) error {
	for h := range f.hosts.all() {
		if h.at > f.clock || h.slow > 0 || h.retired || h.delay > 0 {
			if err := fn(f.hostState(h)); err != nil {
				return err
			}
		}
	}
	return nil
}

// Restore brings back what Host or EachHost gave: of several states of a host
// the last one says whether it is blocked. A pause ends at the latest
// SlowMax from now, whatever the clock was when it was written. Before the
// frontier has been told a time, the state takes effect with the first one.
func (f *Frontier) Restore(s HostState) {
	if f.epoch.IsZero() {
		f.restored = append(f.restored, s)
		return
	}
	f.restore([]HostState{s})
}

func (f *Frontier) restore(ss []HostState) {
	end := f.clock + int64(f.cfg.SlowMax)
	for _, s := range ss {
		if !s.Blocked {
			f.Unblock(s.Host)
		}
		h := f.host(s.Host)
		busy := h.busy()
		if !busy {
			f.leave(h)
		}
		own := f.own(h) // empty perhaps, until disown
		own.delay, own.slow = max(s.Delay, 0), min(s.Slow, maxSlow)
		if !s.NotBefore.IsZero() {
			f.notBefore(h, min(f.since(s.NotBefore), end))
		}
		if !s.SlowUntil.IsZero() {
			own.slowUntil = min(f.since(s.SlowUntil), end)
		}
		if s.Blocked {
			f.retire(h)
		}
		f.disown(h)
		if !busy {
			f.place(h)
		}
	}
}

// Hush says that any host may have been asked a moment before now by a crawl
// that has ended: the quiet times of all hosts, addresses and sites run from
// now, also of those that are met later. Hosts with a delay of their own want
// Touched as well.
func (f *Frontier) Hush(now time.Time) {
	f.tick(now)
	f.hush()
	f.quietTill = f.clock + int64(f.cfg.HostDelay)
	for _, h := range slices.Collect(f.hosts.all()) { // some may go
		busy := h.busy()
		if !busy {
			f.leave(h)
		}
		f.notBefore(h, f.clock+int64(max(f.cfg.HostDelay, h.delay)))
		if !busy {
			f.place(h)
		}
	}
}

// Touched says that host may have been asked a moment before now by a crawl
// that has ended: its quiet time, delay at least, runs from now. So do those of
// all addresses and sites: which of them it used, nobody knows any more.
func (f *Frontier) Touched(host string, delay time.Duration, now time.Time) {
	f.tick(now)
	f.hush()
	h := f.host(host)
	busy := h.busy()
	if !busy {
		f.leave(h)
	}
	if delay > h.delay {
		f.own(h).delay = delay // for a snapshot before its next request
	}
	f.notBefore(h, f.clock+int64(max(f.cfg.HostDelay, h.delay)))
	if !busy {
		f.place(h)
	}
}
