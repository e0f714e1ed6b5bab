package node

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/orbweaver/orbweaver/internal/cluster/contents"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/warc"
)

const (
	contentsDir = "state/contents"
	// contentsEvery is how long questions are collected before they are sent in one call.
	// contentsAtOnce is the largest number of questions in a call.
	contentsEvery  = 5 * time.Millisecond
	contentsAtOnce = 64
	// contentsPatience is how long a page waits for the answer whether it is the first page with
	// its content. Without an answer it counts as the first.
	contentsPatience = 2 * time.Second
	contentsAgain    = 50 * time.Millisecond
	// contentsRecent bounds the number of recent contents in memory: some 10 MB.
	contentsRecent = 1 << 16
)

// A contentService is a membership's part in judging contents. The judge of a content, its "second
// agent", follows from the content's digest as the owner of a host follows from the host's name.
//
//	visit -> recent -> own table
//	               `-> batch -> rpc -> another agent's table
//
// When a page is archived in full and durable, its second agent is told the same way; see originals.
//
// After a change of the view, contents have new second agents, which know nothing of them yet. Then
// more pages count as new, never fewer.
type contentService struct {
	self      string
	second    func(contents.Digest) string // the agent that judges a content; empty: not known yet
	call      func(ctx context.Context, agent string, cs []rpc.Content) ([]rpc.ContentAnswer, error)
	run       func(func()) // starts a goroutine; an agent that leaves the cluster waits for it
	table     *contents.Table
	recent    *contents.Recent // contents of pages that are archived here, or durable elsewhere
	originals *originals
	failed    chan error // receives the table's error

	// mu guards the fields below. It is never held across a call.
	mu     sync.Mutex
	open   map[string]*contentBatch // by agent; they accept more questions
	counts report.Contents
}

// A contentBatch is the questions of one call to one agent.
type contentBatch struct {
	qs      []contents.Question
	full    chan struct{} // closed when it accepts no more questions
	done    chan struct{} // closed when answers or err are set
	answers []contents.Answer
	err     error
}

// openContents opens the table of contents if the partition is PartitionHash.
func (a *Agent) openContents() error {
	if a.cfg.Cluster.partition() != PartitionHash {
		return nil
	}
	table, err := contents.Open(a.fs, a.dir(contentsDir), contents.Config{MemoryBytes: a.budget.of(shareContents)})
	if err != nil {
		return err
	}
	a.onClose(table.Close)
	a.contents = newContents(a.membership.members.Self.Name, table)
	a.contents.second, a.contents.call, a.contents.run = a.membership.second, a.membership.contents,
		a.membership.running.Go
	a.others.Contents = a.contents
	return nil
}

func newContents(self string, table *contents.Table) *contentService {
	k := &contentService{
		self: self, table: table, recent: contents.NewRecent(contentsRecent), failed: make(chan error, 1),
		open: map[string]*contentBatch{},
	}
	k.originals = newOriginals(k)
	return k
}

// second returns the agent that judges a content.
func (c *membership) second(digest contents.Digest) string {
	owners := c.owners()
	if owners == nil {
		return "" // there is no view yet
	}
	return owners.Owner(binary.BigEndian.Uint64(digest[:])).Name
}

// contents sends questions to another agent.
func (c *membership) contents(ctx context.Context, agent string, cs []rpc.Content) ([]rpc.ContentAnswer, error) {
	to, ok := c.members.View().Agent(agent)
	if !ok {
		return nil, fmt.Errorf("agent %q is gone", agent)
	}
	return c.members.To(to).Contents(ctx, cs)
}

// begin starts the table. It answers until ctx is done, so that visits that end after a stop still get answers.
func (k *contentService) begin(ctx context.Context) {
	if k == nil {
		return
	}
	k.run(func() {
		if err := k.table.Run(ctx); err != nil {
			k.failed <- err
		}
	})
	k.originals.begin(ctx)
}

// tend calls fail if the table's disk fails.
func (k *contentService) tend(ctx context.Context, fail func(error)) {
	if k == nil {
		return
	}
	k.run(func() {
		select {
		case err := <-k.failed:
			fail(err)
		case <-ctx.Done():
		}
	})
}

