package node

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/orders"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
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
		if _, err := set.Give(orders.Order{Verb: "delay", About: about, Value: value}, "a1", now); err != nil {
			t.Fatal(err)
		}
	}
	delay := func(s string) []sheet.Setting { return []sheet.Setting{{Key: "delay", Values: []string{s}}} }
	table, err := sheet.New([]sheet.Entry{
		{Prefix: "own.example.org", Settings: delay("3s")}, {Prefix: "*.sub.example.org", Settings: delay("4s")},
		{Prefix: "same.example.net", Settings: delay("5s")}, {Prefix: "*.deep.example.com", Settings: delay("0s")},
		{Prefix: "*.org", Settings: delay("6s")}, {Prefix: "*.example.net", Settings: delay("7s")},
	})
	if err != nil {
		t.Fatal(err)
	}
	ds := newDelays(set.Standing())
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
	if d, _, ok := newDelays(nil).of("own.example.org", table, now); !ok || d != 3*time.Second {
		t.Errorf("without orders: %s, %v", d, ok)
	}
	if d, _, ok := newDelays(nil).of("else.example", table, now); ok {
		t.Errorf("without anything: %s", d)
	}
}

// An order of a delay holds from the next request on, over restarts, and until it is taken back: no restart and no
// agent's setting shortens it.
func TestDelayOverRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web, mem := newSmallWeb(), testdisk.NewMem()
		cfg := web.config(t, mem)
		var from, until time.Time
		for run := range 4 {
			cfg.Resume = run > 0
			runApart(t, cfg, func(a *Agent) {
				ctx := t.Context()
				switch run {
				case 0:
					time.Sleep(550 * time.Millisecond)
					if _, _, err := a.standing.Give(ctx, orders.Order{Verb: "delay", Value: "1h"}); err != nil {
						t.Error(err)
					}
					from = time.Now()
					time.Sleep(90 * time.Minute)
				case 1, 2:
					time.Sleep(100 * time.Minute)
				case 3:
					time.Sleep(time.Second)
					text, err := a.crawler.Explain(ctx, "a.example")
					if err != nil || !strings.Contains(text, "delay: 1h0m0s, order crawl-") ||
						!strings.Contains(text, "delay of 1h0m0s until") {
						t.Errorf("explain: %s, %v", text, err)
					}
					if _, _, err := a.standing.Give(ctx, orders.Order{Verb: "delay", Off: true}); err != nil {
						t.Error(err)
					}
					until = time.Now()
					time.Sleep(time.Hour)
				}
			})
		}
		last, during, after := map[string]time.Time{}, 0, 0
		for _, r := range web.requests() {
			before := last[r.host]
			last[r.host] = r.at
			switch {
			case r.at.Before(from):
			case !r.at.Before(until):
				after++
			default:
				during++
				if gap := r.at.Sub(before); gap < time.Hour {
					t.Errorf("%s %s after the request before it", r.host, gap)
				}
			}
		}
		if during < 6 || during > 10 || after < 8 {
			t.Errorf("%d requests under the order, %d after it", during, after)
		}
	})
}

type askedOf struct {
	host string
	at   time.Time
}

// requests returns the requests of the web by time.
func (w *smallWeb) requests() (rs []askedOf) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for u, times := range w.at {
		for _, at := range times {
			rs = append(rs, askedOf{strings.Split(u, "/")[2], at})
		}
	}
	slices.SortFunc(rs, func(a, b askedOf) int { return a.at.Compare(b.at) })
	return rs
}
