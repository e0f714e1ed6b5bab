package sim

import (
	"fmt"
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
// does not send it again when it finds it on another page. With each place is when an agent first had such a link.
// mu is held.
func (j *judge) known() map[place]time.Time {
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
	known := map[place]time.Time{}
	if !j.mayMiss(0, 0, start) {
		known[place{}] = start
	}
	for k, w := range l.first {
		if at, is := known[k.to]; !w.lost && (!is || w.at.Before(at)) {
			known[k.to] = w.at
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

// missed returns the URLs, at most ten, that were not requested although they were known, with the time since when, and
// the number of all other pages that were not fetched. mu is held.
func (j *judge) missed() (urls []string, excused int64) {
	known, full := j.known(), j.full()
	miss := func(url string, since time.Time) {
		urls = append(urls, fmt.Sprintf("%s (known since %s)", url, since.Sub(start)))
	}
	j.truth.Each(func(host, number int64) {
		p := page{host, number}
		since, is := known[place{page: p}]
		switch {
		case len(j.pages[p]) > 0:
		case full[host]:
			excused++
		case !is, j.outage && len(j.others[j.truth.URL(host, number)]) > 0:
			excused++ // in the second case the outage took most of its tries, and the web refused the last one
		default:
			miss(j.truth.URL(host, number), since)
		}
	})
	for to, since := range known {
		url := to.url
		if url == "" && !j.truth.Has(to.host, to.number) && !j.denied(to.page) { // it answers with an error
			url = j.made.URL(to.host, to.number)
		}
		if url != "" && len(j.others[url]) == 0 && !full[to.host] {
			miss(url, since)
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
