package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"github.com/goccy/go-yaml"
	"golang.org/x/term"

	"github.com/orbweaver/orbweaver/admin"
	"github.com/orbweaver/orbweaver/agent"
	"github.com/orbweaver/orbweaver/crawl"
	"github.com/orbweaver/orbweaver/disk"
	"github.com/orbweaver/orbweaver/scope"
)

const defaultDir = "./crawl"

// CrawlCmd is "crawl". Its flags are also the keys of the YAML file.
type CrawlCmd struct {
	Seed []string `arg:"" optional:"" name:"seed" help:"Where to begin: URLs."`

	Seeds     string `help:"File of seeds, one a line ('#' begins a comment); - is standard input." placeholder:"FILE" group:"Where"`
	Dir       string `help:"Crawl directory." default:"./crawl" placeholder:"DIR" group:"Where"`
	Config    string `help:"YAML file of flags." placeholder:"FILE" group:"Where"`
	Resume    bool   `help:"Go on with the crawl in --dir, with the flags it was begun with; those given now win." group:"Where"`
	Overwrite bool   `help:"Delete the crawl in --dir and begin anew." group:"Where"`

	Unblock []string `help:"With --resume: crawl these hosts again, which \"orbweaver ctl block\" blocked." placeholder:"HOST" group:"Where"`

	Scope         scope.Kind    `help:"How far from the seeds: page, prefix, host, domain or any." default:"host" placeholder:"KIND" group:"What"`
	Include       []string      `help:"Crawl only URLs that one of these regular expressions matches." placeholder:"RE" sep:"none" group:"What"`
	Exclude       []string      `help:"Never crawl URLs that one of these regular expressions matches." placeholder:"RE" sep:"none" group:"What"`
	Depth         int           `help:"Follow at most N links from a seed; 0 is the seeds alone, -1 no limit." default:"-1" placeholder:"N" group:"What"`
	PageLimit     int64         `help:"Stop after N pages (2xx responses), all runs together." placeholder:"N" group:"What"`
	HostPageLimit int64         `help:"At most N pages of each host." placeholder:"N" group:"What"`
	SizeLimit     byteSize      `help:"Stop after so many bytes received, such as 500MB, all runs together." placeholder:"BYTES" group:"What"`
	TimeLimit     time.Duration `help:"Stop this run after a time such as 90s, 2h30m." placeholder:"D" group:"What"`
	Requisites    bool          `help:"Also fetch what pages need to be shown: images, styles, scripts." group:"What"`
	Sitemaps      bool          `help:"Also follow the sitemaps that robots.txt names." group:"What"`

	StrategyFlags `embed:""`

	Delay       time.Duration  `help:"Quiet time between a response and the next request to its host; Crawl-delay may raise it." default:"2s" placeholder:"D" group:"How politely"`
	IPDelay     *time.Duration `name:"ip-delay" help:"The same for an IP address, whatever hosts it serves (default: a quarter of --delay)." placeholder:"D" group:"How politely"`
	SiteDelay   *time.Duration `help:"The same for a registered domain (default: a quarter of --delay)." placeholder:"D" group:"How politely"`
	SlowDown    time.Duration  `help:"First pause of a host that answers 429 or 503; doubles each time." default:"60s" placeholder:"D" group:"How politely"`
	Retries     int            `help:"Visit a URL again up to N times when it fails for a passing reason." default:"4" placeholder:"N" group:"How politely"`
	RetryWait   time.Duration  `help:"Wait before the first retry; doubles each time." default:"30s" placeholder:"D" group:"How politely"`
	Rate        float64        `help:"At most N visits a second, all hosts together." placeholder:"N" group:"How politely"`
	UserAgent   string         `help:"Send this User-Agent header; the default names Orbweaver and the contact. The robots.txt groups that the crawl obeys are those of the product named in it: mybot in \"mybot/1.0\" and in \"Mozilla/5.0 (compatible; mybot/1.0)\"." placeholder:"S" group:"How politely"`
	RobotsAgent string         `help:"Obey the robots.txt groups and robots meta tags of this product name instead of the one in --user-agent." placeholder:"NAME" group:"How politely"`
	Contact     string         `help:"URL or mail address at which the crawl's operator can be reached. Needed for all but loopback." placeholder:"URL|MAIL" group:"How politely"`

	Workers      int           `help:"Visits at once. A visit that has waited a second for a slow server no longer counts." default:"64" placeholder:"N" group:"With what"`
	Memory       byteSize      `help:"Memory of the process, at least ${leastmemory}: caches and queues take shares of it, the rest of them is on disk." default:"1GiB" placeholder:"BYTES" group:"With what"`
	DNS          []string      `name:"dns" help:"Name servers to ask, addresses with or without a port (default: those of /etc/resolv.conf)." placeholder:"ADDR" group:"With what"`
	ConnectTo    []string      `help:"Requests to HOST:PORT go to ADDR:PORT instead, as curl's; empty parts match all." placeholder:"HOST:PORT:ADDR:PORT" group:"With what"`
	CA           string        `name:"ca" help:"PEM file of certificate authorities to trust besides the system's." placeholder:"FILE" group:"With what"`
	Insecure     bool          `help:"Accept every certificate." group:"With what"`
	Proxy        string        `help:"Fetch through http://, socks5:// or socks5h:// HOST:PORT. With http and socks5h the proxy looks names up, so a public name may lead to a private address behind it; private names are refused without --allow-private. Needs --contact." placeholder:"URL" group:"With what"`
	AllowPrivate bool          `help:"Also connect to private, loopback and link-local addresses." group:"With what"`
	MaxBody      byteSize      `help:"Cut bodies (marked as truncated) at so many bytes." default:"256MiB" placeholder:"BYTES" group:"With what"`
	MaxTime      time.Duration `help:"Cut a fetch, connecting included, after this time. What has come is kept and marked as truncated." default:"5m" placeholder:"D" group:"With what"`
	MinRate      byteSize      `help:"Cut an answer that is slower than so many bytes a second, on average, from 30 s after its first byte on. What has come is kept and marked as truncated; 0 cuts none." default:"100" placeholder:"BYTES" group:"With what"`
	Timeout      time.Duration `help:"Give a server up that is silent for so long, before its answer or within it." default:"30s" placeholder:"D" group:"With what"`
	DialTimeout  time.Duration `help:"Give a server up that is not connected after so long; the TLS handshake has the same again." default:"15s" placeholder:"D" group:"With what"`

	WARCPrefix string   `name:"warc-prefix" help:"Beginning of the archive files' names." default:"orbweaver" placeholder:"S" group:"Into what"`
	WARCSize   byteSize `name:"warc-size" help:"Begin a new archive file at so many bytes." default:"1GB" placeholder:"BYTES" group:"Into what"`

	Name      string   `help:"Name of this agent; also the end of the archive files' names." default:"agent" placeholder:"S" group:"As which agent"`
	Capacity  float64  `help:"Weight of this agent among others; alone it has no effect." default:"1" placeholder:"X" group:"As which agent"`
	Partition string   `help:"How agents share out the work: ring, hosts alone; hash, contents as well: one agent judges which page had one first, the others with it are archived as revisits and their links not followed; sites or topic, not among several agents yet. Alone, each of them answers: this one." enum:"ring,sites,topic,hash" default:"ring" placeholder:"KIND" group:"As which agent"`
	Replicas  int      `help:"With --listen: agents that keep what is known of a host, 1 or 2; with 2, the default, the loss of any one with its disk loses no URL." placeholder:"N" group:"As which agent"`
	Listen    string   `help:"Crawl with other agents, which reach this one at this IP address and port; other than loopback needs --keys." placeholder:"ADDR" group:"As which agent"`
	Join      []string `help:"Such addresses of other agents, of which one has to answer; without it, or with the own one first, this agent begins the cluster." placeholder:"ADDR" group:"As which agent"`
	Keys      string   `help:"Directory of this agent's keys, made by \"orbweaver cluster keys\"." placeholder:"DIR" group:"As which agent"`
	Recovery  int      `help:"With --listen: agents that are asked what they know of a host that becomes this one's." default:"2" placeholder:"N" group:"As which agent"`
	Agents    int      `help:"With --listen: begin when N agents are there." default:"1" placeholder:"N" group:"As which agent"`

	API   string `name:"api" help:"Answer \"orbweaver ctl\" and /metrics on this loopback address, such as 127.0.0.1:7480." placeholder:"ADDR" group:"Seen by whom"`
	JSON  bool   `name:"json" help:"Progress and summary as JSON lines." group:"Seen by whom"`
	Quiet bool   `help:"No progress, no summary." group:"Seen by whom"`

	Profiles `embed:"" group:"Seen by whom"`
}

