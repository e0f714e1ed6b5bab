package review

import (
	"cmp"
	"encoding/csv"
	"hash/maphash"
	"strconv"
	"strings"
)

// A brokenList counts broken links and keeps the first by kind, and of each kind those with the most linking pages. A
// URL counts once, even if the log has several lines of it, or several agents visited it: the list remembers the first
// URLs, up to a limit.
type brokenList struct {
	reader *reader
	count  int64
	top    top[Broken]
	seen   map[uint64]struct{}
}

var brokenSeed = maphash.MakeSeed()

func (r *reader) newBroken() *brokenList {
	return &brokenList{
		reader: r,
		top:    top[Broken]{limit: r.Top, key: brokenRank},
		seen:   map[uint64]struct{}{},
	}
}

// brokenRank returns the place of a broken link in the list: the greatest comes first.
func brokenRank(b *Broken) int64 {
	rank := min(b.Links, 1<<40)
	switch b.Kind {
	case KindDocument:
		return rank + 2<<41
	case KindOwn:
		return rank + 1<<41
	}
	return rank
}

func (l *brokenList) add(b Broken) error {
	key := maphash.String(brokenSeed, b.URL)
	if _, again := l.seen[key]; again {
		return nil
	}
	if len(l.seen) < l.reader.Names {
		l.seen[key] = struct{}{}
	}
	l.count++
	if l.top.wants(brokenRank(&b)) {
		c := b
		c.URL, c.Error, c.Pages, c.Via = keep(b.URL), keep(b.Error), nil, nil
		for _, p := range b.Pages {
			c.Pages = append(c.Pages, keep(p))
		}
		for _, v := range b.Via {
			c.Via = append(c.Via, keep(v))
		}
		l.top.add(c)
	}
	if l.reader.OnBroken != nil {
		return l.reader.OnBroken(b)
	}
	return nil
}

// readBroken reads broken.csv: url,status,error,links,pages,via,kind. Without a link log, links is empty, and pages
// has the page on which the crawl found the URL first.
func (r *reader) readBroken(name string, d *Dir, to *brokenList) error {
	var failed error
	first := true
	err := r.eachLine(name, &d.Damaged, func(line []byte) bool {
		if first {
			first = false
			if strings.HasPrefix(string(line), "url,") {
				return true
			}
		}
		// A line is a record, because the crawl writes no newline into a cell. So a quote without its end damages one
		// line, not the rest of the file.
		cells, err := csv.NewReader(strings.NewReader(string(line))).Read()
		if err != nil || len(cells) < 5 || cells[0] == "" {
			return false
		}
		b := Broken{URL: cells[0], Error: cells[2], Pages: strings.Fields(cells[4])}
		if len(cells) > 5 {
			if b.Via = strings.Fields(unquoted(cells[5])); len(b.Via) != len(b.Pages) {
				b.Via = nil
			}
		}
		b.Kind = r.log.kind(b.URL, len(cells) > 6 && cells[6] == "requisite")
		if cells[1] != "" {
			if b.Status, err = strconv.Atoi(unquoted(cells[1])); err != nil {
				return false
			}
		}
		if cells[3] != "" {
			if b.Links, err = strconv.ParseInt(cells[3], 10, 64); err != nil || b.Links < 0 {
				return false
			}
		}
		if cells[3] == "" {
			r.out.BrokenKnown = false
		}
		b.Links = max(b.Links, int64(len(b.Pages)))
		if failed == nil {
			failed = to.add(b)
		}
		return true
	})
	return cmp.Or(err, failed)
}

// unquoted removes the quote that keeps a spreadsheet from taking a cell for a formula.
func unquoted(cell string) string { return strings.TrimPrefix(cell, "'") }
