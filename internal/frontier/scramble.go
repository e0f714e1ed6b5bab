package frontier

import (
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// Scramble returns an order for links that arrive together, in which the links of a site are far apart. order[i] is the
// index of the link to take next. nil means that the links stay as they are.
//
// This is Polybot's method: lay the links side by side, grouped by site; deal them onto k piles like cards; put the
// piles one upon the other. k is the number of links of the largest site. Any two links of a site are then at least
// len(ls)/k-1 positions apart. Sites are in order of appearance, not sorted by name, so that the links of as many
// different sites stay as they are.
//
// The links of a site keep their order. Only neighbours of the same level and depth change places, so that the crawl is
// as breadth-first as before. The same ls give the same order.
func Scramble(ls []link.Link) (order []int) {
	for from := 0; from < len(ls); {
		to, several := from+1, false
		name, depth := ls[from].URL.Host(), ls[from].Depth()
		for to < len(ls) && ls[to].Level == ls[from].Level && ls[to].Depth() == depth {
			several = several || ls[to].URL.Host() != name
			to++
		}
		if several && to-from > 2 {
			order = deal(order, ls, from, to)
		} else if order != nil {
			order = upTo(order, to)
		}
		from = to
	}
	return order
}

// upTo extends order to n links, keeping them as they are.
func upTo(order []int, n int) []int {
	for i := len(order); i < n; i++ {
		order = append(order, i)
	}
	return order
}

// deal extends order, which covers the links before from, to the links before to. If no link changes places, order
// stays nil.
func deal(order []int, ls []link.Link, from, to int) []int {
	n := to - from
	byHost := make(map[string]int32)
	bySite := make(map[string]int32)
	of := make([]int32, n) // the site of each link
	var links []int32      // the number of links of each site
	for i := range n {
		host := ls[from+i].URL.Host()
		site, ok := byHost[host]
		if !ok {
			name := siteOf(host)
			if site, ok = bySite[name]; !ok {
				site = int32(len(links))
				links = append(links, 0)
				bySite[name] = site
			}
			byHost[host] = site
		}
		of[i] = site
		links[site]++
	}
	k := int32(0)
	for _, m := range links {
		k = max(k, m)
	}
	if k == 1 || len(links) == 1 {
		if order != nil {
			order = upTo(order, to)
		}
		return order
	}
	// laid holds the links grouped by site. at holds the site of each position of laid. next holds, for each site, the
	// position of its first link that is not yet dealt.
	next := make([]int32, len(links))
	sum := int32(0)
	for s, m := range links {
		next[s] = sum
		sum += m
	}
	laid, at := make([]int32, n), make([]int32, n)
	for i, s := range of {
		laid[next[s]], at[next[s]] = int32(i), s
		next[s]++
	}
	for s, m := range links {
		next[s] -= m
	}
	if order == nil {
		order = make([]int, 0, len(ls))
	}
	order = upTo(order, from)
	for pile := range k {
		for i := pile; i < int32(n); i += k {
			s := at[i]
			order = append(order, from+int(laid[next[s]]))
			next[s]++
		}
	}
	return order
}
