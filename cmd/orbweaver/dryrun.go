package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/alecthomas/kong"
	"github.com/dustin/go-humanize"
	"github.com/goccy/go-yaml"

	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/node/admin"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/web/robots"
)

// maxLooked bounds the seeds whose hosts a dry run asks for their robots.txt.
const maxLooked = 20

// A dryRun prints what a crawl would do.
type dryRun struct {
	cmd *CrawlCmd
	cfg *node.Config
	r   *node.Rehearsal
	w   *tabwriter.Writer
}

// dryRun checks the crawl and prints what it would do. It writes no file and fetches only
// robots.txt. The error is the reason why the crawl could not start, or would fetch nothing.
func (c *CrawlCmd) dryRun(k *kong.Context, cfg node.Config, given *settings, out io.Writer) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	for _, f := range []struct{ flag, name string }{{"cpuprofile", c.CPUProfile}, {"memprofile", c.MemProfile}} {
		if f.name == "" {
			continue
		}
		if info, err := os.Stat(filepath.Dir(f.name)); err != nil || !info.IsDir() {
			return bad("--%s %s: its directory does not exist; name a file that can be written", f.flag, f.name)
		}
	}
	examples, err := parseExamples(c.Example)
	if err != nil {
		return err
	}
	if c.API != "" {
		ln, err := admin.Reserve(c.API)
		if err != nil {
			return bad("--%v", err)
		}
		if err := ln.Close(); err != nil {
			return err
		}
	}
	if c.Quiet {
		out = io.Discard
	}
	r, err := node.Rehearse(cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	d := &dryRun{c, &cfg, r, tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)}
	fmt.Fprintf(out, "This is a dry run: it writes nothing, and fetches only robots.txt.\n\n")
	d.directory()
	d.identity()
	d.bounds()
	d.cluster(ctx)
	if err := d.settings(k, given); err != nil {
		return err
	}
	fmt.Fprintln(d.w)
	if err := d.w.Flush(); err != nil {
		return err
	}
	good, err := d.seeds(ctx, out)
	if err != nil {
		return err
	}
	for _, t := range examples {
		d.example(out, t)
	}
	switch {
	case ctx.Err() != nil:
		return &exitError{code: exitSignal}
	case !good && !(c.Resume && r.Waiting > 0):
		return &exitError{exitNothing, "the crawl could start, but it would fetch nothing: no seed can be visited; " +
			"the reasons are above"}
	}
	_, err = fmt.Fprintln(out, "\nThe crawl could start.")
	return err
}

func parseExamples(texts []string) (all []node.TypedURL, err error) {
	for _, s := range texts {
		t, err := node.ParseURL("--example", s)
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
		what = fmt.Sprintf("the crawl in it would continue; %s URLs wait", humanize.Comma(r.Waiting))
	case r.Exists:
		what = "the crawl in it WOULD BE DELETED, because of --overwrite"
	default:
		if _, err := os.Stat(c.Dir); err == nil {
			what = "exists, and is empty"
		}
	}
	d.row("directory", "%s: %s", c.Dir, what)
	d.row("archive", "%s, a new file after %s", filepath.Join(r.Dir("archive"), c.WARCPrefix+"-*-"+c.Name+".warc.gz"),
		humanize.Bytes(uint64(c.WARCSize)))
	d.row("logs", "%s", r.Dir("logs"))
	d.row("reports", "%s", r.Dir("reports"))
	if c.API != "" {
		d.row("api", "%s: free", c.API)
	}
}

// identity prints how servers see the crawl.
func (d *dryRun) identity() {
	contact := d.cfg.Contact
	if contact == "" {
		contact = "none: only this machine is crawled"
	}
	d.row("contact", "%s", contact)
	d.row("user agent", "%s", d.r.UserAgent)
	d.row("robots.txt", "the groups of %s are obeyed", d.r.Token)
}

// bounds prints the scope, the politeness and the limits.
func (d *dryRun) bounds() {
	c := d.cmd
	depth := "any depth"
	if c.Depth >= 0 {
		depth = fmt.Sprintf("at most %d links from a seed", c.Depth)
	}
	d.row("scope", "%s, %s", c.Scope, depth)
	d.row("politeness", "%s between requests to a host; robots.txt may ask for more", c.Delay)
	var limits []string
	if c.PageLimit > 0 {
		limits = append(limits, plural(c.PageLimit, "page"))
	}
	if c.HostPageLimit > 0 {
		limits = append(limits, plural(c.HostPageLimit, "page")+" of each host")
	}
	if c.SizeLimit > 0 {
		limits = append(limits, humanize.Bytes(uint64(c.SizeLimit)))
	}
	if c.TimeLimit > 0 {
		limits = append(limits, c.TimeLimit.String())
	}
	if len(limits) == 0 {
		limits = []string{"none: the crawl ends when no URL in scope is left"}
	}
	d.row("limits", "%s", strings.Join(limits, ", "))
}

// cluster prints how the agent would join its cluster.
func (d *dryRun) cluster(ctx context.Context) {
	cl := d.cfg.Cluster
	if cl == nil {
		return
	}
	d.row("agent", "%s at %s: the address is free", cl.Name, cl.Listen)
	if cl.Keys != "" {
		d.row("keys", "%s: valid, and made for agent %s", cl.Keys, cl.Name)
	}
	for _, addr := range cl.Join {
		if addr == cl.Listen {
			d.row("join", "%s: this agent", addr)
		} else if err := d.r.Reach(ctx, addr); err != nil {
			d.row("join", "%s: no agent answers yet (%v)", addr, err)
		} else {
			d.row("join", "%s: answers", addr)
		}
	}
}

