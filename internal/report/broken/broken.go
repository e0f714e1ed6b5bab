// Package broken answers: which URLs of a crawl are broken, and which pages link to them?
//
//	crawl.log -> visits of URLs that were broken once -> sort -> last visit of each
//	link log  -> links to these URLs                  -> sort -> reports/broken.csv
//
// A URL is in the list if its last visit ended with a status of 400 or more, with an error, or with a redirect that
// leads nowhere (report.IsBroken). The memory does not grow with the crawl: 32 MB for filters and 16 MB for each sort.
package broken

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/orbweaver/orbweaver/internal/linklog"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/extsort"
	"github.com/orbweaver/orbweaver/internal/store/lines"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// File is the name of the list in the directory of the reports.
const File = "broken.csv"

// maxPages bounds the linking pages of a URL in the list. All are counted.
const maxPages = 20

// maxText bounds the text of an error in bytes.
const maxText = 300

// Config tunes Write. The zero Config reads everything.
type Config struct {
	// FS is the file system of the crawl. Nil means the machine's.
	FS disk.FS
	// Temp begins the names of temporary files, on the same file system. Empty means state/spill/broken- in the crawl
	// directory.
	Temp string
	// MaxLinkLog is the size of the link log in bytes on the disk above which Write does not read it. Zero means no
	// limit.
	MaxLinkLog int64
	Stop       extsort.Stop // nil: nothing ends Write early

	memory int // of each sort; for tests
}

// Result says what Write has found.
type Result struct {
	// URLs is the number of broken URLs.
	URLs int64
	// Links reports that the link log was read.
	Links bool
	// Damage is that of the link log.
	Damage linklog.Damage
}

// Write replaces reports/broken.csv in a crawl directory. The columns are url, status, error, links, pages, via and
// kind: status is the HTTP status, and error the kind and text of the failure. links is the number of pages that
// link to the URL, empty without a link log. pages has at most 20 of them, separated by spaces, without a link log
// the page on which the crawl found the URL first. via has for each of these pages the redirect to which it links
// instead, or a dash; it is empty if all link to the URL itself. kind is requisite if a page embeds the URL, else
// document. Rows are sorted by URL. The crawl may be running.
func Write(dir string, cfg Config) (res Result, err error) {
	cfg.FS = cmp.Or(cfg.FS, disk.OS)
	if cfg.Temp == "" {
		cfg.Temp = filepath.Join(dir, "state", "spill", "broken-")
	}
	cfg.memory = cmp.Or(cfg.memory, 16<<20)
	sort := extsort.Config{FS: cfg.FS, Prefix: cfg.Temp, Memory: cfg.memory, Stop: cfg.Stop}
	visits, rows := sort.Queue("visits"), sort.Queue("rows")
	defer func() { err = errors.Join(err, visits.Close(), rows.Close()) }()
	log, size := filepath.Join(dir, "logs", "crawl.log"), int64(0)
	if st, err := cfg.FS.Stat(log); err == nil {
		size = st.Size()
	}
	if err := readLog(cfg.FS, log, newFilter(size), visits, cfg.Stop); err != nil {
		return res, fmt.Errorf("%s: %w", File, err)
	}
	targets, found := newFilter(size), redirects{}
	if err := lastVisits(visits, rows, targets, found); err != nil {
		return res, fmt.Errorf("%s: %w", File, err)
	}
	if rows.Len() > 0 {
		if res.Links, err = small(cfg.FS, dir, cfg.MaxLinkLog); err != nil {
			return res, fmt.Errorf("%s: %w", File, err)
		}
	}
	if res.Links {
		if res.Damage, err = readLinks(cfg.FS, dir, sort, targets, found, rows); err != nil {
			return res, fmt.Errorf("%s: %w", File, err)
		}
	} else if err := found.end(rows); err != nil {
		return res, fmt.Errorf("%s: %w", File, err)
	}
	t := table{links: res.Links}
	var failed error
	err = report.WriteTable(cfg.FS, filepath.Join(dir, "reports", File), func(row func(cells ...string)) {
		row("url", "status", "error", "links", "pages", "via", "kind")
		if failed = rows.Each(func(rec []byte) error { return t.add(rec, row) }); failed == nil {
			t.end(row)
		}
	})
	res.URLs = t.urls
	return res, errors.Join(err, failed)
}

// small reports that the link log has files, of at most max bytes.
func small(fs disk.FS, dir string, max int64) (bool, error) {
	files, err := linklog.Files(fs, dir)
	if err != nil || len(files) == 0 {
		return false, err
	}
	size := int64(0)
	for _, name := range files {
		if st, err := fs.Stat(name); err == nil { // the crawl may have finished the file meanwhile
			size += st.Size()
		}
	}
	return max == 0 || size <= max, nil
}

