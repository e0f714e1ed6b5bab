package gen

import (
	"errors"
	"fmt"
)

// Spec describes a generated web. The zero Spec is a small plain web: pages,
// and robots.txt that denies nothing.
//
// A share is between 0 and 1; where zero means a default, a negative share is none.
type Spec struct {
	Seed uint64
	// Hosts is their number; zero means 1000. Graph divides its pages into so
	// many hosts at most.
	Hosts int64
	// PagesMean is the mean number of pages of a host: zero means 100. The
	// sizes follow a Pareto law of exponent 4/3 up to MaxPages; zero means 300
	// times the mean, and 1000 at least.
	PagesMean float64
	MaxPages  int64
	// PageBytes is the mean length of a page; zero means 22,300. Lengths are
	// log-normal (sigma 0.45); no page is shorter than its links and its head are.
	PageBytes int
	// Links is the mean number of links of a page, which has between half and
	// one and a half times as many; zero means 50.
	Links int
	// Local is the share of the links that stay within the site; zero means 0.8.
	Local float64
	// Topics is how many there are, at most 15, and Languages, at most 20; zero
	// means all of them. Locality is the share of the links out of a site that
	// are drawn from the hosts of its topic, and likewise of its language; zero
	// means 0.7.
	Topics, Languages int
	Locality          float64
	// Addresses is the number of addresses of all hosts, which share them in
	// turn. Zero: the hosts of a site share one, and half of the sites share
	// theirs with seven others. Negative: each host has one of its own. There are
	// no more than 16,516,096.
	Addresses int64
}

const (
	maxHosts = 1 << 40
	maxPages = 1 << 31
)

// withDefaults fills the zero fields in, and says what cannot be.
func (s Spec) withDefaults() (Spec, error) {
	def(&s.Hosts, 1000)
	def(&s.PagesMean, 100)
	def(&s.MaxPages, max(1000, int64(300*s.PagesMean)))
	def(&s.PageBytes, 22_300)
	def(&s.Links, 50)
	def(&s.Local, 0.8)
	def(&s.Locality, 0.7)
	def(&s.Topics, numTopics)
	def(&s.Languages, numLanguages)
	s.Local, s.Locality = max(s.Local, 0), max(s.Locality, 0)
	switch {
	case s.Hosts < 1 || s.Hosts > maxHosts:
		return s, fmt.Errorf("hosts %d: not between 1 and %d", s.Hosts, int64(maxHosts))
	case s.PagesMean < 1 || s.PagesMean > 1e8:
		return s, fmt.Errorf("pages mean %g: not between 1 and 100 million", s.PagesMean)
	case s.MaxPages < 1 || s.MaxPages > maxPages || float64(s.MaxPages) < s.PagesMean:
		return s, fmt.Errorf("max pages %d: not between the mean and %d", s.MaxPages, maxPages)
	case s.PageBytes < 1 || s.PageBytes > 1<<20:
		return s, fmt.Errorf("page bytes %d: not between 1 and 1 MiB", s.PageBytes)
	case s.Links < 1 || s.Links > 1000:
		return s, fmt.Errorf("links %d: not between 1 and 1000", s.Links)
	case s.Local > 1 || s.Locality > 1:
		return s, errors.New("a share above 1")
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
