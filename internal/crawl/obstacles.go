package crawl

import (
	"time"
)

// An Obstacle is a condition of the whole crawl that keeps this agent from beginning visits. The dispatcher asks the
// obstacles in their order before it begins visits, and Explain tells which of them hold. So a person reads the same
// conditions that the dispatcher obeys.
type Obstacle interface {
	// Holds reports whether the condition holds now, and when the dispatcher must look again. The zero time means that
	// an event wakes it.
	Holds(now time.Time) (held bool, ask time.Time)
	// Why describes the condition while it holds.
	Why(now time.Time) Hindrance
}

// A Hindrance is a reason, for people, why the crawl as a whole fetches less than it could, or nothing. If it has
// neither Ends nor Until, it holds for some visits only.
type Hindrance struct {
	Text  string
	Ends  time.Time // when it ends; zero: nobody knows
	Until string    // the event that ends it, if no time is known: "after …"
	Waits string    // what the crawl waits for meanwhile; empty: a Status does not say it
}

// obstacles are all Obstacles of a crawl.
type obstacles struct {
	ofRound []Obstacle // to all visits; the dispatcher asks them once in each of its rounds
	ofVisit []Obstacle // to the next visit; the dispatcher asks them before each visit
	others  []Obstacle // of these, those of the Cluster
}

// A condition is an Obstacle of the crawl loop itself.
type condition struct {
	holds func(now time.Time) (held bool, ask time.Time)
	why   func(now time.Time) Hindrance
}

func (o condition) Holds(now time.Time) (bool, time.Time) { return o.holds(now) }
func (o condition) Why(now time.Time) Hindrance           { return o.why(now) }

// obstructed reports whether one of some obstacles holds, and when to look again.
func obstructed(some []Obstacle, now time.Time) (held bool, ask time.Time) {
	for _, o := range some {
		if held, ask = o.Holds(now); held {
			return true, ask
		}
	}
	return false, time.Time{}
}

// waitsFor says what the crawl waits for because of an obstacle of the Cluster. It is empty if there is none, or if
// nobody knows.
func (o *obstacles) waitsFor(now time.Time) (text string) {
	for _, o := range o.others {
		if held, _ := o.Holds(now); held && text == "" {
			text = o.Why(now).Waits
		}
	}
	return text
}
