package main

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"github.com/goccy/go-yaml"

	"github.com/orbweaver/orbweaver/internal/cli"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/node/membership"
	"github.com/orbweaver/orbweaver/internal/node/verbs"
	"github.com/orbweaver/orbweaver/internal/web/scope"
	"github.com/orbweaver/orbweaver/internal/web/sheet"
)

// leastMemory is node.LeastMemory as people write it.
var leastMemory = cli.ByteSize(node.LeastMemory).String()

const (
	// leastWARC is the least --warc-size in bytes. Smaller files are more files than file systems like.
	leastWARC = 1_000_000
	// mostDelay is the longest --delay.
	mostDelay = 7 * 24 * time.Hour
)

// config turns the flags into the configuration of an agent and its parts. Its errors
// name the flag, the value and what would be right.
func (c *CrawlCmd) config() (node.Config, error) {
	cfg := node.Config{
		Dir: c.Dir, Seeds: c.Seed, Resume: c.Resume, Overwrite: c.Overwrite, Unblock: c.Unblock,
		Contact: c.Contact, UserAgent: c.UserAgent, RobotsAgent: c.RobotsAgent, MemoryBytes: int64(c.Memory),
		NearDuplicates: c.NearDuplicates,
	}
	more, err := readAllSeeds(c.Seeds)
	if err != nil {
		return cfg, err
	}
	if cfg.Seeds = slices.Concat(cfg.Seeds, more); len(cfg.Seeds) == 0 && len(c.Seeds) > 0 && !c.Resume {
		return cfg, bad("no seeds: --seeds %s has no URL; put one on each line", strings.Join(c.Seeds, " --seeds "))
	}
	if err := c.check(); err != nil {
		return cfg, err
	}
	if cfg.Strategy, err = c.strategy(); err != nil {
		return cfg, err
	}
	if c.Strategy == "walk" && c.Listen != "" {
		if err := node.CheckWalk(c.Partition); err != nil {
			return cfg, err
		}
	}
	if c.Strategy == "recrawl" && c.Listen != "" {
		if err := membership.CheckPlanner(c.OnLoss, c.Strategy); err != nil {
			return cfg, err
		}
	}
	if cfg.Cluster = c.cluster(); cfg.Cluster != nil {
		if cfg.Cluster.Listen, err = listenAddr(c.Listen); err != nil {
			return cfg, err
		}
		if c.Partition == membership.PartitionTopic {
			model := modelFlag{Model: c.Model}
			if cfg.Cluster.Classifier, err = model.classifier(); err != nil {
				return cfg, err
			}
		}
	}
	if err := c.APIFlags.check(cfg.Cluster); err != nil {
		return cfg, err
	}
	c.limits(&cfg)
	c.politeness(&cfg)
	if err := c.fetching(&cfg); err != nil {
		return cfg, err
	}
	if err := c.requests(&cfg); err != nil {
		return cfg, err
	}
	cfg.Links = c.Links
	cfg.Archive.Prefix, cfg.Archive.Agent, cfg.Archive.MaxBytes = c.WARCPrefix, c.Name, int64(c.WARCSize)
	return cfg, nil
}