// contentPage returns a page in the form that tables store.
func contentPage(page warc.Original) contents.Original {
	return contents.Original{URL: page.URL, Date: page.Date.Truncate(time.Millisecond).UTC(), Stored: page.Stored}
}

// First implements cluster.Contents.
func (k *contentService) First(
	ctx context.Context, digest [20]byte, size int64, page warc.Original,
) (warc.Original, bool) {
	q := contents.Question{Digest: digest, Page: contentPage(page)}
	second := k.second(digest)
	first, recent := k.recent.First(digest)
	k.count(func(n *report.Contents) {
		n.Pages++
		n.Bytes += size
		if second != k.self {
			n.Elsewhere++
			n.WouldExport += size
		}
		if recent {
			n.Recent++
		}
	})
	if !recent {
		var err error
		if first, err = k.ask(ctx, second, q); err != nil {
			k.count(func(n *report.Contents) { n.Unanswered++ })
		}
	}
	if first.URL == "" || first.URL == q.Page.URL {
		return warc.Original{}, false
	}
	k.count(func(n *report.Contents) { n.Duplicates++ })
	return warc.Original{URL: first.URL, Date: first.Date, Stored: first.Stored}, true
}

// Archived implements cluster.Contents.
func (k *contentService) Archived(digest [20]byte, page warc.Original) {
	if p := contentPage(page); contents.CheckPage(p) == nil {
		k.recent.Add(digest, p)
	}
}

// Durable implements cluster.Contents.
func (k *contentService) Durable(digest [20]byte, page warc.Original) {
	if p := contentPage(page); contents.CheckPage(p) == nil {
		k.originals.add(contents.Question{Digest: digest, Page: p, Archived: true})
	}
}

func (k *contentService) count(add func(n *report.Contents)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	add(&k.counts)
}

// Counts implements cluster.Contents.
func (k *contentService) Counts() report.Contents {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := k.counts
	n.Share()
	return n
}

// errClaimed reports that another page with the content is about to be archived.
var errClaimed = errors.New("another page with this content is not archived yet")

// ask returns the archived page with a content, or the zero page if there is none. It asks the second agent again after
// a failure, and while another page claims the content. It stops after contentsPatience, or when the content has a new
// second agent. It does not ask the new one, which knows less.
func (k *contentService) ask(ctx context.Context, second string, q contents.Question) (contents.Original, error) {
	if err := contents.CheckPage(q.Page); err != nil {
		return contents.Original{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, contentsPatience)
	defer cancel()
	for waits := 0; ; {
		answer, err := k.askOnce(ctx, second, q)
		if err == nil && !answer.Claimed {
			if answer.Page.URL != "" {
				k.recent.Add(q.Digest, answer.Page)
			}
			return answer.Page, nil
		}
		if errors.Is(err, contents.ErrClosed) || errors.Is(err, rpc.ErrRejected) {
			return contents.Original{}, err
		}
		if err == nil {
			err = errClaimed
			if waits++; waits == 1 {
				k.count(func(n *report.Contents) { n.Waited++ })
			}
		}
		select {
		case <-time.After(contentsAgain):
		case <-ctx.Done():
			return contents.Original{}, err
		}
		if first, ok := k.recent.First(q.Digest); ok { // this agent has archived the other page
			return first, nil
		}
		if k.second(q.Digest) != second {
			return contents.Original{}, err
		}
	}
}

func (k *contentService) askOnce(ctx context.Context, second string, q contents.Question) (contents.Answer, error) {
	if second == k.self {
		answers, err := k.table.Ask(ctx, []contents.Question{q})
		if err != nil {
			return contents.Answer{}, err
		}
		return answers[0], nil
	}
	k.mu.Lock()
	b := k.open[second]
	if b == nil {
		b = &contentBatch{full: make(chan struct{}), done: make(chan struct{})}
		k.open[second] = b
		k.run(func() { k.carry(context.WithoutCancel(ctx), second, b) })
	}
	i := len(b.qs)
	b.qs = append(b.qs, q)
	k.counts.Asked++
	if len(b.qs) == contentsAtOnce {
		delete(k.open, second)
		close(b.full)
	}
	k.mu.Unlock()
	select {
	case <-b.done:
	case <-ctx.Done():
		return contents.Answer{}, ctx.Err()
	}
	if b.err != nil {
		return contents.Answer{}, b.err
	}
	return b.answers[i], nil
}

// carry sends a batch when the batch is full or contentsEvery has passed, and stores the answers in it.
func (k *contentService) carry(ctx context.Context, name string, b *contentBatch) {
	defer close(b.done)
	wait := time.NewTimer(contentsEvery)
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-b.full:
	}
	k.mu.Lock()
	if k.open[name] == b {
		delete(k.open, name)
	}
	k.counts.Messages++
	k.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, contentsPatience)
	defer cancel()
	b.answers, b.err = k.callWith(ctx, name, b.qs)
}

