package sim

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// holdings are the pages on the disks of all agents together. They judge the search for duplicates among agents
// (--partition hash): each content is archived in full, and its links are followed once. Links and contents are those
// of the generated web, and records those of archive.go. What depends on the agents is which pages they call
// duplicates in crawl.log, and the counts in their summaries.
type holdings struct {
	judged   *judge
	archives *archives
	pages    map[string]page // reachable pages by URL
	content  map[page]string // digests of all pages
	last     map[page]logged // of each fetched page: its latest log line
	read     map[page]bool   // pages that were no duplicates in some log line
	counts   report.Contents // sums over the summaries
	wrong    []string
}

// A logged is a line of crawl.log.
type logged struct {
	at        time.Time
	duplicate bool
}

// holdings reads the logs and summaries of all agents.
func (s *story) holdings(all *archives) *holdings {
	h := &holdings{
		judged: s.judge, archives: all, pages: map[string]page{}, content: map[page]string{},
		last: map[page]logged{}, read: map[page]bool{},
	}
	s.judge.truth.Each(func(host, number int64) {
		p := page{host, number}
		h.pages[s.judge.truth.URL(host, number)] = p
		h.content[p] = s.judge.content(p)
	})
	for _, a := range s.actors {
		if a.run == nil {
			continue
		}
		if err := h.readLog(a); err != nil {
			h.fail("%s: %v", a.name, err)
		}
		if c := a.run.result.Summary.Contents; c != nil && !a.run.killed {
			h.counts.Pages += c.Pages
			h.counts.Elsewhere += c.Elsewhere
			h.counts.Asked += c.Asked
			h.counts.Waited += c.Waited
			h.counts.Unanswered += c.Unanswered
			h.counts.Untold += c.Untold
		}
	}
	return h
}

func (h *holdings) fail(format string, args ...any) {
	h.wrong = append(h.wrong, fmt.Sprintf(format, args...))
}

func (h *holdings) url(p page) string { return h.judged.truth.URL(p.host, p.number) }

// readLog reads the log on an actor's disk.
func (h *holdings) readLog(a *actor) error {
	log, err := disk.ReadFile(a.mem, crawlDir+"/logs/crawl.log", 1<<30)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // an agent without pages has no log
		return err
	}
	for line := range strings.Lines(string(log)) {
		if !strings.HasSuffix(line, "\n") {
			continue // cut by a kill
		}
		if err := h.readLine(strings.Fields(line)); err != nil {
			return fmt.Errorf("crawl.log: %w: %q", err, line)
		}
	}
	return nil
}

// readLine takes the columns of a line of a log: time, status, size, URL, seven others, and notes. If a fault made an
// agent repeat a fetch, the last line counts.
func (h *holdings) readLine(column []string) error {
	const denied = "-9998" // by robots.txt
	if len(column) != 12 {
		return fmt.Errorf("%d columns", len(column))
	}
	at, err := time.Parse(time.RFC3339, column[0])
	status, url := column[1], column[3]
	switch {
	case err != nil:
		return err
	case strings.HasSuffix(url, "/robots.txt") || status == denied:
		return nil
	case status != "200":
		return errors.New("not 200")
	}
	p, ok := h.pages[url]
	if !ok {
		return errors.New("not a reachable page")
	}
	notes := strings.Split(column[11], ",")
	if slices.Contains(notes, "exported") {
		return nil // the agent that archives the page has a line, too
	}
	duplicate := slices.Contains(notes, "duplicate:content")
	if !duplicate {
		h.read[p] = true
	}
	if before, ok := h.last[p]; !ok || before.at.Before(at) {
		h.last[p] = logged{at, duplicate}
	}
	return nil
}

// judge returns what is wrong with the holdings. Without faults, a content may have several
// response records only if an answer came too late, or if no agent could be told of the first.
func (h *holdings) judge(faults bool) []string {
	named, duplicates := map[page]bool{{}: true}, 0
	for p := range h.read {
		for _, to := range h.links(p) {
			named[to] = true
		}
	}
	for p, l := range h.last {
		full := h.archives.urls[h.content[p]]
		switch {
		case !named[p]:
			h.fail("%s was fetched, but no page whose links were followed names it", h.url(p))
		case len(full) == 0:
			h.fail("the content of %s has no response record", h.url(p))
		}
		if l.duplicate {
			duplicates++
		} else if !slices.Contains(full, h.url(p)) {
			h.fail("%s is no duplicate and has no response record", h.url(p))
		}
	}
	if duplicates == 0 {
		h.fail("the web has copies of pages, but no page was a duplicate")
	}
	h.walk()
	extra := int64(0)
	for _, urls := range h.archives.urls {
		extra += int64(len(urls) - 1)
	}
	if n := h.counts; extra > n.Unanswered+n.Untold && !faults {
		h.fail("%d contents are archived in full again; %d questions were unanswered, %d contents untold",
			extra, n.Unanswered, n.Untold)
	}
	return h.wrong
}

// walk follows the links of pages, beginning with the seed. If a page is no duplicate, all
// pages that it names must have been fetched. If it is a duplicate, the links of another page
// with its content must have been followed. That page need not be the one that the revisit
// record names: an agent that was killed may fetch its last pages again as duplicates.
func (h *holdings) walk() {
	seed := page{}
	if _, fetched := h.last[seed]; !fetched {
		h.fail("the seed was not fetched")
	}
	met, read, queue := map[page]bool{seed: true}, map[string]bool{}, []page{seed}
	follow := func(links []page) {
		for _, to := range links {
			if _, fetched := h.last[to]; fetched && !met[to] {
				met[to] = true
				queue = append(queue, to)
			}
		}
	}
	for len(queue) > 0 {
		p := queue[0]
		queue = queue[1:]
		digest := h.content[p]
		if !h.last[p].duplicate {
			read[digest] = true
			links := h.links(p)
			if to, ok := h.unfetched(links); ok {
				h.fail("%s names %s, which was not fetched", h.url(p), h.url(to))
			}
			follow(links)
			continue
		}
		for _, original := range h.archives.urls[digest] {
			links := h.links(h.pages[original])
			if _, ok := h.unfetched(links); ok || read[digest] {
				continue
			}
			read[digest] = true
			follow(links)
		}
	}
	for p := range met {
		if digest := h.content[p]; !read[digest] {
			h.fail("%s is a duplicate, but no agent followed the links of a page with its content: %q",
				h.url(p), h.archives.urls[digest])
		}
	}
}

// unfetched returns a link to a page that no agent fetched.
func (h *holdings) unfetched(links []page) (to page, found bool) {
	for _, to := range links {
		if _, fetched := h.last[to]; !fetched {
			return to, true
		}
	}
	return page{}, false
}

// links returns the reachable pages to which a page links.
func (h *holdings) links(p page) (links []page) {
	for _, to := range h.judged.made.Links(p.host, p.number, nil) {
		if h.judged.truth.Has(to.Host, to.Page) {
			links = append(links, page{to.Host, to.Page})
		}
	}
	return links
}
