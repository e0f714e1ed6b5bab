package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
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

	Folder     []string `placeholder:"HOST=DIR" sep:"none" help:"${testweb_folder}" group:"Folders and small webs"`
	Scheme     string   `enum:"both,http,https" default:"both" help:"${testweb_scheme}" group:"Folders and small webs"`
	Listing    bool     `help:"${testweb_listing}" group:"Folders and small webs"`
	Gzip       bool     `help:"${testweb_gzip}" group:"Folders and small webs"`
	DebianDocs bool     `help:"${testweb_debian_docs}" group:"Folders and small webs"`
	Demo       bool     `help:"${testweb_demo}" group:"Folders and small webs"`
	Hostile    bool     `help:"${testweb_hostile}" group:"Folders and small webs"`
	Dripping   int      `placeholder:"N" help:"${testweb_dripping}" group:"Folders and small webs"`
	Raw        []string `placeholder:"HOST=DIR" sep:"none" help:"${testweb_raw}" group:"Folders and small webs"`
	Suffix     []string `placeholder:"HOST=SUFFIX" sep:"none" help:"${testweb_suffix}" group:"Folders and small webs"`

	shapeFlags
	Address   []string      `placeholder:"HOST=IP" help:"${testweb_address}" group:"Addresses"`
	Addresses int           `placeholder:"N" help:"${testweb_addresses}" group:"Addresses"`
	HTTP      int           `name:"http-port" placeholder:"PORT" help:"${testweb_http_port}" group:"Addresses"`
	HTTPS     int           `name:"https-port" placeholder:"PORT" help:"${testweb_https_port}" group:"Addresses"`
	DNSListen string        `placeholder:"HOST:PORT" default:"127.0.0.1:0" help:"${testweb_dns_listen}" group:"Addresses"`
	Control   string        `placeholder:"HOST:PORT" default:"127.0.0.1:0" help:"${testweb_control}" group:"Addresses"`
	TTL       time.Duration `default:"60s" help:"${testweb_ttl}" group:"Addresses"`
	CAOut     string        `placeholder:"FILE" help:"${testweb_ca_out}" group:"Output"`
	SeedsOut  string        `placeholder:"FILE" help:"${testweb_seeds_out}" group:"Output"`
	HostsOut  string        `placeholder:"FILE" help:"${testweb_hosts_out}" group:"Output"`
	ConfigOut string        `placeholder:"FILE" help:"${testweb_config_out}" group:"Output"`
	TimeLimit time.Duration `placeholder:"D" help:"${testweb_time_limit}" group:"Limits"`

	Delay      time.Duration `name:"promise-delay" placeholder:"D" help:"${promise_delay}" group:"Politeness"`
	IPDelay    time.Duration `name:"promise-ip-delay" placeholder:"D" help:"${promise_ip_delay}" group:"Politeness"`
	SiteDelay  time.Duration `name:"promise-site-delay" placeholder:"D" help:"${promise_site_delay}" group:"Politeness"`
	CrawlDelay bool          `name:"promise-crawl-delay" help:"${promise_crawl_delay}" group:"Politeness"`
	None       bool          `name:"no-politeness" help:"${no_politeness}" group:"Politeness"`
	Agent      string        `default:"orbweaver" help:"${promise_agent}" group:"Politeness"`

	Log       string `placeholder:"FILE" help:"${testweb_log}" group:"Output"`
	ReportOut string `placeholder:"FILE" help:"${testweb_report_out}" group:"Output"`
	AsJSON    bool   `name:"json" help:"${testweb_as_json}" group:"Output"`

	// Command is what follows "--" on the command line, with kong unaware of it; nil: no "--".
	Command []string `kong:"-"`
}

