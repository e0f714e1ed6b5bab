package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/orbweaver/orbweaver/disk"
	"github.com/orbweaver/orbweaver/scope"
)

// shared are the settings that all agents must have alike: by another scope an
// owner would leave out what a finder takes for wanted, and the link be lost.
func (a *Agent) shared() (map[string]string, error) {
	rules, err := a.rules()
	if err != nil {
		return nil, err
	}
	return map[string]string{
		"version": Version, "partition": "ring", "replicas": strconv.Itoa(max(a.cfg.Cluster.Replicas, 1)), "scope": a.cfg.Scope.Scope.String(), "seeds and rules of scope": rules,
		"ip-delay": a.cfg.Frontier.IPDelay.String(), "site-delay": a.cfg.Frontier.SiteDelay.String(),
		"page-limit": strconv.FormatInt(a.cfg.Crawl.PageLimit, 10),
	}, nil
}

// rules is a digest of what decides which links are wanted: of patterns and
// depth, and of the seeds, unless every host is in scope.
func (a *Agent) rules() (string, error) {
	s := &a.cfg.Scope
	h := sha256.New()
	fmt.Fprintf(h, "%q %q", slices.Sorted(slices.Values(s.Include)), slices.Sorted(slices.Values(s.Exclude)))
	if s.Depth != nil {
		fmt.Fprintf(h, " %d", *s.Depth)
	}
	if s.Scope != scope.Any {
		b, err := disk.ReadFile(a.fs, a.dir(seedsFile), 1<<30)
		if err != nil {
			return "", err
		}
		for _, line := range slices.Sorted(strings.Lines(string(b))) {
			fmt.Fprintf(h, "\n%s", line)
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:6]), nil
}
