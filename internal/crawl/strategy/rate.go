package strategy

import (
	"math"
	"time"
)

// rateOf estimates how often a page changes, in changes per second. x of n visits found a
// change since the visit before. changed is the sum in seconds of the intervals with a
// change, and unchanged the sum of the others. If all intervals are equal, the estimate is
//
//	-log((n - x + 0.5) / (n + 0.5)) / interval
//
// It assumes that pages change as a Poisson process. The plain quotient x/(n*interval)
// counts several changes between two visits as one: it sees 63 % of the changes of a page
// that changes once per interval on average. The mean of the estimate is within 1 % of the
// true rate from n = 10 on, for up to 1.5 changes per interval (Cho and Garcia-Molina,
// "Estimating frequency of change", ACM TOIT 3(3), 2003, section 4).
//
// For intervals of different lengths, the likelihood is highest at the rate for which the
// sum of t/(exp(rate*t)-1) over the intervals t with a change equals unchanged (section
// 4.3). rateOf solves this with the mean of these intervals for each t, and adds half a
// visit, as the formula above does. The more the intervals with a change differ, the lower
// is the result.
func rateOf(n, x, unchanged, changed float64) float64 {
	if x <= 0 || changed <= 0 {
		return 0
	}
	half := (unchanged + changed) / n / 2
	return math.Log((unchanged+changed+half)/(unchanged+half)) / (changed / x)
}

// rateDated estimates the rate of a page that states when it last changed. x of n visits
// found a change. seconds is the time in which the page certainly did not change: an
// interval without a change, and otherwise the time from the last change to the visit. The
// second term removes the bias (section 5).
func rateDated(n, x, seconds float64) float64 {
	if x <= 0 || seconds <= 0 {
		return 0
	}
	seen := x - 1
	if x < n {
		seen -= x / (n * math.Log(1-x/n))
	}
	return seen / seconds
}

// evidence sums up the visits to a page. Recent visits have more weight than older ones, so
// that the estimate follows a page that starts to change more or less often.
type evidence struct {
	visits, changes    float32 // visits after the first, and those that found a change
	unchanged, changed float32 // seconds, see rateOf
	undated            float32 // changes without a plausible Last-Modified
	still              float32 // seconds, see rateDated; without undated visits
}

// memory is the number of visits after which older visits lose weight.
const memory = 32

// add adds a visit after an interval. since is the time from the last change to the visit;
// it is negative if there was no change or the page did not state the time.
func (e *evidence) add(interval time.Duration, changed bool, since time.Duration) {
	if interval <= 0 {
		return
	}
	if e.visits >= memory {
		const fade = 1 - 1/float32(memory)
		for _, p := range e.all() {
			*p *= fade
		}
	}
	s := float32(interval.Seconds())
	e.visits++
	switch {
	case !changed:
		e.unchanged += s
		e.still += s
		return
	case since < 0 || since > interval:
		e.undated++
	default:
		e.still += float32(since.Seconds())
	}
	if e.unchanged == 0 {
		// If every visit has found a change, the shortest interval tells the most. The mean
		// of all intervals would estimate too low a rate.
		e.changed = min(e.changed, e.changes*s)
	}
	e.changes++
	e.changed += s
}

// rate estimates the changes per second. It is 0 if no change was seen.
func (e *evidence) rate() float64 {
	if e.undated*4 <= e.changes {
		if r := rateDated(float64(e.visits-e.undated), float64(e.changes-e.undated), float64(e.still)); r > 0 {
			return r
		}
	}
	return rateOf(float64(e.visits), float64(e.changes), float64(e.unchanged), float64(e.changed))
}

// after returns the time to the next visit: the time in which one change is expected,
// between lo and hi. It is at most twice the interval before; if no change was seen yet,
// it is twice the interval before.
func (e *evidence) after(before time.Duration, lo, hi time.Duration) time.Duration {
	next := 2 * before
	if r := e.rate(); r > 0 && 1/r < next.Seconds() {
		next = time.Duration(float64(time.Second) / r)
	}
	return min(max(next, lo), hi)
}

// first returns the time from the first visit to the second. age is the time since the
// page's last change, if the page states it: the next change may take as long. If age is 0,
// first returns the geometric mean of the bounds lo and hi.
func first(age time.Duration, lo, hi time.Duration) time.Duration {
	if age <= 0 {
		age = time.Duration(math.Sqrt(float64(lo) * float64(hi)))
	}
	return min(max(age, lo), hi)
}
