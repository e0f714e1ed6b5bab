package standing

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/orders"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/node/verbs"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testclock"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/web/scope"
	"github.com/orbweaver/orbweaver/internal/web/sheet"
)

var noon = time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC)

// A told is a crawl that notes what is in force.
type told struct {
	bars     []crawl.Bar
	paused   bool
	excluded []crawl.Exclusion
	scope    scope.Amendment
	paces    []string
	apps     []string
	rested   func(host string) (time.Duration, bool) // by the last Redelay
	fails    error                                   // of Bar
}

func (c *told) Amend(a scope.Amendment) error { c.scope = a; return nil }
func (c *told) Exclude(_ context.Context, list []crawl.Exclusion) error {
	c.excluded = list
	return nil
}
func (c *told) Pause(_ context.Context, on bool) error { c.paused = on; return nil }
func (c *told) Bar(_ context.Context, list []crawl.Bar) error {
	c.bars = list
	return c.fails
}
func (c *told) HeedBars() {}
func (c *told) Redelay(_ context.Context, was func(string) (time.Duration, bool)) error {
	c.rested = was
	return nil
}
func (c *told) Repace(_ context.Context, domains []string) error { c.paces = domains; return nil }
func (c *told) SetApplications(apps []visit.Application) error {
	c.apps = nil
	for _, a := range apps {
		c.apps = append(c.apps, a.Name)
	}
	return nil
}

type notes struct{ list []string }

func (n *notes) Note(text string) { n.list = append(n.list, text) }

// open returns the Orders of an agent that is alone, on a disk.
func open(t testing.TB, fs disk.FS, c *told, unblock ...string) (s *Orders, notBlocked []string, err error) {
	t.Helper()
	clock := testclock.At(noon)
	events, err := report.OpenEvents(fs, "events.jsonl", clock)
	must.Do(t, err)
	t.Cleanup(func() { events.Close() })
	if s, err = Load(Config{FS: fs, File: "orders", Name: "a1", Clock: clock, Events: events, Notes: new(notes),
		Sheets: new(sheet.Live)}); err != nil {
		t.Fatal(err)
	}
	notBlocked, err = s.Open(c, unblock)
	return s, notBlocked, err
}

func mustOpen(t testing.TB, fs disk.FS, c *told) *Orders {
	t.Helper()
	s, _, err := open(t, fs, c)
	must.Do(t, err)
	return s
}

// An order is in force when Give returns, and again after a restart, until it is taken back.
func TestOrdersInForce(t *testing.T) {
	inForce := func(c *told, s *Orders) string {
		delay, _ := s.Delays.Of("www.example.org")
		var bars []string
		for _, b := range c.bars {
			bars = append(bars, b.Host+b.Domain)
		}
		var excluded []string
		for _, x := range c.excluded {
			excluded = append(excluded, x.Pattern)
		}
		rate := ""
		if r, _ := s.Rates.State(); !r.None() {
			rate = r.String()
		}
		return fmt.Sprintf("%t %v %v %v %v %q %s", c.paused, bars, excluded, c.paces, c.apps, rate, delay)
	}
	const none = `false [] [] [] [] "" 0s`
	for _, c := range []struct {
		order orders.Order
		want  string
	}{
		{orders.Order{Verb: "pause"}, `true [] [] [] [] "" 0s`},
		{orders.Order{Verb: "block", About: "a.example"}, `false [a.example] [] [] [] "" 0s`},
		{orders.Order{Verb: "block", About: "*.example.org"}, `false [example.org] [] [] [] "" 0s`},
		{orders.Order{Verb: "exclude", About: "/private/"}, `false [] [/private/] [] [] "" 0s`},
		{orders.Order{Verb: "delay", About: "*.example.org", Value: "10s"}, `false [] [] [] [] "" 10s`},
		{orders.Order{Verb: "delay", Value: "3s 8-18, else 1s"}, `false [] [] [] [] "" 3s`},
		{orders.Order{Verb: "rate", Value: "5/s"}, `false [] [] [] [] "5/s" 0s`},
		{orders.Order{Verb: "rate", About: "example.org", Value: "2/s"}, `false [] [] [example.org] [] "" 0s`},
		{orders.Order{Verb: "delay", Value: "never"}, none},       // another version has given these
		{orders.Order{Verb: "fly", About: "a.example"}, none},     //
		{orders.Order{Verb: "exclude", About: "(((("}, none},      //
		{orders.Order{Verb: "app", About: "a", Value: "{"}, none}, //
	} {
		mem, now := testdisk.NewMem(), new(told)
		s := mustOpen(t, mem, now)
		if got := inForce(now, s); got != none {
			t.Fatalf("without an order: %s", got)
		}
		given, others, err := s.Give(t.Context(), c.order)
		if err != nil || len(given) != 1 || len(others) > 0 {
			t.Errorf("%v: %v, told %v, %v", c.order, given, others, err)
			continue
		}
		if got := inForce(now, s); got != c.want {
			t.Errorf("%s %s %s: %s in force, want %s", c.order.Verb, c.order.About, c.order.Value, got, c.want)
		}
		again := new(told)
		if got := inForce(again, mustOpen(t, mem, again)); got != c.want {
			t.Errorf("%s %s after a restart: %s in force, want %s", c.order.Verb, c.order.About, got, c.want)
		}
		c.order.Off, c.order.Value = true, ""
		if _, _, err := s.Give(t.Context(), c.order); err != nil || inForce(now, s) != none {
			t.Errorf("%s %s taken back: %s in force, %v", c.order.Verb, c.order.About, inForce(now, s), err)
		}
	}
}

