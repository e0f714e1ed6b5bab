package visit

import (
	"context"
	"sync"
)

// A Permit is the permission to contact the addresses and registered domains that a host shares with
// hosts of other agents. If it is lost, the visit is cut off, and its URL goes back to the front of its
// host. The methods of a nil Permit are those of a permission that cannot be lost. Safe for concurrent
// use.
type Permit struct {
	// grip reports whether requests may begin now. The visit calls ended when it has ended.
	grip  func() bool
	ended func()

	mu   sync.Mutex
	off  bool
	stop context.CancelFunc // nil: not begun
}

// NewPermit returns a Permit. grip reports whether requests may begin now. ended is called when the
// visit has ended.
func NewPermit(grip func() bool, ended func()) *Permit { return &Permit{grip: grip, ended: ended} }

// CutOff ends the visit, or prevents it. It reports whether it is the first to do so. It does not block.
func (p *Permit) CutOff() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	was := p.off
	p.off = true
	if p.stop != nil {
		p.stop()
	}
	return !was
}

// begin returns the context of the visit's work from now on.
func (p *Permit) begin(ctx context.Context) (context.Context, context.CancelFunc) {
	if p == nil {
		return ctx, func() {}
	}
	ctx, stop := context.WithCancel(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stop = stop; p.off {
		stop()
	}
	return ctx, stop
}

// WasCutOff reports whether the visit was cut off.
func (p *Permit) WasCutOff() bool {
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.off
}

// valid reports whether the visit may begin.
func (p *Permit) valid() bool { return p == nil || !p.WasCutOff() && p.grip() }

func (p *Permit) Release() {
	if p != nil {
		p.ended()
	}
}
