package visit

import (
	"cmp"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/web/cookie"
	"github.com/orbweaver/orbweaver/internal/web/sheet"
)

// Config tunes visits.
type Config struct {
	// Cookies are the cookies to send, and get those that servers set. Nil: the crawl sends no cookies.
	Cookies *cookie.Jar
	// Agent is the product token whose groups in robots.txt and robots meta the crawl obeys.
	Agent string
	// Workers bounds the visits in progress, except slow ones: a visit to a slow server leaves
	// its worker to another visit until the response arrives. Zero means 64.
	Workers int
	// SlowAfter is the time after which a fetch that receives less than 1 kB/s is slow. A
	// fetch that receives more is slow after six times as long, if there are fewer such slow
	// visits than workers. If n slow visits receive less than 1 kB/s, now or in the last
	// minute, both times are divided by 1+n/Workers; the first is at least 50 ms. Zero means
	// 5 s, which is longer than packets wait on a slow line. With a Rate it may be shorter, see slowAfter.
	SlowAfter time.Duration
	// SlowVisits bounds the number of slow visits, and SlowBytes their memory. Beyond either
	// bound, a slow visit keeps its worker. Zero means 1024 and 128 MiB; negative means none.
	SlowVisits int
	SlowBytes  int64
	// Retries bounds how often the crawl retries a URL after a temporary failure. Zero means
	// 4; negative means never.
	Retries int
	// RetryWait is the wait before the first retry of a URL. It doubles with each retry. Zero
	// means 30 s.
	RetryWait time.Duration
	// MaxRedirects bounds a chain of redirects. Zero means 20.
	MaxRedirects int
	// MaxDecoded bounds the part of a decompressed body that is searched for links, in bytes.
	// Zero means 16 MiB.
	MaxDecoded int64
	// Keep says which responses the archive gets. The links of all are followed. Nil means all.
	Keep *sheet.Keep
	// ObeyNoArchive also leaves out of the archive the responses that say noarchive.
	ObeyNoArchive bool
	// Outlinks also writes the links of each page into its metadata record.
	Outlinks bool
	// Requisites also fetches images, styles and scripts.
	Requisites bool
	// Sitemaps says which sitemaps the crawl follows. Zero means none.
	Sitemaps Sitemaps
	// SeedRoots also fetches the root page of each origin of which the crawl visits a page, if it is in scope.
	SeedRoots bool
	// DropNear archives only a note in place of a page that is a near-duplicate of an archived one, and does not follow
	// its links. Otherwise the page is marked. See Parts.Near.
	DropNear bool
	// TwoLevel does not send links to other agents. Of a host that has no agent yet, it sends the root page alone, to
	// the agent that gets the host.
	TwoLevel bool
	// Clock is the agent's clock. Times that are written, sent or compared with such are its own. Nil
	// means clock.System.
	Clock clock.Clock
}

// WithDefaults returns c with the values that zero stands for. Call it once: it makes a negative Retries zero.
func (c Config) WithDefaults() Config {
	switch {
	case c.Retries == 0:
		c.Retries = 4
	case c.Retries < 0:
		c.Retries = 0
	}
	if c.Workers <= 0 {
		c.Workers = 64
	}
	c.Clock = clock.Or(c.Clock)
	c.MaxRedirects = cmp.Or(c.MaxRedirects, 20)
	c.MaxDecoded = cmp.Or(c.MaxDecoded, 16<<20)
	c.SlowVisits = cmp.Or(c.SlowVisits, 1024)
	c.SlowBytes = cmp.Or(c.SlowBytes, 128<<20)
	c.SlowAfter = cmp.Or(c.SlowAfter, 5*time.Second)
	c.RetryWait = cmp.Or(c.RetryWait, 30*time.Second)
	return c
}

// Handed bounds the visits that the dispatcher has given to workers, without slow ones. It is 1.5 times the number of
// workers, so that a worker that ends a visit finds the next one at once.
func (c Config) Handed() int { return c.Workers + c.Workers/2 }

// KeepCookies makes the crawl keep and send the cookies that servers set.
func (c *Config) KeepCookies() { c.Cookies = cookie.New(0) }
