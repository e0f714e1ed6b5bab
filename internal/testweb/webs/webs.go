// Package webs answers: which small webs does the program bring along?
package webs

import (
	"time"

	"github.com/orbweaver/orbweaver/internal/testweb"
	"github.com/orbweaver/orbweaver/internal/testweb/demo"
	"github.com/orbweaver/orbweaver/internal/testweb/scripts"
	"github.com/orbweaver/orbweaver/internal/testweb/scripts/hostile"
)

// Chosen says which webs are served.
type Chosen struct {
	Demo     bool // the web of "orbweaver demo"
	Hostile  bool // hosts that harm crawlers
	Dripping int  // hosts that send a page slowly
	Trouble  bool // pages that harm the browser that shows them
	Scripts  bool // applications whose pages need scripts
}

// Add adds the hosts of the webs to cfg. It returns the URLs at which a crawl begins, and whether the crawl has to
// leave the hosts of these URLs.
func (c Chosen) Add(cfg *testweb.Config) (seeds []string, anywhere bool) {
	if c.Demo {
		cfg.Sites, seeds, anywhere = append(cfg.Sites, demo.Sites()...), append(seeds, demo.Seeds()...), true
	}
	if c.Hostile {
		cfg.Sites = append(cfg.Sites, testweb.HostileSites()...)
		seeds = append(seeds, "http://"+testweb.HostileHost+"/")
	}
	for _, site := range testweb.DrippingSites(c.Dripping, 8*time.Second) {
		cfg.Sites, seeds = append(cfg.Sites, site), append(seeds, "http://"+site.Host+"/")
	}
	if c.Scripts {
		cfg.Sites, cfg.Apps = append(cfg.Sites, scripts.Sites()...), append(cfg.Apps, scripts.Apps()...)
		seeds, anywhere = append(seeds, scripts.Seeds()...), true
	}
	if c.Trouble {
		cfg.Sites, cfg.Apps = append(cfg.Sites, hostile.Sites()...), append(cfg.Apps, hostile.Apps()...)
		seeds = append(seeds, hostile.Seeds()...)
	}
	return seeds, anywhere
}

// Demo returns the hosts of the web of "orbweaver demo", for a crawl with a delay.
func Demo(delay time.Duration) []testweb.Site { return demo.SitesFor(delay) }

// DemoSeed returns the URL at which a crawl of that web begins.
func DemoSeed() string { return demo.Seeds()[0] }
