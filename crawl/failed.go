package crawl

import (
	"strconv"
	"strings"

	"github.com/orbweaver/orbweaver/fetch"
	"github.com/orbweaver/orbweaver/seen"
	"github.com/orbweaver/orbweaver/weburl"
)

// A FailedSeed is a seed that brought no HTTP response.
type FailedSeed struct {
	URL weburl.URL
	// Code is that of crawl.log.
	Code int
	// Kind is that of errors.csv; empty if robots.txt forbids the seed.
	Kind string
	// Cause says it in the words of the resolver, the connection or the TLS
	// library, or names the line of robots.txt. It may hold foreign text.
	Cause string
}

const (
	// maxFailedSeeds bounds the seeds that are remembered; all are counted.
	maxFailedSeeds = 100
	// maxCause bounds an error's own words in bytes: x509 lists all names of a
	// certificate.
	maxCause = 300
	// maxRobotsTrouble bounds the hosts whose robots.txt failed.
	maxRobotsTrouble = 1000
)

// failures remembers what a person wants to know of a crawl that fetched nothing.
type failures struct {
	seeds []FailedSeed
	count int64
	// robots says by host why the last fetch of robots.txt failed.
	robots map[string]string
}

// FailedSeeds are the seeds that brought no response in this run, the first 100
// of them, and how many they are in all. Call it after Run.
func (c *Crawler) FailedSeeds() (first []FailedSeed, count int64) {
	return c.failures.seeds, c.failures.count
}

// noteSeed remembers a seed whose turn ended without a response.
func (c *Crawler) noteSeed(v *visit, f *finish) {
	if v.task.Link.Hops != "" || f.code > 0 || v.outcome == Dropped || v.outcome == OverQuota {
		return
	}
	n := &c.failures
	if n.count++; len(n.seeds) == maxFailedSeeds {
		return
	}
	s := FailedSeed{URL: v.task.Link.URL.Clone(), Code: f.code, Kind: f.kind, Cause: f.cause}
	if v.outcome == Denied {
		s.Cause = strings.Clone(v.rule)
	}
	n.seeds = append(n.seeds, s)
}

// noteRobots remembers why a robots.txt could not be fetched.
func (c *Crawler) noteRobots(v *visit) {
	host := v.asked.URL.Host()
	n := &c.failures
	late := v.truncated == fetch.TruncatedTime
	if v.failure == 0 && v.status < 500 && v.status != 429 && !late {
		delete(n.robots, host)
		return
	}
	why := c.causeOf(v)
	switch {
	case late:
		why = "cut off by a time bound"
	case why == "":
		why = "status " + strconv.Itoa(v.status)
	}
	if n.robots == nil {
		n.robots = map[string]string{}
	}
	if _, ok := n.robots[host]; ok || len(n.robots) < maxRobotsTrouble {
		n.robots[strings.Clone(host)] = "robots.txt: " + why
	}
}

// causeOf is the error of a visit in its own words, without its kind.
func (c *Crawler) causeOf(v *visit) string {
	kind := v.errorKind()
	if kind == "" {
		return ""
	}
	cause := strings.TrimPrefix(v.detail, kind+": ")
	if v.outcome == RobotsUnreachable {
		cause = c.failures.robots[v.task.Link.URL.Host()]
	}
	cause = strings.ReplaceAll(cause, "\x00", "")
	return cause[:min(len(cause), maxCause)]
}

// SeedAgain accepts seeds although they are known. It is for a crawl that goes
// on after it fetched nothing, so that other settings may lead further. Call it
// after Recover and before Run.
func (c *Crawler) SeedAgain(us []weburl.URL) error {
	var v visit
	for _, u := range us {
		c.Robots.Forget(u) // the reason may have been a setting of ours
		c.add(&v, weburl.Link{URL: u, Seed: u.Host()}, u.Key())
	}
	items := c.items[:0]
	for _, f := range v.found {
		items = append(items, seen.Item{Key: c.ownKey(f.key), Aux: c.stamp(v.enc[f.from:f.to])})
	}
	if err := c.Accept(items); err != nil {
		return err
	}
	c.append()
	if c.fatal == nil {
		c.fatal = c.sync()
	}
	return c.fatal
}
