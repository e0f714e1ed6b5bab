package ledger

import (
	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// A lastStates finds the last finish of each URL that has a Planner's state. While the journal is read,
// it counts the states of each URL and adds them to a Spool; when the Spool is read, it counts down. The
// zero lastStates is for a crawl without a Planner.
type lastStates map[link.Key]int

// The numbers in a Spool of states that are in a snapshot and in a finish.
const (
	inSnapshot = iota
	inFinish
)

// add adds the state in a finish.
func (s lastStates) add(to *state.Spool, f *state.Finish) error {
	if s == nil || len(f.State) == 0 {
		return nil
	}
	s[f.Link.PageKey()]++
	return to.Add(state.Visited, inFinish, state.AppendVisited(nil, f.Link.AsLink(), f.State))
}

// addAgain adds that a URL is visited again as if it were new. Its states before are not the last.
func (s lastStates) addAgain(to *state.Spool, l link.Link) error {
	if s == nil {
		return nil
	}
	s[l.PageKey()]++
	return to.Add(state.Again, 0, l.AppendTo(nil))
}

// addTold adds a Told. With an empty state, another agent has the last state.
func (s lastStates) addTold(to *state.Spool, p []byte) error {
	if s == nil {
		return nil
	}
	l, planned, err := state.DecodeTold(p)
	if err != nil {
		return err
	}
	s[l.PageKey()]++
	if len(planned) == 0 {
		return to.Add(state.Again, 0, p)
	}
	return to.Add(state.Visited, inFinish, p)
}

// last reads what was added. If a state is not the last of its URL, last returns none.
func (s lastStates) last(kind byte, number uint64, p []byte) (l link.Link, planned []byte, err error) {
	if kind == state.Again {
		if l, _, err = link.Peek(p); err == nil {
			s[l.PageKey()]--
		}
		return l, nil, err
	}
	if l, planned, err = state.DecodeVisited(p); err != nil {
		return l, nil, err
	}
	k := l.PageKey()
	left, replaced := s[k]
	if number == inFinish {
		left--
		s[k] = left
		replaced = left > 0
	}
	if replaced {
		return l, nil, nil
	}
	return l, planned, nil
}

// newLastStates returns an empty lastStates, or nil without a Planner.
func newLastStates(planned bool) lastStates {
	if !planned {
		return nil
	}
	return lastStates{}
}
