package record

import (
	"bytes"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/archive"
	"github.com/orbweaver/orbweaver/testweb"
)

// rules is what a recorded robots.txt says to one agent. It is the server's
// own reading (RFC 9309), for the truth about the crawler's.
type rules struct {
	list  []pathRule
	delay time.Duration
}

type pathRule struct {
	pattern string
	allow   bool
}

const (
	robotsBytes = 500 << 10 // RFC 9309, 2.5
	robotsHops  = 5         // redirects, RFC 9309, 2.3.1.2
	maxRules    = 5000
)

// readRobots reads the recorded robots.txt of every host.
func (a *Archive) readRobots() {
	for n := range a.hosts {
		h := &a.hosts[n]
		for i, secure := range [2]bool{false, true} {
			h.robots[i] = a.robotsOf(int64(n), secure)
			if r := h.robots[i]; r != nil {
				h.CrawlDelay = max(h.CrawlDelay, r.delay)
			}
		}
	}
}

// robotsOf follows the redirects from a host's robots.txt. What cannot be read
// or is no 2xx allows everything: only what was plainly forbidden is judged.
func (a *Archive) robotsOf(n int64, secure bool) *rules {
	target := "/robots.txt"
	for range robotsHops + 1 {
		c, _, ok := a.find(n, secure, target)
		if !ok {
			return nil
		}
		b, r := a.Answer(nil, testweb.Query{Host: n, Secure: secure, Target: target})
		switch {
		case r.Status/100 == 2:
			return a.readRules(c)
		case r.Status/100 != 3:
			return nil
		}
		to, err := url.Parse(headerValue(b[:r.HeadLen], "location"))
		if err != nil {
			return nil
		}
		base := &url.URL{Scheme: map[bool]string{false: "http", true: "https"}[secure], Host: a.hosts[n].Name, Path: target}
		l := locate(base.ResolveReference(to).String())
		if l.why != "" {
			return nil
		}
		if n, ok = a.Find(l.host); !ok {
			return nil
		}
		secure, target = l.secure, l.target
	}
	return nil
}

// headerValue is the first value of a field, given in lower case.
func headerValue(head []byte, name string) string {
	for line := range bytes.Lines(head) {
		if k, v, ok := bytes.Cut(line, []byte{':'}); ok && fold(bytes.TrimSpace(k), name) {
			return string(bytes.TrimSpace(v))
		}
	}
	return ""
}

func (a *Archive) readRules(c capture) *rules {
	rec, err := archive.At(io.NewSectionReader(a.files[c.body.file()], 0, 1<<62), c.body.offset())
	if err != nil {
		return nil
	}
	in, err := rec.Payload()
	if err != nil {
		return nil
	}
	b, _ := io.ReadAll(io.LimitReader(in, robotsBytes)) // what came before an error was said
	return parseRules(b, a.cfg.Agent)
}

// parseRules reads the groups that name agent, or else those that name *; nil
// where they forbid nothing and ask for nothing.
func parseRules(text []byte, agent string) *rules {
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
		switch key {
		case "user-agent":
			if inRules { // a new group
				forOwn, forAll, inRules = false, false, false
			}
			token, _, _ := strings.Cut(value, "/")
			if value == "*" {
				forAll = true
			} else if strings.EqualFold(strings.TrimSpace(token), agent) {
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
	if len(r.list) == 0 && r.delay == 0 {
		return nil
	}
	return r
}

func (r *rules) add(key, value string) {
	switch {
	case key == "crawl-delay":
		if f, err := strconv.ParseFloat(value, 64); err == nil && f > 0 && f < 1e6 {
			r.delay = time.Duration(f * float64(time.Second))
		}
	case value != "" && len(r.list) < maxRules:
		r.list = append(r.list, pathRule{string(appendPlain(nil, value, false)), key == "allow"})
	}
}

// forbids says whether the longest rule that fits the target forbids it, and
// which one that is.
func (r *rules) forbids(target string) (rule string, yes bool) {
	if r == nil || len(r.list) == 0 {
		return "", false
	}
	var buf [512]byte
	path := string(appendPlain(buf[:0], target, false))
	best := -1
	for _, p := range r.list {
		if n := len(p.pattern); n < best || n == best && !p.allow || !fits(p.pattern, path) {
			continue
		}
		best, yes, rule = len(p.pattern), !p.allow, p.pattern
	}
	if !yes {
		return "", false
	}
	return "disallow: " + rule, true
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
