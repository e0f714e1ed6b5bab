package local

import (
	"fmt"
	"time"

	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/rate"
)

// Rates keep the limit of the whole crawl's rate. Safe for concurrent use.
type Rates interface {
	// State returns the schedule that holds, and this agent's share of its limit now.
	State() (schedule rate.Schedule, share float64)
}

// A Paces tells which rates of domains hold. Safe for concurrent use.
type Paces interface{ States() []*pb.DomainRate }

// rateState returns the limit of the rate for the status, or nil if there is none at any time.
func rateState(r Rates, now time.Time) *pb.RateState {
	schedule, share := r.State()
	if schedule.None() {
		return nil
	}
	return &pb.RateState{Schedule: schedule.String(), Limit: schedule.At(now).String(), Share: share}
}

// WhyRate says, for people, which rate of the whole crawl holds now, and this agent's share of it.
func WhyRate(r Rates, now time.Time) string {
	s := rateState(r, now)
	if s == nil {
		return "none"
	}
	text := s.Limit
	if s.Schedule != s.Limit {
		text += " now, by the schedule " + s.Schedule
	}
	if s.Share > 0 && s.Share < 1 {
		text += fmt.Sprintf(" (this agent's share: %.0f %%)", 100*s.Share)
	}
	return text
}
