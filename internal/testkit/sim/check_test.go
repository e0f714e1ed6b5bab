package sim

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Parse reads every random plan, and refuses plans that no story can have.
func TestParse(t *testing.T) {
	for seed := range uint64(500) {
		for _, p := range []Plan{Random(seed), RandomAlone(seed)} {
			got, err := Parse(p.JSON())
			if err != nil {
				t.Fatalf("%s\n%v", p, err)
			}
			if diff := cmp.Diff(p, got); diff != "" {
				t.Fatalf("(-want +got)\n%s", diff)
			}
		}
	}
	for _, c := range []struct{ plan, want string }{
		{`{"Faults":[{"Kind":"earthquake","Agent":1}]}`, `fault 1: no such kind: "earthquake"`},
		{`{"Agents":2,"Spare":1,"Faults":[{"Kind":"lossy"},{"Kind":"kill","Agent":4}]}`,
			"fault 2: kill of agent 4: the plan has agents 1 to 3"},
		{`{"Faults":[{"Kind":"stop"}]}`, "fault 1: stop of agent 0"},
		{`{"Faults":[{"Kind":"stop","Agent":-1}]}`, "fault 1: stop of agent -1"},
		{`{"Faults":[{"Kind":"stop","Agent":1,"At":2}]}`, "fault 1: at 2"},
		{`{"Faults":[{"Kind":"stop","Agent":1,"For":-2}]}`, "for -2ns"},
		{`{"Agents":1,"Spare":400}`, "400 more"},
		{`{"Hosts":-1}`, "hosts"},
		{`{"Busy":1.5}`, "share 1.5 of the web is busy"},
		{`{"Agent":1}`, "unknown field"},
		{`{"Partition":"sites"}`, "0 coordinators: give 1, 3 or 5"},
		{`{"Coordinators":2}`, "2 coordinators: give 1, 3 or 5"},
		{`{"Faults":[{"Kind":"kill leader"}]}`, "fault 1: kill leader: the plan has no coordinators"},
		{`{"Coordinators":3,"Faults":[{"Kind":"full coordinator","Agent":4}]}`,
			"fault 1: full coordinator 4: the plan has coordinators 1 to 3"},
		{`{"Coordinators":3,"Faults":[{"Kind":"full coordinator","Agent":3,"At":2}]}`, "fault 1: at 2"},
		{`{"Agents":1} {}`, "after the plan"},
	} {
		if _, err := Parse(c.plan); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want %q", c.plan, err, c.want)
		}
	}
	if _, err := Parse(`{"Faults":[{"Kind":"clock","Agent":1,"For":-2}]}`); err != nil {
		t.Error(err)
	}
}

// TestWebs: every plan has a web.
func TestWebs(t *testing.T) {
	var plans []Plan
	for seed := range uint64(500) {
		plans = append(plans, Random(seed), RandomAlone(seed),
			Plan{Seed: seed, Hosts: 3, Pages: 4, Crosslinked: 0.1}) // some of these have too few pages
	}
	for _, p := range plans {
		if _, err := p.withDefaults().web(); err != nil {
			t.Errorf("%s\n%v", p, err)
		}
	}
}
