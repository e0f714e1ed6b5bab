package scope

import (
	"strings"

	"github.com/orbweaver/orbweaver/internal/web/sheet"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// limits are the rules that may differ between parts of the web.
type limits struct {
	include, exclude *sheet.Patterns
	depth, hostDepth int // negative: no limit
}

// limits returns the limits of the whole crawl, as they are amended now.
func (s *Scope) limits() limits {
	l := limits{&s.include, &s.exclude, -1, -1}
	if s.cfg.Depth != nil {
		l.depth = *s.cfg.Depth
	}
	if s.cfg.HostDepth != nil {
		l.hostDepth = *s.cfg.HostDepth
	}
	s.amended.Load().amend(&l)
	return l
}

// at returns the limits for u.
func (s *Scope) at(u weburl.URL) limits {
	l := s.limits()
	t := s.cfg.Sheets.Table()
	if t == nil {
		return l
	}
	v := t.URL(u)
	if v.Include != nil {
		l.include = v.Include
	}
	if v.Exclude != nil {
		l.exclude = v.Exclude
	}
	if v.Depth != nil {
		l.depth = *v.Depth
	}
	if v.HostDepth != nil {
		l.hostDepth = *v.HostDepth
	}
	return l
}

// BoundsHostDepth reports whether any part of the web has a maximum HostDepth now. Safe for concurrent use.
func (s *Scope) BoundsHostDepth() bool {
	return s.cfg.HostDepth != nil || s.cfg.Sheets.Table().HasHostDepth()
}

// ruleOf returns the prefix whose setting keeps u out for a reason; "" if it is none.
func (s *Scope) ruleOf(u weburl.URL, why Reason) string {
	key := ""
	switch why {
	case Excluded:
		key = "exclude"
	case NotIncluded:
		key = "include"
	case TooDeep:
		key = "depth"
	case TooDeepInHost:
		key = "host-depth"
	default:
		return ""
	}
	if r := s.cfg.Sheets.Table().Decides(u, key); r != nil {
		return r.Text
	}
	return ""
}

// decides returns text about the prefix that gives a setting its value for u; "" if none does.
func (s *Scope) decides(u weburl.URL, key string) string {
	if r := s.cfg.Sheets.Table().Decides(u, key); r != nil {
		return "; by hosts: " + r.Text
	}
	return ""
}

// explainSheets returns a line for each prefix that holds for u, the most specific one first.
func (s *Scope) explainSheets(u weburl.URL) (lines []string) {
	for _, r := range s.cfg.Sheets.Table().Rules(u) {
		line := "hosts: " + r.Text
		if surt := r.Prefix.String(); surt != r.Text {
			line += ", which is " + surt + ","
		}
		lines = append(lines, line+" sets "+strings.Join(r.Keys(), ", "))
	}
	return lines
}
