package replicas

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/handoff"
	"github.com/orbweaver/orbweaver/internal/cluster/members"
	"github.com/orbweaver/orbweaver/internal/cluster/operation"
	"github.com/orbweaver/orbweaver/internal/cluster/placement"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// open opens the replicas of agent a1.
func open(t *testing.T) *Replicas {
	t.Helper()
	r := must.Get(Open(Config{FS: testdisk.NewMem(), Dir: "/crawl",
		Members: &members.Members{Self: gossip.Agent{Name: "a1"}}}))(t)
	t.Cleanup(func() { r.Close() })
	return r
}

func finishOf(url string) []byte {
	r := handoff.Record{Kind: handoff.Finish, Link: link.Link{URL: weburl.MustParse(url)}.AppendTo(nil)}
	return r.AppendTo(nil)
}

// TestKeepsReplica: an agent stores another agent's batches if they continue the replica, each batch
// once. It stores no batch of a lost source.
func TestKeepsReplica(t *testing.T) {
	ctx := context.Background()
	r := open(t)
	store := r.store
	from := rpc.Caller{Name: "a2", Instance: rpc.ID{7}, Boot: 1}
	source := handoff.Source{Name: "a2", Instance: from.Instance}
	ship := func(number uint64, url string) error {
		return r.receive(ctx, from, &pb.ShipRequest{Seq: number, Count: 1, Records: finishOf(url)})
	}
	known := func() (n int) {
		t.Helper()
		must.Get(store.Import(ctx, source, func(*handoff.Record) error { n++; return nil }))(t)
		return n
	}
	bytes := func() int64 { return store.Sources()[0].Bytes }
	var refusal *rpc.Refusal
	if err := ship(5, "http://a.example/5"); !errors.As(err, &refusal) || refusal.Reason != notWhole {
		t.Errorf("a batch without the batches before: %v", err)
	}
	for n, u := range []string{"http://a.example/1", "http://a.example/2"} {
		must.Do(t, ship(uint64(n+1), u))
	}
	was := bytes()
	if err := ship(2, "http://a.example/2"); err != nil || bytes() != was {
		t.Errorf("a repeated batch: %v, %d octets more", err, bytes()-was)
	}
	// After a restart the same agent begins again, in the same replica.
	from.Boot = 2
	if err := ship(1, "http://a.example/3"); err != nil || known() != 3 {
		t.Errorf("after a restart: %v, %d known", err, known())
	}
	err := r.receive(ctx, from, &pb.ShipRequest{Seq: 2, Count: 1, Records: []byte("nonsense")})
	if !errors.Is(err, rpc.ErrMalformed) {
		t.Errorf("a malformed batch: %v", err)
	}

	both, err := placement.NewRendezvous([]placement.Owner{{Name: "a1", Capacity: 1}, {Name: "a2", Capacity: 1}}, 0)
	must.Do(t, err)
	a2 := gossip.Agent{Name: "a2", Instance: from.Instance, State: gossip.Up}
	r.Lose(&gossip.View{Agents: []gossip.Agent{a2}}, by(both), time.Now())
	if !r.Settled() {
		t.Error("an agent in the view counts as lost")
	}
	r.Lose(&gossip.View{Lost: []gossip.Agent{a2}}, by(both), time.Now())
	if err := ship(2, "http://a.example/4"); !errors.Is(err, rpc.ErrAgain) || r.Settled() {
		t.Errorf("a batch of a lost agent: %v", err)
	}
	for i := range 100 {
		host := fmt.Sprintf("h%d.example", i)
		if own := by(both)(host) == "a2"; r.Barred(host) != own {
			t.Errorf("host %s: barred %v, its own %v", host, !own, own)
		}
	}
	// The agent is back: the suspicion was false.
	bars := r.Barring()
	r.Lose(&gossip.View{Lost: []gossip.Agent{a2}}, by(both), time.Now())
	if r.Barring() != bars {
		t.Error("other hosts are barred, though nothing has changed")
	}
	r.Lose(&gossip.View{Agents: []gossip.Agent{a2}}, by(both), time.Now())
	if err := ship(2, "http://a.example/4"); err != nil || !r.Settled() || known() != 4 {
		t.Errorf("a batch of an agent that is back: %v, %d known", err, known())
	}
	if r.Barring() == bars {
		t.Error("the same hosts are barred, though it is back")
	}
	// The agent came back during the takeover, and its replica is forgotten. Its next batch is
	// useless without the batches before.
	mark := must.Get(store.Import(ctx, source, func(*handoff.Record) error { return nil }))(t)
	must.Do(t, (lostReplica{store, r, source}).DropSource(ctx, mark))
	if err := ship(3, "http://a.example/5"); !errors.As(err, &refusal) || refusal.Reason != notWhole || r.has(source) {
		t.Errorf("a batch that continues a forgotten replica: %v", err)
	}
	if err := ship(1, "http://a.example/1"); err != nil || known() != 1 {
		t.Errorf("the first batch of a new replica: %v, %d known", err, known())
	}
	// Another machine with its name is another source, and the old source is lost.
	a2.Instance = rpc.ID{8}
	r.Lose(&gossip.View{Agents: []gossip.Agent{a2}}, by(both), time.Now())
	if r.Settled() || !r.has(source) {
		t.Error("the lost instance is not missing")
	}
}

