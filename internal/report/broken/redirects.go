package broken

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
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

// readLinks pushes the pages that link to a URL in targets, or to a redirect that leads there. found are redirects that
// are known already. It reads the link log twice.
func readLinks(fs disk.FS, dir string, sort extsort.Config, targets filter, found redirects,
	rows *extsort.Queue) (d linklog.Damage, err error) {
	edges := edges{sort: sort, queue: sort.Queue("redirects")}
	defer func() { err = errors.Join(err, edges.queue.Close()) }()
	counted, err := linklog.Count(fs, []string{dir}, sort, edges.add)
	if err != nil {
		return d, err
	}
	c := chains{targets: targets, first: found, all: redirects{}, rows: rows}
	if err := c.follow(&edges, counted); err != nil {
		return d, err
	}
	d, err = counted.Each(func(p *linklog.PageLine, _, links bool) error {
		for i := range p.Links {
			if !links || strings.IndexByte(p.Links[i].Target, 0) >= 0 {
				continue
			}
			if err := c.link(p.URL, &p.Links[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = errors.Join(c.all.end(rows), c.last.end(rows))
	}
	return d, err
}

// Edges are the redirects of a link log, on disk.
type edges struct {
	sort  extsort.Config
	queue *extsort.Queue
	turns int
	rec   []byte
}

// add adds the redirects of a line. A record is 8 bytes number of the line, big-endian, the page, a zero, the target.
func (e *edges) add(p *linklog.PageLine, n uint64) error {
	for i := range p.Links {
		if l := &p.Links[i]; l.Kind == linklog.Redirect && strings.IndexByte(l.Target, 0) < 0 {
			e.rec = binary.BigEndian.AppendUint64(e.rec[:0], n)
			e.rec = append(append(append(e.rec, p.URL...), 0), l.Target...)
			if err := e.queue.Push(e.rec); err != nil {
				return err
			}
		}
	}
	return nil
}

// each calls fn for each redirect that counts, in the order of the log.
func (e *edges) each(counted *linklog.Counted, fn func(page, target string) error) error {
	e.turns++
	next := e.sort.Queue(fmt.Sprintf("redirects%d", e.turns))
	err := e.queue.Each(func(rec []byte) error {
		if len(rec) < 8 {
			return extsort.ErrDamaged
		}
		page, target, ok := strings.Cut(string(rec[8:]), "\x00")
		if !ok {
			return extsort.ErrDamaged
		}
		if !counted.HasLinks(binary.BigEndian.Uint64(rec)) {
			return nil
		}
		if err := fn(page, target); err != nil {
			return err
		}
		return next.Push(rec)
	})
	err = errors.Join(err, e.queue.Close())
	e.queue = next
	return err
}

// Chains are the redirects that lead to broken URLs.
type chains struct {
	targets filter
	first   redirects // those to the broken URL itself
	all     redirects // of all chains, with first
	last    redirects // those of chains that are longer than maxChain: what links to them does not matter
	rows    *extsort.Queue
	rec     []byte
}

// follow finds the redirects, first those to broken URLs, then those to these, and so on.
func (c *chains) follow(e *edges, counted *linklog.Counted) error {
	err := e.each(counted, func(page, target string) error {
		if c.targets.hasHash(xxhash.Sum64String(target)) {
			c.first.add(page, target) // without room, link takes it for a page
		}
		return nil
	})
	level := c.first
	for n := 0; n < maxChain && len(level) > 0 && err == nil; n++ {
		maps.Copy(c.all, level)
		next := redirects{}
		err = e.each(counted, func(page, target string) error {
			if r := level[target]; r != nil && page != target && c.all[page] == nil {
				next.add(page, r.to)
			}
			return nil
		})
		level = next
	}
	c.last = level
	return err
}

// link pushes the page if its link leads to a broken URL, and is not a redirect that is known.
func (c *chains) link(page string, l *linklog.Link) error {
	redirect := l.Kind == linklog.Redirect
	if c.targets.hasHash(xxhash.Sum64String(l.Target)) && !(redirect && c.first[page] != nil) {
		if err := pushPage(c.rows, &c.rec, l.Target, page, ""); err != nil {
			return err
		}
	}
	r := c.all[l.Target]
	if r == nil || page == l.Target {
		return nil
	}
	r.linked = true
	if redirect && (c.all[page] != nil || c.last[page] != nil) {
		return nil
	}
	return pushPage(c.rows, &c.rec, r.to, page, l.Target)
}
