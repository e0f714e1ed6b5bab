package scope

import "github.com/orbweaver/orbweaver/internal/web/weburl"

// An Amendment is what operators have changed of a Scope while the crawl runs.
type Amendment struct {
	// Seeds extend the crawl as the seeds of New do.
	Seeds []weburl.URL
}

// amended is an Amendment in force. It never changes.
type amended struct{ seeds *seeds }

func (a *amended) has(kind Kind, u weburl.URL) bool { return a != nil && a.seeds.has(kind, u) }

// Amend puts a in force, in place of the last Amendment. Safe for concurrent use.
func (s *Scope) Amend(a Amendment) {
	next := &amended{seeds: newSeeds()}
	for _, u := range a.Seeds {
		next.seeds.add(s.cfg.Scope, u)
	}
	if len(a.Seeds) == 0 {
		next = nil
	}
	s.amended.Store(next)
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
