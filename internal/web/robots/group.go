package robots

import (
	"slices"
	"strings"
	"time"
)

// A Group is what a robots.txt says to one agent: all its groups in one
// (RFC 9309, 2.2.1). The zero Group allows everything. It is immutable and
// does not hold on to the rest of the robots.txt.
type Group struct{ g *group }

type group struct {
	rules  []rule // the longest first, Allow before Disallow, the earlier line first
	normal []rule // the same with normalized patterns; nil where they are equal
	text   string // of all lines, one after the other
	lines  []numbered
	delay  time.Duration
	paced  bool
	memory int64

	key     uint64 // of sharing
	holders int    // guarded by sharing's lock
}

// numbered is a line in force, for writing the group down again.
type numbered struct {
	end  int32 // of its text in group.text
	line int32 // from 1
}

// lineText is the text of line i.
func (g *group) lineText(i int32) string {
	from := int32(0)
	if i > 0 {
		from = g.lines[i-1].end
	}
	return g.text[from:g.lines[i].end]
}

// Group selects what concerns agent, a product token such as "orbweaver":
// the groups that name it, else those for everyone. Letter case is ignored. As
// a product token has only letters, - and _ (RFC 9309, 2.2.1), "MJ12bot" is
// never named: a line for it names "MJ".
func (r *Rules) Group(agent string) Group { return r.group(agent, false) }

// CrawlerGroup selects what a crawler named agent obeys. It is Group, but for an
// agent with a digit in its name: that one obeys the groups that name it in full.
func (r *Rules) CrawlerGroup(agent string) Group {
	return r.group(agent, tokenLen(agent, false) < len(agent))
}

func (r *Rules) group(agent string, digits bool) Group {
	// A User-agent line after a rule begins a new group; any other line
	// leaves the list of agents open (RFC 9309, 2.2.4).
	collect := func(specific bool) (recs []record, ever bool) {
		var in, here, ruled bool
		for _, rec := range r.records {
			switch rec.kind {
			case userAgent:
				if ruled {
					in, here, ruled = false, false, false
				}
				if !specific && globalAgent(rec.value) || specific && !globalAgent(rec.value) && names(rec.value, agent, digits) {
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
	// One string holds the lines of the group: the body they came from is let go.
	n := 0
	for i := range recs {
		n += len(recs[i].text)
	}
	var all strings.Builder
	all.Grow(n)
	for i := range recs {
		all.WriteString(recs[i].text)
	}
	g := &group{text: all.String(), lines: make([]numbered, 0, len(recs))}
	differ := false
	end := 0
	for i, rec := range recs {
		end += len(rec.text)
		g.lines = append(g.lines, numbered{int32(end), rec.line})
		text, at := g.lineText(int32(i)), int32(i)
		switch rec.kind {
		case crawlDelay:
			if d, ok := seconds(rec.value); ok {
				g.delay, g.paced = max(g.delay, d), true
			}
		case allow, disallow:
			if rec.value == "" {
				continue // an empty rule is no rule
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

// groupBytes is a group without what it points to, its place in sharing and
// what the allocator rounds.
const groupBytes = 144 + 40 + 48

func (g *group) add(to *[]rule, pattern string, at int32, ok bool) {
	r := newRule(pattern)
	r.at, r.allow = at, ok
	*to = append(*to, r)
}

// indexOf turns /dir/index.html into /dir/$: who allows the one means the
// other as well. Google's habit, for Allow lines and nothing else.
func indexOf(pattern string) (dir string, ok bool) {
	i := strings.LastIndexByte(pattern, '/')
	if i < 0 || !strings.HasPrefix(pattern[i:], "/index.htm") {
		return "", false
	}
	return pattern[:i+1] + "$", true
}

// arrange sorts rules so that the first that matches decides, and drops those
// that can never be the first: repetitions.
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
	return slices.Clone(kept) // without the room that append left
}

// maxSteps bounds the work of one decision, to some ten milliseconds. The
// longest real files are a thousand times cheaper; one that is not is hostile.
const maxSteps = 1 << 24

// costly decides where the rules would take more than maxSteps.
var costly rule

const costlyText = "# rules too costly to match"

// decide returns the rule of the list that path falls under, nil where none
// does, and the steps taken.
func decide(rules []rule, path string) (r *rule, steps int) {
	for i := range rules {
		r := &rules[i]
		if steps > maxSteps {
			return &costly, steps
		}
		// Without a star, at most the $ is longer than what it matches.
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

// Allowed says whether Google's matcher would let the agent fetch the path and
// query, compared as they stand: "/a%6C" is not "/al". The longest rule decides,
// Allow where two are equally long (RFC 9309, 2.2.2). rule is the line that
// decided and line its number from 1; without such a line the path is allowed
// and they are empty. Rules that only a hostile file has, which would take
// more than 2^24 steps, forbid: rule then is a comment that says so.
func (g Group) Allowed(pathAndQuery string) (ok bool, rule string, line int) {
	if g.g == nil {
		return true, "", 0
	}
	return g.g.verdict(decide(g.g.rules, rooted(pathAndQuery)))
}

// Crawlable is what a crawler goes by: Allowed, and allowed also if both
// sides are normalized first, as the RFC has it; /robots.txt always is
// (RFC 9309, 2.2.2). Where the two readings differ, the one that forbids
// decides, since a canonical URL may no longer be spelt as its page spelt it.
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

// rooted gives a path its slash: "" and "?q" are "/" and "/?q" in a request.
func rooted(path string) string {
	if path == "" || path[0] != '/' {
		return "/" + path
	}
	return path
}

// CrawlDelay is the longest Crawl-delay of the group, as written but for a
// ceiling of 366 days; ok is false where there is none.
func (g Group) CrawlDelay() (d time.Duration, ok bool) {
	if g.g == nil {
		return 0, false
	}
	return g.g.delay, g.g.paced
}

// appendText appends a robots.txt that says to the agent what this group says,
// each line where it was.
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
