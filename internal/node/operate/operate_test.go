package operate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"go.uber.org/goleak"

	"github.com/orbweaver/orbweaver/internal/cluster/orders"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A town is a cluster whose agents crawl the hosts that begin with their names.
type town struct {
	mu      sync.Mutex // guards the fields below
	does    []string   // what the agents have done: "agent verb host"
	noted   []string   // commands, by the agent that was told
	silent  map[string]bool
	slow    map[string]int // how often an agent says that it still reads its queue
	set     *orders.Set
	anyHost bool // each agent may crawl each host
	members map[string]*Operator
	logs    map[string][]*pb.FetchedPage // of the application "app", by agent
	acked   map[string]int64             // by agent
	old     map[string]bool              // agents of an earlier version
	events  map[string][]string          // by agent
	absent  map[string][]string          // which agents are not present, by the agent that knows it
	waits   string                       // what all agents wait for; empty: the crawl has begun
}

func newTown(names ...string) *town {
	w := &town{silent: map[string]bool{}, set: orders.NewSet(), members: map[string]*Operator{},
		logs: map[string][]*pb.FetchedPage{}, acked: map[string]int64{}, old: map[string]bool{}}
	for _, name := range names {
		var others Others
		if name != "" {
			others = neighbours{w, name}
		}
		w.members[name] = New(resident{w, name}, others, book{w, name})
	}
	return w
}

type resident struct {
	w    *town
	name string
}

func (r resident) Name() string { return r.name }

