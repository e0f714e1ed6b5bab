package orbweaver

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/node/settings"
	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// ofProgram are settings that the program has, and the library has not, and those of coordinators.
var ofProgram = []string{"assign", "auth-file", "config", "cookie-file", "unblock",
	"warc-prefix", "warc-size", "warcinfo"}

// Each setting that an error of a package names is an option here, and each option is a field of Options.
func TestSettingsAreOptions(t *testing.T) {
	text, setting := regexp.MustCompile(`"[^"\n]*"`), regexp.MustCompile(`(?:^|[^$])\{([a-z]+(-[a-z]+)*)\}`)
	found := 0
	err := filepath.WalkDir("internal", func(name string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		b, err := os.ReadFile(name)
		for _, s := range text.FindAllString(string(b), -1) {
			for _, m := range setting.FindAllStringSubmatch(s, -1) {
				if found++; !strings.ContainsAny(optionOf(m[1]), ". ") && !slices.Contains(ofProgram, m[1]) {
					t.Errorf("%s: %s: the library has no option for %s", name, s, m[1])
				}
			}
		}
		return err
	})
	if err != nil || found < 60 {
		t.Errorf("%d settings were found, %v", found, err)
	}
}

// Each setting with an option is made from a field of Options, and each field of Options is a setting or one of the
// library alone.
func TestOptionsAreSettings(t *testing.T) {
	alone := []string{"Options.Dir", "Options.Overwrite", "Options.Seeds", "Options.OnPage", "Options.Callbacks",
		"Options.AllResponses", "Options.Scope.Func", "Options.MaxPageBytes", "Options.RootCAs", "Options.Note",
		"Options.Strategy", "Walk.Seed"}
	fields := map[string]bool{} // whether a setting is made from it
	var add func(of reflect.Type, prefix string)
	add = func(of reflect.Type, prefix string) {
		for f := range of.Fields() {
			inner := f.Type
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			switch {
			case inner.Kind() == reflect.Struct && inner.PkgPath() == of.PkgPath():
				add(inner, prefix+f.Name+".")
			case f.IsExported():
				fields[prefix+f.Name] = slices.Contains(alone, prefix+f.Name)
			}
		}
	}
	add(reflect.TypeFor[withStrategy](), "")
	for s := range settings.All() {
		if path := s.Option(); path != "" {
			if _, ok := fields[path]; !ok {
				t.Errorf("%s: there is no option %s", s.Name, path)
			}
			fields[path] = true
		}
	}
	for path, used := range fields {
		if !used {
			t.Errorf("%s changes no setting", path)
		}
	}
	if len(fields) < 69 {
		t.Errorf("%d fields", len(fields))
	}
}

// An error names options, its parts can be told apart, and errors.Is finds its kind.
func TestConfigError(t *testing.T) {
	const given = "a {kappa} %s"
	wrong := input.Errorf("{kappa} %d: with {partition} %s it has no meaning; leave it out, or {resume}", 0, given)
	err := explain(wrong)
	bad, ok := errors.AsType[*ConfigError](err)
	want := ConfigError{"Options.Cluster.Kappa", "0", "Options.Cluster.Kappa 0: with Options.Cluster.Partition " +
		given + " it has no meaning", "leave it out, or another call of Crawl", wrong}
	if !ok || *bad != want || !errors.Is(err, ErrOptions) || err.Error() != "orbweaver: "+bad.Error() {
		t.Errorf("got %v, %+v", err, bad)
	}
	err = explain(input.Errorf("%s is in use; choose another {dir}", "x").Because(disk.ErrLocked))
	if !errors.Is(err, ErrInUse) || errors.Is(err, ErrOptions) ||
		err.Error() != "orbweaver: x is in use; choose another Options.Dir" {
		t.Errorf("in use: %v", err)
	}
}

// named is a Strategy with the name of one of the program.
type named struct{ FollowFunc }

func (named) String() string { return "focused" }

// A Strategy of a program is its own, whatever its String says.
func TestStrategyWithString(t *testing.T) {
	o := Options{Dir: filepath.Join(t.TempDir(), "crawl"), Strategy: named{func(*Page, Link) Choice { return Take }}}
	s, err := o.settings()
	if err != nil || s.Order.Strategy != "bfs" {
		t.Fatalf("%+v, %v", s, err)
	}
	if cfg, err := o.config(t.Context()); err != nil || cfg.Strategy == nil {
		t.Errorf("%v", err)
	}
}
