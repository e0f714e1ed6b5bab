package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/archive"
	"github.com/orbweaver/orbweaver/parse"
	"github.com/orbweaver/orbweaver/report"
	"github.com/orbweaver/orbweaver/testweb"
	"github.com/orbweaver/orbweaver/testweb/gen"
	"github.com/orbweaver/orbweaver/weburl"
)

// contentsTries is how often a page asks at most.
const contentsTries = 40

// newMirrorBand is a cluster that shares out contents, in a web with hosts that are
// others once more, and pages that are.
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
	b := &band{t: t, delay: bandDelay, made: made, dir: t.TempDir(), replicas: "2", ps: make([]*process, agents)}
	b.web = serve(t, testweb.Config{Origin: made, Truth: truth, Promise: testweb.Promise{HostDelay: bandDelay}})
	for range agents {
		b.addrs = append(b.addrs, port(t))
	}
	return b
}

// A mirrored is what the agents of a band have of the pages, together.
type mirrored struct {
	digest map[string]string   // of each page that was fetched, by its URL
	read   map[string]bool     // pages that were no duplicates
	copies map[string]bool     // pages that were
	whole  map[string][]string // by digest: the URLs that are archived in full, with repetitions
	links  map[string][]string // of a page that is archived in full
	first  map[string]string   // of a revisit: the page it refers to
	denied map[string]bool     // by robots.txt
	sums   report.Contents
}

// mirrored reads the logs, the archives and the summaries of all agents.
func (b *band) mirrored() *mirrored {
	t := b.t
	t.Helper()
	m := &mirrored{
		digest: map[string]string{}, read: map[string]bool{}, copies: map[string]bool{}, whole: map[string][]string{},
		links: map[string][]string{}, first: map[string]string{}, denied: map[string]bool{},
	}
	for i := range b.ps {
		log, err := os.ReadFile(filepath.Join(b.home(i), "logs", "crawl.log"))
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
			case l.Code == report.CodeRobotsDenied:
				m.denied[l.URL] = true
			case l.Code != 200:
				t.Errorf("a%d: %s: %d", i+1, l.URL, l.Code)
			case slices.Contains(l.Notes, "duplicate:content"):
				m.copies[l.URL] = true
			default:
				m.read[l.URL] = true
			}
		}
		files, err := filepath.Glob(filepath.Join(b.home(i), "archive", "*.warc.gz*")) // of a killed one: .open
		if err != nil || len(files) == 0 {
			t.Fatalf("a%d has no archive: %v\n%s", i+1, err, events(t, b.home(i)))
		}
		for _, name := range files {
			m.readWARC(t, name)
		}
		if b.left[i] {
			continue // it was killed, and tells nothing
		}
		c := summary(t, b.home(i))["contents"].(map[string]any)
		count := func(name string) int64 { return int64(c[name].(float64)) }
		m.sums.Pages += count("pages")
		m.sums.Elsewhere += count("elsewhere")
		m.sums.Recent += count("recent")
		m.sums.Asked += count("asked")
		m.sums.Messages += count("messages")
		m.sums.Duplicates += count("duplicates")
		m.sums.Unanswered += count("unanswered")
		m.sums.Bytes += count("content_bytes")
		m.sums.WouldExport += count("would_export_bytes")
	}
	return m
}

func (m *mirrored) readWARC(t *testing.T, name string) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for r := archive.NewReader(bytes.NewReader(data)); ; {
		rec, err := r.Next()
		if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) && strings.HasSuffix(name, ".open") {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		url, digest := rec.URL(), rec.Header.Value("WARC-Payload-Digest")
		if strings.HasSuffix(url, "/robots.txt") {
			continue
		}
		switch rec.Type() {
		case "revisit":
			m.digest[url] = digest
			m.first[url] = rec.Header.Value("WARC-Refers-To-Target-URI")
			if rec.Header.Value("WARC-Profile") != archive.ProfileIdentical || rec.Header.Value("WARC-Refers-To-Date") == "" {
				t.Errorf("%s: %v", url, rec.Header)
			}
		case "response":
			m.digest[url] = digest
			m.whole[digest] = append(m.whole[digest], url)
			body, err := rec.Payload()
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(body)
			if errors.Is(err, io.ErrUnexpectedEOF) && strings.HasSuffix(name, ".open") {
				m.whole[digest] = m.whole[digest][:len(m.whole[digest])-1]
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var page parse.Page
			parse.Parse(parse.Input{URL: weburl.MustParse(url), ContentType: "text/html", Body: text}, parse.Options{}, &page)
			m.links[url] = nil
			for _, l := range page.Links {
				m.links[url] = append(m.links[url], l.URL.String())
			}
		}
	}
}

