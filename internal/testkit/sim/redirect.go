package sim

import (
	"slices"
	"time"

	"github.com/orbweaver/orbweaver/internal/testweb"
)

// A place is what a link leads to: a page, or another URL, which redirects or does not exist.
type place struct {
	page        // if url is empty
	url  string // on the page's host; page.number is -1
}

// known returns the places to which an agent knew a link that no fault can have lost. The links of a page, and the
// targets of redirects, are those of the generated web. An agent sends a link once. If it is lost then, the agent
// does not send it again when it finds it on another page. mu is held.
func (j *judge) known() map[place]bool {
	l := links{judged: j, first: map[found]when{}}
	for p, fs := range j.pages {
		if fs = j.heeded(fs); len(fs) == 0 {
			continue
		}
		within := j.followsWithin(p)
		for _, to := range j.made.Links(p.host, p.number, nil) {
			from := fs
			for i, url := range j.made.Steps(p.host, to) { // all on the host of the page
				if within || i > 0 { // a redirect is no link
					l.add(p.host, from, place{page{p.host, -1}, url})
				}
				from = j.others[url]
			}
			if to.Page >= 0 && (within || to.Host != p.host || len(j.made.Steps(p.host, to)) > 0) {
				l.add(p.host, from, place{page: page{to.Host, to.Page}})
			}
		}
		if j.roots && p.number != 0 {
			l.add(p.host, fs, place{page: page{p.host, 0}})
		}
	}
	known := map[place]bool{{}: !j.mayMiss(0, 0, start)}
	for k, w := range l.first {
		if !w.lost {
			known[k.to] = true
		}
	}
	return known
}

// heeded returns the fetches of a page that the other agents must know of. If the plan bounds what is fetched of a
// host, the heirs of an agent that was refused may have fetched other pages than it, up to the bound, and so they may
// know other links. mu is held.
func (j *judge) heeded(fs []fetched) []fetched {
	if j.hostPages == 0 && j.hostDepth == 0 || len(j.refused) == 0 {
		return fs
	}
	return slices.DeleteFunc(slices.Clone(fs), func(f fetched) bool { return j.refused[f.agent] })
}

// links are the links that agents have found.
type links struct {
	judged *judge
	first  map[found]when
}

// A found is a place to which an agent found a link.
type found struct {
	by int
	to place
}

// A when tells when an agent found a link first, and whether that may be lost.
type when struct {
	at   time.Time
	lost bool
}

// add adds a link. The agents found it in answers of a host.
func (l links) add(from int64, answers []fetched, to place) {
	for _, f := range answers {
		k := found{f.agent, to}
		if l.judged.moves { // it is the page's keeper that has found the link
			k.by = 0
		}
		if w, ok := l.first[k]; !ok || f.at.Before(w.at) {
			l.first[k] = when{f.at, l.judged.mayMiss(from, to.host, f.at)}
		}
	}
}

// missed returns the URLs, at most ten, that were not requested although they were known, and the number of all other
// pages that were not fetched. mu is held.
func (j *judge) missed() (urls []string, excused int64) {
	known, full := j.known(), j.full()
	j.truth.Each(func(host, number int64) {
		p := page{host, number}
		switch {
		case len(j.pages[p]) > 0:
		case full[host]:
			excused++
		case !known[place{page: p}], j.outage && len(j.others[j.truth.URL(host, number)]) > 0:
			excused++ // in the second case the outage took most of its tries, and the web refused the last one
		default:
			urls = append(urls, j.truth.URL(host, number))
		}
	})
	for to := range known {
		url := to.url
		if url == "" && !j.truth.Has(to.host, to.number) && !j.denied(to.page) { // it answers with an error
			url = j.made.URL(to.host, to.number)
		}
		if url != "" && len(j.others[url]) == 0 && !full[to.host] {
			urls = append(urls, url)
		}
	}
	slices.Sort(urls)
	return urls[:min(10, len(urls))], excused
}

// denied reports whether robots.txt forbids a page.
func (j *judge) denied(p page) bool {
	_, reply := j.made.Answer(nil, testweb.Query{Host: p.host, Target: j.made.Target(p.host, p.number)})
	return reply.Denied
}
