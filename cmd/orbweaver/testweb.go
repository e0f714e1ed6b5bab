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
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/testweb"
	"github.com/orbweaver/orbweaver/internal/testweb/demo"
	"github.com/orbweaver/orbweaver/internal/testweb/gen"
	"github.com/orbweaver/orbweaver/internal/testweb/record"
)

// TestwebCmd is "testweb": a web on this machine to crawl, until it is interrupted.
type TestwebCmd struct {
	generateFlags
	Truth truthFlags `embed:""`
	recordFlags

	Folder     []string `placeholder:"HOST=DIR" sep:"none" help:"Serve the files in DIR as http(s)://HOST/; HOST/PREFIX=DIR serves them below a path. Repeatable." group:"Folders and small webs"`
	Scheme     string   `enum:"both,http,https" default:"both" help:"Where the folders' pages live: with http or https the other one redirects." group:"Folders and small webs"`
	Listing    bool     `help:"Show folders without an index as lists of links." group:"Folders and small webs"`
	Gzip       bool     `help:"Compress text for clients that ask for it." group:"Folders and small webs"`
	DebianDocs bool     `help:"Serve Debian's documentation packages under the names of the sites where they live on the web." group:"Folders and small webs"`
	Demo       bool     `help:"Serve the small web of the demo." group:"Folders and small webs"`
	Hostile    bool     `help:"Serve hosts that do everything to hurt a crawler; begin at http://hostile.example/." group:"Folders and small webs"`
	Dripping   int      `placeholder:"N" help:"${testweb_dripping}" group:"Folders and small webs"`
	Raw        string   `placeholder:"HOST=DIR" help:"Serve each file NAME.http in DIR as it is, as the reply to /NAME." group:"Folders and small webs"`

	shapeFlags
	Address   []string      `placeholder:"HOST=IP" help:"Give a host this address of 127.0.0.0/8. Repeatable; hosts may share one. Not for recorded and generated hosts." group:"Where"`
	Addresses int           `placeholder:"N" help:"Spread the hosts over N addresses (default: one each; those of a generated web share some, -1 gives them one each)." group:"Where"`
	HTTP      int           `name:"http-port" placeholder:"PORT" help:"Port for HTTP on every loopback address (default: any free one)." group:"Where"`
	HTTPS     int           `name:"https-port" placeholder:"PORT" help:"Port for HTTPS (default: any free one)." group:"Where"`
	DNSListen string        `placeholder:"HOST:PORT" default:"127.0.0.1:0" help:"Where the name server listens, on loopback." group:"Where"`
	Control   string        `placeholder:"HOST:PORT" default:"127.0.0.1:0" help:"Where GET /.testweb/report gives the truth, on loopback." group:"Where"`
	TTL       time.Duration `default:"60s" help:"Life of a DNS answer." group:"Where"`
	CAOut     string        `placeholder:"FILE" help:"Write the certificate of the web's own authority here, for crawl --ca." group:"Where"`
	SeedsOut  string        `placeholder:"FILE" help:"Write the URLs to begin with here, for crawl --seeds." group:"Where"`
	ConfigOut string        `placeholder:"FILE" help:"Write how to crawl this web here, for crawl --config." group:"Where"`
	TimeLimit time.Duration `placeholder:"D" help:"End after this time (default: when interrupted)." group:"Where"`

	Delay      time.Duration `name:"promise-delay" placeholder:"D" help:"The delay that the crawl promises to keep per host; a shorter one is reported." group:"What the crawl promises"`
	IPDelay    time.Duration `name:"promise-ip-delay" placeholder:"D" help:"The same for an address." group:"What the crawl promises"`
	SiteDelay  time.Duration `name:"promise-site-delay" placeholder:"D" help:"The same for a registered domain." group:"What the crawl promises"`
	CrawlDelay bool          `name:"promise-crawl-delay" help:"Crawl-delay in robots.txt counts as promised, too." group:"What the crawl promises"`
	Agent      string        `default:"orbweaver" help:"The product token that robots.txt is judged by." group:"What the crawl promises"`

	Log       string `placeholder:"FILE" help:"Write a line for every request: began, ended, connection, method, status, bytes, end, URL." group:"What is said"`
	ReportOut string `placeholder:"FILE" help:"Write the report here at the end, as JSON." group:"What is said"`
	AsJSON    bool   `name:"json" help:"Print the addresses as one line of JSON, for scripts." group:"What is said"`
}

