//go:build linux

package e2e

import (
	"math/rand/v2"
	"testing"
	"time"
)

// One machine of four is lost with its disk. No page is missed. Only pages of the lost machine's
// last second are fetched twice.
func TestStoryDeath(t *testing.T) {
	s := tell(t, plot{agents: 4, hosts: 60, pages: 30, delay: 30 * time.Millisecond,
		flags: []string{"--partition", "ring", "--kappa", "50"}})
	rng := rand.New(rand.NewPCG(s.seed, 2))
	s.startAll()
	s.await(0.3)
	last := s.agents[rng.IntN(4)].lost()
	s.end(0)
	v := s.judge()
	s.polite()
	s.repeated(v, last, 1)
}

// repeated fails the test if more pages were fetched twice than the lost agents had fetched in
// their last second, in progress, and in the logs' last interval.
func (s *story) repeated(v *verdict, last int64, lost int) {
	s.Helper()
	const unlogged = 20
	s.Logf("%d pages fetched twice; %d were fetched in the last second of those that are lost", v.twice, last)
	if v.twice > last+int64(lost)*unlogged {
		s.Errorf("%d pages fetched twice", v.twice)
	}
}
