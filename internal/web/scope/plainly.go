package scope

import (
	"strings"

	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// plainly is Judge for nearly every link: those beyond the bounds, and those
// within that no other rule has anything against. Each rule is asked what is
// cheapest to know and enough to pass it; where that is not enough, ok is false
// and the rules decide. It knows no rule that they do not (see
// TestPlainlyAgreesWithTheRules).
func (s *Scope) plainly(l *weburl.Link) (v Verdict, ok bool) {
	if l.URL.IsZero() || l.Hops == "" {
		return v, false
	}
	switch l.Hops[len(l.Hops)-1] {
	case 'P', 'R':
		return v, false
	case 'E':
		if len(l.Hops) > 1 && (l.Hops[len(l.Hops)-2] == 'E' || l.Hops[len(l.Hops)-2] == 'R') {
			return v, false
		}
		// A page's embed: asked for traps and excludes alone.
	default:
		if !s.within(l.URL) {
			return Verdict{Reason: OutOfScope}, true
		}
		if s.include.any != nil || s.cfg.Depth != nil && l.Depth() > *s.cfg.Depth {
			return v, false
		}
	}
	return Verdict{In: true}, s.exclude.any == nil && s.harmless(l.URL)
}

// harmless says that none of the guards against traps would keep u out.
func (s *Scope) harmless(u weburl.URL) bool {
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
		if s.strayAt(rest) {
			return false
		}
	}
	if s.cfg.MaxPathSegments >= 0 && slashes > s.cfg.MaxPathSegments {
		return false
	}
	if most := s.cfg.MaxRepeatedSegments; most >= 0 && slashes > most && (repeats(path, most) || crowded(path, 2*most)) {
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
		if rest = rest[i+1:]; s.strayAt(rest) {
			return false
		}
	}
}

// strayAt says that the segment or value at the front of rest may begin with a
// year that the calendar rule objects to.
func (s *Scope) strayAt(rest string) bool {
	if len(rest) < 4 || rest[0] != '1' && rest[0] != '2' || s.lastYear == 0 {
		return false
	}
	year := yearOf(rest[:4])
	return year > s.lastYear || year != 0 && year < firstYear
}
