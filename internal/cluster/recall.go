package cluster

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/crawl/run"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/store/keyset"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// The agents share the work of a strategy that is a crawl.Sharer. Each of its tasks belongs to the
// agent that owns the task's pseudo-host. If the strategy wants a URL, this agent asks until it has
// the strategy's state of the URL:
//
//	question -> owner of the host -> its strategy knows the URL: state
//	                              -> not finished: the owner accepts the link; ask again
//	                              -> finished by others, without a state here: ask all others in turn
//
// The states of a lost or leaving agent reach the new owners by Restore (learn.go). The owners of hosts
// that moved for another reason get the states by questions.
//
// An agent with an open question is not idle. So the cluster cannot end between the fetch of a page
// and the next question. A link is not durable because of a question: after a restart of the owner it
// is accepted again.

// The verdicts of a Recall on a URL.
const (
	// recallKnown: the strategy has a state of the URL.
	recallKnown uint32 = 1 + iota
	// recallLater: the URL is not finished, or the answering agent cannot tell. Ask again.
	recallLater
	// recallNone: the strategy has no state of the URL, and gets none by a visit. Or it is too large: see
	// visit.MaxState.
	recallNone
	// recallBlocked: the URL waits until the operator allows visits to its host.
	recallBlocked
)

const (
	// recallWait is the pause before an agent is asked again. It doubles up to recallWaitMax, or up
	// to ownWaitMax if it is this agent: it looks at once when it has finished the URL.
	recallWait    = 50 * time.Millisecond
	recallWaitMax = 400 * time.Millisecond
	ownWaitMax    = 3 * time.Second
	// blockedWait is the pause if the host is blocked. Agents that wait for blocked hosts only may
	// end. The pause is shorter than the time between two questions whether all are idle, so that the
	// crawl does not end when the operator has just unblocked the host.
	blockedWait = 200 * time.Millisecond
	// recallBytes bounds the links in one call, beside maxRecall.
	recallBytes = 512 << 10
)

// A question is a URL whose state the strategy wants.
type question struct {
	link    link.Link
	routed  bool   // the agents below are chosen, for view
	view    uint64 // Placement.View
	agent   string // to ask next; "": this agent
	owner   bool   // agent is the owner of the host
	others  []string
	due     time.Time
	tries   int
	asking  bool
	blocked bool // the owner's operator has blocked the host
}

// A turn identifies calls to an agent of which one at a time is under way.
type turn struct {
	agent  string
	accept bool
}

// recalls are the questions of this agent.
type recalls struct {
	*base
	ranges  *ranges
	tenants *tenants

	open   map[link.Key]*question
	asking map[turn]bool
	stale  bool // the tasks may have other agents now
}

// settled reports that no question is open, except those that wait for the operator.
func (r *recalls) settled() bool {
	for _, q := range r.open {
		if !q.blocked || q.asking {
			return false
		}
	}
	return len(r.asking) == 0
}

// ask does the work of Clustered.Recall.
func (r *recalls) ask(l link.Link) (taken bool) {
	if r.loop.Sharer == nil {
		return false
	}
	if k := link.KeyOf(l.URL); r.open[k] == nil {
		r.open[k] = &question{link: l}
	}
	return true
}

// share tells the strategy which tasks are this agent's. While the agents end the crawl together,
// all tasks are done, and agents that have ended must not have their tasks done again.
func (r *recalls) share(s visit.Sharer) (changed bool) {
	if !r.stale || r.End != nil && r.End.Ending() {
		return false
	}
	r.stale = false
	clear(r.open) // the strategy wants the URLs again whose states are still missing
	s.Share(r.owns)
	r.run.Stir()
	return true
}

