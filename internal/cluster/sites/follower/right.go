package follower

import (
	"context"
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/assignment"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
)

const (
	// rightEvery is the interval at which the right to start visits is looked at.
	rightEvery = 250 * time.Millisecond
	// meetEvery is the interval at which other agents are asked for an answer, if the right depends on them, and
	// meetTime bounds a question. meetMost bounds the questions that run at once.
	meetEvery = time.Second
	meetTime  = 2 * time.Second
	meetMost  = 32
)

// May reports whether visits may begin now. Safe for concurrent use.
func (f *Follower) May(now time.Time) bool { return f.Table.Right().May(now) }

// keepRight ends visits when the right to start visits is lost, and asks other agents for answers that prolong it.
func (f *Follower) keepRight(ctx context.Context) {
	right := f.Table.Right()
	tick := time.NewTicker(rightEvery)
	defer tick.Stop()
	var questions sync.WaitGroup
	defer questions.Wait()
	slots, asking := make(chan struct{}, meetMost), sync.Map{}
	next := f.cfg.Sites.Clock.Now()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		now := f.cfg.Sites.Clock.Now()
		f.noteRight(right.May(now), right.Why(now))
		if now.Before(next) {
			continue
		}
		next = now.Add(meetEvery)
		r := f.Table.Roster()
		if r == nil {
			continue
		}
		for _, name := range right.Due(now) {
			m, ok := r.Member(name)
			if _, twice := asking.LoadOrStore(name, true); !ok || twice {
				continue
			}
			questions.Go(func() {
				defer asking.Delete(name)
				select {
				case slots <- struct{}{}:
					defer func() { <-slots }()
				case <-ctx.Done():
					return
				}
				f.meet(ctx, m)
			})
		}
	}
}

// noteRight acts on whether this agent may start visits now.
func (f *Follower) noteRight(may bool, why string) {
	l := f.crawl.Load()
	if f.may == may || l == nil {
		return
	}
	f.may = may
	state, _ := f.wanted()
	switch {
	case may:
		if f.lost {
			f.Event("right-back")
		}
		f.lost = false
		l.Resume()
	case state == assignment.Gone: // this agent has given it back
	default:
		f.lost = true
		f.Event("right-lost", "cause", why, "visits", l.CutAll())
	}
}

// meet asks a member for an answer. An agent asks at the address that it has in the roster, so no other instance of it
// answers: that one would have another address, or has ended the first one.
func (f *Follower) meet(ctx context.Context, m assignment.Member) {
	ctx, cancel := context.WithTimeout(ctx, meetTime)
	defer cancel()
	sent := f.cfg.Sites.Clock.Now()
	if f.cfg.Calls.Meet(ctx, m) == nil {
		f.Table.Right().Met(m.Name, sent, f.cfg.Sites.Clock.Now())
	}
}

// Heard notes a message of another agent, before it is answered.
func (f *Follower) Heard(from rpc.Caller) {
	if f == nil {
		return
	}
	r := f.Table.Roster()
	if r == nil {
		return
	}
	if m, ok := r.Member(from.Name); ok && m.Instance == from.Instance {
		f.Table.Right().Heard(from.Name, f.cfg.Sites.Clock.Now())
	}
}
