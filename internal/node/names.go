package node

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/orbweaver/orbweaver/internal/cluster"
	"github.com/orbweaver/orbweaver/internal/cluster/handoff"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/extsort"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

const (
	// namesDir has the files in which a list is sorted. They are of no use after a restart.
	namesDir = "state/lost"
	// namesMemory bounds the memory for sorting a list.
	namesMemory = 4 << 20
)

// names implements cluster.Names with crawl.log and the files reports/lost-*.txt.
type names struct{ a *Agent }

func (a *Agent) openNames() error {
	dir := a.dir(namesDir)
	if err := a.fs.RemoveAll(dir); err != nil {
		return err
	}
	a.others.Names = names{a}
	return a.fs.MkdirAll(dir, 0o755)
}

// Each implements cluster.Names.
func (n names) Each(fn func(u weburl.URL, lost bool) error) error {
	a := n.a
	err := n.lines(a.dir("logs", "crawl.log"), func(line string) error {
		l, err := report.ReadLine(line)
		if err != nil || !hasRecord(&l) {
			return nil
		}
		u, err := weburl.Parse(l.URL)
		if err != nil {
			return nil
		}
		return fn(u, false)
	})
	if err != nil {
		return err
	}
	entries, err := a.fs.ReadDir(a.dir("reports"))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if ok, _ := filepath.Match(listName("*"), e.Name()); !ok {
			continue
		}
		err := n.lines(a.dir("reports", e.Name()), func(line string) error {
			u, err := weburl.Parse(strings.TrimSpace(line))
			if err != nil {
				return nil // a comment
			}
			return fn(u, true)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// hasRecord reports whether the archive has a record of the URL of a line: the line has the digest of the
// payload, or the server has confirmed an earlier payload. The robots.txt files that the crawl asks for
// itself do not count.
func hasRecord(l *report.Line) bool {
	unkept := slices.Contains(l.Notes, "not-kept") // by --keep
	return (l.HasDigest || l.Code == 304 && !unkept) && !strings.HasSuffix(l.Hops, "P")
}

// lines calls fn for each complete line of a file, which may be missing. Another goroutine may append
// lines to the file.
func (n names) lines(name string, fn func(line string) error) (err error) {
	f, err := n.a.fs.OpenFile(name, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	r := bufio.NewReaderSize(f, 64<<10)
	for {
		line, err := r.ReadString('\n')
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = fn(line)
		}
		if err != nil {
			return err
		}
	}
}

func listName(of string) string { return "lost-" + of + ".txt" }

const listHead = `# URLs of the pages that were in the archive of agent %[1]s (instance %[2]x).
# Agent %[3]s wrote this list on %[4]s, when it took over hosts of %[1]s.
# If the crawl directory of %[1]s still exists, its archive has these pages, and the list is not needed.
# Otherwise fetch the pages again, in a crawl of their own:
#   orbweaver crawl --seeds %[5]s --strategy list --dir again --contact ADDRESS
# Other agents that took over hosts of %[1]s have lists of their own.
`

// List implements cluster.Names.
func (n names) List(lost handoff.Source) (cluster.List, error) {
	of := fmt.Sprintf("%s-%x", lost.Name, lost.Instance[:4])
	return &list{names: n, lost: lost, name: n.a.dir("reports", listName(of)),
		sorted: extsort.New(n.a.fs, n.a.dir(namesDir, of), namesMemory, nil)}, nil
}

// A list is the file of one lost agent's instance. The URLs are sorted, and each is there once.
type list struct {
	names
	lost   handoff.Source
	name   string
	sorted *extsort.Queue
}

// Add implements cluster.List.
func (l *list) Add(u weburl.URL) error { return l.sorted.Push([]byte(u.String())) }

// Commit implements cluster.List. If there are no URLs, it writes no file.
func (l *list) Commit() error {
	err := l.lines(l.name, func(line string) error {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			return nil
		}
		return l.sorted.Push([]byte(line))
	})
	if err != nil || l.sorted.Len() == 0 {
		return err
	}
	return disk.WriteStream(l.a.fs, l.name, func(w io.Writer) error {
		fmt.Fprintf(w, listHead, l.lost.Name, l.lost.Instance[:4], l.a.membership.cfg.Name,
			l.a.now().UTC().Format("2006-01-02 15:04:05 UTC"), filepath.Base(l.name)) // w keeps its first error
		var last []byte
		return l.sorted.Each(func(url []byte) error {
			if bytes.Equal(url, last) {
				return nil
			}
			last = append(last[:0], url...)
			_, err := w.Write(append(last, '\n'))
			return err
		})
	})
}

// Close implements cluster.List.
func (l *list) Close() error { return l.sorted.Close() }
