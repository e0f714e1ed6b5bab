package linklog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/RoaringBitmap/roaring/v2/roaring64"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/extsort"
)

// Current calls fn for the lines that count, of the link logs in dirs, in the order of Read. status reports that the
// line has the newest status of its page, links that it has the page's links. It reads the files twice.
func Current(fsys disk.FS, dirs []string, s extsort.Config, fn func(p *PageLine, status, links bool) error) (Damage,
	error) {
	c, err := Count(fsys, dirs, s, nil)
	if err != nil {
		return Damage{}, err
	}
	return c.Each(fn)
}

// Counted says which lines of link logs count.
type Counted struct {
	fs              disk.FS
	files           []string
	lines           []uint64 // of each file; a running crawl may add more
	statuses, links *roaring64.Bitmap
}

// Count finds out which lines count, of the link logs in dirs. It reads the files once. If redirects is not nil, Count
// calls it for each line that has a Redirect, also if the line does not count, with the number of the line.
func Count(fsys disk.FS, dirs []string, s extsort.Config, redirects func(p *PageLine, n uint64) error) (c *Counted,
	err error) {
	c = &Counted{fs: fsys}
	if c.files, err = allFiles(fsys, dirs); err != nil || len(c.files) == 0 {
		return c, err
	}
	c.lines = make([]uint64, len(c.files))
	visits := NewVisits(s)
	defer func() { err = errors.Join(err, visits.Close()) }()
	what := heads
	if redirects != nil {
		what = headsAndRedirects
	}
	before := uint64(0) // lines of the files before
	for i, name := range c.files {
		err := readFile(fsys, name, new(Damage), what, func(p *PageLine) error {
			c.lines[i] = p.line
			if err := visits.Add(p.URL, p.Time, before+p.line, p.elsewhere()); err != nil || len(p.Links) == 0 {
				return err
			}
			return redirects(p, before+p.line)
		})
		if err != nil {
			return c, err
		}
		before += c.lines[i]
	}
	c.statuses, c.links, err = visits.Current()
	return c, err
}

// HasLinks reports whether the links of a line count.
func (c *Counted) HasLinks(n uint64) bool { return c.links.Contains(n) }

// Each calls fn for the lines that count, as Current does. It reads the files once.
func (c *Counted) Each(fn func(p *PageLine, status, links bool) error) (d Damage, err error) {
	before := uint64(0)
	for i, name := range c.files {
		err := readFile(c.fs, name, &d, all, func(p *PageLine) error {
			if p.line > c.lines[i] {
				return errEnough
			}
			n := before + p.line
			if a, b := c.statuses.Contains(n), c.links.Contains(n); a || b {
				return fn(p, a, b)
			}
			return nil
		})
		if err != nil && !errors.Is(err, errEnough) {
			return d, err
		}
		before += c.lines[i]
	}
	return d, nil
}

var errEnough = errors.New("all lines are read")

// A Joined is a link with what became of its target.
type Joined struct {
	Source string
	Link
	// Known says that the log has a line of the target. Else Status and Error are not set.
	Known  bool
	Status int
	Error  string
}

// A Query chooses links. The zero Query chooses all.
type Query struct {
	From, To []string // canonical URLs; empty: any
}

// among reports whether u is one of urls, or whether they are empty.
func among(urls []string, u string) bool { return len(urls) == 0 || slices.Contains(urls, u) }

// Join calls fn for each link that q chooses, of the link logs in dirs. The links are sorted by target, then by source
// and by their place on the page. fn gets the newest links of a page and the newest status of a target. It must not
// keep the Joined.
func Join(fsys disk.FS, dirs []string, s extsort.Config, q Query, fn func(j *Joined) error) (d Damage, err error) {
	sorted := s.Queue("links")
	defer func() { err = errors.Join(err, sorted.Close()) }()
	var rec []byte
	d, err = Current(fsys, dirs, s, func(p *PageLine, status, links bool) error {
		if status && among(q.To, p.URL) {
			rec = appendStatus(rec[:0], p)
			if err := sorted.Push(rec); err != nil {
				return err
			}
		}
		if !links || !among(q.From, p.URL) {
			return nil
		}
		for i := range p.Links {
			l := &p.Links[i]
			if !among(q.To, l.Target) || strings.IndexByte(l.Target, 0) >= 0 {
				continue
			}
			rec = appendLink(rec[:0], p.URL, i, l)
			if err := sorted.Push(rec); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return d, err
	}
	var target string
	var state Joined
	err = sorted.Each(func(rec []byte) error {
		key, rest, ok := bytes.Cut(rec, []byte{0})
		if !ok || len(rest) == 0 {
			return extsort.ErrDamaged
		}
		if string(key) != target {
			target, state = string(key), Joined{}
		}
		kind, rest := rest[0], rest[1:]
		if kind == recStatus {
			state = Joined{Known: true, Status: int(int64(binary.BigEndian.Uint64(rest))), Error: string(rest[8:])}
			return nil
		}
		j := state
		j.Target = target
		if err := j.decode(rest); err != nil {
			return err
		}
		return fn(&j)
	})
	if err != nil {
		return d, fmt.Errorf("link log: %w", err)
	}
	return d, nil
}

// A record of Join begins with the target, a zero and one of these. So the status comes before the links.
const (
	recStatus = 1 // 8 bytes status, big-endian; the error
	recLink   = 2 // the source, a zero, 4 bytes place on the page, big-endian; kind, rel and anchor, each with a zero
)

func appendStatus(dst []byte, p *PageLine) []byte {
	dst = append(append(dst, p.URL...), 0, recStatus)
	dst = binary.BigEndian.AppendUint64(dst, uint64(int64(p.Status)))
	return append(dst, p.Error...)
}

func appendLink(dst []byte, source string, i int, l *Link) []byte {
	dst = append(append(dst, l.Target...), 0, recLink)
	dst = append(append(dst, source...), 0)
	dst = binary.BigEndian.AppendUint32(dst, uint32(i))
	for _, s := range [...]string{l.Kind, l.Rel, l.Anchor} {
		dst = append(append(dst, strings.ReplaceAll(s, "\x00", "\ufffd")...), 0)
	}
	return dst
}

func (j *Joined) decode(b []byte) error {
	source, b, ok := bytes.Cut(b, []byte{0})
	if !ok || len(b) < 4 {
		return extsort.ErrDamaged
	}
	cells := bytes.Split(b[4:], []byte{0})
	if len(cells) != 4 {
		return extsort.ErrDamaged
	}
	j.Source, j.Kind, j.Rel, j.Anchor = string(source), string(cells[0]), string(cells[1]), string(cells[2])
	return nil
}
