package node

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

	"github.com/orbweaver/orbweaver/internal/cluster"
	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/handoff"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/extsort"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

const (
	// namesDir has the files in which a list is sorted. They are of no use after a restart.
	namesDir = "state/lost"
	// keptDir has the lists of archives that are not lost: see place. They have the same names as in listDir.
	listDir, keptDir = "reports", "state/kept"
	// namesMemory bounds the memory for sorting a list.
	namesMemory = 4 << 20
	// mostArchives bounds the lists that one takeover makes. Each is sorted by itself, and becomes a file.
	mostArchives = 64
)

// names implements cluster.Names with crawl.log and the lists of archives: reports/lost-*.txt if the archive is lost,
// and state/kept/lost-*.txt if its agent is back or has ended in order.
type names struct{ a *Agent }

func (a *Agent) openNames() error {
	dir := a.dir(namesDir)
	if err := a.fs.RemoveAll(dir); err != nil {
		return err
	}
	a.others.Names = names{a}
	if err := a.fs.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := errors.Join(a.fs.MkdirAll(a.dir(keptDir), 0o755), a.fs.SyncDir(a.dir("state"))); err != nil {
		return err
	}
	return names{a}.count()
}

// view returns the present view, or nil if this agent has not joined yet.
func (n names) view() *gossip.View {
	if m := n.a.membership.members.Gossip(); m != nil {
		return m.View()
	}
	return nil
}

// lost tells of archives that were lost with other agents. Nil: no agent can know of them. Safe for concurrent use.
func (a *Agent) lost() *report.Lost {
	k := a.membership.copies
	if k == nil {
		return nil
	}
	return &report.Lost{Listed: k.wanting(names{a}.view())}
}

// wanting returns the number of URLs on the lists of lost archives, by a view, which may be nil.
func (k *copies) wanting(v *gossip.View) (n int64) {
	for of, urls := range *k.listed.Load() {
		if fateOf(v, of) != kept {
			n += urls
		}
	}
	return n
}

// count counts the URLs on the lists in reports.
func (n names) count() error {
	listed := map[string]int64{}
	err := n.eachListed(listDir, listOf, func(_ link.Link, of string) error { listed[of]++; return nil })
	if err != nil {
		return err
	}
	n.a.membership.copies.listed.Store(&listed)
	return nil
}

// eachListed calls fn for each URL of each file in a directory of which is says that it is a list, of an archive.
func (n names) eachListed(dir string, is func(file string) (of string, is bool),
	fn func(l link.Link, of string) error) error {
	archives, err := n.listsIn(dir, is)
	for _, of := range archives {
		e := func(l link.Link) error { return fn(l, of.archive) }
		if err = n.each(n.a.dir(dir, of.file), e); err != nil {
			break
		}
	}
	return err
}

// An archiveList is the file of a list, and the archive of which it is.
type archiveList struct{ file, archive string }

// listsIn returns the files in a directory of which is says that they are lists. The directory may be missing.
func (n names) listsIn(dir string, is func(file string) (of string, is bool)) (lists []archiveList, err error) {
	entries, err := n.a.fs.ReadDir(n.a.dir(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if of, is := is(e.Name()); is {
			lists = append(lists, archiveList{e.Name(), of})
		}
	}
	return lists, err
}

// Each implements cluster.Names.
func (n names) Each(fn func(l link.Link, lost bool, archive string) error) error {
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
		name := link.Link{URL: u}
		name.SetRefetches(refetchesOf(&l))
		return fn(name, false, "")
	})
	if err != nil {
		return err
	}
	lost := func(l link.Link, of string) error {
		if !handoff.IsArchive(of) { // somebody has made the file
			of = ""
		}
		return fn(l, true, of)
	}
	return errors.Join(n.eachListed(listDir, listOf, lost), n.eachListed(keptDir, listOf, lost),
		n.eachListed(listDir, copiedOf, lost))
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

// refetchedHead is the beginning of a comment in a list. A number follows: the Refetches of the URLs after it.
const refetchedHead = "# Pages that were fetched again before, times: "

// each calls fn for each URL of a list.
func (n names) each(name string, fn func(l link.Link) error) error {
	refetches := uint64(0)
	return n.lines(name, func(line string) error {
		line = strings.TrimSpace(line)
		if text, is := strings.CutPrefix(line, refetchedHead); is {
			refetches, _ = strconv.ParseUint(text, 10, 8)
			return nil
		}
		u, err := weburl.Parse(line)
		if err != nil {
			return nil // a comment
		}
		l := link.Link{URL: u}
		l.SetRefetches(uint8(refetches))
		return fn(l)
	})
}

// hasRecord reports whether the archive has a record of the URL of a line: the line has the digest of the payload, or
// the server has confirmed an earlier payload. The robots.txt files that the crawl asks for itself do not count.
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

// listOf returns of which archive a file is the list.
func listOf(file string) (of string, is bool) {
	of, is = strings.CutPrefix(file, "lost-")
	of, txt := strings.CutSuffix(of, ".txt")
	return of, is && txt
}

const listHead = `# URLs of the pages that were in the archive of agent %[1]s (instance %[2]s).
# Agent %[3]s wrote this list on %[4]s, when it took over hosts of a lost agent.
# If the crawl directory of %[1]s still exists, its archive has these pages, and the list is not needed.
# %[5]s
# Other agents that took over hosts have lists of their own.
`

// What a list says about how its pages are fetched again.
const (
	againApart = `Otherwise fetch the pages again, in a crawl of their own:
#   orbweaver crawl --seeds %s --strategy list --dir again --contact ADDRESS`
	againHere = `Otherwise the agents fetch the pages again at the end of the crawl. Then this file is renamed to
# refetched-%s.`
)

