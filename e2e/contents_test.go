package e2e

import (
	"bytes"
	"encoding/base32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/testweb"
	"github.com/orbweaver/orbweaver/internal/testweb/gen"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/parse"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// contentsTries is how often a page asks at most.
const contentsTries = 40

// newMirrorBand is a cluster that shares out contents, in a web with hosts that are
// others once more, and pages that are. With -artifacts its directories are kept.
func newMirrorBand(t *testing.T, seed uint64, agents int, hosts int64) *band {
	t.Helper()
	spec := gen.Plain(seed, hosts)
	spec.PagesMean, spec.MaxPages, spec.PageBytes = 20, 100, 6000
	spec.Mirrors, spec.Duplicates = 0.15, 0.1
	made, err := gen.New(spec)
	if err != nil {
		t.Fatal(err)
	}
	truth, err := made.Reachable(gen.Bounds{Seeds: []gen.Seed{{}}, Robots: true})
	if err != nil {
		t.Fatal(err)
	}
	b := &band{t: t, delay: bandDelay, made: made, dir: t.ArtifactDir(), replicas: "2", ps: make([]*process, agents)}
	b.web = serve(t, testweb.Config{Origin: made, Truth: truth, Promise: testweb.Promise{HostDelay: bandDelay}})
	for range agents {
		b.addrs = append(b.addrs, port(t))
	}
	return b
}

// A mirrored is what the agents of a band have of the pages, together.
type mirrored struct {
	last     map[string]report.Line // of each page that was fetched: the line that counts
	read     map[string]bool        // pages that were no duplicates when some agent fetched them
	denied   map[string]bool        // by robots.txt
	whole    map[capture]string     // the records in full, with their digests
	urls     map[string][]string    // by digest: the pages in full, with repetitions
	bodies   map[string][]byte      // by digest
	revisits []revisit
	sums     report.Contents
}

// A capture is a record of a page.
type capture struct{ url, date string }

// A revisit is a record that refers to another one.
type revisit struct {
	capture
	digest string
	first  capture
}

// mirrored reads the logs, the archives and the summaries of all agents.
func (b *band) mirrored() *mirrored {
	t := b.t
	t.Helper()
	m := &mirrored{
		last: map[string]report.Line{}, read: map[string]bool{}, denied: map[string]bool{},
		whole: map[capture]string{}, urls: map[string][]string{}, bodies: map[string][]byte{},
	}
	for i := range b.ps {
		if b.left[i] {
			b.mend(i)
		}
		m.readLog(t, b.home(i))
		files, err := filepath.Glob(filepath.Join(b.home(i), "archive", "*.warc.gz"))
		if err != nil || len(files) == 0 && !b.left[i] { // one that was killed may have had no time
			t.Fatalf("a%d has no archive: %v\n%s", i+1, err, events(t, b.home(i)))
		}
		for _, name := range files {
			m.readWARC(t, name)
		}
		if b.left[i] {
			continue // it was killed, and has no summary
		}
		c := summary(t, b.home(i))["contents"].(map[string]any)
		count := func(name string) int64 { return int64(c[name].(float64)) }
		m.sums.Pages += count("pages")
		m.sums.Elsewhere += count("elsewhere")
		m.sums.Recent += count("recent")
		m.sums.Asked += count("asked")
		m.sums.Messages += count("messages")
		m.sums.Duplicates += count("duplicates")
		m.sums.Waited += count("waited")
		m.sums.Unanswered += count("unanswered")
		m.sums.Told += count("told")
		m.sums.Untold += count("untold")
		m.sums.Bytes += count("content_bytes")
		m.sums.WouldExport += count("would_export_bytes")
	}
	return m
}

// mend recovers the archive of an agent that was killed, as --resume does: it cuts
// the record that the kill has torn. All other records count.
func (b *band) mend(i int) {
	b.t.Helper()
	a, found, err := warc.Open(warc.Config{Dir: b.home(i)})
	if err == nil {
		err = a.Close()
	}
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Logf("a%d leaves %+v", i+1, found.Files)
}

// readLog adds the lines of an agent's log. Where a kill made a fetch be repeated,
// by whichever agent, the last line counts.
func (m *mirrored) readLog(t *testing.T, home string) {
	t.Helper()
	log, err := os.ReadFile(filepath.Join(home, "logs", "crawl.log"))
	if err != nil {
		t.Fatal(err)
	}
	for s := range strings.Lines(string(log)) {
		if !strings.HasSuffix(s, "\n") {
			continue // torn by a kill
		}
		l, err := report.ReadLine(s)
		switch {
		case err != nil:
			t.Fatal(err)
		case strings.HasSuffix(l.URL, "/robots.txt"):
			continue
		case l.Code == report.CodeRobotsDenied:
			m.denied[l.URL] = true
			continue
		case l.Code != 200:
			t.Errorf("%s: %s: %d", home, l.URL, l.Code)
			continue
		case !isDuplicate(l):
			m.read[l.URL] = true
		}
		if before, ok := m.last[l.URL]; !ok || before.Time.Before(l.Time) {
			m.last[l.URL] = l
		}
	}
}

func isDuplicate(l report.Line) bool { return slices.Contains(l.Notes, "duplicate:content") }

// digestOf is a line's digest as records write it.
func digestOf(l report.Line) string {
	return "sha1:" + base32.StdEncoding.EncodeToString(l.Digest[:])
}

func (m *mirrored) readWARC(t *testing.T, name string) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for r := warc.NewReader(bytes.NewReader(data)); ; {
		rec, err := r.Next()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		c := capture{rec.URL(), rec.Header.Value("WARC-Date")}
		digest := rec.Header.Value("WARC-Payload-Digest")
		switch rec.Type() {
		case "revisit":
			first := capture{
				rec.Header.Value("WARC-Refers-To-Target-URI"), rec.Header.Value("WARC-Refers-To-Date"),
			}
			m.revisits = append(m.revisits, revisit{c, digest, first})
			if rec.Header.Value("WARC-Profile") != warc.ProfileIdentical {
				t.Errorf("%v: %v", c, rec.Header)
			}
		case "response":
			m.whole[c] = digest
			body, err := rec.Payload()
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(body)
			if err != nil {
				t.Fatal(err)
			}
			m.bodies[digest] = text
			if !strings.HasSuffix(c.url, "/robots.txt") {
				m.urls[digest] = append(m.urls[digest], c.url)
			}
		}
	}
}

