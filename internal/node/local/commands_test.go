package local

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/gone"
	"github.com/orbweaver/orbweaver/internal/cluster/orders"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/crawl/applications"
	"github.com/orbweaver/orbweaver/internal/node/operate"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/rate"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testclock"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/scope"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A fake is what one agent answers with. The zero fake has a crawl that has not begun.
type fake struct {
	status  *crawl.Status
	counts  report.Counts
	waits   string // what the agent waits for before its crawl begins
	left    []gone.Agent
	err     error  // of all calls of the crawl
	owner   string // the other agent that crawls all hosts
	blocks  []string
	placed  bool // coordinators know all hosts
	looked  []string
	fed     []string // applications and URLs
	taken   []crawl.NewSeed
	copied  []link.Link
	uncopy  error
	pages   []applications.Delivery
	coming  []applications.Delivery // after the next look, within a second
	changed chan struct{}
	acked   int64
	rate    rate.Schedule
}

func (f *fake) Status() *crawl.Status              { return f.status }
func (f *fake) Counts() report.Counts              { return f.counts }
func (f *fake) Waits() (Waiting, bool)             { return Waiting{For: f.waits}, f.waits != "" }
func (f *fake) Sizes(*crawl.Status) []Size         { return []Size{{Name: "frontier", Memory: 7}} }
func (f *fake) Cluster() Cluster                   { return f }
func (f *fake) Address() string                    { return "192.0.2.1:7470" }
func (f *fake) Instance() string                   { return "0102" }
func (f *fake) Absent() []string                   { return []string{"gone"} }
func (f *fake) Gone() []gone.Agent                 { return f.left }
func (f *fake) Heard(string) *gone.Counts          { return &gone.Counts{Pages: 7} }
func (f *fake) State() (rate.Schedule, float64)    { return f.rate, 0.25 }
func (f *fake) States() []applications.State       { return nil }
func (f *fake) Peek(string) (string, bool)         { return f.owner, f.owner == "" }
func (f *fake) SeedAgent(string) string            { return f.owner }
func (f *fake) Standing() []orders.Order           { return nil }
func (f *fake) LookUp(_ context.Context, h string) { f.looked = append(f.looked, h) }
func (f *fake) ID(name string) string              { return name + "-1" }

func (f *fake) Leave(context.Context) (string, error)      { return "leaves", f.err }
func (f *fake) Checkpoint(context.Context) (string, error) { return "saved", f.err }
func (f *fake) Halt(context.Context, crawl.Stop) error     { return f.err }

func (f *fake) Explain(_ context.Context, host string) (string, error) {
	return host + "\n  " + crawl.NothingAccepted + "\n", f.err
}

func (f *fake) ExplainURL(_ context.Context, u weburl.URL, _ func(weburl.URL) crawl.Past) (string, error) {
	return u.String() + "\n", f.err
}

func (f *fake) Waiting(context.Context, string) (string, []string, error) {
	return "waits", f.blocks, f.err
}

func (f *fake) Drop(context.Context, string) (string, error) { return "dropped", f.err }

func (f *fake) AddSeeds(_ context.Context, seeds []crawl.NewSeed) (fates []crawl.SeedFate, err error) {
	f.taken = append(f.taken, seeds...)
	for i := range seeds {
		fates = append(fates, []crawl.SeedFate{crawl.SeedNew, crawl.SeedKnown, crawl.SeedExcluded}[i%3])
	}
	return fates, f.err
}

func (f *fake) Receive(_ context.Context, links []link.Link, _ int) error {
	f.copied = append(f.copied, links...)
	return f.uncopy
}

func (f *fake) Feed(_ context.Context, app string, urls []crawl.AppURL) (fates []crawl.SeedFate, err error) {
	for _, u := range urls {
		f.fed = append(f.fed, fmt.Sprint(app, " ", u.URL, " ", u.Priority))
		fates = append(fates, crawl.SeedNew)
	}
	return fates, f.err
}

func (f *fake) Deliveries(_ string, from int64, most int) ([]applications.Delivery, error) {
	defer f.deliver()
	if from >= int64(len(f.pages)) {
		return nil, f.err
	}
	return f.pages[from:min(len(f.pages), int(from)+most)], f.err
}

// deliver delivers the pages that are to come, and says so after a second.
func (f *fake) deliver() {
	if f.coming != nil {
		time.AfterFunc(time.Second, func() { close(f.changed) })
		f.pages, f.coming = f.coming, nil
	}
}

