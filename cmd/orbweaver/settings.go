package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/orbweaver/orbweaver/internal/node"
)

// settings are what "crawl" is told beside the command line: the environment,
// the YAML file of --config and, with --resume, the crawl.yaml that the crawl
// was begun with; the first of them that has a setting wins. Each setting is
// tried when it is read, so that an error can say where it stands.
type settings struct {
	environ []string // NAME=VALUE
	values  map[string]setting
	strange []string // variables that look like ours and are not
}

// A setting is the value of a flag: a string, or a list of them as []any.
type setting struct {
	value any
	from  string // where it stands, for errors
}

const envPrefix = "ORBWEAVER_"

// envName is the variable of a flag.
func envName(flag string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// lookup finds the variable of a flag. An empty one is as good as none.
func (s *settings) lookup(flag string) (string, bool) {
	for _, e := range s.environ {
		if name, value, _ := strings.Cut(e, "="); name == envName(flag) && value != "" {
			return value, true
		}
	}
	return "", false
}

// Validate implements kong.Resolver.
func (s *settings) Validate(*kong.Application) error { return nil }

// Resolve implements kong.Resolver.
func (s *settings) Resolve(_ *kong.Context, parent *kong.Path, flag *kong.Flag) (any, error) {
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

// BeforeResolve reads the settings once the command line is known.
func (c *CrawlCmd) BeforeResolve(ctx *kong.Context, s *settings) error {
	flags := map[string]*kong.Flag{}
	for _, f := range ctx.Selected().Flags {
		if f.Name != "help" {
			flags[f.Name] = f
		}
	}
	if err := s.gather(ctx, flags); err != nil {
		return &node.ConfigError{Text: err.Error()}
	}
	return nil
}

// onlyByHand are the flags that no file may set: they choose what becomes of a
// directory, or which file is read.
var onlyByHand = []string{"config", "resume", "overwrite", "unblock"}

// gather reads environment and files, the weaker after the stronger.
func (s *settings) gather(ctx *kong.Context, flags map[string]*kong.Flag) error {
	s.values = map[string]setting{}
	if err := s.fromEnvironment(flags); err != nil {
		return err
	}
	typed := func(name string) (value string, ok bool, err error) {
		n := 0
		for _, p := range ctx.Path {
			if p.Flag == flags[name] {
				n++
			}
		}
		if n > 1 && name == "config" {
			return "", false, errors.New("--config is given twice: put the settings into one file")
		}
		if n > 0 {
			return fmt.Sprint(ctx.FlagValue(flags[name])), true, nil
		}
		v, ok := s.values[name].value.(string)
		return v, ok, nil
	}
	file, ok, err := typed("config")
	if err != nil {
		return err
	}
	if ok {
		if err := s.fromFile(file, flags, onlyByHand); err != nil {
			return err
		}
	}
	if resume, _, _ := typed("resume"); resume != "true" && resume != "1" && resume != "yes" {
		return nil
	}
	dir, ok, _ := typed("dir")
	if !ok {
		dir = defaultDir
	}
	// Without the file, the agent says what is wrong with the directory.
	file = filepath.Join(dir, "crawl.yaml")
	if err := s.fromFile(file, flags, onlyByHand); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// fromEnvironment takes the variables of flags. One whose name is nearly that
// of a flag is a mistake.
func (s *settings) fromEnvironment(flags map[string]*kong.Flag) error {
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
			if near := nearest(name, slices.Sorted(maps.Keys(known))); near != "" {
				return fmt.Errorf("%s in the environment is no flag of \"orbweaver crawl\"; did you mean %s?", name,
					near)
			}
			s.strange = append(s.strange, name)
			continue
		}
		if err := s.take(flags[flag], value, name+" in the environment"); err != nil {
			return err
		}
	}
	return nil
}

// fromFile takes the keys of a YAML file, which are flags' names.
func (s *settings) fromFile(path string, flags map[string]*kong.Flag, refused []string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	file, err := parser.ParseBytes(b, 0)
	if err != nil {
		return fmt.Errorf("configuration %s: %s", path, strings.TrimSpace(yaml.FormatError(err, false, true)))
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
			return fmt.Errorf("%s, line %d: not a setting, such as page-limit: 100", path,
				body.GetToken().Position.Line)
		}
	}
	seen := map[string]bool{}
	for _, p := range pairs {
		key, at := p.Key.GetToken().Value, fmt.Sprintf("%s, line %d", path, p.Key.GetToken().Position.Line)
		flag := flags[key]
		switch {
		case flag == nil:
			if near := nearest(key, slices.Sorted(maps.Keys(flags))); near != "" {
				return fmt.Errorf("%s: unknown key %q; did you mean %q?", at, key, near)
			}
			return fmt.Errorf("%s: unknown key %q; the keys are the flags of \"orbweaver crawl\" without their dashes",
				at, key)
		case slices.Contains(refused, key):
			return fmt.Errorf("%s: %q is for the command line only", at, key)
		case seen[key]:
			return fmt.Errorf("%s: %q is set twice", at, key)
		}
		seen[key] = true
		v, err := plain(p.Value)
		if err != nil {
			return fmt.Errorf("%s: %s: %w", at, key, err)
		}
		if err := s.take(flag, v, at); err != nil {
			return err
		}
	}
	return nil
}

