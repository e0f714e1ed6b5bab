package lost_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/handoff"
	"github.com/orbweaver/orbweaver/internal/cluster/lost"
	"github.com/orbweaver/orbweaver/internal/cluster/members"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testclock"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// mostArchives is the number of lists that one takeover makes, beside that of the lost agent.
const mostArchives = 64

func now() time.Time { return time.Unix(1e9, 0) }

// listsOn opens the lists of agent a1.
func listsOn(t *testing.T, fs disk.FS) (*lost.Lists, *report.Events) {
	t.Helper()
	for _, dir := range []string{"logs", "reports"} {
		must.Do(t, fs.MkdirAll("/crawl/"+dir, 0o755))
	}
	events := must.Get(report.OpenEvents(fs, "/crawl/logs/events.jsonl", testclock.Func(now)))(t)
	t.Cleanup(func() { events.Close() })
	l := must.Get(lost.Open(lost.Config{FS: fs, Dir: "/crawl", Clock: testclock.Func(now), Events: events,
		Members: &members.Members{Self: gossip.Agent{Name: "a1"}}}))(t)
	return l, events
}

func namesOf(t *testing.T, lists *lost.Lists) (all []string) {
	t.Helper()
	must.Do(t, lists.Each(func(l link.Link, lost bool, archive string) error {
		name := l.URL.String()
		if l.Refetches() > 0 {
			name += fmt.Sprint(" refetched ", l.Refetches())
		}
		all = append(all, strings.TrimSpace(fmt.Sprint(name, " ", lost, " ", archive)))
		return nil
	}))
	return all
}

func lose(lists *lost.Lists, from handoff.Source, urls ...string) error {
	l, _, err := lists.List(from)
	if err != nil {
		return err
	}
	for _, u := range urls {
		err = errors.Join(err, l.Add(link.Link{URL: weburl.MustParse(u)}, from.Archive()))
	}
	return errors.Join(err, l.Commit(), l.Close())
}