// A new order of delay is told with the delays for which the hosts rest.
func TestRestedDelays(t *testing.T) {
	c := new(told)
	s := mustOpen(t, testdisk.NewMem(), c)
	was := time.Duration(0)
	for _, d := range []time.Duration{5 * time.Second, 9 * time.Second} {
		if _, _, err := s.Give(t.Context(), orders.Order{Verb: "delay", Value: d.String()}); err != nil {
			t.Fatal(err)
		}
		if got, _ := c.rested("a.example"); got != was {
			t.Errorf("the hosts rest for %s, want %s", got, was)
		}
		was = d
	}
}

// An order that cannot be put in force stands, its giver is told so, and it is tried again.
func TestOrderIsKeptAgain(t *testing.T) {
	mem, c := testdisk.NewMem(), &told{}
	s := mustOpen(t, mem, c)
	c.fails = errors.New("the crawl does not answer")
	_, _, err := s.Give(t.Context(), orders.Order{Verb: "block", About: "a.example"})
	if err == nil || !strings.Contains(err.Error(), "not yet durable and in force") || len(s.Standing()) != 1 {
		t.Fatalf("%v, %d orders stand", err, len(s.Standing()))
	}
	c.fails, c.bars = nil, nil
	if err := s.keep(t.Context()); err != nil || len(c.bars) != 1 {
		t.Errorf("%v, %v in force", err, c.bars)
	}
	must.Do(t, s.cfg.Events.Flush())
	text, err := disk.ReadFile(mem, "events.jsonl", 1<<20)
	if n := strings.Count(string(text), `"orders-failed"`) + 10*strings.Count(string(text), `"orders-kept"`); n != 11 {
		t.Errorf("events: %s, %v", text, err)
	}
}

