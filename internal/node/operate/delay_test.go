package operate

import (
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/orbweaver/orbweaver/internal/cluster/orders"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
)

// A delay is an order of a host, a domain or all hosts, in its canonical form. Any agent may be told to take it back.
func TestDelay(t *testing.T) {
	w := newTown("a1", "a2")
	a1, a2 := w.members["a1"], w.members["a2"]
	for about, want := range map[string]string{"": "", "http://Www.Example.ORG:81/x": "www.example.org",
		"*.Bücher.example": "*.xn--bcher-kva.example", "::1": "[::1]"} {
		d, err := a1.Delay(t.Context(), &pb.DelayRequest{About: about, Delay: " 10s  8-18 mon-fri, else 2s", Why: "w"})
		if err != nil || d.Order.GetAbout() != want || d.Order.GetValue() != "10s 8-18 mon-fri, else 2s" ||
			!d.Order.Stands || !strings.Contains(said(d.Answers), "delay 10s 8-18 mon-fri, else 2s; a2:") {
			t.Errorf("delay of %q: %v, %v", about, d, err)
		}
	}
	delays := Delays(w.set.Standing())
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
		if _, err := a2.TakeBack(t.Context(), &pb.TakeBackRequest{Id: d.Order.ID()}); err != nil {
			t.Error(err)
		}
	}
	// An agent of another version may know other values.
	if _, err := w.set.Give(orders.Order{Verb: "delay", Value: "as the sun"}, "a9", time.Now()); err != nil {
		t.Fatal(err)
	}
	if delays := Delays(w.set.Standing()); len(delays) > 0 {
		t.Errorf("taken back, but there are %v", delays)
	}
	for _, q := range []*pb.DelayRequest{{}, {Delay: "10"}, {Delay: "-1s"}, {Delay: "25h"}, {Delay: "else 1s"},
		{About: "192.0.2.0/24", Delay: "1s"}, {About: "*.", Delay: "1s"}, {About: "a b", Delay: "1s"},
		{Delay: "1s", Why: strings.Repeat("x", 1000)}} {
		if _, err := a1.Delay(t.Context(), q); connect.CodeOf(err) != connect.CodeInvalidArgument {
			t.Errorf("delay %v: %v", q, err)
		}
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
		if got, _, err := About(text); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v, want %q", text, got, err, want)
		}
	}
}
