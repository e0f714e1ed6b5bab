package operate

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	"github.com/orbweaver/orbweaver/internal/cluster/orders"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
)

func (r resident) CheckPattern(pattern string) error {
	_, err := regexp.Compile(pattern)
	return err
}

func (r resident) CheckHost(host string) (string, error) {
	if strings.Contains(host, "!") {
		return "", errors.New("it is no host")
	}
	return strings.ToLower(host), nil
}

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
			r, err := w.members["a1"].Queue(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
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
		for _, q := range []*pb.QueueRequest{{Limit: 1001}, {Limit: -1}, {Pattern: "("}, {Host: "!"}, {Token: "x"}} {
			if _, err := w.members["a1"].Queue(t.Context(), q); connect.CodeOf(err) != connect.CodeInvalidArgument {
				t.Errorf("%v: %v", q, err)
			}
		}
		gone := token(&pb.QueuePosition{Agents: []*pb.QueueAgent{{Name: "a1", Listing: 99}}})
		if _, err := w.members["a1"].Queue(t.Context(), &pb.QueueRequest{Token: gone}); connect.
			CodeOf(err) != connect.CodeUnavailable {
			t.Errorf("a listing that is gone: %v", err)
		}
		if _, err := w.members["a1"].Queue(t.Context(), &pb.QueueRequest{Agent: "x"}); connect.
			CodeOf(err) != connect.CodeNotFound {
			t.Errorf("an unknown agent: %v", err)
		}
	})
}

// A preview has the counts of all agents at once. While one of them still reads, there is a token to ask again.
func TestExcludePreview(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown("a1", "a2", "a3")
		w.slow = map[string]int{"a3": 12}
		w.silent["a2"] = true
		q := &pb.ExcludePreviewRequest{Pattern: "x", Examples: 2}
		calls := 0
		for {
			r, err := w.members["a1"].ExcludePreview(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			calls++
			if q.Token = r.Token; q.Token != "" {
				continue
			}
			if len(r.Agents) != 3 || r.Agents[0].Matched != 4 || len(r.Agents[0].Examples) != 2 ||
				r.Agents[1].Error == "" || r.Agents[2].Agent != "a3" || r.Agents[2].Matched != 4 {
				t.Errorf("got %v", r.Agents)
			}
			break
		}
		if calls != 2 {
			t.Errorf("%d calls, want 2", calls)
		}
		if len(w.set.Past()) != 0 {
			t.Error("a preview has given an order")
		}
	})
}

// Exclusions and changes of the scope are orders. Nothing is given if a part of a change is wrong.
func TestScopeOrders(t *testing.T) {
	w := newTown("a1", "a2")
	o := w.members["a2"]
	x, err := o.Exclude(t.Context(), &pb.ExcludeRequest{Pattern: "/x/", Why: "why"})
	if err != nil || len(x.Told) != 2 || x.Order != w.set.Standing()[0].ID() {
		t.Errorf("exclude: %v, %v", x, err)
	}
	for _, bad := range []*pb.ChangeScopeRequest{{}, {Hosts: []string{"ok", "!"}}, {Hosts: []string{"ok"},
		Include: []string{"("}}, {Depth: "-1"}, {Depth: "deep"}} {
		if _, err := o.ChangeScope(t.Context(), bad); connect.CodeOf(err) != connect.CodeInvalidArgument {
			t.Errorf("%v: %v", bad, err)
		}
	}
	for _, bad := range []string{"", "("} {
		if _, err := o.Exclude(t.Context(), &pb.ExcludeRequest{Pattern: bad}); connect.
			CodeOf(err) != connect.CodeInvalidArgument {
			t.Errorf("exclude %q: %v", bad, err)
		}
	}
	if len(w.set.Past()) != 1 {
		t.Errorf("a wrong change has given an order: %v", w.set.Past())
	}
	if _, err := o.ChangeScope(t.Context(), &pb.ChangeScopeRequest{Hosts: []string{"h.example"},
		Include: []string{strings.Repeat("x", orders.MaxAbout)}}); connect.CodeOf(err) != connect.CodeInvalidArgument ||
		len(w.set.Past()) != 1 {
		t.Errorf("a change of which one part is too long: %v, given %v", err, w.set.Past())
	}
	r, err := o.ChangeScope(t.Context(), &pb.ChangeScopeRequest{Hosts: []string{"H.example"},
		Domains: []string{"*.d.example"}, Include: []string{"/more/"}, Depth: "03", Why: "why"})
	if err != nil || len(r.Orders) != 4 || len(r.Told) != 2 {
		t.Errorf("%v, %v", r, err)
	}
	if _, err := w.members["a1"].AddSeeds(t.Context(), &pb.AddSeedsRequest{Urls: []string{"a1.far"}}); err != nil {
		t.Error(err)
	}
	a := Amendments(w.set.Standing())
	if got, want := fmt.Sprint(a.Seeds, a.Hosts, a.Domains, a.Include, *a.Depth), "[http://a1.far/] [h.example] "+
		"[d.example] [/more/] 3"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if x := a.Excludes; len(x) != 2 || x[0].Pattern != "/x/" || x[0].Deeper != -1 || x[1].Deeper != 3 {
		t.Errorf("excludes %v", a.Excludes)
	}
	s, err := o.Scope(t.Context(), &pb.ScopeRequest{})
	var texts []string
	for _, c := range s.GetChanges() {
		texts = append(texts, c.Text)
	}
	if err != nil || s.Depth != 3 || len(texts) != 6 || texts[0] != "exclude /x/" ||
		texts[5] != "seeds http://a1.far/" {
		t.Errorf("%v, %v", s, err)
	}
	if _, err := o.ChangeScope(t.Context(), &pb.ChangeScopeRequest{Depth: "none"}); err != nil {
		t.Error(err)
	}
	if a := Amendments(w.set.Standing()); *a.Depth != -1 || len(a.Excludes) != 1 {
		t.Errorf("without a limit: %d, %v", *a.Depth, a.Excludes)
	}
	if off, ok := Include(w.set.Standing(), "/x/"); !ok || !off.Off || off.About != "/x/" {
		t.Errorf("%v, %v", off, ok)
	}
	if _, ok := Include(w.set.Standing(), "/y/"); ok {
		t.Error("an exclusion that nobody has given stands")
	}
}