// askStates asks the questions that are due. wake is the time of the next one.
func (r *recalls) askStates(work context.Context, now time.Time, resting func() bool) (wake time.Time) {
	s := r.loop.Sharer
	if s == nil || r.run.Stopping() {
		return time.Time{}
	}
	if r.share(s) {
		return now
	}
	batches := map[turn][]*question{}
	for k, q := range r.open {
		switch {
		case q.asking:
		case q.due.After(now):
			if !q.blocked || resting() {
				wake = run.Earlier(wake, q.due)
			}
		case !r.route(q, now):
			wake = run.Earlier(wake, q.due)
		case q.agent == "":
			a := r.recallHere(q.link, true)
			if r.run.Failed() {
				return wake
			}
			if r.recalled(k, q, a, now); r.open[k] == q {
				wake = run.Earlier(wake, q.due)
			} else {
				wake = now // the strategy may want other URLs
			}
		default:
			t := turn{q.agent, q.owner}
			batches[t] = append(batches[t], q)
		}
	}
	for t, qs := range batches {
		r.askAgent(work, t, qs)
	}
	return wake
}

// route chooses the agent to ask. If the owner is not known, it returns false.
func (r *recalls) route(q *question, now time.Time) bool {
	view := r.Placement.View()
	if q.routed && q.view == view {
		return true
	}
	owner, mine := r.Placement.Owner(q.link.URL.Host())
	if owner == "" && !mine {
		q.due = now.Add(recallWait)
		return false
	}
	if mine {
		owner = ""
	}
	q.routed, q.view, q.agent, q.owner, q.others = true, view, owner, true, nil
	return true
}

// askAgent asks an agent as many questions as fit into one call. The others wait for its end.
func (r *recalls) askAgent(work context.Context, t turn, qs []*question) {
	if r.asking[t] {
		return
	}
	ask := &pb.RecallRequest{Accept: t.accept}
	for _, q := range qs[:min(len(qs), maxRecall)] {
		if len(ask.Links) >= recallBytes {
			break
		}
		q.asking = true
		ask.Links = q.link.AppendTo(ask.Links)
		ask.Count++
	}
	qs = qs[:ask.Count]
	r.asking[t] = true
	r.run.Go(func() {
		answer, err := r.Exchange.Recall(work, t.agent, ask)
		r.run.Tell(func(now time.Time) {
			delete(r.asking, t)
			for i, q := range qs {
				a := &pb.RecallAnswer{Verdict: recallLater}
				if err == nil && i < len(answer.Answers) {
					a = answer.Answers[i]
				}
				q.asking = false
				r.recalled(link.KeyOf(q.link.URL), q, a, now)
			}
		})
	})
}

// recalled processes the answer to a question.
func (r *recalls) recalled(k link.Key, q *question, a *pb.RecallAnswer, now time.Time) {
	s := r.loop.Sharer
	if r.run.Stopping() || r.open[k] != q {
		return
	}
	q.blocked = false
	switch {
	case a.Verdict == recallKnown && tell(s, a) == nil:
		r.answeredState(k)
	case a.Verdict == recallBlocked:
		q.blocked, q.due = true, now.Add(blockedWait)
	case a.Verdict == recallLater || q.view != r.Placement.View():
		most := recallWaitMax
		if q.agent == "" {
			most = ownWaitMax
		}
		q.due = now.Add(min(recallWait<<min(q.tries, 10), most))
		q.tries++
	default: // no state, or one that is not valid
		q.due = now
		if q.owner {
			agents, _ := r.Placement.Before(q.link.URL.Host())
			q.others = slices.DeleteFunc(slices.Clone(agents), func(a string) bool { return a == q.agent })
		}
		if q.owner = false; len(q.others) > 0 {
			q.agent, q.others = q.others[0], q.others[1:]
			return
		}
		if err := s.Told(q.link, nil); err != nil {
			r.run.Fail(fmt.Errorf("strategy: %w", err))
		}
		r.answeredState(k)
	}
}

// tell tells a strategy the state that an agent knows.
func tell(s visit.Sharer, a *pb.RecallAnswer) error {
	l, _, err := link.Decode(a.Link)
	if err != nil {
		return err
	}
	return s.Told(l.Sent(), a.State)
}

// finishedHere lets this agent look at once whether its strategy has a state of a finished URL.
func (r *recalls) finishedHere(k link.Key) {
	if q := r.open[k]; q != nil {
		q.due, q.tries = time.Time{}, 0
	}
}

