package node_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/strategy"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/node/membership"
	"github.com/orbweaver/orbweaver/internal/rate"
	"github.com/orbweaver/orbweaver/internal/web/cookie"
	"github.com/orbweaver/orbweaver/internal/web/scope"
	"github.com/orbweaver/orbweaver/internal/web/sheet"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// Agents that differ in a setting of the whole crawl differ in what they tell each other, and tell no secret.
// TestDiffer of package rpc shows that the one that joins is refused.
func TestSharedSettings(t *testing.T) {
	one, more := 1, 1<<20
	seeds := []weburl.URL{weburl.MustParse("http://a.example/"), weburl.MustParse("http://b.example/")}
	var plan visit.Strategy
	shared := func(change func(*node.Config), seeds []weburl.URL) (map[string]string, error) {
		cfg := node.Config{Cluster: &membership.Config{}, Scope: scope.Config{Scope: scope.Host, HostDepth: &more},
			Hosts: hostsTable(t, "a.example", "delay=1s", "auth=bearer s3cret")}
		cfg.Fetch.Secret = [][2]string{{"X-Key", "s3cret"}}
		change(&cfg)
		return node.Shared(cfg, plan, seeds)
	}
	must := func(change func(*node.Config), seeds []weburl.URL) map[string]string {
		t.Helper()
		m, err := shared(change, seeds)
		if err != nil {
			t.Fatal(err)
		}
		for k, v := range m {
			if strings.Contains(v, "s3cret") {
				t.Errorf("%s has the secret: %s", k, v)
			}
		}
		return m
	}
	perSecond, err := rate.Parse("5/s")
	if err != nil {
		t.Fatal(err)
	}
	same := func(*node.Config) {}
	ours := must(same, seeds)
	for _, c := range []struct {
		name   string // of the only setting that differs; empty: none does
		change func(*node.Config)
	}{
		{"", same},
		{"", func(c *node.Config) { c.Cluster.Agents, c.Cluster.Replicas = 1, 1 }},
		{"", func(c *node.Config) { c.Frontier.HostDelay, c.Frontier.IPDelay = 2*time.Second, -1 }},
		{"", func(c *node.Config) { c.Cluster.OnLoss = membership.LossKeep }},
		{"", func(c *node.Config) {
			c.Hosts = hostsTable(t, "(example,a,)", "auth=bearer other", "delay=1s")
			c.Fetch.Secret = [][2]string{{"x-key", "other"}}
		}},
		{"agents", func(c *node.Config) { c.Cluster.Agents = 3 }},
		{"replicas", func(c *node.Config) { c.Cluster.Replicas = 2 }},
		{"store-state of the crawl (isPartOf in warcinfo, or the name of the directory)", func(c *node.Config) {
			c.StoreState, c.Archive.Segments.Crawl = time.Minute, "web"
		}},
		{"on-loss", func(c *node.Config) { c.Cluster.OnLoss = membership.LossRefetch }},
		{"partition", func(c *node.Config) { c.Cluster.Partition = membership.PartitionHash }},
		{"partition", func(c *node.Config) { c.Cluster.Partition, c.Cluster.Kappa = membership.PartitionRing, 100 }},
		{"scope", func(c *node.Config) { c.Scope.Scope = scope.Domain }},
		{"seeds and rules of scope", func(c *node.Config) { c.Scope.Exclude = []string{"/private/"} }},
		{"seeds and rules of scope", func(c *node.Config) { c.Scope.Include = []string{"/private/"} }},
		{"seeds and rules of scope", func(c *node.Config) { c.Scope.Depth = &one }},
		{"host-depth", func(c *node.Config) { c.Scope.HostDepth = &one }},
		{"strategy", func(*node.Config) { plan = &strategy.Recrawl{} }},
		{"requisites", func(c *node.Config) { c.Crawl.Requisites = true }},
		{"sitemaps", func(c *node.Config) { c.Crawl.Sitemaps.Follow = true }},
		{"sitemaps with a URL", func(c *node.Config) {
			c.Crawl.Sitemaps.Named = []weburl.URL{weburl.MustParse("http://a.example/map.xml")}
		}},
		{"sitemap-from", func(c *node.Config) { c.Crawl.Sitemaps.From = time.Unix(1, 0) }},
		{"seed-roots", func(c *node.Config) { c.Crawl.SeedRoots = true }},
		{"coverage", func(c *node.Config) { c.Crawl.TwoLevel = true }},
		{"near-duplicates", func(c *node.Config) { c.NearDuplicates = node.NearMark }},
		{"delay", func(c *node.Config) { c.Frontier.HostDelay = time.Second }},
		{"delay", func(c *node.Config) { c.Crawl.DelayFactor = 2 }},
		{"ip-delay", func(c *node.Config) { c.Frontier.IPDelay = time.Second }},
		{"site-delay", func(c *node.Config) { c.Frontier.SiteDelay = time.Second }},
		{"slow-down", func(c *node.Config) { c.Frontier.SlowBase = time.Second }},
		{"page-limit", func(c *node.Config) { c.Crawl.PageLimit = 8 }},
		{"host-page-limit", func(c *node.Config) { c.Crawl.HostPageLimit = 8 }},
		{"rate", func(c *node.Config) { c.Rate = perSecond }},
		{"hosts and auth-file", func(c *node.Config) { c.Hosts = hostsTable(t, "a.example", "delay=2s") }},
		{"hosts and auth-file", func(c *node.Config) { c.Hosts = nil }},
		{"header", func(c *node.Config) { c.Fetch.Header = [][2]string{{"Accept", "x"}} }},
		{"cookies", func(c *node.Config) { c.Crawl.Cookies = cookie.New(0) }},
		{"keep", func(c *node.Config) { c.Crawl.Keep, _ = sheet.ParseKeep("keep", []string{"x"}) }},
		{"obey-noarchive", func(c *node.Config) { c.Crawl.ObeyNoArchive = true }},
		{"robots-agent", func(c *node.Config) { c.UserAgent = "MyBot/1.0" }},
	} {
		theirs := must(c.change, seeds)
		plan = nil
		var differ []string
		for name := range theirs {
			if theirs[name] != ours[name] {
				differ = append(differ, name)
			}
		}
		for name := range ours {
			if _, ok := theirs[name]; !ok {
				differ = append(differ, name)
			}
		}
		if strings.Join(differ, ", ") != c.name {
			t.Errorf("a change of %q: %q differ", c.name, differ)
		}
	}
	const rules = "seeds and rules of scope"
	if must(same, seeds[:1])[rules] == ours[rules] {
		t.Error("other seeds: the rules are equal")
	}
	if slices.Reverse(seeds); must(same, seeds)[rules] != ours[rules] {
		t.Error("another order of the seeds: the rules differ")
	}
	anywhere := func(c *node.Config) { c.Scope.Scope = scope.Any }
	if must(anywhere, seeds)[rules] != must(anywhere, nil)[rules] {
		t.Error("other seeds, and all hosts are in scope: the rules differ")
	}
	for _, c := range [][3]string{{"", "", "orbweaver"}, {"MyBot/1.0", "", "mybot"}, {"MyBot/1.0", "Other", "other"}} {
		got := must(func(cfg *node.Config) { cfg.UserAgent, cfg.RobotsAgent = c[0], c[1] }, nil)
		if got["robots-agent"] != c[2] {
			t.Errorf("%q: %q", c, got["robots-agent"])
		}
	}
	if got, err := shared(func(c *node.Config) { c.UserAgent = "Mozilla/5.0" }, nil); err == nil {
		t.Errorf("without a name for robots.txt: %v", got)
	}
	plan = &strategy.Recrawl{}
	if got, err := shared(func(c *node.Config) { c.Cluster.OnLoss = membership.LossRefetch }, nil); err == nil {
		t.Errorf("lost pages are fetched again, with a strategy that plans visits: %v", got)
	}
}
