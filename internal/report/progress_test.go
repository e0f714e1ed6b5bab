package report

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

func snapshots() []Snapshot {
	a := Snapshot{
		Elapsed: 90 * time.Second, Pages: 1200, Fetched: 1300, Bytes: 26_000_000, Queued: 45_678, Unique: 50_000,
		Open: 31, Resolving: 1, Ready: 12, Resting: 345, Paused: 2, Denied: 7, PageLimit: 10_000,
		Errors: map[string]int64{"dns": 3, "timeout-connect": 14}, Memory: 123_000_000,
		Disk:     disk.Space{Free: 12_000_000_000, Size: 100_000_000_000},
		Retrying: map[string]int64{"connect": 3, "503": 1}, RetryIn: 27400 * time.Millisecond,
		LastURL: "http://a.example/\x1b]0;evil\x07/\u202ex", NowURL: "http://a.example/\x1b]0;evil\x07/\u202ex",
		Hosts: []HostRow{
			{Host: "a.example", Links: 20_000, State: "fetching", Open: 1500 * time.Millisecond, URL: "http://a.example/\x1b[2J"},
			{Host: "\u202eb.example", Links: 9, State: "resting", In: 340 * time.Millisecond, URL: "http://b.example/x"},
			{Host: "slow.example", Links: 1, State: "paused", In: 90 * time.Second, URL: "https://slow.example/日本語のページ"},
			{Host: strings.Repeat("long.", 30) + "example", State: "resting", Open: time.Minute,
				Why: "lease of 192.0.2.1"},
		},
	}
	b := a
	b.Elapsed, b.Pages, b.Bytes = 100*time.Second, 1700, 37_000_000
	b.NowURL = "http://b.example/" + strings.Repeat("very/", 40)
	c := b
	c.Elapsed, c.State, c.Pages, c.NowURL, c.Errors = 110*time.Second, "stopping", 1800,
		"http://日本.example/日本語のページ", nil
	c.Retrying, c.RetryIn, c.Hosts = nil, 0, c.Hosts[:2]
	c.WaitingFor = "2 responses, the oldest for 12 s: http://a.example/\x1b[2J"
	d := c
	d.WaitingFor, d.Hosts = "", nil
	d.State, d.Queued, d.Open, d.Resolving, d.Revisits, d.Unchanged, d.NextIn = "", 0, 0, 0, 1234, 1000, 2*time.Hour
	return []Snapshot{a, b, c, d}
}

func TestPlain(t *testing.T) {
	var b strings.Builder
	p := NewProgress(&b, Plain, nil)
	now := at
	for _, s := range snapshots() {
		p.Show(s, now)
		p.Show(s, now.Add(9*time.Second))
		now = now.Add(10 * time.Second)
	}
	p.Message("checkpoint")
	p.Close(now)
	golden(t, "plain.txt", b.String())
}

func TestJSONLines(t *testing.T) {
	var b strings.Builder
	p := NewProgress(&b, JSON, nil)
	now := at
	for _, s := range snapshots() {
		p.Show(s, now)
		p.Show(s, now.Add(999*time.Millisecond))
		now = now.Add(10 * time.Second)
	}
	p.Message("a \"message\"")
	p.Close(now)
	golden(t, "progress.jsonl", b.String())
	for _, l := range strings.Split(strings.TrimSpace(b.String()), "\n") {
		if !json.Valid([]byte(l)) {
			t.Errorf("not JSON: %s", l)
		}
	}
}

type noWriter struct{ t *testing.T }

func (w noWriter) Write([]byte) (int, error) {
	w.t.Error("output in Quiet mode")
	return 0, errors.New("no")
}

func TestQuiet(t *testing.T) {
	p := NewProgress(noWriter{t}, Quiet, nil)
	p.Show(snapshots()[0], at)
	p.Message("x")
	p.Close(at)
}

// TestAgentName: each display and each message of an agent in a cluster begins with the agent's name.
func TestAgentName(t *testing.T) {
	for _, tt := range []struct {
		mode Mode
		want []string
	}{
		{Plain, []string{"a1: 0.0s  1 page ", "a1: saving\n"}},
		{JSON, []string{`"agent":"a1","state":"crawling"`, `{"type":"note","agent":"a1","message":"saving"}`}},
		{Live, []string{"a1: crawling  0.0s", "a1: saving"}},
	} {
		var out strings.Builder
		p := NewProgress(&out, tt.mode, nil)
		p.Agent = "a1"
		p.Show(Snapshot{Pages: 1}, at)
		p.Message("saving")
		p.Close(at)
		for _, want := range tt.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("mode %d: no %q in\n%s", tt.mode, want, out.String())
			}
		}
	}
}

// TestBackground: in the background of a terminal Live shows a plain line every ten seconds. In the foreground it draws
// again.
func TestBackground(t *testing.T) {
	var out strings.Builder
	background := true
	p := NewProgress(&out, Live, nil)
	p.Background = func() bool { return background }
	now := at
	for range 100 { // 20 s
		p.Show(Snapshot{Pages: 2}, now)
		now = now.Add(200 * time.Millisecond)
	}
	p.Message("saving")
	if got := out.String(); strings.Contains(got, "\x1b") || strings.Count(got, "2 pages") != 2 ||
		!strings.HasSuffix(got, "\nsaving\n") {
		t.Errorf("in the background: %q", got)
	}
	out.Reset()
	background = false
	p.Show(Snapshot{Pages: 3}, now)
	if got := out.String(); !strings.HasPrefix(got, "crawling  0.0s"+clearLine) {
		t.Errorf("in the foreground again: %q", got)
	}
	out.Reset()
	background = true
	p.Message("again behind")
	p.Close(now)
	if got := out.String(); got != "again behind\n" {
		t.Errorf("in the background again: %q", got)
	}
}

