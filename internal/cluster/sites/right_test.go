package sites

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestRight(t *testing.T) {
	t0 := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(s float64) time.Time { return t0.Add(time.Duration(s * float64(time.Second))) }
	r := NewRight(t0)
	want := func(s float64, may bool, why string) {
		t.Helper()
		if got := r.May(at(s)); got != may {
			t.Errorf("after %v s it may start visits: %t, want %t", s, got, may)
		}
		if got := r.Why(at(s)); !strings.Contains(got, why) || (got == "") != may {
			t.Errorf("after %v s: why not: %q, want %q", s, got, why)
		}
	}
	want(0, false, "have not taken this agent")
	r.Roster(true, []string{"b", "c"}, at(1))
	want(1, false, "no coordinator has answered this agent since it started")
	r.Met("b", at(1), at(1))
	r.Met("c", at(1), at(1))
	want(1, false, "no coordinator has answered") // others do not begin a right
	r.Answered(at(2), at(3))
	want(3, true, "")
	want(7.9, true, "")
	want(8, false, "for 6s, and neither have agents: b, c")
	r.Met("b", at(7), at(7.5))
	want(8, false, "neither have agents: c") // one of two does not prolong it
	r.Met("c", at(7.6), at(7.8))
	want(12.9, true, "")
	want(13, false, "")
	if due := r.Due(at(8)); len(due) != 0 {
		t.Errorf("after 8 s, %v are to be asked", due)
	}
	if due := r.Due(at(9.5)); !slices.Equal(due, []string{"b"}) {
		t.Errorf("after 9.5 s, %v are to be asked, want b", due)
	}
	r.Met("b", at(13), at(13.1)) // it has lapsed
	r.Met("c", at(13), at(13.1))
	want(13.2, false, "no coordinator has answered for 11s")
	r.Answered(at(7.4), at(13.5)) // too old when it comes
	want(13.5, false, "")
	r.Answered(at(13), at(14))
	want(18.9, true, "")
	r.Roster(true, nil, at(15)) // alone
	want(1e6, true, "")
	r.Roster(true, []string{"d"}, at(1e6))
	want(1e6+5, true, "")
	want(1e6+6, false, "neither have agents: d")
	r.Roster(false, []string{"d"}, at(1e6+1))
	want(1e6+2, false, "have not taken")
	r.Heard("d", at(1e6+3))
	if cs := r.contacts(at(1e6 + 5)); len(cs) != 1 || cs[0] != (Contact{"d", 2 * time.Second}) {
		t.Errorf("contacts: %v", cs)
	}
	r.Roster(false, nil, at(1e6+6))
	r.Forget(nil)
	if len(r.others) != 0 {
		t.Errorf("%d agents are remembered", len(r.others))
	}
}