// plain is a node as the command line would have it.
func plain(n ast.Node) (any, error) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, nil
	case *ast.LiteralNode:
		return strings.TrimSpace(n.Value.Value), nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, nil
	case *ast.NullNode:
		return nil, errors.New("no value; leave the key out, or give it one")
	case *ast.SequenceNode:
		list := []any{}
		for _, e := range n.Values {
			v, err := plain(e)
			if err != nil {
				return nil, err
			}
			if _, ok := v.(string); !ok {
				return nil, errors.New("a list in a list")
			}
			list = append(list, v)
		}
		return list, nil
	}
	return nil, errors.New("neither a value nor a list of them")
}

// take tries a value and keeps it, unless a stronger one is there.
func (s *settings) take(flag *kong.Flag, value any, from string) error {
	list := flag.Target.Kind() == reflect.Slice
	switch v := value.(type) {
	case []any:
		if !list {
			return fmt.Errorf("%s: %s: takes one value, not a list", from, flag.Name)
		}
	case string:
		// In the environment a list is written as on the command line.
		if list && !strings.HasPrefix(from, envPrefix) {
			value = []any{v}
		}
	}
	try := reflect.New(flag.Target.Type()).Elem()
	if err := flag.Parse(kong.Scan().PushTyped(value, kong.FlagValueToken), try); err != nil {
		return fmt.Errorf("%s: %s", from, strings.TrimPrefix(err.Error(), "--"))
	}
	if v, ok := value.(string); ok && flag.Enum != "" && !flag.EnumMap()[v] {
		return fmt.Errorf("%s: %s: %q is none of %s", from, flag.Name, v, strings.Join(flag.EnumSlice(), ", "))
	}
	if v, ok := value.(string); ok && flag.Name == "partition" {
		if err := node.CheckPartition(v, nil); err != nil {
			return fmt.Errorf("%s: %s", from, strings.TrimPrefix(err.Error(), "--"))
		}
	}
	if _, stronger := s.values[flag.Name]; !stronger {
		s.values[flag.Name] = setting{value, from}
	}
	return nil
}

// nearest is the known word that a mistyped one was meant to be; empty if none
// is near.
func nearest(word string, known []string) string {
	bare := func(s string) string {
		return strings.NewReplacer("_", "", "-", "").Replace(strings.TrimPrefix(s, envPrefix))
	}
	best, at := "", 1+min(2, len(bare(word))/3)
	for _, k := range known {
		if d := distance(bare(word), bare(k)); d < at {
			best, at = k, d
		}
	}
	return best
}

// distance is Levenshtein's.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		prev := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			prev, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, prev+cost)
		}
	}
	return row[len(b)]
}
