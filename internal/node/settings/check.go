package settings

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/node/membership"
	"github.com/orbweaver/orbweaver/internal/quantity"
)

// check returns an *input.ConfigError if no crawl can have these settings. It reads no file but those of Keys and of
// the crawl in dir, which the crawl continues if resumed.
func (s *Settings) check(dir string, resumed bool) error {
	for o := range All() {
		if err := o.check(s); err != nil {
			return err
		}
	}
	return cmp.Or(s.checkPairs(), s.checkCluster(dir, resumed))
}

// maxCrawlName is the longest name of a crawl with segments, in bytes.
const maxCrawlName = 200

// maxSegmentWARC is the largest WARC file of a segment.
const maxSegmentWARC = 2_000_000_000

// checkPairs returns an *input.ConfigError if two settings exclude each other.
func (s *Settings) checkPairs() error {
	const alone = " %s, which alone says what is visited; give bfs or recrawl"
	order, least, most := s.Order.Strategy, s.Politeness.DelayMin, s.Politeness.DelayMax
	walk := order == "walk"
	switch {
	case most < least:
		return input.Errorf("{delay-max} %s is shorter than {delay-min} %s; give a longer one", most, least)
	case s.Order.RecrawlMin <= 0 || s.Order.RecrawlMax < s.Order.RecrawlMin:
		return input.Errorf("{recrawl-min} %s and {recrawl-max} %s: give durations above 0, the second not below the "+
			"first", s.Order.RecrawlMin, s.Order.RecrawlMax)
	case s.Output.WARCPrefix == "" || strings.ContainsAny(s.Output.WARCPrefix, `/\`):
		return input.Errorf("{warc-prefix} %q: give a part of a file's name, such as orbweaver", s.Output.WARCPrefix)
	case s.Output.Segment != (quantity.Span{}) && s.Output.WARCSize > maxSegmentWARC:
		return input.Errorf("{warc-size} %s: with {segment} a WARC file has at most %s, because tables have offsets "+
			"of 32 bits", s.Output.WARCSize, quantity.ByteSize(maxSegmentWARC))
	case s.Output.Store != "" && s.Output.Segment == (quantity.Span{}):
		return input.Errorf("{store} %s: a store gets segments, so give {segment}, too, such as 1h", s.Output.Store)
	case walk && s.Bounds.Depth >= 0:
		return input.Errorf("{depth} %d has no effect with {strategy} walk; bound the walks with {walk-steps} and "+
			"{walk-jump}", s.Bounds.Depth)
	case walk && s.Bounds.HostDepth >= 0:
		return input.Errorf("{host-depth} %d has no effect with {strategy} walk; bound the walks with {walk-steps} "+
			"and {walk-jump}", s.Bounds.HostDepth)
	case s.Limits.SeedRoots && (walk || order == "list"):
		return input.Errorf("{seed-roots} has no effect with {strategy}"+alone, order)
	case s.twoLevel() && (walk || order == "list"):
		return input.Errorf("{coverage} two-level has no effect with {strategy}"+alone, order)
	}
	return nil
}

// checkCluster returns an *input.ConfigError if no agents can divide their work so, or not those of the crawl in dir,
// which continues if resumed.
func (s *Settings) checkCluster(dir string, resumed bool) error {
	if err := membership.CheckPartition(s.Cluster.Partition, s.Cluster.Kappa); err != nil || s.Cluster.Listen == "" {
		return err
	}
	switch s.Order.Strategy {
	case "walk":
		if err := node.CheckWalk(s.Cluster.Partition); err != nil {
			return err
		}
	case "recrawl":
		if err := membership.CheckPlanner(s.Cluster.OnLoss, s.Order.Strategy); err != nil {
			return err
		}
	}
	var cl membership.Config
	s.fill(reflect.ValueOf(&cl).Elem(), "Cluster.")
	cl.TwoLevel = s.twoLevel()
	if resumed { // the settings of the crawl are those of its partition
		if err := cl.CheckResumed(dir); err != nil {
			return err
		}
	}
	return cl.CheckDivision()
}

// twoLevel reports whether agents send no links to each other.
func (s *Settings) twoLevel() bool { return s.Cluster.Coverage == "two-level" }

// check returns an *input.ConfigError if the number of the setting is out of its bounds, or its word is none of enum.
func (o Setting) check(s *Settings) error {
	v := reflect.Indirect(o.of(s))
	if words := strings.Split(o.field.Tag.Get("enum"), ","); len(words) > 1 && v.Kind() == reflect.String &&
		!strings.Contains(o.field.Tag.Get("enum"), "$") && !slices.Contains(words, v.String()) {
		return input.Errorf("{"+o.Name+"} %s: give %s", v.String(), strings.Join(words, ", "))
	}
	least, most, above := o.field.Tag.Get("least"), o.field.Tag.Get("most"), o.field.Tag.Get("above")
	if least+most+above == "" || !v.IsValid() || automatic(v) {
		return nil
	}
	low, isNumber := compare(v, o.read(cmp.Or(least, above)))
	high := -1
	if most != "" {
		high, _ = compare(v, o.read(most))
	}
	switch {
	case isNumber && high <= 0 && (low > 0 || low == 0 && above == "" || least+above == ""):
		return nil
	case isNumber && low < 0 && least != "" && o.read(least).IsZero():
		return input.Errorf("{"+o.Name+"} %s is negative; give %s", Text(v.Interface()), o.bounds())
	}
	return input.Errorf("{"+o.Name+"} %s: give %s", Text(v.Interface()), o.bounds())
}

// bounds tells which numbers the setting may be.
func (o Setting) bounds() (text string) {
	tag := o.field.Tag
	least, most, above := tag.Get("least"), tag.Get("most"), tag.Get("above")
	what := "a number "
	switch v := o.read("").Interface().(type) {
	case time.Duration, *time.Duration, quantity.Delay:
		what = "a duration "
	case quantity.ByteSize:
		what = "a size "
	case int:
		if v == 0 && least == "1" && most == "2" {
			return "1 or 2"
		}
	}
	switch {
	case least != "" && most != "":
		text = what + "from " + least + " to " + most
	case least != "":
		text = "at least " + least
	case above != "" && most != "":
		text = what + "above " + above + ", at most " + most
	case above != "":
		text = what + "above 0, such as " + tag.Get("default")
	default:
		text = "at most " + most
	}
	return text + notes[o.Name]
}

// notes tell what a number means, after the bounds of the setting.
var notes = map[string]string{"page-limit": " (0: no limit)", "host-page-limit": " (0: no limit)",
	"depth": " (0: the seeds alone, -1: no limit)", "host-depth": " (-1: no limit)", "retries": " (0: never)",
	"delay": " (auto: by response times)"}

// CheckUnused returns an *input.ConfigError if a setting is not as usual and has no effect together with the others.
// Those that except reports may be so.
func (s *Settings) CheckUnused(except func(name string) bool) error {
	for o := range All() {
		with, v := o.field.Tag.Get("with"), o.of(s)
		if with == "" || reflect.DeepEqual(v.Interface(), o.usual().Interface()) || except(o.Name) {
			continue
		}
		var texts []string
		for need := range strings.SplitSeq(with, ",") {
			name, value, valued := strings.Cut(need, "=")
			other := named(name)
			if got := other.of(s); valued && Text(got.Interface()) == value || !valued && !got.IsZero() {
				texts = nil
				break
			}
			texts = append(texts, strings.TrimSpace("{"+name+"} "+cmp.Or(value, other.field.Tag.Get("placeholder"))))
		}
		if texts != nil {
			need := strings.Join(texts, " or ")
			return input.Errorf("{"+o.Name+"} %s has no effect without "+need+"; leave it out, or add "+need,
				Text(v.Interface()))
		}
	}
	return nil
}
