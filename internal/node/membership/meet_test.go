package membership

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/members"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

func newcomer(t *testing.T, addr string, join ...string) *joining {
	t.Helper()
	fs := testdisk.NewMem()
	must.Do(t, fs.MkdirAll("crawl/state", 0o755))
	c := &joining{Place: Place{FS: fs, Dir: "crawl", Clock: clock.System},
		cfg: &Config{Name: "a2", Capacity: 1, Join: join}, members: new(members.Members)}
	c.members.Self.Addr = addr
	must.Do(t, c.identify())
	c.sortJoin()
	return c
}

// An agent that comes back knows the other agents, lost ones included, and knows that it has begun.
func TestRecall(t *testing.T) {
	c := newcomer(t, "127.0.0.1:2", "127.0.0.1:1")
	at := func(name string, port int) gossip.Agent {
		return gossip.Agent{Name: name, Addr: fmt.Sprintf("127.0.0.1:%d", port)}
	}
	self := at("a2", 2)
	for _, v := range []*gossip.View{
		{Agents: []gossip.Agent{at("a1", 1), self, at("a3", 3)}},
		{Agents: []gossip.Agent{self, at("a3", 33)}, Lost: []gossip.Agent{at("a1", 1)}},
		{Agents: []gossip.Agent{self}},
	} {
		must.Do(t, c.recall(v, len(v.Agents) == 2))
	}
	again := &joining{Place: c.Place, cfg: c.cfg, members: new(members.Members)}
	again.members.Self.Addr = "127.0.0.1:2"
	must.Do(t, again.identify())
	again.sortJoin()
	want := []contact{{addr: "127.0.0.1:1", given: true, name: "a1"}, {addr: "127.0.0.1:33", name: "a3"}}
	if diff := cmp.Diff(want, again.contacts(), cmp.AllowUnexported(contact{})); diff != "" || !again.begun.Load() ||
		again.who.Boot < 2 {
		t.Errorf("boot %d, begun %v: %s", again.who.Boot, again.begun.Load(), diff)
	}
	if gone := c.gone(); !slices.Equal(gone, []string{"a1", "a3"}) {
		t.Errorf("gone: %q", gone)
	}

	many := &gossip.View{Agents: []gossip.Agent{self}}
	for i := range 500 {
		many.Lost = append(many.Lost, at(fmt.Sprintf("b%03d", i), 100+i))
	}
	if err := c.recall(many, false); err != nil || len(c.who.Others) != mostAbsent || !c.who.Begun {
		t.Errorf("%d of the absent agents are remembered: %v", len(c.who.Others), err)
	}
	many.Agents, many.Lost = append(many.Agents, many.Lost...), nil
	if c.recall(many, false); len(c.who.Others) < 500 {
		t.Errorf("%d of the present agents are remembered", len(c.who.Others))
	}
}

// After each restore from a store an agent has another instance, once: also if it was killed before it met others. With
// one replica nobody knows what it has fetched, so it stays the same one.
func TestInstanceAfterARestore(t *testing.T) {
	for _, replicas := range []int{1, 2} {
		c := newcomer(t, "127.0.0.1:2")
		starts := func(origin string) identity {
			t.Helper()
			again := &joining{Place: c.Place, cfg: c.cfg, members: new(members.Members)}
			again.cfg.Replicas, again.Origin = replicas, origin
			must.Do(t, again.identify())
			if got := rpc.ID(again.members.Self.Instance).String(); got != again.who.Instance {
				t.Errorf("the agent is %s, and its file has %s", got, again.who.Instance)
			}
			return again.who
		}
		last := c.who
		for _, s := range []struct {
			origin string
			renews bool
		}{
			{"", false}, {"r1", true}, {"r1", false}, {"r1", false},
			{"r2", true}, {"r2", false}, {"", false}, {"r2", false},
		} {
			who := starts(s.origin)
			if is := who.Instance != last.Instance; is != (s.renews && replicas == 2) ||
				is && !members.Renewed(who.Instance, last.Instance) || who.Boot <= last.Boot {
				t.Errorf("%d replicas, restore %q: %+v after %+v", replicas, s.origin, who, last)
			}
			last = who
		}
	}
}