// head returns the first lines of the list of an archive.
func (n names) head(of string) string {
	agent, instance := folderAgent(of)
	file := listName(agent + "-" + instance)
	again := fmt.Sprintf(againApart, file)
	if n.a.membership.refetch != nil {
		again = fmt.Sprintf(againHere, strings.TrimPrefix(file, "lost-"))
	}
	return fmt.Sprintf(listHead, agent, instance, n.a.membership.cfg.Name,
		n.a.now().UTC().Format("2006-01-02 15:04:05 UTC"), again)
}

// List implements cluster.Names.
func (n names) List(lost handoff.Source) (l cluster.List, whole bool, err error) {
	return &lists{names: n, lost: lost.Archive(), sorted: map[string]*extsort.Queue{}},
		!hasLeft(n.view(), lost), nil
}

// lists are the files of lost archives to which a takeover adds. The URLs of each are sorted by their Refetches first,
// and each is there once.
type lists struct {
	names
	lost   string                    // the archive of the agent that is taken over from
	sorted map[string]*extsort.Queue // by archive
	merged int64                     // URLs of archives beyond mostArchives
}

// listed returns a URL as it is sorted for a list.
func listed(u link.Link) []byte { return append([]byte{u.Refetches()}, u.URL.String()...) }

// Add implements cluster.List. A replica names the archives, so there may be any number of them. The URLs of archives
// beyond mostArchives are listed with those of the agent that is taken over from: they are on a list, but they may be
// fetched again although the agent that has them is back.
func (l *lists) Add(u link.Link, of string) error {
	q := l.sorted[of]
	if q == nil && of != l.lost && len(l.sorted) >= mostArchives {
		l.merged++
		of, q = l.lost, l.sorted[l.lost]
	}
	if q == nil {
		memory := namesMemory
		if of != l.lost { // there may be many of them, and they are shorter
			memory /= 32
		}
		q = extsort.New(l.a.fs, l.a.dir(namesDir, of), memory, nil)
		l.sorted[of] = q
	}
	return q.Push(listed(u))
}

// Commit implements cluster.List. If there are no URLs, it writes no file.
func (l *lists) Commit() error {
	k := l.a.membership.copies
	k.lists.Lock()
	defer k.lists.Unlock()
	k.commits.Add(1)
	err := l.a.membership.refetch.commit(func() error {
		v := l.view()
		for of, sorted := range l.sorted {
			to := listDir
			if fateOf(v, of) == kept {
				to = keptDir
			}
			if err := l.unite(of, to, sorted); err != nil {
				return err
			}
		}
		return l.count()
	})
	if err == nil && l.merged > 0 {
		l.a.parts.Events.Write("lists-merged", report.F("list", l.lost), report.F("urls", l.merged))
	}
	return err
}

// unite writes the list of an archive to a directory: the URLs that are being sorted, and those of its lists before.
func (n names) unite(of, to string, sorted *extsort.Queue) error {
	for _, dir := range []string{listDir, keptDir} {
		add := func(u link.Link) error { return sorted.Push(listed(u)) }
		if err := n.each(n.a.dir(dir, listName(of)), add); err != nil {
			return err
		}
	}
	if err := n.write(to, listName(of), n.head(of), sorted); err != nil {
		return err
	}
	return n.remove(map[string]string{listDir: keptDir, keptDir: listDir}[to], listName(of))
}

// place puts each list where it belongs, by a view, which may be nil: the list of an archive that is lost into reports,
// and that of one whose agent is back or has ended in order into keptDir. If that agent is lost later, the list is
// needed again: its next heirs may not have got all of its names by then. What is not known of an archive changes
// nothing.
func (n names) place(v *gossip.View) error {
	if err := n.moveAll(listDir, keptDir, func(of string) bool { return fateOf(v, of) == kept }); err != nil {
		return err
	}
	return n.moveAll(keptDir, listDir, func(of string) bool { return fateOf(v, of) == lost })
}

// entrust takes the lists out of reports. This agent has left for good, and its heirs have all that it knows: they have
// lists of all the URLs.
func (n names) entrust() error {
	return n.moveAll(listDir, keptDir, func(string) bool { return true })
}

// moveAll moves the lists of some archives.
func (n names) moveAll(from, to string, which func(of string) bool) error {
	k := n.a.membership.copies
	k.lists.Lock()
	defer k.lists.Unlock()
	lists, err := n.listsIn(from, listOf)
	if err != nil {
		return err
	}
	for _, l := range lists {
		if !which(l.archive) {
			continue
		}
		k.commits.Add(1)
		if err := n.a.membership.refetch.commit(func() error { return n.move(l, to) }); err != nil {
			return err
		}
		n.a.parts.Events.Write("list-moved", report.F("list", l.archive), report.F("lost", to == listDir))
	}
	return nil
}

// move moves a list to a directory.
func (n names) move(l archiveList, to string) (err error) {
	sorted := extsort.New(n.a.fs, n.a.dir(namesDir, l.archive), namesMemory, nil)
	defer func() { err = errors.Join(err, sorted.Close()) }()
	if err := n.unite(l.archive, to, sorted); err != nil {
		return err
	}
	return n.count()
}

// write writes a list. If there are no URLs, it removes the list.
func (n names) write(dir, file, head string, sorted *extsort.Queue) error {
	if sorted.Len() == 0 {
		return n.remove(dir, file)
	}
	return disk.WriteStream(n.a.fs, n.a.dir(dir, file), func(w io.Writer) error {
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

// Close implements cluster.List.
func (l *lists) Close() (err error) {
	for _, sorted := range l.sorted {
		err = errors.Join(err, sorted.Close())
	}
	return err
}
