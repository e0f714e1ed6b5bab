package broken

import (
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/orbweaver/orbweaver/internal/linklog"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/extsort"
)

// redirected begins the page of a visit if it is a redirect.
const redirected = "\x01"

// maxRedirects bounds the redirects in memory. Beyond it, a redirect counts as the page that links. maxChain bounds the
// redirects in a row.
const (
	maxRedirects = 50_000
	maxChain     = 20
)

// redirects are URLs that redirect to a broken URL, perhaps through others.
type redirects map[string]*redirect

type redirect struct {
	to     string // the broken URL
	linked bool   // something links to the redirect
}

// add adds a redirect, and reports whether there is room for it.
func (r redirects) add(url, to string) bool {
	if _, known := r[url]; !known {
		if len(r) == maxRedirects {
			return false
		}
		r[url] = &redirect{to: to}
	}
	return true
}

// end pushes the redirects to which nothing links, such as seeds, as pages.
func (r redirects) end(rows *extsort.Queue) error {
	var rec []byte
	for url, to := range r {
		if !to.linked {
			if err := pushPage(rows, &rec, to.to, url, ""); err != nil {
				return err
			}
		}
	}
	return nil
}

// readLinks pushes the pages that link to a URL in targets, or to a redirect that leads there. It reads the link log
// once more for each redirect in a row. found are redirects that are known already.
func readLinks(fs disk.FS, dir string, sort extsort.Config, targets filter, found redirects,
	rows *extsort.Queue) (d linklog.Damage, err error) {
	var rec []byte
	seen := map[string]bool{}
	level := found
	d, err = eachLink(fs, dir, sort, func(page string, l *linklog.Link) error {
		if !targets.hasHash(xxhash.Sum64String(l.Target)) || l.Kind == linklog.Redirect && level.add(page, l.Target) {
			return nil
		}
		return pushPage(rows, &rec, l.Target, page, "")
	})
	for n := 0; n < maxChain && len(level) > 0 && err == nil; n++ {
		next := redirects{}
		for url := range level {
			seen[url] = true
		}
		_, err = eachLink(fs, dir, sort, func(page string, l *linklog.Link) error {
			r := level[l.Target]
			if r == nil || page == l.Target {
				return nil
			}
			r.linked = true
			if l.Kind == linklog.Redirect && (seen[page] || next.add(page, r.to)) {
				return nil
			}
			return pushPage(rows, &rec, r.to, page, l.Target)
		})
		if err == nil {
			err = level.end(rows)
		}
		level = next
	}
	if err == nil {
		err = level.end(rows)
	}
	return d, err
}

// eachLink calls fn for each link that counts.
func eachLink(fs disk.FS, dir string, sort extsort.Config, fn func(page string, l *linklog.Link) error) (linklog.Damage,
	error) {
	return linklog.Current(fs, []string{dir}, sort, func(p *linklog.PageLine, _, links bool) error {
		for i := range p.Links {
			if !links || strings.IndexByte(p.Links[i].Target, 0) >= 0 {
				continue
			}
			if err := fn(p.URL, &p.Links[i]); err != nil {
				return err
			}
		}
		return nil
	})
}
