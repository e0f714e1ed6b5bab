package robots

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	_ "github.com/orbweaver/orbweaver/internal/testkit/testseed" // sets rapid's seed
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

var start = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

func mustParse(t testing.TB, s string) weburl.URL {
	t.Helper()
	u := must.Get(weburl.Parse(s))(t)
	return u
}

// brief formats an Answer as one line.
func brief(a Answer, now time.Time) string {
	s := a.Verdict.String()
	if a.Rule != "" {
		s += fmt.Sprintf(" by %q:%d", a.Rule, a.Line)
	}
	if a.Delay != 0 {
		s += " delay " + a.Delay.String()
	}
	if !a.Fetch.IsZero() {
		s += " " + a.Fetch.String()
	}
	if !a.Until.IsZero() {
		s += " " + a.Until.Sub(now).String()
	}
	return s
}

// The Cache's answers as replies arrive and time passes.
func TestCache(t *testing.T) {
	const page = "https://a.example/p"
	const fetch = "fetch https://a.example/robots.txt"
	ok := func(body string) Reply { return Reply{Status: 200, Body: []byte(body)} }
	status := func(n int) Reply { return Reply{Status: n, Body: []byte("User-agent: *\nDisallow: /\n")} }
	to := func(n int, location string) Reply { return Reply{Status: n, Location: location} }
	const no = "User-agent: *\nCrawl-delay: 7\nDisallow: /p\n"
	const denied = `denied by "Disallow: /p":3 delay 7s`

	// A step waits and gives the cache a reply, if the step has one, for the URL that the cache
	// last asked for. It then asks about page, or about ask if that is set.
	type step struct {
		wait  time.Duration
		reply *Reply
		ask   string
		want  string
	}
	learn := func(r Reply, want string) step { return step{reply: &r, want: want} }
	later := func(d time.Duration, want string) step { return step{wait: d, want: want} }
	about := func(u, want string) step { return step{ask: u, want: want} }

	for _, tc := range []struct {
		name  string
		cfg   Config
		steps []step
	}{
		{"rules", Config{}, []step{
			later(0, fetch), later(time.Hour, fetch),
			learn(ok(no), denied),
			about("https://a.example/q?p", "allowed delay 7s"),
			about("https://a.example/robots.txt", "allowed delay 7s"),
			about("http://a.example/q", "fetch http://a.example/robots.txt"),
			about("https://a.example:8443/q", "fetch https://a.example:8443/robots.txt"),
			later(24*time.Hour-1, denied), later(1, fetch),
			learn(ok(""), "allowed"),
		}},
		{"robots.txt needs none", Config{}, []step{about("https://a.example/robots.txt", "allowed")}},
		{"escapes", Config{}, []step{
			later(0, fetch), learn(ok("User-agent: *\nDisallow: /%7Ex"), "allowed"),
			about("https://a.example/~x", `denied by "Disallow: /%7Ex":2`),
			about("https://a.example/%7ex", `denied by "Disallow: /%7Ex":2`),
		}},
		{"long delay", Config{}, []step{
			later(0, fetch), learn(ok("User-agent: *\nCrawl-delay: 86400"), "allowed delay 5m0s"),
		}},
		{"long delay, own bound", Config{MaxCrawlDelay: time.Minute}, []step{
			later(0, fetch), learn(ok("User-agent: *\nCrawl-delay: 86400"), "allowed delay 1m0s"),
		}},
		{"none", Config{}, []step{
			later(0, fetch), learn(status(404), "allowed"), later(24*time.Hour-1, "allowed"), later(1, fetch),
		}},
		{"forbidden means allowed", Config{}, []step{later(0, fetch), learn(status(403), "allowed")}},
		{"no content", Config{}, []step{later(0, fetch), learn(Reply{Status: 204}, "allowed")}},
		{"not modified, nothing known", Config{}, []step{later(0, fetch), learn(status(304), "allowed")}},
		{"not modified", Config{}, []step{
			later(0, fetch), learn(ok(no), denied), later(24*time.Hour, fetch), learn(status(304), denied),
			later(24*time.Hour-1, denied),
		}},
		{"short max-age", Config{}, []step{
			later(0, fetch), learn(Reply{Status: 200, Body: []byte(no), MaxAge: time.Second}, denied),
			later(5*time.Minute-1, denied), later(1, fetch),
		}},
		{"max-age", Config{}, []step{
			later(0, fetch), learn(Reply{Status: 200, Body: []byte(no), MaxAge: time.Hour}, denied),
			later(time.Hour-1, denied), later(1, fetch),
		}},
		{"long max-age", Config{TTL: 1000 * time.Hour}, []step{
			later(0, fetch), learn(Reply{Status: 200, Body: []byte(no), MaxAge: 1000 * time.Hour}, denied),
			later(24*time.Hour-1, denied), later(1, fetch),
		}},
		{"clock set back", Config{}, []step{
			later(0, fetch), learn(ok(no), denied), later(-time.Minute, denied), later(-365*24*time.Hour, fetch),
			learn(Reply{Failed: true}, `denied by "Disallow: /p":3 delay 7s`), later(-365*24*time.Hour, fetch),
		}},
		{"unreachable, clock set back", Config{}, []step{
			later(0, fetch), learn(Reply{Failed: true}, "unreachable 1m0s"), later(-365*24*time.Hour, fetch),
			learn(Reply{Failed: true}, "unreachable 2m0s"), later(-time.Second, "unreachable 2m1s"),
			later(-time.Hour, fetch),
			learn(status(503), "unreachable 4m0s"), later(4*time.Minute, fetch), learn(status(503), "unreachable 8m0s"),
		}},
		{"own TTL", Config{TTL: time.Minute}, []step{
			later(0, fetch), learn(Reply{Status: 200, Body: []byte(no), MaxAge: time.Hour}, denied),
			later(time.Minute, fetch),
		}},
		{"unreachable, waits double", Config{}, []step{
			later(0, fetch), learn(status(503), "unreachable 1m0s"),
			later(time.Minute-1, "unreachable 1ns"), later(1, fetch),
			learn(Reply{Failed: true}, "unreachable 2m0s"), later(2*time.Minute, fetch),
			learn(status(429), "unreachable 4m0s"), later(4*time.Minute, fetch),
			learn(status(500), "unreachable 8m0s"), later(8*time.Minute, fetch),
			learn(Reply{Status: 0}, "unreachable 16m0s"), later(16*time.Minute, fetch),
			learn(status(599), "unreachable 32m0s"), later(32*time.Minute, fetch),
			learn(status(999), "unreachable 1h0m0s"), later(time.Hour, fetch),
			learn(Reply{Failed: true, Status: 200}, "unreachable 1h0m0s"), later(time.Hour, fetch),
			learn(ok(no), denied), later(24*time.Hour, fetch),
			learn(status(404), "allowed"), later(24*time.Hour, fetch),
			learn(status(503), "unreachable 1m0s"),
		}},
		{"unreachable, slow to fail", Config{RetryWait: time.Second}, []step{
			later(36*time.Second, fetch), learn(Reply{Failed: true}, "unreachable 1s"), later(time.Second, fetch),
			later(36*time.Second, fetch), learn(Reply{Failed: true}, "unreachable 2s"), later(2*time.Second, fetch),
			later(36*time.Second, fetch), learn(Reply{Failed: true}, "unreachable 4s"), later(4*time.Second, fetch),
			later(36*time.Second, fetch), learn(Reply{Failed: true}, "unreachable 8s"),
		}},
		{"unreachable, long not asked", Config{}, []step{
			later(0, fetch), learn(status(503), "unreachable 1m0s"),
			later(5*24*time.Hour, fetch), learn(status(503), "unreachable 2m0s"),
			later(5*24*time.Hour, fetch), learn(status(503), "unreachable 4m0s"),
		}},
		{"unreachable for a month", Config{}, []step{
			later(0, fetch), learn(status(503), "unreachable 1m0s"),
			later(30*24*time.Hour-time.Second, fetch), learn(status(503), "unreachable 2m0s"),
			later(time.Minute, "allowed"), later(time.Hour, fetch), learn(status(503), "allowed"),
		}},
		{"unreachable, never given up", Config{GiveUp: -1}, []step{
			later(0, fetch), learn(status(503), "unreachable 1m0s"),
			later(365*24*time.Hour, fetch), learn(status(503), "unreachable 2m0s"),
		}},
		{"an earlier copy holds", Config{}, []step{
			later(0, fetch), learn(ok(no), denied), later(25*time.Hour, fetch),
			learn(status(503), denied), later(time.Minute, fetch),
			learn(Reply{Failed: true}, denied), later(100*24*time.Hour, fetch),
			learn(status(503), denied), later(4*time.Minute-1, denied), later(1, fetch),
			learn(ok(""), "allowed"),
		}},
		{"redirects", Config{}, []step{
			later(0, fetch),
			learn(to(301, "/r/robots.txt"), "fetch https://a.example/r/robots.txt"),
			later(time.Minute, "fetch https://a.example/r/robots.txt"),
			learn(to(302, "//www.a.example/robots.txt"), "fetch https://www.a.example/robots.txt"),
			learn(to(303, "http://b.example/x"), "fetch http://b.example/x"),
			learn(to(307, "?4"), "fetch http://b.example/x?4"),
			learn(to(308, "?5"), "fetch http://b.example/x?5"),
			learn(ok(no), denied),
			about("https://www.a.example/p", denied), // its robots.txt was on the way
			about("http://b.example/p", "fetch http://b.example/robots.txt"),
		}},
		{"a redirect to the robots.txt of another origin", Config{}, []step{
			later(0, fetch), learn(to(301, "http://a.example/robots.txt"), "fetch http://a.example/robots.txt"),
			learn(ok(no), denied), about("http://a.example/p", denied),
			later(24*time.Hour, fetch), about("http://a.example/p", "fetch http://a.example/robots.txt"),
		}},
		{"a redirect to a missing robots.txt", Config{}, []step{
			later(0, fetch), learn(to(301, "http://a.example/robots.txt"), "fetch http://a.example/robots.txt"),
			learn(status(404), "allowed"), about("http://a.example/p", "allowed"),
		}},
		{"a redirect to a robots.txt that fails", Config{}, []step{
			later(0, fetch), learn(to(301, "http://a.example/robots.txt"), "fetch http://a.example/robots.txt"),
			learn(status(503), "unreachable 1m0s"), about("http://a.example/p", "unreachable 1m0s"),
			later(time.Minute, fetch), learn(ok(no), denied),
			about("http://a.example/p", "fetch http://a.example/robots.txt"),
		}},
		{"more redirects for one origin than for the other", Config{}, []step{
			later(0, fetch), learn(to(301, "?1"), fetch+"?1"), learn(to(301, "?2"), fetch+"?2"),
			learn(to(301, "?3"), fetch+"?3"), learn(to(301, "?4"), fetch+"?4"),
			learn(to(301, "http://a.example/robots.txt"), "fetch http://a.example/robots.txt"),
			learn(to(301, "/x"), "allowed"), about("http://a.example/p", "fetch http://a.example/robots.txt"),
		}},
		{"a sixth redirect", Config{}, []step{
			later(0, fetch), learn(to(301, "?1"), fetch+"?1"), learn(to(301, "?2"), fetch+"?2"),
			learn(to(301, "?3"), fetch+"?3"),
			learn(to(301, "?4"), fetch+"?4"), learn(to(301, "?5"), fetch+"?5"), learn(to(301, "?6"), "allowed"),
		}},
		{"redirect loop", Config{}, []step{
			later(0, fetch), learn(to(301, ""), "allowed"), later(24*time.Hour, fetch),
			learn(to(301, "/robots.txt"), fetch), learn(to(301, "/robots.txt"), fetch),
			learn(to(301, "/robots.txt"), fetch),
			learn(to(301, "/robots.txt"), fetch), learn(to(301, "/robots.txt"), fetch),
			learn(to(301, "/robots.txt"), "allowed"),
		}},
		{"redirect to another scheme", Config{},
			[]step{later(0, fetch), learn(to(301, "ftp://a.example/"), "allowed")}},
		{"redirect to a giant URL", Config{}, []step{later(0, fetch),
			learn(to(301, "/"+strings.Repeat("a", 5000)), "allowed")}},
		{"redirect of another kind", Config{}, []step{later(0, fetch), learn(to(300, "/x"), "allowed")}},
		{"redirect to a failure", Config{}, []step{
			later(0, fetch), learn(to(301, "/x"), "fetch https://a.example/x"), learn(status(503), "unreachable 1m0s"),
			later(time.Minute, fetch), learn(to(301, "/x"), "fetch https://a.example/x"),
			learn(status(503), "unreachable 2m0s"),
			later(2*time.Minute, fetch), learn(ok(no), denied), later(24*time.Hour, fetch),
			learn(to(301, "/x"), "fetch https://a.example/x"), learn(status(503), denied),
		}},
		{"chain left alone", Config{}, []step{
			later(0, fetch), learn(to(301, "/x"), "fetch https://a.example/x"), later(chainLife, fetch),
			learn(ok(no), denied),
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.cfg.Agent = "orbweaver"
			c := NewCache(tc.cfg)
			now, sent := start, weburl.URL{}
			for i, s := range tc.steps {
				now = now.Add(s.wait)
				if s.reply != nil {
					c.Learn(mustParse(t, page), sent, *s.reply, now)
				}
				u := page
				if s.ask != "" {
					u = s.ask
				}
				a := c.Ask(mustParse(t, u), now)
				if a.Verdict == Fetch && u == page {
					sent = a.Fetch
				}
				if got := brief(a, now); got != s.want {
					t.Errorf("step %d: got %s, want %s", i, got, s.want)
				}
			}
		})
	}
}

