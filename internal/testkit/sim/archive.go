package sim

import (
	"bytes"
	"compress/gzip"
	"crypto/sha1"
	"encoding/base32"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testweb"
)

// A capture names a record of an archive.
type capture struct{ url, date string }

// A record is a response or revisit record on an agent's disk.
type record struct {
	agent string
	capture
	revisit bool
	status  int     // of a response
	digest  string  // of the body: computed for a response, stated by a revisit
	first   capture // the record to which a revisit refers
	offset  int     // in the file
	length  int     // of its gzip member
}

// archives holds the records on the disks of all agents. Its reader of WARC files is its own, so that it does not
// repeat the mistakes of the agents' writer.
type archives struct {
	list  []record
	at    map[capture]string  // digests of the responses
	urls  map[string][]string // by digest: URLs of the responses with status 200, no robots.txt, with repetitions
	has   map[string]bool     // URLs of all records with status 200
	wrong []string
}

func newArchives() *archives {
	return &archives{at: map[capture]string{}, urls: map[string][]string{}, has: map[string]bool{}}
}

// add adds a record.
func (all *archives) add(r record) {
	all.list = append(all.list, r)
	if r.status == 200 {
		all.has[r.url] = true
	}
	if r.revisit {
		return
	}
	all.at[r.capture] = r.digest
	if r.status == 200 && !strings.HasSuffix(r.url, "/robots.txt") {
		all.urls[r.digest] = append(all.urls[r.digest], r.url)
	}
}

// archives reads the disks of all agents, also of those that were killed and did not return.
func (s *story) archives() *archives {
	all := newArchives()
	for _, a := range s.actors {
		if a.run != nil {
			all.read(a)
		}
		if a.left != nil {
			for _, r := range recordsOn(s.t, a.left) {
				r.agent = a.name
				all.add(r)
			}
		}
	}
	return all
}

func (all *archives) fail(format string, args ...any) {
	all.wrong = append(all.wrong, fmt.Sprintf(format, args...))
}

// read reads an actor's WARC files. If the agent was killed or failed, and did not return, its open file may end in
// an incomplete record.
func (all *archives) read(a *actor) {
	const dir = crawlDir + "/archive/"
	a.records = map[string][]record{}
	entries, err := a.mem.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // an agent without pages, or a new disk, has no archive
		all.fail("%s: %v", a.name, err)
	}
	for _, e := range entries {
		file, err := disk.ReadFile(a.mem, dir+e.Name(), 1<<30)
		if err != nil {
			all.fail("%s: %v", a.name, err)
			continue
		}
		open, away := strings.HasSuffix(e.Name(), ".open"), a.run.killed || a.run.err != nil
		list, err := readWARC(file)
		a.records[e.Name()] = list
		if open && !away || err != nil && !(open && away) {
			all.fail("%s: %s: %v", a.name, e.Name(), err)
		}
		for _, r := range list {
			r.agent = a.name
			all.add(r)
		}
	}
	for name, file := range a.stored() {
		list, err := readWARC(file)
		if err != nil {
			all.fail("%s: %s in the store: %v", a.name, name, err)
		}
		a.records[name] = list
		for _, r := range list {
			r.agent = a.name
			all.add(r)
		}
	}
}

// recordsOn returns the records of an archive. The last file may be incomplete.
func recordsOn(t testing.TB, mem *testdisk.Mem) (all []record) {
	t.Helper()
	const dir = crawlDir + "/archive/"
	entries, err := mem.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		file, err := disk.ReadFile(mem, dir+e.Name(), 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		list, err := readWARC(file)
		if err != nil && !strings.HasSuffix(e.Name(), ".open") {
			t.Errorf("%s: %v", e.Name(), err)
		}
		all = append(all, list...)
	}
	return all
}

// readWARC returns the responses and revisits of a WARC file in which each record has a gzip member of its own. If
// the file is damaged, it returns the records before the damage and an error.
func readWARC(file []byte) (list []record, err error) {
	in := bytes.NewReader(file) // the gzip reader reads no further than the end of a member
	var z gzip.Reader
	var text bytes.Buffer
	for in.Len() > 0 {
		at := len(file) - in.Len()
		text.Reset()
		if err = z.Reset(in); err == nil {
			z.Multistream(false)
			_, err = text.ReadFrom(&z)
		}
		var r record
		var kind string
		if err == nil {
			r, kind, err = parseRecord(text.Bytes())
		}
		if err != nil {
			return list, fmt.Errorf("offset %d: %w", at, err)
		}
		if kind == "response" || kind == "revisit" {
			r.offset, r.length = at, len(file)-in.Len()-at
			list = append(list, r)
		}
	}
	return list, nil
}

const identicalProfile = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"

