package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testweb"
	"github.com/orbweaver/orbweaver/internal/testweb/gen"
)

// A nearStory is a crawl of three agents on a web with near-mirrors.
type nearStory struct {
	*testing.T
	made     *gen.Web
	web      *testweb.Web
	homes    []string
	flags    []string
	shingles map[string]map[string]bool // of each page, by its URL
	copies   map[string]string          // the original of each copy, by their URLs
}

// A fate of a page in a nearStory: an agent that finished it, and the near page that it named.
type nearFate struct {
	agent int
	of    string // empty: the page is no near-duplicate
}

const nearDelay = 60 * time.Millisecond

// newNearStory serves a web in which two fifths of the pages are copies with other words. No page is a near-duplicate
// by chance, and copies have no children: so the crawl reaches all pages even if it drops copies.
func newNearStory(t *testing.T, flags ...string) *nearStory {
	t.Helper()
	s := &nearStory{T: t, flags: flags, shingles: map[string]map[string]bool{},
		copies: map[string]string{}}
	var err error
	if s.made, err = gen.New(gen.Spec{Seed: 3, Hosts: 12, PagesMean: 18, MaxPages: 30, PageBytes: 1, Links: 80,
		Languages: 1, Duplicates: 0.4, Edits: 0.006}); err != nil {
		t.Fatal(err)
	}
	truth := must.Get(s.made.Reachable(gen.Bounds{Seeds: []gen.Seed{{}}, Robots: true}))(t)
	truth.Each(func(host, page int64) {
		out, r := s.made.Answer(nil, testweb.Query{Host: host, Target: s.made.Target(host, page)})
		s.shingles[s.made.URL(host, page)] = shinglesOf(out[r.HeadLen:])
	})
	for page, original := range s.made.Copies() {
		s.copies[s.made.URL(page.Host, page.Page)] = s.made.URL(original.Host, original.Page)
	}
	s.web = serve(t, testweb.Config{Origin: s.made, Truth: truth, Promise: testweb.Promise{HostDelay: nearDelay}})
	return s
}

var (
	tagOfPage  = regexp.MustCompile(`(?s)<style.*?</style>|<[^>]*>`)
	wordOfPage = regexp.MustCompile(`[\pL\pM\pN]+`)
)

// shinglesOf returns the groups of five words in the text of a page.
func shinglesOf(page []byte) map[string]bool {
	words := wordOfPage.FindAllString(strings.ToLower(string(tagOfPage.ReplaceAll(page, []byte(" ")))), -1)
	set := map[string]bool{}
	for i := range max(0, len(words)-4) {
		set[strings.Join(words[i:i+5], " ")] = true
	}
	return set
}

// similarity returns the exact Jaccard coefficient of two pages.
func (s *nearStory) similarity(a, b string) float64 {
	both := 0
	for shingle := range s.shingles[a] {
		if s.shingles[b][shingle] {
			both++
		}
	}
	return float64(both) / float64(max(1, len(s.shingles[a])+len(s.shingles[b])-both))
}

func (s *nearStory) home(i int) string { return s.homes[i] }

// crawl runs three agents until they end by themselves. One is killed when it has logged some lines, and resumed.
func (s *nearStory) crawl(killed int) {
	s.Helper()
	var agents []*process
	agents, s.homes = together(s.T, s.web, 3, func(int) []string { return []string{s.made.URL(0, 0)} },
		append([]string{"--scope", "any", "--delay", nearDelay.String(), "--ip-delay", "0", "--site-delay", "0"},
			s.flags...)...)
	p := agents[killed]
	for until := time.Now().Add(2 * time.Minute); len(s.lines(killed)) < 30; {
		if time.Now().After(until) || !p.lives(10*time.Millisecond) {
			s.Fatalf("a%d has not logged 30 lines:\n%s", killed+1, tail(p.out.String()))
		}
	}
	if _, running := p.kill(); !running {
		s.Logf("a%d had ended before", killed+1) // on a very slow machine
	}
	agents[killed] = start(s.T, "crawl", "--resume", "--dir", s.home(killed), "--quiet")
	finished(s.T, agents, s.homes)
	for _, home := range s.homes {
		verify(s.T, home)
	}
	noViolations(s.T, s.web)
	if r := s.web.Report(); r.Origin.Missed > 0 || r.Origin.Beyond > 0 {
		s.Errorf("%d pages missed (%v), %d beyond", r.Origin.Missed, r.Origin.MissedURLs, r.Origin.Beyond)
	}
}

// lines returns the whole lines of an agent's crawl.log, by columns.
func (s *nearStory) lines(i int) (lines [][]string) {
	b, err := os.ReadFile(filepath.Join(s.home(i), "logs", "crawl.log"))
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(b[:bytes.LastIndexByte(b, '\n')+1])) {
		if f := strings.Fields(line); len(f) > 11 {
			lines = append(lines, f)
		}
	}
	return lines
}

