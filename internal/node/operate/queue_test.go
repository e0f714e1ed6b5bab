package operate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/orders"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/node/verbs"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

func (r resident) Scope() *pb.ScopeResponse {
	return &pb.ScopeResponse{Kind: "host", Depth: 5, HostDepth: -1, Include: []string{"/in/"}}
}

// Each agent of a town has 5 links. "slow" agents read for 20 s in virtual time, and have one listing.
func (r resident) ListQueue(ctx context.Context, q *pb.ListQueue) (*pb.ListedQueue, error) {
	r.w.mu.Lock()
	slow := r.w.slow[r.name] > 0
	if slow {
		r.w.slow[r.name]--
	}
	r.w.mu.Unlock()
	p := &pb.ListedQueue{Listing: 7, Next: q.From, Count: &pb.QueueCount{Waiting: 5, Matched: 4}}
	switch {
	case q.Listing == 99:
		return nil, errors.New("the agent does not have the listing any more")
	case slow:
		time.Sleep(time.Second)
		p.Count.Reading, p.Count.Matched = true, 1
		return p, nil
	case q.Preview:
		for i := range min(q.Limit, 4) {
			p.Count.Examples = append(p.Count.Examples, fmt.Sprintf("%s/%d", r.name, i))
		}
		return p, nil
	}
	for ; p.Next < 4 && len(p.Links) < int(q.Limit); p.Next++ {
		p.Links = append(p.Links, &pb.QueuedLink{Url: fmt.Sprintf("%s/%d%s%s", r.name, p.Next, q.Host, q.Pattern)})
	}
	p.More = p.Next < 4
	return p, nil
}

// The pages have the links of all agents, agent by agent, with the counts of each, and the filter of the first page. An
// agent that does not answer is named, and one that reads for long only delays its pages.
func TestQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown("a1", "a2", "a3")
		w.slow = map[string]int{"a3": 20}
		w.silent["a2"] = true
		q := &pb.QueueRequest{Limit: 3, Host: "H"}
		var all []string
		pages, counts, reading, silent := 0, 0, 0, ""
		for {
			r := must.Get(w.members["a1"].Queue(t.Context(), q))(t)
			for _, l := range r.Links {
				if all = append(all, l.Url); !strings.HasPrefix(l.Url, l.Agent) {
					t.Errorf("%s is of agent %s", l.Url, l.Agent)
				}
			}
			for _, c := range r.Agents {
				switch {
				case c.Error != "":
					silent += c.Agent
				case c.Reading:
					reading++
				default:
					counts++
				}
			}
			pages++
			if q = (&pb.QueueRequest{Limit: 3, Token: r.Token}); r.Token == "" {
				break
			}
		}
		if got, want := strings.Join(all, " "), "a1/0h a1/1h a1/2h a1/3h a3/0h a3/1h a3/2h a3/3h"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if pages < 5 || reading == 0 || counts != 2 || silent != "a2" {
			t.Errorf("%d pages, %d of agents that read, %d counts, silent: %s", pages, reading, counts, silent)
		}
		w.run(t, `
			a1 Queue limit:1001 -> ! invalid_argument
			a1 Queue limit:-1 -> ! invalid_argument
			a1 Queue pattern:"(" -> ! invalid_argument
			a1 Queue host:"a b" -> ! invalid_argument
			a1 Queue token:"x" -> ! invalid_argument
			a1 Queue agent:"x" -> ! not_found
			a1 Queue token:"%s" -> ! unavailable`, // its listing is gone
			token(&pb.QueuePosition{Agents: []*pb.QueueAgent{{Name: "a1", Listing: 99}}}))
	})
}

// A preview has the counts of all agents at once. While one of them still reads, there is a token to ask again.
func TestExcludePreview(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown("a1", "a2", "a3")
		w.slow = map[string]int{"a3": 12}
		w.silent["a2"] = true
		first, err := w.members["a1"].ExcludePreview(t.Context(), &pb.ExcludePreviewRequest{Pattern: "x", Examples: 2})
		if err != nil || first.Token == "" {
			t.Fatalf("%v, %v", first, err)
		}
		w.run(t, `a1 ExcludePreview pattern:"x" examples:2 token:"%s"
			-> agents:{agent:"a1" waiting:5 matched:4 examples:"a1/0" examples:"a1/1"} agents:{agent:"a2" error:"
			-> agents:{agent:"a3" waiting:5 matched:4
			-> - token`, first.Token)
		if len(w.set.Past()) != 0 {
			t.Error("a preview has given an order")
		}
	})
}

