package scope

import (
	"fmt"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/orbweaver/orbweaver/internal/web/link"
)

// Explain returns lines for a person to read: the role of l, the result of each rule, and in the
// last line the verdict.
func (s *Scope) Explain(l link.Link) []string {
	if l.URL.IsZero() {
		return []string{"verdict: out, " + string(OutOfScope) + ": no URL"}
	}
	st := s.role(l)
	lines := append([]string{"role: " + describe(st, l)}, s.explainSheets(l.URL)...)
	for i := range rules {
		r := &rules[i]
		if r.name == acceptRule && s.cfg.Accept == nil {
			continue // only a program can give one
		}
		if !r.applies[st] {
			lines = append(lines, r.name+": not applied")
			continue
		}
		word := "in"
		if why := r.judge(s, l, st); why != "" {
			word = "out, " + string(why)
		}
		lines = append(lines, fmt.Sprintf("%s: %s (%s)", r.name, word, r.detail(s, l)))
	}
	if v := s.Judge(l); v.In {
		lines = append(lines, "verdict: in")
	} else {
		lines = append(lines, "verdict: out, "+string(v.Reason))
	}
	return lines
}

func describe(st role, l link.Link) string {
	switch st {
	case asSeed:
		if l.Hops == "" {
			return "a seed"
		}
		return "a seed, because a seed redirects here"
	case asPrerequisite:
		return "a prerequisite"
	case asSitemap:
		return fmt.Sprintf("a sitemap, hops %s; the pages that it lists are one link deeper", l.Hops)
	case asEmbed:
		return fmt.Sprintf("an embed, hops %s", l.Hops)
	}
	return fmt.Sprintf("a link, hops %s", l.Hops)
}

// counted returns how many of at most limit there are. after follows the noun.
func counted(n, limit int, what, after string) string {
	if limit < 0 {
		return "off"
	}
	return fmt.Sprintf("%d of at most %d %s%s", n, limit, english.PluralWord(limit, what, ""), after)
}

func (s *Scope) explainKind(l link.Link) string {
	what := map[Kind]string{
		Any: "any URL", Page: "only the seeds", Host: "host " + bareHost(l.URL.Host()),
		Prefix: "prefix " + bareHost(l.URL.Host()) + explicitPort(l.URL) + dirOf(l.URL).path,
		Domain: "domain " + l.URL.Site(),
	}[s.cfg.Scope]
	if s.cfg.Scope == Any {
		return what
	}
	return fmt.Sprintf("%s; the seeds have %s", what, orNone(s.examples()))
}

func orNone(known []string) string {
	if len(known) == 0 {
		return "none"
	}
	if len(known) > 3 {
		known = append(known[:3:3], "...")
	}
	return strings.Join(known, ", ")
}