// Help teaches by examples.
func (TestwebCmd) Help() string {
	return `The command serves a web on this machine and prints the flags to crawl it.
Ctrl-C stops it. It then prints what it observed: pages fetched twice or missed,
and requests that broke a delay or robots.txt.

Generate a web from a random seed, without and with the faults of the real web:

  orbweaver testweb --generate --hosts 10000 --pages-mean 50
  orbweaver testweb --generate --wild --hosts 200 --seed 7 --report-out report.json

Generate a web whose pages change, with a day of its time in ten seconds. The
report says how fresh the crawl's copies were:

  orbweaver testweb --generate --hosts 100 --changes --day 10s --report-out report.json

Serve an archive as recorded, or files:

  orbweaver testweb --record crawl
  orbweaver testweb --record *.warc.gz
  orbweaver testweb --folder docs.example=./public --listing

After "--", name a command to test, such as another crawler. It runs where only
this web exists, at ports 80, 443 and 53 (Linux). The report follows when it ends,
and its exit code becomes that of testweb:

  orbweaver testweb --demo -- wget2 -r http://www.aldermouth.example/

SHARE is a part of a whole, such as 0.05 or 5%. BYTES is a size: 500MB, 2GiB or
1048576. D is a duration: 500ms, 90s, 2h30m. --generate --wild sets these
shares, and your flags override them:
` + wrapFlags(presets(gen.Wild(1, 1))) + `
--generate without --wild sets
` + wrapFlags(presets(gen.Plain(1, 1)))
}

// wrapFlags breaks a line of flags into lines of at most 76 columns.
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

// served holds the web to serve and how to crawl it.
type served struct {
	cfg       testweb.Config
	seeds     []string
	anywhere  bool            // the crawl has to leave the hosts of its seeds
	generated *gen.Web        // nil: none
	recorded  *record.Archive // nil: none
}

// Run serves until SIGINT, SIGTERM or the time limit, or until the command ends.
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
			return fileError("log", c.Log, err)
		}
		defer f.Close()
		b := bufio.NewWriter(f)
		defer b.Flush()
		s.cfg.Log = b
	}
	if c.Command != nil {
		return c.runCommand(out, s)
	}
	w, err := testweb.New(s.cfg)
	if err != nil {
		return webError(err)
	}
	defer w.Close()
	if err := c.writeFiles(w, s); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := c.limited(ctx)
	defer cancel()
	if err := c.announce(out, w, s); err != nil {
		return err
	}
	if err := w.Run(ctx); err != nil {
		return fmt.Errorf("testweb: %w", err)
	}
	if !c.AsJSON {
		fmt.Fprintln(out) // ends the line on which the terminal shows ^C
	}
	return c.report(out, w.Report())
}

// limited returns a context that ends with ctx or at the time limit.
func (c *TestwebCmd) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.TimeLimit > 0 {
		return context.WithTimeout(ctx, c.TimeLimit)
	}
	return context.WithCancel(ctx)
}

// report writes the report to its file and prints the summary.
func (c *TestwebCmd) report(out io.Writer, r *testweb.Report) error {
	if c.ReportOut != "" {
		b, err := json.MarshalIndent(r, "", "  ")
		if err == nil {
			err = os.WriteFile(c.ReportOut, append(b, '\n'), 0o644)
		}
		if err != nil {
			return fmt.Errorf("--report-out %s: %w", c.ReportOut, cause(err))
		}
	}
	if !c.AsJSON {
		summarize(out, r)
	}
	return nil
}

// fileError is the error of a flag's file that cannot be written.
func fileError(flag, name string, err error) error {
	return &node.ConfigError{Text: fmt.Sprintf("--%s %s: %v; name a file that can be written", flag, name, cause(err))}
}

// webFlagNames matches the flags with which errors of testweb.New begin.
var webFlagNames = regexp.MustCompile(`^(folder|http-port|https-port|dns-listen|control) `)

// webError turns an error of testweb.New into a message that names the flag.
func webError(err error) error {
	if text := err.Error(); webFlagNames.MatchString(text) {
		if p, ok := errors.AsType[*fs.PathError](err); ok {
			text = fmt.Sprintf("%s: %s: %v; name a directory", strings.TrimSuffix(text, ": "+p.Error()), p.Path, p.Err)
		}
		return &node.ConfigError{Text: "--" + text}
	}
	return &node.ConfigError{Text: "testweb: " + err.Error()}
}

