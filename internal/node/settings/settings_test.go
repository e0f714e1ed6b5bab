package settings

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/strategy"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/node/admin"
	"github.com/orbweaver/orbweaver/internal/quantity"
)

// with are settings that others need, so that they have an effect.
var with = map[string]func(*Settings){
	"topic": func(s *Settings) { s.Order.Strategy = "focused" },
	"model": func(s *Settings) { s.Cluster.Listen, s.Cluster.Partition = "127.0.0.1:7470", "topic" },
	"walk":  func(s *Settings) { s.Order.Strategy = "walk" },
	"delay": func(s *Settings) { s.Politeness.Delay = quantity.Auto },
	"kappa": func(s *Settings) { s.Cluster.Listen, s.Cluster.Partition = "127.0.0.1:7470", "ring" },
	"join":  func(s *Settings) { s.Cluster.Listen = "127.0.0.1:7470" },
}

// others are values of settings for which change has none.
var others = map[string]any{
	"segment": "1h", "segment-tables": "index", "local-archive": "0",
	"scope": "prefix", "near-duplicates": "mark", "rate": "3/s", "strategy": "list", "header": []string{"X-A: b"},
	"warcinfo": []string{"publisher=a"},
	"proxy":    "http://192.0.2.1:1", "boundary": "contents", "partition": "hash", "on-loss": "refetch",
	"content-hash": "near", "coverage": "two-level", "coordinator": []string{"127.0.0.1:7490"},
	"topic": []string{"science"}, "model": "languages", "listen": "127.0.0.1:7471", "delay-min": "3s", "kappa": "7",
	"sitemaps": []string{"true"}, "sitemap-from": "2026-11-30", "recovery": "3", "replicas": "1",
}

// change gives a setting another value than its default.
func change(t *testing.T, o Setting, s *Settings) {
	t.Helper()
	v := o.of(s)
	switch other := others[o.Name].(type) {
	case []string:
		v.Set(reflect.ValueOf(other))
	case string:
		if v.Kind() == reflect.Pointer {
			v.Set(reflect.New(v.Type().Elem()))
			v = v.Elem()
		}
		if err := parse(v, other); err != nil {
			t.Fatal(o.Name, err)
		}
	default:
		switch {
		case v.Kind() == reflect.Pointer:
			d := 7 * time.Second
			v.Set(reflect.ValueOf(&d))
		case v.Kind() == reflect.Bool:
			v.SetBool(true)
		case v.Kind() == reflect.String:
			v.SetString("x")
		case v.Kind() == reflect.Slice:
			v.Set(reflect.ValueOf([]string{"x"}))
		case v.CanInt():
			v.SetInt(v.Int() + 1)
		case v.CanUint():
			v.SetUint(v.Uint() + 1)
		default:
			v.SetFloat(v.Float()/2 + 0.25)
		}
	}
}

// Each setting changes the configuration of an agent, if it is not one that the strategy or the program reads, and each
// field that it is said to change.
func TestEachSettingChangesTheConfiguration(t *testing.T) {
	elsewhere := []string{"auth-file", "recrawl-min", "recrawl-max", "recrawl-rounds", "walkers",
		"walk-steps", "walk-jump", "walk-seed", "topic"}
	for o := range All() {
		var configs [2]node.Config
		for i := range configs {
			s := Defaults()
			for name, set := range with {
				needs := o.field.Tag.Get("with")
				switch {
				case strings.HasPrefix(o.Name, name) && (name != "delay" || needs == "delay=auto"),
					name == "join" && needs == "listen" && o.Name != "kappa":
					set(s)
				}
			}
			switch o.Name {
			case "topic":
				s.Order.Topic = []string{"arts"}
			case "content-hash":
				s.Cluster.Partition, s.Cluster.Boundary = "hash", "contents"
			case "boundary":
				s.Cluster.Partition = "hash"
			case "coordinator":
				s.Cluster.Partition, s.Cluster.Coordinator = "sites", []string{"127.0.0.1:7491"}
			case "store", "store-rate", "store-option", "local-archive":
				if o.Name != "store" {
					s.Output.Store = "s3://bucket"
				}
				s.Output.Segment, s.Output.WARCInfo = quantity.Span{End: true}, []string{"isPartOf=a"}
			case "coverage":
				s.Cluster.Partition, s.Cluster.Coordinator = "sites", []string{"127.0.0.1:7490"}
			}
			if i == 1 {
				change(t, o, s)
			}
			configs[i].Dir = t.TempDir()
			if err := s.Into(&configs[i]); err != nil {
				t.Fatalf("%s: %v", o.Name, err)
			}
			configs[i].Dir = ""
			at := slices.IndexFunc(configs[i].Settings, func(a admin.Setting) bool { return a.Name == o.Name })
			if shown := configs[i].Settings[at]; shown.Group == "" || (shown.Value == shown.Default) != (i == 0) &&
				!slices.Contains([]string{"content-hash", "topic", "coordinator"}, o.Name) {
				t.Errorf("%s is shown as %+v", o.Name, shown)
			}
			configs[i].Settings = nil
			if configs[i].Strategy != nil {
				configs[i].Contact += " " + s.Order.Strategy
			}
			configs[i].Strategy = nil
		}
		if same := reflect.DeepEqual(configs[0], configs[1]); same != slices.Contains(elsewhere, o.Name) {
			t.Errorf("%s: the configuration is the same: %v", o.Name, same)
		}
		for _, path := range o.Into() {
			if strings.HasPrefix(path, "Walk.") || strings.HasPrefix(path, "Recrawl.") {
				continue // see TestStrategies
			}
			of := func(c *node.Config) any {
				v := reflect.ValueOf(c).Elem()
				return v.FieldByIndex(pathIndex(v.Type(), path)).Interface()
			}
			if o.Name == "name" && path == "Cluster.Name" {
				continue // an agent alone has no cluster
			}
			if o.Name == "listen" {
				continue
			}
			if reflect.DeepEqual(of(&configs[0]), of(&configs[1])) {
				t.Errorf("%s does not change %s", o.Name, path)
			}
		}
	}
}

