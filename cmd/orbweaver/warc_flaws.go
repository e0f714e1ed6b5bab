package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/orbweaver/orbweaver/internal/report"
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
		f.File = cmp.Or(f.File, name)
		fmt.Fprintf(l.errs, "orbweaver: %s\n", report.OneLine(f.String()))
	}
	if flaws.More > 0 {
		fmt.Fprintf(l.errs, "orbweaver: and %s; \"warc verify\" lists them\n", plural(flaws.More, "more place"))
	}
	l.n += int64(len(flaws.Places)) + flaws.More
	return nil
}

// unsupported prints the names of the files in the folder dir that look like archives and are not read. In the archive
// of a crawl, these include plain WARC files. A folder that cannot be read has none.
func (l *flawList) unsupported(dir string, crawl bool) {
	entries, _ := os.ReadDir(dir) // the caller reads it, too
	for _, e := range entries {
		why := ""
		switch name := strings.ToLower(e.Name()); {
		case strings.HasSuffix(name, ".arc"), strings.HasSuffix(name, ".arc.gz"):
			why = "ARC is not supported; make a .warc.gz file of it, such as with \"warcio recompress\""
		case strings.HasSuffix(name, ".warc.zst"):
			why = ".warc.zst is not supported; decompress it with \"zstd -d\", then use \"warcio recompress\""
		case strings.HasSuffix(name, ".wacz"):
			why = "a WACZ is not read here; name the WACZ itself"
		case crawl && strings.HasSuffix(name, ".warc"):
			why = "in a crawl directory, a plain WARC file is not supported; make a .warc.gz file of it, such as " +
				"with \"warcio recompress\""
		default:
			continue
		}
		fmt.Fprintf(l.errs, "orbweaver: %s: %s\n", report.OneLine(filepath.Join(dir, e.Name())), why)
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