// An agent of an earlier version keeps orders whose verb it does not know and passes them on, also after a restart. It
// tells its operator once, and obeys the other orders. A later version obeys these orders, too.
func TestAnotherVersion(t *testing.T) {
	all := verbs.All
	defer func() { verbs.All = all }()
	verbs.All = slices.DeleteFunc(slices.Clone(all), func(v *verbs.Verb) bool { return v.Name == "block" })
	mem, c := testdisk.NewMem(), new(told)
	s := mustOpen(t, mem, c)
	later := [][]byte{encoded(orders.Order{Verb: "block", About: "a.example"}, noon),
		encoded(orders.Order{Verb: "block", About: "b.example"}, noon.Add(time.Second))}
	must.Get(s.Answer(t.Context(), rpc.Caller{Name: "b1"},
		&pb.OrdersRequest{Orders: later, Digest: noOrders[:]}))(t)
	if _, _, err := s.Give(t.Context(), orders.Order{Verb: "pause"}); err != nil || !c.paused || len(c.bars) > 0 {
		t.Errorf("paused %t, bars %v, %v", c.paused, c.bars, err)
	}
	for range 2 {
		passed, err := s.Answer(t.Context(), rpc.Caller{Name: "c1"}, &pb.OrdersRequest{Digest: noOrders[:]})
		if err != nil || len(passed.Orders) != 3 || !bytes.Equal(passed.Orders[0], later[0]) ||
			!slices.Equal(passed.Unknown, []string{"block"}) {
			t.Errorf("%d orders are passed on, the verbs %q are unknown, %v", len(passed.GetOrders()),
				passed.GetUnknown(), err)
		}
		told := s.cfg.Notes.(*notes).list
		if n := strings.Count(strings.Join(told, "\n"), "does not know the verb of order b1-"); n != 1 {
			t.Errorf("the operator is told %q", told)
		}
		s = mustOpen(t, mem, c)
	}
	verbs.All = all
	if s = mustOpen(t, mem, c); len(c.bars) != 2 || !c.paused {
		t.Errorf("in force: %v", c.bars)
	}
	if told := strings.Join(s.cfg.Notes.(*notes).list, "\n"); strings.Contains(told, "does not know") {
		t.Error(told)
	}
}

// The giver of orders tells which agents do not obey them, and only of these orders.
func TestLacking(t *testing.T) {
	given := []orders.Order{{Verb: "pause"}, {Verb: "rest", Off: true}, {Verb: "page-limit", About: "a.example"}}
	if err := lacking(given, []string{"rest", "page-limit"}); err == nil ||
		!strings.Contains(err.Error(), "does not know the verb page-limit") {
		t.Error(err)
	}
	if err := lacking(given, []string{"rest"}); err != nil {
		t.Error(err)
	}
}

