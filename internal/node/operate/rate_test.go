package operate

import (
	"strconv"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/orbweaver/orbweaver/internal/cluster/orders"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
)

// A rate is an order. The latest one holds at all agents, until it is taken back.
func TestRate(t *testing.T) {
	w := newTown("a1", "a2")
	a1, a2 := w.members["a1"], w.members["a2"]
	if s := Rate(w.set.Standing()); s != nil {
		t.Errorf("without an order: %v", s)
	}
	r, err := a1.Rate(t.Context(), &pb.RateRequest{Rate: "40 8-18  mon-fri,300", Why: "a complaint"})
	const canonical = "40/s 8-18 mon-fri, else 300/s"
	if err != nil || said(r.Answers) != "a1:rate "+canonical+"; a2:rate "+canonical || r.Order.Value != canonical {
		t.Fatalf("rate: %v, %v", r, err)
	}
	if s := Rate(w.set.Standing()); s == nil || s.String() != canonical {
		t.Errorf("%v holds", s)
	}
	if r, err = a2.Rate(t.Context(), &pb.RateRequest{Rate: "none"}); err != nil {
		t.Fatal(err)
	}
	if s := Rate(w.set.Standing()); s == nil || !s.None() { // no limit, whatever --rate says
		t.Errorf("%v holds", s)
	}
	if _, err := a1.TakeBack(t.Context(), &pb.TakeBackRequest{Id: r.Order.Id}); err != nil {
		t.Fatal(err)
	}
	if s := Rate(w.set.Standing()); s != nil {
		t.Errorf("%v holds after it was taken back", s)
	}
	for _, text := range []string{"", "fast", "40/s 8-18", "40/s " + strings.Repeat("8-18 ", 100) + ", else none",
		strings.Repeat("40/s 8-18 mon, ", 30) + "else none"} {
		if _, err := a1.Rate(t.Context(), &pb.RateRequest{Rate: text}); connect.CodeOf(err) !=
			connect.CodeInvalidArgument {
			t.Errorf("rate %.40q: %v", text, err)
		}
	}
	// An order of a later version that this one cannot read counts as none.
	if s := Rate([]orders.Order{{Verb: verbRate, Value: "1/fortnight"}}); s != nil {
		t.Errorf("%v", s)
	}
}

// A rate of zero is refused, because it would mean no limit. An order of an earlier version may have one.
func TestZeroRate(t *testing.T) {
	w := newTown("a1")
	for text, zero := range map[string]string{
		"0": "0", "0/s": "0/s", "0.0/s": "0.0/s", "00": "00", "0kbit": "0kbit", " 0 8-18, else 300/s": "0",
		"300/s 8-18,else 0/s": "0/s", "300/s 8-18, 0": "0",
	} {
		_, err := w.members["a1"].Rate(t.Context(), &pb.RateRequest{Rate: text})
		if connect.CodeOf(err) != connect.CodeInvalidArgument ||
			!strings.Contains(err.Error(), strconv.Quote(zero)+": a rate of zero is not possible; write none") {
			t.Errorf("%q: %v", text, err)
		}
	}
	domain := &pb.RateDomainRequest{Domain: "example.org", Rate: "0"}
	_, err := w.members["a1"].RateDomain(t.Context(), domain)
	if err == nil || !strings.Contains(err.Error(), "write none") {
		t.Errorf("domain: %v", err)
	}
	for _, text := range []string{"0.5/s", "300/s 0-8, else 10/s", "none", "10/s 0:30-8, none", "40"} {
		if _, err := w.members["a1"].Rate(t.Context(), &pb.RateRequest{Rate: text}); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	if s := Rate([]orders.Order{{Verb: verbRate, Value: "0"}}); s == nil || !s.None() {
		t.Errorf("a stored rate of zero is %v, want no limit", s)
	}
}
