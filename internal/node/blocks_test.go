package node

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/orbweaver/orbweaver/internal/cluster/orders"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/store/journal"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

// A host that the journal of an earlier version blocks becomes an order, once: it is listed, keeps the host blocked,
// and stays taken back. A block that an order has already does not become another one.
func TestOldBlocksBecomeOrders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web, mem := newSmallWeb(), testdisk.NewMem()
		cfg := web.config(t, mem)
		open := func() *Agent {
			t.Helper()
			a, err := Open(cfg)
			if err != nil {
				t.Fatal(err)
			}
			cfg.Resume, cfg.Unblock = true, nil
			return a
		}
		closes := func(a *Agent) {
			t.Helper()
			if err := a.Close(); err != nil {
				t.Fatal(err)
			}
		}
		stand := func(a *Agent, want ...string) {
			t.Helper()
			var got []string
			for _, o := range a.standing.Standing() {
				got = append(got, strings.TrimSpace(o.Verb+" "+o.About+" "+o.By))
			}
			if !slices.Equal(got, want) {
				t.Errorf("%q stand, want %q", got, want)
			}
		}
		a := open()
		if _, _, err := a.standing.Give(t.Context(), orders.Order{Verb: "block", About: "c.example"}); err != nil {
			t.Fatal(err)
		}
		var old []journal.Record
		for _, host := range []string{"a.example", "b.example", "c.example"} {
			old = append(old, journal.Record{Kind: state.Host,
				Payload: frontier.HostState{Host: host, Blocked: true}.AppendTo(nil)})
		}
		if err := a.parts.Journal.Append(old); err != nil {
			t.Fatal(err)
		}
		closes(a)

		cfg.Unblock = []string{"http://a.example/", "x.example", "a.example"}
		a = open()
		stand(a, "block c.example", "block b.example an earlier version")
		past := a.standing.Past()
		if last := past[len(past)-1]; !last.Off || last.By != byStart {
			t.Errorf("the order of --unblock: %+v", last)
		}
		if want := []string{"x.example"}; !slices.Equal(a.NotBlocked, want) {
			t.Errorf("not blocked: %q, want %q", a.NotBlocked, want)
		}
		res, err := a.Run(t.Context())
		if err != nil || res.Stop != crawl.OnlyBlocked || res.Barred != (Barred{ByOrders: true}) {
			t.Errorf("%s, %v, %+v", res.Stop, err, res.Barred)
		}
		closes(a)
		if web.at["http://a.example/"] == nil || web.at["http://b.example/"] != nil ||
			web.at["http://b.example/robots.txt"] != nil {
			t.Errorf("requests: %v", web.at)
		}

		cfg.Unblock = []string{"b.example"}
		a = open()
		stand(a, "block c.example")
		if res, err = a.Run(t.Context()); err != nil || res.Stop != crawl.Finished {
			t.Errorf("%s, %v", res.Stop, err)
		}
		closes(a)
		a = open()
		stand(a, "block c.example")
		closes(a)
	})
}

// A host that a living or lost agent of an earlier version has blocked becomes an order, in force and durable when the
// call returns. A text that is not a host is ignored.
func TestOldBlocksOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web, mem := newSmallWeb(), testdisk.NewMem()
		cfg := web.config(t, mem)
		a := opened(t, cfg)
		for range 2 {
			if err := a.standing.block(t.Context(), []string{"b.example", "*.c.example", "c\x00", "http://c.example/",
				""}); err != nil {
				t.Fatal(err)
			}
		}
		kept, err := orders.Load(mem, a.dir(ordersFile))
		if err != nil || len(kept.Past()) != 1 || kept.Past()[0].About != "b.example" {
			t.Errorf("the file has %v, %v; want a block of b.example", kept.Past(), err)
		}
		res, err := a.Run(t.Context())
		if err != nil || res.Stop != crawl.OnlyBlocked {
			t.Errorf("%s, %v", res.Stop, err)
		}
		if web.at["http://a.example/"] == nil || web.at["http://b.example/robots.txt"] != nil {
			t.Errorf("requests: %v", web.at)
		}
	})
}