// Help teaches by examples.
func (TestwebCmd) Help() string {
	return `The web answers on this machine only, and says how to crawl it. Ctrl-C ends it;
then it says what it saw: pages fetched twice or missed, delays and robots.txt
not kept.

A web made up from a seed, with and without what goes wrong on the real one:

  orbweaver testweb --generate --hosts 10000 --pages-mean 50
  orbweaver testweb --generate --wild --hosts 200 --seed 7 --report-out report.json

A web whose pages change, a day of it in ten seconds; its report says how fresh
the crawl's copies were:

  orbweaver testweb --generate --hosts 100 --changes --day 10s --report-out report.json

What was crawled once, as it was recorded, and files:

  orbweaver testweb --record crawl
  orbweaver testweb --record *.warc.gz
  orbweaver testweb --folder docs.example=./public --listing

SHARE is a part of a whole, 0.05 or 5%. BYTES is 500MB, 2GiB or 1048576. D is a
duration: 500ms, 90s, 2h30m. --wild is --generate with
` + wrapFlags(presets(gen.Wild(1, 1))) + `
each of which may be set otherwise; without it there is
` + wrapFlags(presets(gen.Plain(1, 1))) + `.`
}

// wrapFlags breaks a line of flags between them.
func wrapFlags(flags string) string {
	var b strings.Builder
	column := 0
	for f := range strings.SplitSeq(strings.TrimSpace(flags), " --") {
		f = "--" + strings.TrimPrefix(f, "--")
		if column > 0 && column+1+len(f) > 76 {
			b.WriteString("\n")
			column = 0
		}
		if column == 0 {
			b.WriteString("  ")
		} else {
			b.WriteString(" ")
		}
		b.WriteString(f)
		column += 1 + len(f)
	}
	return b.String()
}

// A served web is what is to be served and said about it.
type served struct {
	cfg      testweb.Config
	seeds    []string
	anywhere bool // the crawl has to leave the hosts of its seeds
	made     *gen.Web
	recorded *record.Archive
}

// Run serves until SIGINT, SIGTERM or the time limit.
func (c *TestwebCmd) Run(out io.Writer) error {
	s, err := c.config()
	if err != nil {
		return err
	}
	if s.recorded != nil {
		defer s.recorded.Close()
	}
	if c.Log != "" {
		f, err := os.Create(c.Log)
		if err != nil {
			return fmt.Errorf("log: %w", err)
		}
		defer f.Close()
		b := bufio.NewWriter(f)
		defer b.Flush()
		s.cfg.Log = b
	}
	w, err := testweb.New(s.cfg)
	if err != nil {
		return &node.ConfigError{Text: "testweb: " + err.Error()}
	}
	defer w.Close()
	if c.CAOut != "" {
		if err := os.WriteFile(c.CAOut, w.CAPEM(), 0o644); err != nil {
			return fmt.Errorf("ca-out: %w", err)
		}
	}
	if c.SeedsOut != "" {
		if err := os.WriteFile(c.SeedsOut, []byte(strings.Join(s.seeds, "\n")+"\n"), 0o644); err != nil {
			return fmt.Errorf("seeds-out: %w", err)
		}
	}
	if c.URLs != "" {
		if err := c.writeURLs(s.made); err != nil {
			return err
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if c.TimeLimit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.TimeLimit)
		defer cancel()
	}
	if err := c.announce(out, w, s); err != nil {
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
		fmt.Fprintln(out) // behind the terminal's ^C
		summarize(out, r)
	}
	return nil
}