// Help teaches by examples.
func (CrawlCmd) Help() string {
	return `One site, politely (2 s between requests to a host, robots.txt obeyed):

  orbweaver crawl --contact you@example.org https://example.org/

A list of sites with what their pages need, at most 10,000 pages of each:

  orbweaver crawl --contact you@example.org --seeds sites.txt --requisites --host-page-limit 10000

Watch a site: each page again as often as it has been seen to change, but never
within the hour; what has not changed is not transferred, and kept as a revisit
record:

  orbweaver crawl --contact you@example.org --strategy recrawl --recrawl-min 1h https://example.org/

Ctrl-C waits for the requests under way and saves; a second Ctrl-C exits at once.
In both cases, and after a crash, this goes on:

  orbweaver crawl --resume

BYTES is a number with a unit or without: 500MB (millions), 2GiB (powers of
1024), 1048576. D is a duration: 500ms, 90s, 2h30m. RE is a regular expression
in Go's syntax and matches anywhere in the URL. Flags for lists may be repeated.

The same in a file, crawl.yaml say, with --config crawl.yaml:

  contact: you@example.org
  page-limit: 10000
  exclude: ['\.(zip|iso)$', '/calendar/']

Exit codes: 0 done, 3 disk full, 4 bad configuration, 11 stopped by a signal,
12 page limit, 13 forced, 14 size limit, 15 time limit, 16 nothing could be
fetched, 17 fatal, 1 other.`
}

