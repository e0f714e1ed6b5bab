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

// seeded returns what has become of seeds as text.
func seeded(r *pb.AddSeedsResponse) string {
	var all []string
	for _, s := range r.GetSeeds() {
		all = append(all, strings.TrimSpace(fmt.Sprintf("%s:%s:%s %s", s.Url, s.Result, s.Agent, s.Text)))
	}
	return strings.Join(all, "; ")
}

// Each seed goes to the agent of its host. If that does not answer, the agent that was asked takes the seed. Seeds that
// widen the scope become orders, which all agents get.
func TestAddSeeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown("a1", "a2", "a3")
		r, err := w.members["a1"].AddSeeds(t.Context(), &pb.AddSeedsRequest{Why: "why",
			Urls: []string{"a2.far", "a1.known", "bad", "a3", "nobody.far"}})
		if got, want := seeded(r), "a2.far:new:a2; a1.known:known:a1; bad:refused: it is bad; a3:new:a3; "+
			"nobody.far:new:a1"; err != nil || got != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
		standing := w.set.Standing()
		if len(standing) != 1 || standing[0].About != "http://a2.far/ http://nobody.far/" || standing[0].Why != "why" ||
			len(r.Orders) != 1 || standing[0].ID() != r.Orders[0] || len(r.Told) != 3 {
			t.Errorf("orders %v, %v", standing, r)
		}
		if got := strings.Join(SeedURLs(standing), " "); got != standing[0].About {
			t.Errorf("the orders have the seeds %s", got)
		}
		if got, want := strings.Join(w.noted, "; "), "a1 seed a2.far (5 URLs) why"; got != want {
			t.Errorf("noted %q, want %q", got, want)
		}
		w.silent["a2"] = true
		r, err = w.members["a3"].AddSeeds(t.Context(), &pb.AddSeedsRequest{Urls: []string{"a2.x", "a3.x", "a1.x"}})
		if got, want := seeded(r), "a2.x:new:a3 a2 owns the host, and gets the URL when it answers: agent a2 does "+
			"not answer: context deadline exceeded; a3.x:new:a3; a1.x:new:a1"; err != nil || got != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
		_, err = w.members["a3"].AddSeeds(t.Context(), &pb.AddSeedsRequest{Urls: []string{"a3.broken"}})
		if connect.CodeOf(err) != connect.CodeUnavailable {
			t.Errorf("the disk is broken: %v", err)
		}
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
		len(SeedURLs(standing)) != (n-1)*seedsMost {
		t.Errorf("%d calls, %d orders with %d seeds, %v", n, len(standing), len(SeedURLs(standing)), err)
	}
	for _, s := range standing {
		if len(s.About) > orders.MaxAbout {
			t.Fatalf("an order has %d bytes", len(s.About))
		}
	}
	for _, urls := range [][]string{nil, make([]string, seedsMost+1)} {
		_, err := o.AddSeeds(t.Context(), &pb.AddSeedsRequest{Urls: urls})
		if connect.CodeOf(err) != connect.CodeInvalidArgument {
			t.Errorf("%d URLs: %v", len(urls), err)
		}
	}
}
