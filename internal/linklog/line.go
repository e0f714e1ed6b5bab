package linklog

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/lines"
)

// Bounds of a line, in bytes.
const (
	// maxLinks bounds the links of a line. Links beyond it are counted in left_out.
	maxLinks = 4 << 20
	// maxLine bounds a line that Read accepts.
	maxLine = maxLinks + 1<<20
)

// Redirect is the kind of a link that an HTTP redirect makes.
const Redirect = "redirect"

const timeForm = "2006-01-02T15:04:05.000Z"

// Links are the encoded links of a page. The zero Links is that of a page that was not read for links.
type Links struct {
	buf     []byte
	leftOut int
}

// Reset empties ls. read says that the page was read for links.
func (ls *Links) Reset(read bool) {
	const keep = 128 << 10
	if cap(ls.buf) > keep {
		ls.buf = nil
	}
	ls.buf, ls.leftOut = ls.buf[:0], 0
	if read {
		ls.buf = append(ls.buf, '[')
	}
}

// Add adds a link. rel and anchor are in UTF-8.
func (ls *Links) Add(target, kind string, rel, anchor []byte) {
	if len(ls.buf)+len(target)+len(rel)+len(anchor) > maxLinks {
		ls.leftOut++
		return
	}
	b := ls.buf
	if len(b) > 1 {
		b = append(b, ',')
	}
	b = lines.AppendString(append(b, '['), target)
	b = lines.AppendString(append(b, ','), kind)
	if len(rel) > 0 || len(anchor) > 0 {
		b = lines.AppendString(append(b, ','), rel)
	}
	if len(anchor) > 0 {
		b = lines.AppendString(append(b, ','), anchor)
	}
	ls.buf = append(b, ']')
}

// A Line says what became of a URL, and where it links to.
type Line struct {
	URL    string
	Time   time.Time
	Status int    // HTTP status or a negative code of crawl.log
	Error  string // kind of error
	Links  *Links // nil: the page was not read for links
}

// appendTo appends l and a newline.
func (l *Line) appendTo(dst []byte) []byte {
	dst = lines.AppendString(append(dst, `{"url":`...), l.URL)
	dst = append(dst, `,"time":"`...)
	dst = l.Time.UTC().AppendFormat(dst, timeForm)
	dst = append(dst, `","status":`...)
	dst = strconv.AppendInt(dst, int64(l.Status), 10)
	if l.Error != "" {
		dst = lines.AppendString(append(dst, `,"error":`...), l.Error)
	}
	if l.Links != nil && len(l.Links.buf) > 0 {
		dst = append(append(append(dst, `,"links":`...), l.Links.buf...), ']')
		if l.Links.leftOut > 0 {
			dst = strconv.AppendInt(append(dst, `,"left_out":`...), int64(l.Links.leftOut), 10)
		}
	}
	return append(dst, "}\n"...)
}

// A Link is a link of a page that was read.
type Link struct {
	Target, Kind, Rel, Anchor string
}

// UnmarshalJSON reads the array of a link.
func (l *Link) UnmarshalJSON(b []byte) error {
	var cells []string
	if err := json.Unmarshal(b, &cells); err != nil {
		return err
	}
	if len(cells) == 0 || cells[0] == "" {
		return errNoTarget
	}
	*l = Link{}
	for i, to := range []*string{&l.Target, &l.Kind, &l.Rel, &l.Anchor} {
		if i < len(cells) {
			*to = cells[i]
		}
	}
	return nil
}

// elsewhere reports that the links of the page are those of another line: there was no response, the page has not
// changed (304), or its links are in the log of the agent that keeps it.
func (p *PageLine) elsewhere() bool {
	return p.Status < 0 || p.Status == 304 || p.Status/100 == 2 && !p.linked
}

// A PageLine is a line that was read.
type PageLine struct {
	URL     string    `json:"url"`
	Time    time.Time `json:"time"`
	Status  int       `json:"status"`
	Error   string    `json:"error"`
	Links   []Link    `json:"links"`
	LeftOut int       `json:"left_out"`

	line   uint64 // number of the line in its file, from 1
	linked bool   // it has its links, or says that the page has none
}
