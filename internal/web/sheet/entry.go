package sheet

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/input"
)

// An Entry is a prefix and its settings as people write them, in the section hosts: of a settings file.
type Entry struct {
	Prefix   string
	At       string // where it is written, for errors; "" if that is not known
	Word     string // what errors call it; "" means hosts:
	Settings []Setting
}

// A Setting is a key with its value, or its list of values.
type Setting struct {
	Key    string
	Values []string
	List   bool
	At     string
}

// maxDelay is the longest delay of a host.
const maxDelay = 24 * time.Hour

// ErrRedacted means that a setting has lost its secret value, because it comes from a crawl.yaml.
var ErrRedacted error = input.Errorf("crawl.yaml does not have the value, because it is a secret; give the settings " +
	"file again with {config}")

// A parser reads the value of a key into v.
type parser struct {
	list  bool
	whole bool // only for prefixes of whole hosts
	named bool // the errors begin with the key
	parse func(v *Values, p *Prefix, values []string) error
}

var parsers = map[string]parser{
	"auth": {parse: func(v *Values, p *Prefix, values []string) error {
		h, err := parseAuth(values[0])
		return v.addHeader(h, p, err)
	}},
	"delay": {whole: true, parse: func(v *Values, _ *Prefix, values []string) error {
		d, err := time.ParseDuration(values[0])
		if values[0] == "0" {
			d, err = 0, nil
		}
		if err != nil || d < 0 || d > maxDelay {
			return fmt.Errorf("%q is not a duration from 0 to 24h; give one such as 500ms or 10s", values[0])
		}
		v.Delay = &d
		return nil
	}},
	"depth": {parse: func(v *Values, _ *Prefix, values []string) (err error) {
		v.Depth, err = parseDepth(values[0], "the seeds alone")
		return err
	}},
	"exclude": {list: true, named: true, parse: func(v *Values, _ *Prefix, values []string) error {
		return v.patterns(&v.Exclude, "exclude", values)
	}},
	"header": {list: true, parse: func(v *Values, p *Prefix, values []string) error {
		for _, s := range values {
			h, err := ParseHeader(s)
			if err := v.addHeader(h, p, err); err != nil {
				return err
			}
		}
		return nil
	}},
	"host-depth": {parse: func(v *Values, _ *Prefix, values []string) (err error) {
		v.HostDepth, err = parseDepth(values[0], "where the crawl enters the host alone")
		return err
	}},
	"host-page-limit": {whole: true, parse: func(v *Values, _ *Prefix, values []string) error {
		n, err := strconv.ParseInt(values[0], 10, 64)
		if err != nil || n < 0 {
			return fmt.Errorf("%q: give a number of pages, or 0 for no limit", values[0])
		}
		v.HostPageLimit = &n
		return nil
	}},
	"include": {list: true, named: true, parse: func(v *Values, _ *Prefix, values []string) error {
		return v.patterns(&v.Include, "include", values)
	}},
	"keep": {list: true, named: true, parse: func(v *Values, _ *Prefix, values []string) (err error) {
		if v.Keep, err = ParseKeep("keep", values); v.Keep == nil && err == nil {
			v.Keep = &Keep{}
		}
		return err
	}},
}

// parseDepth reads a number of links. zero says what 0 allows.
func parseDepth(s, zero string) (*int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < -1 {
		return nil, fmt.Errorf("%q: give the number of links, 0 for %s, or -1 for no limit", s, zero)
	}
	return &n, nil
}

// Keys returns the keys of settings, sorted.
func Keys() []string {
	return slices.Sorted(maps.Keys(parsers))
}

func (v *Values) patterns(to **Patterns, what string, values []string) error {
	p, err := Compile(what, values)
	*to = &p
	return err
}

// addHeader adds a field. A secret one goes only over https, and to the port 443, unless the prefix names http or
// another port.
func (v *Values) addHeader(h Header, p *Prefix, err error) error {
	switch {
	case err != nil:
		return err
	case h.Value == Redacted:
		return ErrRedacted
	case slices.ContainsFunc(v.Headers, func(o Header) bool { return strings.EqualFold(o.Name, h.Name) }):
		return fmt.Errorf("%s is set twice; remove one of the values", h.Name)
	}
	if h.Secret {
		h.tls, h.port = p.Scheme != "http", p.Port
		if h.tls && h.port == "" {
			h.port = "443"
		}
	}
	v.Headers = append(v.Headers, h)
	return nil
}

