package agent

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/orbweaver/orbweaver/archive"
	"github.com/orbweaver/orbweaver/content"
	"github.com/orbweaver/orbweaver/exchange"
	"github.com/orbweaver/orbweaver/report"
)

const (
	// PartitionRing shares hosts out among agents, and nothing else.
	PartitionRing = "ring"
	// PartitionHash shares out contents, too, by their hash: X4, section 3.
	PartitionHash = "hash"

	contentsDir = "state/contents"
	// contentsEvery is how long a question waits for others to go with it, and
	// contentsAtOnce how many go together.
	contentsEvery  = 5 * time.Millisecond
	contentsAtOnce = 64
	// contentsPatience is how long a page waits to hear whether it is the first
	// with its content. Then it counts as that.
	contentsPatience = 2 * time.Second
	contentsAgain    = 50 * time.Millisecond
	// contentsRecent bounds what is known here of contents met lately: some 10 MB.
	contentsRecent = 1 << 16
)

// contents is a colony's part in sharing out contents. A content's second agent is
// drawn by its digest as a host's owner is by its name.
//
//	visit -> recent -> own table
//	               `-> batch -> exchange -> another's table
//
// When the view changes, contents get other second agents, which know nothing of
// them yet: more pages count as new, never fewer.
type contents struct {
	self   string
	second func(content.Digest) string // the agent that judges a content; empty: nobody knows yet
	call   func(ctx context.Context, agent string, cs []exchange.Content) ([]exchange.ContentPage, error)
	run    func(func()) // beside all else; who leaves the cluster waits for it
	table  *content.Table
	recent *content.Recent
	failed chan error // of the table

	// mu guards what follows. It is never held across a call.
	mu     sync.Mutex
	open   map[string]*contentBatch // by agent; these take more questions
	counts report.Contents
}

// A contentBatch is questions for one agent, on their way together.
type contentBatch struct {
	qs      []content.Question
	full    chan struct{} // closed when it takes no more
	done    chan struct{} // closed when there are answers, or err
	answers []content.Answer
	err     error
}

// openContents makes this agent's part, if contents are shared out.
func (a *Agent) openContents() error {
	if a.cfg.Cluster.partition() != PartitionHash {
		return nil
	}
	table, err := content.Open(a.fs, a.dir(contentsDir), content.Config{MemoryBytes: a.budget.of(shareContents)})
	if err != nil {
		return err
	}
	a.onClose(table.Close)
	a.contents = newContents(a.colony.self.Name, table)
	a.contents.second, a.contents.call, a.contents.run = a.colony.second, a.colony.contents, a.colony.running.Go
	a.rooms.Contents = a.contents
	return nil
}

func newContents(self string, table *content.Table) *contents {
	return &contents{
		self: self, table: table, recent: content.NewRecent(contentsRecent), failed: make(chan error, 1), open: map[string]*contentBatch{},
	}
}

// second is the agent that judges a content.
func (c *colony) second(digest content.Digest) string {
	r := c.owners.Load()
	if r == nil {
		return "" // nobody knows yet
	}
	return r.Owner(binary.BigEndian.Uint64(digest[:])).Name
}

// contents asks another agent.
func (c *colony) contents(ctx context.Context, agent string, cs []exchange.Content) ([]exchange.ContentPage, error) {
	to, ok := c.member.Load().View().Agent(agent)
	if !ok {
		return nil, fmt.Errorf("agent %q is gone", agent)
	}
	return c.client.Peer(to.Name, to.Addr).Contents(ctx, cs)
}

// partition is Partition in force.
func (c *Cluster) partition() string {
	if c.Partition == "" {
		return PartitionRing
	}
	return c.Partition
}

// begin lets the table answer until ctx is done; also this agent's visits that end
// after it was told to stop.
func (k *contents) begin(ctx context.Context) {
	if k == nil {
		return
	}
	k.run(func() {
		if err := k.table.Run(ctx); err != nil {
			k.failed <- err
		}
	})
}

// tend ends the run by fail if the table's disk fails.
func (k *contents) tend(ctx context.Context, fail func(error)) {
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

// First implements crawl.Contents.
func (k *contents) First(ctx context.Context, digest [20]byte, size int64, page archive.Original) (archive.Original, bool) {
	q := content.Question{Digest: digest, Page: content.Page{URL: page.URL, Date: page.Date.Truncate(time.Millisecond).UTC()}}
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
		answer, err := k.ask(ctx, second, q)
		switch {
		case err != nil:
			k.count(func(n *report.Contents) { n.Unanswered++ })
			first = q.Page
		case answer.First:
			first = q.Page
		default:
			first = answer.Page
		}
		if content.CheckPage(q.Page) == nil {
			k.recent.Add(digest, first)
		}
	}
	if first.URL == q.Page.URL {
		return archive.Original{}, false
	}
	k.count(func(n *report.Contents) { n.Duplicates++ })
	return archive.Original{URL: first.URL, Date: first.Date}, true
}

