package crawl_test

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/rate"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/textweb"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/scope"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A command is a line "at TIME VERB ARGUMENT..." of a story. The agent gives it to the crawl at that time, or, with the
// time "end", after the last run. A command whose time has come when a process starts is given before its run. What
// holds until it is replaced, such as blocks, is given again to each process, as package node does.
type command struct {
	at   time.Duration
	verb string
	args []string
}

const atEnd = time.Duration(1<<63 - 1)

func parseCommand(t *testing.T, words []string) command {
	t.Helper()
	c := command{at: atEnd, verb: words[1], args: words[2:]}
	if words[0] != "end" {
		c.at = textweb.Duration(t, words[0])
	}
	return c
}

// An agent gives the commands of a story, and notes their answers.
type agent struct {
	commands []command
	blocks   []crawl.Bar
	excludes []crawl.Exclusion
	paused   bool
	seeds    []weburl.URL // that were added
	noting   bool         // there are commands
	answers  strings.Builder
}

// ended notes the end of a run.
func (a *agent) ended(when string, w *world, start time.Time, stop crawl.Stop) {
	if a.noting {
		sum := w.Tally.Summary(0, "")
		fmt.Fprintf(&a.answers, "%s: %s at %s, %d URLs finished, %d pending, skipped %v\n", when, stop,
			time.Since(start).Round(time.Millisecond), sum.Finished, w.View.Pending(), sum.Skipped)
	}
}

// orders prepares a process for its run.
func (s *story) orders(t *testing.T, w *world) {
	t.Helper()
	must.Do(t, w.Orders.Bar(t.Context(), s.blocks))
	must.Do(t, w.Orders.Exclude(t.Context(), s.excludes))
	must.Do(t, w.Orders.Pause(t.Context(), s.paused))
	must.Do(t, w.Orders.Amend(scope.Amendment{Seeds: s.agent.seeds}))
	s.obey(t, w, time.Since(s.web.Start))
}

// obey gives the commands up to a time, each at its time.
func (s *story) obey(t *testing.T, w *world, until time.Duration) {
	t.Helper()
	for len(s.commands) > 0 && s.commands[0].at <= until {
		c := s.commands[0]
		s.commands = s.commands[1:]
		when := "end"
		if c.at < atEnd {
			time.Sleep(time.Until(s.web.Start.Add(c.at)))
			synctest.Wait()
			when = c.at.String()
		}
		text, err := s.do(t, w, c)
		synctest.Wait()
		if err != nil {
			text = "error: " + err.Error()
		}
		if text == "" {
			continue
		}
		fmt.Fprintf(&s.answers, "%s %s:", when, strings.Join(append([]string{c.verb}, c.args...), " "))
		if text = strings.TrimRight(text, "\n"); !strings.Contains(text, "\n") {
			fmt.Fprintf(&s.answers, " %s\n", text)
			continue
		}
		fmt.Fprintf(&s.answers, "\n  %s\n", strings.ReplaceAll(text, "\n", "\n  "))
	}
}

// do gives a command. It returns what the command answers.
func (s *story) do(t *testing.T, w *world, c command) (string, error) {
	ctx := t.Context()
	arg := func(i int) string {
		if i >= len(c.args) {
			return ""
		}
		return c.args[i]
	}
	switch c.verb {
	case "block": // hosts, .domains and ranges of addresses; replaces the blocks
		s.blocks = barsOf(c.args...)
		return "", w.Orders.Bar(ctx, s.blocks)
	case "exclude": // patterns, or a depth; replaces the exclusions
		s.excludes = nil
		for i, a := range c.args {
			x := crawl.Exclusion{Pattern: a, Deeper: -1, Why: fmt.Sprint("order ", i+1)}
			if n, err := strconv.Atoi(a); err == nil {
				x.Pattern, x.Deeper = "", n
			}
			s.excludes = append(s.excludes, x)
		}
		return "", w.Orders.Exclude(ctx, s.excludes)
	case "excluded":
		return w.Orders.Excluded(link.Link{URL: mustURL(t, arg(0))}), nil
	case "pause", "continue":
		s.paused = c.verb == "pause"
		return "", w.Orders.Pause(ctx, s.paused)
	case "halt":
		return "", w.Halt(ctx, crawl.Stop(arg(0)))
	case "checkpoint":
		return w.Orders.Checkpoint(ctx)
	case "rate": // requests per second, share
		n, err := strconv.ParseFloat(arg(0), 64)
		must.Do(t, err)
		share, err := strconv.ParseFloat(arg(1), 64)
		must.Do(t, err)
		w.Rate.Set(rate.Limit{Requests: n}, share, time.Time{})
		return "", nil
	case "drop":
		return w.Orders.Drop(ctx, arg(0))
	case "waiting":
		text, blocks, err := w.Orders.Waiting(ctx, arg(0))
		if len(blocks) > 0 {
			text += ", blocked by " + strings.Join(blocks, ", ")
		}
		return text, err
	case "explain": // a host or a URL
		if !strings.Contains(arg(0), "/") {
			return w.View.Explain(ctx, arg(0))
		}
		return w.View.ExplainURL(ctx, mustURL(t, arg(0)), func(weburl.URL) crawl.Past { return pasts[arg(1)] })
	case "scope-of": // an application that has no scope of its own
		sc, err := scope.New(scope.Config{Scope: scope.Any}, nil)
		must.Do(t, err)
		if arg(0) == "" {
			return "", w.Orders.SetApplications(nil)
		}
		return "", w.Orders.SetApplications([]visit.Application{{Name: arg(0), Scope: sc}})
	case "turns":
		var links []link.Link
		for _, u := range c.args {
			links = append(links, link.Link{URL: mustURL(t, u)})
		}
		turns, err := w.View.Turns(ctx, links)
		var b strings.Builder
		for i, x := range turns {
			fmt.Fprintf(&b, "%s: %s", c.args[i], x.State)
			if !x.Due.IsZero() {
				fmt.Fprintf(&b, ", due at %s", x.Due.Sub(s.web.Start).Round(time.Millisecond))
			}
			if x.Why != "" {
				fmt.Fprintf(&b, ", %s", x.Why)
			}
			b.WriteByte('\n')
		}
		return b.String(), err
	case "seeds": // which are in the scope from now on
		var list []crawl.NewSeed
		for _, u := range c.args {
			s.agent.seeds = append(s.agent.seeds, mustURL(t, u))
			list = append(list, crawl.NewSeed{URL: mustURL(t, u)})
		}
		must.Do(t, w.Orders.Amend(scope.Amendment{Seeds: s.agent.seeds}))
		fates, err := w.Intake.AddSeeds(ctx, list)
		var names []string
		for _, f := range fates {
			names = append(names, []string{"?", "new", "known", "taken", "excluded"}[f])
		}
		return strings.Join(names, " "), err
	case "watch":
		w.View.Watch(3)
		return "", nil
	case "status":
		return s.statusText(w), nil
	}
	t.Fatalf("command %+v", c)
	return "", nil
}

