package sites

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/cluster/assignment"
	"github.com/orbweaver/orbweaver/internal/wake"
)

// A Source calls coordinators. Safe for concurrent use. If the coordinator at addr does not lead, the error is a
// *NotLeader. If the coordinators will never take this agent, it is ErrRefused.
type Source interface {
	// Follow asks for entries, waits some time for the first of them, and is this agent's sign of life.
	Follow(ctx context.Context, addr string, q Question) (Answer, error)
	// Discover tells of hosts that are in no entry, as far as this agent knows. It returns a verdict for each. If
	// how says how new ones are to be assigned.
	Discover(ctx context.Context, addr string, hosts []string, how assignment.How) ([]Decision, error)
}

// A Question asks for the entries from a number on.
type Question struct {
	From uint64
	// Term is the term of the roster that is in effect here; 0: none.
	Term uint64
	// Stamp is the Stamp of the last answer of the same coordinator. Contacts are as of now, so they are as
	// of the time of that stamp or later.
	Stamp uint64
	// Group is that of the answers which brought the entries so far; zero: it is not known.
	Group [16]byte
	// Contacts are the contacts with the other agents that are up here.
	Contacts []Contact
}

// An Answer has entries, from the asked number on.
type Answer struct {
	Entries []byte // concatenated
	Last    uint64 // the number of the last entry there is
	Term    uint64 // the term of the last roster there is; 0: none
	// Member reports that this agent is up in that roster.
	Member bool
	Stamp  uint64
	// Group names the log of the entries; zero: it has no name.
	Group [16]byte
}

// ErrRefused reports that the coordinators refuse this agent for good.
var ErrRefused = errors.New("refused by the coordinators")

// A NotLeader is the error of a coordinator that does not lead. Leader is the address of the one that does, as
// far as it knows; it may be empty. It is not an rpc.NotLeader, because people read its text behind the address of the
// coordinator.
type NotLeader struct{ Leader string }

func (e *NotLeader) Error() string {
	if e.Leader == "" {
		return "it does not lead, and knows no leader"
	}
	return "it does not lead; " + e.Leader + " does"
}

const (
	// callTime bounds a call. It doubles after a call that took longer, up to callMost: on a slow line a full
	// answer may need it.
	callTime = 3 * time.Second
	callMost = 24 * time.Second
	// askEvery is the least interval of questions when there are no entries.
	askEvery = 50 * time.Millisecond
	// roundWait is the pause after all coordinators have failed, one after the other. It doubles, up to roundMost.
	roundWait = 100 * time.Millisecond
	roundMost = time.Second
	// hopsMost bounds how often coordinators in a row may name another leader before the next one of the list
	// is asked.
	hopsMost = 3
)

// following is the state of the search for the leader.
type following struct {
	mu      sync.Mutex // guards the fields below
	addrs   []string
	leader  string // has answered last; "": none
	next    int    // of addrs, to be asked when there is no leader
	hint    string // named by the last coordinator
	hops    int
	failed  int               // failures in a row, without those with a hint
	trouble map[string]string // by address, in words; of the coordinators that have failed since the last answer
	silent  time.Time         // when the first question failed since the last answer; zero: it did not
	last    uint64            // number of the leader's last entry
	stamp   uint64
	stamper string // the coordinator of stamp
}

func (f *following) init(addrs []string) {
	f.addrs, f.trouble = slices.Clone(addrs), map[string]string{}
}

// target returns the coordinator to ask.
func (f *following) target() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.leader != "":
		return f.leader
	case f.hint != "":
		return f.hint
	}
	return f.addrs[f.next]
}

// leading returns the coordinator that leads; "": none is known.
func (f *following) leading() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.leader
}

// answered records an answer.
func (f *following) answered(addr string, ans *Answer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leader, f.hint, f.hops, f.failed = addr, "", 0, 0
	f.silent, f.last, f.stamp, f.stamper = time.Time{}, ans.Last, ans.Stamp, addr
	clear(f.trouble)
}

// refused records an error, and returns how long to wait before the next question.
func (f *following) refused(addr string, err error, now time.Time) (wait time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.silent.IsZero() {
		f.silent = now
	}
	if slices.Contains(f.addrs, addr) || len(f.trouble) < 2*len(f.addrs) {
		f.trouble[addr] = brief(err)
	}
	f.leader, f.hint = "", ""
	if e, ok := errors.AsType[*NotLeader](err); ok && e.Leader != "" && e.Leader != addr && f.hops < hopsMost {
		f.hint = e.Leader
		f.hops++
		return 0
	}
	if f.addrs[f.next] == addr || f.hops > 0 {
		f.next = (f.next + 1) % len(f.addrs)
	}
	f.hops = 0
	if f.failed++; f.failed%len(f.addrs) != 0 {
		return 0
	}
	return min(roundWait<<min(f.failed/len(f.addrs)-1, 10), roundMost)
}

// brief returns an error in at most 100 characters, on one line.
func brief(err error) string {
	text := strings.Join(strings.Fields(err.Error()), " ")
	if len(text) > 100 {
		text = strings.ToValidUTF8(text[:97], "") + "..."
	}
	return text
}