// judge holds what the agents have to what the scheme promises: of each content one
// page is archived in full, the others refer to it; the links of pages that were
// read were followed, those of the others not. Without faults contents are in full
// more than once only where an answer did not come in time.
func (m *mirrored) judge(t *testing.T, seed string, faults bool) {
	t.Helper()
	named := map[string]string{seed: "the seed"}
	for url := range m.read {
		links, whole := m.links[url]
		if !whole {
			t.Errorf("%s was no duplicate, and is archived nowhere in full", url)
		}
		for _, to := range links {
			if named[to] = url; !m.read[to] && !m.copies[to] && !m.denied[to] {
				t.Errorf("%s names %s, which was not fetched", url, to)
			}
		}
	}
	for url, digest := range m.digest {
		switch {
		case named[url] == "":
			t.Errorf("%s was fetched, and no page that was read names it", url)
		case len(m.whole[digest]) == 0:
			t.Errorf("the content of %s is archived nowhere in full", url)
		}
		if first := m.first[url]; m.copies[url] && !slices.Contains(m.whole[digest], first) {
			t.Errorf("%s refers to %s; its content is in full as %v", url, first, m.whole[digest])
		}
	}
	n, extra := m.sums, int64(0)
	for _, urls := range m.whole {
		if extra += int64(len(urls) - 1); extra > n.Unanswered && !faults {
			t.Errorf("a content is archived in full as %v; %d were unanswered", urls, n.Unanswered)
		}
	}
	t.Logf("%d pages, %d contents, %d duplicates; %d asked of other agents in %d messages, %d unanswered, %d known; %.3f of pages and %.3f of bytes are others' to judge",
		len(m.digest), len(m.whole), len(m.copies), n.Asked, n.Messages, n.Unanswered, n.Recent,
		float64(n.Elsewhere)/float64(n.Pages), float64(n.WouldExport)/float64(n.Bytes))
	if len(m.copies) == 0 {
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
	if n.Pages != int64(len(m.digest)) || n.Duplicates != int64(len(m.copies)) || n.Asked == 0 || n.Asked > n.Elsewhere+n.Unanswered*contentsTries {
		t.Errorf("%d pages, %d of them duplicates: %+v", len(m.digest), len(m.copies), n)
	}
	if r := b.web.Report(); r.Origin.Twice > 0 || r.Origin.Beyond > 0 {
		t.Errorf("%d pages fetched twice, %d beyond", r.Origin.Twice, r.Origin.Beyond)
	}
}

// The same where each agent is killed once, and goes on: contents may be archived
// twice, and none is missed.
func TestClusterContentsKilled(t *testing.T) {
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

// An agent joins two others, and then one of these dies and stays away: contents
// have other agents each time, which ask anew, and none is missed. The dead one's
// log and archive stay, to be judged with the rest; nobody looks at them before.
func TestClusterContentsMove(t *testing.T) {
	b := newMirrorBand(t, 44, 3, 100)
	b.begin(0, "--partition", "hash", "--agents", "2", b.seed())
	b.begin(1, "--partition", "hash", "--agents", "2", b.seed())
	b.await(60)
	b.begin(2, "--partition", "hash", b.seed())
	for end := time.Now().Add(time.Minute); len(eventsOf(t, b.home(2), "hosts-taken")) == 0; time.Sleep(20 * time.Millisecond) {
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

// An agent that would share out the work otherwise is not let in.
func TestClusterOtherPartition(t *testing.T) {
	b := newMirrorBand(t, 43, 2, 30)
	b.begin(0, "--partition", "hash", "--agents", "2", b.seed())
	b.begin(1, b.seed())
	if !ended(b.ps[1], time.Minute) || b.ps[1].code() != 4 {
		t.Fatalf("exit code %d, want 4\n%s", b.ps[1].code(), b.ps[1].out.String())
	}
	if says := fmt.Sprintf("has partition %q, the cluster has %q", "ring", "hash"); !strings.Contains(b.ps[1].out.String(), says) {
		t.Errorf("it says %s", b.ps[1].out.String())
	}
}