// TestLoggedNames: of the lines of crawl.log, those with a record in the archive name a URL. An incomplete
// last line, and one that is damaged, are ignored.
func TestLoggedNames(t *testing.T) {
	mem := testdisk.NewMem()
	lists, _ := listsOn(t, mem)
	if got := namesOf(t, lists); len(got) > 0 {
		t.Errorf("without a log: %q", got)
	}
	at := time.Unix(1e9, 0)
	line := func(url, hops string, code int, digest bool) string {
		l := report.Line{Time: at, Code: code, URL: url, Hops: hops, Began: at, HasDigest: digest}
		return string(l.AppendTo(nil))
	}
	log := line("http://a.example/robots.txt", "P", 200, true) +
		line("http://a.example/", "", 200, true) +
		line("http://a.example/missing", "L", 404, true) +
		line("http://a.example/moved", "L", 301, true) +
		line("http://a.example/refused", "L", -2, false) +
		line("http://a.example/broken", "L", -404, true) + // a part of the response is archived
		line("http://a.example/denied", "L", -9998, false) +
		line("http://a.example/same", "L", 304, false) +
		"2001-09-09T01:46:40.000Z   200          1 http://a.example/damaged\n" +
		line("http://a.example/?q=%C3%A9,%22x%22", "L", 200, true)
	log += strings.TrimSuffix(line("http://a.example/last", "L", 200, true), "\n")
	must.Do(t, disk.WriteFile(mem, "/crawl/logs/crawl.log", []byte(log)))
	want := []string{"http://a.example/ false", "http://a.example/missing false", "http://a.example/moved false",
		"http://a.example/broken false", "http://a.example/same false", "http://a.example/?q=%C3%A9,%22x%22 false"}
	if got := namesOf(t, lists); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestListsAreBounded: a replica may name any number of archives. A takeover makes a bounded number of lists, and each
// URL is on one.
func TestListsAreBounded(t *testing.T) {
	mem := testdisk.NewMem()
	lists, events := listsOn(t, mem)
	from := handoff.Source{Name: "a2"}
	l, _, err := lists.List(from)
	must.Do(t, err)
	const archives = 300
	for i := range archives {
		of := handoff.Source{Name: fmt.Sprint("b", i)}.Archive()
		u := link.Link{URL: weburl.MustParse(fmt.Sprintf("http://h.example/%d", i))}
		must.Do(t, errors.Join(l.Add(u, of), l.Add(u, of)))
	}
	must.Do(t, errors.Join(l.Commit(), l.Close()))
	entries, err := mem.ReadDir("/crawl/reports")
	if err != nil || len(entries) != mostArchives+1 {
		t.Errorf("%d lists, want %d: %v", len(entries), mostArchives+1, err)
	}
	if all := namesOf(t, lists); len(all) != archives {
		t.Errorf("%d URLs are listed, want %d", len(all), archives)
	}
	must.Do(t, events.Close())
	b, err := disk.ReadFile(mem, "/crawl/logs/events.jsonl", 1<<20)
	if want := fmt.Sprintf(`"event":"lists-merged","list":"a2-00000000","urls":%d}`, 2*(archives-mostArchives)); err !=
		nil || !strings.Contains(string(b), want) {
		t.Errorf("%s, %v, want %s", b, err, want)
	}
}

// TestListOfLostURLs: a list has each URL once. A second takeover adds to it, and a repeated one changes
// nothing. Another instance of the same agent has another list. The lists are read for the next heirs.
func TestListOfLostURLs(t *testing.T) {
	mem := testdisk.NewMem()
	lists, _ := listsOn(t, mem)
	first := handoff.Source{Name: "a2", Instance: [16]byte{1, 2, 3, 4, 5}}
	second := handoff.Source{Name: "a2", Instance: [16]byte{0xff}}
	lose := func(from handoff.Source, urls ...string) {
		t.Helper()
		must.Do(t, lose(lists, from, urls...))
	}
	lose(first)
	if got := namesOf(t, lists); len(got) > 0 {
		t.Errorf("without URLs: %q", got)
	}
	lose(first, "http://b.example/", "http://a.example/2")
	lose(first, "http://b.example/", "http://a.example/2")
	lose(first, "http://a.example/1", "http://a.example/2")
	lose(second, "http://c.example/")
	view := func(state gossip.State, instance [16]byte) *gossip.View {
		return &gossip.View{Agents: []gossip.Agent{{Name: "a2", Instance: instance, State: state}}}
	}
	for _, c := range []struct {
		view *gossip.View
		want int64
	}{
		{nil, 4}, {&gossip.View{}, 4}, {view(gossip.Up, first.Instance), 1}, {view(gossip.Leaving, second.Instance), 3},
		{view(gossip.Joining, first.Instance), 4},
	} {
		if got := lists.Wanting(c.view); got != c.want {
			t.Errorf("%d listed URLs are wanted, not %d, in the view %v", got, c.want, c.view)
		}
	}
	const name = "/crawl/reports/lost-a2-01020304.txt"
	text, err := disk.ReadFile(mem, name, 1<<20)
	must.Do(t, err)
	const want = `# URLs of the pages that were in the archive of agent a2 (instance 01020304).
# Agent a1 wrote this list on 2001-09-09 01:46:40 UTC, when it took over hosts of a lost agent.
# If the crawl directory of a2 still exists, its archive has these pages, and the list is not needed.
# Otherwise fetch the pages again, in a crawl of their own:
#   orbweaver crawl --seeds lost-a2-01020304.txt --strategy list --dir again --contact ADDRESS
# Other agents that took over hosts have lists of their own.
http://a.example/1
http://a.example/2
http://b.example/
`
	if string(text) != want {
		t.Errorf("the list is\n%swant\n%s", text, want)
	}
	all := []string{"http://a.example/1 true a2-01020304", "http://a.example/2 true a2-01020304",
		"http://b.example/ true a2-01020304", "http://c.example/ true a2-ff000000"}
	if got := namesOf(t, lists); !slices.Equal(got, all) {
		t.Errorf("%q, want %q", got, all)
	}
	entries, err := mem.ReadDir("/crawl/state/lost")
	if err != nil || len(entries) > 0 {
		t.Errorf("%d files are left of the sort, %v", len(entries), err)
	}
}

// TestListOfRestored: if the crawl saves its states in a store, the list says that the agents fetch its pages again
// when the lost agent is resumed from there, and else how to fetch them.
func TestListOfRestored(t *testing.T) {
	mem := testdisk.NewMem()
	_, events := listsOn(t, mem)
	lists := must.Get(lost.Open(lost.Config{FS: mem, Dir: "/crawl", Clock: testclock.Func(now), Events: events,
		Members: &members.Members{Self: gossip.Agent{Name: "a1"}}, Restores: true}))(t)
	must.Do(t, lose(lists, handoff.Source{Name: "a2", Instance: [16]byte{1, 2, 3, 4, 5}}, "http://a.example/1"))
	text := string(must.Get(disk.ReadFile(mem, "/crawl/reports/lost-a2-01020304.txt", 1<<20))(t))
	const want = `
# If a2 is resumed from the store while the others crawl, the agents fetch the pages again at the end.
# Then this file is renamed to refetched-a2-01020304.txt.
# Otherwise fetch the pages again, in a crawl of their own:
#   orbweaver crawl --seeds lost-a2-01020304.txt --strategy list --dir again --contact ADDRESS
`
	if !strings.Contains(text, want) {
		t.Errorf("the list is\n%s", text)
	}
}

// TestListsArePlaced: a list is in the reports while its archive is lost. What is not known changes nothing. No URL of
// a list is lost when it moves, and the heirs get all of them.
func TestListsArePlaced(t *testing.T) {
	mem := testdisk.NewMem()
	lists, events := listsOn(t, mem)
	of := handoff.Source{Name: "a2", Instance: [16]byte{1}}
	agent := func(instance byte, state gossip.State) gossip.Agent {
		return gossip.Agent{Name: "a2", Instance: [16]byte{instance}, Boot: 7, State: state}
	}
	ended := func(left bool) []gossip.Ending {
		return []gossip.Ending{{Life: gossip.Life{Instance: of.Instance, Boot: 7}, Left: left}}
	}
	there := []gossip.Agent{agent(1, gossip.Up)}
	another := []gossip.Agent{agent(2, gossip.Joining)}
	must.Do(t, lose(lists, of, "http://a.example/0"))
	for i, c := range []struct {
		view *gossip.View
		lost bool
	}{
		{nil, true},
		{&gossip.View{}, true}, // not known
		{&gossip.View{Agents: there}, false},
		{&gossip.View{}, false}, // not known
		{&gossip.View{Lost: there}, true},
		{&gossip.View{Ended: ended(false)}, false}, // stopped
		{&gossip.View{Ended: ended(false), Agents: another}, true},
		{&gossip.View{Ended: ended(true), Agents: another}, false}, // left
		{&gossip.View{Ended: ended(true)}, false},
		{&gossip.View{Agents: []gossip.Agent{agent(1, gossip.Leaving)}}, false},
		{&gossip.View{Lost: there}, true},
	} {
		must.Do(t, lists.Place(c.view))
		in := func(dir string) bool {
			_, err := mem.Stat("/crawl/" + dir + "/lost-a2-01000000.txt")
			return err == nil
		}
		if in("reports") != c.lost || in("state/kept") == c.lost {
			t.Errorf("view %d: in reports %t, want %t; kept %t", i, in("reports"), c.lost, in("state/kept"))
		}
		if got := lists.Wanting(c.view); (got > 0) != c.lost {
			t.Errorf("view %d: %d URLs are wanted", i, got)
		}
		if err := lose(lists, of, fmt.Sprintf("http://a.example/%d", i%3)); err != nil { // writes it to the reports
			t.Fatal(err)
		}
		must.Do(t, lists.Place(c.view))
		want := min(i+1, 3)
		if got := namesOf(t, lists); len(got) != want || got[0] != "http://a.example/0 true a2-01000000" {
			t.Errorf("view %d: %q, want %d", i, got, want)
		}
		if c.lost != in("reports") && i != 3 { // not known: a takeover counts
			t.Errorf("view %d: after a takeover the list is in the reports: %t", i, in("reports"))
		}
	}
	must.Do(t, events.Close())
}

// TestListOfRefetchedURLs: a list tells how often a URL was fetched again before, and so does crawl.log.
func TestListOfRefetchedURLs(t *testing.T) {
	mem := testdisk.NewMem()
	lists, _ := listsOn(t, mem)
	at := time.Unix(1e9, 0)
	logged := report.Line{Time: at, Code: 200, URL: "http://a.example/", Hops: "I", Began: at, HasDigest: true,
		Notes: []string{report.RefetchNote + "2"}}
	must.Do(t, disk.WriteFile(mem, "/crawl/logs/crawl.log", logged.AppendTo(nil)))
	from := handoff.Source{Name: "a2", Instance: [16]byte{1}}
	add := func(urls map[string]uint8) {
		t.Helper()
		l, whole, err := lists.List(from)
		for u, refetches := range urls {
			name := link.Link{URL: weburl.MustParse(u)}
			name.SetRefetches(refetches)
			err = errors.Join(err, l.Add(name, from.Archive()))
		}
		if err := errors.Join(err, l.Commit(), l.Close()); err != nil || !whole {
			t.Fatal(whole, err)
		}
	}
	add(map[string]uint8{"http://b.example/": 1, "http://c.example/": 0})
	add(map[string]uint8{"http://b.example/": 3, "http://c.example/": 1, "http://d.example/": 0})
	want := []string{"http://a.example/ refetched 2 false", "http://c.example/ true a2-01000000",
		"http://d.example/ true a2-01000000", "http://b.example/ refetched 1 true a2-01000000",
		"http://c.example/ refetched 1 true a2-01000000", "http://b.example/ refetched 3 true a2-01000000"}
	if got := namesOf(t, lists); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestListOfLostURLsFails: each failure of the disk is an error, and leaves the list as it was. After a power
// failure a committed list is there.
func TestListOfLostURLsFails(t *testing.T) {
	from := handoff.Source{Name: "a2", Instance: [16]byte{1}}
	const name = "/crawl/reports/lost-a2-01000000.txt"
	for i := int64(1); ; i++ {
		mem := testdisk.NewMem()
		machine := &struct{ disk.FS }{mem}
		lists, _ := listsOn(t, machine)
		must.Do(t, lose(lists, from, "http://a.example/"))
		must.Do(t, mem.SyncDir("/crawl"))
		before, err := disk.ReadFile(mem, name, 1<<20)
		must.Do(t, err)
		faulty := testdisk.NewFaulty(mem, testdisk.FailAt(i, syscall.EIO))
		machine.FS = faulty
		err = lose(lists, from, "http://b.example/")
		if _, changes := faulty.Calls(); changes < i {
			if err != nil || i < 4 {
				t.Fatalf("%d changes of the disk, %v", changes, err)
			}
			after, rerr := disk.ReadFile(mem.Crash(1), name, 1<<20)
			if rerr != nil || string(after) != string(before)+"http://b.example/\n" {
				t.Errorf("after a power failure: %v\n%s", rerr, after)
			}
			return
		}
		if !errors.Is(err, syscall.EIO) {
			t.Errorf("change %d: %v", i, err)
		}
		after, rerr := disk.ReadFile(mem, name, 1<<20)
		if rerr != nil || !strings.HasPrefix(string(after), string(before)) {
			t.Errorf("change %d: %v\n%s", i, rerr, after)
		}
	}
}