func (k *contents) count(add func(n *report.Contents)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	add(&k.counts)
}

// Counts implements crawl.Contents.
func (k *contents) Counts() report.Contents {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := k.counts
	n.Share()
	return n
}

// ask asks a content's second agent for as long as a page waits, and as it is the
// one. It does not go on to another: the first may have the page for the first with
// its content, and tell others so, so that one that the other finds to be a
// duplicate would be missed by these.
func (k *contents) ask(ctx context.Context, second string, q content.Question) (content.Answer, error) {
	if err := content.CheckPage(q.Page); err != nil {
		return content.Answer{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, contentsPatience)
	defer cancel()
	for {
		answer, err := k.askOnce(ctx, second, q)
		if err == nil || errors.Is(err, content.ErrClosed) || errors.Is(err, exchange.ErrRejected) {
			return answer, err
		}
		select {
		case <-time.After(contentsAgain):
		case <-ctx.Done():
			return answer, err
		}
		if k.second(q.Digest) != second {
			return answer, err
		}
	}
}

func (k *contents) askOnce(ctx context.Context, second string, q content.Question) (content.Answer, error) {
	if second == k.self {
		answers, err := k.table.Ask(ctx, []content.Question{q})
		if err != nil {
			return content.Answer{}, err
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
		return content.Answer{}, ctx.Err()
	}
	if b.err != nil {
		return content.Answer{}, b.err
	}
	return b.answers[i], nil
}

// carry brings a batch to its agent when it is full or has waited, and the answers
// back.
func (k *contents) carry(ctx context.Context, name string, b *contentBatch) {
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
	cs := make([]exchange.Content, len(b.qs))
	for i, q := range b.qs {
		cs[i] = exchange.Content{Digest: q.Digest, Page: exchange.ContentPage{URL: q.Page.URL, Date: q.Page.Date}}
	}
	firsts, err := k.call(ctx, name, cs)
	if err != nil {
		b.err = err
		return
	}
	b.answers = make([]content.Answer, len(firsts))
	for i, p := range firsts {
		b.answers[i] = content.Answer{First: p.URL == "", Page: content.Page{URL: p.URL, Date: p.Date}}
	}
}

// serve answers another agent.
func (k *contents) serve(ctx context.Context, _ exchange.Caller, cs []exchange.Content) ([]exchange.ContentPage, error) {
	qs := make([]content.Question, len(cs))
	for i, c := range cs {
		qs[i] = content.Question{Digest: c.Digest, Page: content.Page{URL: c.Page.URL, Date: c.Page.Date}}
	}
	answers, err := k.table.Ask(ctx, qs)
	if errors.Is(err, content.ErrClosed) {
		return nil, exchange.ErrAgain
	}
	if err != nil {
		return nil, err
	}
	firsts := make([]exchange.ContentPage, len(answers))
	for i, a := range answers {
		if !a.First {
			firsts[i] = exchange.ContentPage{URL: a.Page.URL, Date: a.Page.Date}
		}
	}
	return firsts, nil
}

var (
	descContents      = prometheus.NewDesc("orbweaver_contents_total", "Pages whose content was asked for.", nil, nil)
	descElsewhere     = prometheus.NewDesc("orbweaver_contents_elsewhere_total", "Of these: whose content is another agent's to judge.", nil, nil)
	descRecent        = prometheus.NewDesc("orbweaver_contents_recent_total", "Of these: answered by what was met here lately.", nil, nil)
	descContentDouble = prometheus.NewDesc("orbweaver_contents_duplicates_total", "Of these: whose content another page had first.", nil, nil)
	descUnanswered    = prometheus.NewDesc("orbweaver_contents_unanswered_total", "Of these: taken for new, for want of an answer.", nil, nil)
	descWouldExport   = prometheus.NewDesc("orbweaver_contents_would_export_bytes_total", "What would have gone to other agents if the pages themselves went there. It did not.", nil, nil)
)

// collect shows the counts to Prometheus.
func (k *contents) collect(count func(d *prometheus.Desc, v int64)) {
	if k == nil {
		return
	}
	n := k.Counts()
	count(descContents, n.Pages)
	count(descElsewhere, n.Elsewhere)
	count(descRecent, n.Recent)
	count(descContentDouble, n.Duplicates)
	count(descUnanswered, n.Unanswered)
	count(descWouldExport, n.WouldExport)
}
