package settings

import (
	"cmp"
	"encoding"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/strategy"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/node/membership"
	"github.com/orbweaver/orbweaver/internal/quantity"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/classify"
	models "github.com/orbweaver/orbweaver/internal/web/classify/builtin"
	"github.com/orbweaver/orbweaver/internal/web/scope"
	"github.com/orbweaver/orbweaver/internal/web/sheet"
)

// Into checks the settings and writes them into the configuration of an agent, whose Dir and Resume are set. It reads
// the model of topics, but neither CookieFile nor AuthFile. The error is an *input.ConfigError.
func (s *Settings) Into(cfg *node.Config) (err error) {
	if err := s.check(cfg.Dir, cfg.Resume); err != nil {
		return err
	}
	cfg.Settings = s.shown()
	if s.Cluster.Listen != "" {
		cfg.Cluster = &membership.Config{TwoLevel: s.twoLevel()}
	}
	fr, least := &cfg.Frontier, s.Politeness.Least()
	fr.HostDelay = cmp.Or(least, -1) // none
	fr.IPDelay, fr.SiteDelay = least/4, least/4
	if s.Politeness.Delay == quantity.Auto {
		cfg.Crawl.DelayFactor, cfg.Crawl.DelayMax = s.Politeness.DelayFactor, s.Politeness.DelayMax
	}
	to := target{Config: cfg}
	s.fill(reflect.ValueOf(&to).Elem(), "")
	if cfg.Crawl.Keep, err = sheet.ParseKeep("keep", s.Limits.Keep); err != nil {
		return input.SettingError(err)
	}
	cfg.Crawl.Sitemaps.Follow = len(s.Limits.Sitemaps) > 0
	if cfg.Crawl.Sitemaps.Named, err = s.Limits.Sitemaps.named(); err != nil {
		return err
	}
	headers, err := sheet.ParseHeaders(s.Fetching.Header)
	if err != nil {
		return err
	}
	cfg.Fetch.Header, cfg.Fetch.Secret = sheet.Split(headers)
	if s.Fetching.Cookies || s.Fetching.CookieFile != "" {
		cfg.Crawl.KeepCookies()
	}
	if cfg.Archive.Info, err = node.ParseInfo(s.Output.WARCInfo); err != nil {
		return err
	}
	if to := s.Output.Segment; to != (quantity.Span{}) {
		name := node.CrawlName(cfg)
		if len(name) > maxCrawlName {
			return input.Errorf("{warcinfo} isPartOf has %d bytes; with {segment} it names a folder: give at most %d",
				len(name), maxCrawlName)
		}
		cfg.Archive.Segments = warc.Segments{Crawl: name, Span: to.Time, Bytes: int64(to.Bytes)}
	}
	if cfg.Fetch.Proxy, err = ParseProxy(s.Fetching.Proxy); err != nil {
		return err
	}
	return s.order(to)
}

// Least returns the delay that each host has at least.
func (p *Politeness) Least() time.Duration {
	if p.Delay == quantity.Auto {
		return p.DelayMin
	}
	return time.Duration(p.Delay)
}

// target has all fields that settings are written into: the configuration of an agent, and those of strategies.
type target struct {
	*node.Config
	Recrawl strategy.RecrawlConfig
	Walk    strategy.WalkConfig
}

// fill writes the settings into the fields of to, whose paths in target begin with prefix. It skips fields behind
// a nil pointer.
func (s *Settings) fill(to reflect.Value, prefix string) {
	for o := range All() {
		for _, path := range o.Into() {
			path, ok := strings.CutPrefix(path, prefix)
			if !ok {
				continue
			}
			if field, err := to.FieldByIndexErr(pathIndex(to.Type(), path)); err == nil {
				assign(field, o.of(s), o.field.Tag.Get("zero"))
			}
		}
	}
}

// pathIndex returns the index of a field such as Crawl.PageLimit. It panics if there is none.
func pathIndex(of reflect.Type, path string) (index []int) {
	for name := range strings.SplitSeq(path, ".") {
		if of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		f, ok := of.FieldByName(name)
		if !ok {
			panic(fmt.Sprintf("settings: %s has no field %s of %s", of, name, path))
		}
		index, of = append(index, f.Index...), f.Type
	}
	return index
}

