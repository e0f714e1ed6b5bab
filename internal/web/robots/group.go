package robots

import (
	"slices"
	"strings"
	"time"
)

// A Group is what a robots.txt says to one agent: all groups for this agent merged (RFC 9309,
// 2.2.1). The zero Group allows everything. A Group is immutable and does not keep the rest of the
// robots.txt in memory.
type Group struct{ g *group }

type group struct {
	rules    []rule // sorted: longest first, then Allow before Disallow, then by line
	normal   []rule // the same rules with normalized patterns; nil if the patterns are equal
	text     string // the text of all lines, one after the other
	lines    []numberedLine
	delay    time.Duration
	hasDelay bool
	memory   int64

	key     uint64 // the group's key in sharing
	holders int    // number of users of a shared group; guarded by sharing.mu
}

// numberedLine is a line of the group. It is kept for writing the group down again.
type numberedLine struct {
	end  int32 // where its text ends in group.text
	line int32 // its number in the file, from 1
}

// lineText returns the text of line i of the group.
func (g *group) lineText(i int32) string {
	from := int32(0)
	if i > 0 {
		from = g.lines[i-1].end
	}
	return g.text[from:g.lines[i].end]
}

// Group returns what concerns agent, a product token such as "orbweaver": the groups that name it,
// or else the groups for everyone. Letter case is ignored. A product token has only letters, - and
// _ (RFC 9309, 2.2.1). So no line names "MJ12bot": a line with this value names "MJ".
func (r *Rules) Group(agent string) Group { return r.group(agent, false) }

// CrawlerGroup returns what a crawler named agent obeys. It is Group, except for an agent with a
// digit in its name: that agent obeys the groups that name it in full.
func (r *Rules) CrawlerGroup(agent string) Group {
	return r.group(agent, tokenLen(agent, false) < len(agent))
}

func (r *Rules) group(agent string, digits bool) Group {
	// A User-agent line after a rule begins a new group. Any other line leaves the list of agents
	// open (RFC 9309, 2.2.4).
	collect := func(specific bool) (recs []record, ever bool) {
		var in, here, ruled bool
		for _, rec := range r.records {
			switch rec.kind {
			case userAgent:
				if ruled {
					in, here, ruled = false, false, false
				}
				everyone := globalAgent(rec.value)
				if everyone != specific && (everyone || namesAgent(rec.value, agent, digits)) {
					if !ever {
						recs = append(recs, rec)
					}
					in, ever = true, true
				}
				here = true
			case crawlDelay:
				if in {
					recs = append(recs, rec)
				}
			default:
				// A rule before any User-agent line belongs to no group.
				ruled = ruled || here
				if in {
					recs = append(recs, rec)
				}
			}
		}
		return recs, ever
	}
	recs, ever := collect(true)
	if !ever {
		recs, ever = collect(false)
	}
	if !ever {
		return Group{}
	}
	return Group{compile(recs)}
}

func compile(recs []record) *group {
	// One string holds the lines of the group, so that the memory of the body can be freed.
	n := 0
	for i := range recs {
		n += len(recs[i].text)
	}
	var all strings.Builder
	all.Grow(n)
	for i := range recs {
		all.WriteString(recs[i].text)
	}
	g := &group{text: all.String(), lines: make([]numberedLine, 0, len(recs))}
	differ := false
	end := 0
	for i, rec := range recs {
		end += len(rec.text)
		g.lines = append(g.lines, numberedLine{int32(end), rec.line})
		text, at := g.lineText(int32(i)), int32(i)
		switch rec.kind {
		case crawlDelay:
			if d, ok := seconds(rec.value); ok {
				g.delay, g.hasDelay = max(g.delay, d), true
			}
		case allow, disallow:
			if rec.value == "" {
				continue // an empty rule has no effect
			}
			// The value stands at the end of the line.
			value := escape(text[len(text)-len(rec.value):])
			differ = differ || !normal(value)
			g.add(&g.rules, value, at, rec.kind == allow)
			if dir, ok := indexOf(value); ok && rec.kind == allow {
				g.add(&g.rules, dir, at, true)
			}
		}
	}
	if differ {
		g.normal = make([]rule, 0, len(g.rules))
		for i := range g.rules {
			r := &g.rules[i]
			g.add(&g.normal, normalize(r.pattern), r.at, r.allow)
		}
	}
	g.rules = arrange(g.rules)
	g.normal = arrange(g.normal)
	g.memory = groupBytes + int64(n) + 8*int64(len(g.lines))
	for _, list := range [...][]rule{g.rules, g.normal} {
		for i := range list {
			g.memory += 56 + int64(len(list[i].pattern)) + 2*int64(len(list[i].fail))
		}
	}
	return g
}

// groupBytes is the size of a group without the memory it points to, plus its place in sharing and
// the allocator's rounding.
const groupBytes = 144 + 40 + 48

