package main

import (
	"io"
	"slices"
	"strings"

	"github.com/orbweaver/orbweaver/lab"
)

// TopicCmd implements "orblab topic".
type TopicCmd struct {
	flags
	Figures string `default:"2-7" enum:"2-3,4-7,2-7" placeholder:"A-B" help:"${topic_figures}"`
	lab.TopicCrawl
}

// Help explains the result.
func (TopicCmd) Help() string {
	return `The experiment repeats those of the paper on X4, a topic-partitioned crawler.

  2-3   how often the classifiers of the paper and ours are right, how often a link
        leads to an article of the same topic, and how fast they are; also how well
        the program tells languages (topic.md)
  4-7   crawls with --partition topic, beside a partition by a hash of the contents
        and the default: pages kept and imported by category, locality, pages that
        several crawlers fetch, PageRank within the parts, and bytes between agents
        (topic-crawl.md)

  orblab topic --quick --out /tmp/lab
  orblab topic --figures 2-3`
}

// Run runs the experiment.
func (c *TopicCmd) Run(out io.Writer) error {
	switch {
	case c.Figures == "2-3" && (c.Pages != 0 || c.Depth != 0 || c.Webs != nil):
		return usageErrorf("--figures 2-3 crawls nothing; leave out --pages, --depth and --web")
	case c.Pages < 0 || c.Pages > 1e9:
		return usageErrorf("--pages %d: give a number from 1 to 1000000000", c.Pages)
	case c.Depth < 0:
		return usageErrorf("--depth %d: give a number of at least 1", c.Depth)
	}
	for _, web := range c.Webs {
		if !slices.Contains(lab.TopicWebs(), web) {
			return usageErrorf("--web %q: give %s", web, strings.Join(lab.TopicWebs(), " or "))
		}
	}
	if c.Figures != "4-7" {
		if err := c.measure(out, false, &lab.Topic{Texts: c.Texts}); err != nil {
			return err
		}
	}
	if c.Figures == "2-3" {
		return nil
	}
	return c.measure(out, true, &c.TopicCrawl)
}
