package lab

import (
	"fmt"
	"net/http"
	"time"
)

// result returns the measurements: a place for each crawl, for each of its moments, for the moments of each act, for
// each number of connections, and for each status of the answers.
func (x *Speed) result(runs []RateRun) *Result {
	d := newData("crawl", "s", "act", "connections", "status")
	d.Fact("every", rateEvery.String())
	for _, r := range runs {
		if r.workers > 0 {
			d.At("", "", "", r.workers).Set("saturated", r.Mean)
			for _, p := range r.Points {
				d.At("", p.S, "", r.workers).Set("requests", p.Requests).Set("bits", p.Bits)
			}
			continue
		}
		at := d.At(r.Name).Set("about", r.Text).Set("mean", r.Mean).Set("mean_bits", r.MeanBits)
		if r.Most > 0 {
			at.Set("least", r.Least).Set("most", r.Most).Set("second", r.Second)
		}
		r.over(d)
		if r.Answers != nil {
			r.Answers.add(d)
		}
	}
	return &Result{Name: "rate", Rows: d}
}

// over adds what the web has seen of a crawl over time, the limit, and marks of the acts, which are vertical lines.
func (r *RateRun) over(d *Data) {
	unit, top := 1.0, 0.0
	if r.bits {
		unit = 1e6
	}
	for _, p := range r.Points {
		at := d.At(r.Name, p.S).Set("requests", p.Requests).Set("bits", p.Bits)
		if p.S >= 1 {
			y := (r.amount(p) - r.until(p.S-1)) / unit
			at.Set("in_second", y)
			top = max(top, y)
		}
		if r.limit != nil {
			y := r.limit(time.Duration(p.S*float64(time.Second))) / unit
			at.Set("limit", y)
			top = max(top, y)
		}
	}
	for _, a := range r.acts {
		s := a.at.Seconds()
		d.At(r.Name, s-1e-3, a.name).Set("mark", 0)
		d.At(r.Name, s, a.name).Set("mark", top)
		d.At(r.Name, s+1e-3, a.name).Set("mark", 0)
	}
}

// rateAnswers are the answers of the web to a crawl.
type rateAnswers struct {
	Requests int64
	Robots   int64 // complete responses with robots.txt
	Broken   int64 // responses that the web did not complete: reset, cut off, or hanging
	Aborted  int64
	Status   map[int]int64 // of all requests; 0: none was sent
	Bytes    int64
}

// answers asks the web what it has answered.
func (c *rateCrawl) answers() (*rateAnswers, error) {
	r, err := c.web.report(c.ctx)
	if err != nil {
		return nil, err
	}
	a := &rateAnswers{Requests: r.Requests, Status: r.Status, Bytes: r.Bytes}
	for _, h := range r.Hosts {
		a.Robots, a.Broken, a.Aborted = a.Robots+h.Robots, a.Broken+h.Broken, a.Aborted+h.Aborted
	}
	return a, nil
}

// leastSecond returns the least number of requests in a second from the sixth on, as a share of the limit. It leaves
// out the five seconds after each change of the limit.
func (r *RateRun) leastSecond(limit func(time.Duration) float64) float64 {
	least := 0.0
	for _, p := range r.Points {
		at := time.Duration(p.S * float64(time.Second))
		if p.S < 6 || limit(at) != limit(at-5*time.Second) {
			continue
		}
		if part := (r.amount(p) - r.until(p.S-1)) / limit(at); least == 0 || part < least {
			least = part
		}
	}
	return least
}

// polybotStatus are the lines of Polybot's table 2.
var polybotStatus = []int{http.StatusOK, http.StatusNotFound, http.StatusFound, http.StatusMovedPermanently,
	http.StatusForbidden, http.StatusUnauthorized, http.StatusInternalServerError}

// add adds the answers, divided as in Polybot's tables 1 and 2.
func (a *rateAnswers) add(d *Data) {
	pages := a.Requests - a.Robots - a.Broken - a.Aborted
	d.Fact("all_requests", a.Requests)
	d.Fact("robots", a.Robots)
	d.Fact("broken", a.Broken)
	d.Fact("aborted", a.Aborted)
	d.Fact("all_bytes", a.Bytes)
	d.Fact("answered", pages)
	status := func(name string, n int64) { d.At("", "", "", "", name).Set("answers", n) }
	status("all, without robots.txt", pages)
	for _, code := range polybotStatus {
		n := a.Status[code]
		if code == http.StatusOK {
			n -= a.Robots
		}
		pages -= n
		status(fmt.Sprintf("%d %s", code, http.StatusText(code)), n)
	}
	status("others: 303, 307, 308, 410, 429, 503", pages)
}
