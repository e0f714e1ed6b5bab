package gen

import (
	"errors"
	"fmt"
	"time"
)

// Spec describes a generated web. The zero Spec is a small, plain web: pages, and robots.txt files that deny nothing.
//
// A share is between 0 and 1. If zero means a default, a negative share means none.
type Spec struct {
	Seed uint64
	// Hosts is the number of hosts; zero means 1000.
	Hosts int64
	// PagesMean is the mean number of pages on a host; zero means 100. The sizes follow a Pareto law of exponent 4/3,
	// up to MaxPages. For MaxPages, zero means 300 times the mean, and at least 1000.
	PagesMean float64
	MaxPages  int64
	// PageBytes is the mean length of a page; zero means 22,300. Lengths are log-normal (sigma 0.45). A page is never
	// shorter than its head and its links.
	PageBytes int
	// Links is the mean number of links on a page; zero means 50. A page has between half and one and a half times as
	// many.
	Links int
	// Local is the share of links within the site; zero means 0.8.
	Local float64
	// Topics is the number of topics, at most 15. Languages is the number of languages, at most 20. Zero means all.
	// Locality is the share of links to other sites that stay in the topic, and also of those that stay in the
	// language; zero means 0.7.
	Topics, Languages int
	Locality          float64
	// Addresses is the number of addresses that all hosts share in turn. Zero: the hosts of a site share one address,
	// and half of the sites share theirs with seven other sites. Negative: each host has its own address. There are at
	// most 16,516,096 addresses.
	Addresses int64

	// Graph, if not nil, gives the pages and the links between them. Then there are about Hosts hosts, and PagesMean,
	// MaxPages, Links, Local, Locality and Mirrors have no effect.
	Graph *Graph

	// Changes, if not nil, makes the pages change, with an ETag or a Last-Modified.
	Changes *Changes

	// Shares of the links:
	Redirects float64 // redirect in one to three steps; 1/32 of these redirect without end
	DeadLinks float64 // lead to a 404

	// Shares of the pages, except the first page of each host:
	Failing float64 // answer 503 once or twice, then 200
	Busy    float64 // answer 429 with a Retry-After of 1 s once, then 200
	Slow    float64 // take 0.2 to 1 s before the first byte, and as long again until the last one

	// Crosslinked is the share of the pages that are linked only from pages of other hosts. They are taken from those
	// without children in the tree of their host. Not all webs have enough of them for a share above 0.4. The copies of
	// such pages on mirrors may be linked from their own host. It has no effect on which pages can be reached from the
	// first page of the first host.
	Crosslinked float64

	// Edits is the share of the words in which copies of pages differ from their originals: the pages of Mirrors, and
	// Duplicates. Each copy differs in other words. The links of a copy do not differ. With zero, copies are equal to
	// the byte.
	Edits float64

	// Shares of the pages, taken from those without children in the tree of their host (7 of 8), so that none of these
	// faults hides another page:
	Denied     float64 // robots.txt forbids them
	Duplicates float64 // are copies of another page of the host (see Edits)
	Gone       float64 // answer 410
	Broken     float64 // answer 500
	Hanging    float64 // stop before or in the middle of the response
	Resetting  float64 // end in a reset, before or in the middle of the response
	Truncated  float64 // close the connection too early

	// Shares of the hosts:
	CrawlDelays float64       // ask for CrawlDelay in robots.txt
	CrawlDelay  time.Duration // zero means 2 s
	Sitemaps    float64       // have a sitemap of all their pages, except Crosslinked ones
	NoRobots    float64       // have no robots.txt, so that they deny nothing
	Traps       float64       // have an endless calendar, session ids and growing paths
	Secure      float64       // have their pages on HTTPS and redirect HTTP to it
	SlowHosts   float64       // take 0.2 to 1 s before the first byte of each response

	// Shares of the hosts, taken from the second half of the host numbers, so that none of these faults hides another
	// host:
	Mirrors     float64 // are copies of another host (see Edits)
	ClosedHosts float64 // deny everything in robots.txt
	DeadHosts   float64 // have no address, hang, reset, or have a wrong certificate
}

// Plain returns the Spec of a web without faults: pages, and robots.txt files that deny a few of them.
func Plain(seed uint64, hosts int64) Spec {
	return Spec{Seed: seed, Hosts: hosts, Denied: 0.02}
}

