package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"net/url"
	"os"
	"os/signal"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/orbweaver/orbweaver/internal/cli"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/testweb"
	"github.com/orbweaver/orbweaver/internal/testweb/gen"
	"github.com/orbweaver/orbweaver/internal/testweb/record"
	"github.com/orbweaver/orbweaver/internal/testweb/webs"
)

// TestwebCmd is "testweb": a web on this machine to crawl, until it is interrupted.
type TestwebCmd struct {
	generateFlags
	Truth truthFlags `embed:""`
	recordFlags
	topicalFlags

	Folder     []string `placeholder:"HOST=DIR" sep:"none" help:"${testweb_folder}" group:"Folders and small webs"`
	Scheme     string   `enum:"both,http,https" default:"both" help:"${testweb_scheme}" group:"Folders and small webs"`
	Listing    bool     `help:"${testweb_listing}" group:"Folders and small webs"`
	Gzip       bool     `help:"${testweb_gzip}" group:"Folders and small webs"`
	DebianDocs bool     `help:"${testweb_debian_docs}" group:"Folders and small webs"`
	Demo       bool     `help:"${testweb_demo}" group:"Folders and small webs"`
	Hostile    bool     `help:"${testweb_hostile}" group:"Folders and small webs"`
	Scripts    bool     `help:"${testweb_scripts}" group:"Folders and small webs"`
	Trouble    bool     `name:"scripts-hostile" help:"${testweb_trouble}" group:"Folders and small webs"`
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

	Promise promiseFlags `embed:""`

	Log       string `placeholder:"FILE" help:"${testweb_log}" group:"Output"`
	ReportOut string `placeholder:"FILE" help:"${testweb_report_out}" group:"Output"`
	AsJSON    bool   `name:"json" help:"${testweb_as_json}" group:"Output"`

	// Command is what follows "--" on the command line, with kong unaware of it; nil: no "--".
	Command []string `kong:"-"`

	stdout io.Writer // unchanged by escapes, for a file that is named "-"
}