// Config returns the rules of the scope.
func (b *Bounds) Config() (cfg scope.Config) {
	all := Settings{Bounds: *b}
	all.fill(reflect.ValueOf(&cfg).Elem(), "Scope.")
	return cfg
}

// Fill writes into each field of the struct to whose tag setting names one. A number below 0 leaves a pointer nil, and
// a duration becomes seconds in a number with a fraction.
func (s *Settings) Fill(to any) {
	dst := reflect.ValueOf(to).Elem()
	for _, f := range reflect.VisibleFields(dst.Type()) {
		if name := f.Tag.Get("setting"); name != "" {
			assign(dst.FieldByIndex(f.Index), named(name).of(s), "")
		}
	}
}

// assign writes the value of a setting into a field. zero is what stands for 0 in the field, if not 0.
func assign(dst, src reflect.Value, zero string) {
	if src.Kind() == reflect.Pointer && dst.Kind() != reflect.Pointer {
		if src.IsNil() {
			return
		}
		src = src.Elem()
	}
	text, isText := src.Interface().(fmt.Stringer)
	d, isDuration := src.Interface().(time.Duration)
	switch {
	case zero != "" && src.IsZero():
		if err := parse(dst, zero); err != nil {
			panic(err)
		}
	case dst.Kind() == reflect.Pointer && src.CanInt():
		if src.Int() >= 0 {
			dst.Set(reflect.New(dst.Type().Elem()))
			dst.Elem().Set(src.Convert(dst.Type().Elem()))
		}
	case isText && dst.Kind() == reflect.String:
		dst.SetString(text.String())
	case isDuration && dst.CanFloat():
		dst.SetFloat(d.Seconds())
	default:
		dst.Set(src.Convert(dst.Type()))
	}
}

// Take reads the options of a program into the settings: the fields of the struct from at the paths that Option tells,
// unless they are zero. It skips fields of another kind than their settings. A negative number is an
// *input.ConfigError, unless the setting has a meaning for it.
func (s *Settings) Take(from any) error {
	root := reflect.ValueOf(from).Elem()
	for o := range All() {
		if o.Option() == "" {
			continue
		}
		v, err := root.FieldByIndexErr(pathIndex(root.Type(), o.Option()))
		if err != nil || v.IsZero() { // err: behind a nil pointer
			continue
		}
		if err := o.take(o.of(s), v); err != nil {
			return err
		}
	}
	return nil
}

// take reads an option that is not zero into the value of the setting.
func (o Setting) take(dst, v reflect.Value) error {
	if v.CanInt() && v.Int() < 0 || v.CanFloat() && v.Float() < 0 {
		switch instead, ok := o.field.Tag.Lookup("negative"); {
		case ok:
			return parse(dst, instead)
		case o.field.Tag.Get("least") == "-1": // which a program leaves out
			return input.Errorf("{"+o.Name+"} %v is negative; leave it out for no limit", v.Interface())
		}
		return input.Errorf("{"+o.Name+"} %v is negative; leave it out, or give %s", v.Interface(), o.bounds())
	}
	text, isText := v.Interface().(fmt.Stringer)
	_, reads := dst.Addr().Interface().(encoding.TextUnmarshaler)
	switch {
	case reads && v.Kind() == reflect.String:
		if err := parse(dst, v.String()); err != nil {
			return input.Errorf("{"+o.Name+"}: %v", err)
		}
	case reads && isText && !v.CanInt(): // a ScopeKind
		if err := parse(dst, text.String()); err != nil {
			return input.Errorf("{"+o.Name+"} %d: %v", v.Uint(), err)
		}
	case isText && dst.Kind() == reflect.String: // a *url.URL
		if text.String() == "" {
			return input.Errorf("{"+o.Name+"} is empty; leave it out, or give %s", "one")
		}
		dst.SetString(text.String())
	case dst.Kind() == reflect.Pointer:
		dst.Set(reflect.New(dst.Type().Elem()))
		dst.Elem().Set(v.Convert(dst.Type().Elem()))
	case v.CanConvert(dst.Type()):
		dst.Set(v.Convert(dst.Type()))
	}
	return nil
}

