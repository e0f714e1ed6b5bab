package scope

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// seeds holds what a kind needs to know about the seeds.
type seeds struct {
	pages    map[link.Key]struct{}
	hosts    map[string][]dir // by host without www.; only Prefix uses the dirs
	domains  map[string]struct{}
	examples []string // a few, for explanations
}

// A dir is a directory of one host. port is empty for the scheme's default port.
type dir struct{ port, path string }

func newSeeds() *seeds {
	return &seeds{
		pages:   map[link.Key]struct{}{},
		hosts:   map[string][]dir{},
		domains: map[string]struct{}{},
	}
}

// bareHost returns host without a leading "www.", unless no dot would remain.
func bareHost(host string) string {
	if rest, ok := strings.CutPrefix(host, "www."); ok && strings.IndexByte(rest, '.') >= 0 {
		return rest
	}
	return host
}

// explicitPort returns ":port", or "" if u has its scheme's default port.
func explicitPort(u weburl.URL) string { return u.Authority()[len(u.Host()):] }

func dirOf(u weburl.URL) dir {
	path := u.Path()
	return dir{explicitPort(u), path[:strings.LastIndexByte(path, '/')+1]}
}

// add adds the seed u for kind, and the name under which it is kept to examples.
func (s *seeds) add(kind Kind, u weburl.URL) {
	name := ""
	switch kind {
	case Page:
		s.pages[link.KeyOf(u)] = struct{}{}
	case Host:
		name = strings.Clone(bareHost(u.Host()))
		if _, ok := s.hosts[name]; ok {
			return
		}
		s.hosts[name] = nil
	case Prefix:
		host, d := strings.Clone(bareHost(u.Host())), dirOf(u)
		if slices.ContainsFunc(s.hosts[host], d.within) {
			return
		}
		// Directories below d no longer need an entry.
		rest := slices.DeleteFunc(s.hosts[host], func(e dir) bool { return e.within(d) })
		d = dir{strings.Clone(d.port), strings.Clone(d.path)}
		s.hosts[host] = append(rest, d)
		name = host + d.port + d.path
	case Domain:
		name = strings.Clone(u.Site())
		if _, ok := s.domains[name]; ok {
			return
		}
		s.domains[name] = struct{}{}
	}
	if len(s.examples) < 3 {
		if name == "" {
			name = strings.Clone(u.String())
		}
		s.examples = append(s.examples, name)
	}
}

// within reports whether d is e or lies below it.
func (d dir) within(e dir) bool {
	return d.port == e.port && strings.HasPrefix(d.path, e.path)
}

// has reports whether u lies within the limits of kind.
func (s *seeds) has(kind Kind, u weburl.URL) bool {
	switch kind {
	case Any:
		return true
	case Page:
		_, ok := s.pages[link.KeyOf(u)]
		return ok
	case Host:
		_, ok := s.hosts[bareHost(u.Host())]
		return ok
	case Domain:
		// A site is a suffix of its host. Most other hosts have no suffix in domains, so they need
		// no lookup in the Public Suffix List.
		for rest := u.Host(); ; {
			if _, ok := s.domains[rest]; ok {
				site := u.Site()
				if site != rest {
					_, ok = s.domains[site]
				}
				return ok
			}
			dot := strings.IndexByte(rest, '.')
			if dot < 0 {
				return false
			}
			rest = rest[dot+1:]
		}
	case Prefix:
		dirs, ok := s.hosts[bareHost(u.Host())]
		if !ok {
			return false
		}
		d := dirOf(u)
		for _, e := range dirs {
			if d.within(e) {
				return true
			}
		}
	}
	return false
}

// laterSeeds are the seeds that redirects added.
type laterSeeds struct {
	some  atomic.Bool  // set once there are any: most crawls need no lock
	mu    sync.RWMutex // guards seeds
	seeds *seeds
}

func (l *laterSeeds) has(kind Kind, u weburl.URL) bool {
	if !l.some.Load() {
		return false
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.seeds.has(kind, u)
}

func (l *laterSeeds) add(kind Kind, u weburl.URL) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seeds.add(kind, u)
	l.some.Store(true)
}
