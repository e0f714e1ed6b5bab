package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/handoff"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/crawl/ledger"
	"github.com/orbweaver/orbweaver/internal/crawl/run"
	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/store/keyset"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// What an agent knows of a host reaches another agent as records of package handoff, in one of three
// ways:
//
//	an agent that crawls or has crawled the host -> Hand -> answerHand    when asked, or when it leaves
//	the replica of a lost agent -> Import -> TakeOver
//	shipped records -> the replica; see Copies
//
// The first two end in a learner. This agent may get a record more than once, in any order, and for a
// host that another agent owns. It keeps what it learns of such a host, and tells it the owner when the
// owner asks.

// A learner collects records into batches, and lets the dispatcher learn them.
type learner struct {
	tenants *tenants
	ctx     context.Context
	// from is the agent that sent the records; empty: they are the replica of a lost agent.
	from    string
	counter uint64                 // of the lost agent
	ours    func(l link.Link) bool // this agent owns the link's host
	n       Taken
	list    List   // of the URLs in lost archives; nil: none is kept
	archive string // of the lost agent
	whole   bool   // that archive is lost

	l     *learnBatch
	given []*learnBatch
	of    finishedOf // the current host, which is added to l as a whole
}

// A learnBatch is a part of the records that the dispatcher learns in one turn.
type learnBatch struct {
	from       string
	a          arrival // pending links, of own hosts and of others
	links      []link.Link
	ours       []bool       // for each of links: this agent owns its host
	finished   []finishedOf // in the order of the records
	hostStates []handoff.Record
	pages      []handoff.Record // counts of hosts' pages
	states     []planned
	named      []handoff.Record    // URLs that a lost archive had
	hosts      map[string]struct{} // own hosts that have links
	n          int                 // weight of all this
}

// finishedOf holds finished URLs of a host: all of them if there are at most handedKeys.
type finishedOf struct {
	host  uint64
	paths keyset.Paths
}

const (
	// takeItems bounds the weight of a batch: an item weighs 1, or 1 for each 256 keys. takeAhead
	// bounds how many batches may be not durable yet.
	takeItems = 1000
	takeAhead = 8
	// handedKeys is the number of keys that are processed at once. Each takes 8 bytes of RAM.
	handedKeys = 1 << 18
)

func newLearner(ctx context.Context, t *tenants, from string, ours func(link.Link) bool) *learner {
	in := &learner{tenants: t, ctx: ctx, from: from, ours: ours}
	in.begin()
	return in
}

func (in *learner) begin() {
	in.l = &learnBatch{from: in.from, a: arrival{done: make(chan error, 1)}, hosts: map[string]struct{}{}}
}

// add collects a record. It keeps none of the record's memory. The error is a handoff.ErrRecord for a
// record that no agent writes.
func (in *learner) add(r *handoff.Record) error {
	switch r.Kind {
	case handoff.Clock:
		in.l.hostStates = append(in.l.hostStates, handoff.Record{Name: strings.Clone(r.Name), Politeness: r.Politeness})
		return in.added(1)
	case handoff.Pages:
		return in.pages(strings.Clone(r.Name), r.Counter, r.Pages)
	case handoff.Known:
		if !keyset.ValidWidth(uint(r.Width)) {
			return fmt.Errorf("%w: keys of %d bits", handoff.ErrRecord, r.Width)
		}
		return in.finished(r.Host, keyset.List{Width: uint(r.Width), Paths: r.Paths})
	case handoff.Named:
		return in.named(r)
	case handoff.Finish:
		if err := in.finish(r); err != nil {
			return err
		}
		return in.finished(r.Host, keyset.List{Width: keyset.WholeKey, Paths: []uint64{r.Path}})
	case handoff.Accept:
		link, _, err := link.Decode(r.Link)
		if err != nil {
			return err
		}
		mine := in.ours(link)
		in.l.links, in.l.ours = append(in.l.links, link), append(in.l.ours, mine)
		if mine {
			in.l.hosts[link.URL.Host()] = struct{}{}
			in.n.Pending++
		} else {
			in.n.Passed++
		}
		return in.added(1)
	}
	return nil
}

// finish collects what a Finish says beyond the key. A Planner has no state of a robots.txt.
func (in *learner) finish(r *handoff.Record) error {
	if len(r.State) > 0 {
		link, _, err := link.Decode(r.Link)
		if err != nil {
			return err
		}
		p := planned{link: link.Sent(), state: slices.Clone(r.State)}
		if in.from != "" {
			if p.version = r.Number; p.version > versionLeaving {
				return fmt.Errorf("%w: version %d of a state", handoff.ErrRecord, p.version)
			}
		}
		if !visit.IsErrand(link) {
			in.l.states = append(in.l.states, p)
		}
		in.l.n++
	}
	if r.Pages > 0 && in.from == "" {
		link, _, err := link.Decode(r.Link)
		if err != nil {
			return err
		}
		if err := in.pages(link.URL.Host(), in.counter, r.Pages); err != nil {
			return err
		}
	}
	if r.Disposition != 0 {
		return in.named(r)
	}
	return nil
}

