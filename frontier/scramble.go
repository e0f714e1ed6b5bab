package frontier

import (
	"cmp"
	"slices"
	"strings"

	"github.com/orbweaver/orbweaver/weburl"
)

// scramble returns ls in another order (Polybot's: sorted by reversed host
// name, dealt onto k piles like cards, the piles put one upon the other). With
// k the number of links of the largest site, any two links of a site stand at
// least len(ls)/k-1 places apart. The links of a host keep their order among
// each other, those of a level and another do as well; the same ls give the
// same order.
func scramble(ls []weburl.Link) []weburl.Link {
	if len(ls) < 3 {
		return ls
	}
	type place struct {
		site, host string
		of         []int32 // the links of the host
	}
	byHost := make(map[string]*place)
	var places []*place
	for i := range ls {
		name := ls[i].URL.Host()
		p := byHost[name]
		if p == nil {
			p = &place{site: siteOf(name), host: name}
			byHost[name] = p
			places = append(places, p)
		}
		p.of = append(p.of, int32(i))
	}
	slices.SortFunc(places, func(a, b *place) int {
		return cmp.Or(compareReversed(a.site, b.site), compareReversed(a.host, b.host))
	})
	sorted := make([]*place, 0, len(ls))
	k, run := 0, 0
	for i, p := range places {
		if i > 0 && places[i-1].site != p.site {
			run = 0
		}
		run += len(p.of)
		k = max(k, run)
		for range p.of {
			sorted = append(sorted, p)
		}
	}
	out := make([]weburl.Link, 0, len(ls))
	for pile := range k {
		for i := pile; i < len(sorted); i += k {
			p := sorted[i]
			out = append(out, ls[p.of[0]])
			p.of = p.of[1:]
		}
	}
	return out
}

// compareReversed orders names label by label from the right.
func compareReversed(a, b string) int {
	for a != "" && b != "" {
		i, j := strings.LastIndexByte(a, '.'), strings.LastIndexByte(b, '.')
		if c := strings.Compare(a[i+1:], b[j+1:]); c != 0 {
			return c
		}
		a, b = a[:max(i, 0)], b[:max(j, 0)]
	}
	return len(a) - len(b)
}
