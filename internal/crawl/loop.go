package crawl

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/ledger"
	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/keyset"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// A Loop is a crawl loop, as its Cluster sees it. Only the dispatcher may use it, except for what is
// safe for concurrent use: Config, Now, Events, Tell, Ask, Post, Ended, Go, Judge and Blocked.
type Loop struct {
	c *Crawler

	Config   Config
	Frontier *frontier.Frontier
	Seen     *keyset.Store
	Events   *report.Events
	Tally    *report.Tally
}

func newLoop(c *Crawler) *Loop {
	return &Loop{c: c, Config: c.cfg, Frontier: c.Frontier, Seen: c.Seen, Events: c.Events, Tally: c.Tally}
}

// Now returns the time by the agent's clock.
func (l *Loop) Now() time.Time { return l.c.cfg.Now() }

// Tell lets the dispatcher call f. It reports whether the dispatcher did.
func (l *Loop) Tell(f func(now time.Time)) (told bool) { return l.c.tell(f) }

// Ask lets the dispatcher call f and waits for it. ctx bounds the wait for the dispatcher.
func (l *Loop) Ask(ctx context.Context, name string, f func()) error { return l.c.ask(ctx, name, f) }

// Post lets the dispatcher call f, and does not wait for the end of f. ctx bounds the wait for the
// dispatcher.
func (l *Loop) Post(ctx context.Context, f func(now time.Time)) error {
	select {
	case l.c.commands <- f:
		return nil
	case <-l.c.ended:
		return ErrNotRunning
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Ended returns a channel that is closed when the dispatcher takes no more calls.
func (l *Loop) Ended() <-chan struct{} { return l.c.ended }

// Go runs f in a goroutine that the run waits for.
func (l *Loop) Go(f func()) { l.c.visits.Go(f) }

// Fail ends the run with an error if err is not nil. It reports whether the run has failed, now or
// before.
func (l *Loop) Fail(err error) (failed bool) { return l.c.fail(err) }

// Err returns the error that ends the run, or nil.
func (l *Loop) Err() error { return l.c.fatal }

// Failed reports that the run has failed.
func (l *Loop) Failed() bool { return l.c.fatal != nil }

// Stop returns the reason why the run stops, or "" while it goes on.
func (l *Loop) Stop() Stop { return l.c.stop }

// Stopping reports that the run stops or has failed.
func (l *Loop) Stopping() bool { return l.c.stop != notStopping || l.c.fatal != nil }

// Halt stops the run.
func (l *Loop) Halt(why Stop) { l.c.halt(why) }

// End ends a run that has no work left.
func (l *Loop) End() {
	l.c.stop = Finished
	if l.Frontier.Len() > 0 {
		l.c.stop = OnlyBlocked
	}
}

// Stir records an event that may give this agent work. Activity counts these events and all ended
// visits.
func (l *Loop) Stir() { l.c.activity++ }

// Activity returns the number of events that may have given this agent work.
func (l *Loop) Activity() uint64 { return l.c.activity }

// Busy returns the number of visits that the workers have.
func (l *Loop) Busy() int { return l.c.busy }

// Idle reports that no visit and no look-up is in progress, and that no URL waits for a retry.
func (l *Loop) Idle() bool {
	c := l.c
	return c.busy == 0 && c.resolving == 0 && len(c.unresolved) == 0 && c.retries.Waiting() == 0
}

// Uncollected returns the number of pages that applications have still to collect from this agent.
func (l *Loop) Uncollected() int64 { return l.c.Uncollected() }

// Pending returns the number of accepted URLs that are not finished.
func (l *Loop) Pending() int64 { return l.c.Pending() }

// Sharer returns the strategy if it is a Sharer, otherwise nil.
func (l *Loop) Sharer() visit.Sharer {
	s, _ := l.c.planner.(visit.Sharer)
	return s
}

// Record adds a record to the present batch. The payload is copied.
func (l *Loop) Record(kind byte, payload []byte) { l.c.ledger.Add(kind, payload) }

// Flush appends the present batch to the journal.
func (l *Loop) Flush() { l.c.append() }

// FlushForSync appends the present batch to the journal, which is synced soon, even if only the seen-set
// has links to write.
func (l *Loop) FlushForSync() { l.Fail(l.c.ledger.AppendForSync()) }

// Accepted returns the number of the last accept.
func (l *Loop) Accepted() uint64 { return l.c.ledger.Accepted() }

// Accept adds an accept to the present batch, and returns its number.
func (l *Loop) Accept(class Class, enc []byte) (number uint64) {
	l.Tally.Accepted(1)
	return l.c.ledger.Accept(byte(class), enc)
}

// EndOutgoing ends links that other agents have. returned reports that this agent has accepted them
// again.
func (l *Loop) EndOutgoing(numbers []uint64, returned bool) {
	l.Fail(l.c.ledger.EndOutgoing(numbers, returned))
	l.c.countSent(int64(len(numbers)), returned)
}

// Judge checks a link against the scope, and adds it to ls. A link of an application that is not known here yet waits
// for it.
func (l *Loop) Judge(ls *visit.Links, link link.Link) {
	if link.Ext != "" {
		if app := link.App(); app != "" && l.c.apps.table.Load().of(app) == nil {
			l.c.visits.Links.AddJudged(ls, link, link.Key())
			return
		}
	}
	l.c.visits.Links.Judge(ls, link, link.Key())
}

// JudgeAs is Judge for a link of which the caller knows whether another agent crawls it.
func (l *Loop) JudgeAs(ls *visit.Links, link link.Link, foreign bool) {
	n := len(ls.Found)
	if l.Judge(ls, link); len(ls.Found) > n {
		ls.Found[n].Foreign = foreign
	}
}

// Intake accepts the new links of ls, and logs the skipped ones.
func (l *Loop) Intake(ls *visit.Links) {
	l.c.intake(ls)
	for _, s := range ls.Skipped {
		l.c.skips.add(s)
	}
}

// Dropped reports whether the operator dropped the accept with this number.
func (l *Loop) Dropped(host string, number uint64) bool { return l.c.gate.Dropped(host, number) }

// Drops reports whether the operator has dropped any host's links.
func (l *Loop) Drops() bool { return l.c.gate.Drops() }

// Withdraw finishes a link whose host was dropped.
func (l *Loop) Withdraw(link link.Link, number uint64) { l.c.withdrawLink(link, number, 0) }

// WithdrawLater moves the URLs of a host that is handed over and that wait for a retry to the frontier, as withdrawn.
func (l *Loop) WithdrawLater(host string) error {
	err := l.c.withdrawLater(host)
	l.c.origins.forgetHost(host)
	return err
}

// HostState returns what the next owner of a host must know: the state in the frontier, and the failing origins.
func (l *Loop) HostState(host string) frontier.HostState {
	return l.c.origins.hostState(l.Frontier, host)
}

// EachHostState calls fn for each host with such a state. It stops at the first error.
func (l *Loop) EachHostState(now time.Time, fn func(frontier.HostState) error) error {
	return l.c.origins.eachHost(l.Frontier, now, fn)
}

// Restore takes over such a state, and returns it as it is then.
func (l *Loop) Restore(st frontier.HostState, now time.Time) frontier.HostState {
	l.Frontier.Restore(st)
	l.c.origins.restore(l.c, &st, now)
	return l.HostState(st.Host)
}

// Number returns the number of the accept of a waiting link. number is the one in its queue. 0 means
// that the URL is finished and waits for another visit.
func (l *Loop) Number(k link.Key, number uint64) uint64 {
	return l.c.retries.Number(k, number)
}

// Forget forgets the state of a waiting link that leaves this agent, and returns the number of its
// accept. It gives a visit that a Planner wanted back to the Planner.
func (l *Loop) Forget(link link.Link, number uint64) uint64 {
	k := link.Key()
	number = l.Number(k, number)
	l.c.apps.left(&link)
	l.c.retries.Forget(k)
	if before, ok := l.c.revisiting[k]; ok {
		l.c.revisited(link)
		if p, ok := l.c.planner.(visit.Postponer); ok {
			l.Fail(p.PutOff(&visit.Wanted{Link: link, Before: before}, l.Now()))
		}
	}
	return number
}

// Remember gives the Planner its state of a URL, which another agent had. It reports whether the
// Planner could read it.
func (l *Loop) Remember(link link.Link, planned []byte) (ok bool) {
	if l.c.planner == nil {
		return false
	}
	if err := l.c.planner.Restore(link, planned); err != nil {
		if !errors.Is(err, visit.ErrState) {
			l.Fail(fmt.Errorf("strategy: %s: %w", link.URL, err))
		}
		return false
	}
	l.Record(state.Told, state.AppendVisited(nil, link, planned))
	l.c.planned = true
	l.Stir()
	return true
}

// Moved records that another agent has the Planner's state of a URL.
func (l *Loop) Moved(link link.Link) { l.Record(state.Told, state.AppendVisited(nil, link, nil)) }

// HostsLater appends up to n hosts with URLs that wait for a retry.
func (l *Loop) HostsLater(hosts []string, n int) []string {
	for d := range l.c.retries.All() {
		if n--; n < 0 {
			break
		}
		hosts = append(hosts, d.Link.URL.Host())
	}
	return hosts
}

// LetGo closes the idle connection to a host.
func (l *Loop) LetGo(host string) { l.c.visits.LetGo(host) }

// Blocked reports whether the operator has blocked a host.
func (l *Loop) Blocked(host string) bool { return l.c.gate.Bars(host, netip.Addr{}) }

// BlockedHosts returns the hosts that are in the frontier and blocked by the operator. They must not be changed.
func (l *Loop) BlockedHosts() []string { return l.c.gate.BlockedHosts() }

// Unblock unblocks a host in the frontier. If the operator has blocked it, it is blocked again when it is due.
func (l *Loop) Unblock(host string) { l.c.gate.Unblock(host) }

// ForgetKnown makes the workers judge links again that were found lately.
func (l *Loop) ForgetKnown() { l.c.visits.ForgetKnown() }

// FlushSeen accepts all new links that the seen-set holds back.
func (l *Loop) FlushSeen() { l.Fail(l.c.ledger.Flush()) }

// Checkpoint begins a checkpoint, unless one is in progress.
func (l *Loop) Checkpoint() {
	_, err := l.c.ledger.Checkpoint()
	l.Fail(err)
}

// Transfer returns the journal's files as they are now, see ledger.Transfer. It returns nil if that is not possible
// now, or if the run has failed.
func (l *Loop) Transfer() *ledger.Transfer {
	if l.Stopping() {
		return nil
	}
	t, err := l.c.ledger.Transfer()
	l.Fail(err)
	return t
}

// Range reads a range of the seen-set.
func (l *Loop) Range(host uint64) keyset.Paths {
	s, err := l.c.ledger.Range(host)
	l.Fail(err)
	return s
}

// EmptyRange reports that the seen-set has no key of a range.
func (l *Loop) EmptyRange(host uint64) bool {
	empty, err := l.c.ledger.EmptyRange(host)
	l.Fail(err)
	return empty
}

// Note adds keys to the seen-set whose records are in the journal.
func (l *Loop) Note(keys []link.Key) { l.Fail(l.c.ledger.Note(keys)) }

// Learn adds keys to the seen-set, and then to the journal.
func (l *Loop) Learn(all []ledger.Ranged) { l.Fail(l.c.ledger.Learn(all)) }

// tell lets the dispatcher call f. It reports whether the dispatcher did.
func (c *Crawler) tell(f func(now time.Time)) (told bool) {
	select {
	case c.commands <- f:
		return true
	case <-c.ended:
		return false
	}
}

// ask runs question on the dispatcher and waits for it.
func (c *Crawler) ask(ctx context.Context, name string, question func()) error {
	done := make(chan struct{})
	select {
	case c.commands <- func(time.Time) { question(); close(done) }:
		<-done // the dispatcher has it
		return nil
	case <-c.ended:
		return ErrNotRunning
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", name, ctx.Err())
	}
}

func (c *Crawler) countSent(n int64, returned bool) {
	if returned {
		c.Tally.Accepted(-n)
	} else {
		c.Tally.Sent(n)
	}
}
