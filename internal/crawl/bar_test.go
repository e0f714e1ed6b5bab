package crawl

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const barredWeb = `
delay 1s
seed http://a.example/
http://a.example/d http://d.example/ http://www.d.example/
dns a.example 192.0.2.1
dns www.bad.example 192.0.2.2
dns bad.example 192.0.2.3
dns notbad.example 192.0.2.4
dns c.example 198.51.100.7
dns d.example 192.0.2.5
dns www.d.example 192.0.2.6
http://a.example/ http://www.bad.example/ http://bad.example/ http://notbad.example/ http://c.example/ /d /1 /2 /3 /4
`

// While Bars hold for a host, a domain and a range of addresses, no host of theirs is asked. The others are crawled.
// When the Bars are lifted, the links that waited are fetched. A crawl with nothing but such links ends as blocked.
func TestBars(t *testing.T) {
	for _, lifted := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := &story{text: barredWeb}
			w, _, end := s.begin(t)
			if err := w.Bar(t.Context(), []Bar{{Domain: "bad.example", Why: "order 1"},
				{Prefix: netip.MustParsePrefix("198.51.100.0/24"), Why: "order 2"},
				{Host: "d.example", Why: "order 3"}, {Host: "d.example", Why: "blacklist, line 7"},
				{Prefix: netip.MustParsePrefix("192.0.2.5/32"), Why: "order 4"}}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2500 * time.Millisecond) // before a.example/1, after the links were found
			for host, why := range map[string]string{"www.bad.example": "blocked by order 1",
				"c.example": "blocked by order 2", "d.example": "blocked by order 3"} {
				if text, err := w.Explain(t.Context(), host); err != nil || !strings.Contains(text, why) {
					t.Errorf("explain %s: %q, %v, want %q", host, text, err, why)
				}
			}
			var whole []string
			if text, err := w.Explain(t.Context(), "d.example"); err == nil {
				for line := range strings.Lines(text) {
					if strings.Contains(line, "blocked by order") || strings.Contains(line, "blocked by blacklist") {
						whole = append(whole, strings.TrimSpace(line))
					}
				}
			}
			if want := []string{"blocked by blacklist, line 7", "blocked by order 3"}; !slices.Equal(whole, want) {
				t.Errorf("d.example is %q, want %q", whole, want)
			}
			if _, blocks, err := w.Waiting(t.Context(), "www.bad.example"); err != nil || len(blocks) != 1 ||
				blocks[0] != "order 1" {
				t.Errorf("www.bad.example: blocks %q, %v", blocks, err)
			}
			want := OnlyBlocked
			if lifted {
				want = Finished
				must(t, w.Bar(t.Context(), nil))
			}
			if stop, err := end(); stop != want || err != nil {
				t.Errorf("%v, %v, want %v", stop, err, want)
			}
			must(t, w.close())
			asked := map[string]bool{}
			for _, r := range s.web.Told() {
				asked[r.Host] = true
			}
			for _, host := range []string{"a.example", "notbad.example", "www.bad.example", "bad.example",
				"c.example", "d.example", "www.d.example"} {
				barred := slices.Contains([]string{"www.bad.example", "bad.example", "c.example", "d.example"}, host)
				if asked[host] != (lifted || !barred) {
					t.Errorf("lifted: %v: %s was asked: %v", lifted, host, asked[host])
				}
			}
		})
	}
}