// fates returns the fates of all pages, by URL. A page has one for each agent that archived or dropped it. If an agent
// has several lines of a page, the last one counts.
func (s *nearStory) fates() map[string][]nearFate {
	s.Helper()
	all := map[string][]nearFate{}
	for i := range 3 {
		last := map[string]string{} // the annotations
		for _, f := range s.lines(i) {
			if f[1] != "200" {
				continue
			}
			if _, ok := s.shingles[f[3]]; ok && !strings.Contains(f[11], "exported") {
				last[f[3]] = f[11]
			}
		}
		marked := 0.0
		for u, notes := range last {
			fate := nearFate{agent: i}
			for n := range strings.SplitSeq(notes, ",") {
				if of, ok := strings.CutPrefix(n, "near-duplicate:"); ok {
					fate.of = of
					marked++
				}
			}
			all[u] = append(all[u], fate)
		}
		if got, _ := summary(s.T, s.home(i))["near_duplicates"].(float64); got < marked {
			s.Errorf("a%d counts %v near-duplicates, and its log has %v", i+1, got, marked)
		}
	}
	return all
}

// lostOthers reports whether an agent other than killed considered another one than killed lost. An overloaded machine
// is the only cause of that here. Then pages may be fetched again.
func (s *nearStory) lostOthers(killed int) bool {
	s.Helper()
	for i := range 3 {
		full := false
		for _, e := range eventsOf(s.T, s.home(i), "view") {
			present := map[string]bool{}
			for _, name := range e["agents"].([]any) {
				present[name.(string)] = true
			}
			full = full || len(present) == 3
			for j := range 3 {
				if full && i != killed && j != killed && !present[fmt.Sprintf("a%d", j+1)] {
					s.Logf("a%d considered a%d lost", i+1, j+1)
					return true
				}
			}
		}
	}
	return false
}

// judge checks that each page of the web was archived or dropped, and that each near-duplicate is near to a page that
// the same agent has archived. Only pages that the killed agent had touched may have two fates. It returns the number
// of near-duplicates.
func (s *nearStory) judge(drops bool, killed int) (marked int) {
	s.Helper()
	fates, lost := s.fates(), s.lostOthers(killed)
	var archived [3]map[string]int
	for i := range archived {
		archived[i] = indexed(s.T, s.home(i))
	}
	touched := map[string]bool{}
	for _, f := range s.lines(killed) {
		touched[f[3]] = true
	}
	twice := 0
	for u := range s.shingles {
		switch n := len(fates[u]); {
		case n == 0:
			s.Errorf("%s is neither archived nor dropped", u)
		case n > 1 && !touched[u] && !lost:
			s.Errorf("%s has several fates: %v", u, fates[u])
		case n > 1:
			twice++
		}
		for _, f := range fates[u] {
			switch kept := archived[f.agent][u]; {
			case f.of == "" && kept == 0:
				s.Errorf("a%d has finished %s, and its archive does not have it", f.agent+1, u)
			case f.of == "":
			case archived[f.agent][f.of] == 0:
				s.Errorf("%s is a near-duplicate of %s, which a%d has not archived", u, f.of, f.agent+1)
			case s.similarity(u, f.of) < 0.85: // the estimate is 0.9 or more
				s.Errorf("%s is called a near-duplicate of %s, with a similarity of %.3f", u, f.of,
					s.similarity(u, f.of))
			case kept > 0 && drops && !touched[u] && !lost:
				s.Errorf("a%d has dropped and archived %s", f.agent+1, u)
			case kept == 0 && !drops:
				s.Errorf("a%d has marked %s, and its archive does not have it", f.agent+1, u)
			}
			if f.of != "" {
				marked++
			}
		}
	}
	s.Logf("%d pages, %d near-duplicates, %d with several fates", len(s.shingles), marked, twice)
	return marked
}

// together returns how many pairs of a copy and its original are near-duplicates, and how many of these pairs have both
// pages at one agent. Equal pages do not count.
func (s *nearStory) together() (same, pairs int) {
	fates := s.fates()
	for u, original := range s.copies {
		if j := s.similarity(u, original); j < 0.9 || j == 1 || len(fates[u]) == 0 || len(fates[original]) == 0 {
			continue
		}
		pairs++
		if fates[u][0].agent == fates[original][0].agent {
			same++
		}
	}
	return same, pairs
}

// Three agents look for near-duplicates, one of them is killed (kill -9) and resumed: no page is lost. If contents are
// divided by their exact hash, a third of the near-duplicate pairs come to one agent. By the near hash nearly all do.
// The bounds leave room for pages that go to other agents while one is away.
func TestClusterNear(t *testing.T) {
	contents := []string{"--partition", "hash", "--boundary", "contents"}
	for _, c := range []struct {
		name, mode  string
		flags       []string
		least, most float64 // the share of the near-duplicate pairs at one agent
	}{
		{"hosts", "drop", nil, 0, 1},
		{"contents", "drop", contents, 0, 0.6},
		{"near contents", "drop", slices.Concat(contents, []string{"--content-hash", "near"}), 0.65, 1},
		{"topics", "mark", []string{"--partition", "topic"}, 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			weighs(t, 3)
			s := newNearStory(t, slices.Concat(c.flags, []string{"--near-duplicates", c.mode})...)
			s.crawl(1)
			if s.judge(c.mode == "drop", 1) == 0 {
				t.Error("no page is a near-duplicate")
			}
			same, pairs := s.together()
			t.Logf("%d of %d near-duplicate pairs at one agent", same, pairs)
			share := float64(same) / float64(max(1, pairs))
			if pairs < 20 || share < c.least || share > c.most && !s.lostOthers(1) {
				t.Errorf("%d of %d near-duplicate pairs are at one agent; want at least 20 pairs, and a share from %g "+
					"to %g", same, pairs, c.least, c.most)
			}
		})
	}
}