// ParseProxy reads the URL of a proxy. The result is nil for "". The error names no user and no password.
func ParseProxy(proxy string) (*url.URL, error) {
	if proxy == "" {
		return nil, nil
	}
	u, err := url.Parse(proxy)
	if err != nil || u.Host == "" {
		return nil, input.Errorf("{proxy} %q is not a proxy's URL; write http://127.0.0.1:3128 or "+
			"socks5://127.0.0.1:1080", RedactProxy(proxy))
	}
	return u, nil
}

// RedactProxy returns the URL of a proxy, or what was given as one, without user and password.
func RedactProxy(proxy string) string {
	at := strings.LastIndexByte(proxy, '@')
	if at < 0 {
		return proxy
	}
	scheme, _, ok := strings.Cut(proxy[:at], "://")
	if !ok {
		return sheet.Redacted + proxy[at:]
	}
	return scheme + "://" + sheet.Redacted + proxy[at:]
}

// order sets the strategy, and the model by whose categories agents divide the pages. It reads the model at once, so
// that a mistake shows before the crawl has a directory. Breadth-first is nil.
func (s *Settings) order(to target) error {
	cfg := to.Config
	byTopic := s.Cluster.Listen != "" && s.Cluster.Partition == membership.PartitionTopic
	var model *classify.Classifier
	if byTopic || s.Order.Strategy == "focused" {
		var err error
		if model, err = Classifier(s.Order.Model); err != nil {
			return err
		}
	}
	if byTopic {
		cfg.Cluster.Classifier = model
	}
	switch s.Order.Strategy {
	case "focused":
		return s.focused(cfg, model, byTopic)
	case "list":
		cfg.Strategy = func(strategy.Place) (visit.Strategy, error) { return strategy.List{}, nil }
	case "recrawl":
		cfg.Strategy = func(at strategy.Place) (visit.Strategy, error) { return strategy.OpenRecrawl(at, to.Recrawl) }
	case "walk":
		cfg.Strategy = func(at strategy.Place) (visit.Strategy, error) { return strategy.OpenWalk(at, to.Walk) }
	}
	return nil
}

// focused sets a focused strategy. Without Topic the agents of a cluster by topic want their own categories.
func (s *Settings) focused(cfg *node.Config, model *classify.Classifier, byTopic bool) error {
	f := strategy.FocusedConfig{Classifier: model, Topics: s.Order.Topic}
	switch own := len(s.Order.Topic) == 0; {
	case own && !byTopic:
		return input.Errorf("{strategy} focused needs the topics that you want; name some with {topic}, such as " +
			"science.\nWithout {topic} it needs {listen} and {partition} topic: then each agent wants its own " +
			"categories")
	case own:
		f.Pages = strategy.Unmet{}
	}
	switch _, err := strategy.OpenFocused(f); {
	case errors.Is(err, strategy.ErrNoChances):
		return input.Errorf("{model} %s: %v; train one of another kind", s.Order.Model, err)
	case errors.Is(err, strategy.ErrTopic):
		return input.Errorf("{topic} %s: %v; give some of the model's categories, but not all:\n%s",
			strings.Join(s.Order.Topic, ","), err, strings.Join(model.Categories(), ", "))
	case err != nil:
		return err
	}
	cfg.Strategy = func(at strategy.Place) (visit.Strategy, error) {
		f.Pages = at.Pages
		return strategy.OpenFocused(f)
	}
	return nil
}

// BuiltinModels are the names of the models in the program.
var BuiltinModels = []string{"topics", "languages"}

// Languages returns the codes of the languages that the model languages knows.
func Languages() []string { return models.Languages().Categories() }

// Classifier reads the model of a name: one of BuiltinModels, or a file.
func Classifier(name string) (*classify.Classifier, error) {
	switch name {
	case "topics":
		return classify.New(models.Topics(), models.Languages())
	case "languages":
		return classify.New(models.Languages(), nil)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		remedy := `give topics, languages, or a file of "classify train"`
		if errors.Is(err, fs.ErrPermission) {
			remedy = "run the command as a user who may read it, such as its owner"
		}
		return nil, input.Errorf("{model} %s: %v; %s", name, errors.Unwrap(err), remedy)
	}
	m, _, err := classify.Parse(b)
	if err != nil {
		return nil, input.Errorf(`{model} %s: %v; make one with "classify train"`, name, err)
	}
	c, err := classify.New(m, models.Languages())
	if err != nil {
		return nil, input.Errorf("{model} %s: %v", name, err)
	}
	return c, nil
}
