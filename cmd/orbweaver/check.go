package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/alecthomas/kong"

	"github.com/orbweaver/orbweaver/internal/cli"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/node/settings"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/web/fetch"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/parse"
	"github.com/orbweaver/orbweaver/internal/web/robots"
	"github.com/orbweaver/orbweaver/internal/web/scope"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// CheckCmd implements "check": it explains how the crawler treats a URL or a page,
// without crawling.
type CheckCmd struct {
	URL    CheckURLCmd    `cmd:"" name:"url" help:"Print the canonical form of a URL, its host, site and sort key."`
	Scope  CheckScopeCmd  `cmd:"" help:"Tell whether a URL is in a crawl's scope, and what each rule decides."`
	Robots CheckRobotsCmd `cmd:"" help:"Tell whether robots.txt allows a URL, and which line decides."`
	Links  CheckLinksCmd  `cmd:"" help:"List the links on a page."`
}

// webFlags are the flags with which "check" reaches the web. They mean what they mean for
// "crawl".
type webFlags struct {
	DNS          []string `name:"dns" help:"${check_dns}" placeholder:"ADDR"`
	ConnectTo    []string `help:"Send requests for HOST:PORT to ADDR:PORT instead." placeholder:"HOST:PORT:ADDR:PORT"`
	CA           string   `name:"ca" help:"${ca}" placeholder:"FILE"`
	Insecure     bool     `help:"${insecure}"`
	AllowPrivate bool     `help:"Also connect to private, loopback and link-local addresses."`
	Contact      string   `help:"Name this contact in the User-Agent header." placeholder:"URL|MAIL"`
	UserAgent    string   `help:"${check_user_agent}" placeholder:"S"`
	RobotsAgent  string   `help:"${check_robots_agent}" placeholder:"NAME" aliases:"agent"`
}

// identity returns the User-Agent header to send and the product name whose robots.txt
// groups apply. A crawl with the same flags has the same.
func (w *webFlags) identity() (userAgent, token string, err error) {
	c := node.Config{Contact: w.Contact, UserAgent: w.UserAgent, RobotsAgent: w.RobotsAgent}
	return c.Identity()
}

// A got is what get has fetched.
type got struct {
	*fetch.Response        // without its body
	body            []byte // decoded
	part            string // why body is not all that the server has; empty: it is
}

// get fetches one URL and follows up to five redirects. If the URL is bare and no connection can be
// made by https, get asks by http and changes *typed. The body is decoded and cut at max bytes. get prints faults of
// the body to errs.
func (w *webFlags) get(errs io.Writer, typed *input.TypedURL, max int64) (_ *got, _ error) {
	u := typed.URL
	ua, _, err := w.identity()
	if err != nil {
		return nil, err
	}
	f, end, err := node.OpenFetcher(fetch.Config{
		UserAgent: ua, ConnectTo: w.ConnectTo, CAFile: w.CA, Insecure: w.Insecure, AllowPrivate: w.AllowPrivate,
		TotalTimeout: time.Minute,
	}, w.DNS)
	if err != nil {
		return nil, err
	}
	defer end()
	for range 6 {
		r, err := f.Fetch(context.Background(), fetch.Request{URL: u, MaxBody: max})
		if err != nil {
			return nil, err
		}
		if r.Failure != nil {
			defer r.Release()
			if typed.Bare && u == typed.URL && r.Failure.NoConnection() {
				fmt.Fprintf(errs, "orbweaver: %s; trying http\n", serverError{fmt.Errorf("%s: %w", u, r.Failure)})
				u = input.Plain(u)
				*typed = input.TypedURL{URL: u}
				continue
			}
			if r.Failure.Kind == fetch.Refused {
				return nil, fmt.Errorf("%s: %w; %w", u, r.Failure, errRefused)
			}
			what := "try again later, or check the URL"
			switch {
			case r.Failure.Kind == fetch.DNS:
				what = "check the spelling of the name; --dns ADDR asks another name server"
			case r.Failure.NoTLS():
				what = "check the port; if the server has no https, give http://"
			case r.Failure.Kind == fetch.TLS:
				what = "--ca FILE trusts an authority, and --insecure accepts any certificate"
			case r.Failure.NoConnection():
				what = "check that a server listens there"
			}
			return nil, serverError{fmt.Errorf("%s: %w; %s", u, r.Failure, what)}
		}
		if to, ok := fetch.Redirect(r); ok {
			next, err := u.Resolve(to)
			r.Release()
			if err != nil {
				return nil, fmt.Errorf("%s redirects to %q: %w", u, to, err)
			}
			u = next
			continue
		}
		body, part, err := r.DecodeWhole(max)
		body = append([]byte(nil), body...)
		r.Release()
		if err != nil {
			return nil, err
		}
		if part = report.OneLine(part); part != "" {
			fmt.Fprintf(errs, "orbweaver: %s did not arrive whole: %s\n", u, part)
		}
		return &got{r, body, part}, nil
	}
	return nil, fmt.Errorf("%s: more than five redirects", u)
}