// Run crawls.
func (c *CrawlCmd) Run(k *kong.Context, out io.Writer, errs errorOutput, told *settings) (err error) {
	if !c.JSON && !c.Quiet {
		for _, name := range told.strange {
			fmt.Fprintf(errs, "orbweaver: %s in the environment is no flag; it changes nothing\n", name)
		}
		if c.Seeds == "-" && term.IsTerminal(int(os.Stdin.Fd())) {
			fmt.Fprintln(errs, "Seeds, one a line; Ctrl-D ends them:")
		}
	}
	cfg, err := c.config()
	if err != nil {
		return err
	}
	if err := c.foreign(k, told, filepath.Join(c.Dir, "crawl.yaml")); err != nil {
		return err
	}
	if cfg.Effective, err = c.effective(k); err != nil {
		return err
	}
	end, err := c.begin()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	name := ""
	if cfg.Cluster != nil {
		name = cfg.Cluster.Name
	}
	return runCrawl(cfg, c.API, &display{
		agent: name, out: out, json: c.JSON, quiet: c.Quiet, resumable: true,
		pageLimit: c.PageLimit, sizeLimit: int64(c.SizeLimit), timeLimit: c.TimeLimit,
	})
}

// leastMemory is agent.LeastMemory as people write it.
var leastMemory = fmt.Sprintf("%dMiB", agent.LeastMemory>>20)

