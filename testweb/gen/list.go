package gen

import "iter"

// URLs are the URLs of n ordinary pages, drawn from all hosts by a seed.
func (w *Web) URLs(n int, seed uint64) iter.Seq[string] {
	return func(yield func(string) bool) {
		r := stream(mix(seed ^ mix(uint64(saltList))))
		for range n {
			host := int64(below(r.next(), uint64(w.spec.Hosts)))
			page := int64(below(r.next(), uint64(w.Pages(host))))
			if !yield(w.URL(host, page)) {
				return
			}
		}
	}
}