// settings prints the settings that differ from their defaults, and where each comes from.
func (d *dryRun) settings(k *kong.Context, given *settings) error {
	before, err := d.before()
	if err != nil {
		return err
	}
	head := false
	for _, f := range k.Selected().Flags {
		if slices.Contains([]string{"help", "dry-run", "example", "dir", "resume", "overwrite", "quiet"}, f.Name) {
			continue
		}
		typed := slices.ContainsFunc(k.Path, func(p *kong.Path) bool { return p.Flag == f && !p.Resolved })
		from, set := given.values[f.Name]
		if !typed && !set {
			continue
		}
		where := "--" + f.Name
		if !typed {
			where = from.from
		}
		if !head {
			fmt.Fprintln(d.w, "\nsetting\tvalue and where it comes from")
			head = true
		}
		value := settingText(d.cmd.public(f))
		if old, ok := before[f.Name]; ok && settingText(old) != value {
			value = fmt.Sprintf("%s instead of %s", value, settingText(old))
		} else if before != nil && !ok && (typed || set) && f.Name != "seeds" {
			value += ", which the crawl did not have before"
		}
		d.row("  "+f.Name, "%s (%s)", value, where)
	}
	if h := d.cmd.hosts; len(h) > 0 {
		if !head {
			fmt.Fprintln(d.w, "\nsetting\tvalue and where it comes from")
			head = true
		}
		d.row("  "+hostsKey, "of %s of the web (%s)", plural(int64(len(h)), "part"), h[0].At)
	}
	if !head {
		fmt.Fprintln(d.w, "\nsettings\tall have their defaults")
	}
	return nil
}

// before returns the settings of the crawl that would be continued; nil: there is none.
func (d *dryRun) before() (map[string]any, error) {
	if !d.cmd.Resume {
		return nil, nil
	}
	b, err := os.ReadFile(d.r.Dir("crawl.yaml"))
	if err != nil {
		return nil, bad("--dir %s: crawl.yaml: %v; run the crawl as the user who started it", d.cmd.Dir, cause(err))
	}
	m := map[string]any{}
	if err := yaml.Unmarshal(b, &m); err != nil {
		return nil, bad("%s: %v", d.r.Dir("crawl.yaml"), yaml.FormatError(err, false, false))
	}
	return m, nil
}

// settingText returns the value of a setting as text.
func settingText(v any) string {
	switch x := reflect.Indirect(reflect.ValueOf(v)); {
	case !x.IsValid():
		return "none"
	case x.Kind() == reflect.Slice:
		var all []string
		for i := range x.Len() {
			all = append(all, fmt.Sprint(x.Index(i).Interface()))
		}
		return strings.Join(all, ", ")
	default:
		return fmt.Sprint(x.Interface())
	}
}

// seeds looks at the seeds and prints what would become of each. good reports that one of them could
// be visited.
func (d *dryRun) seeds(ctx context.Context, out io.Writer) (good bool, err error) {
	fmt.Fprintf(out, "%s\n", plural(int64(len(d.r.Seeds)), "seed"))
	for i, u := range d.r.Seeds {
		if i == maxLooked {
			fmt.Fprintf(out, "  and %d more, whose hosts are not asked\n", len(d.r.Seeds)-i)
			break
		}
		fmt.Fprintf(out, "  %s\n", report.Clean(u.String()))
		if v, _ := d.r.Judge(u); !v.In {
			fmt.Fprintf(out, "    out of scope: %s\n", v.Reason)
			continue
		}
		p, err := d.r.Look(ctx, u)
		if ctx.Err() != nil {
			return good, nil
		}
		if err != nil {
			return good, err
		}
		if p.URL != u {
			fmt.Fprintf(out, "    no https connection can be made: %s would be asked instead\n", p.URL)
		}
		if p.Addr != "" {
			fmt.Fprintf(out, "    address %s\n", p.Addr)
		}
		good = d.verdict(out, p) || good
	}
	return good, nil
}

// verdict prints what robots.txt says about a seed. It reports whether the seed could be visited.
func (d *dryRun) verdict(out io.Writer, p node.Prospect) bool {
	if p.Failed != "" {
		fmt.Fprintf(out, "    cannot be visited now: %s\n", report.OneLine(p.Failed))
		return false
	}
	rule := "no rule matches"
	if p.Robots.Rule != "" {
		rule = fmt.Sprintf("line %d: %s", p.Robots.Line, report.OneLine(p.Robots.Rule))
	}
	word := "allows it"
	if p.Robots.Verdict != robots.Allowed {
		word = "forbids it"
	}
	if p.Status != 0 && p.Status/100 != 2 {
		rule = fmt.Sprintf("status %d: there is none", p.Status)
	}
	fmt.Fprintf(out, "    robots.txt %s (%s)\n", word, rule)
	if p.Robots.Delay > d.cmd.Delay {
		fmt.Fprintf(out, "    Crawl-delay %s instead of --delay %s\n", p.Robots.Delay, d.cmd.Delay)
	}
	return word == "allows it"
}

// example prints whether a URL of --example is in scope.
func (d *dryRun) example(out io.Writer, t node.TypedURL) {
	v, lines := d.r.Judge(t.URL)
	word := "in scope"
	if !v.In {
		word = "out of scope"
	}
	fmt.Fprintf(out, "\nexample %s: %s\n", t.URL, word)
	for _, line := range lines[:len(lines)-1] {
		fmt.Fprintf(out, "    %s\n", report.OneLine(line))
	}
}
