package scope

import (
	"errors"
	"fmt"
	"time"

	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// Reason is why a link is out, as the logs have it.
type Reason string

const (
	OutOfScope           Reason = "outOfScope"           // beyond the kind's bounds
	Excluded             Reason = "excluded"             // an exclude matches
	NotIncluded          Reason = "notIncluded"          // no include matches
	TooDeep              Reason = "tooDeep"              // too many links from its seed
	TrapURLLength        Reason = "trapURLLength"        // the URL is too long
	TrapPathLength       Reason = "trapPathLength"       // the path has too many segments
	TrapRepeatedSegments Reason = "trapRepeatedSegments" // the path repeats itself
	TrapQueryArgs        Reason = "trapQueryArgs"        // the query has too many arguments
	TrapQueryExplosion   Reason = "trapQueryExplosion"   // the path has too many queries; see Queries
	TrapCalendar         Reason = "trapCalendar"         // a date that only an endless calendar shows
)

// Config says what belongs to a crawl. The zero Config keeps to the hosts of
// the seeds and out of traps.
type Config struct {
	// Scope is how far from its seeds the crawl goes. Zero means Host.
	Scope Kind
	// Exclude are regular expressions (Go's syntax, matching anywhere in the
	// canonical URL) that keep a URL out, a seed too.
	Exclude []string
	// Include are regular expressions of which a link must match one. None
	// means that all links may pass. Seeds and embeds need not.
	Include []string
	// Depth is the largest number of links from a seed: 0 is the seeds and
	// what they embed. Nil means no limit.
	Depth *int

	// The guards against traps. Zero means the default, a negative number
	// switches the guard off. Seeds are exempt.

	// MaxURLLength is in octets. Zero means weburl.MaxLength, 2083.
	MaxURLLength int
	// MaxPathSegments is what stands between the slashes. Zero means 20, as
	// in Heritrix.
	MaxPathSegments int
	// MaxRepeatedSegments is how often a segment or a sequence of them may
	// stand in a row: 3 lets /a/b/a/b/a/b/ pass and not one a/b more; a segment
	// may stand twice as often in all. Zero means 3.
	MaxRepeatedSegments int
	// MaxQueryArgs is the number of arguments in a query. Zero means 32.
	MaxQueryArgs int
	// Today bounds the dates that calendars are followed to: two years after
	// it. The zero time switches the guard off.
	Today time.Time
}

const (
	defaultMaxSegments  = 20
	defaultMaxRepeated  = 3
	defaultMaxQueryArgs = 32
)

// Verdict is the answer for one link; Reason is empty where it is in.
type Verdict struct {
	In     bool
	Reason Reason
}

// Scope judges links. Make one with New.
type Scope struct {
	cfg              Config
	seeds            *seeds
	later            laterSeeds
	exclude, include patterns
	lastYear         int // that calendars are followed to; 0 is no end
}

// New makes a Scope for seeds. Its errors are the operator's: a bad regular
// expression, an unknown kind, a negative depth; each says where, and all bad
// expressions are named at once.
func New(cfg Config, from []weburl.URL) (*Scope, error) {
	if int(cfg.Scope) >= len(kinds) {
		return nil, fmt.Errorf("scope %v: unknown; one of page, prefix, host, domain, any", cfg.Scope)
	}
	if cfg.Depth != nil && *cfg.Depth < 0 {
		return nil, fmt.Errorf("depth %d: below 0; 0 is the seeds alone, leave it out for no limit", *cfg.Depth)
	}
	for _, d := range []struct {
		n *int
		v int
	}{
		{&cfg.MaxURLLength, weburl.MaxLength}, {&cfg.MaxPathSegments, defaultMaxSegments},
		{&cfg.MaxRepeatedSegments, defaultMaxRepeated}, {&cfg.MaxQueryArgs, defaultMaxQueryArgs},
	} {
		if *d.n == 0 {
			*d.n = d.v
		}
	}
	s := &Scope{cfg: cfg, seeds: newSeeds(), later: laterSeeds{seeds: newSeeds()}}
	if !cfg.Today.IsZero() {
		s.lastYear = cfg.Today.Year() + yearsAhead
	}
	var errs []error
	var err error
	if s.exclude, err = compileAll("exclude", cfg.Exclude); err != nil {
		errs = append(errs, err)
	}
	if s.include, err = compileAll("include", cfg.Include); err != nil {
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	for _, u := range from {
		if !u.IsZero() {
			s.seeds.add(cfg.Scope, u)
		}
	}
	return s, nil
}

// AddSeed widens the scope by u, the target of a seed's redirects: call it
// when a link with only R hops has been accepted, and again for those of the
// journal after a restart. It is cheap to repeat.
func (s *Scope) AddSeed(u weburl.URL) {
	if !u.IsZero() && !s.within(u) {
		s.later.add(s.cfg.Scope, u)
	}
}

func (s *Scope) within(u weburl.URL) bool {
	return s.seeds.has(s.cfg.Scope, u) || s.later.has(s.cfg.Scope, u)
}

// standing is what a link is to the crawl by the way it was found.
type standing uint8

const (
	asLink standing = iota
	asEmbed
	asSeed
	asPrerequisite
)

func (s *Scope) standing(l weburl.Link) standing {
	hops := l.Hops
	if hops == "" {
		return asSeed
	}
	last := hops[len(hops)-1]
	if last == 'P' {
		return asPrerequisite
	}
	if last != 'E' && last != 'R' {
		return asLink
	}
	embeds, i := 0, len(hops)
	for i > 0 && (hops[i-1] == 'E' || hops[i-1] == 'R') {
		if hops[i-1] == 'E' {
			embeds++
		}
		i--
	}
	switch {
	case embeds == 0 && i == 0:
		return asSeed
	case embeds == 1:
		return asEmbed // whatever page it is of has been judged
	case embeds > 1 && last == 'E':
		// It is an embed's embed: a font of a style, say. The style counts
		// as a page where it lies within the bounds itself.
		if via, err := weburl.Parse(l.Via); err == nil && s.within(via) {
			return asEmbed
		}
	}
	return asLink
}

// Judge says whether l belongs to the crawl. It is safe for concurrent use.
func (s *Scope) Judge(l weburl.Link) Verdict {
	if v, ok := s.plainly(&l); ok {
		return v
	}
	return s.ask(l)
}

// ask is Judge by the rules alone.
func (s *Scope) ask(l weburl.Link) Verdict {
	if l.URL.IsZero() {
		return Verdict{Reason: OutOfScope}
	}
	st := s.standing(l)
	for i := range rules {
		if rules[i].concerns[st] {
			if why := rules[i].judge(s, l, st); why != "" {
				return Verdict{Reason: why}
			}
		}
	}
	return Verdict{In: true}
}

// A rule judges links; concerns says of which standing.
type rule struct {
	name     string
	concerns [asPrerequisite + 1]bool
	judge    func(s *Scope, l weburl.Link, st standing) Reason
	// detail says what the rule looked at, for Explain.
	detail func(s *Scope, l weburl.Link) string
}

func over(n, limit int, why Reason) Reason {
	if limit >= 0 && n > limit {
		return why
	}
	return ""
}

// rules stand in the order in which they are asked, and the first that keeps a
// link out names the reason: the bounds before all else, for a trap outside of
// them is nobody's concern; then what is cheap.
var rules = []rule{
	{
		"scope", [...]bool{asLink: true, asPrerequisite: false},
		func(s *Scope, l weburl.Link, _ standing) Reason {
			if !s.within(l.URL) {
				return OutOfScope
			}
			return ""
		},
		(*Scope).explainKind,
	}, {
		"URL length", [...]bool{asLink: true, asEmbed: true, asPrerequisite: false},
		func(s *Scope, l weburl.Link, _ standing) Reason {
			return over(len(l.URL.String()), s.cfg.MaxURLLength, TrapURLLength)
		},
		func(s *Scope, l weburl.Link) string {
			return counted(len(l.URL.String()), s.cfg.MaxURLLength, "octets")
		},
	}, {
		"path length", [...]bool{asLink: true, asEmbed: true, asPrerequisite: false},
		func(s *Scope, l weburl.Link, _ standing) Reason {
			return over(segments(l.URL.Path()), s.cfg.MaxPathSegments, TrapPathLength)
		},
		func(s *Scope, l weburl.Link) string {
			return counted(segments(l.URL.Path()), s.cfg.MaxPathSegments, "segments")
		},
	}, {
		"repeated segments", [...]bool{asLink: true, asEmbed: true, asPrerequisite: false},
		func(s *Scope, l weburl.Link, _ standing) Reason {
			if most := s.cfg.MaxRepeatedSegments; most >= 0 && (repeats(l.URL.Path(), most) || crowded(l.URL.Path(), 2*most)) {
				return TrapRepeatedSegments
			}
			return ""
		},
		func(s *Scope, l weburl.Link) string {
			most := s.cfg.MaxRepeatedSegments
			if crowded(l.URL.Path(), 2*most) {
				return counted(commonest(l.URL.Path()), 2*most, "times in all")
			}
			return counted(repeated(l.URL.Path()), most, "times in a row")
		},
	}, {
		"query arguments", [...]bool{asLink: true, asEmbed: true, asPrerequisite: false},
		func(s *Scope, l weburl.Link, _ standing) Reason {
			return over(queryArgs(l.URL), s.cfg.MaxQueryArgs, TrapQueryArgs)
		},
		func(s *Scope, l weburl.Link) string {
			return counted(queryArgs(l.URL), s.cfg.MaxQueryArgs, "arguments")
		},
	}, {
		"calendar", [...]bool{asLink: true, asEmbed: true, asPrerequisite: false},
		func(s *Scope, l weburl.Link, _ standing) Reason {
			if s.lastYear != 0 && strayYear(l.URL, s.lastYear) != 0 {
				return TrapCalendar
			}
			return ""
		},
		func(s *Scope, l weburl.Link) string {
			if s.lastYear == 0 {
				return "off"
			}
			if y := strayYear(l.URL, s.lastYear); y != 0 {
				return fmt.Sprintf("a date in %d", y)
			}
			return "no date out of the way"
		},
	}, {
		"exclude", [...]bool{asLink: true, asEmbed: true, asSeed: true, asPrerequisite: false},
		func(s *Scope, l weburl.Link, _ standing) Reason {
			if s.exclude.any != nil && s.exclude.any.MatchString(l.URL.String()) {
				return Excluded
			}
			return ""
		},
		func(s *Scope, l weburl.Link) string { return s.exclude.explain(l.URL) },
	}, {
		"include", [...]bool{asLink: true, asPrerequisite: false},
		func(s *Scope, l weburl.Link, _ standing) Reason {
			if s.include.any != nil && !s.include.any.MatchString(l.URL.String()) {
				return NotIncluded
			}
			return ""
		},
		func(s *Scope, l weburl.Link) string { return s.include.explain(l.URL) },
	}, {
		"depth", [...]bool{asLink: true, asPrerequisite: false},
		func(s *Scope, l weburl.Link, _ standing) Reason {
			if s.cfg.Depth == nil {
				return ""
			}
			return over(l.Depth(), *s.cfg.Depth, TooDeep)
		},
		func(s *Scope, l weburl.Link) string {
			if s.cfg.Depth == nil {
				return fmt.Sprintf("%d links, no limit", l.Depth())
			}
			return counted(l.Depth(), *s.cfg.Depth, "links")
		},
	},
}
