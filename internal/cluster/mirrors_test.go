package cluster

import (
	"bytes"
	"encoding/base32"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/outbox"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testparts"
	"github.com/orbweaver/orbweaver/internal/testkit/textweb"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/scope"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// mirrorSeed is the seed of the crawls of mirrors.
const mirrorSeed = "http://m0.example/"

// mirrorWeb returns the text of a web whose hosts mirror each other: pages of several hosts have
// the same content, with links to their own host and to others. If the web changes, half of its
// pages have other content from their second request on.
func mirrorWeb(rng *rand.Rand, changes bool) string {
	const hosts, pages = 8, 6
	host := func(h int) string { return fmt.Sprintf("http://m%d.example", h) }
	links := func() (words string) {
		if rng.IntN(4) > 0 {
			words = fmt.Sprintf(" same nofollow:http://content.example/%d", rng.IntN(20))
		}
		for range rng.IntN(3) {
			words += fmt.Sprintf(" /%d", rng.IntN(pages))
		}
		for range 1 + rng.IntN(2) {
			words += fmt.Sprintf(" %s/%d", host(rng.IntN(hosts)), rng.IntN(pages))
		}
		return words
	}
	var web strings.Builder
	for h := range hosts {
		fmt.Fprintf(&web, "dns m%d.example 192.0.2.%d\n", h, h+1)
	}
	original := map[[2]int]string{} // contents of the pages of the first half of the hosts
	for h := range hosts {
		for p := range pages {
			words, mirrored := original[[2]int{h - hosts/2, p}]
			if !mirrored || rng.IntN(4) == 0 {
				words = links()
				original[[2]int{h, p}] = words
			}
			fmt.Fprintf(&web, "%s/%d%s", host(h), p, words)
			if changes && rng.IntN(2) == 0 {
				fmt.Fprintf(&web, " |%s", links())
			}
			web.WriteString("\n")
		}
	}
	web.WriteString(mirrorSeed)
	for h := range hosts {
		fmt.Fprintf(&web, " %s/%d", host(h), rng.IntN(pages))
	}
	return web.String() + "\n"
}

// A capture identifies a record by its page and time.
type capture struct{ url, date string }

// A harvest is the content of the archives and logs of all agents together.
type harvest struct {
	whole    map[capture]string    // full records, with their digests
	urls     map[string][]string   // by digest: the pages archived in full
	links    map[string][]string   // of a page archived in full, by its URL and digest
	revisits map[capture][2]string // digest, and the record that it refers to
	refers   map[capture]capture
	last     map[string]report.Line // of each page
}

func newHarvest() *harvest {
	return &harvest{
		whole: map[capture]string{}, urls: map[string][]string{}, links: map[string][]string{},
		revisits: map[capture][2]string{}, refers: map[capture]capture{},
		last: map[string]report.Line{},
	}
}

var href = regexp.MustCompile(`<a href="([^"]+)">`)

// readArchive adds the records in an agent's archive.
func (h *harvest) readArchive(t *testing.T, fs disk.FS) {
	t.Helper()
	entries, err := fs.ReadDir(testparts.Dir + "/archive")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		b, err := disk.ReadFile(fs, testparts.Dir+"/archive/"+e.Name(), 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		for r := warc.NewReader(bytes.NewReader(b)); ; {
			rec, err := r.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			h.readRecord(t, rec)
		}
	}
}

func (h *harvest) readRecord(t *testing.T, rec *warc.Record) {
	t.Helper()
	c := capture{rec.URL(), rec.Header.Value("WARC-Date")}
	digest := rec.Header.Value("WARC-Payload-Digest")
	switch rec.Type() {
	case "revisit":
		h.revisits[c] = [2]string{digest, rec.Header.Value("WARC-Profile")}
		h.refers[c] = capture{rec.Header.Value("WARC-Refers-To-Target-URI"), rec.Header.Value("WARC-Refers-To-Date")}
	case "response":
		h.whole[c] = digest
		h.urls[digest] = append(h.urls[digest], c.url)
		payload, err := rec.Payload()
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(payload)
		if err != nil {
			t.Fatal(err)
		}
		var links []string
		base := weburl.MustParse(c.url)
		for _, m := range href.FindAllSubmatch(body, -1) {
			to, err := base.Resolve(string(m[1]))
			if err != nil {
				t.Fatal(err)
			}
			links = append(links, to.String())
		}
		h.links[c.url+" "+digest] = links
	}
}

// readLog adds the lines of an agent's log. For a page that was fetched again after a kill, the
// last line counts.
func (h *harvest) readLog(lines []report.Line) {
	for _, l := range lines {
		if strings.HasSuffix(l.URL, "/robots.txt") || l.Code != 200 {
			continue
		}
		if before, ok := h.last[l.URL]; !ok || before.Time.Before(l.Time) {
			h.last[l.URL] = l
		}
	}
}

func isDuplicate(l report.Line) bool { return slices.Contains(l.Notes, "duplicate:content") }

func digestOf(l report.Line) string {
	return "sha1:" + base32.StdEncoding.EncodeToString(l.Digest[:])
}

// check checks the invariants of all agents together. Each content is archived in full, and each
// revisit refers to an existing record with its content. The links of all pages that are not
// duplicates were followed, and no others.
func (h *harvest) check(t *testing.T) {
	t.Helper()
	for c, r := range h.revisits {
		if r[1] != warc.ProfileIdentical {
			t.Errorf("%v is a revisit of profile %s", c, r[1])
		}
		if to := h.refers[c]; h.whole[to] != r[0] {
			t.Errorf("the revisit %v has the content %s and refers to %v, which has %q in full; in full it is %v",
				c, r[0], to, h.whole[to], h.urls[r[0]])
		}
	}
	for u, l := range h.last {
		digest := digestOf(l)
		if len(h.urls[digest]) == 0 {
			t.Errorf("the content of %s is nowhere in full", u)
		}
		links, whole := h.links[u+" "+digest]
		switch {
		case isDuplicate(l):
			continue
		case !whole:
			t.Errorf("%s is no duplicate, and nowhere in full", u)
		}
		for _, to := range links {
			if _, logged := h.last[to]; !logged {
				t.Errorf("%s names %s, which is in no log", u, to)
			}
		}
	}
	if _, logged := h.last[mirrorSeed]; !logged {
		t.Error("the seed is in no log")
	}
	t.Logf("%d pages, %d contents, %d revisits", len(h.last), len(h.urls), len(h.revisits))
}

// checkOnce has stricter checks for agents without faults: they archive each content in full once,
// and fetch no page that only duplicates link to.
func (h *harvest) checkOnce(t *testing.T) {
	t.Helper()
	for digest, urls := range h.urls {
		if len(urls) > 1 {
			t.Errorf("%s is archived in full as %v", digest, urls)
		}
	}
	named := map[string]bool{mirrorSeed: true}
	for u, l := range h.last {
		if !isDuplicate(l) {
			for _, to := range h.links[u+" "+digestOf(l)] {
				named[to] = true
			}
		}
	}
	for u := range h.last {
		if !named[u] {
			t.Errorf("%s was fetched, and no page that is no duplicate names it", u)
		}
	}
}

// A mirrorCrawl says which faults happen to agents that share contents.
type mirrorCrawl struct {
	harsh   bool // answers are late or lost, and processes end
	crashes bool // some processes end by power failures
	changes bool // pages have other content when they are requested again
}

func (m mirrorCrawl) run(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 21))
	text := mirrorWeb(rng, m.changes)
	c := &cluster{t: t, Diary: textweb.NewDiary(textweb.Parse(t, text), seed, 22), harsh: m.harsh}
	j := newJudge(c, m.harsh)
	for i := range 3 {
		n := &node{c: c, mem: testdisk.NewMem(), story: &story{
			cfg:      crawl.Config{Workers: 1 + rng.IntN(4), DrainTimeout: 100 * time.Millisecond},
			frontier: frontier.Config{HostDelay: 200 * time.Millisecond, Seed: seed},
			scope:    scope.Config{Scope: scope.Any},
			seeds:    []weburl.URL{weburl.MustParse(mirrorSeed)},
			web:      c.Web, name: fmt.Sprint("a", i),
		}}
		n.fetch.UserAgent, n.fetch.AllowPrivate = "orbweaver", true
		n.with = func() (Others, error) {
			box, err := outbox.Open(n.mem, testparts.Dir+"/state/outbox",
				outbox.Config{BatchLinks: 10, Seed: seed, ParkWait: time.Second})
			judged := j.process(func() bool { return n.w.Load() == nil })
			return Others{Peers: n, Outbox: box, Contents: judged}, err
		}
		c.nodes = append(c.nodes, n)
	}
	defer func() {
		if t.Failed() {
			t.Logf("seed %d\n%s\n%s\n%s", seed, text, c.Log.String(), c.Web.ByAgent())
		}
	}()
	for _, n := range c.nodes {
		n.open()
	}
	if m.harsh {
		at := time.Duration(0)
		for range rng.IntN(8) {
			at += time.Duration(100+rng.IntN(1000)) * time.Millisecond
			time.Sleep(at - time.Since(c.Web.Start))
			n := c.nodes[rng.IntN(len(c.nodes))]
			switch k := rng.IntN(6); {
			case k == 0:
				n.end(pause{})
			case k <= 3 && m.crashes:
				n.end(pause{crash: true})
			default:
				n.end(pause{kill: true})
			}
			n.open()
		}
	}
	c.finish()
	h := newHarvest()
	for _, n := range c.nodes {
		w := n.w.Load()
		if stop := <-n.ended; stop != crawl.Finished || w.Pending() != 0 {
			t.Errorf("%s: stop %s, %d pending", n.name, stop, w.Pending())
		}
		n.accounts(t, w)
		h.readLog(w.parts.Lines(t, w.fs))
		if err := errors.Join(w.close(), w.cl.Outbox.Close()); err != nil {
			t.Fatal(err)
		}
		testparts.Verify(t, n.mem)
		h.readArchive(t, n.mem)
	}
	if h.check(t); !m.harsh {
		h.checkOnce(t)
		if n := j.Counts(); n.Pages != int64(len(h.last)) {
			t.Errorf("%d pages asked for, %d fetched", n.Pages, len(h.last))
		}
	}
}

func mirrors(t *testing.T, n uint64, m mirrorCrawl) {
	models(t, n, func(t *testing.T, seed uint64) { m.run(t, seed) })
}

// TestMirrors: one page of each content is archived in full, and its links are followed. The others
// are revisits, and their links are not followed.
func TestMirrors(t *testing.T) { mirrors(t, 20, mirrorCrawl{}) }

// The same with late or lost answers and killed processes: no content is lost, and no link of a
// page that is not a duplicate.
func TestMirrorsModel(t *testing.T) { mirrors(t, 40, mirrorCrawl{harsh: true}) }

// The same with pages that change: the content that a page had before its agent was killed, and
// that other records refer to, is in an archive.
func TestMirrorsModelChange(t *testing.T) { mirrors(t, 80, mirrorCrawl{harsh: true, changes: true}) }

// The same with power failures.
func TestMirrorsModelPower(t *testing.T) {
	mirrors(t, 80, mirrorCrawl{harsh: true, changes: true, crashes: true})
}