// parseAuth reads "basic USER:PASSWORD" or "bearer TOKEN". Its errors do not contain the value.
func parseAuth(s string) (Header, error) {
	kind, value, _ := strings.Cut(strings.TrimSpace(s), " ")
	value = strings.TrimSpace(value)
	if value == Redacted || kind == Redacted {
		return Header{}, ErrRedacted
	}
	switch strings.ToLower(kind) {
	case "basic":
		if user, _, ok := strings.Cut(value, ":"); !ok || user == "" {
			return Header{}, errors.New("basic needs a user and a password: basic USER:PASSWORD")
		}
		return basic(value), nil
	case "bearer":
		return bearer(value)
	}
	return Header{}, errors.New("give basic USER:PASSWORD or bearer TOKEN")
}

func basic(userPassword string) Header {
	return Header{Name: "Authorization", Value: "Basic " + base64.StdEncoding.EncodeToString([]byte(userPassword)),
		Secret: true}
}

func bearer(token string) (Header, error) {
	for i := range len(token) {
		if token[i] <= ' ' || token[i] >= 0x7f {
			return Header{}, errors.New("the token has a character that is not allowed (RFC 6750, 2.1)")
		}
	}
	if token == "" {
		return Header{}, errors.New("bearer needs a token: bearer TOKEN")
	}
	return Header{Name: "Authorization", Value: "Bearer " + token, Secret: true}, nil
}

// New returns the Table of entries, or nil if there are none. Its errors say where the mistake is and what would be
// right; they contain no secrets. Two entries may have the same prefix if their keys differ.
func New(entries []Entry) (*Table, error) { return parse(entries, true) }

// Explainable is New for entries of a crawl.yaml, which lack their secrets. Its Table is for explanations only: it has
// no secret headers.
func Explainable(entries []Entry) (*Table, error) { return parse(entries, false) }

func parse(entries []Entry, secrets bool) (*Table, error) {
	var rules []*Rule
	byPrefix := map[Prefix]*Rule{}
	for _, e := range entries {
		word := cmp.Or(e.Word, "hosts:")
		p, err := ParsePrefix(e.Prefix)
		if err != nil {
			return nil, fmt.Errorf("%s%s %w", place(e.At), word, err)
		}
		r := byPrefix[p]
		if r == nil {
			r = &Rule{Prefix: p, Text: e.Prefix}
			byPrefix[p] = r
			rules = append(rules, r)
		}
		for _, s := range e.Settings {
			if err := r.take(s); err != nil && (secrets || !errors.Is(err, ErrRedacted)) {
				return nil, fmt.Errorf("%s%s %s: %w", place(s.At), word, e.Prefix, err)
			}
		}
	}
	for _, r := range rules {
		slices.Sort(r.keys)
	}
	t := newTable(rules)
	if t != nil {
		t.digest = digestOf(entries)
	}
	return t, nil
}

func place(at string) string {
	if at == "" {
		return ""
	}
	return at + ": "
}

// take reads a setting. Its error begins with the key.
func (r *Rule) take(s Setting) (err error) {
	p, ok := parsers[s.Key]
	named := false
	defer func() {
		if err != nil && !named {
			err = fmt.Errorf("%s: %w", s.Key, err)
		}
	}()
	switch {
	case !ok:
		return fmt.Errorf("unknown key; the keys are %s", strings.Join(Keys(), ", "))
	case slices.Contains(r.keys, s.Key):
		return errors.New("the prefix has this key twice; remove one of them")
	case !p.list && (s.List || len(s.Values) != 1):
		return errors.New("the key takes one value, not a list")
	case p.whole && !r.Prefix.WholeHost():
		return fmt.Errorf("the key holds for whole hosts; write it below %s, without scheme, port and path",
			Prefix{Host: r.Prefix.Host, Below: r.Prefix.Below}.text())
	}
	r.keys = append(r.keys, s.Key)
	named = p.named
	return p.parse(&r.Values, &r.Prefix, s.Values)
}

// text returns the prefix of whole hosts as people write it.
func (p Prefix) text() string {
	if p.Below {
		return "*." + p.Host
	}
	return p.Host
}

// Redact returns entries without secret values, for crawl.yaml.
func Redact(entries []Entry) []Entry {
	out := slices.Clone(entries)
	for i, e := range out {
		out[i].Settings = slices.Clone(e.Settings)
		for j, s := range out[i].Settings {
			switch s.Key {
			case "auth":
				kind, _, _ := strings.Cut(strings.TrimSpace(strings.Join(s.Values, " ")), " ")
				if kind = strings.ToLower(kind); kind != "basic" && kind != "bearer" {
					kind = ""
				}
				out[i].Settings[j].Values = []string{strings.TrimSpace(kind + " " + Redacted)}
			case "header":
				out[i].Settings[j].Values = RedactHeaders(s.Values)
			}
		}
	}
	return out
}
