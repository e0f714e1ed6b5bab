package scope

import (
	"strings"

	"github.com/orbweaver/orbweaver/internal/web/sheet"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// An Amendment is what operators have changed of a Scope while the crawl runs. It lets more links in, and keeps none
// out.
type Amendment struct {
	// Seeds extend the crawl as the seeds of New do.
	Seeds []weburl.URL
	// Hosts and Domains extend the crawl to hosts, and to hosts with all below them. A leading "www." does not matter.
	Hosts, Domains []string
	// Include are patterns in addition to those of the Config, which must have some.
	Include []string
	// Depth replaces a smaller Config.Depth; negative: no limit. Nil changes nothing.
	Depth *int
}

// amended is an Amendment in force. It never changes.
type amended struct {
	seeds          *seeds
	hosts, domains map[string]struct{}
	include        sheet.Patterns // none: those of the Config
	depth          *int           // nil: that of the Config
}

func (a *amended) has(kind Kind, u weburl.URL) bool {
	if a == nil {
		return false
	}
	if a.seeds.has(kind, u) {
		return true
	}
	if len(a.hosts) > 0 {
		if _, ok := a.hosts[bareHost(u.Host())]; ok {
			return true
		}
	}
	for domain, more := u.Host(), len(a.domains) > 0; more; _, domain, more = strings.Cut(domain, ".") {
		if _, ok := a.domains[domain]; ok {
			return true
		}
	}
	return false
}

// Amend puts a in force, in place of the last Amendment. The error names a pattern that is wrong; then nothing has
// changed. Safe for concurrent use.
func (s *Scope) Amend(a Amendment) error {
	next := &amended{seeds: newSeeds(), hosts: map[string]struct{}{}, domains: map[string]struct{}{}}
	for _, u := range a.Seeds {
		next.seeds.add(s.cfg.Scope, u)
	}
	for _, host := range a.Hosts {
		next.hosts[bareHost(host)] = struct{}{}
	}
	for _, domain := range a.Domains {
		next.domains[bareHost(domain)] = struct{}{}
	}
	if len(a.Include) > 0 && !s.include.None() {
		var err error
		if next.include, err = sheet.Compile("include", append(s.cfg.Include[:len(s.cfg.Include):len(s.cfg.Include)],
			a.Include...)); err != nil {
			return err
		}
	}
	if a.Depth != nil && s.cfg.Depth != nil && (*a.Depth < 0 || *a.Depth > *s.cfg.Depth) {
		next.depth = a.Depth
	}
	s.amended.Store(next)
	return nil
}

// amend changes limits of the Config as the Amendment says.
func (a *amended) amend(l *limits) {
	if a == nil {
		return
	}
	if !a.include.None() {
		l.include = &a.include
	}
	if a.depth != nil {
		l.depth = *a.depth
	}
}

// Widens reports for each of us, in their order, whether it would extend the crawl as a seed. Of several that extend
// it in the same way, the first one does.
func (s *Scope) Widens(us []weburl.URL) []bool {
	more := newSeeds()
	widens := make([]bool, len(us))
	for i, u := range us {
		if widens[i] = !s.within(u) && !more.has(s.cfg.Scope, u); widens[i] {
			more.add(s.cfg.Scope, u)
		}
	}
	return widens
}

// A Description tells what a Scope lets in.
type Description struct {
	Kind             Kind
	Seeds            []string // examples
	Include, Exclude []string
	Depth, HostDepth int // negative: no limit
}

// Describe tells what the Scope lets in now, without what Config.Sheets have for parts of the web. Safe for concurrent
// use.
func (s *Scope) Describe() Description {
	l := s.limits()
	return Description{Kind: s.cfg.Scope, Seeds: s.examples(), Include: l.include.Exprs(), Exclude: l.exclude.Exprs(),
		Depth: l.depth, HostDepth: l.hostDepth}
}

// examples returns the names of some seeds.
func (s *Scope) examples() []string {
	s.later.mu.RLock()
	defer s.later.mu.RUnlock()
	known := append(append([]string(nil), s.seeds.examples...), s.later.seeds.examples...)
	if a := s.amended.Load(); a != nil {
		known = append(known, a.seeds.examples...)
	}
	return known
}
