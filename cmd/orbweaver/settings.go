package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/orbweaver/orbweaver/internal/cli"
	"github.com/orbweaver/orbweaver/internal/node/settings"
	"github.com/orbweaver/orbweaver/internal/store/crawldir"
	"github.com/orbweaver/orbweaver/internal/web/scope"
	"github.com/orbweaver/orbweaver/internal/web/sheet"
)

// elsewhere holds the flags of "crawl" that come from elsewhere than the command line. The sources, in order of
// precedence: the environment, the YAML file of --config and, with --resume, the crawl.yaml in the crawl directory.
// Each value is parsed when it is read, so that an error can name its file and line. It implements kong.Resolver.
type elsewhere struct {
	environ []string // NAME=VALUE
	errs    io.Writer
	values  map[string]setting
	hosts   []sheet.Entry // the section hosts: of the file that has one
	ignored []string      // notes about what names no flag: variables that begin with ORBWEAVER_, and removed settings
}

// A setting is the value of a flag: a string, or a list of strings as []any.
type setting struct {
	value any
	from  string // the file and line, or the variable, for errors; empty: it follows from other settings
}

const envPrefix = "ORBWEAVER_"

// envName returns the name of a flag's environment variable.
func envName(flag string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// lookup returns the value of a flag's environment variable. ok is false if the variable
// is not set or empty.
func (s *elsewhere) lookup(flag string) (value string, ok bool) {
	for _, e := range s.environ {
		if name, value, _ := strings.Cut(e, "="); name == envName(flag) && value != "" {
			return value, true
		}
	}
	return "", false
}

// dirs returns the crawl directories of a command line. If it names none, the result is the directory of the
// environment, or ./crawl, or the current directory if only that holds a crawl.
func (s *elsewhere) dirs(named []string) []string {
	if len(named) > 0 {
		return named
	}
	if dir, ok := s.lookup("dir"); ok {
		return []string{dir}
	}
	return []string{runningDir(defaultDir)}
}

func (s *elsewhere) Validate(*kong.Application) error { return nil }

// Resolve implements kong.Resolver: it returns a flag's value for "crawl", and the
// crawl directory for "ctl".
func (s *elsewhere) Resolve(_ *kong.Context, parent *kong.Path, flag *kong.Flag) (any, error) {
	switch {
	case parent.Node().Name == "crawl":
		return s.values[flag.Name].value, nil
	case parent.Node().Name == "ctl" && flag.Name == "dir":
		if dir, ok := s.lookup("dir"); ok {
			return dir, nil
		}
	}
	return nil, nil
}

// BeforeResolve reads the settings. Kong calls it when the command line has been parsed.
func (c *CrawlCmd) BeforeResolve(ctx *kong.Context, s *elsewhere, errs cli.ErrorOutput) error {
	s.errs = errs
	flags := map[string]*kong.Flag{}
	for _, f := range ctx.Selected().Flags {
		if f.Name != "help" && f.Name != "help-all" {
			flags[f.Name] = f
			for _, old := range f.Aliases {
				flags[old] = f
			}
		}
	}
	if err := s.gather(ctx, flags); err != nil {
		return bad("%v", err)
	}
	c.hosts = s.hosts
	return nil
}

// commandLineOnly reports whether a file may not set a flag: it chooses what happens to a crawl directory, or which
// file is read.
func commandLineOnly(f *kong.Flag) bool { return f.Tag.Get("for") == "command" }

// gather reads the environment and the files, in order of precedence.
func (s *elsewhere) gather(ctx *kong.Context, flags map[string]*kong.Flag) error {
	s.values = map[string]setting{}
	if err := s.fromEnvironment(flags); err != nil {
		return err
	}
	typed := func(name string) (value string, ok bool) {
		if isTyped(ctx, name) {
			return fmt.Sprint(ctx.FlagValue(flags[name])), true
		}
		value, ok = s.values[name].value.(string)
		return value, ok
	}
	file, ok := typed("config")
	if ok {
		if err := s.fromFile(file, flags); err != nil {
			if _, ok := errors.AsType[*fs.PathError](err); ok {
				return unreadable("--config "+file, file, err, "name a YAML file of settings")
			}
			return err
		}
	}
	dir, ok := typed("dir")
	if !ok {
		dir = defaultDir
	}
	isSet := func(flag string) bool {
		v, _ := typed(flag)
		return slices.Contains([]string{"true", "1", "yes"}, v)
	}
	if again := isSet("start-or-resume"); again || isSet("resume") {
		if isSet("quiet") {
			s.errs = io.Discard
		}
		options, _ := ctx.FlagValue(flags["store-option"]).([]string)
		there, err := s.fromStore(options, typed, dir, isSet("resume"), isSet("dry-run"))
		if err != nil {
			return err
		}
		if there && again {
			s.values["resume"] = setting{"true", "--start-or-resume"}
		}
	}
	if !isSet("resume") {
		return s.byScope(typed)
	}
	// If the file does not exist, the agent explains what is wrong with the directory.
	file = filepath.Join(dir, "crawl.yaml")
	err := s.fromFile(file, flags)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return unreadable("--dir "+dir, dir, err, "restore the file")
	}
	return err
}