// check refuses values that no crawl can use. Its errors name the flag, the value and what
// would be right.
func (c *CrawlCmd) check() error {
	if err := c.DelayFlags.check(); err != nil {
		return err
	}
	switch {
	case c.Workers < 1 || c.Workers > 10000:
		return bad("--workers %d: give a number from 1 to 10000", c.Workers)
	case c.Stream != "" && c.JSON:
		return bad("--stream and --json both write to standard output; leave one of them out. With --stream, " +
			"progress goes to standard error as text")
	case c.SlowDown <= 0:
		return bad("--slow-down %s: give a duration above 0, such as 60s", c.SlowDown)
	case c.RetryWait <= 0:
		return bad("--retry-wait %s: give a duration above 0, such as 30s; --retries 0 never retries", c.RetryWait)
	case c.MaxTime <= 0:
		return bad("--max-time %s: give a duration above 0, such as 5m", c.MaxTime)
	case c.Timeout <= 0:
		return bad("--timeout %s: give a duration above 0, such as 30s", c.Timeout)
	case c.DialTimeout <= 0:
		return bad("--dial-timeout %s: give a duration above 0, such as 15s", c.DialTimeout)
	case c.MaxBody <= 0:
		return bad("--max-body %s: give a size above 0, such as 256MiB", c.MaxBody)
	case c.WARCSize < leastWARC:
		return bad("--warc-size %s is too small; give at least 1MB", c.WARCSize)
	case c.WARCPrefix == "" || strings.ContainsAny(c.WARCPrefix, `/\`):
		return bad("--warc-prefix %q: give a part of a file's name, such as orbweaver", c.WARCPrefix)
	case c.Retries < 0:
		return bad("--retries %d is negative; give 0 to never retry, or more", c.Retries)
	case c.Depth < -1:
		return bad("--depth %d: give the number of links, 0 for the seeds alone, or -1 for no limit", c.Depth)
	case c.HostDepth < -1:
		return bad("--host-depth %d: give the number of links, 0 for where the crawl enters a host alone, "+
			"or -1 for no limit", c.HostDepth)
	case c.PageLimit < 0:
		return bad("--page-limit %d is negative; give 0 for no limit, or more", c.PageLimit)
	case c.HostPageLimit < 0:
		return bad("--host-page-limit %d is negative; give 0 for no limit, or more", c.HostPageLimit)
	case !(c.Capacity > 0 && c.Capacity <= 1000): // refuses NaN, too
		return bad("--capacity %g: give a weight above 0, at most 1000", c.Capacity)
	case c.Replicas < 0 || c.Replicas > 2:
		return bad("--replicas %d: give 1 or 2", c.Replicas)
	case c.ArchiveCopies < 1 || c.ArchiveCopies > 2:
		return bad("--archive-copies %d: give 1 or 2", c.ArchiveCopies)
	case c.Recovery < 1:
		return bad("--recovery %d is too small; give at least 1", c.Recovery)
	case c.Agents < 1:
		return bad("--agents %d is too small; give at least 1", c.Agents)
	case c.Listen == "" && (len(c.Join) > 0 || c.Keys != "" || c.Agents > 1):
		return bad("--join, --keys and --agents have no effect without other agents: " +
			"add --listen ADDR")
	case c.Memory < node.LeastMemory:
		return bad("--memory %s is too little; give at least %s", c.Memory, leastMemory)
	}
	if c.StartOrResume && c.Overwrite {
		return bad("--start-or-resume continues the crawl in --dir, and --overwrite deletes it; give one of them")
	}
	if len(c.Unblock) > 0 && !c.Resume {
		return bad("--unblock %s: a new crawl has no blocked hosts; continue an existing one with --resume",
			c.Unblock[0])
	}
	for _, h := range c.Unblock {
		if err := verbs.CheckUnblock(h); err != nil {
			return bad("--unblock: %v", err)
		}
	}
	if err := membership.CheckPartition(c.Partition, c.Kappa); err != nil || c.Listen == "" {
		return err
	}
	if c.Resume { // the settings of the crawl are those of its partition
		if err := c.cluster().CheckResumed(c.Dir); err != nil {
			return err
		}
	}
	return c.cluster().CheckDivision()
}

// replicas returns the number of agents that keep the records of a host.
func (c *CrawlCmd) replicas() int { return cmp.Or(c.Replicas, 2) }

// twoLevel reports whether agents send no links to each other.
func (c *CrawlCmd) twoLevel() bool { return c.Coverage == "two-level" }

// bad returns an error for a wrong setting.
func bad(format string, args ...any) error { return input.Errorf(format, args...) }

// cluster returns the configuration of the cluster, or nil for an agent alone.
func (c *CrawlCmd) cluster() *membership.Config {
	if c.Listen == "" {
		return nil
	}
	cl := &membership.Config{
		Name: c.Name, Capacity: c.Capacity, Listen: c.Listen, Join: c.Join, Founder: c.Founder,
		Keys: c.Keys, Agents: c.Agents,
		Replicas: c.replicas(), OnLoss: c.OnLoss, ArchiveCopies: c.ArchiveCopies, Recovery: c.Recovery,
		Partition: c.Partition, Coordinators: c.Coordinator,
		TwoLevel: c.twoLevel(), Boundary: c.Boundary, ContentHash: c.ContentHash,
	}
	if c.Kappa != nil {
		cl.Kappa = *c.Kappa
	}
	return cl
}

// limits sets what the crawl visits, and when it ends.
func (c *CrawlCmd) limits(cfg *node.Config) {
	cc := &cfg.Crawl
	cc.Workers, cc.PageLimit, cc.HostPageLimit = c.Workers, c.PageLimit, c.HostPageLimit
	cc.SizeLimit, cc.TimeLimit, cfg.Rate = int64(c.SizeLimit), c.TimeLimit, c.Rate
	cc.Requisites, cc.Sitemaps, cc.SeedRoots = c.Requisites, c.Sitemaps, c.SeedRoots
	cc.ObeyNoArchive = c.ObeyNoarchive
	cc.RetryWait = c.RetryWait
	if cc.Retries = c.Retries; c.Retries == 0 {
		cc.Retries = -1
	}
	cfg.Scope = scope.Config{Scope: c.Scope, Include: c.Include, Exclude: c.Exclude}
	cfg.Blacklist = c.Blacklist
	if c.Depth >= 0 {
		cfg.Scope.Depth = &c.Depth
	}
	if c.HostDepth >= 0 {
		cfg.Scope.HostDepth = &c.HostDepth
	}
}

// politeness sets the delays of hosts, addresses and registered domains.
func (c *CrawlCmd) politeness(cfg *node.Config) {
	fr, least := &cfg.Frontier, c.least()
	if fr.HostDelay = least; least == 0 {
		fr.HostDelay = -1 // none
	}
	fr.IPDelay, fr.SiteDelay, fr.SlowBase = least/4, least/4, c.SlowDown
	if c.Delay == cli.AutoDelay {
		cfg.Crawl.DelayFactor, cfg.Crawl.DelayMax = c.DelayFactor, c.DelayMax
	}
	if c.IPDelay != nil {
		fr.IPDelay = *c.IPDelay
	}
	if c.SiteDelay != nil {
		fr.SiteDelay = *c.SiteDelay
	}
	fr.HostShare = float64(c.HostShare)
	cfg.Robots.RetryWait = c.RetryWait
}

// fetching sets how the crawl looks names up, connects and downloads.
func (c *CrawlCmd) fetching(cfg *node.Config) error {
	cfg.DNS.Servers = c.DNS
	f := &cfg.Fetch
	f.ConnectTo, f.CAFile, f.Insecure, f.AllowPrivate = c.ConnectTo, c.CA, c.Insecure, c.AllowPrivate
	f.MaxBody, f.TotalTimeout = int64(c.MaxBody), c.MaxTime
	if f.MinRate = int64(c.MinRate); f.MinRate == 0 {
		f.MinRate = -1 // none
	}
	f.FirstByteTimeout, f.IdleTimeout = c.Timeout, c.Timeout
	f.ConnectTimeout, f.TLSTimeout = c.DialTimeout, c.DialTimeout
	if strings.Contains(c.Proxy, sheet.Redacted) {
		return bad("--proxy: crawl.yaml does not have the user and password of the proxy, because they are secret; "+
			"give --proxy again, or set %s", envName("proxy"))
	}
	if c.Proxy != "" {
		u, err := proxyURL(c.Proxy)
		if err != nil {
			return err
		}
		f.Proxy = u
	}
	return nil
}

// proxyURL parses the value of --proxy.
func proxyURL(proxy string) (*url.URL, error) {
	u, err := url.Parse(proxy)
	if err != nil || u.Host == "" {
		return nil, bad("--proxy %q is not a proxy's URL; write http://127.0.0.1:3128 or socks5://127.0.0.1:1080",
			redactProxy(proxy))
	}
	return u, nil
}

// effective returns the content of crawl.yaml: every flag in effect, except those that
// apply to one run only.
func (c *CrawlCmd) effective(k *kong.Context) ([]byte, error) {
	var m yaml.MapSlice
	for _, f := range k.Selected().Flags {
		switch f.Name {
		case "help", "config", "dir", "resume", "overwrite", "start-or-resume", "stay", "dry-run", "example",
			"unblock", "json", "stream", "quiet", "seeds", "time-limit", "cpuprofile", "memprofile":
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
		case cli.ByteSize:
			if v = x.String(); v == strconv.FormatInt(int64(x), 10) {
				v = int64(x) // without quotes
			}
		}
		if f.Target.IsZero() && f.Default == "" {
			continue // the flag has no effect
		}
		m = append(m, yaml.MapItem{Key: f.Name, Value: v})
	}
	if hosts := c.publicHosts(); len(hosts) > 0 {
		m = append(m, yaml.MapItem{Key: hostsKey, Value: hosts})
	}
	b, err := yaml.Marshal(m)
	return append([]byte("# The flags of this crawl; \"orbweaver crawl --resume\" reads them.\n"), b...), err
}
