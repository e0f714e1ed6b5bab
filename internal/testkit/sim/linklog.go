package sim

import (
	"fmt"
	"path"
	"slices"

	"github.com/orbweaver/orbweaver/internal/linklog"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/extsort"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

// logsLinks reports that the agents write link logs. They do if they divide pages by contents, so that the log of one
// agent has a page's visit and that of another its links, unless the plan loses what is on a disk. Links that lead to
// errors or redirects are not those that the generated web tells.
func (p Plan) logsLinks() bool {
	plain := p.Broken == 0 && p.Redirects == 0
	return plain && (p.moves() || p.Mirrors) && !slices.ContainsFunc(p.Faults, func(f Fault) bool {
		return slices.Contains([]Kind{Lose, Replace, Old, Full, Fail, Orphan}, f.Kind) ||
			f.Kind == Disaster && f.Agent > 0
	})
}

// linked judges the link logs of all agents together: each archived page has exactly its links of the generated web.
func (s *story) linked(all *archives) (wrong []string) {
	if !s.plan.logsLinks() {
		return nil
	}
	fail := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	together, dirs := testdisk.NewMem(), []string{}
	for i, a := range s.actors {
		for j, mem := range []*testdisk.Mem{a.mem, a.left} {
			if a.run == nil || mem == nil {
				continue
			}
			dir := fmt.Sprintf("/%d-%d", i, j)
			if err := copyLinks(together, dir, mem); err != nil {
				fail("%s: %v", a.name, err)
			}
			dirs = append(dirs, dir)
		}
	}
	links := map[string][]string{}
	damage, err := linklog.Current(together, dirs, extsort.Config{FS: together, Prefix: "/sort-"},
		func(p *linklog.PageLine, _, has bool) error {
			for i := range p.Links {
				if has {
					links[p.URL] = append(links[p.URL], p.Links[i].Target)
				}
			}
			return nil
		})
	if err != nil || damage.Any() {
		fail("link logs: %v, %+v", err, damage)
	}
	s.judge.truth.Each(func(host, number int64) {
		url := s.judge.truth.URL(host, number)
		if !all.has[url] {
			return
		}
		var want []string
		for _, to := range s.judge.made.Links(host, number, nil) {
			want = append(want, s.judge.made.URL(to.Host, to.Page))
		}
		got := links[url]
		slices.Sort(want)
		slices.Sort(got)
		if want = slices.Compact(want); !slices.Equal(got, want) {
			fail("%s has %d links in the link logs, and links to %d pages: %q, want %q", url, len(got), len(want), got,
				want)
		}
	})
	return wrong
}

// copyLinks copies the link log of a crawl to dir.
func copyLinks(to *testdisk.Mem, dir string, from *testdisk.Mem) error {
	files, err := linklog.Files(from, crawlDir)
	if err != nil {
		return err
	}
	for _, name := range files {
		b, err := disk.ReadFile(from, name, 1<<30)
		if err == nil {
			err = to.MkdirAll(path.Join(dir, linklog.Folder), 0o755)
		}
		if err == nil {
			err = disk.WriteFile(to, path.Join(dir, linklog.Folder, path.Base(name)), b)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
