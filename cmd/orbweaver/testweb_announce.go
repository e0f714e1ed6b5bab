package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/orbweaver/orbweaver/internal/testweb"
)

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
		if err := c.writeCrawlConfig(flags); err != nil {
			return err
		}
	}
	line := []string{self(), "crawl"}
	for _, f := range flags {
		switch f.value {
		case "true":
			line = append(line, "--"+f.name)
		case "false":
			line = append(line, "--no-"+f.name)
		default:
			line = append(line, "--"+f.name, f.value)
		}
	}
	facts["crawl_flags"] = line[2:]
	if s.generated != nil {
		facts["pages"], facts["pages_exact"] = c.countPages(s.generated)
	}
	if s.topical != nil {
		facts["pages"], facts["pages_exact"] = s.topical.Pages(), true
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
	case s.topical != nil:
		describeTopical(out, s.topical)
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
		{"urls", c.URLs}, {"copies", c.CopiesOut}, {"topics", c.TopicsOut}, {"config", c.ConfigOut}} {
		if named(f.file) != "" {
			fmt.Fprintf(out, "%-8s %s\n", f.name, f.file)
		}
	}
	if c.Command != nil {
		_, err := fmt.Fprintf(out, "command  %s\n\n", warcCell(strings.Join(c.Command, " ")))
		return err
	}
	if named(c.ConfigOut) != "" {
		line = []string{self(), "crawl", "--config", c.ConfigOut}
	}
	if named(c.SeedsOut) == "" {
		line = append(line, s.seeds[:min(len(s.seeds), maxSeedsShown)]...)
	}
	if _, err = fmt.Fprintf(out, "\n%s\n\n", strings.Join(line, " ")); err == nil && named(c.SeedsOut) == "" &&
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
	if named(c.CAOut) != "" {
		name, err := filepath.Abs(c.CAOut)
		if err != nil {
			return nil, err
		}
		flags = append(flags, flag{"ca", name})
	} else { // without a file the crawl cannot know the authority
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
	if s.generated != nil && (c.Truth.Sitemaps || !s.anywhere && c.Truth.Scope != "any") {
		flags = append(flags, flag{"sitemaps", strconv.FormatBool(c.Truth.Sitemaps)})
	}
	if named(c.SeedsOut) != "" {
		name, err := filepath.Abs(c.SeedsOut)
		if err != nil {
			return nil, err
		}
		flags = append(flags, flag{"seeds", name})
	}
	return flags, nil
}

// writeCrawlConfig writes flags as the YAML that crawl --config reads.
func (c *TestwebCmd) writeCrawlConfig(flags []flag) error {
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
		case values[0] == "true" || values[0] == "false":
			b = fmt.Appendf(b, "%s: %s\n", f.name, values[0])
		case len(values) == 1:
			b = fmt.Appendf(b, "%s: %q\n", f.name, values[0])
		default:
			b = fmt.Appendf(b, "%s: [%s]\n", f.name, `"`+strings.Join(values, `", "`)+`"`)
		}
	}
	return c.write("config-out", c.ConfigOut, func(w *bufio.Writer) { w.Write(b) })
}