// Wild returns the Spec of a web with every fault that this package knows.
func Wild(seed uint64, hosts int64) Spec {
	return Spec{
		Seed: seed, Hosts: hosts,
		Redirects: 0.04, DeadLinks: 0.03,
		Failing: 0.01, Busy: 0.005, Slow: 0.005,
		Denied: 0.03, Duplicates: 0.05, Gone: 0.005, Broken: 0.01, Hanging: 0.002, Resetting: 0.002,
		Truncated:   0.002,
		CrawlDelays: 0.02, Sitemaps: 0.2, NoRobots: 0.1, Traps: 0.05, Secure: 0.3, SlowHosts: 0.01,
		Mirrors: 0.05, ClosedHosts: 0.01, DeadHosts: 0.03,
	}
}

const (
	maxHosts = 1 << 40
	maxPages = 1 << 31
)

// withDefaults returns s with its zero fields filled in, or an error if a value is not valid.
func (s Spec) withDefaults() (Spec, error) {
	def(&s.Hosts, 1000)
	if s.Graph != nil {
		s.PagesMean = max(1, float64(s.Graph.Nodes())/float64(s.Hosts))
		s.MaxPages = int64(max(10, 30*s.PagesMean))
		s.Mirrors = 0 // because the pages of a mirror are not in the graph
	}
	def(&s.PagesMean, 100)
	def(&s.MaxPages, max(1000, int64(300*s.PagesMean)))
	def(&s.PageBytes, 22_300)
	def(&s.Links, 50)
	def(&s.Local, 0.8)
	def(&s.Locality, 0.7)
	def(&s.Topics, numTopics)
	def(&s.Languages, numLanguages)
	def(&s.CrawlDelay, 2*time.Second)
	s.Local, s.Locality = max(s.Local, 0), max(s.Locality, 0)
	for _, p := range []float64{
		s.Local, s.Locality, s.Redirects + s.DeadLinks, s.Denied, s.CrawlDelays, s.Sitemaps, s.NoRobots, s.Traps,
		s.Secure, s.SlowHosts, s.Failing, s.Busy, s.Slow, s.Duplicates, s.Gone, s.Broken, s.Hanging, s.Resetting,
		s.Truncated, s.Mirrors, s.ClosedHosts, s.DeadHosts, s.Crosslinked, s.Edits,
	} {
		if !(p >= 0 && p <= 1) {
			return s, fmt.Errorf("share %g: not between 0 and 1", p)
		}
	}
	switch {
	case s.Hosts < 1 || s.Hosts > maxHosts:
		return s, fmt.Errorf("hosts %d: not between 1 and %d", s.Hosts, int64(maxHosts))
	case !(s.PagesMean >= 1 && s.PagesMean <= 1e8):
		return s, fmt.Errorf("pages mean %g: not between 1 and 100 million", s.PagesMean)
	case s.MaxPages < 1 || s.MaxPages > maxPages || float64(s.MaxPages) < s.PagesMean:
		return s, fmt.Errorf("max pages %d: not between the mean and %d", s.MaxPages, int64(maxPages))
	case s.PageBytes < 1 || s.PageBytes > 1<<20:
		return s, fmt.Errorf("page bytes %d: not between 1 and 1 MiB", s.PageBytes)
	case s.Links < 1 || s.Links > 1000:
		return s, fmt.Errorf("links %d: not between 1 and 1000", s.Links)
	case s.Failing+s.Busy+s.Slow+s.Duplicates+s.Gone+s.Broken+s.Hanging+s.Resetting+s.Truncated > 0.8:
		return s, errors.New("more than 0.8 of the pages in all misbehave")
	case s.Mirrors+s.ClosedHosts+s.DeadHosts > 0.5:
		return s, errors.New("more than half of the hosts are mirrors, closed or dead")
	case s.CrawlDelay < 0 || s.CrawlDelay > time.Hour:
		return s, fmt.Errorf("crawl delay %s: not between 0 and 1h", s.CrawlDelay)
	case s.Topics < 1 || s.Topics > numTopics:
		return s, fmt.Errorf("topics %d: not between 1 and %d", s.Topics, numTopics)
	case s.Languages < 1 || s.Languages > numLanguages:
		return s, fmt.Errorf("languages %d: not between 1 and %d", s.Languages, numLanguages)
	}
	return s, nil
}

func def[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
