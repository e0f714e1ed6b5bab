package frontier

import (
	"errors"
	"fmt"
	"strings"

	"github.com/orbweaver/orbweaver/internal/web/link"
)

// ErrInProcess means that HandOver named a host whose response is awaited. Its quiet time begins when the response
// ends.
var ErrInProcess = errors.New("host is in process")

// A Waiting is a withdrawn link with all that the frontier knows about it.
type Waiting struct {
	Link    link.Link
	Number  uint64 // request number; 0 for a prerequisite
	Attempt int
	// Front says that it was before its host's queues: a retry or a prerequisite.
	Front bool
}

// withdrawn holds what Withdrawn will deliver: whole queues of hosts, and links from the pools after them. The levels
// of these queues have no meaning.
type withdrawn struct {
	n     int64 // number of links
	front frontQueue
	qs    []*queue
}

// Withdraw takes back all queued links of host, in a time that does not depend on their number. Next gives none of them
// out any more. Withdrawn delivers them; those in the pools after they are read. A link in process and links that are
// queued later are not affected.
func (f *Frontier) Withdraw(host string) {
	for _, p := range f.pools.list {
		p.withdraw(strings.Clone(host))
	}
	h := f.hosts.dict.of(host)
	if h == nil || h.empty() {
		return
	}
	busy := h.busy()
	if !busy {
		f.hosts.leave(h)
	}
	n := h.links()
	if h.state == blocked {
		f.hosts.stats.BlockedLinks -= n
	}
	w := &f.withdrawn
	w.n += n
	for h.front.len() > 0 {
		w.front.append(h.front.take())
	}
	if h.front != nil {
		h.front = nil
		f.hosts.extras.trim(h)
	}
	if h.q.n > 0 {
		q := &queue{}
		f.queues.fixed += queueOverhead
		f.queues.move(q, &h.q)
		for q != nil {
			w.qs = append(w.qs, q)
			next := q.next()
			if next != nil {
				f.queues.setNext(q, nil)
			}
			q = next
		}
	}
	if !busy {
		f.hosts.place(h)
	}
}

// add appends a link.
func (w *withdrawn) add(hs *hosts, number uint64, enc []byte) {
	if len(w.qs) == 0 {
		w.qs = append(w.qs, &queue{})
		hs.queues.fixed += queueOverhead
	}
	hs.queues.add(w.qs[len(w.qs)-1], number, enc)
	w.n++
	hs.queued++
}

// PushWithdrawn queues links as withdrawn: as if they had been queued before a Withdraw.
func (f *Frontier) PushWithdrawn(ws []Waiting) error {
	if f.err != nil {
		return f.err
	}
	for i := range ws {
		w := &ws[i]
		f.enc = w.Link.AppendTo(f.enc[:0])
		if w.Attempt == 0 && !w.Front {
			f.withdrawn.add(&f.hosts, w.Number, f.enc)
			continue
		}
		e := entry{number: w.Number, attempt: int32(w.Attempt), level: f.cfg.rank(&w.Link),
			enc: append([]byte(nil), f.enc...)}
		f.withdrawn.front.append(e)
		f.queues.fixed += e.ram()
		f.withdrawn.n++
		f.hosts.queued++
	}
	return f.overflow()
}

// Withdrawn removes up to most withdrawn links and calls fn for each. fn may keep the link and must not call the
// frontier. The links of a host and level are in the order of their numbers. If fn returns an error, its link is
// removed all the same. done reports whether no withdrawn links are left outside the pools.
func (f *Frontier) Withdrawn(most int, fn func(Waiting) error) (done bool, err error) {
	for ; most > 0 && f.withdrawn.n > 0 && f.err == nil; most-- {
		e, front, err := f.withdrawn.take(&f.hosts)
		var l link.Link
		if err == nil {
			l, _, err = link.Decode(e.enc)
		}
		if err != nil {
			f.err = fmt.Errorf("read withdrawn links: %w", err)
			break
		}
		if err := fn(Waiting{Link: l, Number: e.number, Attempt: int(e.attempt), Front: front}); err != nil {
			return false, err
		}
	}
	return f.withdrawn.n == 0, f.err
}

// take removes the first link.
func (w *withdrawn) take(hs *hosts) (e entry, front bool, err error) {
	w.n--
	hs.queued--
	if w.front.len() > 0 {
		e = w.front.take()
		hs.queues.fixed -= e.ram()
		if w.front.len() == 0 {
			w.front = frontQueue{}
		}
		return e, true, nil
	}
	q := w.qs[0]
	e, err = hs.queues.take(q)
	if q.n == 0 {
		hs.queues.fixed -= queueOverhead
		if w.qs = w.qs[1:]; len(w.qs) == 0 {
			w.qs = nil
		}
	}
	return e, false, err
}

// Withdrawing reports whether the pools may still have withdrawn links of host.
func (f *Frontier) Withdrawing(host string) bool {
	for _, p := range f.pools.list {
		if _, ok := p.withdrawn[host]; ok {
			return true
		}
	}
	return false
}

// HandOver prepares a handoff: it withdraws the links of host and forgets the host. The new owner must Restore the
// returned state before it queues the links, which get new request numbers there. Quiet times of addresses and sites
// stay, because other hosts here may share them. If the host is in process, the error is ErrInProcess.
func (f *Frontier) HandOver(host string) (HostState, error) {
	h := f.hosts.dict.of(host)
	if h != nil && h.busy() {
		return HostState{}, fmt.Errorf("hand over %s: %w", host, ErrInProcess)
	}
	s := f.Host(host)
	f.Withdraw(host)
	f.Unblock(host)
	if h := f.hosts.dict.of(host); h != nil {
		f.hosts.leave(h)
		f.hosts.forget(h)
	}
	return s, nil
}
