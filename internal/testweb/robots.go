package testweb

import (
	"bytes"
	"strconv"
	"strings"
	"time"
)

// Robots holds the rules of a robots.txt for one agent, read in the simplest way. The tracker judges a crawler's
// reading by it, so it shares no code with the crawler. A nil Robots forbids nothing and asks for no delay.
type Robots struct {
	rules []pathRule
	delay time.Duration
}

type pathRule struct {
	pattern string // in plain spelling (AppendPlain)
	allow   bool
}

const (
	// RobotsBytes is how many bytes of a robots.txt a crawler must read (RFC 9309, 2.5).
	RobotsBytes = 500 << 10
	// maxPathRules bounds the number of rules that a request is compared with.
	maxPathRules = 5000
	// robotsKeeps are the bytes that have another meaning if they are not escaped, in a rule or in a URL.
	robotsKeeps = Delimiters + "*$"
)

// ReadRobots reads the groups for agent or, if there are none, those for *. It returns nil if they forbid nothing and
// ask for no delay. A version after the name of an agent is ignored.
func ReadRobots(text []byte, agent string) *Robots {
	text = text[:min(len(text), RobotsBytes)]
	var own, all Robots
	var foundOwn, forOwn, forAll, inRules bool
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	for line := range strings.FieldsFuncSeq(string(text), func(r rune) bool { return r == '\n' || r == '\r' }) {
		line, _, _ = strings.Cut(line, "#")
		key, value, ok := strings.Cut(line, ":")
		if !ok {
			continue
		}
		key, value = strings.ToLower(strings.TrimSpace(key)), strings.TrimSpace(value)
		switch key {
		case "user-agent":
			if inRules { // a new group
				forOwn, forAll, inRules = false, false, false
			}
			name, _, _ := strings.Cut(value, "/")
			if value == "*" {
				forAll = true
			} else if strings.EqualFold(strings.TrimSpace(name), agent) {
				forOwn, foundOwn = true, true
			}
		case "allow", "disallow", "crawl-delay":
			inRules = true
			if forOwn {
				own.add(key, value)
			}
			if forAll {
				all.add(key, value)
			}
		}
	}
	r := &all
	if foundOwn {
		r = &own
	}
	if len(r.rules) == 0 && r.delay == 0 {
		return nil
	}
	return r
}

func (r *Robots) add(key, value string) {
	switch {
	case key == "crawl-delay":
		if f, err := strconv.ParseFloat(value, 64); err == nil && f > 0 && f < 1e6 {
			r.delay = time.Duration(f * float64(time.Second))
		}
	case value != "" && len(r.rules) < maxPathRules:
		p := string(AppendPlain(nil, value, robotsKeeps))
		body, atEnd := strings.CutSuffix(p, "$")
		if strings.IndexByte(body, '$') >= 0 { // only the last $ means the end of the path
			if p = strings.ReplaceAll(body, "$", "%24"); atEnd {
				p += "$"
			}
		}
		r.rules = append(r.rules, pathRule{p, key == "allow"})
	}
}

// CrawlDelay returns the delay between requests that the file asks for; 0: none.
func (r *Robots) CrawlDelay() time.Duration {
	if r == nil {
		return 0
	}
	return r.delay
}

// Forbids reports whether the longest rule that matches a request target forbids it, and returns that rule. It compares
// escapes by their meaning (RFC 9309, 2.2.2).
func (r *Robots) Forbids(target string) (rule string, yes bool) {
	if r == nil || len(r.rules) == 0 {
		return "", false
	}
	target = robotsTarget(target)
	best := -1
	for _, p := range r.rules {
		if n := len(p.pattern); n < best || n == best && !p.allow || !fits(p.pattern, target) {
			continue
		}
		best, yes, rule = len(p.pattern), !p.allow, p.pattern
	}
	if !yes {
		return "", false
	}
	return "disallow: " + rule, true
}

// robotsTarget returns the plain spelling of a target, with * and $ escaped, because in a pattern they have a meaning
// unless they are escaped.
func robotsTarget(target string) string {
	for i := range len(target) {
		if c := target[i]; c <= ' ' || c == 0x7f || c == '%' || c == '*' || c == '$' {
			return escapeMarks.Replace(string(AppendPlain(nil, target, robotsKeeps)))
		}
	}
	return target
}

var escapeMarks = strings.NewReplacer("*", "%2A", "$", "%24")

// fits reports whether pattern matches a prefix of path. In the pattern * stands for anything and $ for the end.
func fits(pattern, path string) bool {
	whole := strings.HasSuffix(pattern, "$")
	parts := strings.Split(strings.TrimSuffix(pattern, "$"), "*")
	if !strings.HasPrefix(path, parts[0]) {
		return false
	}
	rest := path[len(parts[0]):]
	for i, p := range parts[1:] {
		if whole && i == len(parts)-2 {
			return strings.HasSuffix(rest, p)
		}
		k := strings.Index(rest, p)
		if k < 0 {
			return false
		}
		rest = rest[k+len(p):]
	}
	return !whole || rest == ""
}