// parseRecord parses the text of one record: a header, an empty line, a block, and two empty lines (ISO 28500).
func parseRecord(text []byte) (r record, kind string, err error) {
	head, block, ok := bytes.Cut(text, []byte("\r\n\r\n"))
	version, lines, _ := strings.Cut(string(head), "\r\n")
	if !ok || version != "WARC/1.1" {
		return r, "", fmt.Errorf("no WARC header: %.40q", text)
	}
	fields := map[string]string{}
	for line := range strings.SplitSeq(lines, "\r\n") {
		name, value, ok := strings.Cut(line, ": ")
		if _, twice := fields[name]; twice || !ok {
			return r, "", fmt.Errorf("header line %q", line)
		}
		fields[name] = value
	}
	kind = fields["WARC-Type"]
	needed := []string{"WARC-Type", "WARC-Record-ID", "WARC-Date"}
	if slices.Contains([]string{"response", "revisit", "request"}, kind) {
		needed = append(needed, "WARC-Target-URI")
	}
	if kind == "response" || kind == "revisit" {
		needed = append(needed, "WARC-Payload-Digest")
	}
	for _, name := range needed {
		if fields[name] == "" {
			return r, "", fmt.Errorf("%s record without %s", kind, name)
		}
	}
	n, err := strconv.Atoi(fields["Content-Length"])
	if err != nil || n+4 != len(block) || string(block[n:]) != "\r\n\r\n" {
		return r, "", fmt.Errorf("%s record with %d bytes after the header, Content-Length %q", kind, len(block),
			fields["Content-Length"])
	}
	block = block[:n]
	if want := fields["WARC-Block-Digest"]; want != "" && want != digestOf(block) {
		return r, "", fmt.Errorf("%s record does not match its digest %s", kind, want)
	}
	r = record{capture: capture{fields["WARC-Target-URI"], fields["WARC-Date"]}, digest: fields["WARC-Payload-Digest"]}
	httpHead, body, ok := bytes.Cut(block, []byte("\r\n\r\n"))
	if kind == "response" || kind == "revisit" {
		if len(httpHead) > 12 {
			r.status, err = strconv.Atoi(string(httpHead[9:12])) // after "HTTP/1.1 "
		}
		if !ok || err != nil {
			return r, "", fmt.Errorf("%s of %s with the HTTP header %.40q", kind, r.url, httpHead)
		}
	}
	switch kind {
	case "revisit":
		r.revisit = true
		r.first = capture{fields["WARC-Refers-To-Target-URI"], fields["WARC-Refers-To-Date"]}
		if fields["WARC-Profile"] != identicalProfile {
			return r, "", fmt.Errorf("revisit of %s with the profile %q", r.url, fields["WARC-Profile"])
		}
	case "response":
		if r.digest != digestOf(body) {
			return r, "", fmt.Errorf("response of %s does not match its payload digest %s", r.url, r.digest)
		}
	}
	return r, kind, nil
}

// digestOf returns the SHA-1 of a text as WARC records have it.
func digestOf(text []byte) string {
	sum := sha1.Sum(text)
	return "sha1:" + base32.StdEncoding.EncodeToString(sum[:])
}

// content returns the digest of the body that the web serves for a page, as it crosses the wire.
func (j *judge) content(p page) string {
	answer, reply := j.made.Answer(nil, testweb.Query{
		Host: p.host, Target: j.made.Target(p.host, p.number), Gzip: true, Answered: 3, // no more 429 or 503
		Secure: strings.HasPrefix(j.truth.URL(p.host, p.number), "https:"),
	})
	return digestOf(answer[reply.HeadLen:])
}

// forgets notes that an agent's disk has lost the records of a period.
func (j *judge) forgets(agent int, e excuse) {
	e.agent = agent
	j.mu.Lock()
	defer j.mu.Unlock()
	j.forgotten = append(j.forgotten, e)
}

// loses notes that an archive with these records is lost now.
func (j *judge) loses(records []record) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, r := range records {
		j.gone[r.url] = append(j.gone[r.url], time.Now())
	}
}

// archived judges the archives: the agents must have a record of each reachable page that the web has answered in
// whole. Its body is the one that the web serves. A revisit record must refer to a record with that body. A page
// whose record was lost with a disk needs none, unless the agents fetch such pages again, have not lost all copies of
// what they knew, and had not agreed to the end of the crawl before the loss. Nor does a page whose record could not be
// written, if the agents have records of as many other pages of the host as the plan allows.
func (j *judge) archived(all *archives) []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	bodies, known := map[string]string{}, j.known()
	forgotten := map[string]bool{} // URLs of pages of which a disk has lost a record
	final := map[string]bool{}     // those of which it was lost after the agents had agreed to the end
	j.truth.Each(func(host, number int64) {
		p := page{host, number}
		url := j.truth.URL(host, number)
		bodies[url] = j.content(p)
		in := func(losses []excuse) bool {
			return slices.ContainsFunc(j.pages[p], func(f fetched) bool {
				return slices.ContainsFunc(losses, func(e excuse) bool {
					// If pages move, any agent may have fetched it.
					return e.covers(f.agent, f.at) || j.moves && !f.at.After(e.to)
				})
			})
		}
		forgotten[url], final[url] = in(j.forgotten), in(j.final)
	})
	for _, r := range all.list {
		want, reachable := bodies[r.url]
		switch original, ok := all.at[r.first]; {
		case r.revisit && !ok && (forgotten[r.first.url] || len(j.forgotten) > 0 && bodies[r.first.url] == ""):
		case r.revisit && original != r.digest:
			all.fail("%s: the revisit %v refers to %v, which is not archived with this content", r.agent, r.capture,
				r.first)
		case reachable && r.digest != want && r.status == 200:
			all.fail("%s: %v is archived with another content than the web has", r.agent, r.capture)
		}
	}
	recorded := map[int64]int64{} // pages with a record, by host
	j.truth.Each(func(host, number int64) {
		if all.has[j.truth.URL(host, number)] {
			recorded[host]++
		}
	})
	missing := 0
	j.truth.Each(func(host, number int64) {
		p := page{host, number}
		fs, url := j.pages[p], j.truth.URL(host, number)
		if len(fs) == 0 || forgotten[url] && (!j.refetches || len(j.losses) > 0 || final[url]) ||
			!known[place{page: p}] || all.has[url] || !j.isKept(url) ||
			j.hostPages > 0 && recorded[host] >= j.hostPages {
			return
		}
		text := url
		for _, f := range fs {
			text += fmt.Sprintf(", a%d at %s", f.agent, f.at.Sub(start))
		}
		if missing++; missing <= 10 {
			all.fail("fetched, but no agent has a record: %s", text)
		}
	})
	if missing > 10 {
		all.fail("fetched, but no agent has a record: %d pages", missing)
	}
	return all.wrong
}
