package sim

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testweb"
	"github.com/orbweaver/orbweaver/internal/testweb/gen"
)

// TestJudge checks that the judge sees every broken rule, and reports no request that breaks none.
func TestJudge(t *testing.T) {
	made, err := gen.New(gen.Plain(1, 2))
	if err != nil {
		t.Fatal(err)
	}
	truth, err := made.Reachable(gen.Bounds{Seeds: []gen.Seed{{}}, Robots: true})
	if err != nil {
		t.Fatal(err)
	}
	at := netip.MustParseAddr
	a1 := testweb.OriginHost{Name: "a1.example", Site: "a1.example", Addr: at("127.0.0.1")}
	a2 := testweb.OriginHost{Name: "a2.example", Site: "a2.example", Addr: at("127.0.0.1")} // the same address
	b1 := testweb.OriginHost{Name: "b1.b.example", Site: "b.example", Addr: at("127.0.0.2")}
	b2 := testweb.OriginHost{Name: "b2.b.example", Site: "b.example", Addr: at("127.0.0.3")} // the same site
	page := testweb.Reply{Status: 200}
	for _, c := range []struct {
		name string
		play func(j *judge, ask func(h testweb.OriginHost, from, to int, r testweb.Reply))
		want []string
	}{
		{"polite", func(_ *judge, ask func(testweb.OriginHost, int, int, testweb.Reply)) {
			ask(a1, 0, 10, page)
			ask(b1, 0, 10, page)
			ask(a2, 60, 70, page)
			ask(a1, 120, 130, page)
			ask(b2, 60, 70, page)
		}, nil},
		{"host", func(_ *judge, ask func(testweb.OriginHost, int, int, testweb.Reply)) {
			ask(a1, 0, 10, page)
			ask(a1, 109, 120, page)
		}, []string{"gap host"}},
		{"address", func(_ *judge, ask func(testweb.OriginHost, int, int, testweb.Reply)) {
			ask(a1, 0, 10, page)
			ask(a2, 59, 70, page)
		}, []string{"gap address"}},
		{"site", func(_ *judge, ask func(testweb.OriginHost, int, int, testweb.Reply)) {
			ask(b1, 0, 10, page)
			ask(b2, 59, 70, page)
		}, []string{"gap site"}},
		{"retry-after", func(_ *judge, ask func(testweb.OriginHost, int, int, testweb.Reply)) {
			ask(b1, 0, 10, testweb.Reply{Status: 503, RetryAfter: time.Second})
			ask(b1, 500, 510, page)
		}, []string{"retry-after host"}},
		{"robots", func(_ *judge, ask func(testweb.OriginHost, int, int, testweb.Reply)) {
			ask(b1, 0, 10, testweb.Reply{Status: 200, Denied: true})
		}, []string{"robots host"}},
		{"concurrent", func(j *judge, ask func(testweb.OriginHost, int, int, testweb.Reply)) {
			j.begin(a1, 1, "/", start)
			ask(a2, 5, 10, page)
		}, []string{"concurrent address"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := newJudge(made, truth, 100*time.Millisecond, 50*time.Millisecond, 50*time.Millisecond)
			c.play(j, func(h testweb.OriginHost, from, to int, r testweb.Reply) {
				r.Page = -1
				ms := func(n int) time.Time { return start.Add(time.Duration(n) * time.Millisecond) }
				j.begin(h, 1, "/", ms(from)).end(0, r, ms(to), true)
			})
			var got []string
			for _, v := range j.violations {
				got = append(got, v.Kind+" "+v.Group)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}