// A serverError contains text of a server, such as the names in its certificate. Its text
// is one line, so that a server cannot imitate a message of this program.
type serverError struct{ error }

func (e serverError) Error() string { return report.OneLine(e.error.Error()) }
func (e serverError) Unwrap() error { return e.error }

var errRefused = errors.New("--allow-private fetches it")

// CheckURLCmd implements "check url".
type CheckURLCmd struct {
	Base string   `help:"Resolve the URLs as references on this page." placeholder:"URL"`
	URL  []string `arg:"" name:"url" help:"${check_references}"`
}

// Run prints the canonical form of each URL and the values derived from it. The exit code
// is 1 if one of them is not a URL.
func (c *CheckURLCmd) Run(out io.Writer) error {
	var base weburl.URL
	if c.Base != "" {
		typed, err := input.ParseURL("--base", c.Base)
		if err != nil {
			return err
		}
		base = typed.URL
	}
	urls, err := arguments(c.URL)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	bad := 0
	for i, s := range urls {
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "given\t%s\n", s)
		u, bare, err := c.read(base, s)
		if err != nil {
			fmt.Fprintf(w, "refused\t%s\n", words(err))
			bad++
			continue
		}
		k := link.KeyOf(u)
		fmt.Fprintf(w, "canonical\t%s\n", u)
		if bare {
			fmt.Fprintf(w, "or\t%s\t(if no https connection can be made)\n", input.Plain(u))
		}
		fmt.Fprintf(w, "host\t%s\t(politeness)\n", u.Host())
		fmt.Fprintf(w, "site\t%s\t(registered domain)\n", u.Site())
		fmt.Fprintf(w, "origin\t%s\t(robots.txt)\n", u.Origin())
		fmt.Fprintf(w, "request\t%s\n", u.RequestURI())
		fmt.Fprintf(w, "SURT\t%s\t(index)\n", u.SURT())
		fmt.Fprintf(w, "key\t%016x %016x\t(host, URL)\n", k.Host, k.Path)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if bad > 0 {
		return &exitError{code: exitOther}
	}
	return nil
}

// read reads a URL, or with a base a reference. bare reports that the URL has no scheme.
func (c *CheckURLCmd) read(base weburl.URL, s string) (u weburl.URL, bare bool, err error) {
	if !base.IsZero() {
		u, err = base.Resolve(s)
		return u, false, err
	}
	if u, err = weburl.Parse(s); err == nil {
		return u, false, nil
	}
	typed, terr := input.ParseURL("URL", s)
	if terr != nil && (strings.HasPrefix(s, "/") || strings.HasPrefix(s, ".")) {
		terr = fmt.Errorf("%w, or --base", terr)
	}
	return typed.URL, typed.Bare, terr
}

// CheckScopeCmd implements "check scope".
type CheckScopeCmd struct {
	Seed   []string `help:"Judge for a crawl from these seeds." placeholder:"URL"`
	Seeds  []string `short:"i" help:"${check_seeds}" placeholder:"FILE" sep:"none"`
	Config string   `help:"${check_config}" placeholder:"FILE"`
	Hops   string   `help:"${check_hops}" default:"L" placeholder:"HOPS"`

	settings.Bounds `embed:""`

	URL []string `arg:"" name:"url" help:"${check_urls}"`
}

// hopLetters are the letters of link.Link.Hops.
const hopLetters = "LREPMXI"

