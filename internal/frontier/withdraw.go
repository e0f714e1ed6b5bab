package frontier

import (
	"errors"
	"fmt"
	"strings"

	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// ErrInProcess is a HandOver of a host whose response is awaited: its quiet
// time begins when that ends.
var ErrInProcess = errors.New("host is in process")

// A Waiting is a link that is queued, with all that the frontier knows of it.
type Waiting struct {
	Link    weburl.Link
	Number  uint64 // request number; 0 for a prerequisite
	Attempt int
	// Front says that it stood before its host's queues: a retry or a prerequisite.
	Front bool
}

// withdrawn is what Withdrawn is to show: whole queues as they were taken from
// their hosts, and what came out of the pools behind them. Levels mean nothing
// here.
type withdrawn struct {
	n     int64 // links, of both
	front frontQueue
	qs    []*queue
}

// Withdraw takes all links of host that are queued back from it, at once however
// many they are: Next gives none of them out any more, Withdrawn shows them,
// those in the pools when these are read. What is in process stays so, and what
// is queued later is not concerned.
func (f *Frontier) Withdraw(host string) {
	for _, p := range f.pools {
		p.withdraw(strings.Clone(host))
	}
	h := f.hosts.of(host)
	if h == nil || h.empty() {
		return
	}
	busy := h.busy()
	if !busy {
		f.leave(h)
	}
	n := h.links()
	if h.state == blocked {
		f.stats.BlockedLinks -= n
	}
	w := &f.withdrawn
	w.n += n
	for h.front.len() > 0 {
		w.front.append(h.front.take())
	}
	if h.front != nil {
		h.front = nil
		f.disown(h)
	}
	if h.q.n > 0 {
		q := &queue{}
		f.fixed += queueOverhead
		f.move(q, &h.q)
		for q != nil {
			w.qs = append(w.qs, q)
			next := q.next()
			if next != nil {
				f.setNext(q, nil)
			}
			q = next
		}
	}
	if !busy {
		f.place(h)
	}
}

// add puts a link behind the others.
func (w *withdrawn) add(f *Frontier, number uint64, enc []byte) {
	if len(w.qs) == 0 {
		w.qs = append(w.qs, &queue{})
		f.fixed += queueOverhead
	}
	f.add(w.qs[len(w.qs)-1], number, enc)
	w.n++
	f.queued++
}

// PushWithdrawn queues links as if they had been queued before a Withdraw.
func (f *Frontier) PushWithdrawn(ws []Waiting) error {
	if f.err != nil {
		return f.err
	}
	for i := range ws {
		w := &ws[i]
		f.enc = w.Link.AppendTo(f.enc[:0])
		if w.Attempt == 0 && !w.Front {
			f.withdrawn.add(f, w.Number, f.enc)
			continue
		}
		e := entry{number: w.Number, attempt: int32(w.Attempt), level: w.Link.Level, enc: append([]byte(nil), f.enc...)}
		f.withdrawn.front.append(e)
		f.fixed += e.ram()
		f.withdrawn.n++
		f.queued++
	}
	return f.overflow()
}

// Withdrawn forgets withdrawn links, most of them at the most, and shows each to
// fn, which may keep it and must not call the frontier. Of a host and level they
// come in the order of their numbers. After an error of fn the link that it was
// shown is forgotten, too. done says that none are left outside the pools.
func (f *Frontier) Withdrawn(most int, fn func(Waiting) error) (done bool, err error) {
	for ; most > 0 && f.withdrawn.n > 0 && f.err == nil; most-- {
		e, front, err := f.unqueueWithdrawn()
		var l weburl.Link
		if err == nil {
			l, _, err = weburl.DecodeLink(e.enc)
		}
		if err != nil {
			f.err = fmt.Errorf("withdrawn: %w", err)
			break
		}
		if err := fn(Waiting{Link: l, Number: e.number, Attempt: int(e.attempt), Front: front}); err != nil {
			return false, err
		}
	}
	return f.withdrawn.n == 0, f.err
}

func (f *Frontier) unqueueWithdrawn() (e entry, front bool, err error) {
	w := &f.withdrawn
	w.n--
	f.queued--
	if w.front.len() > 0 {
		e = w.front.take()
		f.fixed -= e.ram()
		if w.front.len() == 0 {
			w.front = frontQueue{}
		}
		return e, true, nil
	}
	q := w.qs[0]
	e, err = f.take(q)
	if q.n == 0 {
		f.fixed -= queueOverhead
		if w.qs = w.qs[1:]; len(w.qs) == 0 {
			w.qs = nil
		}
	}
	return e, false, err
}

// Withdrawing says that links of host may still be among the withdrawn ones of
// the pools.
func (f *Frontier) Withdrawing(host string) bool {
	for _, p := range f.pools {
		if _, ok := p.withdrawn[host]; ok {
			return true
		}
	}
	return false
}

// HandOver gives a host away: it withdraws the host's links and forgets the host.
// The state is what whoever has it from now on restores before the links are
// queued there; they get new request numbers, as any others. The quiet times of
// addresses and sites stay: others here may have them too. A host in process is
// an ErrInProcess.
func (f *Frontier) HandOver(host string) (HostState, error) {
	h := f.hosts.of(host)
	if h != nil && h.busy() {
		return HostState{}, fmt.Errorf("hand over %s: %w", host, ErrInProcess)
	}
	s := f.Host(host)
	f.Withdraw(host)
	f.Unblock(host)
	if h := f.hosts.of(host); h != nil {
		f.leave(h)
		f.forget(h)
	}
	return s, nil
}
