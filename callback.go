package orbweaver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/orbweaver/orbweaver/internal/crawl/visit"
)

// calls makes the calls of OnPage. Workers of the crawl call page concurrently.
type calls struct {
	onPage func(context.Context, *Page) error
	all    bool
	slots  chan struct{} // capacity: how many calls may run at a time

	// mu guards the fields below. It is never held during a call of onPage.
	mu   sync.Mutex
	over bool  // onPage has ended the crawl
	err  error // the first error that onPage returned
}

// newCalls returns nil if there is no OnPage.
func newCalls(o *Options) *calls {
	if o.OnPage == nil {
		return nil
	}
	return &calls{onPage: o.OnPage, all: o.AllResponses, slots: make(chan struct{}, cmp.Or(o.Callbacks, 1))}
}

// errOver leaves a page to the next run, because OnPage has ended this run.
var errOver = errors.New("OnPage has ended the crawl")

// page gives p to OnPage. run is done when the crawl no longer waits for visits, ctx is the
// context of Crawl.
func (c *calls) page(ctx, run context.Context, p *visit.Page) error {
	if !c.all && p.Status/100 != 2 {
		return nil
	}
	select {
	case c.slots <- struct{}{}:
	case <-run.Done():
		return run.Err()
	}
	defer func() { <-c.slots }()
	if c.isOver() {
		return errOver
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(run, cancel)()
	err := c.onPage(ctx, finish(p))
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrStop):
		c.end(nil)
		return visit.ErrEnough
	case ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx))):
		return err
	}
	c.end(fmt.Errorf("orbweaver: OnPage of %s: %w", p.Link.URL, err))
	return err
}

func (c *calls) isOver() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.over
}

// end lets no more calls begin. The first call's error counts.
func (c *calls) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
	}
	c.over = true
}

// refused returns the first error that OnPage returned. A nil c has none.
func (c *calls) refused() error {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}
