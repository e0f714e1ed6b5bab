package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"github.com/dustin/go-humanize/english"

	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/node/settings"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/web/sheet"
)

// secrets reads the files of cookies and credentials, and sets the settings of parts of the web.
func (c *CrawlCmd) secrets(cfg *node.Config) error {
	cookies, auth := c.Settings.Fetching.CookieFile, c.Settings.Fetching.AuthFile
	if cookies != "" {
		b, err := readSecrets("--cookie-file", cookies, "name a file of cookies in the Netscape format", c.Resume)
		if err != nil {
			return err
		}
		l, err := cfg.Crawl.Cookies.Load("--cookie-file "+cookies, b, time.Now())
		if err != nil {
			return bad("%v", err)
		}
		c.skippedCookies = l.Skipped
	}
	hosts := slices.Clone(c.hosts)
	if auth != "" {
		b, err := readSecrets("--auth-file", auth, "name a file of credentials in the format of netrc", c.Resume)
		if err != nil {
			return err
		}
		more, err := sheet.ReadAuth("--auth-file "+auth, b)
		if err != nil {
			return bad("%v", err)
		}
		hosts = append(hosts, more...)
	}
	var err error
	if cfg.Hosts, err = sheet.New(hosts); err != nil {
		return bad("%v", err)
	}
	return nil
}

// maxSkippedShown is how many skipped lines of a cookie file the crawl names.
const maxSkippedShown = 5

// noteCookies says which lines of the cookie file are skipped.
func (c *CrawlCmd) noteCookies(errs io.Writer) {
	for _, why := range c.skippedCookies[:min(len(c.skippedCookies), maxSkippedShown)] {
		fmt.Fprintf(errs, "orbweaver: %s; the line is skipped\n", report.OneLine(why.Error()))
	}
	if more := len(c.skippedCookies) - maxSkippedShown; more > 0 {
		fmt.Fprintf(errs, "orbweaver: --cookie-file: %s skipped\n",
			english.Plural(more, "more line is", "more lines are"))
	}
}

// maxSecrets bounds a file of cookies or credentials, in bytes.
const maxSecrets = 1 << 20

// readSecrets reads a file of cookies or credentials. Crawl.yaml has only its name, so --resume (again) reads it again.
// remedy says which file to name.
func readSecrets(flag, name, remedy string, again bool) ([]byte, error) {
	info, err := os.Stat(name)
	var b []byte
	if err == nil {
		switch {
		case info.IsDir():
			return nil, bad("%s %s is a directory; name a file", flag, name)
		case info.Size() > maxSecrets:
			return nil, bad("%s %s has %d bytes, at most %d are read; remove the lines that the crawl does not need",
				flag, name, info.Size(), maxSecrets)
		}
		b, err = os.ReadFile(name)
	}
	if err != nil {
		if again {
			remedy = "a crawl that continues reads the file again: restore it, or name another one"
		}
		return nil, unreadable(flag+" "+name, name, err, remedy)
	}
	return b, nil
}

// public returns the value of a flag for crawl.yaml: without secrets, and files and directories by their absolute
// names, because a crawl may continue in another working directory.
func (c *CrawlCmd) public(f *kong.Flag) any {
	value := settings.Redacted(f.Name, f.Target.Interface())
	name, isText := value.(string)
	switch {
	case f.Name == "model" && slices.Contains(settings.BuiltinModels, name): // no file
	case isText && name != "" && name != "-" && (f.PlaceHolder == "FILE" || f.PlaceHolder == "DIR"):
		if abs, err := filepath.Abs(name); err == nil {
			return abs
		}
	}
	return value
}

// fromConfig sets the flags that the settings file gives and the command line does not. It returns the section hosts:
// of the file.
func (c *CheckScopeCmd) fromConfig(k *kong.Context) (*sheet.Live, error) {
	if c.Config == "" && len(c.Seed) == 0 {
		return nil, bad("check scope needs --seed URL, --seeds FILE, or the settings file of a crawl with --config")
	}
	if c.Config == "" {
		return nil, nil
	}
	flags := map[string]*kong.Flag{}
	for _, n := range k.Model.Children {
		if n.Name == "crawl" {
			for _, f := range n.Flags {
				flags[f.Name] = f
			}
		}
	}
	s := &elsewhere{values: map[string]setting{}}
	if err := s.fromFile(c.Config, flags); err != nil {
		if _, ok := errors.AsType[*fs.PathError](err); ok {
			return nil, unreadable("--config "+c.Config, c.Config, err, "name a YAML file of settings")
		}
		return nil, bad("%v", err)
	}
	for _, f := range k.Selected().Flags {
		v, ok := s.values[f.Name]
		if !ok || isTyped(k, f.Name) || f.Tag.Get("into") == "" && f.Tag.Get("at") == "" {
			continue
		}
		if err := f.Parse(kong.Scan().PushTyped(v.value, kong.FlagValueToken), f.Target); err != nil {
			return nil, bad("%s: %v", v.from, err)
		}
	}
	t, err := sheet.Explainable(s.hosts)
	if err != nil {
		return nil, bad("%v", err)
	}
	if err := c.seedsOf(s); err != nil {
		return nil, err
	}
	live := &sheet.Live{}
	live.Set(t)
	return live, nil
}

// seedsOf reads the seeds that the settings file names, or those of the crawl that it belongs to.
func (c *CheckScopeCmd) seedsOf(s *elsewhere) error {
	if len(c.Seed) > 0 {
		return nil
	}
	names, _ := s.values["seeds"].value.([]any)
	for _, name := range names {
		if name == "-" {
			continue
		}
		more, err := readSeeds(name.(string))
		if err != nil {
			return err
		}
		c.Seed = append(c.Seed, more...)
	}
	if len(c.Seed) == 0 {
		b, err := os.ReadFile(filepath.Join(filepath.Dir(c.Config), "state", "seeds.txt"))
		if errors.Is(err, fs.ErrPermission) {
			return unreadable("--config "+c.Config, c.Config, err, "give --seed URL")
		}
		c.Seed = strings.Fields(string(b))
	}
	if len(c.Seed) == 0 {
		return bad("check scope needs --seed URL or --seeds FILE: %s belongs to no crawl with seeds", c.Config)
	}
	return nil
}
