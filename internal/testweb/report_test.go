package testweb

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// fakeTruth makes the first pages of the first hosts reachable.
type fakeTruth struct{ hosts, pages int64 }

func (f fakeTruth) Reachable() int64          { return f.hosts * f.pages }
func (f fakeTruth) Has(host, page int64) bool { return host < f.hosts && page < f.pages }
func (f fakeTruth) URL(host, page int64) string {
	return fmt.Sprintf("http://h%d.made.example/%d", host, page)
}
func (f fakeTruth) Each(yield func(host, page int64)) {
	for h := range f.hosts {
		for p := range f.pages {
			yield(h, p)
		}
	}
}

func TestOriginReport(t *testing.T) {
	o := &fakeOrigin{hosts: 10, pages: 3000, size: 100, replies: map[string]Reply{
		"/trap/a":   {Status: 200, Page: -1, Trap: 3},
		"/trap/a/b": {Status: 200, Page: -1, Trap: 4},
		"/trap":     {Status: 200, Page: -1, Trap: 1},
		"/gone":     {Status: 404, Page: -1},
	}}
	w := serving(t, Config{
		Origin: o, Truth: fakeTruth{hosts: 3, pages: 1500}, Promise: Promise{HostDelay: time.Hour},
	})
	c := client(t, w)
	for _, u := range []string{
		"h0.made.example/1", "h0.made.example/2", "h0.made.example/2", "h1.made.example/1400",
		"h1.made.example/1400", "h1.made.example/1400", "h2.made.example/2000", "h5.made.example/1",
		"h0.made.example/gone", "h0.made.example/gone", "h0.made.example/trap", "h0.made.example/trap/a/b",
		"h0.made.example/trap/a",
	} {
		get(t, c, "http://"+u)
	}
	until(t, "ended", func() bool { return w.Report().Active == 0 })
	r := w.Report()
	got := *r.Origin
	missed := got.MissedURLs
	got.MissedURLs = nil
	want := OriginReport{Hosts: 10, Touched: 4, Fetched: 5, Twice: 2, Reachable: 4500, Missed: 4497, Beyond: 2}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if len(missed) != maxMissed || missed[0] != "http://h0.made.example/0" || missed[1] != "http://h0.made.example/3" {
		t.Errorf("missed: got %d, %.2q", len(missed), missed)
	}
	if want := (TrapReport{Requests: 3, Deepest: 4, URL: "http://h0.made.example/trap/a/b"}); r.Traps != want {
		t.Errorf("traps: got %+v, want %+v", r.Traps, want)
	}
	if r.URLs != 9 || r.Repeated != 4 || len(r.Twice) != 3 || r.Twice["http://h1.made.example/1400"] != 2 {
		t.Errorf("got %d URLs, %d repeated, twice %v", r.URLs, r.Repeated, r.Twice)
	}
	g := r.Gaps["host"]
	if g.Gaps != 9 || g.Promised != 9 || g.TooShort != 9 || g.Least == nil || *g.Least > 0.01 ||
		r.ViolationCount["gap"] != 9 {
		t.Errorf("gaps: got %+v, violations %v", g, r.ViolationCount)
	}
	if s := r.Gaps["site"]; s.Gaps != 12 || s.Promised != 0 {
		t.Errorf("gaps of sites: got %+v", s)
	}
	if fmt.Sprint(r.AtOnce) != "map[address:map[1:4] host:map[1:4] site:map[1:1]]" {
		t.Errorf("at once: got %v", r.AtOnce)
	}
	k := w.Count()
	if k.Requests != r.Requests || k.Pages != r.Pages || k.Bytes != r.Bytes || k.Active != 0 || k.Violations != 9 {
		t.Errorf("count: got %+v", k)
	}
	if f := w.Fetched(); len(f) != 5 || f["http://h1.made.example/1400"] != 2 || f["http://h2.made.example/2000"] != 1 {
		t.Errorf("fetched: got %v", f)
	}
	b, err := json.Marshal(r)
	must.Do(t, err)
	var back Report
	if err := json.Unmarshal(b, &back); err != nil || back.Origin.Missed != 4497 ||
		back.Hosts["h0.made.example"].MinGap < 0 {
		t.Errorf("JSON: got %v, %v", back.Origin, err)
	}

	w.Reset(Promise{})
	r = w.Report()
	b, _ = json.Marshal([]any{
		r.Requests, r.Pages, r.Bytes, r.URLs, r.Repeated, len(r.Twice), len(r.Violations), len(r.ViolationCount),
		len(r.Hosts), len(r.Sites), r.Gaps["host"].Gaps, r.Gaps["host"].TooShort, r.Traps, r.Origin.Touched,
		r.Origin.Fetched, r.Origin.Twice, r.Origin.Beyond,
	})
	if got, want := string(b), `[0,0,0,0,0,0,0,0,0,0,0,0,{"requests":0,"deepest":0},0,0,0,0]`; got != want ||
		r.Origin.Missed != 4500 {
		t.Errorf("after reset: got %s, want %s, %d missed", got, want, r.Origin.Missed)
	}
	if k := w.Count(); k != (Count{At: k.At}) {
		t.Errorf("after reset: got %+v", k)
	}
	// The connection is still open, and counts after the reset.
	get(t, c, "http://h0.made.example/1")
	until(t, "ended", func() bool { return w.Report().Active == 0 })
	if k := w.Count(); k.Sent < k.Bytes+50 || k.Sent > k.Bytes+1000 || k.Bytes == 0 {
		t.Errorf("after reset and a request: %d bytes sent for a body of %d and its header", k.Sent, k.Bytes)
	}
	if r := w.Report(); r.Requests != 1 || r.Hosts["h0.made.example"].Pages != 1 || r.Origin.Fetched != 1 ||
		r.Addrs["127.100.0.0"].MaxConnections != 1 {
		t.Errorf("after reset and a request: got %+v", r)
	}
}