// config is the web that the flags ask for, and where to begin in it.
func (c *TestwebCmd) config() (s served, err error) {
	s.cfg = testweb.Config{HTTPPort: c.HTTP, HTTPSPort: c.HTTPS, DNS: c.DNSListen, Control: c.Control, TTL: c.TTL,
		Addresses: max(c.Addresses, 0), Gzip: c.Gzip,
		Promise: testweb.Promise{HostDelay: c.Delay, AddrDelay: c.IPDelay, SiteDelay: c.SiteDelay,
			CrawlDelay: c.CrawlDelay, Agent: c.Agent}}
	bad := func(format string, args ...any) (served, error) {
		return s, &node.ConfigError{Text: fmt.Sprintf(format, args...)}
	}
	s.cfg.CloseEach = c.CloseEach
	if s.cfg.Shape, err = c.shape(); err != nil {
		return s, err
	}
	if c.DebianDocs {
		s.cfg.Folders = testweb.DebianDocs()
	}
	for _, text := range c.Folder {
		f, err := testweb.ParseFolder(text)
		if err != nil {
			return bad("%v", err)
		}
		f.Listing = c.Listing
		s.cfg.Folders = append(s.cfg.Folders, f)
	}
	for i := range s.cfg.Folders {
		f := &s.cfg.Folders[i]
		if c.Scheme != "both" {
			f.Scheme = c.Scheme
		}
		if u := f.Seed(); u != "" {
			s.seeds = append(s.seeds, u)
		}
	}
	if c.Demo {
		s.cfg.Sites = append(s.cfg.Sites, demo.Sites()...)
		s.seeds = append(s.seeds, demo.Seeds()...)
		s.anywhere = true
	}
	if c.Hostile {
		s.cfg.Sites = append(s.cfg.Sites, testweb.HostileSites()...)
		s.seeds = append(s.seeds, "http://"+testweb.HostileHost+"/")
	}
	if c.Dripping < 0 {
		return bad("--dripping %d is negative; 0 serves none", c.Dripping)
	}
	for _, site := range testweb.DrippingSites(c.Dripping, 8*time.Second) {
		s.cfg.Sites = append(s.cfg.Sites, site)
		s.seeds = append(s.seeds, "http://"+site.Host+"/")
	}
	if c.Raw != "" {
		host, dir, ok := strings.Cut(c.Raw, "=")
		if !ok {
			return bad("raw %q: not HOST=DIR", c.Raw)
		}
		replies, _, err := testweb.RawReplies(dir)
		if err != nil {
			return bad("raw: %v", err)
		}
		s.cfg.Sites = append(s.cfg.Sites, testweb.Site{Host: host, Raw: replies})
		s.seeds = append(s.seeds, "http://"+host+"/")
	}
	if err := c.origin(&s); err != nil {
		return s, err
	}
	if len(s.cfg.Sites) == 0 && len(s.cfg.Folders) == 0 && s.cfg.Origin == nil {
		return bad("nothing to serve: --generate makes a web up; --record, --folder, --debian-docs, " +
			"--demo, --hostile, --dripping and --raw serve what there is")
	}
	return s, c.addresses(&s.cfg)
}

// origin is the generated or the recorded web.
func (c *TestwebCmd) origin(s *served) error {
	bad := func(text string) error { return &node.ConfigError{Text: text} }
	switch flag := c.needless(); {
	case c.Generate && len(c.Record) > 0:
		return bad("--generate and --record exclude each other: run a testweb for each")
	case !c.Generate && flag != "":
		return bad("--" + flag + " is for a generated web: add --generate")
	case len(c.Record) == 0 && len(c.More) > 0:
		return bad(fmt.Sprintf("%q: files are for a recorded web, --record FILE ...", c.More[0]))
	case len(c.Record) == 0 && c.RecordAt != "":
		return bad("--record-at is for a recorded web: add --record FILE")
	}
	if c.Generate {
		w, err := c.web(c.Addresses)
		if err != nil {
			return err
		}
		bounds, seeds, err := c.Truth.bounds(w)
		if err != nil {
			return err
		}
		truth, err := c.Truth.truth(w, bounds)
		if err != nil {
			return err
		}
		s.cfg.Origin, s.made, s.seeds = w, w, append(s.seeds, seeds...)
		if w.Changing() {
			s.cfg.Changes = w
		}
		if truth != nil { // a nil in an interface is something
			s.cfg.Truth = truth
		}
		s.anywhere = s.anywhere || c.Truth.Scope == "any"
	}
	if len(c.Record) > 0 {
		a, err := c.open(c.Agent)
		if err != nil {
			return err
		}
		s.cfg.Origin, s.recorded, s.seeds, s.anywhere = a, a, append(s.seeds, a.Seeds()...), true
		if !c.Truth.Without {
			s.cfg.Truth = &lateTruth{find: a.Truth}
		}
	}
	return nil
}

