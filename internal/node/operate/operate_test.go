package operate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/orbweaver/orbweaver/internal/cluster/orders"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/node/verbs"
	"github.com/orbweaver/orbweaver/internal/testkit/testcalls"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A town is a cluster whose agents crawl the hosts that begin with their names.
type town struct {
	mu      sync.Mutex // guards the fields below
	does    []string   // what the agents have done: "agent verb host"
	noted   []string   // commands, by the agent that was told
	silent  map[string]bool
	drops   bool           // the silent agents count as dead soon
	dropped atomic.Bool    // they do
	slow    map[string]int // how often an agent says that it still reads its queue
	set     *orders.Set
	anyHost bool // each agent may crawl each host
	members map[string]*Operator
	logs    map[string][]*pb.FetchedPage // of the application "app", by agent
	acked   map[string]int64             // by agent
	events  map[string][]string          // by agent
	absent  map[string][]string          // which agents are not present, by the agent that knows it
	gone    map[string][]*pb.GoneAgent   // which have gone, by the agent that knows it
	odd     string                       // the agent whose status has numbers that are none
	waits   string                       // what all agents wait for; empty: the crawl has begun
}

func newTown(names ...string) *town {
	w := &town{silent: map[string]bool{}, set: orders.NewSet(), members: map[string]*Operator{},
		logs: map[string][]*pb.FetchedPage{}, acked: map[string]int64{}}
	for _, name := range names {
		var others Others
		if name != "" {
			others = neighbours{w, name}
		}
		w.members[name] = New(resident{w, name}.local(), others, book{w, name})
	}
	return w
}

type resident struct {
	w    *town
	name string
}

func (r resident) local() *Local { return &Local{r, r, r, r, r, r, r, r} }

func (r resident) Name() string { return r.name }

func (r resident) Status() *pb.AgentStatus {
	if r.w.odd == r.name && r.name != "" {
		return &pb.AgentStatus{Agent: r.name, Totals: &pb.Totals{Pages: 1, PagesPerS: math.NaN()}}
	}
	if r.w.waits != "" {
		return &pb.AgentStatus{Agent: r.name, State: "waiting", WaitsFor: r.w.waits}
	}
	return &pb.AgentStatus{Agent: r.name, State: "crawling", Absent: r.w.absent[r.name], Gone: r.w.gone[r.name],
		Instance: "instance of " + r.name,
		Totals: &pb.Totals{Pages: 5, PagesPerS: 0.5, UrlsQueued: 7, Fetched: 6, Bytes: 100, UrlsUnique: 20,
			OpenRequests: 1, Errors: 2}}
}

func (r resident) do(verb, host string) (string, error) {
	if strings.Contains(host, "/") {
		return "", fmt.Errorf("%w: %q", ErrHost, host)
	}
	if !strings.HasPrefix(host, r.name) && !r.w.anyHost {
		return "", fmt.Errorf("%w: %s is crawled by another agent", ErrElsewhere, host)
	}
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	r.w.does = append(r.w.does, strings.TrimSpace(r.name+" "+verb+" "+host))
	return host + ": " + verb, nil
}

func (r resident) Explain(_ context.Context, host, url string) (string, error) {
	return r.do(strings.TrimSpace("explained "+url), host)
}
func (r resident) Waiting(_ context.Context, host string) (string, error) {
	_, err := r.do("counted", host)
	return "1 link waits", err
}
func (r resident) Drop(_ context.Context, host string) (string, error) { return r.do("dropped", host) }
func (r resident) Note(verb, about, by, why string) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	r.w.noted = append(r.w.noted, strings.Join(strings.Fields(strings.Join([]string{r.name, verb, about, by, why},
		" ")), " "))
}

func (r resident) Checkpoint(context.Context) (string, error) { return r.do("saves", r.name) }
func (r resident) Stop(context.Context) (string, error)       { return r.do("stops", r.name) }
func (r resident) Leave(context.Context) (string, error)      { return r.do("leaves", r.name) }
func (r resident) CanRateDomain() error                       { return nil }
func (r resident) Heard(string) *pb.Totals                    { return &pb.Totals{Pages: 3} }

type neighbours struct {
	w    *town
	self string
}