// The start of a run takes back blocks and exclusions, and says which names were not blocked.
func TestUnblock(t *testing.T) {
	mem, c := testdisk.NewMem(), new(told)
	s := mustOpen(t, mem, c)
	for _, o := range []orders.Order{{Verb: "block", About: "a.example"}, {Verb: "block", About: "b.example"},
		{Verb: "exclude", About: "/private/"}} {
		if _, _, err := s.Give(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	_, notBlocked, err := open(t, mem, c, "http://a.example/x", "a.example", "c.example", "/private/", "/other/")
	slices.Sort(notBlocked)
	if err != nil || !slices.Equal(notBlocked, []string{"/other/", "c.example"}) || len(c.excluded) > 0 ||
		len(c.bars) != 1 || c.bars[0].Host != "b.example" {
		t.Errorf("not blocked %q, in force %v %v, %v", notBlocked, c.bars, c.excluded, err)
	}
	if _, _, err := open(t, mem, c, "((("); err == nil {
		t.Error("no error for a wrong pattern")
	} else if _, ok := errors.AsType[*input.ConfigError](err); !ok {
		t.Errorf("the wrong pattern is no error of the caller: %v", err)
	}
}

// encoded returns an order of another agent.
func encoded(o orders.Order, at time.Time) []byte {
	o.Agent, o.At, o.Clock = "b1", at, uint64(at.UnixMilli())<<16
	return o.AppendTo(nil)
}

// Orders of another agent are in force when the call returns. Those that break the rules are refused, and then none of
// the message counts.
func TestAnswer(t *testing.T) {
	good := encoded(orders.Order{Verb: "block", About: "a.example"}, noon)
	cut := good[:len(good)-1]
	early := encoded(orders.Order{Verb: "pause"}, noon.Add(23*time.Hour))
	late := encoded(orders.Order{Verb: "pause"}, noon.Add(25*time.Hour))
	for name, c := range map[string]struct {
		orders    [][]byte
		malformed bool
		refused   bool
		stand     int
	}{
		"an order":              {[][]byte{good}, false, false, 1},
		"twice":                 {[][]byte{good, good}, false, false, 1},
		"of a clock ahead":      {[][]byte{early}, false, false, 1},
		"of a clock far ahead":  {[][]byte{good, late}, false, true, 0},
		"cut off":               {[][]byte{good, cut}, true, false, 0},
		"with something behind": {[][]byte{append(good[:len(good):len(good)], 0)}, true, false, 0},
		"nothing":               {[][]byte{{}}, true, false, 0},
	} {
		crawl := new(told)
		s := mustOpen(t, testdisk.NewMem(), crawl)
		answer, err := s.Answer(t.Context(), rpc.Caller{Name: "b1"},
			&pb.OrdersRequest{Orders: c.orders, Digest: noOrders[:]})
		var refusal *rpc.Refusal
		if errors.Is(err, rpc.ErrMalformed) != c.malformed || errors.As(err, &refusal) != c.refused ||
			len(s.Standing()) != c.stand || c.stand == 0 && (len(crawl.bars) > 0 || crawl.paused) {
			t.Errorf("%s: %v, %d orders stand, %v in force", name, err, len(s.Standing()), crawl.bars)
		}
		digest := s.set.Digest()
		if err == nil && (len(answer.Orders) != 1 || !bytes.Equal(answer.Digest, digest[:]) || answer.More) {
			t.Errorf("%s: the caller, who has none, is answered %d orders", name, len(answer.Orders))
		}
		equal, err := s.Answer(t.Context(), rpc.Caller{}, &pb.OrdersRequest{Digest: digest[:]})
		if err != nil || len(equal.Orders) > 0 {
			t.Errorf("%s: a caller with the same orders is answered %d, %v", name, len(equal.Orders), err)
		}
	}
}

// FuzzAnswer: a message of any bytes leaves a set that a restart can read, and that its own agent takes as whole.
func FuzzAnswer(f *testing.F) {
	f.Add(encoded(orders.Order{Verb: "block", About: "a.example", Why: "why"}, noon))
	f.Add(encoded(orders.Order{Verb: "app", About: "a", Value: `{"scope":"host"}`}, noon))
	f.Add(encoded(orders.Order{Verb: "scope", About: "depth", Value: "3"}, noon))
	f.Add([]byte{1, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		mem := testdisk.NewMem()
		s := mustOpen(t, mem, new(told))
		q := &pb.OrdersRequest{Orders: [][]byte{b}}
		if _, err := s.Answer(t.Context(), rpc.Caller{Name: "b1"}, q); err != nil {
			if len(s.Standing()) > 0 {
				t.Fatalf("%v, and an order stands", err)
			}
			return
		}
		if again := mustOpen(t, mem, new(told)); again.set.Digest() != s.set.Digest() {
			t.Fatal("the orders differ after a restart")
		}
	})
}

// An agent is told of orders when it may lack some: after it has restarted, when orders have come, and after a while if
// its own are others.
func TestWhoIsTold(t *testing.T) {
	other, own := [32]byte{1}, [32]byte{2}
	for name, c := range map[string]struct {
		told   *toldOrders
		digest [32]byte
		want   bool
	}{
		"no orders":               {nil, noOrders, false},
		"never told":              {nil, own, true},
		"told, and has the same":  {&toldOrders{1, own, own, noon, nil}, own, false},
		"told before its restart": {&toldOrders{0, own, own, noon, nil}, own, true},
		"new orders":              {&toldOrders{1, other, other, noon, nil}, own, true},
		"just told, has others":   {&toldOrders{1, own, other, noon, nil}, own, false},
		"told long ago":           {&toldOrders{1, own, other, noon.Add(-spreadAgain - 1), nil}, own, true},
	} {
		s := mustOpen(t, testdisk.NewMem(), new(told))
		if c.told != nil {
			s.told["b1"] = *c.told
		}
		if got := s.due("b1", 1, c.digest); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}
