package node

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// allSeeds returns the given seeds together with those of earlier runs.
func (a *Agent) allSeeds(given []weburl.URL) ([]weburl.URL, error) {
	name := a.dir(seedsFile)
	old, err := disk.ReadFile(a.fs, name, 1<<30)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var all []weburl.URL
	have := map[weburl.URL]bool{}
	add := func(u weburl.URL) {
		if !have[u] {
			have[u] = true
			all = append(all, u)
		}
	}
	for line := range strings.Lines(string(old)) {
		u, err := weburl.Parse(strings.TrimSpace(line))
		if err != nil {
			return nil, fmt.Errorf("%s: %q: %w", name, line, err)
		}
		add(u)
	}
	for _, u := range given {
		add(u)
	}
	return all, nil
}

// rememberSeeds saves the seeds for later runs.
func (a *Agent) rememberSeeds(all []weburl.URL) error {
	var b strings.Builder
	for _, u := range all {
		b.WriteString(u.String() + "\n")
	}
	return disk.WriteFile(a.fs, a.dir(seedsFile), []byte(b.String()))
}
