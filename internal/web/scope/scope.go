package scope

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/sheet"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// Reason is the word in the logs for why a link is out.
type Reason string

const (
	OutOfScope           Reason = "outOfScope"           // outside of the kind's limits
	Excluded             Reason = "excluded"             // an exclude matches
	NotIncluded          Reason = "notIncluded"          // no include matches
	TooDeep              Reason = "tooDeep"              // too many links away from its seed
	TooDeepInHost        Reason = "tooDeepInHost"        // too many links away from where the crawl entered the host
	TrapURLLength        Reason = "trapURLLength"        // the URL is too long
	TrapPathLength       Reason = "trapPathLength"       // the path has too many segments
	TrapRepeatedSegments Reason = "trapRepeatedSegments" // the path repeats its segments
	TrapQueryArgs        Reason = "trapQueryArgs"        // the query has too many arguments
	TrapQueryExplosion   Reason = "trapQueryExplosion"   // the path has too many queries; see Queries
	TrapCalendar         Reason = "trapCalendar"         // a date that only an endless calendar shows
	Rejected             Reason = "rejected"             // Config.Accept says no
)

// Config selects what belongs to a crawl. The zero Config crawls the hosts of the seeds and avoids
// traps.
type Config struct {
	// Scope is how far from its seeds the crawl goes. Zero means Host.
	Scope Kind
	// Exclude are regular expressions in Go's syntax. They match anywhere in the canonical URL. A
	// URL that matches one is out, even a seed.
	Exclude []string
	// Include are regular expressions. A link must match at least one; seeds and embeds need not.
	// Empty means that all links may pass.
	Include []string
	// Depth is the maximum number of links from a seed. Zero crawls only the seeds and their
	// embeds. Nil means no limit.
	Depth *int
	// HostDepth is the maximum number of links from where the crawl entered the host: from a seed of the
	// host, or from a URL of it that a page of another host links to. Nil means no limit. The finder of a
	// link sets its depth if BoundsHostDepth; see link.Link.HostDepth.
	HostDepth *int
	// Accept is asked about links and embeds that pass all other rules, but not about seeds. If it
	// returns false, the link is out. It must always return the same for the same link, and is
	// called concurrently. Nil accepts all.
	Accept func(link.Link) bool
	// Sheets hold other values of Exclude, Include, Depth and HostDepth for parts of the web. Nil means none.
	Sheets *sheet.Live

	// The fields below guard against traps. Zero means the default, and a negative number switches
	// a guard off. Seeds are exempt.

	// MaxURLLength is the maximum length of a URL in octets. Zero means weburl.MaxLength, 2083.
	MaxURLLength int
	// MaxPathSegments is the maximum number of segments in a path. Zero means 20, as in Heritrix.
	MaxPathSegments int
	// MaxRepeatedSegments is how often a segment or a sequence of segments may stand in a row. With
	// 3, /a/b/a/b/a/b/ passes, and a fourth a/b does not. In total, a segment may stand twice as
	// often. Zero means 3.
	MaxRepeatedSegments int
	// MaxQueryArgs is the maximum number of arguments in a query. Zero means 32.
	MaxQueryArgs int
	// Today limits the dates in calendars: the crawl follows them up to two years after the year of
	// Today. The zero time switches this guard off.
	Today time.Time
}

const (
	defaultMaxSegments  = 20
	defaultMaxRepeated  = 3
	defaultMaxQueryArgs = 32
)

// A Judgement is the result for one link. Reason is empty if the link is in. Rule is the prefix of Config.Sheets whose
// setting keeps the link out; empty: none.
type Judgement struct {
	In     bool
	Reason Reason
	Rule   string
}

// Scope judges links. Make one with New.
type Scope struct {
	cfg              Config
	seeds            *seeds
	later            laterSeeds
	exclude, include sheet.Patterns
	lastYear         int // the last year to follow in calendars; 0 means no limit
	amended          atomic.Pointer[amended]
}

