package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/orbweaver/orbweaver/agent"
	"github.com/orbweaver/orbweaver/testweb"
	"github.com/orbweaver/orbweaver/testweb/demo"
)

// TestwebCmd is "testweb": a web on this machine to crawl, until it is interrupted.
type TestwebCmd struct {
	Folder     []string `placeholder:"HOST=DIR" sep:"none" help:"Serve the files in DIR as http(s)://HOST/; HOST/PREFIX=DIR serves them below a path. Repeatable."`
	DebianDocs bool     `help:"Serve Debian's documentation packages under the names of the sites where they live on the web."`
	Demo       bool     `help:"Serve the small web of the demo."`
	Hostile    bool     `help:"Serve hosts that do everything to hurt a crawler; begin at http://hostile.example/."`
	Raw        string   `placeholder:"HOST=DIR" help:"Serve each file NAME.http in DIR as it is, as the reply to /NAME."`
	Scheme     string   `enum:"both,http,https" default:"both" help:"Where the folders' pages live: with http or https the other one redirects."`
	Listing    bool     `help:"Show folders without an index as lists of links."`
	Gzip       bool     `help:"Compress text for clients that ask for it."`

	Address   []string      `placeholder:"HOST=IP" help:"Give a host this address of 127.0.0.0/8. Repeatable; hosts may share one."`
	Addresses int           `placeholder:"N" help:"Spread the hosts over N addresses. Default: one each."`
	HTTP      int           `name:"http-port" placeholder:"PORT" help:"Port for HTTP on every loopback address. Default: any free one."`
	HTTPS     int           `name:"https-port" placeholder:"PORT" help:"Port for HTTPS. Default: any free one."`
	DNSListen string        `placeholder:"HOST:PORT" default:"127.0.0.1:0" help:"Where the name server listens, on loopback."`
	Control   string        `placeholder:"HOST:PORT" default:"127.0.0.1:0" help:"Where GET /.testweb/report gives the truth, on loopback."`
	TTL       time.Duration `default:"60s" help:"Life of a DNS answer."`

	CAOut      string        `placeholder:"FILE" help:"Write the certificate of the web's own authority here, for crawl --ca."`
	Log        string        `placeholder:"FILE" help:"Write a line for every request: began, ended, connection, method, status, bytes, end, URL."`
	ReportOut  string        `placeholder:"FILE" help:"Write the report here at the end."`
	Delay      time.Duration `name:"promise-delay" help:"The delay that the crawl promises to keep per host; a shorter one is reported."`
	IPDelay    time.Duration `name:"promise-ip-delay" help:"The same for an address."`
	SiteDelay  time.Duration `name:"promise-site-delay" help:"The same for a registered domain."`
	CrawlDelay bool          `name:"promise-crawl-delay" help:"Crawl-delay in robots.txt counts as promised, too."`
	Agent      string        `default:"orbweaver" help:"The product token that robots.txt is judged by."`
	TimeLimit  time.Duration `placeholder:"D" help:"End after this time. Default: when interrupted."`
	AsJSON     bool          `name:"json" help:"Print the addresses as one line of JSON, for scripts."`
}

// Run serves until SIGINT, SIGTERM or the time limit.
func (c *TestwebCmd) Run(out io.Writer) error {
	cfg, seeds, err := c.config()
	if err != nil {
		return err
	}
	if c.Log != "" {
		f, err := os.Create(c.Log)
		if err != nil {
			return fmt.Errorf("log: %w", err)
		}
		defer f.Close()
		b := bufio.NewWriter(f)
		defer b.Flush()
		cfg.Log = b
	}
	w, err := testweb.New(cfg)
	if err != nil {
		return &agent.ConfigError{Text: "testweb: " + err.Error()}
	}
	defer w.Close()
	if c.CAOut != "" {
		if err := os.WriteFile(c.CAOut, w.CAPEM(), 0o644); err != nil {
			return fmt.Errorf("ca-out: %w", err)
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if c.TimeLimit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.TimeLimit)
		defer cancel()
	}
	if err := c.announce(out, w, seeds); err != nil {
		return err
	}
	if err := w.Run(ctx); err != nil {
		return fmt.Errorf("testweb: %w", err)
	}
	r := w.Report()
	if c.ReportOut != "" {
		b, err := json.MarshalIndent(r, "", "  ")
		if err == nil {
			err = os.WriteFile(c.ReportOut, append(b, '\n'), 0o644)
		}
		if err != nil {
			return fmt.Errorf("report-out: %w", err)
		}
	}
	if !c.AsJSON {
		fmt.Fprintf(out, "%d requests, %d pages, %d URLs answered more than once, violations: %v\n", r.Requests, r.Pages, len(r.Twice), r.ViolationCount)
	}
	return nil
}