func (r resident) Status() *pb.AgentStatus {
	if r.w.waits != "" {
		return &pb.AgentStatus{Agent: r.name, State: "waiting", WaitsFor: r.w.waits}
	}
	return &pb.AgentStatus{Agent: r.name, State: "crawling", Absent: r.w.absent[r.name],
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

type neighbours struct {
	w    *town
	self string
}

func (n neighbours) Names() (names []string) {
	return slices.DeleteFunc(slices.Collect(maps.Keys(n.w.members)), func(s string) bool { return s == n.self })
}

func (n neighbours) Ask(ctx context.Context, agent, method string, request []byte) ([]byte, error) {
	if n.w.silent[agent] {
		<-ctx.Done()
		return nil, fmt.Errorf("agent %s does not answer: %w", agent, ctx.Err())
	}
	if n.w.old[agent] && method == "ApplicationStates" {
		return nil, ErrMethod
	}
	return n.w.members[agent].Answer(ctx, method, request)
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
	given, err := b.w.set.GiveTogether(list, name, time.Now())
	told := map[string]error{}
	for agent := range b.w.members {
		if told[agent] = nil; b.w.silent[agent] {
			told[agent] = errors.New("it does not answer")
		}
	}
	return given, told, err
}

// said returns answers as text.
func said(answers []*pb.Answer) string {
	var all []string
	for _, a := range answers {
		all = append(all, fmt.Sprintf("%s:%s%s%s", a.Agent, a.Text, a.Code, map[bool]string{true: "!"}[a.Error != ""]))
	}
	return strings.Join(all, "; ")
}

// A command for a host reaches the agent that crawls the host, whichever agent is asked.
func TestHostCommands(t *testing.T) {
	w := newTown("a1", "a2", "a3")
	for _, at := range []string{"a1", "a3"} {
		o := w.members[at]
		drop, err := o.Drop(t.Context(), &pb.DropRequest{Host: at + ".example"})
		if err != nil || said(drop.Answers) != at+":"+at+".example: dropped" {
			t.Errorf("drop at %s: %s, %v", at, said(drop.GetAnswers()), err)
		}
	}
	if want := []string{"a1 dropped a1.example", "a3 dropped a3.example"}; !slices.Equal(w.does, want) {
		t.Errorf("the agents did %q, want %q", w.does, want)
	}
	if want := []string{"a1 drop a1.example", "a3 drop a3.example"}; !slices.Equal(w.noted, want) {
		t.Errorf("noted: %q, want %q", w.noted, want)
	}
	o := w.members["a1"]
	for host, want := range map[string]connect.Code{"": connect.CodeInvalidArgument,
		"a2/b":           connect.CodeInvalidArgument,
		"nobody.example": connect.CodeUnavailable} {
		if _, err := o.Explain(t.Context(), &pb.ExplainRequest{Host: host}); connect.CodeOf(err) != want {
			t.Errorf("explain %q: %v, want %s", host, err, want)
		}
	}
	w.anyHost = true
	explain, err := o.Explain(t.Context(), &pb.ExplainRequest{Host: "x.example"})
	if want := "a1:x.example: explained; a2:x.example: explained; a3:x.example: explained"; err != nil ||
		said(explain.Answers) != want {
		t.Errorf("explain: %s, %v, want %s", said(explain.GetAnswers()), err, want)
	}
	const link = "http://x.example/p"
	for _, q := range []*pb.ExplainRequest{{Host: "x.example", Url: link}, {Url: link}, {Host: link}} {
		explain, err := o.Explain(t.Context(), q)
		if n := strings.Count(said(explain.GetAnswers()), ": explained "+link); err != nil || n != 3 {
			t.Errorf("explain a URL: %s, %v", said(explain.GetAnswers()), err)
		}
	}
}

// A status names the agents that any agent misses, because the totals are without them.
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

// An agent that waits for others says so when it gets an order: the agents that join later get it, too.
func TestOrderBeforeTheStart(t *testing.T) {
	w := newTown("a1", "a2")
	w.waits = "1 more agent"
	p, err := w.members["a1"].Pause(t.Context(), &pb.PauseRequest{})
	if err != nil || len(p.Answers) != 2 || p.Answers[0].WaitsFor != "1 more agent" || p.Answers[1].WaitsFor != "" {
		t.Errorf("pause: %v, %v", p, err)
	}
	b, err := w.members["a2"].Block(t.Context(), &pb.BlockRequest{Host: "a2.example"})
	if err != nil || len(b.Answers) != 1 || b.Answers[0].WaitsFor != "1 more agent" {
		t.Errorf("block: %v, %v", b, err)
	}
	alone := newTown("")
	alone.waits = "the start of the crawl"
	if p, err = alone.members[""].Pause(t.Context(), &pb.PauseRequest{}); err != nil || p.Answers[0].WaitsFor != "" {
		t.Errorf("a crawl of one agent: %v, %v", p, err)
	}
}

// An agent that does not answer is named after ten seconds, and the others answer.
func TestSilentAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown("a1", "a2", "a3")
		w.silent["a2"] = true
		began := time.Now()
		s, err := w.members["a1"].Status(t.Context(), &pb.StatusRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != patience {
			t.Errorf("the answer took %s", took)
		}
		states := ""
		for _, a := range s.Agents {
			states += a.Agent + " " + a.State + "; "
		}
		if want := "a1 crawling; a2 silent; a3 crawling; "; states != want {
			t.Errorf("%s, want %s", states, want)
		}
		if c := s.Totals; c.Pages != 10 || c.PagesPerS != 1 || c.UrlsQueued != 14 || c.Fetched != 12 ||
			c.Bytes != 200 ||
			c.UrlsUnique != 40 || c.OpenRequests != 2 || c.Errors != 4 {
			t.Errorf("totals: %v", c)
		}
		one, err := w.members["a1"].Status(t.Context(), &pb.StatusRequest{Agent: "a3"})
		if err != nil || len(one.Agents) != 1 || one.Agents[0].Agent != "a3" {
			t.Errorf("status of a3: %v, %v", one, err)
		}
		_, err = w.members["a1"].Status(t.Context(), &pb.StatusRequest{Agent: "a9"})
		if connect.CodeOf(err) != connect.CodeNotFound || !strings.Contains(err.Error(), "there are a1, a2, a3") {
			t.Errorf("status of a9: %v", err)
		}
		block, err := w.members["a3"].Block(t.Context(), &pb.BlockRequest{Host: "a2.example"})
		if err != nil || said(block.Answers) != "a1:a2.example: blocked; a2:silent!; a3:a2.example: blocked" {
			t.Errorf("block of a silent agent's host: %s, %v", said(block.GetAnswers()), err)
		}
	})
}