// walk follows the links of pages from the seed on. All pages that a page names were
// fetched if the page is no duplicate. A duplicate leads to a page that is archived in
// full with its content and of which all links were followed: without that page, the
// links of the content are lost. It need not be the page that the revisit record names,
// since pages that a killed agent fetched may be fetched again as duplicates.
func (m *mirrored) walk(t *testing.T, seed string) {
	t.Helper()
	if _, fetched := m.last[seed]; !fetched {
		t.Error("the seed was not fetched")
	}
	met, read, way := map[string]bool{seed: true}, map[string]bool{}, []string{seed}
	goOn := func(links []string) {
		for _, to := range links {
			if _, fetched := m.last[to]; fetched && !met[to] {
				met[to] = true
				way = append(way, to)
			}
		}
	}
	for len(way) > 0 {
		url := way[0]
		way = way[1:]
		l := m.last[url]
		digest := digestOf(l)
		if !isDuplicate(l) {
			read[digest] = true
			links := m.links(url, digest)
			if to, ok := m.unfetched(links); ok {
				t.Errorf("%s names %s, which was not fetched", url, to)
			}
			goOn(links)
			continue
		}
		for _, whole := range m.urls[digest] {
			links := m.links(whole, digest)
			if _, ok := m.unfetched(links); ok || read[digest] {
				continue
			}
			read[digest] = true
			goOn(links)
		}
	}
	for url := range met {
		if l := m.last[url]; !read[digestOf(l)] {
			t.Errorf("%s is a duplicate, and the links of no page with its content were followed: %q",
				url, m.urls[digestOf(l)])
		}
	}
}

// unfetched returns a link that leads to a page which no agent fetched, and which
// robots.txt allows.
func (m *mirrored) unfetched(links []string) (to string, found bool) {
	for _, to := range links {
		if _, fetched := m.last[to]; !fetched && !m.denied[to] {
			return to, true
		}
	}
	return "", false
}

// links are what a page with this content names.
func (m *mirrored) links(url, digest string) (links []string) {
	var page parse.Page
	in := parse.Input{URL: weburl.MustParse(url), ContentType: "text/html", Body: m.bodies[digest]}
	parse.Parse(in, parse.Options{}, &page)
	for _, l := range page.Links {
		links = append(links, l.URL.String())
	}
	return links
}

// judge holds what the agents have to what the scheme promises. Each content is
// archived in full. Each revisit refers to a record that is there and has its
// content. The links of pages that are no duplicates were followed, and no others.
// Without faults a content is in full more than once only where an answer did not
// come in time, or no agent could be told.
func (m *mirrored) judge(t *testing.T, seed string, faults bool) {
	t.Helper()
	named, duplicates := map[string]bool{seed: true}, 0
	for url := range m.read {
		for _, to := range m.links(url, digestOf(m.last[url])) {
			named[to] = true
		}
	}
	for url, l := range m.last {
		digest := digestOf(l)
		switch {
		case !named[url]:
			t.Errorf("%s was fetched, and no page that was read names it", url)
		case len(m.urls[digest]) == 0:
			t.Errorf("the content of %s is archived nowhere in full", url)
		}
		if isDuplicate(l) {
			duplicates++
		} else if !slices.Contains(m.urls[digest], url) {
			t.Errorf("%s is no duplicate, and is archived nowhere in full", url)
		}
	}
	m.walk(t, seed)
	for _, r := range m.revisits {
		if m.whole[r.first] != r.digest {
			t.Errorf("the revisit %v refers to %v, which is not archived with its content", r.capture, r.first)
		}
	}
	n, extra := m.sums, int64(0)
	for _, urls := range m.urls {
		if extra += int64(len(urls) - 1); extra > n.Unanswered+n.Untold && !faults {
			t.Errorf("a content is archived in full as %v; %d were unanswered, %d untold", urls, n.Unanswered, n.Untold)
		}
	}
	t.Logf("%d pages, %d contents, %d duplicates, %d more in full; "+
		"%.3f of pages and %.3f of bytes are others' to judge; %+v", len(m.last), len(m.urls), duplicates, extra,
		float64(n.Elsewhere)/float64(n.Pages), float64(n.WouldExport)/float64(n.Bytes), n)
	if duplicates == 0 {
		t.Error("no page was a duplicate")
	}
}

