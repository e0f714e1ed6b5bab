package testweb

import (
	"bytes"
	"strconv"
	"strings"
	"time"
)

// rules is what a robots.txt says to one agent, read in the plainest way: this
// is the judge of the crawler's own reading, for the files that the tests
// write, and no parser for the web's.
type rules struct {
	list  []pathRule
	delay time.Duration
}

type pathRule struct {
	pattern string
	allow   bool
}

// readBytes is how much of a robots.txt binds a crawler (RFC 9309, 2.5).
const readBytes = 500 << 10

// readRules reads the groups that name agent, or else those that name *.
func readRules(text []byte, agent string) *rules {
	text = text[:min(len(text), readBytes)]
	var own, all rules
	var foundOwn, forOwn, forAll, inRules bool
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	for line := range strings.FieldsFuncSeq(string(text), func(r rune) bool { return r == '\n' || r == '\r' }) {
		line, _, _ = strings.Cut(line, "#")
		key, value, ok := strings.Cut(line, ":")
		if !ok {
			continue
		}
		key, value = strings.ToLower(strings.TrimSpace(key)), strings.TrimSpace(value)
		if key == "user-agent" {
			if inRules { // a new group
				forOwn, forAll, inRules = false, false, false
			}
			switch {
			case value == "*":
				forAll = true
			case strings.EqualFold(value, agent):
				forOwn, foundOwn = true, true
			}
			continue
		}
		if key != "allow" && key != "disallow" && key != "crawl-delay" {
			continue
		}
		inRules = true
		for _, to := range []struct {
			r  *rules
			on bool
		}{{&own, forOwn}, {&all, forAll}} {
			switch {
			case !to.on:
			case key == "crawl-delay":
				if f, err := strconv.ParseFloat(value, 64); err == nil && f > 0 && f < 1e6 {
					to.r.delay = time.Duration(f * float64(time.Second))
				}
			case value != "":
				to.r.list = append(to.r.list, pathRule{value, key == "allow"})
			}
		}
	}
	if foundOwn {
		return &own
	}
	return &all
}

// forbids says whether the longest rule that fits path forbids it, and which one that is.
func (r *rules) forbids(path string) (rule string, yes bool) {
	if r == nil {
		return "", false
	}
	best := -1
	for _, p := range r.list {
		if n := len(p.pattern); n < best || n == best && !p.allow || !fits(p.pattern, path) {
			continue
		}
		best, yes, rule = len(p.pattern), !p.allow, "disallow: "+p.pattern
	}
	return rule, yes
}

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
