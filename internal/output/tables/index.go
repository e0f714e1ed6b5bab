package tables

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// The subsets of an index, as folders.
const (
	subsetWARC        = "warc"
	subsetDiagnostics = "crawldiagnostics"
	subsetRobots      = "robotstxt"
)

var subsets = []string{subsetWARC, subsetDiagnostics, subsetRobots}

// subsetOf returns the subset of a capture. A robots.txt is one that the crawl has asked for as such: the path ends in
// P. If nothing tells the path, the URL decides. Of the others, responses with status 200 and a payload are in warc.
func subsetOf(l *warc.Line, p *place, told bool) string {
	switch {
	case strings.HasSuffix(l.Hops, "P"), l.Hops == "" && !told && p.path == "/robots.txt" && !p.hasQuery:
		return subsetRobots
	case l.Status == "200":
		return subsetWARC
	}
	return subsetDiagnostics
}

// noStatus is the status of a record that has none, such as one that is no HTTP message.
const noStatus = -1

// statusOf returns the status of a capture. A revisit has the one in its own header.
func statusOf(l *warc.Line) int32 {
	s := l.Status
	if s == "" {
		s = l.Fetched
	}
	n, err := strconv.ParseInt(s, 10, 16)
	if err != nil || n < 0 {
		return noStatus
	}
	return int32(n)
}

// The reasons why a line is no row.
var (
	errUTF8   = errors.New("the sort key is not UTF-8")
	errTime   = errors.New("the time is not a time of 14 digits")
	errNoURL  = errors.New("the line has no URL, or no file name")
	errOffset = errors.New("the offset or the length does not fit in 32 bits (WARC files over 2 GiB)")
)

// a capture is an index line with the directory that it comes from.
type capture struct {
	warc.Line
	dir  *source
	told bool // the path is known: if there is none, it is that of a seed
}

// check returns an error if the capture cannot be a row, and its time.
func (c *capture) check() (time.Time, error) {
	at, err := c.Taken()
	switch {
	case !utf8.ValidString(c.SURT):
		return at, errUTF8
	case err != nil:
		return at, errTime
	case c.URL == "" || c.File == "":
		return at, errNoURL
	case c.Offset < 0 || c.Offset > math.MaxInt32 || c.Length < 0 || c.Length > math.MaxInt32:
		return at, errOffset
	}
	return at, nil
}

// fill sets the row of a capture, and returns its subset.
func (c *capture) fill(r *row) (subset string, err error) {
	at, err := c.check()
	if err != nil {
		return "", err
	}
	p := placeOf(c.URL)
	n, in := nameOf(p.host), c.dir.at(c.File)
	r.begin()
	r.text(c.SURT)
	r.text(c.URL)
	r.text(p.host)
	for _, part := range n.parts {
		r.text(part)
	}
	r.text(n.registrySuffix)
	r.text(n.registeredDomain)
	r.text(n.privateSuffix)
	r.text(n.privateDomain)
	r.text(n.reversed)
	r.text(p.protocol)
	if p.port < 0 {
		r.null()
	} else {
		r.int32(p.port)
	}
	r.text(p.path)
	r.textOr(p.query, p.hasQuery)
	r.time(at)
	r.int32(statusOf(&c.Line))
	r.text(c.Redirect)
	r.text(c.Digest)
	r.text(c.MIME)
	r.text(c.Detected)
	r.text(c.Charset)
	r.text(c.Languages)
	r.text(c.Truncated)
	r.text(in.path)
	r.int32(int32(c.Offset))
	r.int32(int32(c.Length))
	r.text(in.segment)
	if c.told || c.Hops != "" {
		r.int32(int32(link.Link{Hops: c.Hops}.Depth()))
	} else {
		r.null()
	}
	r.text(c.Via)
	r.textOr(c.Hops, c.told || c.Hops != "")
	r.text(c.Duplicate)
	r.text(c.Near)
	r.text(c.Category)
	if in.subset != "" {
		return in.subset, nil
	}
	return subsetOf(&c.Line, &p, c.told), nil
}

// once returns the captures of one sort key and second without those that are there twice: a WARC file that was read
// again has new lines besides the old ones. Of two lines for one record, the one that tells more counts.
func once(captures []capture) []capture {
	slices.SortStableFunc(captures, func(a, b capture) int {
		if c := strings.Compare(a.dir.Dir, b.dir.Dir); c != 0 {
			return c
		}
		if c := strings.Compare(a.File, b.File); c != 0 {
			return c
		}
		switch {
		case a.Offset < b.Offset:
			return -1
		case a.Offset > b.Offset:
			return 1
		}
		return tells(&b.Line) - tells(&a.Line)
	})
	return slices.CompactFunc(captures, func(a, b capture) bool {
		return a.dir == b.dir && a.File == b.File && a.Offset == b.Offset
	})
}

func tells(l *warc.Line) (n int) {
	for _, s := range []string{l.Hops, l.Via, l.Fetched, l.Duplicate, l.Near, l.Category} {
		if s != "" {
			n++
		}
	}
	return n
}

// describe names the record of a capture, and what is wrong with its line.
func (c *capture) describe(err error) string {
	return fmt.Sprintf("%s, offset %d: %v", c.dir.at(c.File).path, c.Offset, err)
}
