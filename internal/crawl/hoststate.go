package crawl

import (
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/orders"
	"github.com/orbweaver/orbweaver/internal/crawl/retry"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/frontier"
)

// Hosts lets the hosts of a crawl move between agents: it makes the state of a host that goes to the next owner, and
// takes such a state over. Only the dispatcher may use it.
type Hosts struct {
	origins *retry.Origins
	visits  *visit.Pool
	gate    *orders.Gate
}

// State returns what the next owner of a host must know: the state in the frontier, and the failing origins.
func (h Hosts) State(host string) frontier.HostState { return h.origins.State(host) }

// Each calls fn for each host with such a state. It stops at the first error.
func (h Hosts) Each(now time.Time, fn func(frontier.HostState) error) error {
	return h.origins.EachHost(now, fn)
}

// Take takes over such a state, and returns it as it is then.
func (h Hosts) Take(st frontier.HostState, now time.Time) frontier.HostState {
	h.origins.Frontier.Restore(st)
	h.origins.Restore(&st, now)
	return h.State(st.Host)
}

// HandOver gives a host away, and returns its state. All of its URLs are withdrawn, those that wait for a retry, too:
// Moves.SendAway gets them. The error is frontier.ErrInProcess if a request to the host is under way, otherwise one
// of the disk.
func (h Hosts) HandOver(host string) (frontier.HostState, error) {
	st, err := h.origins.Frontier.HandOver(host)
	if err != nil {
		return st, err
	}
	st.Origins = h.origins.States(host)
	h.visits.LetGo(host)
	h.gate.Unblock(host)
	err = h.origins.Withdraw(host)
	h.origins.ForgetHost(host)
	return st, err
}
