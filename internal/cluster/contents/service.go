package contents

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/cluster/members"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/recent"
	"github.com/orbweaver/orbweaver/internal/warc"
)

const (
	// askEvery is how long questions are collected before they are sent in one call. askAtOnce is the largest number
	// of questions in a call.
	askEvery  = 5 * time.Millisecond
	askAtOnce = 64
	// patience is how long a page waits for the answer whether it is the first page with its content. Without an
	// answer it counts as the first.
	patience = 2 * time.Second
	askAgain = 50 * time.Millisecond
	// recentMost bounds the number of recent contents in memory: some 10 MB.
	recentMost = 1 << 16
)

// Parts are what a Service needs of its agent.
type Parts struct {
	Members *members.Members
	Placed  Placed
	Running *sync.WaitGroup // has the goroutines; an agent that leaves its cluster waits for it
	Asker   Asker           // nil: Call
}

// Placed tells which agent is the second agent of a content: the one that judges it.
type Placed interface {
	// SecondAgent returns its name, or "" before the first view. Safe for concurrent use.
	SecondAgent(content Digest) string
}

// An Asker puts questions to other agents. Safe for concurrent use.
type Asker interface {
	// Ask calls an agent. It returns an answer that Call accepts.
	Ask(ctx context.Context, agent string, q *pb.ContentsRequest) (*pb.ContentsResponse, error)
}

// A Service is an agent's part in judging contents. The second agent of a content follows from the content's digest as
// the owner of a host follows from the host's name. Safe for concurrent use.
//
//	visit -> recent -> own table
//	               `-> batch -> Call -> another agent's table
//
// When a page is archived in full and durable, its second agent is told the same way; see originals.
//
// After a change of the view, contents have new second agents, which know nothing of them yet. Then
// more pages count as new, never fewer. It implements cluster.Contents.
type Service struct {
	parts     Parts
	table     *Table
	recent    *recent.Cache[Digest, Original] // contents of pages that are archived here, or durable elsewhere
	originals *originals
	failed    chan error // receives the table's error

	// mu guards the fields below. It is never held across a call.
	mu     sync.Mutex
	open   map[string]*batch // by agent; they accept more questions
	counts report.Contents
}

// A batch is the questions of one call to one agent.
type batch struct {
	qs      []Question
	full    chan struct{} // closed when it accepts no more questions
	done    chan struct{} // closed when answers or err are set
	answers []Answer
	err     error
}

// NewService returns the Service of an agent with its Table.
func NewService(parts Parts, table *Table) *Service {
	k := &Service{parts: parts, table: table,
		recent: recent.New[Digest, Original](recentMost), failed: make(chan error, 1),
		open: map[string]*batch{}}
	k.originals = newOriginals(k)
	return k
}

// Begin starts the table. It answers until ctx is done, so that visits that end after a stop still get answers.
func (k *Service) Begin(ctx context.Context) {
	k.parts.Running.Go(func() {
		if err := k.table.Run(ctx); err != nil {
			k.failed <- err
		}
	})
	k.originals.begin(ctx)
}

// Tend calls fail if the table's disk fails, until ctx is done.
func (k *Service) Tend(ctx context.Context, fail func(error)) {
	k.parts.Running.Go(func() {
		select {
		case err := <-k.failed:
			fail(err)
		case <-ctx.Done():
		}
	})
}

// originalOf returns a page in the form that tables store.
func originalOf(page warc.Original) Original {
	return Original{URL: page.URL, Date: page.Date.Truncate(time.Millisecond).UTC(), Stored: page.Stored}
}