func (n neighbours) Names() (names []string) {
	return slices.DeleteFunc(slices.Collect(maps.Keys(n.w.members)), func(s string) bool {
		return s == n.self || n.w.silent[s] && n.w.dropped.Load()
	})
}

func (n neighbours) Ask(ctx context.Context, agent, method string, request []byte) ([]byte, error) {
	if n.w.silent[agent] {
		<-ctx.Done()
		n.w.dropped.Store(n.w.drops)
		return nil, fmt.Errorf("agent %s does not answer: %w", agent, ctx.Err())
	}
	return n.w.members[agent].agent.Answer(ctx, method, request)
}

type book struct {
	w    *town
	self string
}

func (b book) Standing() []orders.Order { return b.w.set.Standing() }
func (b book) Past() []orders.Order     { return b.w.set.Past() }

func (b book) Give(_ context.Context, list ...orders.Order) ([]orders.Order, map[string]error, error) {
	name := b.self
	if name == "" {
		name = "crawl"
	}
	// The time is that of all orders. So the ids of the first ones end in 10000, 10001, and so on.
	given, err := b.w.set.GiveTogether(list, name, time.UnixMilli(1))
	told := map[string]error{}
	for agent := range b.w.members {
		switch {
		case !b.w.silent[agent]:
			told[agent] = nil
		case !b.w.dropped.Load():
			told[agent] = errors.New("it does not answer")
		}
	}
	b.w.dropped.Store(b.w.drops)
	return given, told, err
}

// run makes the calls of a text.
func (w *town) run(t *testing.T, text string, args ...any) {
	t.Helper()
	testcalls.Run(t, fmt.Sprintf(text, args...), func(agent string) any { return w.members[agent] })
}

// did returns what the agents have done since the last time.
func (w *town) did() (does string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	does, w.does = strings.Join(w.does, "; "), nil
	return does
}

