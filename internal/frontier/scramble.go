package frontier

import "github.com/orbweaver/orbweaver/internal/web/weburl"

// Scramble is an order for links that come together, in which a site's links
// stand apart: order[i] is the link to take next. nil means as they stand.
//
// It is Polybot's: the links are laid side by side by site, dealt onto k piles
// like cards, and the piles put one upon the other. With k the number of links
// of the largest site, any two links of a site stand at least len(ls)/k-1
// places apart. Sites are in the order in which they come, not by name, so that
// links of as many sites stay as they are.
//
// The links of a site keep their order among each other. Only neighbours of the
// same level that are as far from their seeds change places, so that the crawl
// is as breadth-first as before. The same ls give the same order.
func Scramble(ls []weburl.Link) (order []int) {
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

// upTo goes on with an order of the links before n as they stand.
func upTo(order []int, n int) []int {
	for i := len(order); i < n; i++ {
		order = append(order, i)
	}
	return order
}

// deal goes on with an order of the links before from, up to to. It leaves it
// nil where nothing changes places.
func deal(order []int, ls []weburl.Link, from, to int) []int {
	n := to - from
	byHost := make(map[string]int32)
	bySite := make(map[string]int32)
	of := make([]int32, n) // the site of each link
	var links []int32      // of each site: how many
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
	// laid is the links by site, next where those of a site begin that are not
	// yet dealt, at whose place in laid is.
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
