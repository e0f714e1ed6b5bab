package sim

import (
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/testweb/gen"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// deadPort is a port at which no host of the web listens. With Plan.DeadURLs each host has seeds there.
const deadPort = 81

// deadWait is the first wait between two tries of a dead port. It is shorter than the default, so that stories end
// soon.
const deadWait = 2 * time.Second

// seedDead adds URLs of the dead port of each host to the seeds of an agent.
func (p *Plan) seedDead(cfg *node.Config, made *gen.Web) {
	if p.DeadURLs == 0 {
		return
	}
	cfg.Crawl.RetryWait, cfg.Robots.RetryWait = deadWait, deadWait
	for host := range made.Hosts() {
		name := weburl.MustParse(made.URL(host, 0)).Host()
		for i := range p.DeadURLs {
			cfg.Seeds = append(cfg.Seeds, fmt.Sprintf("http://%s:%d/dead/%d", name, deadPort, i))
		}
	}
}

// dials are the tries of dead ports.
type dials struct {
	mu sync.Mutex // guards n
	n  int
}

// refuses reports whether to is a dead port, and counts the try.
func (d *dials) refuses(to netip.AddrPort) bool {
	if to.Port() != deadPort {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.n++
	return true
}

// all returns the number of tries.
func (d *dials) all() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.n
}

// tried notes a try of a dead port: it is work.
func (j *judge) tried(at time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.ends = append(j.ends, at)
}