// config is the web that the flags ask for, and where to begin in it.
func (c *TestwebCmd) config() (cfg testweb.Config, seeds []string, err error) {
	cfg = testweb.Config{HTTPPort: c.HTTP, HTTPSPort: c.HTTPS, DNS: c.DNSListen, Control: c.Control, TTL: c.TTL, Addresses: c.Addresses, Gzip: c.Gzip,
		Promise: testweb.Promise{HostDelay: c.Delay, AddrDelay: c.IPDelay, SiteDelay: c.SiteDelay, CrawlDelay: c.CrawlDelay, Agent: c.Agent}}
	bad := func(format string, args ...any) error { return &agent.ConfigError{Text: fmt.Sprintf(format, args...)} }
	if c.DebianDocs {
		cfg.Folders = testweb.DebianDocs()
	}
	for _, s := range c.Folder {
		f, err := testweb.ParseFolder(s)
		if err != nil {
			return cfg, nil, bad("%v", err)
		}
		f.Listing = c.Listing
		cfg.Folders = append(cfg.Folders, f)
	}
	for i := range cfg.Folders {
		f := &cfg.Folders[i]
		if c.Scheme != "both" {
			f.Scheme = c.Scheme
		}
		if u := f.Seed(); u != "" {
			seeds = append(seeds, u)
		}
	}
	if c.Demo {
		cfg.Sites = append(cfg.Sites, demo.Sites()...)
		seeds = append(seeds, demo.Seeds()...)
	}
	if c.Hostile {
		cfg.Sites = append(cfg.Sites, testweb.HostileSites()...)
		seeds = append(seeds, "http://"+testweb.HostileHost+"/")
	}
	if c.Raw != "" {
		host, dir, ok := strings.Cut(c.Raw, "=")
		if !ok {
			return cfg, nil, bad("raw %q: not HOST=DIR", c.Raw)
		}
		replies, _, err := testweb.RawReplies(dir)
		if err != nil {
			return cfg, nil, bad("raw: %v", err)
		}
		cfg.Sites = append(cfg.Sites, testweb.Site{Host: host, Raw: replies})
		seeds = append(seeds, "http://"+host+"/")
	}
	if len(seeds) == 0 {
		return cfg, nil, bad("nothing to serve: name a --folder, --debian-docs, --demo, --hostile or --raw")
	}
	return cfg, seeds, c.addresses(&cfg)
}

// addresses gives hosts the addresses of the --address flags.
func (c *TestwebCmd) addresses(cfg *testweb.Config) error {
	for _, a := range c.Address {
		host, ip, ok := strings.Cut(a, "=")
		if !ok || net.ParseIP(ip) == nil {
			return &agent.ConfigError{Text: fmt.Sprintf("address %q: not HOST=IP", a)}
		}
		found := false
		for i := range cfg.Sites {
			if strings.EqualFold(cfg.Sites[i].Host, host) {
				cfg.Sites[i].Addr, found = ip, true
			}
		}
		if found {
			continue
		}
		site := testweb.Site{Host: host, Addr: ip}
		for _, f := range cfg.Folders {
			if strings.EqualFold(f.Host, host) {
				site.Scheme = f.Scheme
			}
		}
		cfg.Sites = append(cfg.Sites, site)
	}
	return nil
}

// announce says where everything is, and how to crawl it.
func (c *TestwebCmd) announce(out io.Writer, w *testweb.Web, seeds []string) error {
	if c.AsJSON {
		return json.NewEncoder(out).Encode(map[string]any{"http": w.HTTPAddr(), "https": w.HTTPSAddr(), "dns": w.DNSAddr(),
			"control": w.ControlAddr(), "ca": c.CAOut, "connect_to": w.ConnectTo(), "seeds": seeds})
	}
	fmt.Fprintf(out, "hosts    %d\nhttp     %s\nhttps    %s\ndns      %s\nreport   http://%s/.testweb/report\n",
		len(w.Hosts()), w.HTTPAddr(), w.HTTPSAddr(), w.DNSAddr(), w.ControlAddr())
	ca := " --insecure" // without --ca-out nobody can know the authority
	if c.CAOut != "" {
		name, err := filepath.Abs(c.CAOut)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "ca       %s\n", name)
		ca = " --ca " + name
	}
	_, err := fmt.Fprintf(out, "\norbweaver crawl --contact you@example.org --allow-private --dns %s --connect-to %s%s %s\n\n",
		w.DNSAddr(), strings.Join(w.ConnectTo(), " --connect-to "), ca, strings.Join(seeds, " "))
	return err
}