func TestModeFor(t *testing.T) {
	for _, tt := range []struct {
		quiet, json, terminal bool
		term                  string
		want                  Mode
	}{
		{false, false, true, "xterm-256color", Live},
		{false, false, true, "dumb", Plain},
		{false, false, true, "", Plain},
		{false, false, false, "xterm", Plain},
		{false, true, true, "xterm", JSON},
		{true, true, true, "xterm", Quiet},
	} {
		if got := ModeFor(tt.quiet, tt.json, tt.terminal, tt.term); got != tt.want {
			t.Errorf("%+v: got mode %d", tt, got)
		}
	}
}

func TestRetrying(t *testing.T) {
	for _, tt := range []struct {
		kinds map[string]int64
		in    time.Duration
		want  string
	}{
		{nil, 0, ""},
		{nil, time.Second, ""},
		{map[string]int64{"connect": 1}, 0, "connect 1"},
		{map[string]int64{"connect": 3, "dns": 12000}, 300 * time.Millisecond, "dns 12,000, connect 3 (next in 300ms)"},
		{map[string]int64{"\x1b[2J": 1}, 90 * time.Second, "%1B[2J 1 (next in 1m 30s)"},
	} {
		s := Snapshot{Retrying: tt.kinds, RetryIn: tt.in}
		if got := s.retrying(); got != tt.want {
			t.Errorf("%v in %v: got %q, want %q", tt.kinds, tt.in, got, tt.want)
		}
	}
}

func TestRevisitsShown(t *testing.T) {
	for want, s := range map[string]Snapshot{
		"":                               {},
		"0, 0 unchanged (next in 1h 0m)": {NextIn: time.Hour},
		"1,200, 9 unchanged":             {Revisits: 1200, Unchanged: 9},
		"3, 2 unchanged (next in 6s)":    {Revisits: 3, Unchanged: 2, NextIn: 5200 * time.Millisecond},
	} {
		if got := s.revisits(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestETA(t *testing.T) {
	for _, tt := range []struct {
		name         string
		s            Snapshot
		pages, bytes float64
		want         time.Duration
		limit        string
	}{
		{"none", Snapshot{Pages: 5}, 10, 10, 0, ""},
		{"pages", Snapshot{Pages: 50, PageLimit: 100}, 10, 0, 5 * time.Second, "page limit"},
		{"nearest", Snapshot{PageLimit: 100, SizeLimit: 100, TimeLimit: time.Minute, Ran: 57 * time.Second,
			Elapsed: time.Hour}, 1, 1,
			3 * time.Second, "time limit"},
		{"size", Snapshot{PageLimit: 100, SizeLimit: 10}, 1, 5, 2 * time.Second, "size limit"},
		{"paused", Snapshot{State: "paused", TimeLimit: time.Minute, Ran: time.Second}, 1, 1, 0, ""},
		{"nothing moves", Snapshot{PageLimit: 100}, 0, 0, 0, ""},
		{"over: the files of its pages are left", Snapshot{Pages: 101, PageLimit: 100}, 5, 0, 0, ""},
		{"for ever", Snapshot{PageLimit: 1 << 62}, 1e-9, 0, 0, ""},
	} {
		d, limit, ok := tt.s.eta(tt.pages, tt.bytes)
		if d != tt.want || limit != tt.limit || ok != (tt.limit != "") {
			t.Errorf("%s: %v %q %v, want %v %q", tt.name, d, limit, ok, tt.want, tt.limit)
		}
	}
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 0: "0.0s", 1234 * time.Millisecond: "1.2s", 10 * time.Second: "10s",
		59900 * time.Millisecond: "59s",
		61 * time.Second:         "1m 1s", 3 * time.Hour: "3h 0m", 50*time.Hour + time.Minute: "2d 2h",
	} {
		if got := Span(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}

// The rates are those of the last ten seconds, however often the caller shows progress.
func TestRatesOfTheLastSeconds(t *testing.T) {
	for _, every := range []time.Duration{20, 100, 200, 249, 250, 1000, 4000} {
		every *= time.Millisecond
		p := NewProgress(io.Discard, JSON, nil)
		now, s := time.Unix(0, 0), Snapshot{}
		run := func(d time.Duration, perS float64) {
			for range d / every {
				now = now.Add(every)
				s.Pages += int64(perS * every.Seconds())
				p.Show(s, now)
			}
		}
		run(40*time.Second, 500)
		if got, _ := p.rates(); got < 495 || got > 505 {
			t.Errorf("shown every %s: %.1f pages/s, want 500", every, got)
		}
		run(20*time.Second, 0)
		if got, _ := p.rates(); got != 0 {
			t.Errorf("shown every %s: %.1f pages/s after 20 s without pages, want 0", every, got)
		}
		if n := len(p.samples); n > 85 {
			t.Errorf("shown every %s: %d samples, want at most 85", every, n)
		}
	}
}