func equal(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

// A command for a host reaches the agent that crawls the host, whichever agent is asked.
func TestHostCommands(t *testing.T) {
	w := newTown("a1", "a2", "a3")
	w.run(t, `
		a1 Drop host:"a1.example" -> = answers:{agent:"a1" text:"a1.example: dropped"}
		a3 Drop host:"a3.example" -> = answers:{agent:"a3" text:"a3.example: dropped"}
		a1 Drop host:"*.example.org" -> ! invalid_argument`)
	equal(t, "the agents did", w.did(), "a1 dropped a1.example; a3 dropped a3.example")
	equal(t, "noted", strings.Join(w.noted, "; "), "a1 drop a1.example; a3 drop a3.example")
	w.run(t, `
		a1 Explain -> ! invalid_argument
		a1 Explain host:"a2/b" -> ! invalid_argument
		a1 Explain host:"nobody.example" -> ! unavailable`)
	w.anyHost = true
	all := func(text string) (want string) {
		for _, name := range []string{"a1", "a2", "a3"} {
			want += fmt.Sprintf(` answers:{agent:"%s" text:"x.example: explained%s"}`, name, text)
		}
		return want
	}
	w.run(t, `
		a1 Explain host:"x.example" -> =%s
		a1 Explain host:"x.example" url:"http://x.example/p" -> =%[2]s
		a1 Explain url:"http://x.example/p" -> =%[2]s
		a1 Explain host:"http://x.example/p" -> =%[2]s`, all(""), all(" http://x.example/p"))
}

// A status names the agents that any agent misses, because the totals are without them.
// Numbers of an agent that are none do not spoil the sums.
func TestOddNumbers(t *testing.T) {
	w := newTown("a1", "a2")
	w.odd = "a2"
	r, err := w.members["a1"].Status(t.Context(), &pb.StatusRequest{})
	if err != nil || r.Totals.PagesPerS != 0.5 || r.Totals.Pages != 6 || r.Agents[1].Totals.PagesPerS != 0 {
		t.Errorf("%v, %v", r, err)
	}
}

// A reason is a line of text, for every command that takes one.
func TestReasons(t *testing.T) {
	for _, c := range []struct {
		why string
		ok  bool
	}{{"a complaint", true}, {" é 中 ", true}, {"a\nb", false}, {"a\u202eb", false}, {"a\u2028b", false},
		{"\x1b[2J", false}, {"\xff", false}, {strings.Repeat("w", orders.MaxText+1), false}} {
		w := newTown("a1")
		w.anyHost = true
		o, ctx := w.members["a1"], t.Context()
		errs := map[string]error{}
		_, errs["drop"] = o.Drop(ctx, &pb.DropRequest{Host: "a1.example", Why: c.why})
		_, errs["seed"] = o.AddSeeds(ctx, &pb.AddSeedsRequest{Urls: []string{"http://a1.example/"}, Why: c.why})
		_, errs["block"] = o.Give(ctx, &pb.GiveRequest{Verb: "block", About: "a1.example", Why: c.why})
		_, errs["pause"] = o.Give(ctx, &pb.GiveRequest{Verb: "pause", Why: c.why})
		_, errs["stop"] = o.Stop(ctx, &pb.AgentRequest{Why: c.why})
		_, errs["checkpoint"] = o.Checkpoint(ctx, &pb.AgentRequest{Why: c.why})
		_, errs["leave"] = o.Leave(ctx, &pb.AgentRequest{Why: c.why})
		for verb, err := range errs {
			if (connect.CodeOf(err) != connect.CodeInvalidArgument) != c.ok || c.ok && err != nil {
				t.Errorf("%s for %q: %v", verb, c.why, err)
			}
		}
		if !c.ok && len(w.noted)+len(w.does) > 0 {
			t.Errorf("%q: %q, %q", c.why, w.noted, w.does)
		}
	}
}

func TestAbsentAgents(t *testing.T) {
	w := newTown("a1", "a3", "a5")
	w.absent = map[string][]string{"a1": {"a2", "a5"}, "a3": {"a2", "a4"}} // a5 is back
	for agent, want := range map[string][]string{"": {"a2", "a4"}, "a3": nil} {
		s, err := w.members["a1"].Status(t.Context(), &pb.StatusRequest{Agent: agent})
		if err != nil || !slices.Equal(s.Absent, want) {
			t.Errorf("status of %q: %q are absent, want %q: %v", agent, s.GetAbsent(), want, err)
		}
	}
}

// The agents that have gone are those that any agent knows, each with what tells most. Their counts are in the totals,
// without their queues. An agent that is back, or that is silent, has not gone.
func TestGoneAgents(t *testing.T) {
	w := newTown("a1", "a3", "a5")
	at := func(s int64) *timestamppb.Timestamp { return &timestamppb.Timestamp{Seconds: s} }
	lost := &pb.GoneAgent{Agent: "a2", Instance: "2", Boot: 1, State: "lost", Since: at(50), AsOf: at(40),
		Totals: &pb.Totals{Pages: 100, Fetched: 110, Bytes: 1000, UrlsQueued: 30, UrlsUnique: 150, Errors: 4}}
	older := &pb.GoneAgent{Agent: "a2", Instance: "2", Boot: 1, State: "lost", Since: at(49), AsOf: at(30),
		Totals: &pb.Totals{Pages: 90}}
	stopped := &pb.GoneAgent{Agent: "a0", Instance: "0", Boot: 2, State: "stopped", Since: at(60), Reason: "disk-low"}
	w.gone = map[string][]*pb.GoneAgent{
		"a1": {older, {Agent: "a0", Instance: "0", Boot: 1, Since: at(70), AsOf: at(70), Reason: "signal"},
			{Agent: "a5", Instance: "instance of a5", Since: at(1)}},
		"a3": {lost, stopped, {Agent: "a0", Instance: "0", Boot: 2, Since: at(61), State: "lost", AsOf: at(61)}}}
	w.absent = map[string][]string{"a1": {"a0", "a2"}}
	r, err := w.members["a1"].Status(t.Context(), &pb.StatusRequest{})
	if err != nil || len(r.Gone) != 2 || r.Gone[0] != stopped && !proto.Equal(r.Gone[0], stopped) ||
		!proto.Equal(r.Gone[1], lost) || !slices.Equal(r.Absent, []string{"a0"}) || len(r.Agents[1].Gone) > 0 {
		t.Fatalf("%v, %v", r, err)
	}
	if s := r.Totals; s.Pages != 115 || s.Fetched != 128 || s.Bytes != 1300 || s.UrlsQueued != 21 ||
		s.UrlsUnique != 180 || s.Errors != 10 {
		t.Errorf("totals %v", s)
	}
	if r, err := w.members["a1"].Status(t.Context(), &pb.StatusRequest{Agent: "a3"}); err != nil || len(r.Gone) > 0 {
		t.Errorf("with one agent: %v, %v", r, err)
	}
	for n := range int64(2 * mostGone) {
		w.gone["a3"] = append(w.gone["a3"], &pb.GoneAgent{Agent: "b", Instance: fmt.Sprint("b", n), Since: at(100 + n)})
	}
	if r, err := w.members["a1"].Status(t.Context(), &pb.StatusRequest{}); err != nil || len(r.Gone) != mostGone ||
		r.Gone[0].Since.Seconds < 200 {
		t.Errorf("%d have gone, %v", len(r.GetGone()), err)
	}
}

// The former instance of an agent that was restored from a store has not gone.
func TestRestoredAgent(t *testing.T) {
	gone := mergeGone([]*pb.AgentStatus{
		{Agent: "a1", Gone: []*pb.GoneAgent{
			{Agent: "a3", Instance: "00000000000000000000000000000007"},
			{Agent: "a3", Instance: "00000000000000000000000000000008"},
			{Agent: "a4", Instance: "11111111000000000000000000000007"}}},
		{Agent: "a3", Instance: "12345678000000000000000000000007"}})
	if len(gone) != 2 || !strings.HasSuffix(gone[0].Instance, "8") || gone[1].Agent != "a4" {
		t.Errorf("%v have gone", gone)
	}
}

// An agent that waits for others says so when it gets an order: the agents that join later get it, too.
func TestOrderBeforeTheStart(t *testing.T) {
	w, alone := newTown("a1", "a2"), newTown("")
	w.waits, alone.waits = "1 more agent", "the start of the crawl"
	w.run(t, `
		a1 Give verb:"pause"
		-> answers:{agent:"a1" text:"paused" waits_for:"1 more agent"} answers:{agent:"a2" text:"paused"}
		a2 Give verb:"block" about:"a2.example" -> waits_for:"1 more agent"`)
	alone.run(t, `Give verb:"pause" -> - waits_for`)
}

// An agent that does not answer is named after ten seconds, and the others answer.
func TestSilentAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown("a1", "a2", "a3")
		w.silent["a2"] = true
		began := time.Now()
		w.run(t, `
			a1 Status
			-> agents:{agent:"a1" state:"crawling" totals:{pages:5
			-> agents:{agent:"a2" state:"silent" waits_for:"agent a2 does not answer: context deadline exceeded" totals:{pages:3}} agents:{agent:"a3" state:"crawling"
			-> } totals:{pages:13 fetched:12 bytes:200 urls_queued:14 urls_unique:40 pages_per_s:1 open_requests:2 errors:4}`)
		if took := time.Since(began); took != patience {
			t.Errorf("the answer took %s", took)
		}
		w.run(t, `
			a1 Status agent:"a3" -> - agent:"a1"
			-> agents:{agent:"a3"
			a1 Status agent:"a9" -> ! not_found there are a1, a2, a3
			a3 Give verb:"block" about:"a2.example"
			-> answers:{agent:"a1" text:"a2.example: blocked"} answers:{agent:"a2" error:"it does not answer" code:"silent"} answers:{agent:"a3"`)
	})
}