// checkLoopback refuses an address that other machines could reach. Empty means the default.
func checkLoopback(flag, addr string) error {
	if addr == "" {
		return nil
	}
	host, port, err := net.SplitHostPort(addr)
	a, aerr := netip.ParseAddr(host)
	if _, perr := strconv.ParseUint(port, 10, 16); err == nil && perr == nil &&
		(host == "" || host == "localhost" || aerr == nil && a.IsLoopback()) {
		return nil
	}
	return &node.ConfigError{Text: fmt.Sprintf(
		"--%s %s: testweb serves this machine only; give a loopback address such as 127.0.0.1:15353",
		flag, addr)}
}

// config turns the flags into the web to serve and the URLs to start from.
func (c *TestwebCmd) config() (s served, err error) {
	s.cfg = testweb.Config{HTTPPort: c.HTTP, HTTPSPort: c.HTTPS, DNS: c.DNSListen, Control: c.Control, TTL: c.TTL,
		Addresses: max(c.Addresses, 0), Gzip: c.Gzip,
		Promise: testweb.Promise{HostDelay: c.Delay, AddrDelay: c.IPDelay, SiteDelay: c.SiteDelay,
			CrawlDelay: c.CrawlDelay, Agent: c.Agent, None: c.None}}
	bad := func(format string, args ...any) (served, error) {
		return s, &node.ConfigError{Text: fmt.Sprintf(format, args...)}
	}
	for _, l := range []struct{ flag, addr string }{{"dns-listen", c.DNSListen}, {"control", c.Control}} {
		if err := checkLoopback(l.flag, l.addr); err != nil {
			return s, err
		}
	}
	if err := c.checkCommand(); err != nil {
		return s, err
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
			return bad("--%v", err)
		}
		f.Listing = c.Listing
		s.cfg.Folders = append(s.cfg.Folders, f)
	}
	if err := suffixes(s.cfg.Folders, c.Suffix); err != nil {
		return s, err
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
	for _, text := range c.Raw {
		host, dir, ok := strings.Cut(text, "=")
		if !ok || host == "" || dir == "" {
			return bad("--raw %q: write HOST=DIR, such as raw.example=./replies", text)
		}
		replies, _, err := testweb.RawReplies(dir)
		if err != nil {
			return bad("--raw %s: %v; name a directory of replies", text, cause(err))
		}
		s.cfg.Sites = append(s.cfg.Sites, testweb.Site{Host: host, Raw: replies})
		s.seeds = append(s.seeds, "http://"+host+"/")
	}
	if err := c.origin(&s); err != nil {
		return s, err
	}
	if len(s.cfg.Sites) == 0 && len(s.cfg.Folders) == 0 && s.cfg.Origin == nil {
		return bad("nothing to serve: give --generate, --record, --folder, --debian-docs, " +
			"--demo, --hostile, --dripping or --raw")
	}
	return s, c.addresses(&s.cfg)
}

// suffixes sets the suffix of the folders of a host, from the values of the --suffix flags.
func suffixes(folders []testweb.Folder, flags []string) error {
	for _, text := range flags {
		host, suffix, ok := strings.Cut(text, "=")
		if !ok || host == "" || !testweb.ValidSuffix(suffix) {
			return &node.ConfigError{Text: fmt.Sprintf("--suffix %q: write HOST=SUFFIX, such as docs.example=.html",
				text)}
		}
		found := false
		for i := range folders {
			if strings.EqualFold(folders[i].Host, host) {
				folders[i].Suffix, found = suffix, true
			}
		}
		if !found {
			return &node.ConfigError{Text: fmt.Sprintf("--suffix %s: no folder has the host %s; add --folder %s=DIR",
				text, host, host)}
		}
	}
	return nil
}

