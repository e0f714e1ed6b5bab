package weblinks

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strconv"

	"github.com/orbweaver/orbweaver/internal/linklog"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/extsort"
)

// HasLog reports whether a directory of a crawl has a link log.
func HasLog(fsys disk.FS, dir string) (bool, error) {
	files, err := linklog.Files(fsys, dir)
	return len(files) > 0, err
}

// A Table says which links Print prints.
type Table struct {
	FS   disk.FS
	Dirs []string // directories of crawls with link logs
	// To and From are URLs. If there are some, only links to one of To and from one of From are printed.
	To, From []string
	Broken   bool // only links whose target is broken
	JSON     bool // an object for each link
	Sort     extsort.Config
}

// Print prints links, sorted by target. found reports whether there are links of To and From.
func Print(out io.Writer, t Table) (found bool, d linklog.Damage, err error) {
	w := bufio.NewWriter(out)
	put := printJSON(w)
	if !t.JSON {
		put = printTable(w)
	}
	d, err = linklog.Join(t.FS, t.Dirs, t.Sort, linklog.Query{To: t.To, From: t.From}, func(j *linklog.Joined) error {
		found = true
		if t.Broken && !(j.Known && report.IsBroken(j.Status, j.Error)) {
			return nil
		}
		return put(j)
	})
	return found, d, cmp.Or(err, w.Flush())
}

// printTable prints a header, and returns a function that prints a link as a line with tabs.
func printTable(w io.Writer) func(j *linklog.Joined) error {
	fmt.Fprintln(w, "STATUS\tTARGET\tSOURCE\tKIND\tREL\tANCHOR")
	var line []byte
	return func(j *linklog.Joined) error {
		status := ""
		if j.Known {
			status = strconv.Itoa(j.Status)
		}
		line = line[:0]
		for i, s := range [...]string{status, j.Target, j.Source, j.Kind, j.Rel, j.Anchor} {
			if i > 0 {
				line = append(line, '\t')
			}
			line = append(line, cell(s)...)
		}
		_, err := w.Write(append(line, '\n'))
		return err
	}
}

// printJSON returns a function that prints a link as a line of JSON.
func printJSON(w io.Writer) func(j *linklog.Joined) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return func(j *linklog.Joined) error {
		return enc.Encode(struct {
			Target string `json:"target"`
			Source string `json:"source"`
			Kind   string `json:"kind"`
			Rel    string `json:"rel,omitempty"`
			Anchor string `json:"anchor,omitempty"`
			Status int    `json:"status,omitempty"`
			Error  string `json:"error,omitempty"`
		}{j.Target, j.Source, j.Kind, j.Rel, j.Anchor, j.Status, j.Error})
	}
}

// cell returns s as one line without control characters, or a dash if s is empty.
func cell(s string) string {
	if s == "" {
		return "-"
	}
	return report.OneLine(s)
}
