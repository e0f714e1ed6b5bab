package operate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
)

// In a town, the scope "bad" is wrong, and feeding is as seeding.
func (r resident) CheckApplication(a Application) error {
	if a.Scope == "bad" {
		return errors.New("the scope is bad")
	}
	return nil
}

func (r resident) PlanFeed(urls []string) []SeedPlan { return r.PlanSeeds(urls) }

func (r resident) TakeFeed(ctx context.Context, q *pb.TakeFeed) ([]*pb.Seed, error) {
	var urls []string
	for _, u := range q.Urls {
		urls = append(urls, fmt.Sprintf("%s@%d", u.Url, u.Priority))
	}
	seeds, err := r.TakeSeeds(ctx, append([]string{q.Application + ":"}, urls...))
	if err != nil {
		return nil, err
	}
	return seeds[1:], nil
}

func (r resident) ListPages(ctx context.Context, q *pb.ListPages) (*pb.ListedPages, error) {
	log := "log of " + r.name
	from := q.From
	if q.Log != log {
		from = 0
	}
	for end := time.Now().Add(time.Duration(q.WaitMs) * time.Millisecond); ; {
		r.w.mu.Lock()
		pages := r.w.logs[r.name]
		a := &pb.ListedPages{Log: log}
		for n := max(from, r.w.acked[r.name]); n < int64(len(pages)) && len(a.Pages) < int(q.Limit); n++ {
			a.Pages = append(a.Pages, proto.CloneOf(pages[n]))
			a.Positions = append(a.Positions, n+1)
		}
		r.w.mu.Unlock()
		if len(a.Pages) > 0 || !time.Now().Before(end) {
			return a, nil
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// The body of a record is its offset in bytes; that of the file "lost" cannot be read. An answer has at most a MiB.
func (r resident) ListBodies(_ context.Context, q *pb.ListBodies) (*pb.ListedBodies, error) {
	a := &pb.ListedBodies{}
	room := int64(1 << 20)
	for _, p := range q.Parts {
		if p.File == "lost" {
			a.Parts = append(a.Parts, &pb.BodyData{Error: "the file is lost"})
			continue
		}
		n := min(p.Offset-p.Skip, p.Most, room)
		a.Parts = append(a.Parts, &pb.BodyData{Data: make([]byte, n), More: p.Skip+n < p.Offset})
		if room -= n; room == 0 {
			break
		}
	}
	return a, nil
}

func (r resident) AcknowledgePages(_ context.Context, q *pb.AcknowledgePages) error {
	if q.Log != "log of "+r.name {
		return errors.New("another log")
	}
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	r.w.acked[r.name] = max(r.w.acked[r.name], q.Position)
	return nil
}

func (r resident) ApplicationStates() []*pb.NamedState {
	return []*pb.NamedState{{Application: "app", State: &pb.ApplicationState{Queued: 1, Fetched: 2, Shared: 1,
		Unacknowledged: 3, Held: r.name == "a2"}}}
}

// finish adds pages of an agent to its log. The text of each is URL@second or URL@second=bytes.
func (w *town) finish(agent string, pages ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, text := range pages {
		text, size, hasBody := strings.Cut(text, "=")
		url, second, _ := strings.Cut(text, "@")
		var at, n int64
		fmt.Sscan(second, &at)
		fmt.Sscan(size, &n)
		p := &pb.FetchedPage{Url: url, Time: timestamppb.New(time.Unix(at, 0)), Status: 200, Size: n, Offset: n}
		if hasBody {
			if p.File = "x.warc.gz"; size == "lost" {
				p.File = "lost"
			}
		}
		w.logs[agent] = append(w.logs[agent], p)
	}
}

// urlsOf returns the URLs of pages, with the agents that do not answer behind them.
func urlsOf(r *pb.PagesResponse) string {
	var all []string
	for _, p := range r.GetPages() {
		all = append(all, p.Url)
	}
	for _, a := range r.GetSilent() {
		all = append(all, "!"+a.Agent)
	}
	return strings.Join(all, " ")
}

// define defines the application "app", which collects pages.
func (w *town) define(t *testing.T, agent string) {
	t.Helper()
	if _, err := w.members[agent].SetApplication(t.Context(), &pb.SetApplicationRequest{Name: "app",
		Pages: proto.Bool(true)}); err != nil {
		t.Fatal(err)
	}
}

// An application keeps what a request does not change.
func TestSetApplication(t *testing.T) {
	w := newTown("a1", "a2", "a3")
	ctx := t.Context()
	r, err := w.members["a1"].SetApplication(ctx, &pb.SetApplicationRequest{Name: "app", Share: proto.Float64(2.5),
		Include: &pb.Patterns{Patterns: []string{"/a b/", "/c/"}}, Why: " why "})
	if err != nil {
		t.Fatal(err)
	}
	a := r.Application
	if len(r.Told) != 3 || a.Share != 2.5 || a.Scope != "host" || a.Depth != -1 || a.Strategy != "follow" ||
		a.Pages || a.Why != "why" {
		t.Errorf("%v", r)
	}
	made := Applications(w.set.Standing())[0].Made
	_, err = w.members["a2"].SetApplication(ctx, &pb.SetApplicationRequest{Name: "app", Depth: proto.Int32(3),
		Exclude: &pb.Patterns{Patterns: []string{"x"}}, Include: &pb.Patterns{Patterns: []string{"/a b/"}}})
	apps := Applications(w.set.Standing())
	want := "{app 2.5 host 3 follow false " + made + " [/a b/] [x]"
	if got := fmt.Sprint(apps); err != nil || len(apps) != 1 || !strings.HasPrefix(got, "["+want) {
		t.Errorf("%v, the application is %v, want %s", err, got, want)
	}
	n := len(w.set.Past())
	if r, err = w.members["a2"].SetApplication(ctx, &pb.SetApplicationRequest{Name: "app"}); err != nil ||
		len(w.set.Past()) != n || r.Application.Order != apps[0].Order.ID() {
		t.Errorf("a request that changes nothing: %v, %v, %d orders", r, err, len(w.set.Past())-n)
	}
	list, err := w.members["a3"].Applications(ctx, &pb.ApplicationsRequest{})
	if err != nil || len(list.Applications) != 1 || len(list.Applications[0].Agents) != 3 ||
		list.Applications[0].State.Unacknowledged != 9 || !list.Applications[0].State.Held {
		t.Errorf("%v, %v", list, err)
	}
	if _, err := w.members["a3"].RemoveApplication(ctx, &pb.RemoveApplicationRequest{Name: "app"}); err != nil ||
		len(w.set.Standing()) != 0 {
		t.Errorf("%v: after the removal stand %v", err, w.set.Standing())
	}
	if _, err := w.members["a3"].RemoveApplication(ctx, &pb.RemoveApplicationRequest{Name: "app"}); connect.CodeOf(
		err) != connect.CodeNotFound {
		t.Errorf("removed twice: %v", err)
	}
}

// TestTakeBackApplication: to take back the order that defines an application removes it with its patterns.
func TestTakeBackApplication(t *testing.T) {
	w := newTown("a1", "a2")
	ctx := t.Context()
	var order string
	for _, name := range []string{"app", "app-2"} {
		r, err := w.members["a1"].SetApplication(ctx, &pb.SetApplicationRequest{Name: name,
			Include: &pb.Patterns{Patterns: []string{"/a b/"}}, Exclude: &pb.Patterns{Patterns: []string{"x"}}})
		if err != nil {
			t.Fatal(err)
		}
		if name == "app" {
			order = r.Application.Order
		}
	}
	r, err := w.members["a2"].TakeBack(ctx, &pb.TakeBackRequest{Id: order, Why: "over"})
	if err != nil || r.Order.Verb != "app" || r.Order.About != "app" || !r.Order.Off || len(r.Answers) != 2 {
		t.Errorf("%v, %v", r, err)
	}
	for _, o := range w.set.Standing() {
		if name, _, _ := strings.Cut(o.About, " "); name != "app-2" {
			t.Errorf("%s %s still stands", o.Verb, o.About)
		}
	}
	if n := len(w.set.Standing()); n != 3 {
		t.Errorf("%d orders stand, want those of app-2", n)
	}
}

// A wrong definition gives no order.
func TestSetApplicationRefuses(t *testing.T) {
	w := newTown("a1", "a2")
	long := strings.Repeat("a", 33)
	for _, q := range []*pb.SetApplicationRequest{
		{}, {Name: "A"}, {Name: "-a"}, {Name: "a b"}, {Name: long}, {Name: "a", Share: proto.Float64(0)},
		{Name: "a", Share: proto.Float64(1.0 / 1024)},
		{Name: "a", Share: proto.Float64(1001)}, {Name: "a", Depth: proto.Int32(-2)},
		{Name: "a", Strategy: proto.String("x")}, {Name: "a", Scope: proto.String("bad")},
		{Name: "a", Exclude: &pb.Patterns{Patterns: make([]string, 101)}},
		{Name: "a", Strategy: proto.String("list"), Include: &pb.Patterns{Patterns: []string{"x"}}},
	} {
		_, err := w.members["a1"].SetApplication(t.Context(), q)
		if connect.CodeOf(err) != connect.CodeInvalidArgument || len(w.set.Past()) > 0 {
			t.Errorf("%v: %v, %d orders", q, err, len(w.set.Past()))
		}
	}
	for i := range MaxApplications {
		if _, err := w.members["a1"].SetApplication(t.Context(), &pb.SetApplicationRequest{Name: fmt.Sprintf("a%d",
			i)}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.members["a2"].SetApplication(t.Context(), &pb.SetApplicationRequest{Name: "more"}); connect.CodeOf(
		err) != connect.CodeFailedPrecondition {
		t.Errorf("one more than possible: %v", err)
	}
	if _, err := w.members["a2"].SetApplication(t.Context(), &pb.SetApplicationRequest{Name: "a3",
		Share: proto.Float64(3)}); err != nil {
		t.Errorf("a change: %v", err)
	}
	w.old["a2"] = true
	_, err := w.members["a1"].SetApplication(t.Context(), &pb.SetApplicationRequest{Name: "a3"})
	if connect.CodeOf(err) != connect.CodeFailedPrecondition || !strings.Contains(err.Error(), "applications: a2.") {
		t.Errorf("with an agent of an earlier version: %v", err)
	}
}

// Each URL goes to the agent of its host, with its priority. If that does not answer, the agent that was asked keeps
// the URL.
func TestFeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown("a1", "a2", "a3")
		w.define(t, "a1")
		feed := func(agent string, urls ...string) (string, error) {
			q := &pb.FeedRequest{Application: "app"}
			for i, u := range urls {
				q.Urls = append(q.Urls, &pb.FeedURL{Url: u, Priority: int32(i)})
			}
			r, err := w.members[agent].Feed(t.Context(), q)
			return seeded(&pb.AddSeedsResponse{Seeds: r.GetUrls()}), err
		}
		got, err := feed("a1", "a2.x", "bad", "a1.known", "a3.x", "a2.y")
		if want := "a2.x:new:a2; bad:refused: it is bad; a1.known:known:a1; a3.x:new:a3; a2.y:new:a2"; err != nil ||
			got != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
		if got := strings.Join(w.does, "; "); !strings.Contains(got, "a2 takes app: a2.x@0 a2.y@4") ||
			!strings.Contains(got, "a1 takes app: a1.known@2") {
			t.Errorf("the agents did: %s", got)
		}
		w.silent["a2"] = true
		got, err = feed("a3", "a2.x", "a1.x")
		if want := "a2.x:new:a3 a2 owns the host, and gets the URL when it answers: agent a2 does not answer: " +
			"context deadline exceeded; a1.x:new:a1"; err != nil || got != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
		if _, err := feed("a3", "a3.broken"); connect.CodeOf(err) != connect.CodeUnavailable {
			t.Errorf("the disk is broken: %v", err)
		}
		for _, q := range []*pb.FeedRequest{{Application: "app"}, {Application: "app", Urls: make([]*pb.FeedURL, 1001)},
			{Application: "app", Urls: []*pb.FeedURL{{Url: "a3.x", Priority: 16}}}} {
			if _, err := w.members["a1"].Feed(t.Context(), q); connect.CodeOf(err) != connect.CodeInvalidArgument {
				t.Errorf("%d URLs: %v", len(q.Urls), err)
			}
		}
		_, err = w.members["a1"].Feed(t.Context(), &pb.FeedRequest{Application: "none"})
		if connect.CodeOf(err) != connect.CodeNotFound {
			t.Errorf("no application: %v", err)
		}
	})
}

// Pages of all agents come by time, and the same ones come until they are acknowledged. A consumer may go on before
// that, with the token of the pages before.
func TestPages(t *testing.T) {
	w := newTown("a1", "a2", "a3")
	w.define(t, "a1")
	w.finish("a1", "one@1", "four@4", "early@3")
	w.finish("a2", "two@2", "five@5")
	ask := func(agent string, limit int32, after string) *pb.PagesResponse {
		t.Helper()
		r, err := w.members[agent].Pages(t.Context(), &pb.PagesRequest{Application: "app", Limit: limit, After: after})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	first := ask("a1", 3, "")
	if got, want := urlsOf(first), "one two four"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := urlsOf(ask("a3", 3, "")); got != urlsOf(first) {
		t.Errorf("not acknowledged, then came %q", got)
	}
	second := ask("a2", 0, first.Token)
	if got, want := urlsOf(second), "early five"; got != want {
		t.Errorf("after the first ones came %q, want %q", got, want)
	}
	if r := ask("a2", 0, second.Token); len(r.Pages) != 0 || r.Token != second.Token {
		t.Errorf("after the last one came %v", r)
	}
	ack := func(token string) error {
		_, err := w.members["a3"].Acknowledge(t.Context(), &pb.AcknowledgeRequest{Application: "app", Token: token})
		return err
	}
	if err := ack(first.Token); err != nil {
		t.Fatal(err)
	}
	if got, want := urlsOf(ask("a3", 0, "")), "early five"; got != want {
		t.Errorf("after the acknowledgement came %q, want %q", got, want)
	}
	if err := errors.Join(ack(second.Token), ack(first.Token)); err != nil {
		t.Fatal(err)
	}
	if r := ask("a3", 0, ""); len(r.Pages) != 0 || r.Token != "" {
		t.Errorf("after all acknowledgements came %v", r)
	}
	for _, token := range []string{"", "?", "AAAA", first.Token[:8]} {
		if err := ack(token); connect.CodeOf(err) != connect.CodeInvalidArgument {
			t.Errorf("token %q: %v", token, err)
		}
	}
	if _, err := w.members["a1"].RemoveApplication(t.Context(), &pb.RemoveApplicationRequest{
		Name: "app"}); err != nil {
		t.Fatal(err)
	}
	w.define(t, "a2")
	if err := ack(first.Token); connect.CodeOf(err) != connect.CodeInvalidArgument ||
		!strings.Contains(err.Error(), "earlier application") {
		t.Errorf("a token of a removed application: %v", err)
	}
	for _, q := range []*pb.PagesRequest{{Application: "app", Limit: 1001}, {Application: "app", Limit: -1},
		{Application: "app", Wait: 61}, {Application: "app", MaxBodyBytes: 8<<20 + 1}} {
		if _, err := w.members["a1"].Pages(t.Context(), q); connect.CodeOf(err) != connect.CodeInvalidArgument {
			t.Errorf("%v: %v", q, err)
		}
	}
}

// A call waits for the first page. Agents that do not answer are named, and keep the others' pages waiting for a
// second at most.
func TestPagesWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown("a1", "a2", "a3")
		w.define(t, "a1")
		ask := func(wait int32) (string, time.Duration) {
			t.Helper()
			began := time.Now()
			r, err := w.members["a1"].Pages(t.Context(), &pb.PagesRequest{Application: "app", Wait: wait})
			if err != nil {
				t.Fatal(err)
			}
			return urlsOf(r), time.Since(began)
		}
		if got, took := ask(30); got != "" || took < 30*time.Second || took > 31*time.Second {
			t.Errorf("got %q in %s, want nothing in 30 s", got, took)
		}
		go func() {
			time.Sleep(17 * time.Second)
			w.finish("a2", "one@1")
		}()
		if got, took := ask(60); got != "one" || took < 17*time.Second || took > 18*time.Second {
			t.Errorf("got %q in %s, want one in 17 s", got, took)
		}
		w.silent["a3"] = true
		if got, took := ask(0); got != "one !a3" || took > time.Second {
			t.Errorf("got %q in %s, want one and the silent a3 in 1 s", got, took)
		}
		r, err := w.members["a1"].Pages(t.Context(), &pb.PagesRequest{Application: "app"})
		if err != nil {
			t.Fatal(err)
		}
		w.silent["a2"] = true
		if _, err := w.members["a1"].Acknowledge(t.Context(), &pb.AcknowledgeRequest{Application: "app",
			Token: r.Token}); connect.CodeOf(err) != connect.CodeUnavailable {
			t.Errorf("acknowledged at a silent agent: %v", err)
		}
	})
}

