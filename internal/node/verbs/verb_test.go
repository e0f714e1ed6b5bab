package verbs_test

import (
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/orders"
	"github.com/orbweaver/orbweaver/internal/node/verbs"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// Each verb explains itself, and the canonical form of what it reads is read as itself.
func TestVerbs(t *testing.T) {
	seen := map[string]bool{}
	for _, v := range verbs.All {
		for _, name := range []string{v.Name, v.Undo} {
			if name != "" && seen[name] {
				t.Errorf("two commands are named %s", name)
			}
			seen[name] = true
		}
		if of, err := verbs.Of(v.Name); of != v || err != nil {
			t.Errorf("%s: %v", v.Name, err)
		}
		if v.Done == "" || v.Note == "" || v.Role != verbs.Operator {
			t.Errorf("%s: %+v", v.Name, v)
		}
		if v.Call != "" {
			if _, err := v.Order("x", "", false); err == nil || !strings.Contains(err.Error(), v.Call) {
				t.Errorf("%s: %v", v.Name, err)
			}
			continue
		}
		if (v.Brief == "") != (v.Help == "") || (v.Undo == "") != (v.UndoBrief == "") ||
			(v.Words == "") != (v.About == "") || (v.Words == "") != (v.Example == "") {
			t.Errorf("%s does not explain itself: %+v", v.Name, v)
		}
		about, value := v.Split(strings.Fields(v.Example))
		o, err := v.Order(about, value, false)
		if err != nil {
			t.Fatalf("%s %s: %v", v.Name, v.Example, err)
		}
		again, err := v.Order(o.About, o.Value, false)
		if again != o || err != nil {
			t.Errorf("%s: %+v is read as %+v, %v", v.Name, o, again, err)
		}
		set := orders.NewSet()
		if _, err := set.Give(o, "a1", time.Now()); err != nil {
			t.Errorf("%s: %v", v.Name, err)
		}
		off, err := v.Order(o.About, "", true)
		if err != nil || off.About != o.About || off.Value != "" || !off.Off {
			t.Errorf("%s: %+v takes back %+v, %v", v.Name, off, o, err)
		}
		if v.Check(nil, nil, off) == nil || v.Check(nil, set.Standing(), off) != nil || v.Check(nil, nil, o) != nil {
			t.Errorf("%s can be taken back only while it stands", v.Name)
		}
		if does, ends := v.Describe(o, nil), v.Describe(off, nil); does == "" || ends == "" || does == ends {
			t.Errorf("%s: %q, %q", v.Name, does, ends)
		}
	}
}

// The list of orders has no JSON.
func TestText(t *testing.T) {
	app := `{"share":2,"scope":"domain","depth":3,"strategy":"follow","pages":true,"made":"ABC"}`
	for _, c := range []struct {
		order orders.Order
		want  string
	}{
		{orders.Order{Verb: "pause", Off: true}, "pause off everything"},
		{orders.Order{Verb: "delay", About: "a.example", Value: "9s"}, "delay 9s a.example"},
		{orders.Order{Verb: "scope", About: "depth", Value: "3"}, "scope depth 3"},
		{orders.Order{Verb: "app", About: "news", Value: app},
			"app news: share 2, strategy follow, scope domain, depth 3, pages are kept"},
		{orders.Order{Verb: "app", About: "news", Off: true}, "app off news"},
		{orders.Order{Verb: "app", About: "new", Value: "{}"}, "app {} new"},
		{orders.Order{Verb: "fly", About: "a.example"}, "fly a.example"},
	} {
		if got := verbs.Text(c.order); got != c.want {
			t.Errorf("%+v: %s, want %s", c.order, got, c.want)
		}
	}
}

// Words are divided as people write them.
func TestSplit(t *testing.T) {
	for _, c := range []struct{ verb, words, about, value string }{
		{"delay", "10s 8-18 mon-fri, else 2s", "", "10s 8-18 mon-fri, else 2s"},
		{"delay", "www.example.org 10s", "www.example.org", "10s"},
		{"delay", "0", "", "0"},
		{"rate", "40/s 8-18, none", "", "40/s 8-18, none"},
		{"rate", "0.5/s", "", "0.5/s"},
		{"rate", "example.org 5/s", "example.org", "5/s"},
		{"rate", "example.org", "example.org", ""},
		{"block", "*.example.org", "*.example.org", ""},
		{"pause", "", "", ""},
	} {
		v := must.Get(verbs.Of(c.verb))(t)
		if about, value := v.Split(strings.Fields(c.words)); about != c.about || value != c.value {
			t.Errorf("%s %s: %q and %q", c.verb, c.words, about, value)
		}
	}
}

// What a verb does not have is refused with the reason.
func TestOrderErrors(t *testing.T) {
	for _, c := range []struct{ verb, about, value, want string }{
		{"pause", "www.example.org", "", "leave out \"www.example.org\""},
		{"pause", "", "5s", "leave out \"5s\""},
		{"block", "www.example.org", "5s", "leave out \"5s\""},
		{"block", "", "", ""},
		{"exclude", "(", "", "missing closing )"},
		{"exclude", "", "", "give a regular expression"},
		{"exclude", strings.Repeat("x", orders.MaxAbout+1), "", "give at most"},
		{"delay", "192.0.2.0/24", "1s", "a delay is for a host or a domain"},
		{"delay", "www.example.org", "", "give one such as 10s after the host"},
		{"rate", "www.example.org", "5/s", "a part of the registered domain example.org"},
		{"rate", "example.org", "2Mbit", "counts requests, not bits"},
		{"rate", "", "0/s", "a rate of zero is not possible"},
	} {
		v := must.Get(verbs.Of(c.verb))(t)
		if o, err := v.Order(c.about, c.value, false); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %q %q: %+v, %v", c.verb, c.about, c.value, o, err)
		}
	}
	_, err := verbs.Of("paint")
	if err == nil || !strings.Contains(err.Error(), "app, app-rule, block, delay") {
		t.Error(err)
	}
}