// A pause is an order: it stands until it is taken back, by Resume or by its id, at any agent.
func TestPause(t *testing.T) {
	w := newTown("a1", "a2")
	a1, a2 := w.members["a1"], w.members["a2"]
	if _, err := a1.Resume(t.Context(), &pb.ResumeRequest{}); connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Errorf("resume of a crawl that is not paused: %v", err)
	}
	w.silent["a2"] = true
	p, err := a1.Pause(t.Context(), &pb.PauseRequest{Why: " a complaint "})
	if err != nil || said(p.Answers) != "a1:paused; a2:silent!" {
		t.Fatalf("pause: %s, %v", said(p.GetAnswers()), err)
	}
	if !Pauses(w.set.Standing()) || p.Order.Why != "a complaint" || !p.Order.Stands {
		t.Errorf("the order: %v", p.Order)
	}
	w.silent["a2"] = false
	if _, err := a2.Resume(t.Context(), &pb.ResumeRequest{}); err != nil || Pauses(w.set.Standing()) {
		t.Errorf("resume: %v, orders %v", err, w.set.Standing())
	}
	p, err = a2.Pause(t.Context(), &pb.PauseRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a1.TakeBack(t.Context(), &pb.TakeBackRequest{Id: p.Order.Id}); err != nil || Pauses(w.set.Standing()) {
		t.Errorf("take back: %v, orders %v", err, w.set.Standing())
	}
	if _, err := a1.TakeBack(t.Context(), &pb.TakeBackRequest{Id: p.Order.Id}); connect.CodeOf(err) !=
		connect.CodeNotFound {
		t.Errorf("take back twice: %v", err)
	}
	now, err := a1.Orders(t.Context(), &pb.OrdersRequest{})
	if err != nil || len(now.Orders) != 0 {
		t.Errorf("orders: %v, %v", now, err)
	}
	past, err := a1.Orders(t.Context(), &pb.OrdersRequest{Past: true})
	if err != nil || len(past.Orders) != 4 {
		t.Errorf("past orders: %v, %v", past, err)
	}
	if _, err := a1.Pause(t.Context(), &pb.PauseRequest{Why: strings.Repeat("x", 1000)}); connect.CodeOf(err) !=
		connect.CodeInvalidArgument {
		t.Errorf("a long reason: %v", err)
	}
}

// The agent that is asked stops last, so that its caller hears from all.
func TestStopAndLeave(t *testing.T) {
	w := newTown("a1", "a2", "a3")
	s, err := w.members["a2"].Stop(t.Context(), &pb.StopRequest{})
	if err != nil || len(s.Answers) != 3 || w.does[2] != "a2 stops a2" {
		t.Errorf("stop: %s, %v, %q", said(s.GetAnswers()), err, w.does)
	}
	w.does = nil
	if _, err := w.members["a2"].Stop(t.Context(), &pb.StopRequest{Agent: "a3"}); err != nil ||
		!slices.Equal(w.does, []string{"a3 stops a3"}) {
		t.Errorf("stop a3: %v, %q", err, w.does)
	}
	w.does = nil
	if _, err := w.members["a2"].Checkpoint(t.Context(), &pb.CheckpointRequest{}); err != nil || len(w.does) != 3 {
		t.Errorf("checkpoint: %v, %q", err, w.does)
	}
	w.does = nil
	for _, agent := range []string{"", "a1"} {
		if _, err := w.members["a2"].Leave(t.Context(), &pb.LeaveRequest{Agent: agent}); err != nil {
			t.Errorf("leave %q: %v", agent, err)
		}
	}
	if !slices.Equal(w.does, []string{"a2 leaves a2", "a1 leaves a1"}) {
		t.Errorf("leave: %q", w.does)
	}
}

// A crawl of one agent needs no names.
func TestAlone(t *testing.T) {
	o := newTown("").members[""]
	block, err := o.Block(t.Context(), &pb.BlockRequest{Host: "a.example"})
	if err != nil || said(block.Answers) != ":a.example: blocked, 1 link waits" {
		t.Errorf("block: %s, %v", said(block.GetAnswers()), err)
	}
	if _, err := o.Stop(t.Context(), &pb.StopRequest{Agent: "a1"}); connect.CodeOf(err) != connect.CodeNotFound {
		t.Errorf("stop a1: %v", err)
	}
	if _, err := o.Answer(t.Context(), "Nothing", nil); !errors.Is(err, ErrMethod) {
		t.Errorf("an unknown method: %v", err)
	}
	if _, err := o.Answer(t.Context(), "Drop", []byte{0xff}); err == nil {
		t.Error("a broken request was carried out")
	}
}