// Run judges each URL. The exit code is 1 if one of them is out of scope.
func (c *CheckScopeCmd) Run(k *kong.Context, out io.Writer) error {
	if strings.Trim(c.Hops, hopLetters) != "" {
		return bad("--hops %q: use the letters L link, R redirect, E embed, P prerequisite, "+
			"M sitemap, X speculative, I root", c.Hops)
	}
	if slices.Contains(c.Seeds, "-") && slices.Contains(c.URL, "-") {
		return bad("--seeds - and URL - both read standard input; put the seeds or the URLs into a file")
	}
	more, err := readAllSeeds(c.Seeds)
	if err != nil {
		return err
	}
	if c.Seed = append(c.Seed, more...); len(c.Seed) == 0 && len(c.Seeds) > 0 {
		return bad("--seeds %s has no URL; put one on each line", strings.Join(c.Seeds, " --seeds "))
	}
	sheets, err := c.fromConfig(k)
	if err != nil {
		return err
	}
	var seeds []weburl.URL
	for _, s := range c.Seed {
		u, err := input.ParseURL("--seed", s)
		if err != nil {
			return err
		}
		seeds = append(seeds, u.URL)
	}
	cfg := c.Bounds.Config()
	cfg.Today, cfg.Sheets = time.Now(), sheets
	s, err := scope.New(cfg, seeds)
	if err != nil {
		return input.SettingError(err)
	}
	urls, err := arguments(c.URL)
	if err != nil {
		return err
	}
	outside := false
	for _, raw := range urls {
		typed, err := input.ParseURL("URL", raw)
		if err != nil {
			return err
		}
		u := typed.URL
		l := link.Link{URL: u, Hops: c.Hops, Via: seeds[0].String(), Seed: seeds[0].Host()}
		if slices.Contains(seeds, u) {
			l.Hops, l.Via = "", ""
		}
		l.SetHostDepth(hostDepth(l, seeds[0]))
		if v := s.Judge(l); v.In {
			fmt.Fprintf(out, "in    %s\n", u)
		} else {
			outside = true
			fmt.Fprintf(out, "out   %s  (%s)\n", u, v.Reason)
		}
		for _, line := range s.Explain(l) {
			fmt.Fprintf(out, "      %s\n", line)
		}
	}
	if outside {
		return &exitError{code: exitOther}
	}
	return nil
}

// hostDepth returns how many links there are within the host of l, if the path to l enters the host with its first
// step, or begins at a seed of the host.
func hostDepth(l link.Link, seed weburl.URL) int {
	if l.URL.Host() != seed.Host() && l.Hops != "" {
		l.Hops = l.Hops[1:]
	}
	return l.Depth()
}

// robotsUnreachable are the rules while a robots.txt cannot be fetched. No server has sent their lines.
var robotsUnreachable = robots.Parse([]byte("User-agent: *\nDisallow: /\n"))

// CheckRobotsCmd implements "check robots".
type CheckRobotsCmd struct {
	File string   `help:"${check_file}" placeholder:"FILE"`
	URL  []string `arg:"" name:"url" help:"${check_urls}"`
	webFlags
}

// Run judges each URL. The exit code is 1 if one of them is denied.
func (c *CheckRobotsCmd) Run(out io.Writer, errs cli.ErrorOutput) error {
	_, token, err := c.identity()
	if err != nil {
		return err
	}
	urls, err := arguments(c.URL)
	if err != nil {
		return err
	}
	denied := false
	known := map[string]*robots.Rules{}
	for _, raw := range urls {
		typed, err := input.ParseURL("URL", raw)
		if err != nil {
			return err
		}
		rules, ok := known[typed.URL.Origin()]
		if !ok {
			if rules, err = c.rules(out, errs, &typed); err != nil {
				return err
			}
			known[typed.URL.Origin()] = rules
		}
		u := typed.URL
		g := rules.CrawlerGroup(token)
		allowed, rule, line := g.Crawlable(u.RequestURI())
		word := "allowed"
		if !allowed {
			word, denied = "denied", true
		}
		why := "no rule matches"
		if rules == robotsUnreachable && rule != "" {
			why = "robots.txt is unreachable"
		} else if rule != "" {
			why = fmt.Sprintf("line %d: %s", line, report.OneLine(rule))
		}
		fmt.Fprintf(out, "%-8s %s  (%s)\n", word, u, why)
		if d, ok := g.CrawlDelay(); ok {
			fmt.Fprintf(out, "         Crawl-delay %s\n", d)
		}
		if !ok {
			for _, s := range rules.Sitemaps() {
				fmt.Fprintf(out, "         Sitemap %s\n", report.OneLine(s))
			}
		}
	}
	if denied {
		return &exitError{code: exitOther}
	}
	return nil
}

// rules reads the robots.txt that applies to a URL: the file of --file, or that of its origin. If
// it had to ask by http, it changes the URL.
func (c *CheckRobotsCmd) rules(out, errs io.Writer, typed *input.TypedURL) (*robots.Rules, error) {
	if c.File != "" {
		b, err := readInput("--file", c.File, robots.ReadLimit+1)
		if err != nil {
			return nil, err
		}
		return robots.Parse(b), nil
	}
	at, err := typed.URL.Resolve("/robots.txt")
	if err != nil {
		return nil, err
	}
	asked := input.TypedURL{URL: at, Bare: typed.Bare}
	r, err := c.get(errs, &asked, robots.ReadLimit+1)
	if asked.URL != at {
		*typed, at = input.TypedURL{URL: input.Plain(typed.URL)}, asked.URL
	}
	switch {
	case errors.Is(err, errRefused):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("%w\nWithout a robots.txt a crawl treats all of %s as forbidden, and asks again later "+
			"(RFC 9309, 2.3.1.4)", err, typed.URL.Origin())
	case r.Status == 429 || r.Status >= 500:
		fmt.Fprintf(out, "%s answers %d: all is forbidden for now (RFC 9309, 2.3.1.4)\n", at, r.Status)
		return robotsUnreachable, nil
	case r.Status/100 != 2:
		fmt.Fprintf(out, "%s answers %d: there is no robots.txt, all is allowed (RFC 9309, 2.3.1.3)\n", at, r.Status)
		return robots.Parse(nil), nil
	case r.part != "":
		fmt.Fprintf(out, "%s did not arrive whole: all is forbidden for now (RFC 9309, 2.3.1.4)\n", at)
		return robotsUnreachable, nil
	}
	return robots.Parse(r.body), nil
}