// pages collects an agent's count of a host's pages. The finishes of a replica have a count each.
func (in *learner) pages(host string, counter, n uint64) error {
	if last := len(in.l.pages) - 1; last >= 0 && in.l.pages[last].Name == host && in.l.pages[last].Counter == counter {
		in.l.pages[last].Pages = max(in.l.pages[last].Pages, n)
		return nil
	}
	in.l.pages = append(in.l.pages, handoff.Record{Kind: handoff.Pages, Name: host, Counter: counter, Pages: n})
	return in.added(1)
}

// named collects the URL of a record that the archive of a lost agent had, or that an archive had which was lost
// before. It goes to the list of that archive, and to this agent's own heirs: they may have to write a list, too.
func (in *learner) named(r *handoff.Record) error {
	if in.from != "" {
		return nil
	}
	link, _, err := link.Peek(r.Link)
	if err != nil {
		return err
	}
	archive := cmp.Or(r.Archive, in.archive)
	if in.list != nil {
		if !in.whole && r.Disposition != handoff.Lost {
			return nil
		}
		if err := in.list.Add(link, archive); err != nil {
			return err
		}
	}
	in.n.Named++
	if in.tenants.Copies == nil {
		return nil
	}
	in.l.named = append(in.l.named, handoff.Record{Kind: handoff.Named, Host: r.Host, Disposition: handoff.Lost,
		Archive: archive, Link: nameOf(link).AppendTo(nil)})
	return in.added(1)
}

// finished collects the finished URLs of one host. There is one finishedOf for each host, because
// each needs a look-up.
func (in *learner) finished(host uint64, l keyset.List) error {
	if in.of.host != host || in.of.paths.N >= handedKeys {
		if err := in.endHost(); err != nil {
			return err
		}
		in.of.host = host
	}
	in.n.Known += int64(len(l.Paths))
	in.of.paths.Add(l)
	return nil
}

func (in *learner) endHost() error {
	n := in.of.paths.N
	if n == 0 {
		return nil
	}
	in.of.paths.Order()
	in.l.finished = append(in.l.finished, in.of)
	in.of = finishedOf{}
	return in.added(1 + n/256)
}

func (in *learner) added(n int) error {
	if in.l.n += n; in.l.n < takeItems {
		return nil
	}
	return in.give()
}

// end returns when everything collected is durable.
func (in *learner) end() error {
	if err := in.endHost(); err != nil {
		return err
	}
	if err := in.give(); err != nil {
		return err
	}
	return in.wait(0)
}

// give passes the collected items to the dispatcher.
func (in *learner) give() error {
	l, loop := in.l, in.tenants.loop
	if l.n == 0 {
		return nil
	}
	in.begin()
	for i, link := range l.links {
		n := len(l.a.links.Found)
		if loop.Links.JudgeSent(&l.a.links, link); len(l.a.links.Found) > n {
			l.a.links.Found[n].Foreign = !l.ours[i]
		}
	}
	if err := loop.Run.Post(in.ctx, func(now time.Time) { in.tenants.learn(l, now) }); err != nil {
		return err
	}
	in.given = append(in.given, l)
	return in.wait(takeAhead)
}

// wait returns when at most ahead of the passed batches are not durable.
func (in *learner) wait(ahead int) error {
	for len(in.given) > ahead {
		select {
		case err := <-in.given[0].a.done:
			if err != nil {
				return err
			}
		case <-in.tenants.run.Ended():
			return run.ErrNotRunning
		case <-in.ctx.Done():
			return in.ctx.Err()
		}
		in.given = in.given[1:]
	}
	return nil
}

// answerHand learns records that another agent sends. It returns when they are durable. If a record cannot be read,
// nothing after it is learned.
func (t *tenants) answerHand(ctx context.Context, from rpc.Caller, q *pb.HandRequest) (*pb.HandResponse, error) {
	err := t.handed(ctx, from.Name, q.Records)
	if errors.Is(err, handoff.ErrRecord) {
		err = fmt.Errorf("%w: %w", rpc.ErrMalformed, err)
	}
	if err != nil {
		return nil, fmt.Errorf("handed: %w", err)
	}
	return new(pb.HandResponse), nil
}

