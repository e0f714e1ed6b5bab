package main

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/orbweaver/orbweaver/internal/cli"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/node/membership"
)

// checkUnused returns an error if a flag is set that has no effect in this crawl. It accepts
// values from resumed, the crawl.yaml of a resumed crawl: the agent checks what a resumed
// crawl may change.
func (c *CrawlCmd) checkUnused(k *kong.Context, given *settings, resumed string) error {
	for _, flag := range k.Selected().Flags {
		why := c.unused(flag.Name)
		typed := slices.ContainsFunc(k.Path, func(p *kong.Path) bool { return p.Flag == flag && !p.Resolved })
		if why == "" || !typed && strings.HasPrefix(given.values[flag.Name].from, resumed+",") {
			continue
		}
		usual := reflect.New(flag.Target.Type()).Elem()
		if flag.Default != "" {
			if err := flag.Parse(kong.Scan().PushTyped(flag.Default, kong.FlagValueToken), usual); err != nil {
				return fmt.Errorf("--%s: default %q: %w", flag.Name, flag.Default, err)
			}
		}
		if !reflect.DeepEqual(flag.Target.Interface(), usual.Interface()) {
			return input.Errorf("--%s %v has no effect %s",
				flag.Name, settingText(flag.Target.Interface()), why)
		}
	}
	return nil
}

// ofCluster lists flags that have no effect without other agents.
var ofCluster = []string{"capacity", "partition", "boundary", "content-hash", "kappa", "coordinator", "coverage",
	"replicas", "on-loss", "archive-copies", "recovery", "founder"}

// unused says why a flag has no effect in this crawl, and what to do. It returns "" if the
// flag has an effect.
func (c *CrawlCmd) unused(flag string) string {
	of := ""
	switch {
	case flag == "example" && !c.DryRun:
		return "without --dry-run: leave it out, or add --dry-run"
	case strings.HasPrefix(flag, "delay-") && c.Delay != cli.AutoDelay:
		return "without --delay auto: leave it out, or add --delay auto"
	case flag == "model" && c.Listen != "" && c.Partition == membership.PartitionTopic:
	case flag == "topic" || flag == "model":
		of = "focused"
	case strings.HasPrefix(flag, "recrawl-"):
		of = "recrawl"
	case strings.HasPrefix(flag, "walk"):
		of = "walk"
	case c.Listen == "" && slices.Contains(ofCluster, flag):
		return "without other agents: leave it out, or add --listen ADDR"
	}
	if of == "" || of == c.Strategy {
		return ""
	}
	return fmt.Sprintf("with --strategy %s: leave it out, or give --strategy %s", c.Strategy, of)
}
