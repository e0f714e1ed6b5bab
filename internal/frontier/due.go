package frontier

import (
	"time"

	"github.com/orbweaver/orbweaver/internal/web/link"
)

// A Turn tells when it is a host's turn.
type Turn struct {
	// State is one of the states in the package comment, or "unknown" if the host has no links outside of the pools.
	State string
	// Due is when the host may be fetched, as far as that is known; zero: not known.
	Due time.Time
	// Fetching is the URL in process.
	Fetching string
}

// Turn tells when it is the turn of a host, in a short time. In contrast to Explain, it reads no queue.
func (f *Frontier) Turn(host string, now time.Time) Turn {
	f.tick(now)
	h := f.hosts.dict.of(host)
	if h == nil {
		return Turn{State: "unknown"}
	}
	t := Turn{State: h.state.String()}
	switch h.state {
	case inProcess, resolving:
		if l, _, err := link.Peek(f.hosts.visits.link(h).enc); err == nil {
			t.Fetching = l.URL.Clone().String()
		}
	case blocked:
	case ready:
		t.Due = f.time.timeAt(f.time.now)
		if b := f.hosts.shares.groupOf(h).obstacle(f.time.now); b != nil {
			t.State = "resting"
			if t.Due = f.time.timeAt(b.freeAt); b.holder != nil {
				t.Due = time.Time{}
			}
		}
	default:
		t.Due = f.time.timeAt(max(f.hosts.due(h), f.time.now))
	}
	return t
}

// Ready reports whether a host is due at now, as far as that is known without looking at its leases.
func (f *Frontier) Ready(now time.Time) bool {
	f.tick(now)
	return f.hosts.shares.ready.len() > 0
}