// ends waits for the end of all, and holds them to their manners.
func (b *band) ends() {
	t := b.t
	t.Helper()
	for i, p := range b.ps {
		if b.left[i] {
			continue
		}
		if !ended(p, 3*time.Minute) {
			t.Fatalf("a%d does not end:\n%s\n%s", i+1, tail(p.out.String()), events(t, b.home(i)))
		}
		if code := p.code(); code != 0 {
			t.Fatalf("a%d: exit code %d\n%s\n%s", i+1, code, tail(p.out.String()), events(t, b.home(i)))
		}
		verify(t, b.home(i))
		if s := summary(t, b.home(i)); s["urls_queued"].(float64) != 0 || s["stop_reason"] != "finished" {
			t.Errorf("a%d: %v URLs left, %v", i+1, s["urls_queued"], s["stop_reason"])
		}
	}
	noViolations(t, b.web)
}

// Three agents share out contents: of each one page is archived in full by one of
// them, wherever the others with it are fetched, and two of three contents are
// judged by another agent than the one that fetched them.
func TestClusterContents(t *testing.T) {
	weighs(t, 3)
	b := newMirrorBand(t, 41, 3, 30)
	for i := range 3 {
		b.begin(i, "--partition", "hash", "--agents", "3", b.seed())
	}
	b.ends()
	m := b.mirrored()
	m.judge(t, b.seed(), false)
	n := m.sums
	if share := float64(n.Elsewhere) / float64(n.Pages); share < 2.0/3-0.1 || share > 2.0/3+0.1 {
		t.Errorf("%.3f of the contents are another agent's, expected two of three", share)
	}
	most := n.Elsewhere + (n.Unanswered+n.Waited)*contentsTries
	if n.Pages != int64(len(m.last)) || n.Asked == 0 || n.Asked > most {
		t.Errorf("%d pages: %+v", len(m.last), n)
	}
	b.web.WaitIdle(time.Minute)
	if r := b.web.Report(); r.Origin.Twice > 0 || r.Origin.Beyond > 0 {
		t.Errorf("%d pages fetched twice, %d beyond", r.Origin.Twice, r.Origin.Beyond)
	}
}

// The same where each agent is killed once, and goes on: contents may be archived
// twice, and none is missed.
func TestClusterContentsKilled(t *testing.T) {
	weighs(t, 3)
	b := newMirrorBand(t, 42, 3, 30)
	for i := range 3 {
		b.begin(i, "--partition", "hash", "--agents", "3", b.seed())
	}
	for i := range 3 {
		b.await(int64(60 + 90*i))
		if _, killed := b.ps[i].kill(); !killed {
			t.Fatalf("a%d had ended before", i+1)
		}
		b.begin(i, "--partition", "hash", "--resume")
	}
	b.ends()
	b.mirrored().judge(t, b.seed(), true)
}

// An agent joins two others, and then one of these is killed and stays away: contents
// have other agents each time, which know nothing of them, and none is missed. The
// killed agent's disk is not lost, so its archive counts with those of the others.
func TestClusterContentsMove(t *testing.T) {
	weighs(t, 3)
	b := newMirrorBand(t, 44, 3, 100)
	b.begin(0, "--partition", "hash", "--agents", "2", b.seed())
	b.begin(1, "--partition", "hash", "--agents", "2", b.seed())
	b.await(60)
	b.begin(2, "--partition", "hash", b.seed())
	end := time.Now().Add(time.Minute)
	for ; len(eventsOf(t, b.home(2), "hosts-taken")) == 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("a3 takes no hosts\n%s", events(t, b.home(2)))
		}
	}
	if _, killed := b.ps[1].kill(); !killed {
		t.Fatal("a2 had ended before")
	}
	b.left = map[int]bool{1: true}
	b.ends()
	b.mirrored().judge(t, b.seed(), true)
	if again := eventsOf(t, b.home(0), "view"); len(again) < 3 {
		t.Errorf("a1 has seen %d views", len(again))
	}
}
