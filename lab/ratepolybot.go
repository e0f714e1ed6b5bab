package lab

import (
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// rateAnswers are the answers of the web to a crawl.
type rateAnswers struct {
	Requests int64         `json:"requests"`
	Robots   int64         `json:"robots"` // complete responses with robots.txt
	Broken   int64         `json:"broken"` // responses that the web did not complete: reset, cut off, or hanging
	Aborted  int64         `json:"aborted"`
	Status   map[int]int64 `json:"status"` // of all requests; 0: none was sent
	Bytes    int64         `json:"bytes"`
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

// besidePolybot compares the runs with the figures of Polybot, a crawler: its traffic by hour, and its tables 1 and 2.
func besidePolybot(runs []RateRun) (sections []Section) {
	for _, r := range runs {
		if r.Name == checkpoints {
			sections = append(sections, Section{Heading: "Polybot's traffic by hour: dips at checkpoints",
				Text: fmt.Sprintf(dips, 100*r.Second)})
		}
		if r.Answers != nil {
			sections = append(sections, r.Answers.tables()...)
		}
	}
	return sections
}

// polybotStatus are the lines of Polybot's table 2.
var polybotStatus = []int{http.StatusOK, http.StatusNotFound, http.StatusFound, http.StatusMovedPermanently,
	http.StatusForbidden, http.StatusUnauthorized, http.StatusInternalServerError}

// unread is a figure that the copy of the paper at hand has lost.
const unread = "?"

// tables shows the answers as Polybot's tables 1 and 2 do.
func (a *rateAnswers) tables() []Section {
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	share := func(n, of int64) string { return fmt.Sprintf("%.1f %%", 100*float64(n)/max(float64(of), 1)) }
	pages := a.Requests - a.Robots - a.Broken - a.Aborted
	one := &Table{Columns: []Column{{Name: "requests"}, {Name: "Polybot"}, {Name: "Orbweaver"}}}
	one.Add("all", "161.9 million", number(a.Requests))
	one.Add("network errors, and responses that take too long", unread, number(a.Broken+a.Aborted))
	one.Add("for robots.txt", unread, number(a.Robots))
	one.Add("successful, without robots.txt", "138.7 million", number(pages))
	one.Add("of all", share(1387, 1619), share(pages, a.Requests))
	one.Add("mean size (bytes)", "13,354", number(a.Bytes/max(a.Requests, 1)))

	two := &Table{Columns: []Column{{Name: "status"}, {Name: "Polybot"}, {Name: "Orbweaver"},
		{Name: "of these, Orbweaver"}}}
	two.Add("all, without robots.txt", "138.7 million", number(pages), "")
	rest := pages
	for _, code := range polybotStatus {
		n, theirs := a.Status[code], unread
		if code == http.StatusOK {
			n, theirs = n-a.Robots, "121.3 million ("+share(1213, 1387)+")"
		}
		rest -= n
		two.Add(fmt.Sprintf("%d %s", code, http.StatusText(code)), theirs, number(n), share(n, pages))
	}
	two.Add("others: 303, 307, 308, 410, 429, 503", unread, number(rest), share(rest, pages))
	return []Section{{Heading: "Polybot's table 1: requests", Table: one, Shown: true, Text: measured},
		{Heading: "Polybot's table 2: errors", Table: two, Shown: true, Text: errorsText}}
}

// dips is the text on the crawl with checkpoints. Its number is the least second in per cent of the rate.
const dips = "Polybot's figure shows the traffic of a campus by hour. At each checkpoint, every few hours, the " +
	"speed of the crawl falls to nearly zero for some minutes. The crawl *checkpoints* above has the same in small: " +
	"a second is a point, and the vertical lines are checkpoints. In its least second the web got %.0f %% of the " +
	"rate. " +
	"`orbweaver report --section hours` prints the traffic of any crawl by hour, and the console draws it.\n"

// measured says what differs between the columns of the tables.
const measured = "Polybot crawled the web of 2001 for 18 days. The right column is the crawl *disturbed*, of a " +
	"generated web, for less than a minute, as the web has counted it: so the shares tell about the two webs, not " +
	"about the crawlers. Repeated requests count. The mean size is that of all responses as they were sent. The " +
	"figures of Polybot are those of its paper (Shkapenyuk and Suel, ICDE 2002), rounded, from notes of its readers. " +
	"The copy at hand has lost its numbers: \"?\" is a figure that is not known here.\n"

// errorsText is the text on table 2.
const errorsText = "The generated web sends no 401 and no 403. Of a page that it answers with 429 or 503, Orbweaver " +
	"asks again after the Retry-After, and gets it. The rate holds for all of these requests.\n"