// callWith sends questions to another agent and returns its answers.
func (k *contentService) callWith(ctx context.Context, agent string,
	qs []contents.Question) ([]contents.Answer, error) {
	cs := make([]rpc.Content, len(qs))
	for i, q := range qs {
		cs[i] = rpc.Content{Digest: q.Digest, Page: rpc.ContentPage(q.Page), Archived: q.Archived}
	}
	as, err := k.call(ctx, agent, cs)
	if err != nil {
		return nil, err
	}
	answers := make([]contents.Answer, len(as))
	for i, a := range as {
		first := contents.Original(a.First)
		answers[i] = contents.Answer{First: first.URL == "" && !a.Claimed, Claimed: a.Claimed, Page: first}
	}
	return answers, nil
}

// serve answers the questions of another agent.
func (k *contentService) serve(
	ctx context.Context, _ rpc.Caller, cs []rpc.Content,
) ([]rpc.ContentAnswer, error) {
	qs := make([]contents.Question, len(cs))
	for i, c := range cs {
		qs[i] = contents.Question{Digest: c.Digest, Page: contents.Original(c.Page), Archived: c.Archived}
	}
	answers, err := k.table.Ask(ctx, qs)
	if errors.Is(err, contents.ErrClosed) {
		return nil, rpc.ErrAgain
	}
	if err != nil {
		return nil, err
	}
	as := make([]rpc.ContentAnswer, len(answers))
	for i, a := range answers {
		as[i].Claimed = a.Claimed
		as[i].First = rpc.ContentPage(a.Page)
	}
	return as, nil
}

var (
	descContents  = desc("orbweaver_contents_total", "Pages whose content was looked up (--partition hash).")
	descElsewhere = desc("orbweaver_contents_elsewhere_total",
		"Looked-up pages whose content another agent judges.")
	descRecent = desc("orbweaver_contents_recent_total",
		"Looked-up pages that this agent judged from its recent answers, without a question.")
	descContentDouble = desc("orbweaver_contents_duplicates_total",
		"Looked-up pages that are duplicates: another page with the content is archived in full.")
	descWaited = desc("orbweaver_contents_waited_total",
		"Looked-up pages that waited until another page with the content was archived.")
	descUnanswered = desc("orbweaver_contents_unanswered_total",
		"Looked-up pages archived in full because no answer came in time.")
	descTold   = desc("orbweaver_contents_told_total", "Pages archived in full that other agents know of.")
	descUntold = desc("orbweaver_contents_untold_total",
		"Pages archived in full that no agent could be told of.")
	descWouldExport = desc("orbweaver_contents_would_export_bytes_total",
		"Bytes that agents would exchange if the pages themselves travelled. They do not.")
)

// collect reports the counts to Prometheus.
func (k *contentService) collect(count func(d *prometheus.Desc, v int64)) {
	if k == nil {
		return
	}
	n := k.Counts()
	count(descContents, n.Pages)
	count(descElsewhere, n.Elsewhere)
	count(descRecent, n.Recent)
	count(descContentDouble, n.Duplicates)
	count(descWaited, n.Waited)
	count(descUnanswered, n.Unanswered)
	count(descTold, n.Told)
	count(descUntold, n.Untold)
	count(descWouldExport, n.WouldExport)
}
