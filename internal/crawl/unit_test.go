package crawl

import (
	"bytes"
	"fmt"
	"maps"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/near/index"
	"github.com/orbweaver/orbweaver/internal/web/parse"
	"github.com/orbweaver/orbweaver/internal/web/sheet"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A page that is fetched again because its agent left, and not because its archive was lost, does not count as one of a
// lost archive. The note tells how often it was fetched again.
func TestCountsOfRefetches(t *testing.T) {
	again, ok := RefetchLink(link.Link{URL: weburl.MustParse("http://a.example/")})
	if !ok || !visitOf(&state.Finish{Link: again}).Refetched {
		t.Error("a page of a lost archive does not count")
	}
	again.SetApp("news", "http://a.example/")
	if visitOf(&state.Finish{Link: again}).Refetched {
		t.Error("an application's page counts as one of a lost archive")
	}
	for note, n := range map[string]uint8{"": 0, "refetch:1": 1, "shared,refetch:12,2t": 12, "refetch:x": 0,
		"near-duplicate:refetch:3": 0} {
		if got := (&Delivery{Note: note}).refetches(); got != n {
			t.Errorf("note %q: %d, want %d", note, got, n)
		}
	}
}

// The more slow visits receive nothing, the sooner another becomes one.
func TestSlowAfter(t *testing.T) {
	c := New(Config{Workers: 10}, Parts{})
	for _, x := range []struct {
		slow int
		want time.Duration
	}{{0, 5 * time.Second}, {10, 5 * time.Second / 2}, {90, 5 * time.Second / 10}, {1000, slowLeast}} {
		c.slow.silent = x.slow
		if got := c.slowAfter(); got.Round(time.Microsecond) != x.want {
			t.Errorf("%d slow visits: %s, want %s", x.slow, got, x.want)
		}
	}
}

// A visit kept for reuse does not keep the memory of a large page.
func TestVisitsAtRest(t *testing.T) {
	c := New(Config{}, Parts{})
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	before := m.HeapAlloc
	u, err := weburl.Parse("http://h.example/")
	must(t, err)
	var b strings.Builder
	b.WriteString(`<base href="http://h.example/` + strings.Repeat("x", 7000) + `/">`)
	for i := range 2400 {
		fmt.Fprintf(&b, "<a href=%d>", i)
	}
	var under []*visit // all under way at once
	for range 8 {
		v := c.take(frontier.Task{})
		parse.Parse(parse.Input{URL: u, ContentType: "text/html", Body: []byte(b.String())}, parse.Options{}, &v.page)
		for _, l := range v.page.Links {
			v.skipped = append(v.skipped, skip{link.Link{URL: l.URL}, "outOfScope"})
		}
		if len(v.page.Links) == 0 {
			t.Fatal("no links")
		}
		under = append(under, v)
	}
	for _, v := range under {
		c.recycle(v)
	}
	under = nil
	runtime.GC()
	runtime.ReadMemStats(&m)
	if held := int64(m.HeapAlloc) - int64(before); held > 4<<20 {
		t.Errorf("%d visits at rest hold %d KiB", len(c.free), held>>10)
	}
	runtime.KeepAlive(c)
}

func TestTroublesAreBounded(t *testing.T) {
	var tr troubles
	for i := range 3 * troublesMax {
		tr.add(fmt.Sprint("h", i))
	}
	if n := len(tr.now) + len(tr.before); n > 2*troublesMax {
		t.Errorf("%d hosts", n)
	}
	last := fmt.Sprint("h", 3*troublesMax-1)
	if n := tr.add(last); n != 2 || tr.of(last) != 2 {
		t.Errorf("%s failed twice, counted %d", last, n)
	}
	tr.clear(last)
	if tr.of(last) != 0 {
		t.Error("cleared, and still counted")
	}
}

func TestRecentIsBounded(t *testing.T) {
	var r recent
	for i := range uint64(3 * recentMax) {
		if !r.add(link.Key{Host: i}) {
			t.Fatalf("%d is not new", i)
		}
		if r.add(link.Key{Host: i}) {
			t.Fatalf("%d is new twice", i)
		}
	}
	if n := len(r.now) + len(r.before); n > 2*recentMax {
		t.Errorf("%d keys", n)
	}
}

func FuzzRecords(f *testing.F) {
	sample := state.Finish{Link: link.Link{URL: weburl.MustParse("http://a.example/x?y"), Hops: "LLR"}, Code: -61}
	f.Add(sample.AppendTo(nil))
	f.Add(state.AppendOriginal(nil, [20]byte{1}, warc.Original{URL: "http://a.example/"}))
	f.Add([]byte{0xe0, 1, 7})
	f.Add(appendDrop(nil, "a.example", drop{1, 2, time.UnixMilli(3)}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if fin, err := state.DecodeFinish(b); err == nil {
			again, err := state.DecodeFinish(fin.AppendTo(nil))
			if err != nil || !bytes.Equal(again.AppendTo(nil), fin.AppendTo(nil)) {
				t.Errorf("%+v became %+v, %v", fin, again, err)
			}
		}
		state.DecodeOriginal(b)
		if host, d, err := decodeDrop(b); err == nil {
			if host2, again, err := decodeDrop(appendDrop(nil, host, d)); err != nil || host2 != host || again != d {
				t.Fatalf("drop of %q %+v became %q %+v, %v", host, d, host2, again, err)
			}
		}
		state.DecodeSpan(b)
		if ks, err := state.DecodeKeys(nil, b); err == nil && !bytes.Equal(state.AppendKeys(nil, ks), b) {
			t.Errorf("%x became other keys", b)
		}
	})
}

// The failed seeds that are kept take bounded memory, and the first of them are kept.
func TestFailedSeedsAreBounded(t *testing.T) {
	c := &Crawler{Parts: Parts{Tally: report.NewTally()}}
	seed := func(i int) link.Link {
		return link.Link{URL: weburl.MustParse(fmt.Sprintf("http://h%d.example/", i)), Seed: "h.example"}
	}
	for i := range maxAgain + 5 {
		c.noteFailed(&state.Finish{Link: seed(i), Code: report.CodeDNS})
	}
	again := c.failures.again
	if len(again) != maxAgain {
		t.Fatalf("%d failed seeds are kept, want %d", len(again), maxAgain)
	}
	l, _, err := link.Decode(again[maxAgain-1])
	if want := seed(maxAgain - 1).URL; err != nil || l.URL != want {
		t.Errorf("the last one kept is %v, %v, want %v", l.URL, err, want)
	}
}

// Exclusions whose alternation is too large hold all the same, and a wrong pattern changes nothing.
func TestExclusions(t *testing.T) {
	var list []Exclusion
	for i := range 40 {
		list = append(list, Exclusion{Pattern: fmt.Sprintf("/%d/c{3}$", i), Deeper: -1, Why: fmt.Sprint(i)})
	}
	e, err := newExclusions(list)
	if err != nil || e.apart {
		t.Fatal(err)
	}
	e.apart, e.patterns = true, sheet.Patterns{} // an alternation that is too large takes much memory
	for u, want := range map[string]string{"http://a.example/17/ccc": "17", "http://a.example/40/ccc": ""} {
		got := ""
		if x := e.of(&link.Link{URL: weburl.MustParse(u)}); x != nil {
			got = x.Why
		}
		if got != want {
			t.Errorf("%s: excluded by %q, want %q", u, got, want)
		}
	}
}

func TestFollowed(t *testing.T) {
	const ms = time.Millisecond
	cfg := &Config{Delays: Delays{DelayFactor: 5, DelayMax: 30 * time.Second}}
	for _, c := range []struct{ before, took, want time.Duration }{
		{0, 100 * ms, 0},
		{0, 400 * ms, 0},
		{0, 600 * ms, 3000 * ms},
		{3000 * ms, time.Second, 5000 * ms},
		{3000 * ms, 600 * ms, 3000 * ms},
		{5000 * ms, 200 * ms, 3000 * ms},
		{2100 * ms, 100 * ms, 0},
		{0, time.Hour, 30 * time.Second},
		{40 * time.Second, 100 * ms, 20250 * ms},
		{70 * time.Second, 100 * ms, 30 * time.Second},
	} {
		if got := followed(c.before, 2*time.Second, cfg, c.took); got != c.want {
			t.Errorf("after a delay of %s, a response of %s: %s, want %s", c.before, c.took, got, c.want)
		}
	}
}

type followAll struct{}

func (followAll) Follow(*Page, *link.Link) Choice { return Take }

// The crawl asks a Strategy about every link of every page, and knows most of them already. That
// must cost no memory.
func TestFollowKnownAllocatesNothing(t *testing.T) {
	c := &Crawler{Parts: Parts{Strategy: followAll{}}, known: new(known)}
	u, err := weburl.Parse("http://a.example/page")
	must(t, err)
	c.known.add(link.KeyOf(u))
	v := new(visit)
	if n := testing.AllocsPerRun(100, func() { c.follow(v, link.Link{URL: u, Hops: "L"}, link.KeyOf(u)) }); n != 0 {
		t.Errorf("%v allocations for a known link, want none", n)
	}
}

// The pages of a category are those that the archive has, each once.
func TestCountKept(t *testing.T) {
	here := &Before{Original: warc.Original{ID: [16]byte{1}, Date: time.Unix(1, 0)}}
	elsewhere := &Before{Original: warc.Original{Date: time.Unix(1, 0)}}
	for _, test := range []struct {
		name string
		v    visit
		drop bool
		want int64
	}{
		{"new", visit{topic: "A", archived: true}, false, 1},
		{"no category", visit{archived: true}, false, 0},
		{"not archived", visit{topic: "A"}, false, 0},
		{"near-duplicate, dropped", visit{topic: "A", archived: true, near: &index.Original{}}, true, 0},
		{"near-duplicate, marked", visit{topic: "A", archived: true, near: &index.Original{}}, false, 1},
		{"again", visit{topic: "A", archived: true, before: here}, false, 0},
		{"again, before at another agent", visit{topic: "A", archived: true, before: elsewhere}, false, 1},
		{"again, failed before", visit{topic: "A", archived: true, before: &Before{}}, false, 1},
	} {
		c := &Crawler{Parts: Parts{}, cfg: Config{DropNear: test.drop}}
		c.countKept(&test.v)
		want := map[string]int64{"A": test.want}
		if test.want == 0 {
			want = nil
		}
		if !maps.Equal(c.topics, want) {
			t.Errorf("%s: counts %v, want %v", test.name, c.topics, want)
		}
	}
}

// must ends the test if there is an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