// New returns a Scope for the seeds in from. Its errors are errors in the configuration: a bad
// regular expression, an unknown kind or a negative depth. Each error names the value and its
// position. If several expressions are bad, the error names all of them.
func New(cfg Config, from []weburl.URL) (*Scope, error) {
	if int(cfg.Scope) >= len(kinds) {
		return nil, fmt.Errorf("scope %v: unknown; use page, prefix, host, domain or any", cfg.Scope)
	}
	if cfg.Depth != nil && *cfg.Depth < 0 {
		return nil, fmt.Errorf("depth %d: must not be negative; 0 crawls only the seeds, omit it for no limit",
			*cfg.Depth)
	}
	if cfg.HostDepth != nil && *cfg.HostDepth < 0 {
		return nil, fmt.Errorf("host depth %d: must not be negative; omit it for no limit", *cfg.HostDepth)
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
	if s.exclude, err = sheet.Compile("exclude", cfg.Exclude); err != nil {
		errs = append(errs, err)
	}
	if s.include, err = sheet.Compile("include", cfg.Include); err != nil {
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

// AddSeed adds u, the target of a seed's redirects, to the seeds. Call it when a link that has only
// R hops is accepted, and again after a restart for such links in the journal. Repeated calls are
// cheap. Safe for concurrent use.
func (s *Scope) AddSeed(u weburl.URL) {
	if !u.IsZero() && !s.seeds.has(s.cfg.Scope, u) && !s.later.has(s.cfg.Scope, u) { // an Amendment may end
		s.later.add(s.cfg.Scope, u)
	}
}

func (s *Scope) within(u weburl.URL) bool {
	return s.seeds.has(s.cfg.Scope, u) || s.later.has(s.cfg.Scope, u) || s.amended.Load().has(s.cfg.Scope, u)
}

// role is what a link is for the crawl. It follows from how the link was found.
type role uint8

const (
	asLink role = iota
	asEmbed
	asSeed
	asSitemap
	asPrerequisite
)

func (s *Scope) role(l link.Link) role {
	hops := l.Hops
	if hops == "" {
		return asSeed
	}
	if l.Refetches() > 0 {
		return asSeed // it was in scope, however it was found
	}
	last := hops[len(hops)-1]
	if last == 'P' {
		return asPrerequisite
	}
	if l.IsSitemap() {
		return asSitemap
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
		return asEmbed // its page has been judged already
	case embeds > 1 && last == 'E':
		// An embed embeds something, for example a style that loads a font. The style counts as a
		// page if it is within the limits itself.
		if via, err := weburl.Parse(l.Via); err == nil && s.reaches(&l, via) {
			return asEmbed
		}
	}
	return asLink
}

// Judge returns the verdict on l. Safe for concurrent use.
func (s *Scope) Judge(l link.Link) Judgement {
	if v, ok := s.judgeFast(&l); ok {
		return v
	}
	return s.judgeByRules(l)
}

// judgeByRules is Judge without the fast path.
func (s *Scope) judgeByRules(l link.Link) Judgement {
	if l.URL.IsZero() {
		return Judgement{Reason: OutOfScope}
	}
	st := s.role(l)
	for i := range rules {
		if rules[i].applies[st] {
			if why := rules[i].judge(s, l, st); why != "" {
				return Judgement{Reason: why, Rule: s.ruleOf(l.URL, why)}
			}
		}
	}
	return Judgement{In: true}
}

// A rule judges the links whose role it applies to.
type rule struct {
	name    string
	applies [asPrerequisite + 1]bool
	judge   func(s *Scope, l link.Link, st role) Reason
	// detail returns what the rule looked at, for Explain.
	detail func(s *Scope, l link.Link) string
}

// listsFor reports whether l is a sitemap of the host of its seed, if only a part of the host is in scope.
func (s *Scope) listsFor(l *link.Link) bool {
	return (s.cfg.Scope == Page || s.cfg.Scope == Prefix) && l.Seed != "" &&
		bareHost(l.URL.Host()) == bareHost(l.Seed)
}

// below returns how many links deeper the pages are for which the crawl fetches a URL: those that a sitemap lists.
func below(st role) int {
	if st == asSitemap {
		return 1
	}
	return 0
}

func over(n, limit int, why Reason) Reason {
	if limit >= 0 && n > limit {
		return why
	}
	return ""
}

// rules stand in the order in which they are applied. The first rule that keeps a link out gives
// the reason. The limits of the kind come first, because a trap outside of them does not matter.
// Cheap rules come next.
var rules = []rule{
	{
		"scope", [...]bool{asLink: true, asSitemap: true, asPrerequisite: false},
		func(s *Scope, l link.Link, st role) Reason {
			if !s.reaches(&l, l.URL) && (st != asSitemap || !s.listsFor(&l)) {
				return OutOfScope
			}
			return ""
		},
		(*Scope).explainKind,
	}, {
		"URL length", [...]bool{asLink: true, asEmbed: true, asSitemap: true, asPrerequisite: false},
		func(s *Scope, l link.Link, _ role) Reason {
			return over(len(l.URL.String()), s.cfg.MaxURLLength, TrapURLLength)
		},
		func(s *Scope, l link.Link) string {
			return counted(len(l.URL.String()), s.cfg.MaxURLLength, "octet", "")
		},
	}, {
		"path length", [...]bool{asLink: true, asEmbed: true, asSitemap: true, asPrerequisite: false},
		func(s *Scope, l link.Link, _ role) Reason {
			return over(segments(l.URL.Path()), s.cfg.MaxPathSegments, TrapPathLength)
		},
		func(s *Scope, l link.Link) string {
			return counted(segments(l.URL.Path()), s.cfg.MaxPathSegments, "segment", "")
		},
	}, {
		"repeated segments", [...]bool{asLink: true, asEmbed: true, asSitemap: true, asPrerequisite: false},
		func(s *Scope, l link.Link, _ role) Reason {
			most, path := s.cfg.MaxRepeatedSegments, l.URL.Path()
			if most >= 0 && (repeats(path, most) || crowded(path, 2*most)) {
				return TrapRepeatedSegments
			}
			return ""
		},
		func(s *Scope, l link.Link) string {
			most := s.cfg.MaxRepeatedSegments
			if crowded(l.URL.Path(), 2*most) {
				return counted(commonest(l.URL.Path()), 2*most, "time", " in total")
			}
			return counted(repeated(l.URL.Path()), most, "time", " in a row")
		},
	}, {
		"query arguments", [...]bool{asLink: true, asEmbed: true, asSitemap: true, asPrerequisite: false},
		func(s *Scope, l link.Link, _ role) Reason {
			return over(queryArgs(l.URL), s.cfg.MaxQueryArgs, TrapQueryArgs)
		},
		func(s *Scope, l link.Link) string {
			return counted(queryArgs(l.URL), s.cfg.MaxQueryArgs, "argument", "")
		},
	}, {
		"calendar", [...]bool{asLink: true, asEmbed: true, asSitemap: true, asPrerequisite: false},
		func(s *Scope, l link.Link, _ role) Reason {
			if s.lastYear != 0 && strayYear(l.URL, s.lastYear) != 0 {
				return TrapCalendar
			}
			return ""
		},
		func(s *Scope, l link.Link) string {
			if s.lastYear == 0 {
				return "off"
			}
			if y := strayYear(l.URL, s.lastYear); y != 0 {
				return fmt.Sprintf("a date in %d", y)
			}
			return "no implausible date"
		},
	}, {
		"exclude", [...]bool{asLink: true, asEmbed: true, asSeed: true, asSitemap: true, asPrerequisite: false},
		func(s *Scope, l link.Link, _ role) Reason {
			if s.at(l.URL).exclude.Match(l.URL.String()) {
				return Excluded
			}
			return ""
		},
		func(s *Scope, l link.Link) string {
			return s.at(l.URL).exclude.Explain(l.URL.String()) + s.decides(l.URL, "exclude")
		},
	}, {
		"include", [...]bool{asLink: true, asPrerequisite: false},
		func(s *Scope, l link.Link, _ role) Reason {
			if in := s.at(l.URL).include; !in.None() && !in.Match(l.URL.String()) {
				return NotIncluded
			}
			return ""
		},
		func(s *Scope, l link.Link) string {
			return s.at(l.URL).include.Explain(l.URL.String()) + s.decides(l.URL, "include")
		},
	}, {
		"depth", [...]bool{asLink: true, asSitemap: true, asPrerequisite: false},
		func(s *Scope, l link.Link, st role) Reason {
			return over(l.Depth()+below(st), s.at(l.URL).depth, TooDeep)
		},
		func(s *Scope, l link.Link) string {
			depth, by := s.at(l.URL).depth, s.decides(l.URL, "depth")
			if depth < 0 {
				return fmt.Sprintf("%s, no limit%s", english.Plural(l.Depth(), "link", ""), by)
			}
			return counted(l.Depth(), depth, "link", "") + by
		},
	}, {
		"host depth", [...]bool{asLink: true, asSitemap: true, asPrerequisite: false},
		func(s *Scope, l link.Link, st role) Reason {
			return over(l.HostDepth()+below(st), s.at(l.URL).hostDepth, TooDeepInHost)
		},
		func(s *Scope, l link.Link) string {
			depth, by := s.at(l.URL).hostDepth, s.decides(l.URL, "host-depth")
			if depth < 0 {
				return "no limit" + by
			}
			return counted(l.HostDepth(), depth, "link", " within the host") + by
		},
	}, {
		acceptRule, [...]bool{asLink: true, asEmbed: true, asSitemap: true, asPrerequisite: false},
		func(s *Scope, l link.Link, _ role) Reason {
			if s.cfg.Accept != nil && !s.cfg.Accept(l) {
				return Rejected
			}
			return ""
		},
		func(*Scope, link.Link) string { return "a function of the program" },
	},
}

// acceptRule is the name of the rule that asks Config.Accept.
const acceptRule = "accept"
