package follower

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/orbweaver/orbweaver/internal/cluster/assignment"
)

// WillLeave tells the coordinators soon that this agent wants to leave. A nil Follower has none to tell.
func (f *Follower) WillLeave() {
	if f != nil {
		f.want(assignment.Leaving)
	}
}

// Stays takes WillLeave back.
func (f *Follower) Stays() {
	if f != nil {
		f.want(assignment.Up)
	}
}

// want tells the coordinators soon that this agent wants to have a state.
func (f *Follower) want(s assignment.State) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.state != s {
		f.state = s
		close(f.restate)
		f.restate = make(chan struct{})
	}
}

// wanted returns the state that this agent wants to have, and a channel that is closed when it changes.
func (f *Follower) wanted() (assignment.State, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state, f.restate
}

// heardOf notes that a coordinator has answered a report with a state.
func (f *Follower) heardOf(s assignment.State) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.told != s {
		f.told = s
		close(f.tellers)
		f.tellers = make(chan struct{})
	}
}

// Leave tells the coordinators that this agent has ended, and waits for their answer until ctx is done. Without one
// they find out that it is silent.
func (f *Follower) Leave(ctx context.Context) {
	if f == nil {
		return
	}
	if r := f.Table.Roster(); r == nil || r.Ended {
		return
	}
	f.want(assignment.Gone)
	for {
		f.mu.Lock()
		told, more := f.told, f.tellers
		f.mu.Unlock()
		if told == assignment.Gone {
			return
		}
		select {
		case <-more:
		case <-ctx.Done():
			return
		}
	}
}

// IsLast reports whether this agent wants to leave, and no other agent of the roster stays. The coordinators keep one
// agent up that does not leave.
func (f *Follower) IsLast() bool {
	state, _ := f.wanted()
	r := f.Table.Roster()
	if state != assignment.Leaving || r == nil || r.Ended {
		return false
	}
	return !slices.ContainsFunc(r.Members, func(m assignment.Member) bool {
		return m.State == assignment.Up && m.Name != f.cfg.Members.Self.Name
	})
}

// isIn reports whether this agent is up in a roster, in this start.
func (f *Follower) isIn(r *assignment.Roster) bool {
	self := f.cfg.Members.Self
	m, ok := r.Member(self.Name)
	return ok && m.Instance == self.Instance && m.Boot == self.Boot && m.State == assignment.Up
}

// Ready reports whether the crawl may begin: at least want agents are up in the roster, and this one is among them. An
// ended crawl may begin, too, and ends at once. Otherwise why says what is missing.
func (f *Follower) Ready(want int) (why string) {
	if f == nil {
		return ""
	}
	r, text := f.Table.Roster(), strings.TrimPrefix(f.Table.Status().Waits, "waiting for ")
	if i := strings.Index(text, "): "); i >= 0 {
		text = text[:i+1]
	}
	if !strings.HasPrefix(text, "the coordinators") {
		text = "the coordinators"
	}
	switch {
	case r == nil:
		return text
	case r.Ended:
		return ""
	case !f.isIn(r):
		return text + " to take this agent into the crawl"
	}
	n := 0
	for _, m := range r.Members {
		if m.State == assignment.Up {
			n++
		}
	}
	if n < want {
		return fmt.Sprintf("the coordinators to take in %d agents; they have %d", want, n)
	}
	return ""
}
