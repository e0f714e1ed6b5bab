package review

import (
	"encoding/base32"
	"slices"
	"strings"

	"github.com/orbweaver/orbweaver/internal/report"
)

// maxHops is how many URLs of a chain the Review keeps.
const maxHops = 30

// chains finds the longest chains of redirects. A line of crawl.log names only the URL before it (via), so the lines of
// redirects wait here for the lines that follow from them. At most limit of them wait. If the oldest ones were dropped,
// the beginning of a chain is missing; its length is still that of the line's path.
//
// A chain often ends at a URL that the crawl has met before. Then the line of its last redirect is its last line.
type chains struct {
	limit   int
	top     top[Chain]
	last    map[string]int // how many chains of top end with this URL
	waiting map[string]waiting
	order   []string           // the waiting URLs in the order in which they came
	at      [maxHops + 1]int64 // how many redirects were the first of their chain, the second, and so on
}

type waiting struct {
	via    string // empty: the first of its chain
	status int
}

func newChains(lists, limit int) *chains {
	return &chains{
		limit:   limit,
		top:     top[Chain]{limit: lists, key: func(c *Chain) int64 { return int64(c.Redirects) }},
		last:    map[string]int{},
		waiting: map[string]waiting{},
	}
}

// add counts the line of a response.
func (c *chains) add(l *report.Line) {
	n := len(l.Hops) - len(strings.TrimRight(l.Hops, "R")) // redirects that led to it
	redirects := l.Code >= 300 && l.Code < 400 && l.Code != 304
	if !redirects && n == 0 || len(l.URL) > maxText || len(l.Via) > maxText {
		return
	}
	length := n
	if redirects {
		length++
		c.at[min(n, maxHops)]++
	}
	if n > 0 && c.last[l.Via] > 0 { // the line continues a chain of the list
		i := slices.IndexFunc(c.top.list, func(e Chain) bool { return e.Hops[len(e.Hops)-1].URL == l.Via })
		chain := c.top.list[i]
		c.top.list = slices.Delete(c.top.list, i, i+1)
		c.forget(chain)
		c.keep(Chain{Redirects: length, Status: l.Code, Note: note(l),
			Hops: append(chain.Hops[:min(len(chain.Hops), maxHops-1)], Hop{strings.Clone(l.URL), l.Code})})
	} else if c.top.wants(int64(length)) {
		c.keep(Chain{Redirects: length, Status: l.Code, Note: note(l), Hops: c.hops(l, n)})
	}
	if redirects {
		c.wait(l, n)
	}
}

// keep adds a chain to the list.
func (c *chains) keep(chain Chain) {
	if len(c.top.list) == c.top.limit {
		c.forget(c.top.list[len(c.top.list)-1])
	}
	c.top.add(chain)
	c.last[chain.Hops[len(chain.Hops)-1].URL]++
}

func (c *chains) forget(chain Chain) {
	u := chain.Hops[len(chain.Hops)-1].URL
	if c.last[u]--; c.last[u] == 0 {
		delete(c.last, u)
	}
}

// hops returns the chain that ends with l, as far as its lines are known.
func (c *chains) hops(l *report.Line, n int) []Hop {
	hops := []Hop{{strings.Clone(l.URL), l.Code}}
	for via := l.Via; n > 0 && via != "" && len(hops) < maxHops; n-- {
		w := c.waiting[via]
		hops = append(hops, Hop{strings.Clone(via), w.status})
		via = w.via
	}
	slices.Reverse(hops)
	return hops
}

// wait keeps the line of a redirect.
func (c *chains) wait(l *report.Line, n int) {
	if _, known := c.waiting[l.URL]; known {
		return
	}
	if len(c.order) >= c.limit {
		half := (c.limit + 1) / 2
		for _, u := range c.order[:half] {
			delete(c.waiting, u)
		}
		c.order = slices.Clone(c.order[half:])
	}
	w := waiting{status: l.Code}
	if n > 0 {
		w.via = strings.Clone(l.Via)
	}
	u := strings.Clone(l.URL)
	c.waiting[u] = w
	c.order = append(c.order, u)
}

func note(l *report.Line) string {
	for _, s := range l.Notes {
		if s == "too-many-redirects" || s == "bad-redirect" {
			return s
		}
	}
	return ""
}

// bars returns how many chains have which length.
func (c *chains) bars() []Bar {
	out := []Bar{}
	for i, n := range c.at {
		if n == 0 {
			break
		}
		b := Bar{From: int64(i + 1), To: int64(i + 2), Count: n}
		if i+1 < len(c.at) {
			b.Count = max(n-c.at[i+1], 0)
		} else {
			b.To = 0
		}
		out = append(out, b)
	}
	return out
}

// digestText returns a digest as crawl.log has it.
func digestText(raw string) string { return "sha1:" + base32.StdEncoding.EncodeToString([]byte(raw)) }
