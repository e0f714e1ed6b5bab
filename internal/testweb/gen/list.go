package gen

import "iter"

// URLs returns http URLs of n ordinary pages, chosen at random from all hosts: pages that robots.txt allows and that
// are answered well and at once. If the web has hardly any such pages, there may be fewer. The same seed gives the same
// URLs.
func (w *Web) URLs(n int, seed uint64) iter.Seq[string] {
	return func(yield func(string) bool) {
		r := stream(mix(seed ^ mix(uint64(saltList))))
		for tries := 0; n > 0 && tries < 1000; tries++ {
			host := int64(below(r.next(), uint64(w.spec.Hosts)))
			page := int64(below(r.next(), uint64(w.Pages(host))))
			if w.scheme(host) != "http://" || !w.answers(host, page) || w.forbids(host, page) ||
				w.fate(w.source(host), page) != fine {
				continue
			}
			if !yield(w.URL(host, page)) {
				return
			}
			n, tries = n-1, 0
		}
	}
}
