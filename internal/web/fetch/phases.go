package fetch

import "time"

// A Histogram counts durations in seconds. Safe for concurrent use.
type Histogram interface{ Observe(seconds float64) }

// Phases measure the parts of fetches, in the time of Config.Clock. A part that fails is not counted. A nil Histogram
// counts nothing.
type Phases struct {
	Connect Histogram // until a new connection is open, a proxy's CONNECT included
	TLS     Histogram // the handshake of a new connection
	Wait    Histogram // from the request to the first byte of its response
	Receive Histogram // from the first byte to the last
}

// count adds a duration to h.
func count(h Histogram, d time.Duration) {
	if h != nil {
		h.Observe(d.Seconds())
	}
}

// measure counts the phases of a response that has come. x.now must be the time of its last byte. A response that came
// with one read has no time of its first byte: it is received at once.
func (x *exchange) measure() {
	first := x.now
	if !x.first.IsZero() {
		first = x.first
	}
	count(x.f.cfg.Phases.Wait, first.Sub(x.r.Sent)-x.held)
	count(x.f.cfg.Phases.Receive, x.now.Sub(first))
}