// A filter knows the hashes of URLs: it has all that were added, and few others.
type filter struct {
	bits []uint64
	drop int // this many low bits of a hash do not count
}

const (
	// filterBits makes a filter at most 16 MB large.
	filterBits = 27
	// A URL has a line of crawl.log, and one bit for so many bytes of it. They are some 20 bits.
	lineBytes = 8
)

// newFilter returns an empty filter for the URLs in a log of some bytes.
func newFilter(log int64) filter {
	n := min(max(bits.Len64(uint64(log)/lineBytes), 10), filterBits)
	return filter{make([]uint64, 1<<n/64), 64 - n}
}

func (f filter) add(url []byte) {
	h := xxhash.Sum64(url) >> f.drop
	f.bits[h/64] |= 1 << (h % 64)
}

func (f filter) has(url []byte) bool { return f.hasHash(xxhash.Sum64(url)) }

func (f filter) hasHash(h uint64) bool {
	h >>= f.drop
	return f.bits[h/64]&(1<<(h%64)) != 0
}

// Columns of a line of crawl.log: see report.Line.
const (
	codeAt = 25
	codeTo = 30
)

// readLog pushes the visits of URLs of which an earlier visit was broken; once is empty. The lines are in the order of
// the visits, so a visit before the first broken one does not matter.
func readLog(fs disk.FS, name string, once filter, visits *extsort.Queue, stop extsort.Stop) error {
	f, err := fs.OpenFile(name, os.O_RDONLY, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil // nothing was visited
	}
	if err != nil {
		return err
	}
	defer f.Close()
	r := lines.NewReader(f, 1<<20, 0) // no line of a crawl is as long
	var rec []byte
	for n := uint64(0); ; n++ {
		if stop != nil && n%4096 == 0 {
			if err := stop.Err(); err != nil {
				return err
			}
		}
		line, err := r.Next()
		switch {
		case err == io.EOF || err == io.ErrUnexpectedEOF:
			return nil
		case err != nil && err != bufio.ErrTooLong:
			return err
		case len(line) < codeTo:
			continue
		}
		code, err := strconv.Atoi(string(bytes.TrimSpace(line[codeAt:codeTo])))
		if err != nil {
			continue
		}
		url := urlOf(line)
		suspect := report.IsBroken(code, "") || code >= 300 && code < 400 && bytes.Contains(line, []byte("-redirect"))
		if !suspect && !once.has(url) {
			continue
		}
		l, err := report.ReadLine(string(line))
		if err != nil || strings.HasSuffix(l.Hops, "P") || bytes.IndexByte(line, 0) >= 0 { // damaged, or a robots.txt
			continue
		}
		once.add(url)
		rec = appendVisit(rec[:0], &l, n)
		if err := visits.Push(rec); err != nil {
			return err
		}
	}
}

// urlOf returns the fourth column of a line.
func urlOf(line []byte) []byte {
	rest := bytes.TrimLeft(line[codeTo:], " ") // the size
	if i := bytes.IndexByte(rest, ' '); i >= 0 {
		rest = rest[i+1:]
	}
	if i := bytes.IndexByte(rest, ' '); i >= 0 {
		rest = rest[:i]
	}
	return rest
}

// A visit is the URL, a zero, 8 bytes number of the line, big-endian, and its row: rowState or rowReplaced if it is
// broken, else 0; the status; the error; its kind; the page on which the URL was found; each with a zero behind it.
func appendVisit(dst []byte, l *report.Line, n uint64) []byte {
	dst = append(append(dst, l.URL...), 0)
	dst = binary.BigEndian.AppendUint64(dst, n)
	if !l.Broken() {
		return append(dst, 0)
	}
	status, text := "", report.RedirectProblem(l.Notes)
	if l.Code > 0 {
		status = strconv.Itoa(l.Code)
	} else {
		text = errorOf(l)
	}
	what := byte(rowState)
	if l.Replaced() {
		what = rowReplaced
	}
	dst = append(dst, what)
	via := l.Via
	if l.Guess() {
		via = "" // which does not link to it
	}
	if strings.HasSuffix(l.Hops, "R") {
		via = redirected + via
	}
	for _, s := range [...]string{status, text, kindOf(l), via} {
		dst = append(append(dst, s...), 0)
	}
	return dst
}

// kindOf returns for what the crawl fetched the URL of a line.
func kindOf(l *report.Line) string {
	if link.IsFile(l.Hops) {
		return "requisite"
	}
	return "document"
}

