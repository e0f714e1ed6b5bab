package operate

import (
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/orders"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/node/verbs"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// A delay is an order of a host, a domain or all hosts, in its canonical form. Any agent may be told to take it back.
func TestDelay(t *testing.T) {
	w := newTown("a1", "a2")
	for i, about := range [][2]string{{"", ""}, {"http://Www.Example.ORG:81/x", `about:"www.example.org" `},
		{"*.Bücher.example", `about:"*.xn--bcher-kva.example" `}, {"::1", `about:"[::1]" `}} {
		w.run(t, `a1 Give verb:"delay" about:"%s" value:" 10s  8-18 mon-fri, else 2s" why:"w"
			-> id:"a1-%x"
			-> why:"w" verb:"delay" %svalue:"10s 8-18 mon-fri, else 2s" stands:true text:"
			-> delay 10s 8-18 mon-fri, else 2s"} answers:{agent:"a2"`, about[0], 0x10000+i, about[1])
	}
	delays := verbs.DelayOrders(w.set.Standing())
	if len(delays) != 4 {
		t.Fatalf("%d delays stand", len(delays))
	}
	monday := time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)
	if d, ok := delays[0].Plan.At(monday); !ok || d != 10*time.Second {
		t.Errorf("on Monday: %s, %v", d, ok)
	}
	if d, ok := delays[0].Plan.At(monday.Add(-24 * time.Hour)); !ok || d != 2*time.Second {
		t.Errorf("on Sunday: %s, %v", d, ok)
	}
	for _, d := range delays {
		w.run(t, `a2 TakeBack id:"%s"`, d.Order.ID())
	}
	// An agent of another version may know other values.
	must.Get(w.set.Give(orders.Order{Verb: "delay", Value: "as the sun"}, "a9", time.Now()))(t)
	if delays := verbs.DelayOrders(w.set.Standing()); len(delays) > 0 {
		t.Errorf("taken back, but there are %v", delays)
	}
	for _, q := range []string{``, `value:"10"`, `value:"-1s"`, `value:"25h"`, `value:"else 1s"`,
		`about:"192.0.2.0/24" value:"1s"`, `about:"*." value:"1s"`, `about:"a b" value:"1s"`,
		`value:"1s" why:"` + strings.Repeat("x", 1000) + `"`} {
		w.run(t, `a1 Give verb:"delay" %s -> ! invalid_argument`, q)
	}
}

// A pattern for URLs is not taken for a host.
func TestAbout(t *testing.T) {
	for text, want := range map[string]string{
		"www.Example.org": "www.example.org", "https://www.example.org/a?b": "www.example.org",
		"*.example.org": "*.example.org",
		"192.0.2.7/24":  "192.0.2.0/24", "2001:db8::1": "[2001:db8::1]", "example.org/a?b": "example.org",
		"/calendar/": "", `\.pdf$`: "", "example.org/(a|b)": "", "^https": "", "a*b": "",
	} {
		if got, _, err := input.About(text); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v, want %q", text, got, err, want)
		}
	}
}
