package main

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"github.com/goccy/go-yaml"

	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/node/settings"
	"github.com/orbweaver/orbweaver/internal/quantity"
	"github.com/orbweaver/orbweaver/internal/web/sheet"
)

// config turns the flags into the configuration of an agent and its parts.
func (c *CrawlCmd) config() (node.Config, error) {
	cfg := node.Config{Dir: c.Dir, Seeds: c.Seed, Resume: c.Resume, Overwrite: c.Overwrite, Unblock: c.Unblock,
		Store: placeOf("")}
	more, err := readAllSeeds(c.Seeds)
	if err != nil {
		return cfg, err
	}
	if cfg.Seeds = slices.Concat(cfg.Seeds, more); len(cfg.Seeds) == 0 && len(c.Seeds) > 0 && !c.Resume {
		return cfg, bad("no seeds: --seeds %s has no URL; put one on each line", strings.Join(c.Seeds, " --seeds "))
	}
	switch {
	case c.Stream != "" && c.JSON:
		return cfg, bad("--stream and --json both write to standard output; leave one of them out. With --stream, " +
			"progress goes to standard error as text")
	case c.StartOrResume && c.Overwrite:
		return cfg, bad("--start-or-resume continues the crawl in --dir, and --overwrite deletes it; give one of them")
	case strings.Contains(c.Settings.Fetching.Proxy, sheet.Redacted):
		return cfg, bad("--proxy: crawl.yaml does not have the user and password of the proxy, because they are "+
			"secret; give --proxy again, or set %s", envName("proxy"))
	}
	if err := c.Settings.Into(&cfg); err != nil {
		return cfg, err
	}
	if cfg.Cluster != nil {
		if cfg.Cluster.Listen, err = input.ListenAddr(c.Settings.Cluster.Listen); err != nil {
			return cfg, err
		}
	}
	if err := c.APIFlags.check(cfg.Cluster); err != nil {
		return cfg, err
	}
	return cfg, c.secrets(&cfg)
}

// bad returns an error for a wrong setting.
func bad(format string, args ...any) error { return input.Errorf(format, args...) }

// checkUnused returns an error if a setting is given that has no effect in this crawl. It accepts values from the
// crawl.yaml of a resumed crawl: the agent checks what a resumed crawl may change.
func (c *CrawlCmd) checkUnused(k *kong.Context, given *elsewhere) error {
	if len(c.Example) > 0 && !c.DryRun {
		return bad("--example %s has no effect without --dry-run; leave it out, or add --dry-run", c.Example[0])
	}
	resumed := filepath.Join(c.Dir, "crawl.yaml") + ","
	return c.Settings.CheckUnused(func(name string) bool {
		return !isTyped(k, name) && strings.HasPrefix(given.values[name].from, resumed)
	})
}

// effective returns the content of crawl.yaml: every flag in effect, except those that
// apply to one run only.
func (c *CrawlCmd) effective(k *kong.Context) ([]byte, error) {
	var m yaml.MapSlice
	for _, f := range k.Selected().Flags {
		if f.Name == "help" || f.Tag.Has("for") {
			continue
		}
		v := c.public(f)
		switch x := v.(type) {
		case time.Duration:
			v = x.String()
		case *time.Duration:
			if x == nil {
				continue
			}
			v = x.String()
		case quantity.ByteSize:
			if v = x.String(); v == strconv.FormatInt(int64(x), 10) {
				v = int64(x) // without quotes
			}
		}
		if f.Target.IsZero() && f.Default == "" && f.Tag.Negatable == "" {
			continue // the flag has no effect
		}
		m = append(m, yaml.MapItem{Key: f.Name, Value: v})
	}
	if hosts := settings.HostsOf(c.hosts); len(hosts) > 0 {
		m = append(m, yaml.MapItem{Key: settings.HostsKey, Value: hosts})
	}
	b, err := yaml.Marshal(m)
	return append([]byte("# The flags of this crawl; \"orbweaver crawl --resume\" reads them.\n"), b...), err
}