func (k *Service) First(
	ctx context.Context, digest [20]byte, size int64, page warc.Original,
) (warc.Original, bool) {
	q := Question{Digest: digest, Page: originalOf(page)}
	second := k.parts.Placed.SecondAgent(digest)
	first, recent := k.recent.Get(digest)
	k.count(func(n *report.Contents) {
		n.Pages++
		n.Bytes += size
		if second != k.parts.Members.Self.Name {
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

func (k *Service) Archived(digest [20]byte, page warc.Original) {
	if p := originalOf(page); CheckPage(p) == nil {
		k.recent.Add(digest, p)
	}
}

func (k *Service) Durable(digest [20]byte, page warc.Original) {
	if p := originalOf(page); CheckPage(p) == nil {
		k.originals.add(Question{Digest: digest, Page: p, Archived: true})
	}
}

func (k *Service) count(add func(n *report.Contents)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	add(&k.counts)
}

func (k *Service) Counts() report.Contents {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := k.counts
	n.Share()
	return n
}

// errClaimed reports that another page with the content is about to be archived.
var errClaimed = errors.New("another page with this content is not archived yet")

// ask returns the archived page with a content, or the zero page if there is none. It asks the second agent again after
// a failure, and while another page claims the content. It stops after patience, or when the content has a new
// second agent. It does not ask the new one, which knows less.
func (k *Service) ask(ctx context.Context, second string, q Question) (Original, error) {
	if err := CheckPage(q.Page); err != nil {
		return Original{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for waits := 0; ; {
		answer, err := k.askOnce(ctx, second, q)
		if err == nil && !answer.Claimed {
			if answer.Page.URL != "" {
				k.recent.Add(q.Digest, answer.Page)
			}
			return answer.Page, nil
		}
		if errors.Is(err, ErrClosed) || errors.Is(err, rpc.ErrRejected) {
			return Original{}, err
		}
		if err == nil {
			err = errClaimed
			if waits++; waits == 1 {
				k.count(func(n *report.Contents) { n.Waited++ })
			}
		}
		if !clock.Pause(ctx, askAgain) {
			return Original{}, err
		}
		if first, ok := k.recent.Get(q.Digest); ok { // this agent has archived the other page
			return first, nil
		}
		if k.parts.Placed.SecondAgent(q.Digest) != second {
			return Original{}, err
		}
	}
}

func (k *Service) askOnce(ctx context.Context, second string, q Question) (Answer, error) {
	if second == k.parts.Members.Self.Name {
		answers, err := k.table.Ask(ctx, []Question{q})
		if err != nil {
			return Answer{}, err
		}
		return answers[0], nil
	}
	k.mu.Lock()
	b := k.open[second]
	if b == nil {
		b = &batch{full: make(chan struct{}), done: make(chan struct{})}
		k.open[second] = b
		k.parts.Running.Go(func() { k.carry(context.WithoutCancel(ctx), second, b) })
	}
	i := len(b.qs)
	b.qs = append(b.qs, q)
	k.counts.Asked++
	if len(b.qs) == askAtOnce {
		delete(k.open, second)
		close(b.full)
	}
	k.mu.Unlock()
	select {
	case <-b.done:
	case <-ctx.Done():
		return Answer{}, ctx.Err()
	}
	if b.err != nil {
		return Answer{}, b.err
	}
	return b.answers[i], nil
}

// carry sends a batch when the batch is full or askEvery has passed, and stores the answers in it.
func (k *Service) carry(ctx context.Context, name string, b *batch) {
	defer close(b.done)
	wait := time.NewTimer(askEvery)
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
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	b.answers, b.err = k.callWith(ctx, name, b.qs)
}

// callWith sends questions to another agent and returns its answers.
func (k *Service) callWith(ctx context.Context, agent string, qs []Question) ([]Answer, error) {
	asker := k.parts.Asker
	if asker == nil {
		asker = caller{k.parts.Members}
	}
	r, err := asker.Ask(ctx, agent, request(qs))
	if err != nil {
		return nil, err
	}
	return answers(r), nil
}

// caller is the Asker that makes calls.
type caller struct{ members *members.Members }

func (c caller) Ask(ctx context.Context, agent string, q *pb.ContentsRequest) (*pb.ContentsResponse, error) {
	to, err := c.members.Peer(agent)
	if err != nil {
		return nil, err
	}
	return Call.Ask(ctx, to, q)
}

// Answer answers the questions of another agent.
func (k *Service) Answer(ctx context.Context, _ rpc.Caller, q *pb.ContentsRequest) (*pb.ContentsResponse, error) {
	as, err := k.table.Ask(ctx, questions(q))
	if errors.Is(err, ErrClosed) {
		return nil, rpc.ErrAgain
	}
	if err != nil {
		return nil, err
	}
	return response(as), nil
}
