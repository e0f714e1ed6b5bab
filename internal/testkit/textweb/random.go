package textweb

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// A Random is a small web and the expected result of its crawl.
type Random struct {
	Text     string
	Reach    map[string]bool          // URLs that a crawl from the seed finds
	Delays   map[string]time.Duration // Crawl-delay of hosts
	Response map[string]bool          // URLs of reach that answer
	Links    map[string][]string      // of each page
}

// NewRandom creates a web with up to pages pages for each host. If it is dense, most pages can
// be reached.
func NewRandom(rng *rand.Rand, pages int, dense bool) Random {
	var b strings.Builder
	w := Random{Reach: map[string]bool{}, Delays: map[string]time.Duration{}, Response: map[string]bool{}}
	links := map[string][]string{}
	var urls []string
	hosts0, links0 := 1, 0
	if dense {
		hosts0, links0 = 2, 2
	}
	for h := range hosts0 + rng.IntN(5) {
		host := fmt.Sprintf("h%d.example", h)
		fmt.Fprintf(&b, "dns %s 192.0.2.%d\n", host, 1+rng.IntN(3))
		if rng.IntN(3) == 0 {
			w.Delays[host] = time.Second
			fmt.Fprintf(&b, "http://%s/robots.txt robots=User-agent:_*;Crawl-delay:_1\n", host)
		}
		urls = append(urls, "http://"+host+"/")
		for p := range links0*pages/4 + rng.IntN(pages) {
			urls = append(urls, fmt.Sprintf("http://%s/%d", host, p))
		}
	}
	for _, u := range urls {
		fmt.Fprintf(&b, "%s", u)
		if rng.IntN(4) == 0 {
			fmt.Fprintf(&b, " slow=%dms", rng.IntN(400))
		}
		w.Response[u] = true
		kind := rng.IntN(12)
		if dense && u == urls[0] {
			kind = 12
		}
		switch kind {
		case 0:
			b.WriteString(" 404\n")
			continue
		case 1:
			to := urls[rng.IntN(len(urls))]
			links[u] = []string{to}
			fmt.Fprintf(&b, " 302 to=%s\n", to)
			continue
		case 2:
			b.WriteString(" same")
		case 3:
			fmt.Fprintf(&b, " size=%d", 1<<rng.IntN(16))
		case 4:
			b.WriteString(" 503 | 200")
		}
		for range links0 + rng.IntN(6) {
			to := urls[rng.IntN(len(urls))]
			links[u] = append(links[u], to)
			b.WriteString(" " + to)
		}
		b.WriteByte('\n')
	}
	todo := []string{urls[0]}
	w.Reach[urls[0]] = true
	for len(todo) > 0 {
		u := todo[0]
		todo = todo[1:]
		for _, to := range links[u] {
			if !w.Reach[to] {
				w.Reach[to] = true
				todo = append(todo, to)
			}
		}
	}
	w.Text, w.Links = b.String(), links
	return w
}
