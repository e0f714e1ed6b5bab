package testweb

import (
	"bytes"
	"strconv"
	"strings"
	"time"
)

// Robots is what a robots.txt says to one agent, read in the plainest way. It
// is the judge of the crawler's own reading, and so shares no code with it. A
// nil Robots forbids nothing and asks for nothing.
type Robots struct {
	rules []pathRule
	delay time.Duration
}

type pathRule struct {
	pattern string // in its plain spelling
	allow   bool
}

const (
	// RobotsBytes is how much of a robots.txt binds a crawler (RFC 9309, 2.5).
	RobotsBytes = 500 << 10
	// maxPathRules bounds what a request is compared with.
	maxPathRules = 5000
	// robotsKeeps are the bytes that mean something else unescaped, here or in a URL.
	robotsKeeps = Delimiters + "*$"
)

// ReadRobots reads the groups that name agent, or else those that name *; nil
// where they forbid nothing and ask for nothing. A name counts up to its version.
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
		if strings.IndexByte(body, '$') >= 0 { // only the last one means the end
			if p = strings.ReplaceAll(body, "$", "%24"); atEnd {
				p += "$"
			}
		}
		r.rules = append(r.rules, pathRule{p, key == "allow"})
	}
}

// CrawlDelay is what the agent is asked to wait between requests; 0: nothing.
func (r *Robots) CrawlDelay() time.Duration {
	if r == nil {
		return 0
	}
	return r.delay
}

// Forbids says whether the longest rule that fits a request target forbids it,
// and which one that is. Escapes are compared by what they mean (RFC 9309, 2.2.2).
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

// robotsTarget is a target's plain spelling, in which stars and dollars stand
// escaped: those of a pattern that stand for themselves are.
func robotsTarget(target string) string {
	for i := range len(target) {
		if c := target[i]; c <= ' ' || c == 0x7f || c == '%' || c == '*' || c == '$' {
			return escapeMarks.Replace(string(AppendPlain(nil, target, robotsKeeps)))
		}
	}
	return target
}

var escapeMarks = strings.NewReplacer("*", "%2A", "$", "%24")

// fits says whether pattern, with * for anything and $ for the end, is a prefix of path.
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