func (f *fake) Changed(string) <-chan struct{} { return f.changed }

func (f *fake) Acknowledge(_ context.Context, _ string, position int64) error {
	f.acked = position
	return f.err
}

// An assigner is the coordinators' part of a fake.
type assigner struct{ *fake }

func (a assigner) Waits(string) bool       { return a.placed }
func (a assigner) Explain(h string) string { return "is assigned to " + a.owner }

// noPaces has no rates of domains.
type noPaces struct{}

func (noPaces) States() []*pb.DomainRate { return nil }

// A command for a host names a host, tells what the agent waits for before its crawl begins, and names the agent that
// owns the host.
func TestHostCommands(t *testing.T) {
	away := &crawl.ElsewhereError{}
	for name, tt := range map[string]struct {
		fake   fake
		assign bool
		call   func(*HostCommands) (string, error)
		want   string
		is     error
	}{
		"no host":     {call: dropOf("a b"), is: operate.ErrHost},
		"drop":        {call: dropOf("A.example"), want: "dropped"},
		"no URL":      {call: explainOf("ftp:x"), is: operate.ErrHost},
		"URL":         {call: explainOf("HTTP://A.example/x"), want: "http://a.example/x"},
		"waiting":     {call: waitingOf, want: "waits"},
		"blocked":     {fake: fake{blocks: []string{"example"}}, call: waitingOf, want: "still blocked by example"},
		"of another":  {fake: fake{err: away}, call: waitingOf, is: operate.ErrElsewhere},
		"not begun":   {fake: fake{err: crawl.ErrNotRunning, waits: "a2"}, call: waitingOf, want: "! waits for a2"},
		"not running": {fake: fake{err: crawl.ErrNotRunning}, call: waitingOf, is: crawl.ErrNotRunning},
		"explain":     {call: explainOf(""), want: crawl.NothingAccepted},
		"owned":       {fake: fake{owner: "b"}, call: explainOf(""), is: operate.ErrElsewhere},
		"assigned":    {assign: true, call: explainOf(""), want: "is assigned to"},
		"to be placed": {fake: fake{placed: true}, assign: true, call: explainOf(""),
			want: "- " + crawl.NothingAccepted},
	} {
		f := tt.fake
		c := &HostCommands{Crawl: &f, Orders: &f, Owners: &f, Run: &f}
		if tt.assign {
			c.Assigned = assigner{&f}
		}
		text, err := tt.call(c)
		want, fails := strings.CutPrefix(tt.want, "! ")
		without, none := strings.CutPrefix(tt.want, "- ")
		switch {
		case fails && (err == nil || !strings.Contains(err.Error(), want)), !fails && !errors.Is(err, tt.is),
			none && strings.Contains(text, without), !fails && !none && tt.is == nil && !strings.Contains(text, want),
			tt.assign && len(f.looked) != 1:
			t.Errorf("%s: %q, %v; looked up %q", name, text, err, f.looked)
		}
	}
}

func waitingOf(c *HostCommands) (string, error) { return c.Waiting(context.Background(), "a.example") }

func dropOf(host string) func(*HostCommands) (string, error) {
	return func(c *HostCommands) (string, error) { return c.Drop(context.Background(), host) }
}

func explainOf(url string) func(*HostCommands) (string, error) {
	return func(c *HostCommands) (string, error) { return c.Explain(context.Background(), "a.example", url) }
}