// An agent that goes is missing until its hosts are taken over, even if it has shipped nothing
// here. How long others wait for it depends on how it went, and on whether another agent was lost
// shortly before and is still away.
func TestAway(t *testing.T) {
	r := open(t)
	agents := map[string]gossip.Agent{}
	var all []placement.Owner
	for i, name := range []string{"a1", "a2", "a3", "a4"} {
		agents[name] = gossip.Agent{Name: name, Instance: [16]byte{byte(i + 1)}, Boot: 1, State: gossip.Up}
		all = append(all, placement.Owner{Name: name, Capacity: 1})
	}
	before := must.Get(placement.NewRendezvous(all, 0))(t)
	again := agents["a2"]
	again.Boot, again.State = 2, gossip.Joining
	other := agents["a3"]
	other.Instance = [16]byte{9}
	start := time.Now()
	type due map[string]time.Duration // of the losses, from the time of the view
	for i, c := range []struct {
		after  time.Duration
		agents []gossip.Agent
		lost   []string
		want   due
	}{
		{0, []gossip.Agent{agents["a1"], agents["a2"], agents["a3"], agents["a4"]}, nil, due{}},
		{0, []gossip.Agent{agents["a1"], again, agents["a3"], agents["a4"]}, nil, due{"a2": leaveGrace}}, // it restarts
		{time.Second, []gossip.Agent{agents["a1"], agents["a2"], agents["a3"], agents["a4"]}, nil, due{}},
		{2 * time.Second, []gossip.Agent{agents["a1"], agents["a2"], other, agents["a4"]},
			[]string{"a3"}, due{"a3": 0}},
		{3 * time.Second, []gossip.Agent{agents["a1"], other, agents["a4"]}, []string{"a2", "a3"},
			due{"a2": awayGrace, "a3": -time.Second}},
		{4 * time.Second, []gossip.Agent{agents["a1"], agents["a2"], other, agents["a4"]}, []string{"a3"},
			due{"a3": -2 * time.Second}},
		{5*time.Second + lateLoss, []gossip.Agent{agents["a1"], other, agents["a4"]}, []string{"a2", "a3"},
			due{"a2": 0, "a3": -3*time.Second - lateLoss}},
		{6*time.Second + lateLoss, []gossip.Agent{agents["a1"], agents["a2"], other, agents["a4"]}, []string{"a3"},
			due{"a3": -4*time.Second - lateLoss}},
		{7*time.Second + lateLoss, []gossip.Agent{agents["a1"], other}, []string{"a2", "a3", "a4"}, // two at once
			due{"a2": 0, "a3": -5*time.Second - lateLoss, "a4": awayGrace}},
	} {
		now := start.Add(c.after)
		v := &gossip.View{Agents: c.agents}
		for _, name := range c.lost {
			v.Lost = append(v.Lost, agents[name])
		}
		r.Lose(v, by(before), now)
		got := due{}
		for _, l := range r.losses {
			got[l.source.Name] = l.due.Sub(now)
		}
		if !maps.Equal(got, c.want) {
			t.Errorf("view %d: losses %v, want %v", i, got, c.want)
		}
		for n := range 100 {
			host := fmt.Sprintf("h%d.example", n)
			if _, gone := c.want[by(before)(host)]; r.Barred(host) != gone {
				t.Errorf("view %d: host %s: barred %v", i, host, !gone)
			}
		}
	}
}

// by returns the owners by a placement.
func by(p placement.Placement) OwnersBefore {
	return func(host string) string { return p.Owner(link.HostKey(host)).Name }
}

// TestTellLeft: an agent has told that it leaves when the other one has kept that, and not if it fails to, or says to
// ask again.
func TestTellLeft(t *testing.T) {
	l := must.Get(rpc.Listen(rpc.System, "127.0.0.1:0", nil))(t)
	crawl, answers := rpc.ID{1}, []error{errors.New("its disk is full"), rpc.ErrAgain, nil}
	s := rpc.NewServer(l, rpc.ServerConfig{Crawl: func() rpc.ID { return crawl },
		Admitted: func(rpc.Caller) bool { return true }})
	operation.Serve(s, func(_ context.Context, _ rpc.Caller, method string, _ []byte) ([]byte, error) {
		err := answers[0]
		if answers = answers[1:]; method != members.LeftMethod {
			t.Errorf("method %s", method)
		}
		return nil, err
	}, members.LeftMethod)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	defer func() {
		cancel()
		running.Wait()
		l.Close()
	}()
	client := rpc.NewClient(rpc.ClientConfig{Seed: 1,
		Self: func() rpc.Caller { return rpc.Caller{Name: "a2", Boot: 1, Crawl: crawl} }})
	defer client.Close()
	p := client.Peer("a1", l.Addr())
	if err := tellLeft(ctx, p); !errors.Is(err, operation.Failure("its disk is full")) {
		t.Errorf("the other agent fails: %v", err)
	}
	if err := tellLeft(ctx, p); !errors.Is(err, rpc.ErrAgain) {
		t.Errorf("the other agent has not kept it yet: %v", err)
	}
	if err := tellLeft(ctx, p); err != nil {
		t.Errorf("the other agent has kept it: %v", err)
	}
}