func TestLearnSitemaps(t *testing.T) {
	c := NewCache(Config{Agent: "x"})
	body := "Sitemap: https://a.example/1.xml\nSitemap: /2.xml\nSitemap: HTTPS://A.example:443/1.xml\n" +
		"Sitemap: ftp://a.example/\n"
	got := c.Learn(mustParse(t, "https://a.example/p"), mustParse(t, "https://www.a.example/robots.txt"),
		Reply{Status: 200, Body: []byte(body)}, start)
	if d := cmp.Diff([]string{"https://a.example/1.xml", "https://www.a.example/2.xml"}, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	if a := c.Ask(weburl.URL{}, start); a.Verdict != Denied {
		t.Errorf("zero URL: got %v, want denied", a.Verdict)
	}
	c.Learn(weburl.URL{}, weburl.URL{}, Reply{Status: 200}, start)
	if _, ok := c.Entry(""); ok {
		t.Error("got an entry for an empty origin, want none")
	}
}

// An agent with digits in its name obeys groups that name it in full.
func TestAgentWithDigits(t *testing.T) {
	c := NewCache(Config{Agent: "Bot9k"})
	u := mustParse(t, "https://a.example/p")
	c.Learn(u, u, Reply{Status: 200, Body: []byte("User-agent: bot9k/1.0\nDisallow: /")}, start)
	if a := c.Ask(u, start); a.Verdict != Denied {
		t.Errorf("got %v, want denied", a.Verdict)
	}
}

// The cache stays within its budget and keeps the origin that was last asked about. Even with a
// tiny budget, the next Ask sees a reply that was just learnt.
func TestCacheMemory(t *testing.T) {
	body := []byte("User-agent: *\n" + strings.Repeat("Disallow: /some/directory/\n", 30))
	for _, budget := range []int64{1, 100 << 10, 1 << 20} {
		c := NewCache(Config{Agent: "x", MemoryBytes: budget})
		kept := mustParse(t, "https://kept.example/")
		c.Learn(kept, kept, Reply{Status: 200, Body: body}, start)
		for i := range 2000 {
			u := mustParse(t, fmt.Sprintf("https://h%d.example/", i))
			c.Learn(u, u, Reply{Status: 200, Body: body}, start)
			if a := c.Ask(u, start); a.Verdict != Allowed {
				t.Fatalf("budget %d: h%d was dropped at once", budget, i)
			}
			if a := c.Ask(kept, start); budget > 1 && a.Verdict != Allowed {
				t.Fatalf("budget %d: an origin in use was dropped after %d others", budget, i)
			}
		}
		bytes, nodes := audit(t, c)
		for i := range c.shards {
			if n := len(c.shards[i].nodes); bytes > budget && n > 1 {
				t.Errorf("%d bytes exceed the budget %d, and shard %d still has %d origins", bytes, budget, i, n)
			}
		}
		if st := c.Stats(); st.Origins != nodes || st.Bytes != bytes || st.Groups != 1 ||
			st.Forgotten != int64(2001-nodes) {
			t.Errorf("got %+v, want %d origins, %d bytes, 1 group, %d forgotten", st, nodes, bytes, 2001-nodes)
		}
		t.Logf("budget %d: %d origins in %d bytes", budget, nodes, bytes)
	}
}

// audit counts the memory and nodes that a cache holds and compares them with its own figures.
func audit(t *testing.T, c *Cache) (bytes int64, nodes int) {
	t.Helper()
	holders := map[*group]int{}
	for i := range c.shards {
		s := &c.shards[i]
		n := 0
		for e := s.root.next; e != &s.root; e = e.next {
			n++
			bytes += e.size()
			for _, g := range e.state.groups() {
				if g != nil {
					holders[g]++
				}
			}
			if s.nodes[e.key] != e {
				t.Errorf("%s is in the list but not in the map", e.origin)
			}
		}
		if n != len(s.nodes) {
			t.Errorf("shard %d: the list has %d nodes, the map %d", i, n, len(s.nodes))
		}
		nodes += n
	}
	for g, n := range holders {
		bytes += g.memory
		if g.holders != n || c.shared.byKey[g.key] != g {
			t.Errorf("a group has %d holders, but counts %d", n, g.holders)
		}
	}
	if len(c.shared.byKey) != len(holders) {
		t.Errorf("sharing has %d groups, but nodes hold %d", len(c.shared.byKey), len(holders))
	}
	if got := c.bytes.Load(); got != bytes {
		t.Errorf("the cache counts %d bytes, but holds %d", got, bytes)
	}
	return bytes, nodes
}

// A robots.txt that is known is not fetched again because the robots.txt of another origin redirects to it.
func TestRedirectToKnown(t *testing.T) {
	secure, plain := mustParse(t, "https://a.example/p"), mustParse(t, "http://a.example/p")
	for _, first := range []string{"before the redirect", "after it"} {
		c := NewCache(Config{Agent: "orbweaver"})
		learn := func() {
			rules := Reply{Status: 200, Body: []byte("User-agent: *\nDisallow: /p\n")}
			c.Learn(secure, c.Ask(secure, start).Fetch, rules, start)
		}
		if first == "before the redirect" {
			learn()
		}
		at := c.Ask(plain, start).Fetch
		c.Learn(plain, at, Reply{Status: 301, Location: "https://a.example/robots.txt"}, start.Add(time.Hour))
		if first == "after it" {
			learn()
		}
		for _, d := range []time.Duration{time.Hour, 24*time.Hour - 1} {
			if got := c.Ask(plain, start.Add(d)); got.Verdict != Denied {
				t.Errorf("known %s: after %s the answer is %s, want denied", first, d, brief(got, start))
			}
		}
		if got := c.Ask(plain, start.Add(24*time.Hour)); got.Verdict != Fetch || got.Fetch != at {
			t.Errorf("known %s: after a day the answer is %s, want %s", first, brief(got, start), at)
		}
	}
}

// In any order of replies, a cache with a limit answers as a cache without a limit does, or asks
// again for a robots.txt that it dropped. Its own figures stay correct.
func TestCacheModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		small := NewCache(Config{Agent: "x", MemoryBytes: int64(rapid.IntRange(1, 30_000).Draw(rt, "budget"))})
		large := NewCache(Config{Agent: "x"})
		now := start
		for range rapid.IntRange(1, 200).Draw(rt, "steps") {
			u := mustParse(t, fmt.Sprintf("http://h%d.example/p%d", rapid.IntRange(0, 60).Draw(rt, "host"),
				rapid.IntRange(0, 3).Draw(rt, "page")))
			now = now.Add(time.Duration(rapid.IntRange(0, 3600).Draw(rt, "wait")) * time.Second)
			a, want := small.Ask(u, now), large.Ask(u, now)
			if a.Verdict != Fetch && a != want {
				rt.Fatalf("%s: got %+v, want %+v", u, a, want)
			}
			if a.Verdict != Fetch {
				continue
			}
			r := []Reply{
				{Status: 404}, {Failed: true}, {Status: 301, Location: "/x"}, {Status: 304},
				{Status: 200, Body: []byte("User-agent: *\nDisallow: /p1\n")},
				{Status: 200, Body: []byte("User-agent: *\nDisallow: /p1\nSitemap: " + u.String())},
				{Status: 200, Body: fmt.Appendf(nil, "User-agent: *\nCrawl-delay: 1\nDisallow: /p2?%s\n", u.Host())},
			}[rapid.IntRange(0, 6).Draw(rt, "reply")]
			if r.Failed || r.Status == 301 || r.Status == 304 {
				// The meaning of these replies depends on the earlier state.
				large.Learn(u, u, Reply{Status: 404}, now)
				r = Reply{Status: 404}
			} else {
				large.Learn(u, u, r, now)
			}
			small.Learn(u, u, r, now)
			if got, want := small.Ask(u, now), large.Ask(u, now); got != want {
				rt.Fatalf("%s, after Learn: got %+v, want %+v", u, got, want)
			}
		}
		audit(t, small)
		audit(t, large)
	})
}