// How an agent judges the replies of others.
func TestJudge(t *testing.T) {
	c := newcomer(t, "127.0.0.1:2")
	again := fmt.Errorf("Hello: %w", rpc.ErrAgain)
	refuse := func(reason string) error {
		return fmt.Errorf("%w: %w", gossip.ErrRefused, &rpc.Refusal{Reason: reason, Text: reason})
	}
	fresh := fmt.Errorf("Hello: %w", &rpc.Refusal{Reason: notYet, Text: "newcomer"})
	held := fmt.Errorf("Hello: %w", &rpc.Refusal{Reason: nameHeld, Text: "held"})
	dns := &net.DNSError{Err: "no such host", Name: "a", IsNotFound: true}
	given, remembered := contact{addr: "x:1", given: true}, contact{addr: "y:1", name: "a1"}
	later := contact{addr: "z:1", name: "a3"}
	for i, q := range []struct {
		replies []reply
		want    finding
		fails   bool
	}{
		{[]reply{{contact: given, err: refuse("name")}, {contact: remembered, crawl: rpc.ID{7}}},
			finding{at: "y:1", crawl: rpc.ID{7}}, false},
		{[]reply{{contact: given, err: refuse("name")}, {contact: remembered, err: again}}, finding{}, true},
		{[]reply{{contact: given, err: held}}, finding{held: held}, false},
		{[]reply{{contact: given, err: held}, {contact: remembered, err: refuse("name")}}, finding{held: held}, true},
		{[]reply{{contact: given, err: held}, {contact: remembered, crawl: rpc.ID{7}}},
			finding{at: "y:1", crawl: rpc.ID{7}}, false},
		{[]reply{{contact: given, err: refuse("crawl")}}, finding{}, true},
		{[]reply{{contact: remembered, err: refuse("crawl")}}, finding{}, false},
		{[]reply{{contact: remembered, err: refuse("copy")}}, finding{}, true},
		{[]reply{{contact: given, err: rpc.ErrStranger}}, finding{}, true},
		{[]reply{{contact: remembered, err: rpc.ErrStranger}}, finding{}, false},
		{[]reply{{contact: given, err: dns}}, finding{}, false},
		{[]reply{{contact: given, err: gossip.ErrSelf}}, finding{ourself: []string{"x:1"}}, false},
		{[]reply{{contact: remembered, err: again}, {contact: later, err: again}},
			finding{again: []string{"a1", "a3"}, smaller: true}, false},
		{[]reply{{contact: given, err: again}, {contact: later, err: again}}, finding{again: []string{"a3"}}, false},
		// A replaced agent waits for the others; they do not wait for it.
		{[]reply{{contact: remembered, err: fresh}}, finding{again: []string{"a1"}}, false},
	} {
		got, err := c.judge(q.replies)
		last := got.last
		got.last = nil
		if diff := cmp.Diff(q.want, got, cmp.AllowUnexported(finding{}), cmpopts.EquateErrors()); diff != "" ||
			(err != nil) != q.fails {
			t.Errorf("%d: %v; %s", i, err, diff)
		}
		if err == nil && got.at == "" && len(got.ourself) == 0 && (last == nil || errors.Unwrap(last) == nil) {
			t.Errorf("%d: no reason", i)
		}
	}
}

// An agent that joins after the crawl has begun does not wait for the number of agents of --agents.
func TestLateWaitsForNobody(t *testing.T) {
	c := memberOf(t, newLoop(), "a3")
	c.joining.Dir, c.joining.FS = "crawl", testdisk.NewMem()
	must.Do(t, c.joining.FS.MkdirAll("crawl/state", 0o755))
	m := c.Members.Gossip()
	must.Do(t, m.Announce(t.Context(), gossip.Up))
	c.joining.late.Store(true)
	if v, err := c.joining.wait(t.Context(), m); err != nil || len(members.Up(v)) != 1 || !c.joining.begun.Load() {
		t.Errorf("%v, %v, begun %v", v, err, c.joining.begun.Load())
	}
}

// The message of a refusal says the reason once, without the call that brought it.
func TestRefusedText(t *testing.T) {
	c := &joining{members: new(members.Members)}
	name := &gossip.NameError{Name: "a2", Holder: gossip.Agent{Name: "a2", Addr: "127.0.0.1:7471"}}
	const want = `join: agent name "a2" is in use by another agent, at 127.0.0.1:7471: ` +
		"each agent needs a name of its own"
	for _, err := range []error{
		name,
		fmt.Errorf("%w: Hello 127.0.0.1:7470: %w", gossip.ErrRefused, &rpc.Refusal{Reason: "name", Text: name.Error()}),
	} {
		if got := c.refused(err); got.Error() != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// No two starts of an agent have one number, also if the second gets an older copy of the directory.
func TestNextBoot(t *testing.T) {
	now := time.UnixMilli(1000)
	first := nextBoot(0, now)
	second := nextBoot(first, now.Add(time.Second))
	restored := nextBoot(first, now.Add(2*time.Second))
	setBack := nextBoot(restored, time.Unix(-1, 0))
	if first != 1 || second <= first || restored <= second || setBack <= restored {
		t.Errorf("starts %d, %d, %d, %d", first, second, restored, setBack)
	}
}

// A dry run learns whether an agent answers, and reserves no name there, before and after that agent has begun.
func TestMeetReservesNothing(t *testing.T) {
	c := memberOf(t, newLoop(), "a1")
	cfg := &Config{Name: "a2", Capacity: 1, Network: c.cfg.Network, Listen: "127.0.0.1:9",
		Join: []string{"127.0.0.1:9", c.Members.Self.Addr}}
	for _, id := range []rpc.ID{{}, {1}} {
		c.Members.SetCrawl(id)
		found, err := Rehearse(t.Context(), cfg, Place{Clock: clock.System}, cfg.Listen, false)
		want := []JoinReply{{Addr: "127.0.0.1:9", Self: true}, {Addr: c.Members.Self.Addr}}
		if diff := cmp.Diff(want, found.Join); diff != "" || err != nil {
			t.Errorf("crawl %s: %v; -want +got\n%s", id, err, diff)
		}
	}
	other := gossip.Agent{Name: "a2", Capacity: 1, Instance: newExchangeID(), Boot: 1, Addr: "127.0.0.1:10"}
	if err := c.Members.Gossip().Admit(other, time.Now()); err != nil {
		t.Errorf("the name is not free: %v", err)
	}
	if len(c.joining.admissions.at) > 0 {
		t.Errorf("admitted: %v", c.joining.admissions.at)
	}
}
