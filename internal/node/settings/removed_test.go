package settings

import (
	"slices"
	"testing"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// Files of earlier versions may have settings that no longer exist. A note says which of them are ignored, unless the
// value asked for nothing.
func TestRemoved(t *testing.T) {
	const ignored = "f.yaml, line 1: archive-copies is no longer a setting and is ignored: " +
		"agents no longer copy their archives to each other, and a store keeps them"
	for _, c := range []struct {
		text string
		want []string
	}{
		{"archive-copies: 1", nil},
		{"archive-copies: '1'", nil},
		{"archive-copies: 2", []string{ignored}},
		{"archive-copies: [2]", []string{ignored}},
		{"archive-copies:", []string{ignored}},
	} {
		file := must.Get(parser.ParseBytes([]byte(c.text), 0))(t)
		pair := file.Docs[0].Body.(*ast.MappingNode).Values[0]
		if key := pair.Key.GetToken().Value; !IsRemoved(key) {
			t.Errorf("%s: %s is not removed", c.text, key)
		}
		if got := Removed("f.yaml, line 1", "archive-copies", pair.Value); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.text, got, c.want)
		}
	}
	if IsRemoved("replicas") {
		t.Error("replicas is removed")
	}
}
