package sim

import (
	"bytes"
	"encoding/base32"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/parse"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// holdings are the pages on the disks of all agents together. They judge the search for
// duplicates among agents (--partition hash): each content is archived in full, its links are
// followed once, and each revisit record refers to a record that exists.
type holdings struct {
	last     map[string]report.Line // of each fetched page: its latest log line
	read     map[string]bool        // pages that were no duplicates in some log line
	denied   map[string]bool        // by robots.txt
	records  map[capture]string     // digests of the response records
	urls     map[string][]string    // by digest: the URLs of its response records, with repetitions
	bodies   map[string][]byte      // by digest
	revisits []revisit
	counts   report.Contents // sums over the summaries
	wrong    []string
}

// A capture names a record of an archive.
type capture struct{ url, date string }

// A revisit is a record that refers to an earlier one.
type revisit struct {
	capture
	digest string
	first  capture
}

// holdings reads the logs, archives and summaries of all agents.
func (s *story) holdings() *holdings {
	h := &holdings{
		last: map[string]report.Line{}, read: map[string]bool{}, denied: map[string]bool{},
		records: map[capture]string{}, urls: map[string][]string{}, bodies: map[string][]byte{},
	}
	for _, a := range s.actors {
		if a.run == nil {
			continue
		}
		if err := h.readAgent(a); err != nil {
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

// readAgent reads the log and the archive on an actor's disk. For an agent that was killed, it
// first recovers the archive, as a resumed crawl does.
func (h *holdings) readAgent(a *actor) error {
	if a.run.killed {
		w, _, err := warc.Open(warc.Config{Dir: crawlDir, FS: a.mem})
		if err = errors.Join(err, w.Close()); err != nil {
			return err
		}
	}
	log, err := disk.ReadFile(a.mem, crawlDir+"/logs/crawl.log", 1<<30)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // an agent without pages has no log
		return err
	}
	for line := range strings.Lines(string(log)) {
		if !strings.HasSuffix(line, "\n") {
			continue // cut by a kill
		}
		l, err := report.ReadLine(line)
		if err != nil {
			return err
		}
		h.readLine(l)
	}
	files, err := a.mem.ReadDir(crawlDir + "/archive")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, f := range files {
		b, err := disk.ReadFile(a.mem, crawlDir+"/archive/"+f.Name(), 1<<30)
		if err != nil {
			return err
		}
		if err := h.readWARC(b); err != nil {
			return fmt.Errorf("%s: %w", f.Name(), err)
		}
	}
	return nil
}

// readLine takes a line of a log. If a fault made an agent repeat a fetch, the last line counts.
func (h *holdings) readLine(l report.Line) {
	switch {
	case strings.HasSuffix(l.URL, "/robots.txt"):
		return
	case l.Code == report.CodeRobotsDenied:
		h.denied[l.URL] = true
		return
	case l.Code != 200:
		h.fail("%s: status %d", l.URL, l.Code)
		return
	case !isDuplicate(l):
		h.read[l.URL] = true
	}
	if before, ok := h.last[l.URL]; !ok || before.Time.Before(l.Time) {
		h.last[l.URL] = l
	}
}

func isDuplicate(l report.Line) bool { return slices.Contains(l.Notes, "duplicate:content") }

// digestOf returns a line's digest as WARC records have it.
func digestOf(l report.Line) string { return "sha1:" + base32.StdEncoding.EncodeToString(l.Digest[:]) }

func (h *holdings) readWARC(file []byte) error {
	for r := warc.NewReader(bytes.NewReader(file)); ; {
		rec, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		c := capture{rec.URL(), rec.Header.Value("WARC-Date")}
		digest := rec.Header.Value("WARC-Payload-Digest")
		switch rec.Type() {
		case "revisit":
			first := capture{
				rec.Header.Value("WARC-Refers-To-Target-URI"), rec.Header.Value("WARC-Refers-To-Date"),
			}
			h.revisits = append(h.revisits, revisit{c, digest, first})
			if rec.Header.Value("WARC-Profile") != warc.ProfileIdentical {
				h.fail("revisit %v has the profile %q", c, rec.Header.Value("WARC-Profile"))
			}
		case "response":
			body, err := rec.Payload()
			if err != nil {
				return err
			}
			text, err := io.ReadAll(body)
			if err != nil {
				return err
			}
			h.records[c], h.bodies[digest] = digest, text
			if !strings.HasSuffix(c.url, "/robots.txt") {
				h.urls[digest] = append(h.urls[digest], c.url)
			}
		}
	}
}

// judge returns what is wrong with the holdings. Without faults, a content may have several
// response records only if an answer came too late, or if no agent could be told of the first.
func (h *holdings) judge(seed string, faults bool) []string {
	named, duplicates := map[string]bool{seed: true}, 0
	for url := range h.read {
		for _, to := range h.links(url, digestOf(h.last[url])) {
			named[to] = true
		}
	}
	for url, l := range h.last {
		digest := digestOf(l)
		switch {
		case !named[url]:
			h.fail("%s was fetched, but no page whose links were followed names it", url)
		case len(h.urls[digest]) == 0:
			h.fail("the content of %s has no response record", url)
		}
		if isDuplicate(l) {
			duplicates++
		} else if !slices.Contains(h.urls[digest], url) {
			h.fail("%s is no duplicate and has no response record", url)
		}
	}
	if duplicates == 0 {
		h.fail("the web has copies of pages, but no page was a duplicate")
	}
	h.walk(seed)
	for _, r := range h.revisits {
		if h.records[r.first] != r.digest {
			h.fail("the revisit %v refers to %v, which is not archived with this content", r.capture, r.first)
		}
	}
	extra := int64(0)
	for _, urls := range h.urls {
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
func (h *holdings) walk(seed string) {
	if _, fetched := h.last[seed]; !fetched {
		h.fail("the seed was not fetched")
	}
	met, read, queue := map[string]bool{seed: true}, map[string]bool{}, []string{seed}
	follow := func(links []string) {
		for _, to := range links {
			if _, fetched := h.last[to]; fetched && !met[to] {
				met[to] = true
				queue = append(queue, to)
			}
		}
	}
	for len(queue) > 0 {
		url := queue[0]
		queue = queue[1:]
		l := h.last[url]
		digest := digestOf(l)
		if !isDuplicate(l) {
			read[digest] = true
			links := h.links(url, digest)
			if to, ok := h.unfetched(links); ok {
				h.fail("%s names %s, which was not fetched", url, to)
			}
			follow(links)
			continue
		}
		for _, original := range h.urls[digest] {
			links := h.links(original, digest)
			if _, ok := h.unfetched(links); ok || read[digest] {
				continue
			}
			read[digest] = true
			follow(links)
		}
	}
	for url := range met {
		if digest := digestOf(h.last[url]); !read[digest] {
			h.fail("%s is a duplicate, but no agent followed the links of a page with its content: %q",
				url, h.urls[digest])
		}
	}
}

// unfetched returns a link that robots.txt allows and that no agent fetched.
func (h *holdings) unfetched(links []string) (to string, found bool) {
	for _, to := range links {
		if _, fetched := h.last[to]; !fetched && !h.denied[to] {
			return to, true
		}
	}
	return "", false
}

// links returns the links of a page with a content.
func (h *holdings) links(url, digest string) (links []string) {
	var page parse.Page
	in := parse.Input{URL: weburl.MustParse(url), ContentType: "text/html", Body: h.bodies[digest]}
	parse.Parse(in, parse.Options{}, &page)
	for _, l := range page.Links {
		links = append(links, l.URL.String())
	}
	return links
}