// words says what the agent waits for; "": it does not.
func (f *following) words() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.silent.IsZero() {
		return ""
	}
	var each []string
	for addr, why := range f.trouble {
		each = append(each, addr+": "+why)
	}
	slices.Sort(each)
	if n := len(each); n > 5 {
		each = append(each[:5], fmt.Sprintf("%d more", n-5))
	}
	return fmt.Sprintf("waiting for the coordinators (%s)", strings.Join(each, "; "))
}

// follow asks for entries until ctx is done. The error is ErrRefused.
func (s *Sites) follow(ctx context.Context) error {
	f, limit := &s.source, callTime
	for ctx.Err() == nil {
		addr, sent := f.target(), s.cfg.Clock.Now()
		q := Question{From: s.number.Load() + 1, Term: s.View(), Group: *s.group.Load(),
			Contacts: s.right.contacts(sent)}
		f.mu.Lock()
		if f.stamper == addr {
			q.Stamp = f.stamp
		}
		f.mu.Unlock()
		call, cancel := context.WithTimeout(ctx, limit)
		ans, err := s.cfg.Source.Follow(call, addr, q)
		late := call.Err() != nil
		cancel()
		if err == nil {
			limit = callTime
			err = s.accept(ctx, addr, q, &ans, sent)
		} else if late {
			limit = min(2*limit, callMost)
		}
		switch {
		case ctx.Err() != nil:
		case errors.Is(err, ErrRefused):
			return err
		case err != nil:
			clock.Pause(ctx, f.refused(addr, err, s.cfg.Clock.Now()))
		case len(ans.Entries) == 0: // even a coordinator that does not wait is not asked more often
			clock.Pause(ctx, askEvery-s.cfg.Clock.Now().Sub(sent))
		}
	}
	return nil
}

// errBehind reports coordinators that lack entries that this agent has.
var errBehind = errors.New("it lacks entries that this agent has; were all coordinators started anew?")

// errAnew reports coordinators that have begun with an empty log. Their rosters know nothing of this agent's hosts, so
// it must not go on by the rosters of the lost ones.
var errAnew = fmt.Errorf("%w: the coordinators have begun anew, and lack what this agent has heard of the ones "+
	"before: stop all agents, and resume each of them", ErrRefused)

// accept applies an answer.
func (s *Sites) accept(ctx context.Context, addr string, q Question, ans *Answer, sent time.Time) error {
	if s.isAnew(ans, q) {
		if s.owners.Load() != nil {
			return errAnew
		}
		return s.pass(ctx, &applying{anew: true, done: make(chan struct{})})
	}
	if ans.Last+1 < q.From {
		return fmt.Errorf("%w (its last entry is %d, ours %d)", errBehind, ans.Last, q.From-1)
	}
	a := &applying{last: ans.Last, group: ans.Group, done: make(chan struct{})}
	for rest := ans.Entries; len(rest) > 0; {
		e, after, err := assignment.Decode(rest)
		if err != nil {
			return err
		}
		if e.Number != q.From+uint64(len(a.entries)) {
			return fmt.Errorf("%w: entry %d in place of %d", ErrStream, e.Number, q.From+uint64(len(a.entries)))
		}
		a.entries, rest = append(a.entries, e), after
	}
	if len(a.entries) > 0 || s.owners.Load() == nil {
		if err := s.pass(ctx, a); err != nil {
			return err
		}
	}
	if ans.Member && ans.Term == s.View() {
		s.right.Answered(sent, s.cfg.Clock.Now())
	}
	was := s.source.leading()
	if s.source.answered(addr, ans); was != addr {
		wake.Up(s.asker.calls)
	}
	return nil
}

// isAnew reports whether an answer is of another log than the entries that this agent has. A leader has all entries of
// its log, so one that lacks ours has another log, too, if it has a name.
func (s *Sites) isAnew(ans *Answer, q Question) bool {
	none, ours := [16]byte{}, *s.group.Load()
	if ans.Group == none {
		return false
	}
	return ours != none && ours != ans.Group || ans.Last+1 < q.From && s.owners.Load() == nil
}

// pass lets the goroutine of Run apply something, and waits for the result.
func (s *Sites) pass(ctx context.Context, a *applying) error {
	select {
	case s.applies <- a:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-a.done:
	case <-s.over:
		return ErrOver
	}
	return a.err
}

// discover tells the leader of new hosts until ctx is done.
func (s *Sites) discover(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	limit := callTime
	for {
		wait := time.Hour
		if at, ok := s.asker.next(); ok && s.source.leading() != "" {
			wait = at.Sub(s.cfg.Clock.Now())
		}
		if wait <= 0 {
			if s.discoverSome(ctx, limit) {
				limit = callTime
			} else {
				limit = min(2*limit, callMost)
			}
			if ctx.Err() != nil {
				return
			}
			continue
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-s.asker.calls:
		case <-ctx.Done():
			return
		}
	}
}

// discoverSome tells the leader of some hosts. limit bounds the call. It returns false if that was too short.
func (s *Sites) discoverSome(ctx context.Context, limit time.Duration) (inTime bool) {
	addr := s.source.leading()
	hosts, how := s.asker.batch(s.cfg.Clock.Now())
	if addr == "" || len(hosts) == 0 {
		s.asker.answered(hosts, nil, ErrOver, s.cfg.Clock.Now()) // the leader is gone
		return true
	}
	call, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	vs, err := s.cfg.Source.Discover(call, addr, hosts, how)
	s.asker.answered(hosts, vs, err, s.cfg.Clock.Now())
	return err == nil || call.Err() == nil
}