func (t *tenants) handed(ctx context.Context, from string, records []byte) error {
	in := newLearner(ctx, t, from, func(l link.Link) bool { return t.owns(l.URL.Host()) })
	var paths []uint64
	for len(records) > 0 {
		r, n, err := handoff.Decode(records, paths)
		if err != nil {
			return err
		}
		if err := in.add(&r); err != nil {
			return err
		}
		if r.Kind == handoff.Known {
			paths = r.Paths
		}
		records = records[n:]
	}
	return in.end()
}

// learn processes a batch.
func (t *tenants) learn(l *learnBatch, now time.Time) {
	if t.run.Stopping() {
		l.a.done <- run.ErrNotRunning
		return
	}
	t.taught = true
	t.run.Stir()
	for i := range l.hostStates {
		if t.learnRest(&l.hostStates[i], now); t.run.Failed() {
			return
		}
	}
	for i := range l.pages {
		t.learnPages(&l.pages[i])
	}
	if l.from == "" {
		for host := range l.hosts { // the lost agent may just have sent a request
			t.loop.Frontier.Touched(host, 0, now)
		}
	}
	var news []ledger.Ranged
	for i := range l.finished {
		if news = t.news(news, l.finished[i].host, &l.finished[i].paths); t.run.Failed() {
			return
		}
	}
	if t.run.Fail(t.loop.Ledger.Learn(news)) {
		return
	}
	if t.remember(l.states); t.run.Failed() {
		return
	}
	for i := range l.named {
		t.shipping.stage(countsCopy, &l.named[i], l.named[i].Host)
	}
	if l.from != "" {
		keys := int64(0)
		for _, r := range news {
			if r.Done {
				keys += int64(r.N)
			}
		}
		t.n.KeysIn += keys
		t.tellMoves("hosts-taken", l.from, len(l.hostStates), keys)
		// The agent that this one waited for has sent its part. Ask again at once.
		if q := t.lines[l.from]; q != nil {
			q.hosts, q.again = append(q.hosts, q.again...), nil
		}
	}
	t.links.arrive(&l.a, now)
}

// learnPages learns an agent's count of a host's pages, and ships it.
func (t *tenants) learnPages(r *handoff.Record) {
	if t.counts.learn(r) {
		key := link.HostKey(r.Name)
		t.newlyDone(key)
		if t.Copies != nil {
			t.shipping.stage(countsCopy, r, key)
		}
	}
}

// news appends to dst the unknown ones of the finished URLs of a host, for Ledger.Learn, and ships them
// to the host's heir.
func (t *tenants) news(dst []ledger.Ranged, key uint64, finished *keyset.Paths) []ledger.Ranged {
	if t.unite(key); t.run.Failed() {
		return dst
	}
	done := doneKey(link.Key{Host: key}).Host
	known := t.ranges.rangeOf(done)
	fresh := finished.Without(&known)
	if t.foundElsewhere(key, &fresh); t.run.Failed() || fresh.N == 0 {
		return dst
	}
	t.newlyDone(key)
	for _, l := range fresh.Lists {
		t.shipping.copyKnown(key, l)
	}
	own := t.ranges.OwnKey(link.Key{Host: key}).Host
	return append(dst, ledger.Ranged{Host: done, Done: true, Paths: fresh},
		ledger.Ranged{Host: own, Paths: fresh})
}

// foundElsewhere records which waiting links are finished on other agents. The paths must not
// contain URLs finished here.
func (t *tenants) foundElsewhere(key uint64, finished *keyset.Paths) {
	if finished.N == 0 || t.run.Failed() {
		return
	}
	own := t.ranges.rangeOf(t.ranges.OwnKey(link.Key{Host: key}).Host)
	twice := own.Within(finished)
	if twice.N == 0 {
		return
	}
	t.absent(key, func(s *keyset.Paths) {
		for _, l := range twice.Lists {
			s.Add(l)
		}
	})
	for _, l := range twice.Lists {
		for part := range slices.Chunk(l.Paths, state.KeysPiece) {
			t.loop.Ledger.Add(state.Absent, state.AppendList(nil, key, keyset.List{Width: l.Width, Paths: part}))
		}
	}
	t.run.Fail(t.loop.Ledger.Append())
}

// learnRest processes how long a host must rest. If another agent owns the host, that agent gets it
// with the host.
func (t *tenants) learnRest(r *handoff.Record, now time.Time) {
	owner, mine, _ := t.Placement.Tenure(r.Name)
	st := stateOf(r.Name, r.Politeness, now)
	if !mine && owner != "" {
		if _, ok := t.clocks[r.Name]; !ok && !restless(politenessOf(st, now)) {
			t.clocks[r.Name] = st
		}
		return
	}
	st.Blocked = t.held[r.Name] != nil // if the operator has blocked it, it is blocked when it is due
	st = t.loop.Hosts.Take(st, now)
	t.loop.Ledger.Add(state.Host, st.AppendTo(nil))
}
