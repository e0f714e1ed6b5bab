package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/alecthomas/kong"
	"github.com/goccy/go-yaml"

	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/node/membership"
	"github.com/orbweaver/orbweaver/internal/node/settings"
	"github.com/orbweaver/orbweaver/internal/quantity"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// maxLooked bounds the seeds whose hosts a dry run asks for their robots.txt.
const maxLooked = 20

// A dryRun prints what a crawl would do, as text or as lines of JSON.
type dryRun struct {
	cmd *CrawlCmd
	cfg *node.Config
	api string // what --api would do
	r   *node.Rehearsal
	w   *tabwriter.Writer

	meeting membership.Meeting // with the agents of --join
}

// dryRun checks the crawl and prints what it would do. It writes no file and fetches only
// robots.txt. The error is the reason why the crawl could not start, or would fetch nothing.
func (c *CrawlCmd) dryRun(k *kong.Context, cfg node.Config, given *elsewhere, out io.Writer) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	for _, f := range []struct{ flag, name string }{{"cpuprofile", c.CPUProfile}, {"memprofile", c.MemProfile}} {
		if f.name == "" {
			continue
		}
		dir := filepath.Dir(f.name)
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			return bad("--%s %s: its directory does not exist; name a file that can be written", f.flag, f.name)
		}
		if err := disk.Writable(dir); err != nil {
			return bad("--%s %s: %v; name a file that can be written", f.flag, f.name, cause(err))
		}
	}
	examples, err := parseExamples(c.Example)
	if err != nil {
		return err
	}
	api, err := c.rehearse(cfg.Cluster)
	if err != nil {
		return err
	}
	if c.Quiet {
		out = io.Discard
	}
	r, err := node.Rehearse(cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	d := &dryRun{cmd: c, cfg: &cfg, api: api, r: r, w: tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)}
	settings, err := d.settings(k, given)
	if err != nil {
		return err
	}
	if d.meeting, err = r.Meet(ctx); err != nil {
		return err
	}
	if !c.JSON {
		fmt.Fprintf(out, "This is a dry run: it writes nothing, and fetches only robots.txt.\n\n")
		d.directory()
		d.identity()
		d.bounds()
		d.cluster()
		d.printSettings(settings)
		fmt.Fprintln(d.w)
		if err := d.w.Flush(); err != nil {
			return err
		}
	}
	visitable, err := d.seeds(ctx, out)
	if err != nil {
		return err
	}
	for _, t := range examples {
		if err := d.example(out, t); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return &exitError{code: exitSignal}
	}
	if c.JSON {
		if err := d.printJSON(out, d.summary(settings, visitable)); err != nil {
			return err
		}
	}
	if !d.possible(visitable) {
		return &exitError{exitNothing, "the crawl could start, but it would fetch nothing: no seed can be visited; " +
			"the reasons are above"}
	}
	if c.JSON {
		return nil
	}
	text := "The crawl could start."
	if m := &d.meeting; m.Waits != "" && m.Patience == 0 {
		text = fmt.Sprintf("The crawl could start, but first it would wait for %s.", m.Waits)
	} else if m.Waits != "" {
		text = fmt.Sprintf("The crawl could start, but first it would wait for %s, and give up after %s.", m.Waits,
			m.Patience)
	}
	_, err = fmt.Fprintln(out, "\n"+text)
	return err
}

// possible reports whether the crawl could fetch something.
func (d *dryRun) possible(visitable int) bool {
	return visitable > 0 || d.cmd.Resume && d.r.Waiting > 0
}

