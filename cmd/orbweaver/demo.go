package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/testweb"
	"github.com/orbweaver/orbweaver/internal/testweb/demo"
	"github.com/orbweaver/orbweaver/internal/web/scope"
)

// DemoCmd implements "demo".
type DemoCmd struct {
	Dir   string        `short:"o" help:"${demo_dir}" default:"./orbweaver-demo" placeholder:"DIR"`
	Delay time.Duration `help:"${demo_delay}" default:"200ms" placeholder:"D"`
	JSON  bool          `name:"json" help:"${json}"`
	Quiet bool          `short:"q" help:"Print nothing."`
}

// Help explains what the demo does.
func (DemoCmd) Help() string {
	return `The program serves a small web on loopback, with its own name server, and crawls
it like any other web. The demo needs no network and takes less than a minute.`
}

// demoMark begins the crawl.yaml of a demo.
const demoMark = "# The demo's crawl"

// onlyDemo refuses a directory with a crawl that is not a demo, because a demo deletes the
// crawl in its directory.
func onlyDemo(dir string) error {
	there, err := node.HoldsCrawl(nil, dir)
	if err != nil || !there {
		return err // the agent refuses directories with other files
	}
	b, err := os.ReadFile(filepath.Join(dir, "crawl.yaml"))
	if err != nil {
		return bad("--dir %s: crawl.yaml: %v; choose another directory", dir, cause(err))
	}
	if !strings.HasPrefix(string(b), demoMark) {
		return &node.ConfigError{Text: fmt.Sprintf(
			"%s holds a crawl that is not a demo, and a demo would delete it; choose another --dir", dir)}
	}
	return nil
}

// Run serves the web, crawls it, and prints where the results are.
func (c *DemoCmd) Run(out io.Writer) error {
	if c.Delay < 0 {
		return bad("--delay %s is negative; give a duration such as 500ms, or 0", c.Delay)
	}
	if err := onlyDemo(c.Dir); err != nil {
		return err
	}
	web, err := testweb.New(testweb.Config{
		Sites: demo.Sites(), Gzip: true, Promise: testweb.Promise{HostDelay: c.Delay, CrawlDelay: true}})
	if err != nil {
		return err
	}
	stop := web.Start()
	defer stop()
	if !c.Quiet && !c.JSON {
		fmt.Fprintf(out, "Serving a web of %d hosts on this machine, and crawling it from %s\n\n",
			len(web.Hosts()), demo.Seeds()[0])
	}
	cfg := node.Config{
		Dir: c.Dir, Seeds: demo.Seeds(), Overwrite: true, Contact: "https://github.com/orbweaver/orbweaver",
		Scope: scope.Config{Scope: scope.Any},
	}
	cfg.Crawl.Requisites, cfg.Crawl.Sitemaps = true, true
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
	if err := runCrawl(cfg, "", &display{out: out, json: c.JSON, quiet: c.Quiet}); err != nil {
		return err
	}
	if c.Quiet || c.JSON {
		return nil
	}
	r := web.Report()
	violations := int64(0)
	for _, n := range r.ViolationCount {
		violations += n
	}
	at := func(elem ...string) string { return filepath.Join(append([]string{c.Dir}, elem...)...) }
	fmt.Fprintf(out, `
The web observed %[1]d requests, %[2]d pages sent, %[3]d of them twice, %[4]d politeness violations.

Browse it      %[9]s replay %[5]s
The archive    %[7]s
               %[9]s warc ls %[5]s
               %[9]s warc verify %[5]s
One page       %[9]s warc extract --url %[6]s --payload %[5]s
The log        %[8]s (one line per fetch; columns in docs/reference/files.md)
The reports    %[10]s
               summary.json, hosts.csv, status.csv, mime.csv, errors.csv
               %[9]s report %[5]s
Skipped        %[11]s, each URL with its reason

Your own first crawl:
               %[9]s crawl --dir first --contact you@example.org https://example.org/
`, r.Requests, r.Pages, r.Repeated, violations, c.Dir, demo.Seeds()[0],
		at("archive"), at("logs", "crawl.log"), self(), at("reports"), at("reports", "skipped.jsonl"))
	return nil
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