// config turns flags into the rooms' configurations.
func (c *CrawlCmd) config() (agent.Config, error) {
	cfg := agent.Config{
		Dir: c.Dir, Seeds: c.Seed, Resume: c.Resume, Overwrite: c.Overwrite, Unblock: c.Unblock,
		Contact: c.Contact, UserAgent: c.UserAgent, RobotsAgent: c.RobotsAgent, MemoryBytes: int64(c.Memory),
	}
	bad := func(format string, args ...any) (agent.Config, error) {
		return cfg, &agent.ConfigError{Text: fmt.Sprintf(format, args...)}
	}
	if c.API != "" {
		if err := admin.CheckAddr(c.API); err != nil {
			return bad("--%v", err)
		}
	}
	if c.Seeds != "" {
		more, err := readSeeds(c.Seeds)
		if err != nil {
			return cfg, err
		}
		if cfg.Seeds = append(cfg.Seeds, more...); len(cfg.Seeds) == 0 && !c.Resume {
			return bad("no seeds: %s has none", c.Seeds)
		}
	}
	switch {
	case c.Workers < 1 || c.Workers > 10000:
		return bad("--workers %d: from 1 to 10000", c.Workers)
	case c.Delay < 0:
		return bad("--delay %s is negative; give a duration such as 500ms, or 0", c.Delay)
	case c.SlowDown <= 0 || c.RetryWait <= 0:
		return bad("--slow-down %s and --retry-wait %s: above 0, such as 60s; --retries 0 never retries", c.SlowDown, c.RetryWait)
	case c.MaxTime <= 0 || c.Timeout <= 0 || c.DialTimeout <= 0 || c.MaxBody <= 0:
		return bad("--max-time, --timeout, --dial-timeout and --max-body have to be above 0")
	case c.Retries < 0:
		return bad("--retries %d is negative; 0 never retries", c.Retries)
	case c.Rate < 0:
		return bad("--rate %g is negative; 0 is no limit", c.Rate)
	case c.Depth < -1:
		return bad("--depth %d: 0 is the seeds alone, -1 no limit", c.Depth)
	case c.PageLimit < 0 || c.HostPageLimit < 0:
		return bad("a page limit is negative; 0 is no limit")
	case !(c.Capacity > 0 && c.Capacity <= 1000): // not a number neither
		return bad("--capacity %g: a weight above 0, at most 1000", c.Capacity)
	case c.Replicas < 0 || c.Replicas > 2:
		return bad("--replicas %d: 1 or 2", c.Replicas)
	case c.Replicas == 2 && c.Listen == "":
		return bad("--replicas 2 is for an agent among others, which needs --listen")
	case c.Recovery < 1:
		return bad("--recovery %d: from 1", c.Recovery)
	case c.Agents < 1:
		return bad("--agents %d: from 1", c.Agents)
	case c.Listen == "" && (len(c.Join) > 0 || c.Keys != "" || c.Agents > 1):
		return bad("--join, --keys and --agents are for an agent among others, which needs --listen, the address at which they reach it")
	case c.Listen != "" && c.Partition != agent.PartitionRing && c.Partition != agent.PartitionHash:
		return bad("--partition %s: among several agents this version knows ring and hash", c.Partition)
	case c.Memory < agent.LeastMemory:
		return bad("--memory %d: an agent needs at least %s", int64(c.Memory), leastMemory)
	}
	var err error
	if cfg.Strategy, err = c.strategy(c.Depth); err != nil {
		return cfg, err
	}
	if c.Listen != "" {
		cfg.Cluster = &agent.Cluster{Name: c.Name, Capacity: c.Capacity, Listen: c.Listen, Join: c.Join, Keys: c.Keys, Agents: c.Agents, Replicas: 2, Recovery: c.Recovery, Partition: c.Partition}
		if c.Replicas > 0 {
			cfg.Cluster.Replicas = c.Replicas
		}
	}
	cc := &cfg.Crawl
	cc.Workers, cc.PageLimit, cc.HostPageLimit = c.Workers, c.PageLimit, c.HostPageLimit
	cc.SizeLimit, cc.TimeLimit, cc.Rate = int64(c.SizeLimit), c.TimeLimit, c.Rate
	cc.Requisites, cc.Sitemaps = c.Requisites, c.Sitemaps
	cc.RetryWait = c.RetryWait
	if cc.Retries = c.Retries; c.Retries == 0 {
		cc.Retries = -1
	}
	cfg.Scope = scope.Config{Scope: c.Scope, Include: c.Include, Exclude: c.Exclude}
	if c.Depth >= 0 {
		cfg.Scope.Depth = &c.Depth
	}
	fr := &cfg.Frontier
	if fr.HostDelay = c.Delay; c.Delay == 0 {
		fr.HostDelay = -1 // none
	}
	fr.IPDelay, fr.SiteDelay, fr.SlowBase = c.Delay/4, c.Delay/4, c.SlowDown
	if c.IPDelay != nil {
		fr.IPDelay = *c.IPDelay
	}
	if c.SiteDelay != nil {
		fr.SiteDelay = *c.SiteDelay
	}
	cfg.Robots.RetryWait = c.RetryWait
	cfg.DNS.Servers = c.DNS
	f := &cfg.Fetch
	f.ConnectTo, f.CAFile, f.Insecure, f.AllowPrivate = c.ConnectTo, c.CA, c.Insecure, c.AllowPrivate
	f.MaxBody, f.TotalTimeout = int64(c.MaxBody), c.MaxTime
	if f.MinRate = int64(c.MinRate); f.MinRate == 0 {
		f.MinRate = -1 // none
	}
	f.FirstByteTimeout, f.IdleTimeout = c.Timeout, c.Timeout
	f.ConnectTimeout, f.TLSTimeout = c.DialTimeout, c.DialTimeout
	if c.Proxy != "" {
		u, err := url.Parse(c.Proxy)
		if err != nil || u.Host == "" {
			return bad("--proxy %q: not a URL such as http://127.0.0.1:3128 or socks5://127.0.0.1:1080", c.Proxy)
		}
		f.Proxy = u
	}
	cfg.Archive.Prefix, cfg.Archive.Agent, cfg.Archive.MaxBytes = c.WARCPrefix, c.Name, int64(c.WARCSize)
	return cfg, nil
}

