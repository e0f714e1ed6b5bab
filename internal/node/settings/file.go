package settings

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/orbweaver/orbweaver/internal/cli"
	"github.com/orbweaver/orbweaver/internal/web/sheet"
)

// HostsKey is the key of the section with the settings of hosts.
const HostsKey = "hosts"

// HostsOf returns the section hosts: for crawl.yaml, without secrets.
func HostsOf(entries []sheet.Entry) (m yaml.MapSlice) {
	for _, e := range sheet.Redact(entries) {
		var keys yaml.MapSlice
		for _, s := range e.Settings {
			var value any = s.Values
			if !s.List && len(s.Values) == 1 {
				value = s.Values[0]
			}
			keys = append(keys, yaml.MapItem{Key: s.Key, Value: value})
		}
		m = append(m, yaml.MapItem{Key: e.Prefix, Value: keys})
	}
	return m
}

// ReadHosts reads the section hosts: of a settings file.
func ReadHosts(path string, n ast.Node) (entries []sheet.Entry, err error) {
	at := func(n ast.Node) string { return fmt.Sprintf("%s, line %d", path, n.GetToken().Position.Line) }
	prefixes, ok := mapping(n)
	if !ok {
		return nil, fmt.Errorf("%s: hosts: is not a list of prefixes with settings; write, for example,\n"+
			"hosts:\n  example.org:\n    delay: 10s", at(n))
	}
	for _, p := range prefixes {
		e := sheet.Entry{Prefix: p.Key.GetToken().Value, At: at(p.Key)}
		keys, ok := mapping(p.Value)
		if !ok {
			return nil, fmt.Errorf("%s: hosts: %s has no settings; write some below it, such as delay: 10s", e.At,
				e.Prefix)
		}
		for _, k := range keys {
			s := sheet.Setting{Key: k.Key.GetToken().Value, At: at(k.Key)}
			if !slices.Contains(sheet.Keys(), s.Key) {
				if near := cli.Nearest(s.Key, sheet.Keys()); near != "" {
					return nil, fmt.Errorf("%s: hosts: %s: unknown key %q; did you mean %q?", s.At, e.Prefix, s.Key,
						near)
				}
			}
			v, err := Plain(k.Value)
			if err != nil {
				return nil, fmt.Errorf("%s: hosts: %s: %s: %w", s.At, e.Prefix, s.Key, err)
			}
			switch v := v.(type) {
			case string:
				s.Values = []string{v}
			case []any:
				s.List = true
				for _, v := range v {
					s.Values = append(s.Values, v.(string))
				}
			}
			e.Settings = append(e.Settings, s)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// mapping returns the pairs of a YAML mapping.
func mapping(n ast.Node) ([]*ast.MappingValueNode, bool) {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	}
	return nil, false
}

// yamlPlace matches the line and column in an error of the YAML library.
var yamlPlace = regexp.MustCompile(`^\[(\d+):(\d+)\] `)

// NotYAML returns the error for a file that is not YAML.
func NotYAML(path string, err error) error {
	text, _, _ := strings.Cut(strings.TrimSpace(yaml.FormatError(err, false, false)), "\n")
	at := path
	if m := yamlPlace.FindStringSubmatch(text); m != nil {
		at, text = fmt.Sprintf("%s, line %s", path, m[1]), text[len(m[0]):]
	}
	return fmt.Errorf("%s: this is not YAML: %s; correct it", at, text)
}

// Plain returns the value of a YAML node as the command line would give it: a string, or a
// list of strings as []any.
func Plain(n ast.Node) (any, error) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, nil
	case *ast.LiteralNode:
		return strings.TrimSpace(n.Value.Value), nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, nil
	case *ast.NullNode:
		return nil, errors.New("the key has no value; give one, or remove the key")
	case *ast.SequenceNode:
		list := []any{}
		for _, e := range n.Values {
			v, err := Plain(e)
			if err != nil {
				return nil, err
			}
			if _, ok := v.(string); !ok {
				return nil, errors.New("the value is a list within a list; write a list of plain values")
			}
			list = append(list, v)
		}
		return list, nil
	}
	return nil, errors.New("the value is neither a plain value nor a list; write one of these")
}

// removed has the settings of earlier versions that files may still contain. A crawl with such a file can be resumed.
var removed = map[string]struct{ none, instead string }{
	"archive-copies": {"1", "agents no longer copy their archives to each other, and a store keeps them"},
}

// IsRemoved reports whether a key of a settings file is a setting of earlier versions alone.
func IsRemoved(key string) bool { _, is := removed[key]; return is }

// Removed returns the notes about a setting of earlier versions, at a place in a settings file: none if its value asks
// for nothing.
func Removed(at, key string, value ast.Node) (notes []string) {
	if v, err := Plain(value); err == nil && v == removed[key].none {
		return nil
	}
	return []string{fmt.Sprintf("%s: %s is no longer a setting and is ignored: %s", at, key, removed[key].instead)}
}