// Exclusions and changes of the scope are orders. Nothing is given if a part of a change is wrong.
func TestScopeOrders(t *testing.T) {
	w := newTown("a1", "a2")
	w.run(t, `a2 Give verb:"exclude" about:"/x/" why:"why" -> id:"a2-10000"
		-> answers:{agent:"a1" text:"excluded: /x/"} answers:{agent:"a2" text:"excluded: /x/"}`)
	w.run(t, `
		a2 Give verb:"scope" -> ! invalid_argument
		a2 Give verb:"scope" about:"host a b" -> ! invalid_argument
		a2 Give verb:"scope" about:"include (" -> ! invalid_argument
		a2 Give verb:"scope" about:"host ok" value:"3" -> ! invalid_argument leave out "3"
		a2 Give verb:"scope" about:"depth" value:"-1" -> ! invalid_argument
		a2 Give verb:"scope" words:"depth deep" -> ! invalid_argument
		a2 Give verb:"scope" about:"include %s" -> ! invalid_argument
		a2 Give verb:"exclude" -> ! invalid_argument
		a2 Give verb:"exclude" about:"(" -> ! invalid_argument`, strings.Repeat("x", orders.MaxAbout))
	if len(w.set.Past()) != 1 {
		t.Errorf("a wrong change has given an order: %v", w.set.Past())
	}
	w.run(t, `
		a2 Give verb:"scope" about:"host H.example" also:{verb:"scope" about:"host ok" also:{verb:"pause"}} -> ! invalid_argument also
		a2 Give verb:"scope" about:"host ok" also:{verb:"scope" about:"include ("} -> ! invalid_argument
		a2 Give verb:"scope" about:"host H.example" also:{verb:"scope" about:"host h.example"} also:{verb:"scope" words:"domain *.d.example"} also:{verb:"scope" about:"include /more/"} also:{verb:"scope" words:"depth 03"} why:"why"
		-> answers:{agent:"a1" text:"scope changed: host h.example; scope changed: domain d.example; scope changed: include /more/; and 1 more"}
		-> order:{id:"a2-10001"
		-> also:{id:"a2-10004"
		-> why:"why" verb:"scope" about:"depth" value:"3" stands:true text:"scope depth 3"
		a1 AddSeeds urls:"a1.far"`)
	a := verbs.Amendments(w.set.Standing())
	if got, want := fmt.Sprint(a.Seeds, a.Hosts, a.Domains, a.Include, *a.Depth), "[http://a1.far/] [h.example] "+
		"[d.example] [/more/] 3"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if x := a.Excludes; len(x) != 2 || x[0].Pattern != "/x/" || x[0].Deeper != -1 || x[1].Deeper != 3 {
		t.Errorf("excludes %v", a.Excludes)
	}
	w.run(t, `
		a2 Scope -> depth:3 host_depth:-1 changes:{order:"a2-10000" text:"exclude /x/" why:"why"} changes:{order:"a2-10001"
		-> changes:{order:"a2-10004"
		-> changes:{order:"a1-10005" text:"seed http://a1.far/"}
		a2 Give verb:"scope" about:"depth" value:"none"`)
	if a := verbs.Amendments(w.set.Standing()); *a.Depth != -1 || len(a.Excludes) != 1 {
		t.Errorf("without a limit: %d, %v", *a.Depth, a.Excludes)
	}
	if off, ok := verbs.Include(w.set.Standing(), "/x/"); !ok || !off.Off || off.About != "/x/" {
		t.Errorf("%v, %v", off, ok)
	}
	if _, ok := verbs.Include(w.set.Standing(), "/y/"); ok {
		t.Error("an exclusion that nobody has given stands")
	}
}