// errorOf returns the kind and the text of the error of a line.
func errorOf(l *report.Line) string {
	kind, cause := l.ErrorKind(), ""
	for _, n := range l.Notes {
		if v, ok := strings.CutPrefix(n, "cause:"); ok {
			cause = unescape(v)
		}
	}
	if kind == "" {
		kind = report.CodeText(l.Code)
	}
	if cause == "" {
		return kind
	}
	return kind + ": " + cause[:min(len(cause), maxText)]
}

// unescape undoes the percent-encoding of an annotation for what a person can read: white space and commas.
func unescape(s string) string {
	return strings.NewReplacer("%20", " ", "%2C", ",", "%2c", ",").Replace(s)
}

// Records of rows: the URL, a zero, and one of these with its content.
const (
	rowState    = 1 // status, error, kind; each with a zero
	rowReplaced = 2 // the same of a URL that is broken only for pages that link to it: see report.Line.Replaced
	rowPage     = 3 // a page that links to the URL, a zero, and the redirect to which it links; empty: none
)

// lastVisits pushes the state of each URL whose last visit was broken, and the page on which it was found. It adds the
// URL to targets.
func lastVisits(visits, rows *extsort.Queue, targets filter, found redirects) error {
	var url, last, rec []byte
	end := func() error {
		if len(last) == 0 || last[0] == 0 {
			return nil
		}
		cells := bytes.Split(last[1:], []byte{0})
		if len(cells) != 5 {
			return extsort.ErrDamaged
		}
		targets.add(url)
		rec = append(append(rec[:0], url...), 0, last[0])
		for _, cell := range cells[:3] {
			rec = append(append(rec, cell...), 0)
		}
		if err := rows.Push(rec); err != nil || len(cells[3]) == 0 {
			return err
		}
		via, redirect := strings.CutPrefix(string(cells[3]), redirected)
		if redirect && found.add(via, string(url)) {
			return nil
		}
		return pushPage(rows, &rec, string(url), via, "")
	}
	err := visits.Each(func(v []byte) error {
		u, rest, ok := bytes.Cut(v, []byte{0})
		if !ok || len(rest) < 9 {
			return extsort.ErrDamaged
		}
		if !bytes.Equal(u, url) {
			if err := end(); err != nil {
				return err
			}
			url = append(url[:0], u...)
		}
		last = append(last[:0], rest[8:]...)
		return nil
	})
	if err == nil {
		err = end()
	}
	return err
}

// pushPage pushes a page that links to url, or to the redirect via that leads there; empty: to url itself.
func pushPage(rows *extsort.Queue, rec *[]byte, url, page, via string) error {
	*rec = append(append((*rec)[:0], url...), 0, rowPage)
	*rec = append(append(append(*rec, page...), 0), via...)
	return rows.Push(*rec)
}

// A table makes rows of CSV from sorted records.
type table struct {
	links bool
	urls  int64

	url        string
	broken     bool
	replaced   bool
	state      [3]string // status, error, kind
	count      int64
	last       string
	pages, via []string
	through    bool // via has a redirect
}

// add reads a record of rows.
func (t *table) add(rec []byte, row func(cells ...string)) error {
	u, rest, ok := bytes.Cut(rec, []byte{0})
	if !ok || len(rest) == 0 {
		return extsort.ErrDamaged
	}
	if string(u) != t.url {
		t.end(row)
		*t = table{links: t.links, urls: t.urls, url: string(u), pages: t.pages[:0],
			via: t.via[:0]}
	}
	if rest[0] != rowPage {
		cells := bytes.Split(rest[1:], []byte{0})
		if len(cells) != len(t.state)+1 {
			return extsort.ErrDamaged
		}
		t.broken, t.replaced = true, rest[0] == rowReplaced
		for i := range t.state {
			t.state[i] = string(cells[i])
		}
		return nil
	}
	page, via, ok := strings.Cut(string(rest[1:]), "\x00")
	if !ok {
		return extsort.ErrDamaged
	}
	if t.broken && page != t.last { // a page may link twice, as a link and as an image
		t.last = page
		if t.count++; len(t.pages) < maxPages {
			t.pages, t.via = append(t.pages, report.Clean(page)), append(t.via, cmp.Or(report.Clean(via), "-"))
			t.through = t.through || via != ""
		}
	}
	return nil
}

// end writes the row of the URL whose records have been read.
func (t *table) end(row func(cells ...string)) {
	if !t.broken || t.replaced && t.count == 0 { // the filter knows URLs that are not broken, too
		return
	}
	t.urls++
	links := ""
	if t.links {
		links = strconv.FormatInt(t.count, 10)
	}
	via := ""
	if t.through {
		via = strings.Join(t.via, " ")
	}
	row(report.Cell(t.url), t.state[0], report.TextCell(t.state[1]), links, strings.Join(t.pages, " "),
		report.TextCell(via), t.state[2])
	t.broken = false
}
