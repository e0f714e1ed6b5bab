package operate

import (
	"fmt"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/cluster/orders"
	"github.com/orbweaver/orbweaver/internal/node/verbs"
)

// A rate is an order. The latest one holds at all agents, until it is taken back.
func TestRate(t *testing.T) {
	w := newTown("a1", "a2")
	holds := func(want string) {
		t.Helper()
		equal(t, "the rate", fmt.Sprint(verbs.Rate(w.set.Standing())), want)
	}
	holds("<nil>")
	const canonical = "40/s 8-18 mon-fri, else 300/s"
	w.run(t, `a1 Give verb:"rate" value:"40 8-18  mon-fri,300" why:"a complaint" -> value:"%s"
		-> answers:{agent:"a1" text:"rate %[1]s"} answers:{agent:"a2" text:"rate %[1]s"}`, canonical)
	holds(canonical)
	w.run(t, `a2 Give verb:"rate" value:"none" -> id:"a2-10001"`)
	holds("none") // no limit, whatever --rate says
	w.run(t, `a1 TakeBack id:"a2-10001"`)
	holds("<nil>")
	for _, text := range []string{"", "fast", "40/s 8-18", "40/s " + strings.Repeat("8-18 ", 100) + ", else none",
		strings.Repeat("40/s 8-18 mon, ", 30) + "else none"} {
		w.run(t, `a1 Give verb:"rate" value:"%s" -> ! invalid_argument`, text)
	}
	// An order of a later version that this one cannot read counts as none.
	if s := verbs.Rate([]orders.Order{{Verb: "rate", Value: "1/fortnight"}}); s != nil {
		t.Errorf("%v", s)
	}
}

// A rate of zero is refused, because it would mean no limit.
func TestZeroRate(t *testing.T) {
	w := newTown("a1")
	for text, zero := range map[string]string{
		"0": "0", "0/s": "0/s", "0.0/s": "0.0/s", "00": "00", "0kbit": "0kbit", " 0 8-18, else 300/s": "0",
		"300/s 8-18,else 0/s": "0/s", "300/s 8-18, 0": "0",
	} {
		w.run(t, `a1 Give verb:"rate" value:"%s" -> ! invalid_argument "%s": a rate of zero is not possible; write none`,
			text, zero)
	}
	w.run(t, `a1 Give verb:"rate" about:"example.org" value:"0" -> ! invalid_argument write none
		a1 Give verb:"rate" value:"0.5/s"
		a1 Give verb:"rate" value:"300/s 0-8, else 10/s"
		a1 Give verb:"rate" value:"none"
		a1 Give verb:"rate" value:"10/s 0:30-8, none"
		a1 Give verb:"rate" value:"40"`)
}

// The rate of a domain is an order beside that of the crawl. Each holds until it is taken back.
func TestRateDomain(t *testing.T) {
	w := newTown("a1", "a2")
	holds := func(want string) {
		t.Helper()
		var got []string
		for _, r := range verbs.DomainRates(w.set.Standing()) {
			got = append(got, r.Domain+" "+r.Plan.String())
		}
		equal(t, "rates", strings.Join(got, "; "), want)
	}
	const canonical = "1/s 8-18, else 5/s"
	w.run(t, `a1 Give verb:"rate" value:"40/s"
		a1 Give verb:"rate" about:" *.Example.org " value:"1 8-18,5" why:"a complaint"
		-> id:"a1-10001"
		-> verb:"rate" about:"example.org" value:"%s"
		-> answers:{agent:"a1" text:"example.org: rate %[1]s"} answers:{agent:"a2" text:"example.org: rate %[1]s"}
		a2 Give verb:"rate" about:"192.0.2.7" value:"2/s"`, canonical)
	holds("192.0.2.7 2/s; example.org " + canonical)
	equal(t, "the crawl's rate", fmt.Sprint(verbs.Rate(w.set.Standing())), "40/s")
	w.run(t, `a2 TakeBack id:"a1-10001"`)
	holds("192.0.2.7 2/s")
	for domain, text := range map[string]string{"www.example.org": "1/s", "*.www.example.org": "1/s",
		"192.0.2.0/24": "1/s", "example.com": "1Mbit", "example.net": "", "example.edu": "1/s 8-18"} {
		w.run(t, `a1 Give verb:"rate" about:"%s" value:"%s" -> ! invalid_argument`, domain, text)
	}
	// An order of a later version that this one cannot read counts as none.
	later := []orders.Order{{Verb: "rate", About: "a.example", Value: "1/fortnight"}}
	if rates := verbs.DomainRates(later); rates != nil {
		t.Errorf("%v", rates)
	}
}