// CheckLinksCmd implements "check links".
type CheckLinksCmd struct {
	Requisites  bool   `help:"Also list the images, styles and scripts that the page needs."`
	Base        string `help:"Treat a file as the page at this URL." placeholder:"URL" default:"http://localhost/"`
	ContentType string `help:"Treat a file as this Content-Type." default:"text/html" placeholder:"TYPE"`
	Page        string `arg:"" help:"Read this page: a URL, a file, or - for standard input."`
	webFlags
}

// Run lists the links of the page.
func (c *CheckLinksCmd) Run(k *kong.Context, out io.Writer, errs cli.ErrorOutput) error {
	const max = 64 << 20
	in := parse.Input{ContentType: c.ContentType}
	_, token, err := c.identity()
	if err != nil {
		return err
	}
	if _, err := os.Stat(c.Page); c.Page == "-" || err == nil || errors.Is(err, fs.ErrPermission) {
		base, err := input.ParseURL("--base", c.Base)
		if err != nil {
			return err
		}
		in.URL = base.URL
		if in.Body, err = readInput("PAGE", c.Page, max); err != nil {
			return err
		}
	} else {
		typed, err := input.ParseURL("PAGE", c.Page)
		if err != nil {
			return bad("%v, or the name of a file that exists", err)
		}
		for _, flag := range []string{"base", "content-type"} {
			if isTyped(k, flag) {
				return bad("--%s has no effect on a page of the web; leave it out, or give a file", flag)
			}
		}
		r, err := c.get(errs, &typed, max)
		if err != nil {
			return err
		}
		if r.Status/100 != 2 {
			fmt.Fprintf(out, "%s answers %d: a crawl does not follow the links of an error page\n", r.URL, r.Status)
		}
		in.URL, in.Body, in.ContentType, in.Header = r.URL, r.body, "", r.Header
	}
	var p parse.Page
	parse.Parse(in, parse.Options{Requisites: c.Requisites, Agent: token}, &p)
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	for _, l := range p.Links {
		note := ""
		if l.NoFollow {
			note = "\tnofollow: not followed"
		}
		fmt.Fprintf(w, "%c\t%s\t%s%s\n", l.Hop, l.Tag, l.URL, note)
	}
	fmt.Fprintf(w, "\n%s; read as %s, %s, base %s", plural(int64(len(p.Links)), "link"), p.Kind,
		report.OneLine(p.Charset), p.Base)
	for _, n := range []struct {
		n    int
		what string
	}{{p.BadLinks, "not URLs"}, {p.Dropped, "over the limit"}, {p.Withheld, "withheld by nofollow of the page"}} {
		if n.n > 0 {
			fmt.Fprintf(w, "; %d %s", n.n, n.what)
		}
	}
	fmt.Fprintln(w)
	return w.Flush()
}

// isTyped reports whether the command line has a flag.
func isTyped(k *kong.Context, flag string) bool {
	return slices.ContainsFunc(k.Path, func(p *kong.Path) bool {
		return p.Flag != nil && p.Flag.Name == flag && !p.Resolved
	})
}

// arguments returns the given URLs, with "-" replaced by the lines of standard input.
func arguments(given []string) (urls []string, _ error) {
	for _, s := range given {
		if s != "-" {
			urls = append(urls, s)
			continue
		}
		b, err := readInput("", "-", 64<<20)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(b)) {
			if line = strings.TrimSpace(line); line != "" {
				urls = append(urls, line)
			}
		}
	}
	return urls, nil
}

// readInput reads at most max bytes of the named file, or of standard input if name is "-". what
// names the flag or argument in errors.
func readInput(what, name string, max int64) ([]byte, error) {
	r := io.Reader(os.Stdin)
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, unreadable(what+" "+name, name, err, "name a file that can be read")
		}
		defer f.Close()
		r = f
	}
	b, err := io.ReadAll(io.LimitReader(r, max))
	if err != nil {
		return nil, unreadable(what+" "+name, name, err, "name a file that can be read")
	}
	return b, nil
}
