package lost

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/orbweaver/orbweaver/internal/cluster/members"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/extsort"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

func lostName(archive string) string { return "lost-" + archive + ".txt" }

// lostOf returns of which archive a file is the list.
func lostOf(file string) (archive string, is bool) {
	archive, is = strings.CutPrefix(file, "lost-")
	archive, txt := strings.CutSuffix(archive, ".txt")
	return archive, is && txt
}

const (
	lostHead = `# URLs of the pages that were in the archive of agent %[1]s (instance %[2]s).
# Agent %[3]s wrote this list on %[4]s, when it took over hosts of a lost agent.
# If the crawl directory of %[1]s still exists, its archive has these pages, and the list is not needed.
# %[5]s
# Other agents that took over hosts have lists of their own.
`
	// againRestored, againApart and againHere say in a list how its pages are fetched again.
	againRestored = `If %[1]s is resumed from the store while the others crawl, the agents fetch the pages again at the end.
# Then this file is renamed to refetched-%[2]s.
# `
	againApart = `Otherwise fetch the pages again, in a crawl of their own:
#   orbweaver crawl --seeds %s --strategy list --dir again --contact ADDRESS`
	againHere = `Otherwise the agents fetch the pages again at the end of the crawl. Then this file is renamed to
# refetched-%s.`
	// refetchedHead is the beginning of a comment in a list. A number follows: the Refetches of the URLs after it.
	refetchedHead = "# Pages that were fetched again before, times: "
)

// head returns the first lines of the list of an archive.
func (l *Lists) head(archive string) string {
	agent, instance := members.SplitArchive(archive)
	file := lostName(agent + "-" + instance)
	again, fetched := fmt.Sprintf(againApart, file), strings.TrimPrefix(file, "lost-")
	switch {
	case l.cfg.Refetches || l.cfg.Restored:
		again = fmt.Sprintf(againHere, fetched)
	case l.cfg.Restores:
		again = fmt.Sprintf(againRestored, agent, fetched) + again
	}
	return fmt.Sprintf(lostHead, agent, instance, l.cfg.Members.Self.Name,
		l.cfg.Clock.Now().UTC().Format("2006-01-02 15:04:05 UTC"), again)
}

// A listFile is the file of a list, and the archive of which it is.
type listFile struct{ name, archive string }

// filesIn returns the files in a directory of which is says that they are lists. The directory may be missing.
func (l *Lists) filesIn(dir string, is func(file string) (archive string, is bool)) (files []listFile, err error) {
	entries, err := l.cfg.FS.ReadDir(l.path(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if archive, is := is(e.Name()); is {
			files = append(files, listFile{e.Name(), archive})
		}
	}
	return files, err
}

// eachListed calls fn for each URL of each file in a directory of which is says that it is a list, of an archive.
func (l *Lists) eachListed(dir string, is func(file string) (archive string, is bool),
	fn func(u link.Link, archive string) error) error {
	files, err := l.filesIn(dir, is)
	for _, f := range files {
		e := func(u link.Link) error { return fn(u, f.archive) }
		if err = l.each(l.path(dir, f.name), e); err != nil {
			break
		}
	}
	return err
}

// each calls fn for each URL of a list.
func (l *Lists) each(name string, fn func(u link.Link) error) error {
	refetches := uint64(0)
	return l.lines(name, func(line string) error {
		line = strings.TrimSpace(line)
		if text, is := strings.CutPrefix(line, refetchedHead); is {
			refetches, _ = strconv.ParseUint(text, 10, 8)
			return nil
		}
		u, err := weburl.Parse(line)
		if err != nil {
			return nil // a comment
		}
		page := link.Link{URL: u}
		page.SetRefetches(uint8(refetches))
		return fn(page)
	})
}

// lines calls fn for each complete line of a file, which may be missing. Another goroutine may append
// lines to the file.
func (l *Lists) lines(name string, fn func(line string) error) (err error) {
	f, err := l.cfg.FS.OpenFile(name, os.O_RDONLY, 0)
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

// hasRecord reports whether the archive has a record of the URL of a line: the line has the digest of the payload, or
// the server has confirmed an earlier payload. The robots.txt files that the crawl asks for itself do not count.
func hasRecord(l *report.Line) bool {
	unkept := slices.Contains(l.Notes, "not-kept") // by --keep
	return (l.HasDigest || l.Code == 304 && !unkept) && !strings.HasSuffix(l.Hops, "P")
}

// refetchesOf returns the Refetches of the link of a line.
func refetchesOf(l *report.Line) uint8 {
	for _, note := range l.Notes {
		if text, is := strings.CutPrefix(note, report.RefetchNote); is {
			n, _ := strconv.ParseUint(text, 10, 8) // not a number: somebody has changed the file
			return uint8(n)
		}
	}
	return 0
}

// listed returns a URL as it is sorted for a list.
func listed(u link.Link) []byte { return append([]byte{u.Refetches()}, u.URL.String()...) }

// sorter returns what sorts URLs for a list.
func (l *Lists) sorter(name string, memory int) *extsort.Queue {
	return extsort.New(l.cfg.FS, l.path(sortDir, name), memory, nil)
}

// write writes a list. If there are no URLs, it removes the list.
func (l *Lists) write(dir, file, head string, sorted *extsort.Queue) error {
	if sorted.Len() == 0 {
		return l.remove(dir, file)
	}
	return disk.WriteStream(l.cfg.FS, l.path(dir, file), func(w io.Writer) error {
		fmt.Fprint(w, head) // w keeps its first error
		var last []byte
		before := byte(0)
		return sorted.Each(func(url []byte) error {
			if bytes.Equal(url, last) {
				return nil
			}
			if url[0] != before {
				before = url[0]
				fmt.Fprintf(w, "%s%d\n", refetchedHead, before)
			}
			last = append(last[:0], url...)
			_, err := w.Write(append(last[1:], '\n'))
			return err
		})
	})
}

// remove removes a list that may be missing.
func (l *Lists) remove(dir, file string) error {
	err := l.cfg.FS.Remove(l.path(dir, file))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(err, l.cfg.FS.SyncDir(l.path(dir)))
}
