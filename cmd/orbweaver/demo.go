package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/node/membership"
	"github.com/orbweaver/orbweaver/internal/store/crawldir"
	"github.com/orbweaver/orbweaver/internal/testweb"
	"github.com/orbweaver/orbweaver/internal/testweb/webs"
	"github.com/orbweaver/orbweaver/internal/web/scope"
)

// DemoCmd implements "demo".
type DemoCmd struct {
	Dir       string        `short:"o" help:"${demo_dir}" placeholder:"DIR"`
	Partition string        `help:"${demo_partition}" enum:",${partitions}" default:"" placeholder:"KIND"`
	Delay     time.Duration `help:"${demo_delay}" default:"200ms" placeholder:"D"`
	JSON      bool          `name:"json" help:"${json}"`
	Quiet     bool          `short:"q" help:"Print nothing."`
}

// Help explains what the demo does.
func (DemoCmd) Help() string {
	return `The program serves a small web on loopback, with its own name server, and crawls
it like any other web. The demo needs no network and takes less than a minute.

With --partition, three agents in this process crawl the web together. sites starts
a coordinator as well, which assigns each host to an agent. topic divides the pages
by what they are about; then several agents may fetch the same page:

  orbweaver demo --partition sites
  orbweaver demo --partition topic`
}

// demoMark begins the crawl.yaml of a demo.
const demoMark = "# The demo's crawl"

// onlyDemo refuses a directory with a crawl that is not a demo, because a demo deletes the
// crawl in its directory.
func onlyDemo(dir string) error {
	there, err := crawldir.HoldsCrawl(nil, dir)
	if err != nil || !there {
		return err // the agent refuses directories with other files
	}
	b, err := os.ReadFile(filepath.Join(dir, "crawl.yaml"))
	if err != nil {
		return unreadable("--dir "+dir, dir, err, "choose another directory")
	}
	if !strings.HasPrefix(string(b), demoMark) {
		return bad("%s holds a crawl that is not a demo, and a demo would delete it; choose another --dir", dir)
	}
	return nil
}

// Run serves the web, crawls it, and prints where the results are.
func (c *DemoCmd) Run(out io.Writer) error {
	if c.Delay < 0 {
		return bad("--delay %s is negative; give a duration such as 500ms, or 0", c.Delay)
	}
	if c.Dir == "" {
		c.Dir = "./orbweaver-demo"
		if c.Partition != "" {
			c.Dir += "-" + c.Partition
		}
	}
	if err := c.onlyDemos(); err != nil {
		return err
	}
	web, err := testweb.New(testweb.Config{
		Sites: webs.Demo(c.Delay), Gzip: true, Promise: testweb.Promise{HostDelay: c.Delay, CrawlDelay: true}})
	if err != nil {
		return err
	}
	stop := web.Start()
	defer stop()
	if !c.Quiet && !c.JSON {
		fmt.Fprintf(out, "Serving a web of %d hosts on this machine, and crawling it from %s\n\n",
			len(web.Hosts()), webs.DemoSeed())
	}
	cfg := c.config(web)
	if c.Partition != "" {
		return c.together(cfg, web, out)
	}
	if err := runCrawl(cfg, APIFlags{}, &display{out: out, json: c.JSON, quiet: c.Quiet}); err != nil {
		return err
	}
	if c.Quiet || c.JSON {
		return nil
	}
	c.observed(out, web)
	c.next(out, c.Dir)
	return nil
}

// config returns the configuration of an agent that crawls a web alone.
func (c *DemoCmd) config(web *testweb.Web) node.Config {
	cfg := node.Config{
		Dir: c.Dir, Seeds: []string{webs.DemoSeed()}, Overwrite: true, Contact: "https://github.com/orbweaver/orbweaver",
		Scope: scope.Config{Scope: scope.Any},
	}
	cfg.Crawl.Requisites, cfg.Crawl.Sitemaps.Follow = true, true
	cfg.Crawl.RetryWait = time.Second
	cfg.Frontier.HostDelay, cfg.Frontier.SlowBase = c.Delay, time.Second
	if c.Delay == 0 {
		cfg.Frontier.HostDelay = -1
	}
	cfg.Robots.RetryWait = time.Second
	cfg.DNS.Servers, cfg.DNS.HostsFile = []string{web.DNSAddr()}, "-"
	cfg.Fetch.ConnectTo, cfg.Fetch.AllowPrivate = web.ConnectTo(), true
	cfg.Fetch.CA = certPool(web.CAPEM())
	cfg.Archive.Prefix, cfg.Archive.Agent = "demo", "demo"
	cfg.Effective = []byte(demoMark + "; run \"orbweaver demo\" for another.\n{}\n")
	return cfg
}

// observed prints what the web says of the crawl.
func (c *DemoCmd) observed(out io.Writer, web *testweb.Web) {
	r := web.Report()
	violations := int64(0)
	for _, n := range r.ViolationCount {
		violations += n
	}
	again := "twice"
	if c.Partition == membership.PartitionTopic {
		again = "to another agent before"
	}
	fmt.Fprintf(out, "\nThe web observed %d requests, %d pages sent, %d of them %s, %d politeness violations.\n",
		r.Requests, r.Pages, r.Repeated, again, violations)
}

// next prints what to do with the results in a crawl directory.
func (c *DemoCmd) next(out io.Writer, dir string) {
	at := func(elem ...string) string { return filepath.Join(append([]string{dir}, elem...)...) }
	fmt.Fprintf(out, `
Browse it      %[5]s replay %[1]s
The archive    %[3]s
               %[5]s warc ls %[1]s
               %[5]s warc verify %[1]s
One page       %[5]s warc extract --url %[2]s --payload %[1]s
The log        %[4]s (one line per fetch; columns in docs/reference/files.md)
The reports    %[6]s
               summary.json, hosts.csv, status.csv, mime.csv, errors.csv
               %[5]s report %[1]s
Skipped        %[7]s, each URL with its reason

Your own first crawl:
               %[5]s crawl --dir first --contact you@example.org https://example.org/
`, dir, webs.DemoSeed(), at("archive"), at("logs", "crawl.log"), self(), at("reports"), at("reports", "skipped.jsonl"))
}

// self returns the command that runs this program from the current directory.
func self() string {
	exe, err := os.Executable()
	switch {
	case err == nil && strings.Contains(exe, "go-build"):
		return "go run ./cmd/orbweaver"
	case strings.Contains(os.Args[0], "/"):
		return os.Args[0]
	}
	return "orbweaver"
}
