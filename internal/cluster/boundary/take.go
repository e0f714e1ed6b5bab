package boundary

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/crawl/ledger"
	"github.com/orbweaver/orbweaver/internal/crawl/run"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/keyset"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// TakePage implements Taker. It reads records to their end, unless this agent has the page already. After durable has
// returned nil, the page can only be lost with this machine's archive. With replication, its links are safe even then.
// Safe for concurrent use. The error is an ErrNotKeeper, a run.ErrNotRunning, a crawl.ErrImport, or of reading records.
// After an error, the page may come again.
func (x *Exports) TakePage(ctx context.Context, from string, page link.Link, records io.Reader) (
	durable func() error, err error) {
	to, ok := page.Destination()
	if !ok || x.Box == nil {
		return nil, fmt.Errorf("%w: the link of a page has no destination", crawl.ErrImport)
	}
	if _, mine := x.Division.Keeper(to); !mine {
		return nil, ErrNotKeeper
	}
	return x.takePage(ctx, from, page, records)
}

// takePage does the work of TakePage. It does not ask which agent keeps the page.
func (x *Exports) takePage(ctx context.Context, from string, page link.Link, records io.Reader) (
	durable func() error, err error) {
	to, _ := page.Destination()
	found := page.AsLink()
	if v, ok := page.Version(); ok {
		found.SetVersion(v)
	}
	key, generation := VersionKey(found), x.Durable.Now()
	free, err := x.claimPage(ctx, key)
	if err != nil {
		return nil, err
	}
	defer free()
	done := make(chan error, 1)
	if known, err := x.knowsPage(ctx, found, done); err != nil || known {
		return x.wait(ctx, done, DurableKey(found), generation), err
	}
	imported, err := x.Loop.Import(ctx, from, found, x.Division.Category(to), records)
	if err != nil {
		return nil, err
	}
	if err := x.Loop.Run.Do(ctx, "page", func(now time.Time) { // until it is over, the page must not be taken twice
		if x.Loop.Run.Stopping() {
			imported.Abandon()
			done <- run.ErrNotRunning
			return
		}
		x.Loop.Run.Stir()
		if !x.Loop.Settle(imported, now) {
			imported.Abandon()
			done <- run.ErrNotRunning
			return
		}
		x.took(from, imported.Size())
		x.Keys.NotePage(found)
		if x.Division.ByPages() { // links to it that are found later lead to a known URL
			own := x.Keys.OwnKey(link.KeyOf(found.URL))
			x.Loop.Run.Fail(x.Loop.Ledger.Learn([]ledger.Ranged{{Host: own.Host, Paths: keyset.PathsOf(own.Path)}}))
		}
		x.Heirs.WhenFinishesSafe(func(time.Time) { done <- nil })
	}); err != nil {
		imported.Abandon()
		return nil, err
	}
	return x.wait(ctx, done, DurableKey(found), generation), nil
}

// claimPage waits until no other call takes the page. free ends this call.
func (x *Exports) claimPage(ctx context.Context, key link.Key) (free func(), err error) {
	for {
		x.mu.Lock()
		other := x.taking[key]
		if other == nil {
			mine := make(chan struct{})
			if x.taking == nil {
				x.taking = map[link.Key]chan struct{}{}
			}
			x.taking[key] = mine
			x.mu.Unlock()
			return func() {
				x.mu.Lock()
				delete(x.taking, key)
				x.mu.Unlock()
				close(mine)
			}, nil
		}
		x.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// knowsPage reports whether this agent has the page of link. Then done tells when the page is durable and the heirs can
// name it. If this agent has fetched the page, its finish names it. But that waits until other agents have pages of
// this one, and they may wait for the answer to this call. So the name is shipped alone.
func (x *Exports) knowsPage(ctx context.Context, link link.Link, done chan error) (known bool, err error) {
	stopping := false
	err = x.Loop.Run.Do(ctx, "page", func(time.Time) {
		if stopping = x.Loop.Run.Stopping(); stopping {
			return
		}
		if known = x.Keys.HasKey(VersionKey(link)); known {
			x.pagesAgain++
			x.Heirs.ShipName(link)
			x.Heirs.WhenFinishesSafe(func(time.Time) { done <- nil })
		}
	})
	if stopping && err == nil {
		err = run.ErrNotRunning
	}
	return known, err
}

// wait returns a function that waits for done. After it, the page with a key is durable.
func (x *Exports) wait(ctx context.Context, done chan error, key link.Key, generation uint64) func() error {
	return func() error {
		select {
		case err := <-done:
			if err == nil {
				x.Durable.Add(key, generation)
			}
			return err
		case <-ctx.Done():
			return ctx.Err()
		case <-x.Loop.Run.Ended():
		}
		select {
		case err := <-done:
			return err
		default:
			return run.ErrNotRunning
		}
	}
}

// takePagesBack takes pages that this agent has stored for another one and keeps itself by now.
func (x *Exports) takePagesBack(ctx context.Context, pages []link.Link) (err error) {
	var durable []func() error
	for _, page := range pages {
		var wait func() error
		if wait, err = x.takeStored(ctx, page, x.TakePage); err != nil {
			break
		}
		durable = append(durable, wait)
	}
	for _, wait := range durable {
		err = errors.Join(err, wait())
	}
	return err
}

// takeStored takes a stored page with TakePage or takePage.
func (x *Exports) takeStored(ctx context.Context, page link.Link, take func(ctx context.Context, from string,
	page link.Link, records io.Reader) (func() error, error)) (durable func() error, err error) {
	at, _ := page.Stored()
	r, err := x.Pages.Read(at)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", crawl.ErrImport, err)
	}
	durable, err = take(ctx, "itself", page, r)
	return durable, errors.Join(err, r.Close())
}

// took counts a page of so many bytes that another agent has sent.
func (x *Exports) took(from string, size int64) {
	x.pages++
	if x.from == nil {
		x.from = map[string]report.PagesFrom{}
	}
	n := x.from[from]
	x.from[from] = report.PagesFrom{Agent: from, Pages: n.Pages + 1, Bytes: n.Bytes + size}
}