// A block of a host is an order. The agent that crawls the host says how many links wait, whichever agent is asked.
func TestBlockOfHost(t *testing.T) {
	w := newTown("a1", "a2", "a3")
	a1, a3 := w.members["a1"], w.members["a3"]
	block, err := a1.Block(t.Context(), &pb.BlockRequest{Host: "http://A2.example/x", Why: "why"})
	if err != nil || said(block.Answers) != "a2:a2.example: blocked, 1 link waits" ||
		block.Order.About != "a2.example" || block.Order.Why != "why" {
		t.Errorf("block: %v, %v", block, err)
	}
	blocks := Blocks(w.set.Standing())
	if len(blocks) != 1 || blocks[0].Host != "a2.example" || blocks[0].Domain != "" || blocks[0].Prefix.IsValid() {
		t.Errorf("blocks: %v", blocks)
	}
	for host, want := range map[string]connect.Code{"": connect.CodeInvalidArgument, "a b": connect.CodeInvalidArgument,
		"www.a2.example": connect.CodeFailedPrecondition, "*.a2.example": connect.CodeFailedPrecondition} {
		if _, err := a3.Unblock(t.Context(), &pb.UnblockRequest{Host: host}); connect.CodeOf(err) != want {
			t.Errorf("unblock %q: %v, want %s", host, err, want)
		}
	}
	unblock, err := a3.Unblock(t.Context(), &pb.UnblockRequest{Host: "a2.example"})
	if err != nil || said(unblock.Answers) != "a2:a2.example: unblocked, 1 link waits" {
		t.Errorf("unblock: %v, %v", unblock, err)
	}
	// While no agent says that it crawls the host, all answer.
	if block, err = a3.Block(t.Context(), &pb.BlockRequest{Host: "b.example"}); err != nil ||
		said(block.Answers) != "a1:b.example: blocked; a2:b.example: blocked; a3:b.example: blocked" {
		t.Errorf("block: %v, %v", block, err)
	}
	if _, err := a1.TakeBack(t.Context(), &pb.TakeBackRequest{Id: block.Order.Id}); err != nil ||
		len(Blocks(w.set.Standing())) > 0 {
		t.Errorf("take back: %v", err)
	}
}

// A block of a domain or of a range of addresses is an order, in its canonical form.
func TestWideBlocks(t *testing.T) {
	w := newTown("a1", "a2")
	a1 := w.members["a1"]
	for typed, about := range map[string]string{"*.Example.ORG": "*.example.org",
		"*.bücher.example": "*.xn--bcher-kva.example", " 192.0.2.77/24 ": "192.0.2.0/24",
		"2001:DB8::1/32": "2001:db8::/32"} {
		b, err := a1.Block(t.Context(), &pb.BlockRequest{Host: typed, Why: "a complaint"})
		if err != nil || b.Order.GetAbout() != about || said(b.Answers) != "a1:"+about+": blocked; a2:"+about+": "+
			"blocked" {
			t.Errorf("block %s: %v, %v", typed, b, err)
		}
	}
	var domains, prefixes []string
	for _, b := range Blocks(w.set.Standing()) {
		if b.Domain != "" {
			domains = append(domains, b.Domain)
		} else {
			prefixes = append(prefixes, b.Prefix.String())
		}
	}
	slices.Sort(domains)
	slices.Sort(prefixes)
	if !slices.Equal(domains, []string{"example.org", "xn--bcher-kva.example"}) ||
		!slices.Equal(prefixes, []string{"192.0.2.0/24", "2001:db8::/32"}) {
		t.Errorf("blocks: %q %q", domains, prefixes)
	}
	if _, err := a1.Unblock(t.Context(), &pb.UnblockRequest{Host: "192.0.2.0/24"}); err != nil ||
		len(Blocks(w.set.Standing())) != 3 {
		t.Errorf("unblock: %v", err)
	}
	for host, want := range map[string]connect.Code{"192.0.2.0/24": connect.CodeFailedPrecondition,
		"*.": connect.CodeInvalidArgument, "*.a/b": connect.CodeInvalidArgument,
		"*.192.0.2.1": connect.CodeInvalidArgument,
		"10.0.0.0/33": connect.CodeInvalidArgument, "a\nb": connect.CodeInvalidArgument,
		"2001:db8::/129": connect.CodeInvalidArgument, "192.0.2.0/024": connect.CodeInvalidArgument,
		"*.*.example": connect.CodeInvalidArgument, "::ffff:192.0.2.0/120": connect.CodeInvalidArgument} {
		if _, err := a1.Unblock(t.Context(), &pb.UnblockRequest{Host: host}); connect.CodeOf(err) != want {
			t.Errorf("unblock %s: %v, want %s", host, err, want)
		}
	}
	if _, err := a1.Drop(t.Context(), &pb.DropRequest{Host: "*.example.org"}); connect.CodeOf(err) !=
		connect.CodeInvalidArgument {
		t.Errorf("drop of a domain: %v", err)
	}
	if len(w.does) > 0 {
		t.Errorf("hosts were blocked: %q", w.does)
	}
}

