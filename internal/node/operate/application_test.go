package operate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/orbweaver/orbweaver/internal/crawl/applications"
	"github.com/orbweaver/orbweaver/internal/inbound"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/node/verbs"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// In a town, the scope "bad" is wrong, and feeding is as seeding.
func (r resident) CheckApplication(a verbs.Application) error {
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

// define defines the application "app", which collects pages.
func (w *town) define(t *testing.T, agent string) {
	t.Helper()
	w.run(t, `%s SetApplication name:"app" pages:true`, agent)
}

// An application keeps what a request does not change.
func TestSetApplication(t *testing.T) {
	w := newTown("a1", "a2", "a3")
	w.run(t, `
		a1 SetApplication name:"app" share:2.5 include:{patterns:"/a b/" patterns:"/c/"} why:" why "
		-> application:{name:"app" share:2.5 scope:"host" include:"/a b/" include:"/c/" depth:-1 strategy:"follow" order:"
		-> why:"why"} told:{agent:"a1"} told:{agent:"a2"} told:{agent:"a3"}`)
	made := verbs.ApplicationOrders(w.set.Standing())[0].Made
	w.run(t, `a2 SetApplication name:"app" depth:3 exclude:{patterns:"x"} include:{patterns:"/a b/"}`)
	apps, n := verbs.ApplicationOrders(w.set.Standing()), len(w.set.Past())
	if got := fmt.Sprint(apps); len(apps) != 1 ||
		!strings.HasPrefix(got, "[{app 2.5 host 3 follow false "+made+" [/a b/] [x]") {
		t.Errorf("the application is %v", got)
	}
	w.run(t, `a2 SetApplication name:"app" -> order:"%s"`, apps[0].Order.ID()) // nothing changes
	if more := len(w.set.Past()) - n; more != 0 {
		t.Errorf("a request that changes nothing makes %d orders", more)
	}
	w.run(t, `
		a3 Applications -> state:{queued:3 fetched:6 shared:3 unacknowledged:9 held:true}
		-> agents:{agent:"a1"
		-> agents:{agent:"a2"
		-> agents:{agent:"a3"
		a3 Give verb:"app" about:"app" off:true
		a3 Orders -> =
		a3 Give verb:"app" about:"app" off:true -> ! failed_precondition is not an application`)
}

// TestTakeBackApplication: to take back the order that defines an application removes it with its patterns.
func TestTakeBackApplication(t *testing.T) {
	w := newTown("a1", "a2")
	w.run(t, `
		a1 SetApplication name:"app" include:{patterns:"/a b/"} exclude:{patterns:"x"}
		a1 SetApplication name:"app-2" include:{patterns:"/a b/"} exclude:{patterns:"x"}`)
	var order string
	for _, a := range verbs.ApplicationOrders(w.set.Standing()) {
		if a.Name == "app" {
			order = a.Order.ID()
		}
	}
	w.run(t, `
		a2 TakeBack id:"%s" why:"over" -> verb:"app" about:"app" off:true
		-> answers:{agent:"a1"
		-> answers:{agent:"a2"`, order)
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
	for _, q := range []string{``, `name:"A"`, `name:"-a"`, `name:"a b"`, `name:"` + strings.Repeat("a", 33) + `"`,
		`name:"a" share:0`, `name:"a" share:0.0009765625`, `name:"a" share:1001`, `name:"a" depth:-2`,
		`name:"a" strategy:"x"`, `name:"a" scope:"bad"`,
		`name:"a" exclude:{` + strings.Repeat(`patterns:"" `, 101) + `}`,
		`name:"a" strategy:"list" include:{patterns:"x"}`} {
		w.run(t, `a1 SetApplication %s -> ! invalid_argument`, q)
	}
	if n := len(w.set.Past()); n > 0 {
		t.Errorf("%d orders", n)
	}
	for i := range applications.Max {
		w.run(t, `a1 SetApplication name:"a%d"`, i)
	}
	w.run(t, `
		a2 SetApplication name:"more" -> ! failed_precondition
		a2 SetApplication name:"a3" share:3`)
}

// Each URL goes to the agent of its host, with its priority. If that does not answer, the agent that was asked keeps
// the URL.
func TestFeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown("a1", "a2", "a3")
		w.define(t, "a1")
		w.run(t, `
			a1 Feed application:"app" urls:{url:"a2.x"} urls:{url:"bad" priority:1} urls:{url:"a1.known" priority:2} urls:{url:"a3.x" priority:3} urls:{url:"a2.y" priority:4}
			-> = urls:{url:"a2.x" result:"new" agent:"a2"} urls:{url:"bad" result:"refused" text:"it is bad"} urls:{url:"a1.known" result:"known" agent:"a1"} urls:{url:"a3.x" result:"new" agent:"a3"} urls:{url:"a2.y" result:"new" agent:"a2"}`)
		if did := w.did(); !strings.Contains(did, "a2 takes app: a2.x@0 a2.y@4") ||
			!strings.Contains(did, "a1 takes app: a1.known@2") {
			t.Errorf("the agents did: %s", did)
		}
		w.silent["a2"] = true
		w.run(t, `
			a3 Feed application:"app" urls:{url:"a2.x"} urls:{url:"a1.x"}
			-> = urls:{url:"a2.x" result:"new" agent:"a3" text:"a2 owns the host, and gets the URL when it answers: agent a2 does not answer: context deadline exceeded"} urls:{url:"a1.x" result:"new" agent:"a1"}
			a3 Feed application:"app" urls:{url:"a3.broken"} -> ! unavailable
			a1 Feed application:"app" -> ! invalid_argument
			a1 Feed application:"app" %s -> ! invalid_argument
			a1 Feed application:"app" urls:{url:"a3.x" priority:16} -> ! invalid_argument
			a1 Feed application:"none" -> ! not_found`, strings.Repeat("urls:{} ", 1001))
	})
}

