package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/goccy/go-yaml"
)

// fileSettings reads flags from one YAML file: the one of --config, or, with
// --resume, the crawl.yaml that the crawl was begun with. Keys are the flags'
// names; an unknown one is an error. What is set on the command line or in
// the environment wins.
type fileSettings struct {
	args   []string
	path   string
	values map[string]any
	err    error
	loaded bool
}

// Validate implements kong.Resolver.
func (s *fileSettings) Validate(app *kong.Application) error {
	s.load()
	if s.err != nil || s.values == nil {
		return s.err
	}
	var known []string
	for _, n := range app.Children {
		if n.Name == "crawl" {
			for _, f := range n.Flags {
				known = append(known, f.Name)
			}
		}
	}
	for key := range s.values {
		if !slices.Contains(known, key) {
			return fmt.Errorf("%s: unknown key %q%s", s.path, key, didYouMean(key, known))
		}
	}
	return nil
}

// Resolve implements kong.Resolver.
func (s *fileSettings) Resolve(_ *kong.Context, parent *kong.Path, flag *kong.Flag) (any, error) {
	s.load()
	if s.err != nil || s.values == nil {
		return nil, s.err
	}
	for _, env := range flag.Tag.Envs {
		if _, ok := os.LookupEnv(env); ok {
			return nil, nil
		}
	}
	v, ok := s.values[flag.Name]
	if !ok || parent.Node().Name != "crawl" {
		return nil, nil
	}
	return v, nil
}

// load reads the file that the arguments name, before they are parsed.
func (s *fileSettings) load() {
	if s.loaded {
		return
	}
	s.loaded = true
	if !slices.Contains(s.args, "crawl") {
		return
	}
	s.path = s.arg("config")
	if s.path == "" && slices.Contains(s.args, "--resume") {
		dir := s.arg("dir")
		if dir == "" {
			dir = defaultDir
		}
		s.path = filepath.Join(dir, "crawl.yaml")
		if _, err := os.Stat(s.path); err != nil {
			s.path = "" // the agent says what is wrong with the directory
		}
	}
	if s.path == "" {
		return
	}
	b, err := os.ReadFile(s.path)
	if err != nil {
		s.err = fmt.Errorf("configuration: %w", err)
		return
	}
	if err := yaml.Unmarshal(b, &s.values); err != nil {
		s.err = fmt.Errorf("configuration %s: %s", s.path, yaml.FormatError(err, false, true))
	}
}

// arg finds --name VALUE or --name=VALUE in the arguments, else in the
// environment.
func (s *fileSettings) arg(name string) string {
	for i, a := range s.args {
		if v, ok := strings.CutPrefix(a, "--"+name+"="); ok {
			return v
		}
		if a == "--"+name && i+1 < len(s.args) {
			return s.args[i+1]
		}
	}
	return os.Getenv("ORBWEAVER_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_")))
}

// didYouMean names the known word nearest to key, if one is near.
func didYouMean(key string, known []string) string {
	best, at := "", 3
	for _, k := range known {
		if d := distance(key, k); d < at {
			best, at = k, d
		}
	}
	if best == "" {
		return `; the keys are the flags of "orbweaver crawl" without their dashes`
	}
	return fmt.Sprintf("; did you mean %q?", best)
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
