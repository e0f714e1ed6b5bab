package node

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/orders"
	"github.com/orbweaver/orbweaver/internal/rate"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// An agent names the order that pauses the crawl and the rate of this time of day. It finds in its logs and its archive
// what became of a URL.
func TestExplainOrdersAndLogs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web, mem := newSmallWeb(), testdisk.NewMem()
		cfg := web.config(t, mem)
		cfg.Scope.Exclude = []string{"a.example/2$"}
		var err error
		if cfg.Rate, err = rate.Parse("0.01/s 0-1, else none"); err != nil {
			t.Fatal(err)
		}
		runApart(t, cfg, func(a *Agent) {
			ctx := t.Context()
			says := func(host, url string, wants ...string) {
				t.Helper()
				text, err := operated{a}.Explain(ctx, host, url)
				for _, want := range wants {
					if err != nil || !strings.Contains(text, want) {
						t.Errorf("no %q in %v\n%s", want, err, text)
					}
				}
			}

			time.Sleep(10 * time.Second)
			says("a.example", "", "rate 0.01/s now, by the schedule 0.01/s 0-1, else none; "+
				"the next request may begin in ",
				"when: 2000-01-01 00:0")
			given, _, err := a.standing.Give(ctx, orders.Order{Verb: "pause", By: "alice", Why: "our line is needed"})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Hour)
			says("a.example", "http://a.example/", "the crawl is paused for 2 h 0 min by order "+given[0].ID()+
				" of alice, 2000-01-01 00:00:10Z: our line is needed\n", "when: after \"orbweaver ctl resume\"\n")
			text, err := operated{a}.Explain(ctx, "a.example", "")
			if err != nil || strings.Contains(text, "0.01/s") {
				t.Errorf("the rate holds at another time of day: %v\n%s", err, text)
			}
			if _, _, err := a.standing.Give(ctx, orders.Order{Verb: "pause", Off: true}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			says("", "http://a.example/", "http://a.example/: finished\n  at 2000-01-01 02:00:", "Z: status 200 OK, ")
			says("", "http://a.example/2", "/2: not known",
				"the link on http://a.example/, 1 link from a seed was not "+
					"followed: matches --exclude (excluded)\n", "exclude: out, excluded")
			u, err := weburl.Parse("http://a.example/")
			if err != nil {
				t.Fatal(err)
			}
			if text := a.archivedText(ctx, u); !strings.Contains(text, "status 200") {
				t.Errorf("the archive has %q", text)
			}
		})
	})
}
