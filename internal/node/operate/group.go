package operate

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// A callGroup is the goroutines of one call. A panic in one of them would end the process. It becomes a panic of the
// goroutine that waits, where the server answers the caller with an error. The zero callGroup is ready.
type callGroup struct {
	all   sync.WaitGroup
	first atomic.Pointer[groupPanic]
}

// A groupPanic is what a goroutine of a callGroup has panicked with.
type groupPanic struct {
	value any
	stack []byte
}

func (p *groupPanic) String() string { return fmt.Sprintf("%v\n\n%s", p.value, p.stack) }

// run runs f in a goroutine.
func (c *callGroup) run(f func()) {
	c.all.Go(func() {
		defer func() {
			if v := recover(); v != nil {
				c.first.CompareAndSwap(nil, &groupPanic{v, debug.Stack()})
			}
		}()
		f()
	})
}

// wait returns when all goroutines have ended. It panics if one of them has.
func (c *callGroup) wait() {
	c.all.Wait()
	if p := c.first.Load(); p != nil {
		panic(p)
	}
}

// askedAtOnce bounds the agents that one call asks at once, and so the answers that it has in memory.
const askedAtOnce = 256

// each calls fn for all agents at once, at most askedAtOnce, and returns when all calls have.
func (ag agents) each(ctx context.Context, names []string, fn func(ctx context.Context, i int, name string)) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var all callGroup
	var next atomic.Int64
	for range min(len(names), askedAtOnce) {
		all.run(func() {
			for i := int(next.Add(1)) - 1; i < len(names); i = int(next.Add(1)) - 1 {
				fn(ctx, i, names[i])
			}
		})
	}
	all.wait()
}
