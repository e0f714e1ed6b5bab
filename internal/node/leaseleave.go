package node

import (
	"context"
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/internal/report"
)

const (
	// partWithin is how long a leaving agent tries to tell the others about its leases. Agents that
	// do not hear it in time wait as they would after a death.
	partWithin = time.Second
	// partAgain is how often it checks whether a call under way has been answered.
	partAgain = 10 * time.Millisecond
)

// retire stops granting leases, and tells the next grantors what they must know. Call it before the
// agent leaves their view.
func (l *leases) retire(ctx context.Context) { l.part(ctx, "leases-retired", false) }

// quit also gives back the leases that this agent holds. Call it before the agent goes.
func (l *leases) quit(ctx context.Context) { l.part(ctx, "leases-left", true) }

// stay undoes retire.
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