// An agent that counts as dead while the others wait for its answer is named, too.
func TestDroppedAgent(t *testing.T) {
	for call, want := range map[string]string{
		`Give verb:"pause"`:              `answers:{agent:"a2" error:"it does not answer" code:"silent"}`,
		`Give verb:"exclude" about:"/x"`: `answers:{agent:"a2" error:"it does not answer" code:"silent"}`,
		`SetApplication name:"news"`:     `told:{agent:"a2" error:"it does not answer" code:"silent"}`,
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newTown("a1", "a2", "a3")
			w.silent["a2"], w.drops = true, true
			w.run(t, "a1 %s -> %s", call, want)
		})
	}
}

// A pause is an order: it stands until it is taken back, by Resume or by its id, at any agent.
func TestPause(t *testing.T) {
	w := newTown("a1", "a2")
	w.silent["a2"] = true
	w.run(t, `
		a1 Give verb:"pause" off:true -> ! failed_precondition
		a1 Give verb:"pause" why:" a complaint " -> why:"a complaint" verb:"pause" stands:true text:"pause everything"}
		-> answers:{agent:"a1" text:"paused"} answers:{agent:"a2" error:"it does not answer" code:"silent"}
		a1 Give verb:"pause" why:"%s" -> ! invalid_argument`, strings.Repeat("x", 1000))
	if !verbs.Pauses(w.set.Standing()) {
		t.Error("the crawl is not paused")
	}
	w.silent["a2"] = false
	w.run(t, `
		a2 Give verb:"pause" off:true
		a1 Orders -> =`)
	if verbs.Pauses(w.set.Standing()) {
		t.Error("the crawl is still paused")
	}
	w.run(t, `
		a2 Give verb:"pause" -> id:"a2-10002"
		a1 TakeBack id:"a2-10002"
		a1 TakeBack id:"a2-10002" -> ! not_found
		a1 Orders -> =`)
	if n := len(w.set.Past()); n != 4 {
		t.Errorf("%d past orders, want 4", n)
	}
}

