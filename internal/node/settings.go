package node

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/crawl/strategy"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/node/membership"
	"github.com/orbweaver/orbweaver/internal/web/fetch"
	"github.com/orbweaver/orbweaver/internal/web/scope"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// protocol is the version of the calls between agents. Agents of the same protocol work together, whatever versions
// their programs have. Later programs may add without a new protocol:
//
//   - a call: agents that do not know it answer that it is unimplemented;
//   - a field of a message: agents that do not know it ignore it;
//   - a shared setting: it must be left out while it has its default value.
const protocol = "1"

// shared returns the settings that must be equal on all agents. With a different scope the owner would discard a link
// that its finder wants. With a different robots-agent a host would be crawled by other rules after a handoff.
func (a *Agent) shared(seeds []weburl.URL) (map[string]string, error) {
	rules := a.rules(seeds)
	_, token, err := a.cfg.Identity()
	if err != nil {
		return nil, err
	}
	f := &a.cfg.Frontier
	settings := map[string]string{
		"protocol": protocol, "scope": a.cfg.Scope.Scope.String(), "seeds and rules of scope": rules,
		"strategy": strategyTerms(a.parts.Strategy), "robots-agent": strings.ToLower(token),
		"requisites": strconv.FormatBool(a.cfg.Crawl.Requisites),
		"sitemaps":   strconv.FormatBool(a.cfg.Crawl.Sitemaps.Follow),
		"host-depth": depthTerms(a.cfg.Scope.HostDepth), "seed-roots": strconv.FormatBool(a.cfg.Crawl.SeedRoots),
		"near-duplicates": cmp.Or(a.cfg.NearDuplicates, NearOff),
		"coverage":        coverageTerms(a.cfg.Crawl.TwoLevel),
		// A host that moves must have the same delays at its next owner.
		"delay": quiet(f.HostDelay, 2*time.Second) + autoTerms(&a.cfg.Crawl), "ip-delay": quiet(f.IPDelay, 0),
		"site-delay": quiet(f.SiteDelay, 0), "slow-down": quiet(f.SlowBase, time.Minute),
		"page-limit":      strconv.FormatInt(a.cfg.Crawl.PageLimit, 10),
		"host-page-limit": strconv.FormatInt(a.cfg.Crawl.HostPageLimit, 10),
		"keep":            a.cfg.Crawl.Keep.String(), "header": headerTerms(&a.cfg.Fetch),
		"cookies": strconv.FormatBool(a.cfg.Crawl.Cookies != nil), "hosts and auth-file": a.cfg.Hosts.Digest(),
	}
	maps.Copy(settings, a.cfg.Cluster.Terms())
	if a.cfg.StoreState > 0 {
		// Agents look for each other's states below the name of their crawl.
		settings[stateTerm] = a.cfg.Archive.Segments.Crawl
	}
	if !a.cfg.Rate.None() {
		settings["rate"] = a.cfg.Rate.String()
	}
	if _, plans := a.parts.Strategy.(visit.Planner); plans {
		if err := membership.CheckPlanner(a.cfg.Cluster.OnLoss, strategyName(a.parts.Strategy)); err != nil {
			return nil, err
		}
	}
	if s := &a.cfg.Crawl.Sitemaps; len(s.Named) > 0 {
		settings["sitemaps with a URL"] = fmt.Sprint(s.Named)
	}
	if s := &a.cfg.Crawl.Sitemaps; !s.From.IsZero() {
		settings["sitemap-from"] = s.From.UTC().Format(time.RFC3339Nano)
	}
	if a.cfg.Crawl.ObeyNoArchive {
		settings["obey-noarchive"] = "true"
	}
	if w, ok := a.parts.Strategy.(*strategy.Walk); ok {
		// Each walker may jump to any of the start URLs, whatever the scope.
		settings["walk's start URLs"] = w.StartURLs()
		if err := CheckWalk(a.cfg.Cluster.Partition); err != nil {
			return nil, err
		}
	}
	return settings, nil
}

// stateTerm is the shared setting that has the name of the crawl in the store.
const stateTerm = "store-state of the crawl (isPartOf in warcinfo, or the name of the directory)"

// CheckWalk returns an *input.ConfigError if agents that divide their work so cannot walk. Open checks it too late to
// leave the directory unchanged, because only an open strategy is known to be a walk.
func CheckWalk(partition string) error {
	const give = "give {partition} rendezvous or ring"
	switch partition {
	case membership.PartitionHash:
		return input.Errorf("{partition} hash: {strategy} walk counts the links of duplicates, too; " + give)
	case membership.PartitionTopic:
		return input.Errorf("{partition} topic: with {strategy} walk hosts must have owners; " + give)
	}
	return nil
}

// depthTerms returns a maximum depth; -1 is no limit.
func depthTerms(depth *int) string {
	if depth == nil {
		return "-1"
	}
	return strconv.Itoa(*depth)
}

// coverageTerms returns which links agents send each other.
func coverageTerms(twoLevel bool) string {
	if twoLevel {
		return "two-level"
	}
	return "full"
}

// headerTerms returns the fields that all requests have. Of secret fields it has the names alone.
func headerTerms(f *fetch.Config) string {
	var lines []string
	for _, h := range f.Header {
		lines = append(lines, strings.ToLower(h[0])+": "+h[1])
	}
	for _, h := range f.Secret {
		lines = append(lines, strings.ToLower(h[0]))
	}
	slices.Sort(lines)
	return strings.Join(lines, "; ")
}

// quiet returns the effective value of a delay.
func quiet(d, usual time.Duration) string {
	d = cmp.Or(d, usual)
	return max(d, 0).String()
}

// autoTerms returns how delays follow response times. It is empty if they do not.
func autoTerms(c *crawl.Config) string {
	if c.DelayFactor <= 0 {
		return ""
	}
	return fmt.Sprintf(" to %s, %g times the response times", c.DelayMax, c.DelayFactor)
}

// strategyTerms returns the strategy's name and parameters.
func strategyTerms(s visit.Strategy) string {
	if t, ok := s.(interface{ Terms() string }); ok {
		return strategyName(s) + " " + t.Terms()
	}
	return strategyName(s)
}

// rules returns a digest of the rules of the scope: patterns, depth and, unless every host is in scope, the seeds.
func (a *Agent) rules(seeds []weburl.URL) string {
	s := &a.cfg.Scope
	h := sha256.New()
	fmt.Fprintf(h, "%q %q", slices.Sorted(slices.Values(s.Include)), slices.Sorted(slices.Values(s.Exclude)))
	if s.Depth != nil {
		fmt.Fprintf(h, " %d", *s.Depth)
	}
	if s.Scope != scope.Any {
		var lines []string
		for _, u := range seeds {
			lines = append(lines, u.String()+"\n")
		}
		slices.Sort(lines)
		for _, line := range lines {
			fmt.Fprintf(h, "\n%s", line)
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:6])
}