func parseExamples(texts []string) (all []input.TypedURL, err error) {
	for _, s := range texts {
		t, err := input.ParseURL("--example", s)
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

// row prints a line: what, and its value.
func (d *dryRun) row(what, format string, args ...any) {
	fmt.Fprintf(d.w, "%s\t%s\n", what, report.CleanText(fmt.Sprintf(format, args...)))
}

// directory prints where the crawl would write.
func (d *dryRun) directory() {
	c, r := d.cmd, d.r
	what := "would be created"
	switch {
	case c.Resume:
		what = "the crawl in it would continue; queued: " + plural(r.Waiting, "URL")
	case r.Exists:
		what = "the crawl in it WOULD BE DELETED, because of --overwrite"
	default:
		if _, err := os.Stat(c.Dir); err == nil {
			what = "exists, and is empty"
		}
	}
	d.row("directory", "%s: %s", c.Dir, what)
	files := c.Settings.Output.WARCPrefix + "-*-" + c.Settings.Cluster.Name + ".warc.gz"
	folder := cmp.Or(d.cfg.Archive.Segments.Pattern(c.Dir), r.Dir("archive"))
	d.row("archive", "%s, a new file after %s", filepath.Join(folder, files), c.Settings.Output.WARCSize)
	if d.cfg.Store.URL != "" {
		d.row("store", "%s", d.cfg.Store.URL)
	}
	d.row("logs", "%s", r.Dir("logs"))
	d.row("reports", "%s", r.Dir("reports"))
	d.row("api", "%s", d.api)
}

// identity prints how servers see the crawl.
func (d *dryRun) identity() {
	contact := cmp.Or(d.cfg.Contact, "none: only this machine is crawled")
	d.row("contact", "%s", contact)
	d.row("user agent", "%s", d.r.UserAgent)
	d.row("robots.txt", "the groups of %s are obeyed", d.r.Token)
}

// bounds prints the scope, the politeness and the limits.
func (d *dryRun) bounds() {
	c := d.cmd
	depth := "any depth"
	if c.Settings.Bounds.Depth >= 0 {
		depth = "at most " + plural(int64(c.Settings.Bounds.Depth), "link") + " from a seed"
	}
	if c.Settings.Bounds.HostDepth >= 0 {
		depth += ", at most " + plural(int64(c.Settings.Bounds.HostDepth), "link") + " within a host"
	}
	if c.Settings.Limits.SeedRoots {
		depth += ", with the root pages of all hosts"
	}
	d.row("scope", "%s, %s", c.Settings.Bounds.Scope, depth)
	d.row("sitemaps", "%s", c.Settings.Limits.TellSitemaps())
	d.row("politeness", "%s between requests to a host; robots.txt may ask for more", delayText(&c.Settings.Politeness))
	var limits []string
	if c.Settings.Limits.PageLimit > 0 {
		limits = append(limits, plural(c.Settings.Limits.PageLimit, "page"))
	}
	if c.Settings.Limits.HostPageLimit > 0 {
		limits = append(limits, plural(c.Settings.Limits.HostPageLimit, "page")+" of each host")
	}
	if c.Settings.Limits.SizeLimit > 0 {
		limits = append(limits, c.Settings.Limits.SizeLimit.String())
	}
	if c.Settings.Limits.TimeLimit > 0 {
		limits = append(limits, c.Settings.Limits.TimeLimit.String())
	}
	if len(limits) == 0 {
		limits = []string{"none: the crawl ends when no URL in scope is left"}
	}
	d.row("limits", "%s", strings.Join(limits, ", "))
}

// cluster prints how the agent would join its cluster.
func (d *dryRun) cluster() {
	cl := d.cfg.Cluster
	if cl == nil {
		return
	}
	d.row("agent", "%s at %s: the address is free", cl.Name, cl.Listen)
	if cl.Keys != "" {
		d.row("keys", "%s: valid, and made for agent %s", cl.Keys, cl.Name)
	}
	for _, j := range d.meeting.Join {
		switch {
		case j.Self:
			d.row("join", "%s: this agent", j.Addr)
		case j.Err != nil:
			d.row("join", "%s: no agent answers yet (%v)", j.Addr, j.Err)
		default:
			d.row("join", "%s: an agent answers", j.Addr)
		}
	}
	for _, j := range d.meeting.Coordinators {
		if j.Err != nil {
			d.row("coordinator", "%s: none answers yet (%v)", j.Addr, j.Err)
		} else {
			d.row("coordinator", "%s: it answers", j.Addr)
		}
	}
}

// settings returns the settings that were given, and where each comes from.
func (d *dryRun) settings(k *kong.Context, given *elsewhere) ([]plannedSetting, error) {
	before, err := d.before()
	if err != nil {
		return nil, err
	}
	all := []plannedSetting{}
	elsewhere := []string{"help", "dry-run", "example", "dir", "resume", "overwrite", "quiet", "json"}
	for _, f := range k.Selected().Flags {
		if slices.Contains(elsewhere, f.Name) {
			continue
		}
		typed := slices.ContainsFunc(k.Path, func(p *kong.Path) bool { return p.Flag == f && !p.Resolved })
		from := given.values[f.Name]
		if !typed && from.from == "" {
			continue
		}
		s := plannedSetting{Name: f.Name, Value: settings.Text(d.cmd.public(f)), From: "--" + f.Name}
		if !typed {
			s.From = from.from
		}
		old, had := before[f.Name]
		if text := settings.Text(old); had && text != s.Value {
			s.Before = &text
		} else if before != nil && !had && f.Name != "seeds" {
			s.Before = new(string)
		}
		all = append(all, s)
	}
	if h := d.cmd.hosts; len(h) > 0 {
		all = append(all, plannedSetting{Name: settings.HostsKey, From: h[0].At,
			Value: "of " + plural(int64(len(h)), "part") + " of the web"})
	}
	return all, nil
}

// printSettings prints the settings that were given.
func (d *dryRun) printSettings(all []plannedSetting) {
	if len(all) == 0 {
		fmt.Fprintln(d.w, "\nsettings\tall have their defaults")
		return
	}
	fmt.Fprintln(d.w, "\nsetting\tvalue and where it comes from")
	for _, s := range all {
		value := s.Value
		switch {
		case s.Before == nil:
		case *s.Before == "":
			value += ", which the crawl did not have before"
		default:
			value += " instead of " + *s.Before
		}
		d.row("  "+s.Name, "%s (%s)", value, s.From)
	}
}

// before returns the settings of the crawl that would be continued; nil: there is none.
func (d *dryRun) before() (map[string]any, error) {
	if !d.cmd.Resume {
		return nil, nil
	}
	b, err := os.ReadFile(d.r.Dir("crawl.yaml"))
	if err != nil {
		return nil, unreadable("--dir "+d.cmd.Dir, d.cmd.Dir, err, "restore the file")
	}
	m := map[string]any{}
	if err := yaml.Unmarshal(b, &m); err != nil {
		return nil, bad("%s: %v", d.r.Dir("crawl.yaml"), yaml.FormatError(err, false, false))
	}
	return m, nil
}

// delayText returns the delay of hosts for people.
func delayText(p *settings.Politeness) string {
	if p.Delay == quantity.Auto {
		return fmt.Sprintf("%g times the last response times, from %s to %s,", p.DelayFactor, p.DelayMin, p.DelayMax)
	}
	return p.Delay.String()
}

// seeds looks at the seeds and prints what would become of each. It returns how many could be visited.
func (d *dryRun) seeds(ctx context.Context, out io.Writer) (visitable int, err error) {
	if !d.cmd.JSON {
		fmt.Fprintf(out, "%s\n", plural(int64(len(d.r.Seeds)), "seed"))
	}
	for i, u := range d.r.Seeds {
		if i == maxLooked {
			if !d.cmd.JSON {
				fmt.Fprintf(out, "  and %d more, whose hosts are not asked\n", len(d.r.Seeds)-i)
			}
			break
		}
		s := plannedSeed{Type: "seed", URL: u.String()}
		if v, _ := d.r.Judge(u); !v.In {
			s.Reason = string(v.Reason)
		} else {
			p, err := d.r.Look(ctx, u)
			if ctx.Err() != nil {
				return visitable, nil
			}
			if err != nil {
				return visitable, err
			}
			s = planned(s.URL, p)
		}
		if s.Visitable {
			visitable++
		}
		if d.cmd.JSON {
			if err := d.printJSON(out, s); err != nil {
				return visitable, err
			}
			continue
		}
		d.seed(out, s)
	}
	return visitable, nil
}

// seed prints what would become of a seed.
func (d *dryRun) seed(out io.Writer, s plannedSeed) {
	fmt.Fprintf(out, "  %s\n", report.Clean(s.URL))
	if !s.InScope {
		fmt.Fprintf(out, "    out of scope: %s\n", s.Reason)
		return
	}
	if s.Asked != "" {
		fmt.Fprintf(out, "    no https connection can be made: %s would be asked instead\n", report.Clean(s.Asked))
	}
	if s.Address != "" {
		fmt.Fprintf(out, "    address %s\n", s.Address)
	}
	if s.Error != "" {
		fmt.Fprintf(out, "    cannot be visited now: %s\n", s.Error)
		return
	}
	rule := "no rule matches"
	if s.Rule != "" {
		rule = fmt.Sprintf("line %d: %s", s.Line, s.Rule)
	} else if s.Status != 0 && s.Status/100 != 2 {
		rule = fmt.Sprintf("status %d: there is none", s.Status)
	}
	word := "allows"
	if !s.Visitable {
		word = "forbids"
	}
	fmt.Fprintf(out, "    robots.txt %s it (%s)\n", word, rule)
	if u, err := weburl.Parse(cmp.Or(s.Asked, s.URL)); err == nil {
		if text := withheld(d.cfg.Hosts, u); text != "" {
			fmt.Fprintf(out, "    %s\n", text)
		}
	}
	if delay := max(s.delay, d.cmd.Settings.Politeness.Least()); delay > 0 && s.Visitable {
		pages := cmp.Or(d.cmd.Settings.Limits.HostPageLimit, d.cmd.Settings.Limits.PageLimit, 1000)
		fmt.Fprintf(out, "    %s of the host take at least %s\n", plural(pages, "page"),
			report.Span(time.Duration(min(pages, int64(math.MaxInt64/delay)))*delay))
	}
	if s.delay > d.cmd.Settings.Politeness.Least() {
		fmt.Fprintf(out, "    Crawl-delay %s instead of --delay %s\n", s.delay, d.cmd.Settings.Politeness.Delay)
	}
}

// example prints whether a URL of --example is in scope.
func (d *dryRun) example(out io.Writer, t input.TypedURL) error {
	v, lines := d.r.Judge(t.URL)
	e := plannedExample{Type: "example", URL: t.URL.String(), InScope: v.In, Reason: string(v.Reason)}
	for _, line := range lines[:len(lines)-1] { // the last one is the verdict
		e.Rules = append(e.Rules, report.OneLine(line))
	}
	if d.cmd.JSON {
		return d.printJSON(out, e)
	}
	word := "in scope"
	if !v.In {
		word = "out of scope"
	}
	fmt.Fprintf(out, "\nexample %s: %s\n", t.URL, word)
	for _, line := range e.Rules {
		fmt.Fprintf(out, "    %s\n", line)
	}
	return nil
}