// TestOriginLog: the log has the requests to the Origin only if Config.LogEntries is set.
func TestOriginLog(t *testing.T) {
	for _, tt := range []struct {
		entries, kept int
		file          bool
	}{{0, 1, false}, {0, 1, true}, {10, 4, true}, {2, 2, false}} {
		var lines bytes.Buffer
		cfg := Config{
			Origin: &fakeOrigin{hosts: 10, pages: 10, size: 100}, LogEntries: tt.entries,
			Sites: []Site{{Host: "site.example"}},
		}
		if tt.file {
			cfg.Log = &lines
		}
		w := serving(t, cfg)
		c := client(t, w)
		for _, u := range []string{
			"http://h0.made.example/1", "https://h0.made.example/2", "http://site.example/",
			"http://h1.made.example/none",
		} {
			get(t, c, u)
		}
		until(t, fmt.Sprintf("%+v: %d entries", tt, tt.kept), func() bool {
			return w.Report().Requests == 4 && len(w.Log()) == tt.kept
		})
		const line = "\tGET\t200\t100\tok\thttps://h0.made.example/2\n"
		if tt.file && (bytes.Count(lines.Bytes(), []byte("\n")) != 4 || !bytes.Contains(lines.Bytes(), []byte(line))) {
			t.Errorf("%+v: got %q", tt, lines.Bytes())
		}
	}
}

func TestWorst(t *testing.T) {
	var w worst[int]
	for i := range 10_000 {
		g := GroupReport{MaxConcurrent: 1, Requests: int64(i)}
		if i == 7 {
			g.Violations = 1
		}
		if i == 8 {
			g.MaxConcurrent = 2
		}
		w.add(g, i)
	}
	if left := w.cut(); left != 9000 || len(w.list) != 1000 {
		t.Errorf("got %d left out and %d listed, want 9000 and 1000", left, len(w.list))
	}
	var got []int
	for _, r := range w.list[:4] {
		got = append(got, r.of)
	}
	if want := []int{7, 8, 9999, 9998}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if w.most[1] != 9999 || w.most[2] != 1 {
		t.Errorf("got %v", w.most)
	}
}

// A violation is told in plain words, with durations that are short and never round a broken promise up to a kept one.
func TestViolationTexts(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 123456789, time.UTC)
	ms := Seconds(time.Millisecond)
	for _, tt := range []struct {
		v    Violation
		want string
	}{
		{Violation{Kind: "gap", By: "host", Host: "a.example", URL: "http://a.example/x", Gap: 1754338,
			Promised: 100 * ms, After: "http://a.example/", AfterBegan: at, AfterEnded: at},
			"gap at 03:04:05.123456: http://a.example/x: 1.75 ms after the last response of the host, not 100 ms; " +
				"the request before it was http://a.example/, from 03:04:05.123456 to 03:04:05.123456"},
		{Violation{Kind: "gap", By: "address", Host: "127.0.0.1", URL: "http://a.example/x", Gap: 1000*ms - 1,
			Promised: 1000 * ms}, "gap at 03:04:05.123456: http://a.example/x: 999 ms after the last response of the " +
			"address 127.0.0.1, not 1 s"},
		{Violation{Kind: "retry-after", By: "host", Host: "a.example", URL: "http://a.example/x", Gap: 12340 * ms,
			Promised: 125000 * ms}, "retry-after at 03:04:05.123456: http://a.example/x: 12.3 s after the last " +
			"response, but Retry-After asks for 2 min 5 s"},
		{Violation{Kind: "concurrent", By: "host", Host: "a.example", URL: "http://a.example/x"},
			"concurrent at 03:04:05.123456: http://a.example/x: while another request to the host was open"},
		{Violation{Kind: "connections", By: "host", Host: "a.example", Detail: "2 connections at once"},
			"connections at 03:04:05.123456: a.example: 2 connections at once to the host"},
		{Violation{Kind: "robots", By: "host", Host: "a.example", URL: "http://a.example/x", Detail: "disallow: /x"},
			`robots at 03:04:05.123456: http://a.example/x: forbidden by "disallow: /x"`},
	} {
		tt.v.At = at
		if got := tt.v.String(); got != tt.want {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
	}
	for d, want := range map[Seconds]string{0: "0 ms", 1: "0 ms", 987654: "0.98 ms", 99_990_000: "99.9 ms",
		10_000_000:    "10 ms",
		1_001_000_000: "1 s", 59_999_999_999: "59.9 s"} {
		if got := d.String(); got != want {
			t.Errorf("%d ns: got %s, want %s", d, got, want)
		}
	}
}
