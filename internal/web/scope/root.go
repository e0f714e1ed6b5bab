package scope

import (
	"strings"

	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// The seeds of an application come while the crawl runs, at any agent, and there may be millions. So a Scope does not
// keep them: each link carries what the Scope must know of the seed from which it descends (link.Link.Root).

// Root returns what Judge needs to know of the seed u, to judge the links that descend from it: its host without
// "www.", its registered domain, or its directory. It is "" for the kinds Page and Any, which need nothing, and for a
// directory of more than weburl.MaxRoot octets: then no link is within its limits.
func (s *Scope) Root(u weburl.URL) string {
	root := ""
	switch s.cfg.Scope {
	case Host:
		root = bareHost(u.Host())
	case Domain:
		root = u.Site()
	case Prefix:
		d := dirOf(u)
		root = bareHost(u.Host()) + d.port + d.path
	}
	if len(root) > link.MaxRoot {
		return ""
	}
	return root
}

// Below reports whether u lies within the limits of the seed with this Root.
func (s *Scope) Below(root string, u weburl.URL) bool {
	if root == "" {
		return false
	}
	switch s.cfg.Scope {
	case Host:
		return bareHost(u.Host()) == root
	case Domain:
		return strings.HasSuffix(u.Host(), root) && u.Site() == root
	case Prefix:
		rest, ok := strings.CutPrefix(root, bareHost(u.Host()))
		if !ok {
			return false
		}
		d := dirOf(u)
		path, ok := strings.CutPrefix(rest, d.port)
		return ok && strings.HasPrefix(d.path, path)
	}
	return false
}

// reaches reports whether u, on the way of l, lies within the limits of the kind.
func (s *Scope) reaches(l *link.Link, u weburl.URL) bool {
	return s.within(u) || l.Ext != "" && s.Below(l.Root(), u)
}
