package gen

import "iter"

// URLs are the http URLs of n ordinary pages, drawn from all hosts by a seed:
// pages that robots.txt allows and that are answered well and at once. In a
// web that has hardly any there may be fewer.
func (w *Web) URLs(n int, seed uint64) iter.Seq[string] {
	return func(yield func(string) bool) {
		r := stream(mix(seed ^ mix(uint64(saltList))))
		for tries := 0; n > 0 && tries < 1000; tries++ {
			host := int64(below(r.next(), uint64(w.spec.Hosts)))
			page := int64(below(r.next(), uint64(w.Pages(host))))
			if w.scheme(host) != "http://" || !w.answers(host, page) || w.forbids(host, page) || w.fate(w.source(host), page) != fine {
				continue
			}
			if !yield(w.URL(host, page)) {
				return
			}
			n, tries = n-1, 0
		}
	}
}