// The agent that is asked stops last, so that its caller hears from all.
func TestStopAndLeave(t *testing.T) {
	w := newTown("a1", "a2", "a3")
	w.run(t, `a2 Stop -> = answers:{agent:"a1" text:"a1: stops"} answers:{agent:"a3" text:"a3: stops"} answers:{agent:"a2" text:"a2: stops"}`)
	if did := w.did(); !strings.HasSuffix(did, "; a2 stops a2") {
		t.Errorf("stop: %s", did)
	}
	w.run(t, `
		a2 Stop agent:"a3"
		a2 Leave
		a2 Leave agent:"a1"`)
	equal(t, "stop and leave", w.did(), "a3 stops a3; a2 leaves a2; a1 leaves a1")
	w.run(t, `a2 Checkpoint -> agent:"a1"
		-> agent:"a2"
		-> agent:"a3"`)
}

// A crawl of one agent needs no names.
func TestAlone(t *testing.T) {
	w := newTown("")
	w.run(t, `
		Give verb:"block" about:"a.example" -> answers:{text:"a.example: blocked, 1 link waits"}
		Stop agent:"a1" -> ! not_found`)
	o := w.members[""]
	if _, err := o.agent.Answer(t.Context(), "Nothing", nil); !errors.Is(err, ErrMethod) {
		t.Errorf("an unknown method: %v", err)
	}
	if _, err := o.agent.Answer(t.Context(), "Drop", []byte{0xff}); err == nil {
		t.Error("a broken request was carried out")
	}
}

// A block of a host is an order. The agent that crawls the host says how many links wait, whichever agent is asked.
// While no agent says that it crawls the host, all answer.
func TestBlockOfHost(t *testing.T) {
	w := newTown("a1", "a2", "a3")
	w.run(t, `
		a1 Give verb:"block" about:"http://A2.example/x" why:"why"
		-> answers:{agent:"a2" text:"a2.example: blocked, 1 link waits"} order:{id:"a1-10000"
		-> why:"why" verb:"block" about:"a2.example" stands:true text:"block a2.example"}`)
	if b := verbs.Blocks(w.set.Standing()); len(b) != 1 || b[0].Host != "a2.example" || b[0].Domain != "" ||
		b[0].Prefix.IsValid() {
		t.Errorf("blocks: %v", b)
	}
	w.run(t, `
		a3 Give verb:"block" off:true -> ! invalid_argument
		a3 Give verb:"block" off:true about:"a b" -> ! invalid_argument
		a3 Give verb:"block" off:true about:"www.a2.example" -> ! failed_precondition
		a3 Give verb:"block" off:true about:"*.a2.example" -> ! failed_precondition
		a3 Give verb:"block" off:true about:"a2.example" -> answers:{agent:"a2" text:"a2.example: unblocked, 1 link waits"} order
		a3 Give verb:"block" about:"b.example" -> answers:{agent:"a1" text:"b.example: blocked"} answers:{agent:"a2"
		-> answers:{agent:"a3" text:"b.example: blocked"} order:{id:"a3-10002"
		a1 TakeBack id:"a3-10002"
		a1 Orders -> =`)
}

