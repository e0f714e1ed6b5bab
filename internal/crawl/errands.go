package crawl

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/orders"
	"github.com/orbweaver/orbweaver/internal/crawl/retry"
	"github.com/orbweaver/orbweaver/internal/crawl/run"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/robots"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// errands are the fetches of a robots.txt that are queued for other hosts. The dispatcher owns them.
type errands struct {
	run      *run.Run
	gate     *orders.Gate
	frontier *frontier.Frontier
	robots   *robots.Cache
	failures *retry.Failures

	queued map[string]int // how often each was asked for
}

func errandID(l link.Link) string { return l.URL.String() + " " + l.Via }

// add queues, once, the fetch of a robots.txt on another host. It does not queue it if
// the operator has blocked that host.
func (e *errands) add(l link.Link, now time.Time) {
	if host := l.URL.Host(); e.gate.Bars(host, netip.Addr{}) {
		e.fail(l, theyBlocked, now)
		return
	}
	id := errandID(l)
	if e.queued[id]++; e.queued[id] > 1 {
		return
	}
	if err := e.frontier.PushFront(l); err != nil {
		e.run.Fail(fmt.Errorf("frontier: %w", err))
	}
}

// fail records that the fetch of a robots.txt from another host failed, and why. The
// rules of that file stay unknown.
func (e *errands) fail(l link.Link, why string, now time.Time) {
	e.failures.RobotsFailed(l.URL.Origin(), why)
	if about, err := weburl.Parse(l.Via); err == nil {
		e.robots.Learn(about, weburl.URL{}, robots.Reply{Failed: true}, now)
	}
}

// end notes that an errand is in no queue any more.
func (e *errands) end(l link.Link) { delete(e.queued, errandID(l)) }
