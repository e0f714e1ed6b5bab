package gen

import (
	"time"

	"github.com/orbweaver/orbweaver/internal/testweb"
)

// A fate is the fault of a page; fine means none.
type fate uint8

const (
	fine fate = iota
	failing
	busy
	slow
	// Only pages without children can have the fates below.
	duplicate
	gone
	broken
	hanging
	resetting
	truncated
	numFates
)

// lasting reports whether a page of this fate is never answered well.
func (f fate) lasting() bool { return f >= gone }

// fates has the shares of the Spec as bounds of hashes, in units of 1/2^32 (see hit).
type fates struct {
	page   [numFates]uint64 // cumulative
	denied uint64
	dead, dieOrLoop, redirected,
	delay, sitemap, noRobots, trap, secure, slowHost uint64
	mirror, closed, deadHost uint64 // cumulative
	edit                     uint64
	links                    bool // some links do not lead directly to a page
}

func (w *Web) planFates() {
	s, f := &w.spec, &w.fates
	leaves := 1.0
	if w.children > 1 && s.Graph == nil {
		leaves = float64(w.children-1) / float64(w.children)
	}
	sum := 0.0
	for i, p := range [numFates]float64{
		0, s.Failing, s.Busy, s.Slow, s.Duplicates, s.Gone, s.Broken, s.Hanging, s.Resetting, s.Truncated,
	} {
		if fate(i) >= duplicate {
			p /= leaves
		}
		sum += p
		f.page[i] = share(sum)
	}
	f.denied = share(s.Denied / leaves)
	f.dead = share(s.DeadLinks)
	f.dieOrLoop = share(s.DeadLinks + s.Redirects/32)
	f.redirected = share(s.DeadLinks + s.Redirects)
	f.delay, f.sitemap, f.noRobots = share(s.CrawlDelays), share(s.Sitemaps), share(s.NoRobots)
	f.trap, f.secure, f.slowHost = share(s.Traps), share(s.Secure), share(s.SlowHosts)
	f.mirror = share(2 * s.Mirrors)
	f.closed = share(2 * (s.Mirrors + s.ClosedHosts))
	f.deadHost = share(2 * (s.Mirrors + s.ClosedHosts + s.DeadHosts))
	f.edit = share(s.Edits)
	f.links = f.redirected > 0 || f.trap > 0
}

// leaf reports whether a page has no children in the tree of its host.
func (w *Web) leaf(page, pages int64) bool {
	return page > 0 && (w.children == 0 || page*w.children+1 >= pages)
}

// fate returns the fate of a page. The host must not be a mirror.
func (w *Web) fate(host, page int64) fate {
	if page == 0 || w.fates.page[numFates-1] == 0 {
		return fine
	}
	h := w.hash(saltFate, host, page)
	for f := failing; f < numFates; f++ {
		if hit(h, w.fates.page[f]) {
			if f >= duplicate && !w.leaf(page, w.sizeOf(host)) {
				return fine
			}
			return f
		}
	}
	return fine
}

// original returns the page that a page duplicates; for most pages itself.
func (w *Web) original(host, page int64) int64 {
	if w.fate(host, page) != duplicate {
		return page
	}
	pages := w.sizeOf(host)
	first := int64(1)
	if w.children > 0 {
		first = max(1, (pages-2)/w.children+1)
	}
	other := first + int64(below(w.hash(saltDuplicate, host, page), uint64(pages-first)))
	if f := w.fate(host, other); f >= duplicate {
		return page
	}
	return other
}

// private reports whether a page is in the directory that robots.txt denies. h is the hash of its path.
func (w *Web) private(host, page int64, h uint64) bool {
	return hit(h, w.fates.denied) && w.leaf(page, w.sizeOf(host)) && w.hasRobots(host)
}

// A role is a special property of a whole host.
type role uint8

const (
	ordinary role = iota
	mirror
	closed
	dead
)

func (w *Web) role(host int64) role {
	f := &w.fates
	if f.deadHost == 0 || host < (w.spec.Hosts+1)/2 {
		return ordinary
	}
	switch h := w.hash(saltHost, host, 0); {
	case hit(h, f.mirror):
		return mirror
	case hit(h, f.closed):
		return closed
	case hit(h, f.deadHost):
		return dead
	}
	return ordinary
}

// source returns the host that a host mirrors; for most hosts itself.
func (w *Web) source(host int64) int64 {
	if w.fates.mirror == 0 || w.role(host) != mirror {
		return host
	}
	other := int64(below(w.hash(saltMirror, host, 0), uint64(host)))
	if w.role(other) != ordinary {
		return host
	}
	return other
}

// A death is the reason why a host cannot be crawled.
type death uint8

const (
	alive death = iota
	noName
	nameFails
	nameSilent
	hangs
	resets
	badCertificate
)

func (w *Web) death(host int64) death {
	if w.role(host) != dead {
		return alive
	}
	return noName + death(w.hash(saltHost, host, 1)%6)
}

// trait reports whether a host has the property with this number, which a share of the hosts have.
func (w *Web) trait(host int64, number int64, share uint64) bool {
	return share > 0 && hit(w.hash(saltHost, host, number), share)
}

// The numbers of the traits. The hashes 0 and 1 are those of the role and the death.
const (
	traitDelay = iota + 2
	traitSitemap
	traitNoRobots
	traitTrap
	traitSecure
	traitSlow
)

func (w *Web) hasRobots(host int64) bool { return !w.trait(host, traitNoRobots, w.fates.noRobots) }

func (w *Web) trapped(host int64) bool { return w.trait(host, traitTrap, w.fates.trap) }

// secure reports whether the pages of a host, mirror or not, are on HTTPS. They always are if its certificate is wrong,
// because the host could be crawled over HTTP otherwise.
func (w *Web) secure(host int64) bool {
	return w.trait(host, traitSecure, w.fates.secure) || w.fates.deadHost > 0 && w.death(host) == badCertificate
}

// crawlDelay returns the Crawl-delay in the robots.txt of a host; 0: none.
func (w *Web) crawlDelay(host int64) time.Duration {
	if w.role(host) == closed {
		return 0
	}
	host = w.source(host)
	if w.hasRobots(host) && w.trait(host, traitDelay, w.fates.delay) {
		return w.spec.CrawlDelay
	}
	return 0
}

func (w *Web) Host(host int64) testweb.OriginHost {
	name, site := w.Name(host)
	o := testweb.OriginHost{
		Name:       name,
		Site:       site,
		Addr:       w.addr(host),
		Pages:      w.Pages(host),
		CrawlDelay: w.crawlDelay(host),
	}
	switch w.death(host) {
	case noName:
		o.DNS = testweb.NoDomain
	case nameFails:
		o.DNS = testweb.ServerFail
	case nameSilent:
		o.DNS = testweb.NoAnswer
	case badCertificate:
		faults := [...]testweb.TLSFault{testweb.SelfSigned, testweb.Expired, testweb.WrongName, testweb.CutTLS}
		o.TLS = faults[w.hash(saltHost, host, 0)&3]
	}
	return o
}