// pasts are what the logs have of a URL, by the name that a story gives it.
var pasts = map[string]crawl.Past{
	"finished": {Finished: "at noon: status 200"},
	"skipped":  {Skipped: &report.Skip{Via: "http://a.example/9", Hops: "LL", Reason: string(scope.OutOfScope)}},
}

// barsOf returns the blocks of hosts, of domains ".a.example" and of ranges of addresses.
func barsOf(names ...string) (list []crawl.Bar) {
	for i, name := range names {
		b := crawl.Bar{Why: fmt.Sprintf("order %d, %s", i+1, name)}
		if domain, ok := strings.CutPrefix(name, "."); ok {
			b.Domain = domain
		} else if p, err := netip.ParsePrefix(name); err == nil {
			b.Prefix = p
		} else {
			b.Host = name
		}
		list = append(list, b)
	}
	return list
}

// statusText returns what a Status says of what is under way and what waits.
func (s *story) statusText(w *world) string {
	st := w.View.Status()
	if st == nil {
		return "none"
	}
	var parts []string
	note := func(format string, a any) {
		if v := fmt.Sprint(a); v != "" && v != "0" && v != "[]" && v != "0s" && v != "false" {
			parts = append(parts, fmt.Sprintf(format, a))
		}
	}
	note("%d pages", st.Pages)
	note("%d queued", st.Queued)
	note("%d to be retried", st.Later)
	note("%d requests open", st.Open)
	note("%d slow", st.Slow)
	note("blocked %v", st.Blocked)
	note("%d hosts blocked", st.Frontier.Blocked)
	note("%d links blocked", st.Frontier.BlockedLinks)
	note("%d links set aside", st.Frontier.Aside)
	note("paused %v", st.Paused)
	note("%s left", st.Live.TimeLeft)
	note("stop %q", string(st.Stop))
	var hosts []string
	for _, h := range st.Live.Hosts {
		hosts = append(hosts, fmt.Sprint(h.Host, ":", h.Links))
	}
	note("hosts %v", hosts)
	note("waits for %s", st.WaitsFor)
	return strings.Join(parts, ", ")
}

func mustURL(t testing.TB, s string) weburl.URL {
	t.Helper()
	u, err := weburl.Parse(s)
	must.Do(t, err)
	return u
}

// blocks replaces the hosts that are blocked; the agent does so when its orders change.
func (w *world) blocks(t testing.TB, hosts ...string) {
	t.Helper()
	must.Do(t, w.Orders.Bar(context.Background(), barsOf(hosts...)))
}

// running runs the crawl in the background; end waits for its end.
func (w *world) running(ctx context.Context) (end func() (crawl.Stop, error)) {
	var stop crawl.Stop
	var err error
	ended := make(chan struct{})
	go func() { defer close(ended); stop, err = w.Run(ctx) }()
	return func() (crawl.Stop, error) {
		<-ended
		return stop, err
	}
}

// background runs the crawl in the background, and sends its end. An error fails the test.
func (w *world) background(ctx context.Context, t *testing.T) <-chan crawl.Stop {
	ended := make(chan crawl.Stop, 1)
	go func() {
		stop, err := w.Run(ctx)
		if err != nil {
			t.Error(err)
		}
		ended <- stop
	}()
	return ended
}

// begin opens a story's crawl and runs it in the background; end waits for its end.
func (s *story) begin(t *testing.T) (w *world, cancel context.CancelFunc, end func() (crawl.Stop, error)) {
	t.Helper()
	s.parse(t)
	return s.start(t)
}
