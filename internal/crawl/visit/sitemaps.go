package visit

import (
	"strconv"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/parse"
	"github.com/orbweaver/orbweaver/internal/web/robots"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// Sitemaps says which sitemaps a crawl follows, and which of their entries.
type Sitemaps struct {
	// Follow follows the sitemaps that robots.txt names. If it names none, the crawl asks for /sitemap.xml.
	Follow bool
	// Named are sitemaps that the crawl follows as well.
	Named []weburl.URL
	// From leaves out the entries whose lastmod is before it. Zero keeps all.
	From time.Time
}

// NamedSitemap returns the link of a sitemap that Sitemaps names. It counts to the seed of its host, or to the first.
func NamedSitemap(u weburl.URL, seeds []weburl.URL) link.Link {
	l := link.Link{URL: u, Hops: "M"}
	l.SetSitemap(false)
	for _, s := range seeds {
		if l.Seed == "" || s.Host() == u.Host() {
			l.Seed = s.Host()
		}
	}
	return l
}

const (
	// sitemapMax bounds the size of a sitemap in bytes (sitemaps.org: 50 MB).
	sitemapMax = 50 << 20
	// sitemapLevels bounds how deep an index may be within other indexes. sitemaps.org allows none within another; some
	// sites have them. So no server can lead the crawl through sitemaps without an end.
	sitemapLevels = 3
)

// followSitemaps follows the sitemaps that a robots.txt names. It holds for the origin of about, and the visit has
// fetched it from a URL. If it names none, the sitemap may be at its usual place.
func (p *Pool) followSitemaps(v *Attempt, about, from weburl.URL, named []string) {
	l := v.Task.Link
	sitemap := func(u weburl.URL, guess bool) link.Link {
		to := link.Link{URL: u, Via: from.String(), Hops: l.Hops + "M", Seed: l.Seed, Ext: v.extTo(u, 'M')}
		to.SetSitemap(guess)
		return to
	}
	v.Page.References = len(named)
	for _, s := range named {
		if u, err := weburl.Parse(s); err == nil {
			p.Links.Follow(v, sitemap(u, false), link.KeyOf(u))
		}
	}
	usual, err := about.Resolve("/sitemap.xml")
	if err != nil || len(named) > 0 || p.Robots.Ask(usual, p.cfg.Clock.Now()).Verdict != robots.Allowed {
		return
	}
	if to := sitemap(usual, true); p.Links.Scope.Judge(to).In {
		p.Links.Follow(v, to, link.KeyOf(usual))
	}
}

// sitemapAt makes a link on the page of v a sitemap if it is one: an entry of an index. ok is false if it is too deep
// within other indexes.
func (v *Attempt) sitemapAt(to *link.Link, tag string) (ok bool) {
	if tag != parse.SitemapTag {
		return true
	}
	to.SetSitemap(false)
	return Trailing(strings.ReplaceAll(to.Hops, "R", ""), 'M') <= sitemapLevels
}

// sitemapMoved makes the target of a redirect a sitemap if the URL of v is one. Many servers redirect what they do not
// have to a page, so the target must look like a sitemap.
func (v *Attempt) sitemapMoved(to *link.Link) {
	path := strings.ToLower(to.URL.Path())
	if l := &v.Task.Link; l.IsSitemap() && (strings.Contains(path, "sitemap") || strings.HasSuffix(path, ".xml") ||
		strings.HasSuffix(path, ".xml.gz")) {
		to.SetSitemap(l.IsGuess())
	}
}

// noteEntries notes what is left out of the entries of a sitemap.
func (v *Attempt) noteEntries() {
	if v.Page.HTML.Cut {
		v.Notes = append(v.Notes, "links-cut")
	}
	if n := v.Page.HTML.Older; n > 0 {
		v.Notes = append(v.Notes, "older:"+strconv.Itoa(n))
	}
}
