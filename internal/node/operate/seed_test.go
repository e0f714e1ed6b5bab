package operate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"connectrpc.com/connect"

	"github.com/orbweaver/orbweaver/internal/cluster/orders"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/node/verbs"
)

// In a town, a URL with "bad" is no seed, one with "far" widens the scope, and hosts begin with the names of their
// agents. Those of "nobody" have no agent.
func (r resident) PlanSeeds(urls []string) (plans []SeedPlan) {
	for _, u := range urls {
		p := SeedPlan{URL: "http://" + u + "/", Widens: strings.Contains(u, "far")}
		if strings.Contains(u, "bad") {
			p.Refused = "it is bad"
		}
		for name := range r.w.members {
			if name != r.name && strings.HasPrefix(u, name) {
				p.Agent = name
			}
		}
		plans = append(plans, p)
	}
	return plans
}

func (r resident) TakeSeeds(_ context.Context, urls []string) (seeds []*pb.Seed, err error) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	r.w.does = append(r.w.does, r.name+" takes "+strings.Join(urls, " "))
	for _, u := range urls {
		if strings.Contains(u, "broken") {
			return nil, errors.New("the disk is broken")
		}
		result := "new"
		if strings.Contains(u, "known") {
			result = "known"
		}
		seeds = append(seeds, &pb.Seed{Url: u, Result: result})
	}
	return seeds, nil
}

// Each seed goes to the agent of its host. If that does not answer, the agent that was asked takes the seed. Seeds that
// widen the scope become orders, which all agents get.
func TestAddSeeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown("a1", "a2", "a3")
		w.run(t, `
			a1 AddSeeds urls:"a2.far" urls:"a1.known" urls:"bad" urls:"a3" urls:"nobody.far" why:"why"
			-> = seeds:{url:"a2.far" result:"new" agent:"a2"} seeds:{url:"a1.known" result:"known" agent:"a1"} seeds:{url:"bad" result:"refused" text:"it is bad"} seeds:{url:"a3" result:"new" agent:"a3"} seeds:{url:"nobody.far" result:"new" agent:"a1"} orders:"a1-10000" told:{agent:"a1"} told:{agent:"a2"} told:{agent:"a3"}
			a1 Orders -> why:"why" verb:"seed" about:"http://a2.far/ http://nobody.far/" stands:true text:"seed http://a2.far/ http://nobody.far/"}`)
		equal(t, "seeds of orders", strings.Join(verbs.SeedURLs(w.set.Standing()), " "), "http://a2.far/ http://nobody.far/")
		equal(t, "noted", strings.Join(w.noted, "; "), "a1 seed a2.far (5 URLs) why")
		w.silent["a2"] = true
		w.run(t, `
			a3 AddSeeds urls:"a2.x" urls:"a3.x" urls:"a1.x"
			-> = seeds:{url:"a2.x" result:"new" agent:"a3" text:"a2 owns the host, and gets the URL when it answers: agent a2 does not answer: context deadline exceeded"} seeds:{url:"a3.x" result:"new" agent:"a3"} seeds:{url:"a1.x" result:"new" agent:"a1"}
			a3 AddSeeds urls:"a3.broken" -> ! unavailable`)
	})
}

// Long lists of seeds become several orders, up to a bound. Calls without URLs, and with too many, are refused.
func TestAddManySeeds(t *testing.T) {
	w := newTown("")
	o := w.members[""]
	var urls []string
	for i := range seedsMost {
		urls = append(urls, fmt.Sprintf("far%0180d", i))
	}
	var err error
	n := 0
	for ; n < 10 && err == nil; n++ {
		for i := range urls {
			urls[i] = fmt.Sprint(n, urls[i])
		}
		_, err = o.AddSeeds(t.Context(), &pb.AddSeedsRequest{Urls: urls})
	}
	standing := w.set.Standing()
	if connect.CodeOf(err) != connect.CodeFailedPrecondition || n < 3 || len(standing) > seedOrders ||
		len(verbs.SeedURLs(standing)) != (n-1)*seedsMost {
		t.Errorf("%d calls, %d orders with %d seeds, %v", n, len(standing), len(verbs.SeedURLs(standing)), err)
	}
	for _, s := range standing {
		if len(s.About) > orders.MaxAbout {
			t.Fatalf("an order has %d bytes", len(s.About))
		}
	}
	w.run(t, `
		AddSeeds -> ! invalid_argument
		AddSeeds %s -> ! invalid_argument`, strings.Repeat(`urls:"x" `, seedsMost+1))
}
