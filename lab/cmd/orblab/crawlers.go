package main

import (
	"io"
	"time"

	"github.com/orbweaver/orbweaver/lab"
)

// CrawlersCmd implements "orblab crawlers".
type CrawlersCmd struct {
	flags
	Hosts  int64         `placeholder:"N" help:"${crawlers_hosts}"`
	Delay  time.Duration `placeholder:"D" help:"${crawlers_delay}"`
	Scrapy string        `placeholder:"FILE" help:"${crawlers_scrapy}"`
	Wget2  string        `name:"wget2" placeholder:"FILE" help:"${crawlers_wget2}"`
}

// Help explains the result.
func (CrawlersCmd) Help() string {
	return `Orbweaver, Scrapy and Wget2 crawl the same generated web, one after the other, each
as the command of "orbweaver testweb". The result is what the web saw: pages,
coverage, overlap, violations of politeness and of robots.txt, and the time. Install
the other crawlers first:

  apt-get install wget2
  python3 -m venv scrapy && scrapy/bin/pip install scrapy
  orblab crawlers --quick --scrapy scrapy/bin/scrapy --out /tmp/lab`
}

// Run runs the experiment.
func (c *CrawlersCmd) Run(out io.Writer) error {
	switch {
	case c.Hosts < 0:
		return usageErrorf("--hosts %d: give a number above 0", c.Hosts)
	case c.Delay < 0 || c.Delay > 0 && c.Delay < 10*time.Millisecond:
		return usageErrorf("--delay %s: give at least 10ms", c.Delay)
	}
	again := "orblab crawlers"
	add := flagsOf(&again)
	add(c.Quick, "%s", "--quick")
	add(c.Seed != 1, "--seed %d", c.Seed)
	add(c.Hosts > 0, "--hosts %d", c.Hosts)
	add(c.Delay > 0, "--delay %s", c.Delay)
	return c.measure(out, true, &lab.Crawlers{Scrapy: c.Scrapy, Wget2: c.Wget2, Hosts: c.Hosts, Delay: c.Delay,
		Again: again})
}
