package main

import (
	"bytes"
	"strings"
	"testing"
)

// The shell completes hosts, orders and agents of the running crawl, for the commands of ctl alone.
func TestCompleteFromCrawl(t *testing.T) {
	dir := serveAPI(t, cannedFor(map[string]string{
		"Orders": `orders:{id:"a1-3"} orders:{id:"a1-4"} orders:{id:"a2-5"}`,
		"Hosts": `hosts:{host:"www.a.example"} hosts:{host:"www.b.example" agent:"a1"}
			hosts:{host:"www.b.example" agent:"a2"} hosts:{host:"b.www.example"}`,
		"Shares": `agents:{agent:"a1"} agents:{agent:"a2"} agents:{agent:"b1"}`,
	}), "x")
	for _, c := range []struct{ line, want string }{
		{"ctl --dir DIR explain www.", "none\nwww.a.example\nwww.b.example\n"},
		{"ctl --dir=DIR block www.b", "none\nwww.b.example\n"},
		{"ctl -o DIR log --host=www.a", "none\n--host=www.a.example\n"},
		{"ctl -o DIR log --host www.a", "none\nwww.a.example\n"},
		{"ctl --dir none explain www.", "none\n"},
		{"ctl --dir DIR hosts --by e", "none\nerrors\n"},
		{"check robots www.", "none\n"},
		{"ctl --dir DIR take-back a1", "none\na1-4\na1-3\n"},
		{"ctl --dir DIR leave --agent a", "none\na1\na2\n"},
		{"ctl --dir DIR log --agent=b", "none\n--agent=b1\n"},
		{"ctl --dir DIR app a", "none\n"},
	} {
		var out, errs bytes.Buffer
		words := strings.Fields(strings.ReplaceAll(c.line, "DIR", dir))
		code := run(append([]string{"__complete"}, words...), &out, &errs)
		if code != 0 || out.String() != c.want || errs.String() != "" {
			t.Errorf("%s: exit code %d, %q, want %q; %s", c.line, code, out.String(), c.want, errs.String())
		}
	}
}