// Chains of redirects and stale copies also hold groups.
func TestCacheHolds(t *testing.T) {
	c := NewCache(Config{Agent: "x", MemoryBytes: 8_000})
	body := []byte("User-agent: *\nDisallow: /p\n")
	now := start
	for i := range 400 {
		u := mustParse(t, fmt.Sprintf("http://h%d.example/p", i%90))
		r := []Reply{
			{Status: 200, Body: body}, {Failed: true}, {Status: 301, Location: "/x"},
			{Status: 200, Body: fmt.Appendf(body, "Allow: /%d\n", i%7)},
			{Status: 503}, {Status: 304}, {Status: 301, Location: "/y"},
		}[i%7]
		now = now.Add(time.Minute)
		c.Learn(u, u, r, now)
	}
	audit(t, c)
	if c.Stats().Forgotten == 0 {
		t.Error("no origin was dropped; want some")
	}
}

// A cache full of real files takes no more heap than its budget, within the allocator's rounding.
func TestCacheMemoryOfRealFiles(t *testing.T) {
	files := realFiles(t)
	const budget = 8 << 20
	c := NewCache(Config{Agent: "orbweaver", MemoryBytes: budget})
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	learned := 0
	for round := range 8 {
		for name, body := range files {
			u, err := weburl.Parse(fmt.Sprintf("https://r%d.%s/", round, name))
			if err != nil {
				continue
			}
			learned++
			c.Learn(u, u, Reply{Status: 200, Body: body}, start)
		}
	}
	grown := heap() - before
	kept := 0
	for i := range c.shards {
		kept += len(c.shards[i].nodes)
	}
	t.Logf("%d of %d origins kept, heap %d", kept, learned, grown)
	if kept == learned {
		t.Fatal("the budget was not reached")
	}
	if grown > budget*5/4 {
		t.Errorf("got %d bytes of heap, budget %d", grown, budget)
	}
	runtime.KeepAlive(c)
	runtime.KeepAlive(files)
}

