package verbs

import (
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/orders"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/web/sheet"
)

// Orders of page limits stand in front of the settings of hosts, and change no other setting. The most specific one
// holds.
func TestPageLimit(t *testing.T) {
	settings := func(limit string) *sheet.Table {
		table := must.Get(sheet.New([]sheet.Entry{{Prefix: "www.example.org", Settings: []sheet.Setting{
			{Key: "delay", Values: []string{"9s"}}, {Key: "host-page-limit", Values: []string{limit}}}}}))(t)
		return table
	}
	f := &Force{settings: Settings{Sheets: new(sheet.Live)}}
	f.settings.Sheets.Set(settings("7"))
	set := orders.NewSet()
	// After each order, the limits of www.example.org, a.example.org and example.net; -1: none of its own.
	want := func(limits ...int64) {
		t.Helper()
		must.Do(t, pageLimit.rules.apply(t.Context(), f, set.Standing()))
		for i, host := range []string{"www.example.org", "a.example.org", "example.net"} {
			got := int64(-1)
			if own := f.settings.Sheets.Table().Host(host).HostPageLimit; own != nil {
				got = *own
			}
			if got != limits[i] {
				t.Errorf("%s: limit %d, want %d", host, got, limits[i])
			}
		}
		if d := f.settings.Sheets.Table().Host("www.example.org").Delay; d == nil || *d != 9*time.Second {
			t.Errorf("delay %v", d)
		}
	}
	give := func(about, value string, off bool) {
		t.Helper()
		o := must.Get(pageLimit.Order(about, value, off))(t)
		must.Get(set.Give(o, "a1", time.Unix(1e9, 0)))(t)
	}
	want(7, -1, -1)
	give("*.example.org", "200", false)
	want(7, 200, -1)
	give("http://www.example.org/x", "5000", false)
	give("example.net", "0", false)
	want(5000, 200, 0)
	f.settings.Sheets.Set(settings("8")) // the settings change, and the orders stand
	want(5000, 200, 0)
	give("www.example.org", "", true)
	want(8, 200, 0)
	must.Get(set.Give(orders.Order{Verb: verbPageLimit, About: "example.net", Value: "many"}, "a1",
		time.Unix(1e9, 0)))(t)
	want(8, 200, -1) // another version has given it
	for _, wrong := range [][2]string{{"www.example.org", ""}, {"www.example.org", "-1"}, {"www.example.org", "1.5"},
		{"192.0.2.0/24", "5"}, {"", "5"}} {
		if o, err := pageLimit.Order(wrong[0], wrong[1], false); err == nil {
			t.Errorf("%q is taken for %+v", wrong, o)
		}
	}
}
