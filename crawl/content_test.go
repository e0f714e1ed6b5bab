package crawl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/archive"
	"github.com/orbweaver/orbweaver/disk"
	"github.com/orbweaver/orbweaver/frontier"
	"github.com/orbweaver/orbweaver/outbox"
	"github.com/orbweaver/orbweaver/report"
	"github.com/orbweaver/orbweaver/scope"
	"github.com/orbweaver/orbweaver/weburl"
)

// A judge is what the second agents of all contents know together. It outlives
// their processes.
type judge struct {
	c      *cluster
	harsh  bool // answers are late, or do not come
	mu     sync.Mutex
	firsts map[[20]byte]archive.Original
	counts report.Contents
}

func (j *judge) First(ctx context.Context, digest [20]byte, size int64, page archive.Original) (archive.Original, bool) {
	lost := 0 // 1: the question, 2: the answer
	if j.harsh {
		time.Sleep(time.Duration(j.c.roll(400)) * time.Millisecond)
		lost = j.c.roll(12)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.counts.Pages++
	j.counts.Bytes += size
	if lost == 1 || ctx.Err() != nil {
		j.counts.Unanswered++
		return archive.Original{}, false
	}
	first, known := j.firsts[digest]
	if !known {
		first = page
		j.firsts[digest] = page
	}
	if lost == 2 {
		j.counts.Unanswered++
		return archive.Original{}, false
	}
	return first, first.URL != page.URL
}

func (j *judge) Counts() report.Contents {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.counts
}

// A mirrorWeb has pages with one content on several hosts, with links of their own
// host and of others.
type mirrorWeb struct {
	text  string
	links map[string][]string // of a page that is read
	class map[string]string   // its content
}

func newMirrorWeb(rng *rand.Rand) mirrorWeb {
	const hosts, pages = 8, 6
	w := mirrorWeb{links: map[string][]string{}, class: map[string]string{}}
	var b strings.Builder
	host := func(h int) string { return fmt.Sprintf("http://m%d.example", h) }
	for h := range hosts {
		fmt.Fprintf(&b, "dns m%d.example 192.0.2.%d\n", h, h+1)
	}
	words := map[string]string{} // of a page of the first half of the hosts, for its mirror
	for h := range hosts {
		for p := range pages {
			url := fmt.Sprintf("%s/%d", host(h), p)
			text, mirrored := words[fmt.Sprint(h-hosts/2, p)]
			if !mirrored || rng.IntN(4) == 0 {
				text = ""
				if rng.IntN(4) > 0 {
					text = fmt.Sprintf(" same nofollow:http://content.example/%d", rng.IntN(20))
				}
				for range rng.IntN(3) {
					text += fmt.Sprintf(" /%d", rng.IntN(pages))
				}
				for range 1 + rng.IntN(2) {
					text += fmt.Sprintf(" %s/%d", host(rng.IntN(hosts)), rng.IntN(pages))
				}
				words[fmt.Sprint(h, p)] = text
			}
			w.add(&b, url, host(h), text)
		}
	}
	text := ""
	for h := range hosts {
		text += fmt.Sprintf(" %s/%d", host(h), rng.IntN(pages))
	}
	w.add(&b, "http://m0.example/", host(0), text)
	w.text = b.String()
	return w
}

func (w *mirrorWeb) add(b *strings.Builder, url, host, words string) {
	fmt.Fprintf(b, "%s%s\n", url, words)
	w.class[url] = url
	for _, word := range strings.Fields(words) {
		switch {
		case word == "same":
			w.class[url] = words
		case strings.HasPrefix(word, "/"):
			w.links[url] = append(w.links[url], host+word)
		case strings.HasPrefix(word, "http"):
			w.links[url] = append(w.links[url], word)
		}
	}
}

// wholeRecords counts the responses in an archive that are there in full, by URL.
func wholeRecords(t *testing.T, fs disk.FS, into map[string]int) {
	t.Helper()
	entries, err := fs.ReadDir(crawlDir + "/archive")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		b, err := disk.ReadFile(fs, crawlDir+"/archive/"+e.Name(), 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		for r := archive.NewReader(bytes.NewReader(b)); ; {
			rec, err := r.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if rec.Type() == "response" {
				into[rec.URL()]++
			}
		}
	}
}

// mirrors crawls a mirrorWeb by several agents that share out contents.
func mirrors(t *testing.T, seed uint64, harsh bool) {
	rng := rand.New(rand.NewPCG(seed, 21))
	web := newMirrorWeb(rng)
	c := &cluster{t: t, web: parseWeb(t, web.text), rng: rand.New(rand.NewPCG(seed, 22)), harsh: harsh}
	j := &judge{c: c, harsh: harsh, firsts: map[[20]byte]archive.Original{}}
	for i := range 3 {
		n := &node{c: c, mem: disk.NewMem(), story: &story{
			cfg:      Config{Workers: 1 + rng.IntN(4), DrainTimeout: 100 * time.Millisecond},
			frontier: frontier.Config{HostDelay: 200 * time.Millisecond, Seed: seed},
			scope:    scope.Config{Scope: scope.Any},
			seeds:    []weburl.URL{weburl.MustParse("http://m0.example/")},
			web:      c.web, name: fmt.Sprint("a", i),
		}}
		n.fetch.UserAgent, n.fetch.AllowPrivate = "orbweaver", true
		n.with = func(r *Rooms) (err error) {
			r.Partition, r.Exchange, r.Contents = n, n, j
			r.Outbox, err = outbox.Open(n.mem, crawlDir+"/state/outbox", outbox.Config{BatchLinks: 10, Seed: seed, ParkWait: time.Second})
			return err
		}
		c.nodes = append(c.nodes, n)
	}
	defer func() {
		if t.Failed() {
			t.Logf("seed %d\n%s\n%s\n%s", seed, web.text, c.log.String(), c.web.byAgent())
		}
	}()
	for _, n := range c.nodes {
		n.open()
	}
	if harsh {
		at := time.Duration(0)
		for range rng.IntN(5) {
			at += time.Duration(300+rng.IntN(2000)) * time.Millisecond
			time.Sleep(at - time.Since(c.web.start))
			n := c.nodes[rng.IntN(len(c.nodes))]
			n.end(pause{kill: rng.IntN(3) > 0})
			n.open()
		}
	}
	c.finish()
	whole := map[string]int{} // records
	read, copies := map[string]bool{}, map[string]bool{}
	duplicates := int64(0)
	for _, n := range c.nodes {
		w := n.w.Load()
		if stop := <-n.ended; stop != Finished || w.Pending() != 0 {
			t.Errorf("%s: stop %s, %d pending", n.name, stop, w.Pending())
		}
		n.accounts(t, w)
		for _, l := range w.lines(t) {
			switch {
			case strings.HasSuffix(l.URL, "/robots.txt") || l.Code != 200:
			case slices.Contains(l.Notes, "duplicate:content"):
				copies[l.URL] = true
			default:
				read[l.URL] = true
			}
		}
		duplicates += w.Tally.Duplicates()
		if err := errors.Join(w.close(), w.Outbox.Close()); err != nil {
			t.Fatal(err)
		}
		n.verify(t, n.mem)
		wholeRecords(t, n.mem, whole)
	}
	fetched := map[string]bool{}
	for _, r := range c.web.told() {
		if r.status == 200 {
			fetched[r.url] = true
		}
	}
	named := map[string]bool{"http://m0.example/": true}
	for u := range read {
		for _, to := range web.links[u] {
			if named[to] = true; !fetched[to] {
				t.Errorf("%s is read, %s was never fetched", u, to)
			}
		}
	}
	kept, records := map[string]bool{}, map[string]int{}
	for u, n := range whole {
		if class, ok := web.class[u]; ok {
			kept[class] = true
			records[class] += n
		}
	}
	for u := range fetched {
		switch {
		case !named[u]:
			t.Errorf("%s was fetched, and no page that was read names it", u)
		case !read[u] && !copies[u]:
			t.Errorf("%s was fetched, and is not in the log", u)
		case !kept[web.class[u]]:
			t.Errorf("the content of %s is nowhere in full", u)
		}
	}
	if harsh {
		return
	}
	for class, n := range records {
		if n > 1 {
			t.Errorf("%q is archived %d times in full", class, n)
		}
	}
	if duplicates != int64(len(copies)) {
		t.Errorf("%d duplicates counted, %d in the log", duplicates, len(copies))
	}
	classes := map[string]bool{}
	for u := range read {
		if classes[web.class[u]] {
			t.Errorf("the content of %s was read twice", u)
		}
		classes[web.class[u]] = true
	}
	if n := j.Counts(); n.Pages != int64(len(fetched)) {
		t.Errorf("%d pages asked for, %d fetched", n.Pages, len(fetched))
	}
	t.Logf("%d pages, %d of them duplicates", len(fetched), len(copies))
}

// TestMirrors: of each content one page is archived in full, and its links are
// followed; the others are revisits, and theirs are not.
func TestMirrors(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed-", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { mirrors(t, seed, false) })
		})
	}
}