// Ask, Learn and a snapshot run concurrently without disturbing each other.
func TestCacheConcurrent(t *testing.T) {
	c := NewCache(Config{Agent: "x", MemoryBytes: 64 << 10})
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 500 {
				u := mustParse(t, fmt.Sprintf("https://h%d.example/p", (i*7+w)%50))
				switch a := c.Ask(u, start); a.Verdict {
				case Fetch:
					c.Learn(u, a.Fetch, Reply{Status: 200, Body: []byte("User-agent: *\nDisallow: /p")}, start)
				case Denied:
				default:
					t.Errorf("got %v", a.Verdict)
				}
			}
		})
	}
	wg.Go(func() {
		for range 20 {
			if err := c.Each(func(e Entry) error {
				if string(e.Body) != "User-agent: *\nDisallow: /p" {
					return fmt.Errorf("%s: got %q", e.Origin, e.Body)
				}
				return nil
			}); err != nil {
				t.Error(err)
			}
		}
	})
	wg.Wait()
	audit(t, c)
}

func TestAskAllocates(t *testing.T) {
	c, u := askable(t)
	if n := testing.AllocsPerRun(100, func() { c.Ask(u, start) }); n != 0 {
		t.Errorf("got %v allocations, want 0", n)
	}
}

func askable(t testing.TB) (*Cache, weburl.URL) {
	c := NewCache(Config{Agent: "orbweaver"})
	var s strings.Builder
	s.WriteString("User-agent: *\nCrawl-delay: 1\n")
	for i := range 50 {
		fmt.Fprintf(&s, "Disallow: /dir%d/\n", i)
	}
	s.WriteString("Disallow: /*?sort=\nAllow: /some/\nDisallow: /a%7Eb")
	u := mustParse(t, "https://www.example.com/some/path/page.html?id=17")
	c.Learn(u, u, Reply{Status: 200, Body: []byte(s.String())}, start)
	return c, u
}

func BenchmarkAsk(b *testing.B) {
	c, u := askable(b)
	b.ReportAllocs()
	for b.Loop() {
		if a := c.Ask(u, start); a.Verdict != Allowed {
			b.Fatal(a.Verdict)
		}
	}
}