// fromStore brings the newest saved state of a crawl into dir, if that holds no crawl and --store is given. If must is
// false, there need not be one. It reports whether dir holds a crawl. A dry run only looks at dir.
func (s *elsewhere) fromStore(options []string, typed func(string) (string, bool), dir string, must, dry bool) (
	there bool, err error) {
	url, _ := typed("store")
	switch { // without an environment, the command line is only parsed
	case !dry && url != "" && s.environ != nil:
	case must: // the agent explains what is wrong with dir
		return false, nil
	default:
		return crawldir.HoldsCrawl(nil, dir)
	}
	from, agent := placeOf(url), ""
	from.Options = options
	if listen, _ := typed("listen"); listen != "" {
		agent, _ = typed("name")
	}
	run, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	return settings.FromStore(run, from, dir, agent, must, s.errs)
}

// byScope sets what follows from the scope and the strategy unless it is given. A crawl that continues has it in its
// crawl.yaml.
func (s *elsewhere) byScope(typed func(name string) (value string, ok bool)) error {
	kind := scope.Host
	if text, ok := typed("scope"); ok {
		if err := kind.UnmarshalText([]byte(text)); err != nil {
			return nil // the error comes when the flag is parsed
		}
	}
	strategy, _ := typed("strategy")
	for name, on := range map[string]bool{"requisites": settings.WithRequisites(kind, strategy),
		"sitemaps": settings.WithSitemaps(kind, strategy)} {
		if _, given := s.values[name]; !given {
			s.values[name] = setting{value: strconv.FormatBool(on)}
		}
	}
	return nil
}

// fromEnvironment reads the environment variables of flags. A variable whose name is
// nearly that of a flag's variable is an error.
func (s *elsewhere) fromEnvironment(flags map[string]*kong.Flag) error {
	known := map[string]string{}
	for name := range flags {
		known[envName(name)] = name
	}
	for _, e := range s.environ {
		name, value, _ := strings.Cut(e, "=")
		if !strings.HasPrefix(name, envPrefix) || value == "" {
			continue
		}
		flag, ok := known[name]
		if !ok {
			if near := nearVariable(name, slices.Sorted(maps.Keys(known))); near != "" {
				return fmt.Errorf("%s in the environment matches no flag of crawl; did you mean %s?",
					name, near)
			}
			s.ignored = append(s.ignored, name+" in the environment matches no flag and is ignored")
			continue
		}
		if err := s.take(flags[flag], value, name+" in the environment"); err != nil {
			return err
		}
	}
	return nil
}