// Help teaches by examples.
func (TestwebCmd) Help() string {
	return `The command serves a web on this machine and prints the flags to crawl it.
Ctrl-C stops it. It then prints what it observed: pages fetched twice or missed,
and requests that broke a delay or robots.txt.

Generate a web from a random seed, without and with the faults of the real web:

  orbweaver testweb --generate --hosts 10000 --pages-mean 50
  orbweaver testweb --generate --wild --hosts 200 --seed 7 \
    --report-out report.json

Generate a web whose pages change, with a day of its time in ten seconds. The
report says how fresh the crawl's copies were:

  orbweaver testweb --generate --hosts 100 --changes --day 10s \
    --report-out report.json

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
	topical   *gen.TextWeb    // nil: none
}

// Run serves until a signal or the time limit ends it, or until the command ends.
func (c *TestwebCmd) Run(out io.Writer, errs cli.ErrorOutput) (err error) {
	signals, release := catchSignals(c.Command != nil)
	defer release()
	defer func() {
		if errors.Is(err, syscall.EPIPE) { // nobody reads the output, or a message about it
			err = &exitError{code: exitSignal}
		}
	}()
	if out, err = c.divert(out, errs); err != nil {
		return err
	}
	var s served
	err = untilSignal(func(context.Context) (err error) {
		if len(c.Record) > 0 || c.Topical != "" || c.Articles != "" || c.Graph != "" {
			defer sayLater(errs, "reads the files of the web")()
		}
		s, err = c.config()
		return err
	})
	if err != nil {
		return err
	}
	if s.recorded != nil {
		defer s.recorded.Close()
	}
	if c.Log != "" {
		f, err := c.create("log", c.Log)
		if err != nil {
			return err
		}
		defer f.Close()
		s.cfg.Log = f
		if c.Log != stdoutName {
			b := bufio.NewWriterSize(f, 256<<10)
			defer b.Flush()
			s.cfg.Log = b
		}
	}
	if c.ReportOut != "" && c.ReportOut != stdoutName { // is written at the end
		f, err := os.OpenFile(c.ReportOut, os.O_WRONLY|os.O_CREATE, 0o644)
		if err != nil {
			return fileError("report-out", c.ReportOut, err)
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	if c.Command != nil {
		return c.runCommand(out, s, signals)
	}
	w, err := testweb.New(s.cfg)
	if err != nil {
		return webError(err)
	}
	defer w.Close()
	if err := untilSignal(func(context.Context) error { return c.writeFiles(w, s) }); err != nil {
		return err
	}
	ctx, cancel := c.limited(context.Background())
	defer cancel()
	go func() {
		select {
		case <-signals:
			cancel()
		case <-ctx.Done():
		}
	}()
	if err := c.announce(out, w, s); err != nil {
		return err
	}
	if err := w.Run(ctx); err != nil {
		return fmt.Errorf("testweb: %w", err)
	}
	if !c.AsJSON {
		fmt.Fprintln(out) // ends the line on which the terminal shows ^C
	}
	r, err := awaitReport(errs, w, signals)
	if err != nil {
		return err
	}
	return c.report(out, r)
}

// awaitReport returns the report of w, which may have to count the reachable pages first. A signal ends the wait.
func awaitReport(errs io.Writer, w *testweb.Web, signals <-chan os.Signal) (*testweb.Report, error) {
	result := make(chan *testweb.Report, 1)
	go func() { result <- w.Report() }()
	defer sayLater(errs, "counts the pages that a crawl can reach; Ctrl-C ends this without the report")()
	began := time.Now()
	for {
		select {
		case r := <-result:
			return r, nil
		case <-signals:
			if time.Since(began) > sameSignal {
				return nil, &exitError{exitForced, "ended without the report"}
			}
		}
	}
}

// catchSignals catches the signals that end a program, so that it can still write its report and remove its files.
// The channel gets all but SIGPIPE: caught, it lets a write to a closed output fail. forCommand adds SIGQUIT, which the
// command gets. release ends this.
func catchSignals(forCommand bool) (signals <-chan os.Signal, release func()) {
	caught := make(chan os.Signal, 8) // a burst of signals; more would be lost
	signal.Notify(caught, os.Interrupt, syscall.SIGTERM)
	if forCommand {
		signal.Notify(caught, syscall.SIGQUIT)
	}
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(caught, syscall.SIGHUP)
	}
	closed := make(chan os.Signal, 1)
	signal.Notify(closed, syscall.SIGPIPE) // not Ignore, which the command would inherit
	return caught, func() { signal.Stop(caught); signal.Stop(closed) }
}

// limited returns a context that ends with ctx or at the time limit.
func (c *TestwebCmd) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.TimeLimit > 0 {
		return context.WithTimeout(ctx, c.TimeLimit)
	}
	return context.WithCancel(ctx)
}

// webFlagNames matches the flags with which errors of testweb.New begin.
var webFlagNames = regexp.MustCompile(`^(folder|http-port|https-port|dns-listen|control) `)

// webError turns an error of testweb.New into a message that names the flag.
func webError(err error) error {
	if text := err.Error(); webFlagNames.MatchString(text) {
		if p, ok := errors.AsType[*fs.PathError](err); ok {
			return unreadable("--"+strings.TrimSuffix(text, ": "+p.Error()), "", p, "name a directory")
		}
		return bad("--%s", text)
	}
	return bad("testweb: %v", err)
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
	if _, perr := strconv.ParseUint(port, 10, 16); err != nil || perr != nil {
		return bad("--%s %s: write HOST:PORT with a port from 0 to 65535, such as 127.0.0.1:15353", flag, addr)
	}
	return input.Errorf("--%s %s: testweb serves this machine only; give a loopback address such as 127.0.0.1:15353",
		flag, addr)
}

// config turns the flags into the web to serve and the URLs to start from.
func (c *TestwebCmd) config() (s served, err error) {
	s.cfg = testweb.Config{HTTPPort: c.HTTP, HTTPSPort: c.HTTPS, DNS: c.DNSListen, Control: c.Control, TTL: c.TTL,
		Addresses: max(c.Addresses, 0), Gzip: c.Gzip,
		Promise: c.Promise.promise()}
	bad := func(format string, args ...any) (served, error) {
		return s, input.Errorf(format, args...)
	}
	for _, l := range []struct{ flag, addr string }{{"dns-listen", c.DNSListen}, {"control", c.Control}} {
		if err := checkLoopback(l.flag, l.addr); err != nil {
			return s, err
		}
	}
	if err := c.checkNumbers(); err != nil {
		return s, err
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
	given := givenHosts{}
	for _, f := range s.cfg.Folders {
		given[f.Host+f.Prefix+"/"] = "--debian-docs"
	}
	typed := map[int]input.TypedURL{} // by index of the folder
	for _, text := range c.Folder {
		u, dir, err := siteFlag("folder", text, "HOST=DIR or HOST/PREFIX=DIR, such as docs.example=./public", true)
		if err != nil {
			return s, err
		}
		prefix, err := url.PathUnescape(strings.Trim(u.URL.Path(), "/"))
		if err != nil {
			return bad("--folder %q: %v; write HOST=DIR or HOST/PREFIX=DIR", text, err)
		}
		if prefix != "" {
			prefix = "/" + prefix
		}
		if err := given.take(u.URL.Host()+prefix+"/", "--folder "+text, "name one directory for it"); err != nil {
			return s, err
		}
		typed[len(s.cfg.Folders)] = u
		s.cfg.Folders = append(s.cfg.Folders, testweb.Folder{Host: u.URL.Host(), Prefix: prefix, Dir: dir,
			Listing: c.Listing})
	}
	if err := suffixes(s.cfg.Folders, c.Suffix); err != nil {
		return s, err
	}
	for i := range s.cfg.Folders {
		f := &s.cfg.Folders[i]
		if c.Scheme != "both" {
			f.Scheme = c.Scheme
		}
		seed := f.Seed()
		if u, ok := typed[i]; ok && f.Scheme == "" {
			seed = startAt(u, seed)
		}
		if seed != "" {
			s.seeds = append(s.seeds, seed)
		}
	}
	if c.Dripping < 0 {
		return bad("--dripping %d is negative; 0 serves none", c.Dripping)
	}
	chosen := webs.Chosen{Demo: c.Demo, Hostile: c.Hostile, Dripping: c.Dripping, Scripts: c.Scripts,
		Trouble: c.Trouble}
	seeds, anywhere := chosen.Add(&s.cfg)
	s.seeds, s.anywhere = append(s.seeds, seeds...), anywhere
	given = givenHosts{}
	for _, site := range s.cfg.Sites {
		given[site.Host] = "--demo, --hostile, --dripping, --scripts or --scripts-hostile"
	}
	for _, text := range c.Raw {
		u, dir, err := siteFlag("raw", text, "HOST=DIR, such as raw.example=./replies", false)
		if err != nil {
			return s, err
		}
		host := u.URL.Host()
		if err := given.take(host, "--raw "+text, "name one directory for it"); err != nil {
			return s, err
		}
		replies, _, err := testweb.RawReplies(dir)
		if err != nil {
			return s, unreadable("--raw "+text, dir, err, "name a directory of replies")
		}
		s.cfg.Sites = append(s.cfg.Sites, testweb.Site{Host: host, Raw: replies})
		s.seeds = append(s.seeds, startAt(u, "http://"+host+"/"))
	}
	if err := c.origin(&s); err != nil {
		return s, err
	}
	if len(s.cfg.Sites) == 0 && len(s.cfg.Folders) == 0 && s.cfg.Origin == nil {
		return bad("nothing to serve: give --generate, --record, --topical, --articles, --folder, --demo or " +
			"another web of --help")
	}
	return s, c.addresses(&s.cfg)
}

// suffixes sets the suffix of the folders of a host, from the values of the --suffix flags.
func suffixes(folders []testweb.Folder, flags []string) error {
	given := givenHosts{}
	for _, text := range flags {
		const form = "HOST=SUFFIX, such as docs.example=.html"
		u, suffix, err := siteFlag("suffix", text, form, false)
		if err != nil {
			return err
		}
		if !testweb.ValidSuffix(suffix) {
			return bad("--suffix %q: write %s", text, form)
		}
		host, found := u.URL.Host(), false
		if err := given.take(host, "--suffix "+text, "give one suffix for it"); err != nil {
			return err
		}
		for i := range folders {
			if strings.EqualFold(folders[i].Host, host) {
				folders[i].Suffix, found = suffix, true
			}
		}
		if !found {
			return input.Errorf("--suffix %s: no folder has the host %s; add --folder %s=DIR",
				text, host, host)
		}
	}
	return nil
}

// origin adds the generated or the recorded web to s, if the flags ask for one.
func (c *TestwebCmd) origin(s *served) error {
	switch flag := c.needless(); {
	case c.Generate && len(c.Record) > 0:
		return bad("--generate and --record cannot be combined: run one testweb for each")
	case !c.Generate && flag != "":
		return bad("--%s has no effect without a generated web: add --generate", flag)
	case len(c.Record) == 0 && len(c.More) > 0:
		return bad("file %q: testweb serves files with --record FILE ...", c.More[0])
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
	if err := c.checkTopical(); err != nil {
		return err
	}
	if c.Topical != "" || c.Articles != "" {
		w, err := c.topicalFlags.open(c.Addresses)
		if err != nil {
			return err
		}
		s.cfg.Origin, s.topical, s.seeds, s.anywhere = w, w, append(s.seeds, w.Seeds()...), true
		if !c.Truth.Without {
			s.cfg.Truth = &lateTruth{find: w.Truth}
		}
	}
	if len(c.Record) > 0 {
		a, err := c.recordFlags.open(c.Promise.Agent)
		if err != nil {
			return err
		}
		s.cfg.Origin, s.recorded, s.seeds, s.anywhere = a, a, append(s.seeds, a.Seeds()...), true
		s.cfg.Ports, s.cfg.IPs = a.Ports(), a.IPs()
		if !c.Truth.Without {
			s.cfg.Truth = &lateTruth{find: a.Truth}
		}
	}
	return nil
}

// addresses gives hosts the addresses of the --address flags.
func (c *TestwebCmd) addresses(cfg *testweb.Config) error {
	given := givenHosts{}
	for _, a := range c.Address {
		const form = "HOST=IP, such as a.example=127.0.0.5"
		u, ip, err := siteFlag("address", a, form, false)
		if err != nil {
			return err
		}
		if addr, err := netip.ParseAddr(ip); err != nil || !addr.Is4() || !addr.IsLoopback() {
			return bad("--address %q: %s is not an address in 127.0.0.0/8; write %s", a, ip, form)
		}
		host, found := u.URL.Host(), false
		if err := given.take(host, "--address "+a, "give one address for it"); err != nil {
			return err
		}
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