// answeredState ends a question. The strategy may want other URLs.
func (r *recalls) answeredState(k link.Key) {
	delete(r.open, k)
	r.run.Stir()
}

// answer answers what this agent's strategy knows of URLs. What does not fit into one message comes later.
func (r *recalls) answer(ctx context.Context, _ rpc.Caller, q *pb.RecallRequest) (*pb.RecallResponse, error) {
	if r.Placement.View() == 0 {
		return nil, rpc.ErrAgain
	}
	links, err := decodeLinks(q.Links, q.Count)
	if err != nil {
		return nil, err
	}
	answer, left := new(pb.RecallResponse), rpc.MaxData
	for part := range slices.Chunk(links, 16) { // each may need a disk access
		err := r.run.Do(ctx, "recall", func(time.Time) {
			for _, l := range part {
				a := r.recallHere(l.Sent(), q.Accept)
				if len(a.State) > visit.MaxState {
					a = &pb.RecallAnswer{Verdict: recallNone}
				}
				if left -= len(a.Link) + len(a.State); left < 0 {
					a = &pb.RecallAnswer{Verdict: recallLater}
				}
				answer.Answers = append(answer.Answers, a)
			}
		})
		if err != nil {
			return nil, fmt.Errorf("recall: %w", err)
		}
	}
	return answer, nil
}

// recallHere answers a question. As the owner it also accepts the link if it is new.
func (r *recalls) recallHere(l link.Link, accept bool) *pb.RecallAnswer {
	s, a := r.loop.Sharer, &pb.RecallAnswer{Verdict: recallLater}
	if s == nil || r.run.Stopping() {
		return a
	}
	known := func() bool {
		found, state, err := s.Recall(l.URL)
		if err != nil {
			r.run.Fail(fmt.Errorf("strategy: %w", err))
		}
		if state != nil {
			a.Verdict, a.Link, a.State = recallKnown, found.AppendTo(nil), slices.Clone(state)
		}
		return state != nil
	}
	switch {
	case known(), r.Placement.Inheriting():
	case !accept || visit.IsErrand(l):
		a.Verdict = recallNone
	case r.owns(l.URL.Host()):
		r.acceptAsked(l)
		switch k := link.KeyOf(l.URL); {
		case r.run.Failed():
		case known(): // it was refused
		case r.doneElsewhere(l.URL.Host(), k):
			a.Verdict = recallNone
		case r.loop.Gate.Bars(l.URL.Host(), netip.Addr{}):
			a.Verdict = recallBlocked
		case r.nothingPending():
			a.Verdict = recallNone
		}
	}
	return a
}

// acceptAsked accepts a link of an own host, if it is new. The agent that asks has found it in scope.
func (r *recalls) acceptAsked(l link.Link) {
	before := r.loop.Ledger.Accepted()
	var ls visit.Links
	ls.AddOwn(link.KeyOf(l.URL), l.AppendTo(nil))
	r.loop.Intake(&ls)
	if r.run.Fail(r.loop.Ledger.Append()); r.loop.Ledger.Accepted() != before {
		r.run.Stir()
	}
}

// doneElsewhere reports whether a URL without a state was finished by an agent that had the host
// before.
func (r *recalls) doneElsewhere(host string, k link.Key) bool {
	if _, _, since := r.Placement.Tenure(host); since == 0 {
		return false // this agent has always had it
	}
	done := r.ranges.rangeOf(doneKey(k).Host)
	return done.Has(keyset.WholeKey, k.Path)
}

// nothingPending reports that this agent has no link to visit.
func (r *recalls) nothingPending() bool {
	f := r.loop.Frontier
	none := func() bool {
		return r.loop.Idle() && f.Pending() == 0 && f.Stats().Withdrawn == 0 && r.outgoing() == 0 &&
			r.tenants.settled()
	}
	if !none() {
		return false
	}
	r.run.Fail(r.loop.Ledger.Flush()) // may bring more links
	return !r.run.Failed() && none()
}
