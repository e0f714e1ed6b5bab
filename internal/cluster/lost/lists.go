// Package lost answers: which pages were in the archives of lost agents, and what becomes of them?
//
//	crawl.log and lists -> Each -> the agent's heirs know the pages of its archive, and those of earlier lost archives
//	a takeover -> List -> Add, Commit -> reports/lost-NAME-INSTANCE.txt
//	the store has segments of the archive -> Tend -> their pages are off the list
//	the archive's agent is back, or has ended in order -> Place -> state/kept/lost-NAME-INSTANCE.txt
//	all agents are idle -> Refetch -> the pages are accepted once more -> reports/refetched-NAME-INSTANCE.txt
//
// A list has each URL once. No change of a list loses one of its URLs, also if the agent is killed meanwhile. A URL
// goes off a list if a complete segment in the store has a record of it.
package lost

import (
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/cluster"
	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/handoff"
	"github.com/orbweaver/orbweaver/internal/cluster/members"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/extsort"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

const (
	// KeptDir has the lists of archives that are not lost: see Place. They have the same names as in listDir.
	KeptDir, listDir = "state/kept", "reports"
	// sortDir has the files in which a list is sorted. They are of no use after a restart.
	sortDir = "state/lost"
	// sortMemory bounds the memory for sorting a list.
	sortMemory = 4 << 20
	// mostArchives bounds the lists that one takeover makes. Each is sorted by itself, and becomes a file.
	mostArchives = 64
)

// Config configures Lists.
type Config struct {
	FS      disk.FS
	Dir     string // of the crawl
	Clock   clock.Clock
	Events  *report.Events
	Members *members.Members
	// Refetches reports that the agents fetch the pages of lost archives again. Each list says so.
	Refetches bool
	// Restores reports that they fetch the pages of an agent that is resumed from a store again, also without
	// Refetches.
	Restores bool
	// Restored reports that this agent was restored from a store. Then it fetches the pages of lost archives again,
	// too, because a restored crawl promises that each page is in the store at the end.
	Restored bool
	// Stored has segments of archives: their pages are not lost. nil: there is no store.
	Stored Stored
}

// Lists are this agent's lists of lost archives: reports/lost-*.txt if the archive is lost, and state/kept/lost-*.txt
// if its agent is back or has ended in order. Safe for concurrent use. They implement cluster.Names.
type Lists struct {
	cfg     Config
	mu      sync.Mutex                       // locked while a list is replaced, moved or renamed; guards back
	back    map[string]bool                  // archives whose agents were seen with another instance
	sifting chan struct{}                    // full while the lists are compared with the store
	commits atomic.Int64                     // the changes of lists
	listed  atomic.Pointer[map[string]int64] // by lost archive: the URLs on its list in the reports
}

// Open opens the lists of a crawl directory, which has the folder state.
func Open(cfg Config) (*Lists, error) {
	l := &Lists{cfg: cfg, sifting: make(chan struct{}, 1), back: map[string]bool{}}
	if err := cfg.FS.RemoveAll(l.path(sortDir)); err != nil {
		return nil, err
	}
	if err := cfg.FS.MkdirAll(l.path(sortDir), 0o755); err != nil {
		return nil, err
	}
	if err := errors.Join(cfg.FS.MkdirAll(l.path(KeptDir), 0o755), cfg.FS.SyncDir(l.path("state"))); err != nil {
		return nil, err
	}
	return l, l.count()
}

func (l *Lists) path(elem ...string) string {
	return filepath.Join(append([]string{l.cfg.Dir}, elem...)...)
}

// view returns the present view, or nil if this agent has not joined yet.
func (l *Lists) view() *gossip.View {
	if m := l.cfg.Members.Gossip(); m != nil {
		return m.View()
	}
	return nil
}

// Lost tells of archives that were lost with other agents. The result of nil Lists is nil.
func (l *Lists) Lost() *report.Lost {
	if l == nil {
		return nil
	}
	return &report.Lost{Listed: l.Wanting(l.view())}
}

// Wanting returns the number of URLs on the lists of lost archives, by a view, which may be nil.
func (l *Lists) Wanting(v *gossip.View) (n int64) {
	for archive, urls := range *l.listed.Load() {
		if members.FateOf(v, archive) != members.Kept {
			n += urls
		}
	}
	return n
}

// count counts the URLs on the lists in reports.
func (l *Lists) count() error {
	listed := map[string]int64{}
	err := l.eachListed(listDir, lostOf, func(_ link.Link, archive string) error { listed[archive]++; return nil })
	if err != nil {
		return err
	}
	l.listed.Store(&listed)
	return nil
}

func (l *Lists) Each(fn func(u link.Link, lost bool, archive string) error) error {
	err := l.lines(l.path("logs", "crawl.log"), func(text string) error {
		line, err := report.ReadLine(text)
		if err != nil || !hasRecord(&line) {
			return nil
		}
		u, err := weburl.Parse(line.URL)
		if err != nil {
			return nil
		}
		name := link.Link{URL: u}
		name.SetRefetches(refetchesOf(&line))
		return fn(name, false, "")
	})
	if err != nil {
		return err
	}
	lost := func(u link.Link, archive string) error {
		if !handoff.IsArchive(archive) { // somebody has made the file
			archive = ""
		}
		return fn(u, true, archive)
	}
	return errors.Join(l.eachListed(listDir, lostOf, lost), l.eachListed(KeptDir, lostOf, lost))
}

func (l *Lists) List(lost handoff.Source) (list cluster.List, whole bool, err error) {
	return &additions{lists: l, lost: lost.Archive(), sorted: map[string]*extsort.Queue{}},
		!members.HasLeft(l.view(), lost.Instance), nil
}

// additions are the URLs that a takeover adds to the lists of lost archives. The URLs of each are sorted by their
// Refetches first, and each is there once. They implement cluster.List.
type additions struct {
	lists  *Lists
	lost   string                    // the archive of the agent that is taken over from
	sorted map[string]*extsort.Queue // by archive
	merged int64                     // URLs of archives beyond mostArchives
}

// Add implements cluster.List. A replica names the archives, so there may be any number of them. The URLs of archives
// beyond mostArchives are listed with those of the agent that is taken over from: they are on a list, but they may be
// fetched again although the agent that has them is back.
func (a *additions) Add(u link.Link, archive string) error {
	q := a.sorted[archive]
	if q == nil && archive != a.lost && len(a.sorted) >= mostArchives {
		a.merged++
		archive, q = a.lost, a.sorted[a.lost]
	}
	if q == nil {
		memory := sortMemory
		if archive != a.lost { // there may be many of them, and they are shorter
			memory /= 32
		}
		q = a.lists.sorter(archive, memory)
		a.sorted[archive] = q
	}
	return q.Push(listed(u))
}

// Commit implements cluster.List. If there are no URLs, it writes no file.
func (a *additions) Commit() error {
	err := a.commit()
	if err == nil && a.merged > 0 {
		a.lists.cfg.Events.Write("lists-merged", report.F("list", a.lost), report.F("urls", a.merged))
	}
	return err
}

func (a *additions) commit() error {
	l := a.lists
	l.mu.Lock()
	defer l.mu.Unlock()
	l.commits.Add(1)
	v := l.view()
	for archive, sorted := range a.sorted {
		to := listDir
		if members.FateOf(v, archive) == members.Kept {
			to = KeptDir
		}
		if err := l.unite(archive, to, sorted); err != nil {
			return err
		}
	}
	return l.count()
}

func (a *additions) Close() (err error) {
	for _, sorted := range a.sorted {
		err = errors.Join(err, sorted.Close())
	}
	return err
}

// unite writes the list of an archive to a directory: the URLs that are being sorted, and those of its lists before.
func (l *Lists) unite(archive, to string, sorted *extsort.Queue) error {
	for _, dir := range []string{listDir, KeptDir} {
		add := func(u link.Link) error { return sorted.Push(listed(u)) }
		if err := l.each(l.path(dir, lostName(archive)), add); err != nil {
			return err
		}
	}
	if err := l.write(to, lostName(archive), l.head(archive), sorted); err != nil {
		return err
	}
	return l.remove(map[string]string{listDir: KeptDir, KeptDir: listDir}[to], lostName(archive))
}

// Place puts each list where it belongs, by a view, which may be nil: the list of an archive that is lost into reports,
// and that of one whose agent is back or has ended in order into KeptDir. If that agent is lost later, the list is
// needed again: its next heirs may not have got all of its names by then. What is not known of an archive changes
// nothing.
func (l *Lists) Place(v *gossip.View) error {
	is := func(fate members.Fate) func(archive string) bool {
		return func(archive string) bool { return members.FateOf(v, archive) == fate }
	}
	if err := l.moveAll(listDir, KeptDir, is(members.Kept)); err != nil {
		return err
	}
	if err := l.moveAll(KeptDir, listDir, is(members.Lost)); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for archive := range *l.listed.Load() {
		l.back[archive] = l.back[archive] || members.Returned(v, archive)
	}
	return nil
}

// isBack reports whether the agent of a lost archive is there with another instance, by a view, or was.
func (l *Lists) isBack(v *gossip.View, archive string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.back[archive] = l.back[archive] || members.Returned(v, archive)
	return l.back[archive]
}

// Entrust takes the lists out of reports. This agent has left for good, and its heirs have all that it knows: they have
// lists of all the URLs.
func (l *Lists) Entrust() error {
	return l.moveAll(listDir, KeptDir, func(string) bool { return true })
}

// moveAll moves the lists of some archives.
func (l *Lists) moveAll(from, to string, which func(archive string) bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	files, err := l.filesIn(from, lostOf)
	if err != nil {
		return err
	}
	for _, f := range files {
		if !which(f.archive) {
			continue
		}
		l.commits.Add(1)
		if err := l.move(f.archive, to); err != nil {
			return err
		}
		l.cfg.Events.Write("list-moved", report.F("list", f.archive), report.F("is_lost", to == listDir))
	}
	return nil
}

// move moves a list to a directory.
func (l *Lists) move(archive, to string) (err error) {
	sorted := l.sorter(archive, sortMemory)
	defer func() { err = errors.Join(err, sorted.Close()) }()
	if err := l.unite(archive, to, sorted); err != nil {
		return err
	}
	return l.count()
}
