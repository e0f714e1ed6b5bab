package node

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// allSeeds returns the given seeds together with those of earlier runs. It adds the seeds of earlier
// runs that were given without a scheme to a.bare.
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
		u, bare, err := parseSeedLine(strings.TrimSpace(line))
		if err != nil {
			return nil, fmt.Errorf("%s: %q: %w", name, line, err)
		}
		if !have[u] && bare {
			a.bare[u] = true
		}
		add(u)
	}
	for _, u := range given {
		add(u)
	}
	return all, nil
}

// parseSeedLine reads a line of seedsFile: a canonical URL, without "https:" if it is bare.
func parseSeedLine(line string) (u weburl.URL, bare bool, err error) {
	if bare = strings.HasPrefix(line, "//"); bare {
		line = "https:" + line
	}
	u, err = weburl.Parse(line)
	return u, bare, err
}

// rememberSeeds saves the seeds for later runs.
func (a *Agent) rememberSeeds(all []weburl.URL) error {
	var b strings.Builder
	for _, u := range all {
		text := u.String()
		if a.bare[u] {
			text = strings.TrimPrefix(text, "https:")
		}
		b.WriteString(text + "\n")
	}
	return disk.WriteFile(a.fs, a.dir(seedsFile), []byte(b.String()))
}
