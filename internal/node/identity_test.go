package node

import (
	"slices"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/strategy"
	"github.com/orbweaver/orbweaver/internal/rate"
	"github.com/orbweaver/orbweaver/internal/web/scope"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// Agents with different product tokens for robots.txt have different settings.
func TestAgentsShareTheirRobotsName(t *testing.T) {
	for _, c := range []struct {
		userAgent, robotsAgent, want string
	}{
		{"", "", "orbweaver"},
		{"MyBot/1.0", "", "mybot"},
		{"MyBot/1.0", "Other", "other"},
	} {
		a := &Agent{cfg: Config{UserAgent: c.userAgent, RobotsAgent: c.robotsAgent, Cluster: &Cluster{}}}
		got, err := a.shared(nil)
		if err != nil || got["robots-agent"] != c.want {
			t.Errorf("%q, %q: %q, %v; want %q", c.userAgent, c.robotsAgent, got["robots-agent"], err, c.want)
		}
	}
	a := &Agent{cfg: Config{UserAgent: "Mozilla/5.0", Cluster: &Cluster{}}}
	if got, err := a.shared(nil); err == nil {
		t.Errorf("without a name: %v", got)
	}
}

// Agents that differ in a setting of the whole crawl differ in what they tell each other. TestDiffer of package rpc
// shows that the one that joins is refused.
func TestSharedSettings(t *testing.T) {
	one, more := 1, 1<<20
	seeds := []weburl.URL{weburl.MustParse("http://a.example/"), weburl.MustParse("http://b.example/")}
	shared := func(change func(*Agent), seeds []weburl.URL) map[string]string {
		t.Helper()
		a := &Agent{cfg: Config{Cluster: &Cluster{}, Scope: scope.Config{Scope: scope.Host}}}
		a.cfg.Scope.HostDepth = &more
		change(a)
		got, err := a.shared(seeds)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	perSecond, err := rate.Parse("5/s")
	if err != nil {
		t.Fatal(err)
	}
	same := func(*Agent) {}
	ours := shared(same, seeds)
	for _, c := range []struct {
		name   string // of the only setting that differs; empty: none does
		change func(*Agent)
	}{
		{"", same},
		{"", func(a *Agent) { a.cfg.Cluster.Agents, a.cfg.Cluster.Replicas = 1, 1 }},
		{"", func(a *Agent) { a.cfg.Frontier.HostDelay, a.cfg.Frontier.IPDelay = 2*time.Second, -1 }},
		{"agents", func(a *Agent) { a.cfg.Cluster.Agents = 3 }},
		{"replicas", func(a *Agent) { a.cfg.Cluster.Replicas = 2 }},
		{"partition", func(a *Agent) { a.cfg.Cluster.Partition = PartitionHash }},
		{"partition", func(a *Agent) { a.cfg.Cluster.Partition, a.cfg.Cluster.Kappa = PartitionRing, 100 }},
		{"scope", func(a *Agent) { a.cfg.Scope.Scope = scope.Domain }},
		{"seeds and rules of scope", func(a *Agent) { a.cfg.Scope.Exclude = []string{"/private/"} }},
		{"seeds and rules of scope", func(a *Agent) { a.cfg.Scope.Include = []string{"/private/"} }},
		{"seeds and rules of scope", func(a *Agent) { a.cfg.Scope.Depth = &one }},
		{"host-depth", func(a *Agent) { a.cfg.Scope.HostDepth = &one }},
		{"strategy", func(a *Agent) { a.parts.Strategy = &strategy.Recrawl{} }},
		{"requisites", func(a *Agent) { a.cfg.Crawl.Requisites = true }},
		{"sitemaps", func(a *Agent) { a.cfg.Crawl.Sitemaps = true }},
		{"seed-roots", func(a *Agent) { a.cfg.Crawl.SeedRoots = true }},
		{"coverage", func(a *Agent) { a.cfg.Crawl.TwoLevel = true }},
		{"near-duplicates", func(a *Agent) { a.cfg.NearDuplicates = NearMark }},
		{"delay", func(a *Agent) { a.cfg.Frontier.HostDelay = time.Second }},
		{"delay", func(a *Agent) { a.cfg.Crawl.DelayFactor = 2 }},
		{"ip-delay", func(a *Agent) { a.cfg.Frontier.IPDelay = time.Second }},
		{"site-delay", func(a *Agent) { a.cfg.Frontier.SiteDelay = time.Second }},
		{"slow-down", func(a *Agent) { a.cfg.Frontier.SlowBase = time.Second }},
		{"page-limit", func(a *Agent) { a.cfg.Crawl.PageLimit = 8 }},
		{"host-page-limit", func(a *Agent) { a.cfg.Crawl.HostPageLimit = 8 }},
		{"rate", func(a *Agent) { a.cfg.Rate = perSecond }},
	} {
		theirs := shared(c.change, seeds)
		var differ []string
		for name := range theirs {
			if theirs[name] != ours[name] {
				differ = append(differ, name)
			}
		}
		if !slices.Equal(differ, slices.DeleteFunc([]string{c.name}, func(s string) bool { return s == "" })) {
			t.Errorf("a change of %q: %q differ", c.name, differ)
		}
	}
	const rules = "seeds and rules of scope"
	if shared(same, seeds[:1])[rules] == ours[rules] {
		t.Error("other seeds: the rules are equal")
	}
	if slices.Reverse(seeds); shared(same, seeds)[rules] != ours[rules] {
		t.Error("another order of the seeds: the rules differ")
	}
	anywhere := func(a *Agent) { a.cfg.Scope.Scope = scope.Any }
	if shared(anywhere, seeds)[rules] != shared(anywhere, nil)[rules] {
		t.Error("other seeds, and all hosts are in scope: the rules differ")
	}
}