// Seeds that cannot be are refused, and the others accepted and copied.
func TestSeeds(t *testing.T) {
	s, err := scope.New(scope.Config{Exclude: []string{"/no$"}}, []weburl.URL{weburl.MustParse("http://127.0.0.1/")})
	must.Do(t, err)
	f := fake{owner: "b", uncopy: errors.New("nobody there")}
	o := &Seeds{Scope: s, Crawl: &f, Copier: &f, Run: &f}
	plans := o.PlanSeeds([]string{"http://127.0.0.1/a", "http://a.example/", "http://127.0.0.1/no",
		"http://127.0.0.1/" + strings.Repeat("x", orders.MaxAbout), "localhost", ":"})
	var got []string
	for _, p := range plans {
		got = append(got, fmt.Sprintf("%.60s|%v|%s|%.40s", p.URL, p.Widens, p.Agent, p.Refused))
	}
	for i, want := range []string{"http://127.0.0.1/a|false|b|", "|false||the crawl has no contact", "|false||",
		"|false||the URL has ",
		"https://localhost/|true|b|", "|false||"} {
		if !strings.HasPrefix(got[i], want) || want == "|false||" && got[i] == want {
			t.Errorf("plan %d: %s, want %s", i, got[i], want)
		}
	}
	taken, err := o.TakeSeeds(t.Context(), []string{"http://127.0.0.1/1", "http://a.example/", "127.0.0.1/2",
		"http://127.0.0.1/3"})
	got = nil
	for _, s := range taken {
		got = append(got, s.Result)
	}
	if strings.Join(got, " ") != "new refused known refused" || err != nil || len(f.taken) != 3 || len(f.copied) != 3 ||
		!f.taken[1].Bare || !strings.Contains(taken[0].Text, "nobody there") || taken[3].Text == "" {
		t.Errorf("%v, %v; %v; %d copied", taken, err, f.taken, len(f.copied))
	}
	if o.ByPages = true; o.agentOf(f.taken[0].URL) != "" {
		t.Error("pages are divided, and another agent accepts a URL")
	}
	f.err, f.waits = crawl.ErrNotRunning, "a2"
	_, err = o.TakeSeeds(t.Context(), []string{"localhost"})
	if err == nil || !strings.Contains(err.Error(), "waits for a2") {
		t.Errorf("before the crawl: %v", err)
	}
	if o.Walks = true; o.PlanSeeds([]string{"localhost"})[0].Refused == "" {
		t.Error("a walk accepts a seed")
	}
}

// The state of an agent says whether it waits, crawls, pauses, leaves or stops.
func TestStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for want, f := range map[string]fake{
			"waiting":  {waits: "a2"},
			"crawling": {status: &crawl.Status{}},
			"paused":   {status: &crawl.Status{Paused: true}},
			"stopping": {status: &crawl.Status{Stop: crawl.ByOperator, Paused: true}},
		} {
			o := &Self{Agent: "a", Crawl: &f, Apps: &Applications{Crawl: &f}, Rates: &f, Paces: noPaces{},
				Clock: testclock.At(time.Unix(0, 0)), Run: &f}
			s := o.Status()
			if s.State != want || s.Address == "" || len(s.Absent) != 1 || s.Rate != nil ||
				(want == "waiting") != (s.Totals == nil) {
				t.Errorf("%s: %v", want, s)
			}
			if want != "waiting" && s.Status.Fields["sizes"] == nil {
				t.Error("no sizes")
			}
		}
		var f fake // a crawl that does not begin
		if w, ok := stateOf(&f).(Waiting); !ok || w.For != "the start of the crawl" {
			t.Errorf("%v", w)
		}
	})
}

// Of an agent that has gone, the status says why, in words, and its last counts.
func TestGone(t *testing.T) {
	at := time.Unix(1e9, 0)
	f := &fake{status: &crawl.Status{}}
	for _, a := range []gone.Agent{{State: gone.Stopped, Reason: "disk-low"}, {State: gone.Lost}, {State: gone.Left},
		{State: gone.Stopped}, {State: gone.Lost, Reason: gone.Failed, Counts: &gone.Counts{Pages: 5}, At: at}} {
		a.Name, a.Since = "b", at
		f.left = append(f.left, a)
	}
	o := &Self{Agent: "a", Crawl: f, Apps: &Applications{Crawl: f}, Rates: f, Paces: noPaces{},
		Clock: testclock.At(at), Run: f}
	var whys []string
	for _, g := range o.Status().Gone {
		if whys = append(whys, g.Why); g.Since.Seconds != 1e9 || (g.AsOf != nil) != (g.Totals.GetPages() == 5) {
			t.Errorf("%v", g)
		}
	}
	if want := []string{"disk low: the disk was nearly full", "killed or unreachable",
		"it handed its hosts to the others", "it ended in order",
		"an error of its machine"}; !slices.Equal(whys, want) {
		t.Errorf("%q, want %q", whys, want)
	}
	if o.Heard("b").Pages != 7 {
		t.Error("what it has told is not known")
	}
}

