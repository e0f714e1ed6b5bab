package scope

import (
	"strings"

	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// judgeFast is Judge for nearly every link: links outside of the kind's limits, and links within
// them that pass all other rules. It makes only the cheapest checks that are sufficient to pass a
// rule. If they do not suffice, ok is false and the rules decide. It has no rule of its own (see
// TestFastPathAgreesWithRules).
func (s *Scope) judgeFast(l *link.Link) (v Judgement, ok bool) {
	if l.URL.IsZero() || l.Hops == "" {
		return v, false
	}
	if l.Ext != "" && (l.Refetches() > 0 || l.IsSitemap()) {
		return v, false
	}
	var at limits
	switch l.Hops[len(l.Hops)-1] {
	case 'P', 'R':
		return v, false
	case 'E':
		if len(l.Hops) > 1 && (l.Hops[len(l.Hops)-2] == 'E' || l.Hops[len(l.Hops)-2] == 'R') {
			return v, false
		}
		at = s.at(l.URL) // only the trap guards and the excludes apply to a page's embed
	default:
		if !s.reaches(l, l.URL) {
			return Judgement{Reason: OutOfScope}, true
		}
		if at = s.at(l.URL); !at.include.None() || at.depth >= 0 && l.Depth() > at.depth ||
			at.hostDepth >= 0 && l.HostDepth() > at.hostDepth {
			return v, false
		}
	}
	return Judgement{In: true}, s.cfg.Accept == nil && at.exclude.None() && s.passesTrapGuards(l.URL)
}

// passesTrapGuards reports that no trap guard keeps u out. If it returns false, a guard may still
// let u pass.
func (s *Scope) passesTrapGuards(u weburl.URL) bool {
	if s.cfg.MaxURLLength >= 0 && len(u.String()) > s.cfg.MaxURLLength {
		return false
	}
	path := u.Path()
	slashes := 0
	for rest := path; ; slashes++ {
		i := strings.IndexByte(rest, '/')
		if i < 0 {
			break
		}
		rest = rest[i+1:]
		if s.mayBeStrayYear(rest) {
			return false
		}
	}
	if s.cfg.MaxPathSegments >= 0 && slashes > s.cfg.MaxPathSegments {
		return false
	}
	most := s.cfg.MaxRepeatedSegments
	if most >= 0 && slashes > most && (repeats(path, most) || crowded(path, 2*most)) {
		return false
	}
	query, _ := u.Query()
	if query == "" {
		return true
	}
	if most := s.cfg.MaxQueryArgs; most >= 0 && len(query) >= most && strings.Count(query, "&") >= most {
		return false
	}
	for rest := query; ; {
		i := strings.IndexByte(rest, '=')
		if i < 0 {
			return true
		}
		if rest = rest[i+1:]; s.mayBeStrayYear(rest) {
			return false
		}
	}
}

// mayBeStrayYear reports whether the segment or value at the front of rest begins with a year that
// the calendar rule may refuse.
func (s *Scope) mayBeStrayYear(rest string) bool {
	if len(rest) < 4 || rest[0] != '1' && rest[0] != '2' || s.lastYear == 0 {
		return false
	}
	year := yearOf(rest[:4])
	return year > s.lastYear || year != 0 && year < firstYear
}