// The same where answers are late or lost and processes are killed: nothing that
// is named by a page that was read is missed, and no content.
func TestMirrorsModel(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint("seed-", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { mirrors(t, seed, true) })
		})
	}
}

// A Planner has a duplicate fetched again, and is told whether it changed; the page
// that was first stays the first. What is no duplicate any more is read.
func TestDuplicatesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &judge{firsts: map[[20]byte]archive.Original{}}
		s := &story{
			strategy: func() Strategy { return &returner{follower: takeAll, n: 2, every: 60} }, again: true,
			with: func(r *Rooms) error { r.Contents = j; return nil },
			text: `
seed http://a.example/
dns a.example 192.0.2.1
dns b.example 192.0.2.2
http://a.example/ /1
http://a.example/1 same /2 nofollow:http://b.example/1
http://a.example/2 http://b.example/1
http://a.example/robots.txt robots=User-agent:_*;Disallow:
http://b.example/1 same /2 nofollow:http://b.example/1 | same /2 nofollow:http://b.example/1 | /3
http://b.example/2
http://b.example/3 404
http://b.example/robots.txt robots=User-agent:_*;Disallow:
`,
		}
		s.parse(t)
		w := s.run(t)
		want := strings.TrimLeft(`
  200 a.example/robots.txt P
  200 a.example/
  200 a.example/1 L
  200 a.example/2 LL
  200 b.example/robots.txt LLLP [duplicate:digest]
  200 b.example/1 LLL [duplicate:content]
  200 a.example/ [duplicate:digest]
  200 a.example/1 L [duplicate:digest]
  200 a.example/2 LL [duplicate:digest]
  200 b.example/1 LLL [duplicate:content]
  200 a.example/ [duplicate:digest]
  200 a.example/1 L [duplicate:digest]
  200 a.example/2 LL [duplicate:digest]
  200 b.example/1 LLL
  404 b.example/3 LLLL
`, "\n")
		if got := logText(w.lines(t)); got != want {
			t.Errorf("the log is\n%s\nwant\n%s", got, want)
		}
		if sum := w.Tally.Summary(0, ""); sum.Revisits != 8 || sum.Unchanged != 7 || sum.Changed != 1 || sum.Duplicates != 8 {
			t.Errorf("%+v", sum)
		}
		s.check(t, w)
		for i, r := range records(t, w.fs, "http://b.example/1") {
			if i < 2 && (r.Type() != "revisit" || r.Header.Value("WARC-Refers-To-Target-URI") != "http://a.example/1") || i == 2 && r.Type() != "response" {
				t.Errorf("record %d of b.example/1: %v", i, r.Header)
			}
		}
		for i, r := range records(t, w.fs, "http://a.example/1") {
			if i > 0 && (r.Type() != "revisit" || r.Header.Value("WARC-Refers-To-Target-URI") != "http://a.example/1") {
				t.Errorf("record %d of a.example/1: %v", i, r.Header)
			}
		}
	})
}
