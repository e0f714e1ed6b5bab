package verbs

import (
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/orders"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/web/sheet"
)

// Of the orders and settings for a host, the most specific one holds. If it has no value at this time of day, the next
// one holds.
func TestWhichDelayHolds(t *testing.T) {
	set := orders.NewSet()
	now := time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC) // a Monday
	for about, value := range map[string]string{"": "9s", "*.example.org": "10s",
		"www.example.org":   "20s 8-18, else 1s",
		"night.example.org": "30s 22-6", "*.sub.example.org": "40s", "same.example.net": "50s",
		"*.example.com": "70s"} {
		must.Get(set.Give(orders.Order{Verb: "delay", About: about, Value: value}, "a1", now))(t)
	}
	delay := func(s string) []sheet.Setting { return []sheet.Setting{{Key: "delay", Values: []string{s}}} }
	table := must.Get(sheet.New([]sheet.Entry{
		{Prefix: "own.example.org", Settings: delay("3s")}, {Prefix: "*.sub.example.org", Settings: delay("4s")},
		{Prefix: "same.example.net", Settings: delay("5s")}, {Prefix: "*.deep.example.com", Settings: delay("0s")},
		{Prefix: "*.org", Settings: delay("6s")}, {Prefix: "*.example.net", Settings: delay("7s")},
	}))(t)
	ds := delaysOf(set.Standing())
	for host, want := range map[string]time.Duration{"www.example.org": 20, "other.example.org": 10, "example.org": 10,
		"night.example.org": 10, "own.example.org": 3, "a.sub.example.org": 40, "same.example.net": 50,
		"b.example.net": 7, "c.deep.example.com": 0, "d.example.com": 70, "else.org": 6, "else.example": 9,
		"myexample.com": 9} {
		if d, why, ok := ds.of(host, table, now); !ok || d != want*time.Second {
			t.Errorf("%s: %s, %v (%s), want %ds", host, d, ok, why, want)
		}
	}
	if d, _, _ := ds.of("www.example.org", table, now.Add(8*time.Hour)); d != time.Second {
		t.Errorf("in the evening: %s", d)
	}
	if d, _, ok := delaysOf(nil).of("own.example.org", table, now); !ok || d != 3*time.Second {
		t.Errorf("without orders: %s, %v", d, ok)
	}
	if d, _, ok := delaysOf(nil).of("else.example", table, now); ok {
		t.Errorf("without anything: %s", d)
	}
}
