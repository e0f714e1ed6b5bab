package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"

	"github.com/orbweaver/orbweaver/internal/output/crawls"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/warc"
)

// A flawList prints the places of WARC files that a command passes over.
type flawList struct {
	errs io.Writer
	n    int64
}

// take prints the flaws in err, which is about the file name. It returns other errors.
func (l *flawList) take(name string, err error) error {
	flaws, ok := errors.AsType[*warc.Flaws](err)
	if !ok {
		return err
	}
	for _, f := range flaws.Places {
		f.File = crawls.Name(cmp.Or(f.File, name))
		fmt.Fprintf(l.errs, "orbweaver: %s\n", report.OneLine(f.String()))
	}
	if flaws.More > 0 {
		fmt.Fprintf(l.errs, "orbweaver: and %s; \"warc verify\" lists them\n", plural(flaws.More, "more place"))
	}
	l.n += int64(len(flaws.Places)) + flaws.More
	return nil
}

// unsupported prints the files in the folder dir that look like archives and are not read, as crawls.Unsupported says.
func (l *flawList) unsupported(in disk.FS, dir string, crawl bool) {
	for _, text := range crawls.Unsupported(in, dir, crawl) {
		fmt.Fprintf(l.errs, "orbweaver: %s\n", report.OneLine(text))
		l.n++
	}
}

// err says that places were passed over; nil if there was none.
func (l *flawList) err() error {
	if l.n == 0 {
		return nil
	}
	return &exitError{exitOther, fmt.Sprintf("%s could not be read or indexed (listed above); "+
		"\"warc verify\" says more", plural(l.n, "place"))}
}

// warcCell returns s as one line without control characters, or a dash if s is empty.
// Archives may hold any bytes.
func warcCell(s string) string {
	if s == "" {
		return "-"
	}
	return report.OneLine(s)
}

// noWARC is the error of an argument that cannot be opened.
func noWARC(arg string, err error) error {
	return unreadable(arg, arg, err, "name a WARC file or a crawl directory")
}
