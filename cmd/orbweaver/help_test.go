package main

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"github.com/orbweaver/orbweaver/internal/cli"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// The help of each command fits a terminal of 80 columns, examples included.
func TestHelpWidth(t *testing.T) {
	var c commands
	discard := cli.NewOutput(io.Discard)
	p := must.Get(newParser(&c, &c, &elsewhere{}, discard, discard, func(int) {}))(t)
	asked := 0
	help := func(args ...string) {
		asked++
		var out bytes.Buffer
		if code := run(args, &out, &out); code != exitDone {
			t.Errorf("%s exits with code %d", strings.Join(args, " "), code)
		}
		for line := range strings.Lines(out.String()) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
				t.Errorf("%s has a line of %d columns:\n%s", strings.Join(args, " "), n, line)
			}
		}
	}
	var visit func(n *kong.Node, path []string)
	visit = func(n *kong.Node, path []string) {
		help(append(slices.Clone(path), "--help")...)
		for _, child := range n.Children {
			if child.Type == kong.CommandNode {
				visit(child, append(slices.Clone(path), child.Name))
			}
		}
	}
	visit(p.Model.Node, nil)
	help("crawl", "--help-all")
	for group := range strings.FieldsSeq("start scope strategy politeness fetching output cluster monitoring") {
		help("crawl", "--help", group)
	}
	if asked < 50 {
		t.Errorf("only %d texts were read", asked)
	}
}