// A block of a domain or of a range of addresses is an order, in its canonical form.
func TestWideBlocks(t *testing.T) {
	w := newTown("a1", "a2")
	for typed, about := range map[string]string{"*.Example.ORG": "*.example.org",
		"*.bücher.example": "*.xn--bcher-kva.example", " 192.0.2.77/24 ": "192.0.2.0/24",
		"2001:DB8::1/32": "2001:db8::/32"} {
		w.run(t, `a1 Give verb:"block" about:"%s" -> answers:{agent:"a1" text:"%[2]s: blocked"} answers:{agent:"a2" text:"%[2]s: blocked"}
			-> about:"%[2]s"`, typed, about)
	}
	var blocks []string
	for _, b := range verbs.Blocks(w.set.Standing()) {
		blocks = append(blocks, fmt.Sprint(b.Domain, b.Prefix))
	}
	slices.Sort(blocks)
	equal(t, "blocks", strings.Join(blocks, " "),
		"192.0.2.0/24 2001:db8::/32 example.orginvalid Prefix xn--bcher-kva.exampleinvalid Prefix")
	w.run(t, `a1 Give verb:"block" off:true about:"192.0.2.0/24"
		a1 Give verb:"block" off:true about:"192.0.2.0/24" -> ! failed_precondition
		a1 Orders -> - 192.0.2.0`)
	for _, host := range []string{"*.", "*.a/b", "*.192.0.2.1", "10.0.0.0/33", `a\nb`, "2001:db8::/129",
		"192.0.2.0/024", "*.*.example", "::ffff:192.0.2.0/120"} {
		w.run(t, `a1 Give verb:"block" off:true about:"%s" -> ! invalid_argument`, host)
	}
	equal(t, "the agents did", w.did(), "")
}

// Taking back a block of a domain or range tells which other blocks still hold for some of it.
func TestStillBlocked(t *testing.T) {
	w := newTown("a1")
	for i, about := range []string{"*.example.org", "www.example.org", "*.b.example.org", "myexample.org",
		"192.0.2.0/24", "192.0.2.128/25", "192.0.2.7", "[2001:db8::1]", "2001:db8::/32", "*.example.net"} {
		w.run(t, `a1 Give verb:"block" about:"%s" -> id:"a1-%x"`, about, 0x10000+i)
	}
	w.run(t, `
		a1 Give verb:"block" off:true about:"*.example.net" -> text:"*.example.net: unblocked"}
		a1 Give verb:"block" off:true about:"*.example.org" -> text:"*.example.org: unblocked; still blocked by order a1-10001, www.example.org; order a1-10002, *.b.example.org"
		a1 Give verb:"block" off:true about:"192.0.2.0/24" -> text:"192.0.2.0/24: unblocked; still blocked by order a1-10005, 192.0.2.128/25; order a1-10006, 192.0.2.7"
		a1 Give verb:"block" off:true about:"2001:db8::/32" -> text:"2001:db8::/32: unblocked; still blocked by order a1-10007, [2001:db8::1]"`)
}

// An order has the name of its caller, also the order that takes it back. So do the commands that are no orders.
func TestCaller(t *testing.T) {
	w := newTown("a1", "a2")
	as := func(name, text string) {
		t.Helper()
		testcalls.RunContext(orders.WithCaller(t.Context(), name), t, text,
			func(agent string) any { return w.members[agent] })
	}
	as("alice@ws", `a1 Give verb:"pause" -> by:"alice@ws"`)
	as("bob", `
		a2 TakeBack id:"a1-10000" -> by:"bob"
		a1 SetApplication name:"news" exclude:{patterns:"x"}`)
	var by []string
	for _, o := range w.set.Past() {
		by = append(by, o.Verb+" "+o.By)
	}
	equal(t, "orders", strings.Join(by, ", "), "pause alice@ws, pause bob, app-rule bob, app bob")
	w.noted = nil
	as("alice@ws", `
		a1 Checkpoint why:"due"
		a1 Drop host:"a1.example" why:"a trap"`)
	as("bob", `
		a1 Stop agent:"a2"
		a1 Leave agent:"a2"`)
	equal(t, "commands", strings.Join(w.noted, "; "),
		"a1 checkpoint alice@ws due; a1 drop a1.example alice@ws a trap; a1 stop a2 bob; a1 leave a2 bob")
}