// Taking back a block of a domain or range tells which other blocks still hold for some of it.
func TestStillBlocked(t *testing.T) {
	w := newTown("a1")
	a1 := w.members["a1"]
	var ids []string
	for _, about := range []string{"*.example.org", "www.example.org", "*.b.example.org", "myexample.org",
		"192.0.2.0/24", "192.0.2.128/25", "192.0.2.7", "[2001:db8::1]", "2001:db8::/32", "*.example.net"} {
		b, err := a1.Block(t.Context(), &pb.BlockRequest{Host: about})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, b.Order.Id)
	}
	for about, want := range map[string][]int{"*.example.org": {1, 2}, "192.0.2.0/24": {5, 6}, "2001:db8::/32": {7},
		"*.example.net": nil} {
		r, err := a1.Unblock(t.Context(), &pb.UnblockRequest{Host: about})
		if err != nil {
			t.Fatal(err)
		}
		text := r.Answers[0].Text
		if len(want) == 0 && text != about+": unblocked" {
			t.Errorf("unblock %s: %s", about, text)
		}
		for i, id := range ids {
			if strings.Contains(text, id+",") != slices.Contains(want, i) {
				t.Errorf("unblock %s: %s; the orders are %q, want the numbers %v of them", about, text, ids, want)
			}
		}
	}
}

// An order has the name of its caller, also the order that takes it back. So do the commands that are no orders.
func TestCaller(t *testing.T) {
	w := newTown("a1", "a2")
	a1, a2 := w.members["a1"], w.members["a2"]
	alice, bob := orders.WithCaller(t.Context(), "alice@ws"), orders.WithCaller(t.Context(), "bob")
	p, err := a1.Pause(alice, &pb.PauseRequest{})
	if err != nil || p.Order.By != "alice@ws" {
		t.Fatalf("pause: %v, %v", p, err)
	}
	back, err := a2.TakeBack(bob, &pb.TakeBackRequest{Id: p.Order.Id})
	if err != nil || back.Order.By != "bob" {
		t.Fatalf("take back: %v, %v", back, err)
	}
	app := &pb.SetApplicationRequest{Name: "news", Exclude: &pb.Patterns{Patterns: []string{"x"}}}
	if _, err := a1.SetApplication(bob, app); err != nil {
		t.Fatal(err)
	}
	past, err := a2.Orders(t.Context(), &pb.OrdersRequest{Past: true})
	if err != nil {
		t.Fatal(err)
	}
	var by []string
	for _, o := range past.Orders {
		by = append(by, o.Verb+" "+o.By)
	}
	if got, want := strings.Join(by, ", "), "pause alice@ws, pause bob, app-rule bob, app bob"; got != want {
		t.Errorf("orders %q, want %q", got, want)
	}
	w.noted = nil
	if _, err := a1.Checkpoint(alice, &pb.CheckpointRequest{}); err != nil {
		t.Error(err)
	}
	if _, err := a1.Drop(alice, &pb.DropRequest{Host: "a1.example", Why: "a trap"}); err != nil {
		t.Error(err)
	}
	if _, err := a1.Stop(bob, &pb.StopRequest{Agent: "a2"}); err != nil {
		t.Error(err)
	}
	if _, err := a1.Leave(bob, &pb.LeaveRequest{Agent: "a2"}); err != nil {
		t.Error(err)
	}
	want := []string{"a1 checkpoint alice@ws",
		"a1 drop a1.example alice@ws a trap", "a1 stop a2 bob", "a1 leave a2 bob"}
	if !slices.Equal(w.noted, want) {
		t.Errorf("commands %q, want %q", w.noted, want)
	}
}