// A stop of a crawl that has not begun says what the agent waits for, and a second stop does no harm.
func TestStop(t *testing.T) {
	for want, f := range map[string]fake{
		"stops; resume the crawl to continue": {},
		"stops already":                       {err: crawl.ErrNotRunning},
		"":                                    {err: crawl.ErrNotRunning, waits: "a2"},
	} {
		o := &Self{Crawl: &f, Run: &f}
		if text, err := o.Stop(t.Context()); text != want || (err == nil) != (want != "") {
			t.Errorf("%q, %v; want %q", text, err, want)
		}
	}
	if (&Self{NoPaces: true}).CanRateDomain() == nil || (&Self{}).CanRateDomain() != nil {
		t.Error("a rate of a domain without a lease, or none with one")
	}
}

// The text about the rate has the limit of now, the schedule if it is another, and the agent's share.
func TestWhyRate(t *testing.T) {
	var f fake
	if got := WhyRate(&f, time.Unix(0, 0)); got != "none" {
		t.Error(got)
	}
	for _, text := range []string{"10/s", "10/s 8-18, else 50/s"} {
		s := must.Get(rate.Parse(text))(t)
		f.rate = s
		got := WhyRate(&f, time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
		if !strings.HasPrefix(got, "10/s") || !strings.HasSuffix(got, " (this agent's share: 25 %)") ||
			strings.Contains(got, "schedule") != (s.String() != "10/s") {
			t.Error(got)
		}
	}
}

// URLs of an application reach the crawl by its ID, with a priority within its bounds.
func TestFeed(t *testing.T) {
	f := fake{owner: "b"}
	o := &Applications{Crawl: &f, Defined: &f, Seeds: &Seeds{Crawl: &f, Run: &f}}
	q := &pb.TakeFeed{Application: "shop"}
	for _, p := range []int32{-1, 7, 99} {
		q.Urls = append(q.Urls, &pb.FeedURL{Url: "localhost", Priority: p})
	}
	q.Urls = append(q.Urls, &pb.FeedURL{Url: "http://a.example/"})
	answer, err := o.TakeFeed(t.Context(), q)
	want := "shop-1 https://localhost/ 0|shop-1 https://localhost/ 7|shop-1 https://localhost/ 15"
	got := strings.Join(f.fed, "|")
	if err != nil || got != want || answer[0].Result != "new" || answer[3].Result != "refused" {
		t.Errorf("%s, %v, %v", got, answer, err)
	}
	if p := o.PlanFeed([]string{"localhost", "http://a.example/"}); p[0].Agent != "b" || p[1].Refused == "" {
		t.Errorf("%v", p)
	}
}

// An application gets its pages from a position of the log that it knows, else from the first; it waits for pages as
// long as it says. It acknowledges only pages of the log.
func TestPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := fake{changed: make(chan struct{})}
		o := &Applications{Log: "log", Crawl: &f, Defined: &f}
		list := func(log string, from, wait int64) (n int, took time.Duration) {
			began := time.Now()
			q := &pb.ListPages{Application: "shop", Log: log, From: from, Limit: 10, WaitMs: wait}
			r, err := o.ListPages(t.Context(), q)
			if err != nil || r.Log != "log" {
				t.Errorf("%v, %v", r, err)
			}
			return len(r.Pages), time.Since(began)
		}
		if n, took := list("log", 0, 700); n != 0 || took != 700*time.Millisecond {
			t.Errorf("%d pages after %v", n, took)
		}
		f.coming = []applications.Delivery{{URL: "http://a.example/", Position: 1},
			{URL: "http://b.example/", Position: 2}}
		if n, took := list("log", 0, 9000); n != 2 || took != time.Second {
			t.Errorf("%d pages after %v", n, took)
		}
		for log, want := range map[string]int{"log": 1, "another": 2} {
			if n, _ := list(log, 1, 0); n != want {
				t.Errorf("%d pages by log %q", n, log)
			}
		}
		for _, log := range []string{"another", "log"} {
			err := o.AcknowledgePages(t.Context(), &pb.AcknowledgePages{Log: log, Position: 2})
			if known := log == "log"; (err == nil) != known || (f.acked == 2) != known {
				t.Errorf("log %q: %v, acknowledged %d", log, err, f.acked)
			}
		}
	})
	got := Uncollected([]applications.State{{Name: "a-1", Unacknowledged: 1}, {Name: "b-1"},
		{Name: "c-1", Unacknowledged: 2}})
	if !strings.HasPrefix(got, "1 page of a") || !strings.Contains(got, " and 2 pages of c") {
		t.Error(got)
	}
}
