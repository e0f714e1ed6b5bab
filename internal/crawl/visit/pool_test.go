package visit

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testclock"
	"github.com/orbweaver/orbweaver/internal/web/fetch"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/parse"
	"github.com/orbweaver/orbweaver/internal/web/scope"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// The more slow visits receive nothing, the sooner another becomes one. Those of the last minute, by the Clock, count
// in part.
func TestSlowAfter(t *testing.T) {
	now := time.Unix(1e9, 0)
	p := New(Config{Workers: 10, Clock: testclock.Func(func() time.Time { return now })}.WithDefaults(), Parts{}, 0)
	for _, x := range []struct {
		slow int
		want time.Duration
	}{{0, 5 * time.Second}, {10, 5 * time.Second / 2}, {90, 5 * time.Second / 10}, {1000, slowLeast}} {
		p.slow.silent = x.slow
		if got := p.slowAfter(); got.Round(time.Microsecond) != x.want {
			t.Errorf("%d slow visits: %s, want %s", x.slow, got, x.want)
		}
	}
	p.slow.silent, now = 0, now.Add(time.Minute)
	if n := p.slow.quiet(now); math.Abs(n-1000/math.E) > 1e-6 {
		t.Errorf("a minute after 1000 slow visits %f count, want %f", n, 1000/math.E)
	}
	if now = now.Add(time.Hour); p.slowAfter() != 5*time.Second {
		t.Errorf("an hour later: %s", p.slowAfter())
	}
}

// A redirect to its own URL is skipped, and no Strategy is asked about it. Another one is followed.
func TestRedirectToItself(t *testing.T) {
	sc := must.Get(scope.New(scope.Config{Scope: scope.Any}, nil))(t)
	self := weburl.MustParse("http://a.example/")
	for to, want := range map[string]string{"/": "asked 0, found 0, skipped 1", "/b": "asked 1, found 1, skipped 0"} {
		var asked counted
		p := New(Config{}.WithDefaults(), Parts{Strategy: &asked, Scope: sc}, 0)
		v := p.New(frontier.Task{Link: link.Link{URL: self}})
		v.Response.Cookies = xxhash.Sum64String("") // of its request
		r := &fetch.Response{URL: self, Status: 302, Header: fetch.Header{{Name: "Location", Value: to}}}
		must.Do(t, p.read(t.Context(), v, r))
		got := fmt.Sprintf("asked %d, found %d, skipped %d", asked, len(v.Found), len(v.Skipped))
		if got != want {
			t.Errorf("a redirect to %s: %s; want %s", to, got, want)
		}
	}
}

// counted is a Strategy that counts the links.
type counted int

func (c *counted) Follow(*Page, *link.Link) Choice {
	*c++
	return Take
}

// A visit kept for reuse does not keep the memory of a large page.
func TestVisitsAtRest(t *testing.T) {
	p := New(Config{}.WithDefaults(), Parts{}, 0)
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	before := m.HeapAlloc
	u := must.Get(weburl.Parse("http://h.example/"))(t)
	var b strings.Builder
	b.WriteString(`<base href="http://h.example/` + strings.Repeat("x", 7000) + `/">`)
	for i := range 2400 {
		fmt.Fprintf(&b, "<a href=%d>", i)
	}
	var under []*Attempt // all under way at once
	for range 8 {
		v := p.New(frontier.Task{})
		in := parse.Input{URL: u, ContentType: "text/html", Body: []byte(b.String())}
		parse.Parse(in, parse.Options{}, &v.Page.HTML)
		for _, l := range v.Page.HTML.Links {
			v.Skipped = append(v.Skipped, Skip{link.Link{URL: l.URL}, "outOfScope"})
		}
		if len(v.Page.HTML.Links) == 0 {
			t.Fatal("no links")
		}
		under = append(under, v)
	}
	for _, v := range under {
		p.Recycle(v)
	}
	under = nil
	runtime.GC()
	runtime.ReadMemStats(&m)
	if held := int64(m.HeapAlloc) - int64(before); held > 4<<20 {
		t.Errorf("%d visits at rest hold %d KiB", len(p.free), held>>10)
	}
	runtime.KeepAlive(p)
}

type followAll struct{}

func (followAll) Follow(*Page, *link.Link) Choice { return Take }

// The crawl asks a Strategy about every link of every page, and knows most of them already. That
// must cost no memory.
func TestFollowKnownAllocatesNothing(t *testing.T) {
	f := &Follower{Strategy: followAll{}, known: new(known)}
	u := must.Get(weburl.Parse("http://a.example/page"))(t)
	f.known.add(link.KeyOf(u))
	v := new(Attempt)
	if n := testing.AllocsPerRun(100, func() { f.Follow(v, link.Link{URL: u, Hops: "L"}, link.KeyOf(u)) }); n != 0 {
		t.Errorf("%v allocations for a known link, want none", n)
	}
}