// origin adds the generated or the recorded web to s, if the flags ask for one.
func (c *TestwebCmd) origin(s *served) error {
	bad := func(text string) error { return &node.ConfigError{Text: text} }
	switch flag := c.needless(); {
	case c.Generate && len(c.Record) > 0:
		return bad("--generate and --record cannot be combined: run one testweb for each")
	case !c.Generate && flag != "":
		return bad("--" + flag + " has no effect without a generated web: add --generate")
	case len(c.Record) == 0 && len(c.More) > 0:
		return bad(fmt.Sprintf("file %q: testweb serves files with --record FILE ...", c.More[0]))
	case len(c.Record) == 0 && c.RecordAt != "":
		return bad("--record-at has no effect without a recorded web: add --record FILE")
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
		s.cfg.Origin, s.generated, s.seeds = w, w, append(s.seeds, seeds...)
		if w.Changing() {
			s.cfg.Changes = w
		}
		if truth != nil { // an interface that holds a nil pointer is not nil
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
		s.cfg.Ports = a.Ports()
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
			return &node.ConfigError{Text: fmt.Sprintf("--address %q: write HOST=IP, such as a.example=127.0.0.5", a)}
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

// maxSeedsShown is how many seeds the printed crawl command names.
const maxSeedsShown = 10

// announce prints the web's addresses and files, and the command to crawl it.
func (c *TestwebCmd) announce(out io.Writer, w *testweb.Web, s served) error {
	hosts := int64(len(w.Hosts()))
	if s.cfg.Origin != nil {
		hosts += s.cfg.Origin.Hosts()
	}
	facts := map[string]any{"http": w.HTTPAddr(), "https": w.HTTPSAddr(), "dns": w.DNSAddr(),
		"control": w.ControlAddr(), "ca": c.CAOut, "connect_to": w.ConnectTo(), "seeds": s.seeds, "hosts": hosts}
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
	facts["crawl_flags"] = line[2:]
	if s.generated != nil {
		facts["pages"], facts["pages_exact"] = c.countPages(s.generated)
	}
	if s.recorded != nil {
		facts["recorded"] = s.recorded.Summary()
	}
	if c.AsJSON {
		return json.NewEncoder(out).Encode(facts)
	}
	switch {
	case s.generated != nil:
		fmt.Fprintf(out, "hosts    %s\n", c.describe(s.generated))
	case s.recorded != nil:
		describeRecord(out, s.recorded.Summary())
	default:
		fmt.Fprintf(out, "hosts    %d\n", hosts)
	}
	if c.Command == nil {
		fmt.Fprintf(out, "http     %s\nhttps    %s\ndns      %s\n", w.HTTPAddr(), w.HTTPSAddr(), w.DNSAddr())
	}
	fmt.Fprintf(out, "report   http://%s/.testweb/report\n", w.ControlAddr())
	for _, f := range []struct{ name, file string }{{"ca", c.CAOut}, {"seeds", c.SeedsOut}, {"hosts", c.HostsOut},
		{"urls", c.URLs}, {"config", c.ConfigOut}} {
		if f.file != "" {
			fmt.Fprintf(out, "%-8s %s\n", f.name, f.file)
		}
	}
	if c.Command != nil {
		_, err := fmt.Fprintf(out, "command  %s\n\n", warcCell(strings.Join(c.Command, " ")))
		return err
	}
	if c.ConfigOut != "" {
		line = []string{self(), "crawl", "--config", c.ConfigOut}
	}
	if c.SeedsOut == "" {
		line = append(line, s.seeds[:min(len(s.seeds), maxSeedsShown)]...)
	}
	if _, err = fmt.Fprintf(out, "\n%s\n\n", strings.Join(line, " ")); err == nil && c.SeedsOut == "" &&
		len(s.seeds) > maxSeedsShown {
		_, err = fmt.Fprintf(out, "These are %d of %d seeds; --seeds-out writes all of them to a file.\n\n",
			maxSeedsShown, len(s.seeds))
	}
	return err
}

// A flag is a flag of "orbweaver crawl" with its value.
type flag struct{ name, value string }

// crawlFlags returns the flags with which "orbweaver crawl" reaches the web, and the
// bounds of the crawl that the report counts pages for.
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
	} else { // without --ca-out the crawl cannot know the authority
		flags = append(flags, flag{"insecure", "true"})
	}
	switch {
	case s.anywhere:
		flags = append(flags, flag{"scope", "any"})
	case s.generated != nil:
		flags = append(flags, flag{"scope", c.Truth.Scope})
	}
	if s.generated != nil && c.Truth.Depth >= 0 {
		flags = append(flags, flag{"depth", strconv.Itoa(c.Truth.Depth)})
	}
	if s.generated != nil && c.Truth.Sitemaps {
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
	b := []byte("# Flags to crawl the web of \"orbweaver testweb\" while it runs.\n")
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
		return fileError("config-out", name, err)
	}
	return nil
}