// The console shows no secret.
func TestShownWithoutSecrets(t *testing.T) {
	s := Defaults()
	s.Fetching.Header, s.Fetching.Proxy = []string{"X-API-Key: s3cret"}, "http://me:s3cret@192.0.2.1:3128"
	if text := fmt.Sprint(s.shown()); strings.Contains(text, "s3cret") || !strings.Contains(text, "192.0.2.1:3128") {
		t.Error(text)
	}
}

// The settings of strategies reach them.
func TestStrategies(t *testing.T) {
	s := Defaults()
	s.Order.RecrawlRounds, s.Order.Walkers, s.Order.WalkJump = 3, 5, 0
	var to target
	s.fill(reflect.ValueOf(&to).Elem(), "")
	if to.Recrawl != (strategy.RecrawlConfig{Min: time.Hour, Max: 720 * time.Hour, Rounds: 3}) ||
		to.Walk != (strategy.WalkConfig{Walkers: 5, Steps: 100_000, Jump: -1, Seed: 1}) {
		t.Errorf("%+v, %+v", to.Recrawl, to.Walk)
	}
	for _, name := range []string{"bfs", "list", "recrawl", "walk"} {
		s.Order.Strategy = name
		var cfg node.Config
		if err := s.Into(&cfg); err != nil || (cfg.Strategy == nil) != (name == "bfs") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The default of each setting is within its bounds, and one beyond them is refused with the name and the value.
func TestBounds(t *testing.T) {
	bounded := 0
	for o := range All() {
		if err := o.check(Defaults()); err != nil {
			t.Errorf("%s: %v", o.Name, err)
		}
		for tag, by := range map[string]int64{"least": -1, "above": 0, "most": 1} {
			bound := o.field.Tag.Get(tag)
			if bound == "" {
				continue
			}
			bounded++
			s, v := Defaults(), o.read(bound)
			switch {
			case v.CanInt():
				v.SetInt(v.Int() + by)
			case v.CanUint():
				v.SetUint(v.Uint() + uint64(by))
			default:
				v.SetFloat(v.Float() + float64(by))
			}
			if field := o.of(s); field.Kind() == reflect.Pointer {
				field.Set(reflect.New(field.Type().Elem()))
				field.Elem().Set(v)
			} else {
				field.Set(v)
			}
			var cfg node.Config
			err := s.Into(&cfg)
			bad, ok := errors.AsType[*input.ConfigError](err)
			if !ok || bad.Field != o.Name || !strings.HasPrefix(err.Error(), o.Name+" "+Text(v.Interface())) {
				t.Errorf("%s %s: %v", o.Name, Text(v.Interface()), err)
			}
		}
	}
	for o := range All() {
		if v := reflect.Indirect(o.of(Defaults())); v.IsValid() && (v.CanInt() || v.CanFloat()) && o.Option() != "" &&
			strings.HasSuffix(strings.TrimSpace(o.bounds()), "at most") {
			t.Errorf("%s: give %q", o.Name, o.bounds())
		}
	}
	if bounded < 40 {
		t.Errorf("%d bounds", bounded)
	}
	memory := named("memory")
	if least := memory.read(memory.field.Tag.Get("least")); least.Int() != node.LeastMemory {
		t.Errorf("the least memory is %s, and that of an agent is %d", Text(least.Interface()), node.LeastMemory)
	}
}

// A number that is none is refused.
func TestNotANumber(t *testing.T) {
	for _, text := range []string{"capacity", "delay-factor", "walk-jump", "host-share"} {
		s := Defaults()
		named(text).of(s).SetFloat(math.NaN())
		if err := named(text).check(s); err == nil {
			t.Errorf("%s NaN is accepted", text)
		}
	}
}

// A setting without an effect is refused, unless it is as usual or excepted.
func TestCheckUnused(t *testing.T) {
	none := func(string) bool { return false }
	if err := Defaults().CheckUnused(none); err != nil {
		t.Error(err)
	}
	s := Defaults()
	s.Order.Walkers = 3
	const want = "walkers 3 has no effect without strategy walk; leave it out, or add strategy walk"
	if err := s.CheckUnused(none); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if err := s.CheckUnused(func(name string) bool { return name == "walkers" }); err != nil {
		t.Error(err)
	}
	s.Order.Strategy = "walk"
	if err := s.CheckUnused(none); err != nil {
		t.Error(err)
	}
	s.Order.Model = "languages"
	if err := s.CheckUnused(none); err == nil || !strings.Contains(err.Error(), "strategy focused or partition topic") {
		t.Error(err)
	}
	s.Cluster.Listen, s.Cluster.Partition = "127.0.0.1:1", "topic"
	if err := s.CheckUnused(none); err != nil {
		t.Error(err)
	}
}
