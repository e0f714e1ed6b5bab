package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"

	"github.com/orbweaver/orbweaver/internal/cli"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/testweb"
)

// stdoutName is the name of a file that means standard output.
const stdoutName = "-"

// divert sends the text for people to errs if one of the files is standard output, so that nothing else is there. It
// refuses two texts on standard output.
func (c *TestwebCmd) divert(out, errs io.Writer) (io.Writer, error) {
	c.stdout = cli.Exact(out)
	taken := ""
	if c.AsJSON {
		taken = "the line of --json"
	}
	for _, f := range []struct{ flag, file string }{{"ca-out", c.CAOut}, {"seeds-out", c.SeedsOut},
		{"hosts-out", c.HostsOut}, {"config-out", c.ConfigOut}, {"urls", c.URLs}, {"log", c.Log},
		{"copies-out", c.CopiesOut}, {"report-out", c.ReportOut}, {"topics-out", c.TopicsOut}} {
		if f.file != stdoutName {
			continue
		}
		if taken != "" {
			return nil, bad("--%s -: standard output already has %s; name a file", f.flag, taken)
		}
		taken, out = "the file of --"+f.flag, errs
	}
	return out, nil
}

// named returns the name of a file; empty if there is none, because it is standard output.
func named(file string) string {
	if file == stdoutName {
		return ""
	}
	return file
}

// create opens the file of a flag for writing.
func (c *TestwebCmd) create(flag, name string) (io.WriteCloser, error) {
	if name == stdoutName {
		return unclosed{c.stdout}, nil
	}
	f, err := os.Create(name)
	if err != nil {
		return nil, fileError(flag, name, err)
	}
	return f, nil
}

// An unclosed is an output that its Close leaves open.
type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }

// write writes the file of a flag, unless its name is empty.
func (c *TestwebCmd) write(flag, name string, text func(w *bufio.Writer)) error {
	if name == "" {
		return nil
	}
	f, err := c.create(flag, name)
	if err != nil {
		return err
	}
	b := bufio.NewWriter(f)
	text(b)
	err = b.Flush()
	err = cmp.Or(err, f.Close())
	if err != nil {
		return fmt.Errorf("--%s %s: %w", flag, name, cause(err))
	}
	return nil
}

// fileError is the error of a flag's file that cannot be written.
func fileError(flag, name string, err error) error {
	return input.Errorf("--%s %s: %v; name a file that can be written", flag, name, cause(err))
}

// writeFiles writes the files that tell a crawler of the web.
func (c *TestwebCmd) writeFiles(w *testweb.Web, s served) error {
	if err := c.write("ca-out", c.CAOut, func(b *bufio.Writer) { b.Write(w.CAPEM()) }); err != nil {
		return err
	}
	if err := c.write("seeds-out", c.SeedsOut, func(b *bufio.Writer) {
		b.WriteString(strings.Join(s.seeds, "\n") + "\n")
	}); err != nil {
		return err
	}
	if s.topical != nil {
		if err := c.writeTopics(s.topical); err != nil {
			return err
		}
	}
	// The hosts that the name server knows: address, tab, name.
	if err := c.write("hosts-out", c.HostsOut, func(b *bufio.Writer) {
		w.EachHost(func(host string, addr netip.Addr) { fmt.Fprintf(b, "%s\t%s\n", addr, host) })
	}); err != nil {
		return err
	}
	if err := c.write("copies-out", c.CopiesOut, func(b *bufio.Writer) {
		for page, original := range s.generated.Copies() {
			fmt.Fprintf(b, "%s\t%s\t%g\n", s.generated.URL(page.Host, page.Page),
				s.generated.URL(original.Host, original.Page), s.generated.Edits())
		}
	}); err != nil {
		return err
	}
	return c.write("urls", c.URLs, func(b *bufio.Writer) {
		for u := range s.generated.URLs(c.URLsCount, uint64(1)) {
			b.WriteString(u + "\n")
		}
	})
}

// report writes the report to its file and prints the summary.
func (c *TestwebCmd) report(out io.Writer, r *testweb.Report) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := c.write("report-out", c.ReportOut, func(b *bufio.Writer) { b.Write(append(text, '\n')) }); err != nil {
		return err
	}
	if !c.AsJSON {
		summarize(out, r)
	}
	return nil
}

// siteFlag reads a value HOST=VALUE of a flag. HOST may be a URL of the host. The path of the URL is an error, unless
// the flag takes one.
func siteFlag(flag, text, form string, paths bool) (u input.TypedURL, value string, err error) {
	host, value, ok := strings.Cut(text, "=")
	if !ok || host == "" || value == "" {
		return u, "", bad("--%s %q: write %s", flag, text, form)
	}
	if u, err = input.ParseURL("--"+flag, host); err != nil {
		return u, "", err
	}
	switch {
	case u.URL.Authority() != u.URL.Host():
		return u, "", bad("--%s %q: a web has no other ports than 80 and 443; remove :%s", flag, text, u.URL.Port())
	case !paths && u.URL.RequestURI() != "/":
		return u, "", bad("--%s %q: %s is the path of a URL, but the value is for a whole host; write %s=%s", flag,
			text, u.URL.RequestURI(), u.URL.Host(), value)
	case u.URL.RequestURI() != u.URL.Path():
		return u, "", bad("--%s %q: a folder has no query; write %s", flag, text, form)
	}
	return u, value, nil
}

// startAt gives a URL of the web the scheme that was typed for it, if one was.
func startAt(typed input.TypedURL, url string) string {
	if _, rest, ok := strings.Cut(url, "://"); ok && !typed.Bare {
		return typed.URL.Scheme() + "://" + rest
	}
	return url
}
