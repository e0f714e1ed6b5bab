package contents

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/wake"
)

const (
	// originalsMost bounds the queued pages, to about 5 MB.
	originalsMost = 1 << 14
	// originalsPatience is how long the agent tries to tell another agent of a page.
	originalsPatience = 10 * time.Second
	// originalsAgain bounds the pause between two attempts. The pause starts at askAgain and
	// grows.
	originalsAgain = time.Second
)

// originals tells the second agents of contents which pages are archived in full and durable. Only
// these pages may be referred to by revisit records.
//
//	crawl: Durable -> queue of the second agent -> call, or own table
//
// An agent that does not answer blocks only its own queue. If no agent can be told of a page, no
// agent refers to the page, and its content may be archived in full again.
type originals struct {
	k    *Service
	wake chan struct{} // a queue needs a sender

	// mu guards the fields below. It is never held across a call.
	mu      sync.Mutex
	queues  map[string]*originalQueue // by agent
	waiting int                       // in all queues and in calls under way
	ended   bool
}

// An originalQueue holds the pages to tell one agent of.
type originalQueue struct {
	pages   []original
	sending bool
}

// An original is a page that is archived in full.
type original struct {
	q     Question
	until time.Time // when to give up
}

func newOriginals(k *Service) *originals {
	return &originals{k: k, wake: make(chan struct{}, 1), queues: map[string]*originalQueue{}}
}

// begin sends the queues until ctx is done.
func (o *originals) begin(ctx context.Context) {
	o.k.parts.Running.Go(func() {
		for {
			select {
			case <-o.wake:
				for _, agent := range o.idle() {
					o.k.parts.Running.Go(func() { o.send(ctx, agent) })
				}
			case <-ctx.Done():
				o.end()
				return
			}
		}
	})
}

// add queues a page that is archived in full. It does not block.
func (o *originals) add(q Question) {
	o.mu.Lock()
	full := o.ended || o.waiting >= originalsMost
	if !full {
		o.waiting++
		o.put(original{q, time.Now().Add(originalsPatience)})
	}
	o.mu.Unlock()
	if full {
		o.untold(1)
	}
}

// put queues a page for the current second agent of its content. The caller holds mu.
func (o *originals) put(p original) {
	agent := o.k.parts.Placed.SecondAgent(p.q.Digest)
	queue := o.queues[agent]
	if queue == nil {
		queue = &originalQueue{}
		o.queues[agent] = queue
	}
	if queue.pages = append(queue.pages, p); !queue.sending {
		wake.Up(o.wake)
	}
}

// idle returns the agents whose queues have pages and no sender. The caller must send them.
func (o *originals) idle() (agents []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for agent, queue := range o.queues {
		if len(queue.pages) > 0 && !queue.sending {
			queue.sending = true
			agents = append(agents, agent)
		}
	}
	return agents
}

// send tells one agent of all pages in its queue.
func (o *originals) send(ctx context.Context, agent string) {
	for failures := 0; ; {
		pages := o.take(agent)
		if len(pages) == 0 {
			return
		}
		err := o.tell(ctx, agent, pages)
		if err == nil {
			failures = 0
			o.done(len(pages))
			continue
		}
		if errors.Is(err, ErrClosed) || errors.Is(err, rpc.ErrRejected) {
			o.done(len(pages))
			o.untold(len(pages))
			continue
		}
		o.again(pages)
		if !clock.Pause(ctx, min(askAgain<<min(failures, 10), originalsAgain)) {
			return // end counts the pages that are left
		}
		failures++
	}
}

// take removes a batch from a queue. If the queue is empty, the caller is no longer its sender.
func (o *originals) take(agent string) []original {
	o.mu.Lock()
	defer o.mu.Unlock()
	queue := o.queues[agent]
	n := min(len(queue.pages), askAtOnce)
	if n == 0 {
		delete(o.queues, agent)
		return nil
	}
	batch := queue.pages[:n:n]
	queue.pages = queue.pages[n:]
	return batch
}

// tell makes one call, or asks the own table.
func (o *originals) tell(ctx context.Context, agent string, pages []original) error {
	qs := make([]Question, len(pages))
	for i, p := range pages {
		qs[i] = p.q
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if agent == o.k.parts.Members.Self.Name {
		_, err := o.k.table.Ask(ctx, qs)
		return err
	}
	_, err := o.k.callWith(ctx, agent, qs)
	o.k.count(func(n *report.Contents) {
		n.Messages++
		if err == nil {
			n.Told += int64(len(qs))
		}
	})
	return err
}

// again queues pages again after a failed call. It gives up the pages that have waited too long.
func (o *originals) again(pages []original) {
	now, given := time.Now(), 0
	o.mu.Lock()
	for _, p := range pages {
		if o.ended || now.After(p.until) {
			given++
			continue
		}
		o.put(p)
	}
	o.waiting -= given
	o.mu.Unlock()
	o.untold(given)
}

func (o *originals) done(n int) {
	o.mu.Lock()
	o.waiting -= n
	o.mu.Unlock()
}

// end gives up all queued pages.
func (o *originals) end() {
	o.mu.Lock()
	left := 0
	for _, queue := range o.queues {
		left += len(queue.pages)
		queue.pages = nil
	}
	o.ended = true
	o.waiting -= left
	o.mu.Unlock()
	o.untold(left)
}

func (o *originals) untold(n int) {
	if n > 0 {
		o.k.count(func(c *report.Contents) { c.Untold += int64(n) })
	}
}