// effective is crawl.yaml: every flag in force but those that belong to one
// run.
func (c *CrawlCmd) effective(k *kong.Context) ([]byte, error) {
	var m yaml.MapSlice
	for _, f := range k.Selected().Flags {
		switch f.Name {
		case "help", "config", "dir", "resume", "overwrite", "unblock", "json", "quiet", "seeds", "time-limit", "cpuprofile", "memprofile":
			continue
		}
		v := f.Target.Interface()
		switch x := v.(type) {
		case time.Duration:
			v = x.String()
		case *time.Duration:
			if x == nil {
				continue
			}
			v = x.String()
		}
		if f.Target.IsZero() && f.Default == "" {
			continue // as if it had not been given
		}
		m = append(m, yaml.MapItem{Key: f.Name, Value: v})
	}
	b, err := yaml.Marshal(m)
	return append([]byte("# The configuration in force; \"orbweaver crawl --resume\" reads it.\n"), b...), err
}

// seedLine is what a line of a seed file says: without white space, and without
// a comment, which begins with '#' at the line's start or behind white space.
func seedLine(s string) string {
	for i := 0; i < len(s); i++ {
		if s[i] == '#' && (i == 0 || s[i-1] == ' ' || s[i-1] == '\t') {
			s = s[:i]
		}
	}
	return strings.TrimSpace(s)
}

// readSeeds reads a file of seeds; - is standard input.
func readSeeds(name string) ([]string, error) {
	var r io.Reader = os.Stdin
	if name == "-" {
		name = "standard input"
	} else {
		f, err := os.Open(name)
		if err != nil {
			return nil, &agent.ConfigError{Text: "seeds: " + err.Error()}
		}
		defer f.Close()
		r = f
	}
	var seeds []string
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, 1<<20)
	for n := 1; sc.Scan(); n++ {
		s := seedLine(sc.Text())
		if s == "" {
			continue
		}
		if _, err := agent.ParseSeed(s); err != nil {
			return nil, &agent.ConfigError{Text: fmt.Sprintf("%s, line %d: %v", name, n, err)}
		}
		seeds = append(seeds, s)
	}
	if err := sc.Err(); err != nil {
		return nil, &agent.ConfigError{Text: fmt.Sprintf("seeds %s: %v", name, err)}
	}
	return seeds, nil
}

// runCrawl opens an agent, shows it at work and says how it ended.
func runCrawl(cfg agent.Config, api string, d *display) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	d.open(cancel)
	// Signals count from here on: opening a large crawl takes time, and a stop
	// during it is a stop like any other.
	unwatch := watchSignals(d, cancel)
	defer unwatch()
	// The port comes first. If it is in use, the directory stays as it is.
	var ln net.Listener
	if api != "" {
		var err error
		if ln, err = admin.Reserve(api); err != nil {
			return &agent.ConfigError{Text: "--" + err.Error()}
		}
	}
	cfg.Note = d.note
	a, err := agent.Open(cfg)
	if err != nil {
		if ln != nil {
			err = errors.Join(err, ln.Close())
		}
		return err
	}
	if ln != nil {
		if err := a.Serve(ln); err != nil {
			return errors.Join(err, a.Close())
		}
	}
	stopShow := d.show(a)
	res, err := a.Run(ctx)
	stopShow()
	unwatch()
	if cerr := a.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		if _, setting := errors.AsType[*agent.ConfigError](err); setting || disk.IsFull(err) {
			return err
		}
		return &exitError{exitFatal, err.Error() + "\nNothing accepted is lost; go on with --resume when it is mended."}
	}
	if err := d.summary(cfg.Dir, res); err != nil && !errors.Is(err, syscall.EPIPE) {
		return err
	}
	if res.FailedCount > 0 {
		return &exitError{exitNothing, nothingFetched(cfg.Dir, cfg.Contact != "", res)}
	}
	switch res.Stop {
	case crawl.Signal:
		return &exitError{code: exitSignal}
	case crawl.PageLimit:
		return &exitError{code: exitPageLimit}
	case crawl.SizeLimit:
		return &exitError{code: exitSizeLimit}
	case crawl.TimeLimit:
		return &exitError{code: exitTimeLimit}
	}
	return nil
}

// watchSignals stops a crawl at the first SIGINT, SIGTERM or SIGHUP and the
// process at the second, until unwatch is called. A SIGHUP that was ignored when
// the program started stays ignored, as nohup wants it.
func watchSignals(d *display, stop func()) (unwatch func()) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(signals, syscall.SIGHUP)
	}
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-signals:
			d.note("stopping: waiting for the requests under way, then saving; a second signal exits at once")
			stop()
		case <-over:
			return
		}
		select {
		case <-signals:
			d.note("stopped at once; --resume goes on")
			os.Exit(exitForced) // the journal makes it safe
		case <-over:
		}
	}()
	return sync.OnceFunc(func() {
		signal.Stop(signals)
		close(over)
		<-done
	})
}
