package e2e

import (
	"testing"
	"time"
)

// Where every fifth packet between agents is lost, and the others take a tenth of
// a second, nobody asks an address or a domain too soon that others have, too.
func TestStoryLeasesBadNetwork(t *testing.T) {
	if testing.Short() {
		t.Skip("a minute")
	}
	s := tell(t, plot{agents: 4, hosts: 60, pages: 30, delay: 60 * time.Millisecond, addresses: 15})
	s.startAll()
	s.await(0.2)
	s.wire.follow(func(from, to int) path {
		if from == 0 || to == 0 {
			return path{} // the web
		}
		return path{loss: 0.2, latency: 100 * time.Millisecond}
	})
	s.end(0)
	s.judge()
	noSharedViolations(t, s.web)
	for _, a := range s.agents {
		t.Logf("%s: %v", a.name, summary(t, a.dir)["leases"])
	}
}