// fromFile reads a YAML file, whose keys are the names of flags.
func (s *elsewhere) fromFile(path string, flags map[string]*kong.Flag) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	file, err := parser.ParseBytes(b, 0)
	if err != nil {
		return settings.NotYAML(path, err)
	}
	var pairs []*ast.MappingValueNode
	for _, doc := range file.Docs {
		switch body := doc.Body.(type) {
		case nil, *ast.CommentGroupNode, *ast.NullNode:
		case *ast.MappingNode:
			pairs = append(pairs, body.Values...)
		case *ast.MappingValueNode:
			pairs = append(pairs, body)
		default:
			return fmt.Errorf("%s, line %d: this is not a setting; write settings such as page-limit: 100",
				path, body.GetToken().Position.Line)
		}
	}
	seen := map[string]bool{}
	for _, p := range pairs {
		key, at := p.Key.GetToken().Value, fmt.Sprintf("%s, line %d", path, p.Key.GetToken().Position.Line)
		flag := flags[key]
		if key == settings.HostsKey && !seen[key] {
			seen[key] = true
			entries, err := settings.ReadHosts(path, p.Value)
			if err != nil {
				return err
			}
			if s.hosts == nil {
				s.hosts = entries
			}
			continue
		}
		switch {
		case flag == nil && settings.IsRemoved(key):
			s.ignored = append(s.ignored, settings.Removed(at, key, p.Value)...)
			continue
		case flag == nil:
			if near := cli.Nearest(key, slices.Sorted(maps.Keys(flags))); near != "" {
				return fmt.Errorf("%s: unknown key %q; did you mean %q?", at, key, near)
			}
			return fmt.Errorf("%s: unknown key %q; use the flags of \"orbweaver crawl\" without dashes", at, key)
		case commandLineOnly(flag):
			return fmt.Errorf("%s: a file cannot set %q; give --%[2]s on the command line", at, key)
		case seen[key]:
			return fmt.Errorf("%s: %q is set twice; remove one of the lines", at, key)
		}
		seen[key] = true
		v, err := settings.Plain(p.Value)
		if err != nil {
			return fmt.Errorf("%s: %s: %w", at, key, err)
		}
		if err := s.take(flag, v, at); err != nil {
			return err
		}
	}
	return nil
}

// take checks that a flag accepts the value, and keeps it unless a source of higher
// precedence has set the flag.
func (s *elsewhere) take(flag *kong.Flag, value any, from string) error {
	list := flag.Target.Kind() == reflect.Slice
	switch v := value.(type) {
	case []any:
		if !list {
			return fmt.Errorf("%s: %s takes one value, not a list; give one", from, flag.Name)
		}
	case string:
		// In the environment a list is written as on the command line.
		if list && !strings.HasPrefix(from, envPrefix) {
			value = []any{v}
		}
	}
	try := reflect.New(flag.Target.Type()).Elem()
	if err := flag.Parse(kong.Scan().PushTyped(value, kong.FlagValueToken), try); err != nil {
		if v, ok := value.(string); ok && flag.Target.Kind() == reflect.Bool {
			return fmt.Errorf("%s: %s: %q is neither true nor false; write true or false", from, flag.Name, v)
		}
		return fmt.Errorf("%s: %s", from, strings.TrimPrefix(err.Error(), "--"))
	}
	if v, ok := value.(string); ok && flag.Enum != "" && !flag.EnumMap()[v] {
		return fmt.Errorf("%s: %s %q: give %s", from, flag.Name, v, cli.Choices(flag))
	}
	if _, stronger := s.values[flag.Name]; !stronger {
		s.values[flag.Name] = setting{value, from}
	}
	return nil
}

// nearVariable returns the known variable that is most similar to a mistyped one, or "".
func nearVariable(name string, known []string) string {
	var bare []string
	for _, k := range known {
		bare = append(bare, strings.TrimPrefix(k, envPrefix))
	}
	if near := cli.Nearest(strings.TrimPrefix(name, envPrefix), bare); near != "" {
		return envPrefix + near
	}
	return ""
}