// addresses gives hosts the addresses of the --address flags.
func (c *TestwebCmd) addresses(cfg *testweb.Config) error {
	for _, a := range c.Address {
		host, ip, ok := strings.Cut(a, "=")
		if !ok || net.ParseIP(ip) == nil {
			return &node.ConfigError{Text: fmt.Sprintf("address %q: not HOST=IP", a)}
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

// maxSaid is how many seeds are named in the command that is proposed.
const maxSaid = 10

// announce says where everything is, and how to crawl it.
func (c *TestwebCmd) announce(out io.Writer, w *testweb.Web, s served) error {
	hosts := int64(len(w.Hosts()))
	if s.cfg.Origin != nil {
		hosts += s.cfg.Origin.Hosts()
	}
	said := map[string]any{"http": w.HTTPAddr(), "https": w.HTTPSAddr(), "dns": w.DNSAddr(), "control": w.ControlAddr(),
		"ca": c.CAOut, "connect_to": w.ConnectTo(), "seeds": s.seeds, "hosts": hosts}
	flags, err := c.crawlFlags(w, s)
	if err != nil {
		return err
	}
	if c.ConfigOut != "" {
		if err := writeCrawlConfig(c.ConfigOut, flags); err != nil {
			return err
		}
	}
	line := []string{self(), "crawl"}
	for _, f := range flags {
		if line = append(line, "--"+f.name); f.value != "true" {
			line = append(line, f.value)
		}
	}
	said["crawl_flags"] = line[2:]
	if s.made != nil {
		said["pages"], said["pages_exact"] = c.countPages(s.made)
	}
	if s.recorded != nil {
		said["recorded"] = s.recorded.Summary()
	}
	if c.AsJSON {
		return json.NewEncoder(out).Encode(said)
	}
	switch {
	case s.made != nil:
		fmt.Fprintf(out, "hosts    %s\n", c.describe(s.made))
	case s.recorded != nil:
		describeRecord(out, s.recorded.Summary())
	default:
		fmt.Fprintf(out, "hosts    %d\n", hosts)
	}
	fmt.Fprintf(out, "http     %s\nhttps    %s\ndns      %s\nreport   http://%s/.testweb/report\n", w.HTTPAddr(),
		w.HTTPSAddr(), w.DNSAddr(), w.ControlAddr())
	for _, f := range []struct{ name, file string }{{"ca", c.CAOut}, {"seeds", c.SeedsOut}, {"urls", c.URLs},
		{"config", c.ConfigOut}} {
		if f.file != "" {
			fmt.Fprintf(out, "%-8s %s\n", f.name, f.file)
		}
	}
	if c.ConfigOut != "" {
		line = []string{self(), "crawl", "--config", c.ConfigOut}
	}
	if c.SeedsOut == "" {
		line = append(line, s.seeds[:min(len(s.seeds), maxSaid)]...)
	}
	if _, err = fmt.Fprintf(out, "\n%s\n\n", strings.Join(line, " ")); err == nil && c.SeedsOut == "" &&
		len(s.seeds) > maxSaid {
		_, err = fmt.Fprintf(out, "These are %d of %d seeds; --seeds-out writes all of them to a file.\n\n",
			maxSaid, len(s.seeds))
	}
	return err
}

// A flag is one of crawl's, with its value.
type flag struct{ name, value string }

// crawlFlags are those with which crawl finds the web, and the bounds that the
// truth is about.
func (c *TestwebCmd) crawlFlags(w *testweb.Web, s served) ([]flag, error) {
	flags := []flag{{"contact", "you@example.org"}, {"allow-private", "true"}, {"dns", w.DNSAddr()}}
	for _, to := range w.ConnectTo() {
		flags = append(flags, flag{"connect-to", to})
	}
	if c.CAOut != "" {
		name, err := filepath.Abs(c.CAOut)
		if err != nil {
			return nil, err
		}
		flags = append(flags, flag{"ca", name})
	} else { // without --ca-out nobody can know the authority
		flags = append(flags, flag{"insecure", "true"})
	}
	switch {
	case s.anywhere:
		flags = append(flags, flag{"scope", "any"})
	case s.made != nil:
		flags = append(flags, flag{"scope", c.Truth.Scope})
	}
	if s.made != nil && c.Truth.Depth >= 0 {
		flags = append(flags, flag{"depth", strconv.Itoa(c.Truth.Depth)})
	}
	if s.made != nil && c.Truth.Sitemaps {
		flags = append(flags, flag{"sitemaps", "true"})
	}
	if c.SeedsOut != "" {
		name, err := filepath.Abs(c.SeedsOut)
		if err != nil {
			return nil, err
		}
		flags = append(flags, flag{"seeds", name})
	}
	return flags, nil
}

// writeCrawlConfig writes flags as the YAML that crawl --config reads.
func writeCrawlConfig(name string, flags []flag) error {
	b := []byte("# How to crawl the web of \"orbweaver testweb\", as long as that runs.\n")
	lists := map[string][]string{}
	for _, f := range flags {
		lists[f.name] = append(lists[f.name], f.value)
	}
	for _, f := range flags {
		values := lists[f.name]
		delete(lists, f.name)
		switch {
		case len(values) == 0: // written with the first one
		case values[0] == "true":
			b = fmt.Appendf(b, "%s: true\n", f.name)
		case len(values) == 1:
			b = fmt.Appendf(b, "%s: %q\n", f.name, values[0])
		default:
			b = fmt.Appendf(b, "%s: [%s]\n", f.name, `"`+strings.Join(values, `", "`)+`"`)
		}
	}
	if err := os.WriteFile(name, b, 0o644); err != nil {
		return fmt.Errorf("config-out: %w", err)
	}
	return nil
}
