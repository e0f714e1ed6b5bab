package operate

import (
	"testing"

	"connectrpc.com/connect"

	"github.com/orbweaver/orbweaver/internal/cluster/orders"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
)

// The rate of a domain is an order beside that of the crawl. Each holds until it is taken back.
func TestRateDomain(t *testing.T) {
	w := newTown("a1", "a2")
	a1, a2 := w.members["a1"], w.members["a2"]
	if _, err := a1.Rate(t.Context(), &pb.RateRequest{Rate: "40/s"}); err != nil {
		t.Fatal(err)
	}
	r, err := a1.RateDomain(t.Context(), &pb.RateDomainRequest{Domain: " *.Example.org ", Rate: "1 8-18,5",
		Why: "a complaint"})
	const canonical = "1/s 8-18, else 5/s"
	if err != nil || said(r.Answers) != "a1:example.org: rate "+canonical+"; a2:example.org: rate "+canonical ||
		r.Order.Value != canonical || r.Order.About != "example.org" || r.Order.Verb != "rate" {
		t.Fatalf("rate: %v, %v", r, err)
	}
	if _, err := a2.RateDomain(t.Context(), &pb.RateDomainRequest{Domain: "192.0.2.7", Rate: "2/s"}); err != nil {
		t.Fatal(err)
	}
	rates := DomainRates(w.set.Standing())
	if len(rates) != 2 || rates[0].Domain != "192.0.2.7" || rates[1].Domain != "example.org" ||
		rates[1].Plan.String() != canonical {
		t.Errorf("%v hold", rates)
	}
	if s := Rate(w.set.Standing()); s == nil || s.String() != "40/s" {
		t.Errorf("the crawl has %v", s)
	}
	if _, err := a2.TakeBack(t.Context(), &pb.TakeBackRequest{Id: r.Order.Id}); err != nil {
		t.Fatal(err)
	}
	if rates := DomainRates(w.set.Standing()); len(rates) != 1 {
		t.Errorf("%v hold after one was taken back", rates)
	}
	for domain, text := range map[string]string{"": "1/s", "www.example.org": "1/s", "*.www.example.org": "1/s",
		"192.0.2.0/24": "1/s", "example.com": "1Mbit", "example.net": "", "example.edu": "1/s 8-18"} {
		_, err := a1.RateDomain(t.Context(), &pb.RateDomainRequest{Domain: domain, Rate: text})
		if connect.CodeOf(err) != connect.CodeInvalidArgument {
			t.Errorf("%q, %q: %v", domain, text, err)
		}
	}
	// An order of a later version that this one cannot read counts as none.
	if rates := DomainRates([]orders.Order{{Verb: verbRate, About: "a.example", Value: "1/fortnight"}}); rates != nil {
		t.Errorf("%v", rates)
	}
}