// Bodies are bounded: each by the request, and all of a response by 16 MiB.
func TestPagesBodies(t *testing.T) {
	w := newTown("a1", "a2")
	w.define(t, "a1")
	const mib = 1 << 20
	w.finish("a1", "small@1=10", "none@2", "unkept@2", "big@3="+fmt.Sprint(3*mib), "lost@4=lost")
	w.logs["a1"][2].Note = "category:x,not-kept"
	w.finish("a2", "empty@5=0", "exact@6="+fmt.Sprint(2*mib))
	bodies := func(q *pb.PagesRequest) (got []string, token string) {
		t.Helper()
		q.Application, q.Body = "app", true
		r, err := w.members["a1"].Pages(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		sum := 0
		defer func() {
			if sum > 16*mib {
				t.Errorf("a response has %d bytes", sum)
			}
		}()
		for _, p := range r.Pages {
			sum += len(p.Body)
			text := fmt.Sprintf("%s:%d", p.Url, len(p.Body))
			if p.Truncated {
				text += "+"
			}
			got = append(got, strings.TrimSpace(text+" "+p.BodyError))
		}
		return got, r.Token
	}
	got, _ := bodies(&pb.PagesRequest{MaxBodyBytes: 2 * mib})
	if got, want := strings.Join(got, ", "), fmt.Sprintf("small:10, none:0 the archive does not have the response, "+
		"unkept:0 --keep leaves the response out of the archive, big:%d+, lost:0 the file is lost, "+
		"empty:0, exact:%[1]d", 2*mib); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for range 9 {
		w.finish("a2", "more@7="+fmt.Sprint(4*mib))
	}
	all := 0
	token := ""
	for range 4 {
		var got []string
		if got, token = bodies(&pb.PagesRequest{MaxBodyBytes: 8 * mib, After: token}); len(got) == 0 {
			break
		}
		all += len(got)
	}
	if all != 16 {
		t.Errorf("%d pages, want 16", all)
	}
}
