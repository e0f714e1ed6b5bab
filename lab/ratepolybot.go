package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// crawlCounts are counts of "orbweaver report --json".
type crawlCounts struct {
	Visits    int64 `json:"visits"` // without robots.txt
	Pages     int64 `json:"pages"`
	Fetched   int64 `json:"fetched"`
	RobotsTxt int64 `json:"robots_txt"`
	Bytes     int64 `json:"content_bytes"`
	ByStatus  []struct {
		Name  string `json:"name"`
		Count int64  `json:"count"`
	} `json:"by_status"`
}

// status returns the number of visits with a status.
func (c *crawlCounts) status(code int) (n int64) {
	for _, s := range c.ByStatus {
		if s.Name == strconv.Itoa(code) {
			n += s.Count
		}
	}
	return n
}

// counts reads the logs of the first agent, which has ended.
func (c *rateCrawl) counts() (*crawlCounts, error) {
	cmd := exec.CommandContext(c.ctx, c.t.Orbweaver, "report", "--json", filepath.Join(c.dir, "a1"))
	cmd.Env = environment()
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return nil, fmt.Errorf("report: %w: %s", err, exit.Stderr)
	}
	if err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	n := new(crawlCounts)
	if err := json.Unmarshal(out, n); err != nil {
		return nil, fmt.Errorf("report --json: %w", err)
	}
	return n, nil
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
		if part := (float64(p.Requests) - r.until(p.S-1)) / limit(at); least == 0 || part < least {
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
		if r.Counts != nil {
			sections = append(sections, polybotTables(r.Counts))
		}
	}
	return sections
}

// polybotTables shows the counts of a crawl as Polybot's tables 1 and 2 do. It has the lines of the tables whose
// figures are known here.
func polybotTables(c *crawlCounts) Section {
	table := &Table{Columns: []Column{{Name: "count"}, {Name: "Polybot"}, {Name: "Orbweaver"}}}
	share := func(n, of int64) string { return fmt.Sprintf("%.1f %%", 100*float64(n)/max(float64(of), 1)) }
	table.Add("requests", "161.9 million", strconv.FormatInt(c.Visits+c.RobotsTxt, 10))
	table.Add("responses, without robots.txt", "138.7 million", strconv.FormatInt(c.Fetched, 10))
	table.Add("of all requests", share(1387, 1619), share(c.Fetched, c.Visits+c.RobotsTxt))
	table.Add("responses with status 200", "121.3 million", strconv.FormatInt(c.status(200), 10))
	table.Add("of the responses", share(1213, 1387), share(c.status(200), c.Fetched))
	table.Add("mean size (bytes)", "13,354", strconv.FormatInt(c.Bytes/max(c.Fetched, 1), 10))
	return Section{Heading: "Polybot's tables 1 and 2", Table: table, Shown: true, Text: measured}
}

// dips is the text on the crawl with checkpoints. Its number is the least second in per cent of the rate.
const dips = "Polybot's figure shows the traffic of a campus by hour. At each checkpoint, every few hours, the speed " +
	"of the crawl falls to nearly zero for some minutes. The crawl *checkpoints* above has the same in small: a " +
	"second is a point, and there is a checkpoint every few seconds. In its least second the web got %.0f %% of the " +
	"rate. `orbweaver report --section hours` prints the traffic of any crawl by hour.\n"

// measured says what differs between the columns of the tables.
const measured = "Polybot crawled the web of 2001 for 18 days. The right column is the crawl *disturbed*, of a " +
	"generated web, for some seconds: so the shares tell about the two webs, not about the crawlers. Polybot counts " +
	"requests; Orbweaver counts visits, each with its last response, so retries do not count. The mean size of " +
	"Orbweaver contains the bytes of robots.txt. The figures of Polybot are those of its paper (Shkapenyuk and " +
	"Suel, ICDE 2002), rounded, from notes of its readers: the copy at hand has lost its numbers, so the other " +
	"lines of its tables are left out.\n"
