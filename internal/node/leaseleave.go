package node

import (
	"context"
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/internal/report"
)

const (
	// partWithin is how long an agent that goes may take to tell the others what
	// they need of its leases. Those that hear it too late wait, as for the dead.
	partWithin = time.Second
	// partAgain is when it looks whether a call under way has been answered.
	partAgain = 10 * time.Millisecond
)

// retire has this agent grant no leases any more, and tell those who will what
// they have to know: before it leaves their view.
func (l *leases) retire(ctx context.Context) { l.part(ctx, "leases-retired", false) }

// quit has it also give back what it holds: before it goes.
func (l *leases) quit(ctx context.Context) { l.part(ctx, "leases-left", true) }

// stay takes retire back.
func (l *leases) stay() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.done()
	if l.peer != nil {
		l.peer.Stay(l.a.now())
	}
}

func (l *leases) part(ctx context.Context, event string, all bool) {
	if l == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, partWithin)
	defer cancel()
	began := time.Now()
	for {
		l.mu.Lock()
		if l.peer == nil || l.view == nil {
			l.mu.Unlock()
			return
		}
		now := l.a.now()
		if all {
			l.peer.Quit(now)
		} else {
			l.peer.Retire(now)
		}
		calls, view := l.peer.Calls(now), l.view
		told := l.peer.Told(now)
		l.counts.Messages += int64(len(calls))
		l.done()
		if told || ctx.Err() != nil {
			l.a.parts.Events.Write(event, report.F("told", told), report.F("took_ms", time.Since(began).Milliseconds()))
			return
		}
		var under sync.WaitGroup
		for _, b := range calls {
			raw := b.AppendTo(nil)
			under.Go(func() { l.call(ctx, view.agents[b.To], b, raw) })
		}
		under.Wait()
		if len(calls) == 0 {
			select {
			case <-time.After(partAgain):
			case <-ctx.Done():
			}
		}
	}
}