// pages asks for pages. It returns their URLs, with the agents that do not answer behind them, and the token.
func (w *town) pages(t *testing.T, agent string, q *pb.PagesRequest) (urls, token string) {
	t.Helper()
	q.Application = "app"
	r := must.Get(w.members[agent].Pages(t.Context(), q))(t)
	var all []string
	for _, p := range r.Pages {
		all = append(all, p.Url)
	}
	for _, a := range r.Silent {
		all = append(all, "!"+a.Agent)
	}
	return strings.Join(all, " "), r.Token
}

// Pages of all agents come by time, and the same ones come until they are acknowledged. A consumer may go on before
// that, with the token of the pages before.
func TestPages(t *testing.T) {
	w := newTown("a1", "a2", "a3")
	w.define(t, "a1")
	w.finish("a1", "one@1", "four@4", "early@3")
	w.finish("a2", "two@2", "five@5")
	ask := func(agent string, limit int32, after, want string) (token string) {
		t.Helper()
		got, token := w.pages(t, agent, &pb.PagesRequest{Limit: limit, After: after})
		equal(t, "pages", got, want)
		return token
	}
	first := ask("a1", 3, "", "one two four")
	ask("a3", 3, "", "one two four") // they are not acknowledged
	second := ask("a2", 0, first, "early five")
	equal(t, "the token after the last page", ask("a2", 0, second, ""), second)
	w.run(t, `a3 Acknowledge application:"app" token:"%s"`, first)
	ask("a3", 0, "", "early five")
	w.run(t, `
		a3 Acknowledge application:"app" token:"%s"
		a3 Acknowledge application:"app" token:"%s"
		a3 Pages application:"app" -> =
		a3 Acknowledge application:"app" -> ! invalid_argument
		a3 Acknowledge application:"app" token:"?" -> ! invalid_argument
		a3 Acknowledge application:"app" token:"AAAA" -> ! invalid_argument
		a3 Acknowledge application:"app" token:"%s" -> ! invalid_argument
		a1 Pages application:"app" limit:1001 -> ! invalid_argument
		a1 Pages application:"app" limit:-1 -> ! invalid_argument
		a1 Pages application:"app" wait:61 -> ! invalid_argument
		a1 Pages application:"app" max_body_bytes:8388609 -> ! invalid_argument
		a1 Give verb:"app" about:"app" off:true
		a2 SetApplication name:"app" pages:true
		a3 Acknowledge application:"app" token:"%[2]s" -> ! invalid_argument earlier application`, second, first, first[:8])
}

// A call waits for the first page. Agents that do not answer are named, and keep the others' pages waiting for a
// second at most.
func TestPagesWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown("a1", "a2", "a3")
		w.define(t, "a1")
		ask := func(wait int32, want string, least, most time.Duration) (token string) {
			t.Helper()
			began := time.Now()
			got, token := w.pages(t, "a1", &pb.PagesRequest{Wait: wait})
			if took := time.Since(began); got != want || took < least || took > most {
				t.Errorf("got %q in %s, want %q in %s to %s", got, took, want, least, most)
			}
			return token
		}
		ask(30, "", 30*time.Second, 31*time.Second)
		go func() {
			time.Sleep(17 * time.Second)
			w.finish("a2", "one@1")
		}()
		ask(60, "one", 17*time.Second, 18*time.Second)
		w.silent["a3"] = true
		token := ask(0, "one !a3", 0, time.Second)
		w.silent["a2"] = true
		w.run(t, `a1 Acknowledge application:"app" token:"%s" -> ! unavailable`, token)
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
		r := must.Get(w.members["a1"].Pages(t.Context(), q))(t)
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
		"unkept:0 the setting keep leaves the response out of the archive, big:%d+, lost:0 the file is lost, "+
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

// Bodies have the room of their call, also if they are longer than the agents say. Each response has a page.
func TestPagesBodiesHaveRoom(t *testing.T) {
	const mib = 1 << 20
	w := newTown("a1", "a2")
	w.define(t, "a1")
	for i := range 4 {
		w.finish("a1", fmt.Sprintf("a@%d=%d", 2*i, 3*mib))
		w.finish("a2", fmt.Sprintf("b@%d=%d", 2*i+1, 3*mib), fmt.Sprintf("c@%d=10", 2*i+1))
	}
	for _, pages := range w.logs {
		for _, p := range pages {
			p.Size, p.Body = 1, make([]byte, 9*mib) // an agent has no body here
		}
	}
	room := inbound.NewRoom(5 * bodyCost * mib / 2)
	var got []string
	for token := ""; len(got) < 12; {
		ctx, leave := room.With(t.Context())
		r, err := w.members["a1"].Pages(ctx, &pb.PagesRequest{Application: "app", Body: true, After: token,
			MaxBodyBytes: 2 * mib})
		if _, free := room.TryEnter(1); free {
			t.Error("the call has taken no room")
		}
		leave()
		if err != nil || len(r.Pages) == 0 {
			t.Fatalf("%v, %v", r, err)
		}
		sum := 0
		for _, p := range r.Pages {
			sum += len(p.Body)
			got = append(got, p.Url)
		}
		if sum > 5*mib/2 {
			t.Errorf("a response has %d bytes", sum)
		}
		token = r.Token
	}
	if got := strings.Join(got, ""); got != "abcabcabcabc" {
		t.Errorf("the pages are %s", got)
	}
}
