package crawl

import (
	"fmt"
	"time"

	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/rate"
)

// A rateLimit is the rate of the crawl, as a condition for visits.
type rateLimit struct {
	cfg      *Config
	rate     *rate.Limiter
	frontier *frontier.Frontier
}

// tooFast reports that the rate allows no visit now.
func (r *rateLimit) tooFast(now time.Time) (bool, time.Time) {
	room, ask := r.rate.Room(now)
	if !room && r.frontier.Ready(now) {
		r.rate.Held()
	}
	return !room, ask
}

func (r *rateLimit) whyTooFast(now time.Time) Hindrance {
	in, shut := r.rate.In(now)
	h := Hindrance{Text: "rate", Ends: now.Add(in)}
	if r.cfg.Reasons != nil {
		h.Text = "rate " + r.cfg.Reasons.WhyRate()
	}
	if shut {
		h.Text += "; this agent has no share of it now"
		h.Ends, h.Until = time.Time{}, "when the agents have divided the rate again"
		return h
	}
	h.Text += fmt.Sprintf("; the next request may begin in %s", duration(in))
	return h
}

// waitsFor says whether the rate alone keeps requests from beginning.
func (r *rateLimit) waitsFor(now time.Time) string {
	switch in, shut := r.rate.In(now); {
	case in == 0 || !r.frontier.Ready(now):
		return ""
	case shut:
		return "its share of the rate, which another agent gives"
	default:
		return fmt.Sprintf("the next request at this rate, in %s", duration(in))
	}
}