func (g *group) add(to *[]rule, pattern string, at int32, ok bool) {
	r := newRule(pattern)
	r.at, r.allow = at, ok
	*to = append(*to, r)
}

// indexOf turns /dir/index.html into /dir/$: an Allow of the first also allows the second. Google's
// matcher does so for Allow lines only.
func indexOf(pattern string) (dir string, ok bool) {
	i := strings.LastIndexByte(pattern, '/')
	if i < 0 || !strings.HasPrefix(pattern[i:], "/index.htm") {
		return "", false
	}
	return pattern[:i+1] + "$", true
}

// arrange sorts rules so that the first match decides. It drops repetitions, which can never be the
// first match.
func arrange(rules []rule) []rule {
	slices.SortStableFunc(rules, func(a, b rule) int {
		if c := len(b.pattern) - len(a.pattern); c != 0 {
			return c
		}
		if a.allow != b.allow {
			if a.allow {
				return -1
			}
			return 1
		}
		return int(a.at - b.at)
	})
	seen := make(map[string]bool, len(rules))
	kept := rules[:0]
	for _, r := range rules {
		if !seen[r.pattern] {
			seen[r.pattern] = true
			kept = append(kept, r)
		}
	}
	return slices.Clone(kept) // without append's spare capacity
}

// maxSteps limits the work of one decision to about ten milliseconds. The longest real files need a
// thousandth of it; a file that needs more is hostile.
const maxSteps = 1 << 24

// costly is the deciding rule if the rules would take more than maxSteps.
var costly rule

const costlyText = "# rules too costly to match"

// decide returns the rule of the list that decides about path, or nil if no rule matches, and the
// number of steps.
func decide(rules []rule, path string) (r *rule, steps int) {
	for i := range rules {
		r := &rules[i]
		if steps > maxSteps {
			return &costly, steps
		}
		// Without a star, a pattern is at most one byte, the $, longer than the path that it
		// matches.
		if r.fail == nil && len(r.pattern) > len(path)+1 {
			steps++
			continue
		}
		ok, n := r.match(path)
		steps += n + 1
		if ok {
			return r, steps
		}
	}
	return nil, steps
}

// Allowed reports whether Google's matcher would let the agent fetch the path and query. It
// compares them literally: "/a%6C" is not "/al". The longest rule decides, and Allow decides
// between equally long rules (RFC 9309, 2.2.2). rule is the deciding line, and line is its number
// from 1. If no line decides, the path is allowed, rule is empty and line is 0.
//
// If the decision would take more than 2^24 steps, which happens only with a hostile file, the path
// is denied. rule is then a comment that says so, and line is 0.
func (g Group) Allowed(pathAndQuery string) (ok bool, rule string, line int) {
	if g.g == nil {
		return true, "", 0
	}
	return g.g.verdict(decide(g.g.rules, rooted(pathAndQuery)))
}

// Crawlable reports whether a crawler may fetch the path and query. Both Allowed and a comparison
// of the normalized forms must allow it (RFC 9309, 2.2.2); the stricter result counts, because a
// canonical URL may differ in spelling from the URL on its page. /robots.txt is always allowed.
// rule and line are as in Allowed.
func (g Group) Crawlable(pathAndQuery string) (ok bool, rule string, line int) {
	if g.g == nil || pathAndQuery == "/robots.txt" {
		return true, "", 0
	}
	path := rooted(pathAndQuery)
	ok, rule, line = g.g.verdict(decide(g.g.rules, path))
	if !ok {
		return ok, rule, line
	}
	rules, same := g.g.normal, normal(path)
	if rules == nil {
		if same {
			return ok, rule, line
		}
		rules = g.g.rules
	}
	if !same {
		path = normalize(path)
	}
	if ok, r, n := g.g.verdict(decide(rules, path)); !ok {
		return ok, r, n
	}
	return ok, rule, line
}

func (g *group) verdict(r *rule, _ int) (ok bool, text string, line int) {
	switch r {
	case nil:
		return true, "", 0
	case &costly:
		return false, costlyText, 0
	}
	return r.allow, g.lineText(r.at), int(g.lines[r.at].line)
}

// rooted adds the leading slash: a request has "/" for "" and "/?q" for "?q".
func rooted(path string) string {
	if path == "" || path[0] != '/' {
		return "/" + path
	}
	return path
}

// CrawlDelay returns the longest Crawl-delay of the group, but at most 366 days. ok is false if
// there is none.
func (g Group) CrawlDelay() (d time.Duration, ok bool) {
	if g.g == nil {
		return 0, false
	}
	return g.g.delay, g.g.hasDelay
}

// appendText appends a robots.txt that says the same to the agent as this group. Each line keeps
// its number.
func (g Group) appendText(dst []byte) []byte {
	if g.g == nil {
		return dst
	}
	at := int32(1)
	for i, l := range g.g.lines {
		for ; at < l.line; at++ {
			dst = append(dst, '\n')
		}
		dst = append(dst, g.g.lineText(int32(i))...)
	}
	return dst
}
