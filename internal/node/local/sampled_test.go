package local

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/testclock"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

// A steady crawl fetches a page a second, of 1000 bytes. Nil: it has not begun.
type steady struct {
	mu    sync.Mutex // guards began
	began *time.Time
}

func (s *steady) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.began = &now
}

func (s *steady) Status() *crawl.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.began == nil {
		return nil
	}
	st := new(crawl.Status)
	st.ElapsedS = time.Since(*s.began).Seconds()
	st.Pages = int64(st.ElapsedS)
	st.Bytes = 1000 * st.Pages
	return st
}

// sums returns the pages of all hours, and of the last sample, that a History has.
func sums(h *History) (hours, last int64, samples int) {
	for _, x := range h.series(&pb.HistoryRequest{Hours: true}).Hours {
		hours += x.Pages
		if x.Bytes != 1000*x.Pages {
			hours = -1
		}
	}
	list := h.series(&pb.HistoryRequest{}).Samples
	if len(list) > 0 {
		last = list[len(list)-1].Pages
	}
	return hours, last, len(list)
}

// The samples of a day and the hours of a month tell what was done, over restarts. A kill loses some minutes at most. A
// damaged file is replaced, and a disk that fails is told of.
func TestHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const file = "/crawl/state/history"
		mem := testdisk.NewMem()
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		must(mem.MkdirAll("/crawl/state", 0o755))
		events, err := report.OpenEvents(mem, "/crawl/events", clock.System)
		must(err)
		crawls := new(steady)
		open := func() *History {
			t.Helper()
			h, err := OpenHistory(mem, file, clock.System, events, crawls)
			must(err)
			return h
		}
		expect := func(h *History, when string, pages int64, within time.Duration) {
			t.Helper()
			hours, last, n := sums(h)
			if late := pages - last; hours != last || late < 0 || late > int64(within.Seconds()) || n > historyMost {
				t.Errorf("%s: %d pages in the hours, %d in the last of %d samples, want %d", when, hours, last, n,
					pages)
			}
		}
		h := open()
		end := h.Begin()
		time.Sleep(time.Hour)
		expect(h, "before the crawl", 0, 0)
		crawls.begin()
		time.Sleep(150 * time.Minute)
		events.Write("checkpoint")
		time.Sleep(150 * time.Minute)
		expect(h, "after five hours", 18_000, historyEvery)
		expect(open(), "killed", 18_000, historySave*historyEvery)
		checkpoints := int64(0)
		hours := h.series(&pb.HistoryRequest{Hours: true}).Hours
		for _, x := range hours {
			checkpoints += x.Checkpoints
		}
		if len(hours) < 5 || len(hours) > 6 || checkpoints != 1 {
			t.Errorf("%d hours with %d checkpoints", len(hours), checkpoints)
		}
		if n := len(h.series(&pb.HistoryRequest{Minutes: 60}).Samples); n < 119 || n > 121 {
			t.Errorf("%d samples of an hour", n)
		}
		if n := len(h.series(&pb.HistoryRequest{Points: 50}).Samples); n < 25 || n > 51 {
			t.Errorf("%d samples, at most about 50", n)
		}
		end()
		h = open()
		expect(h, "stopped", 18_000, historyEvery)
		end = h.Begin()
		time.Sleep(30 * time.Hour)
		expect(h, "after 35 hours", 126_000, historyEvery)
		end()
		h.clock = testclock.At(time.Now().Add(-time.Hour))
		if h.sample(); len(h.samples) > 0 && h.samples[len(h.samples)-1].UnixS < time.Now().Add(-time.Minute).Unix() {
			t.Error("a sample of a clock that was set back")
		}
		must(disk.WriteFile(mem, file, []byte("damaged")))
		if _, last, n := sums(open()); last != 0 || n != 0 {
			t.Errorf("%d samples of a damaged file", n)
		}
		must(errors.Join(mem.Remove(file), mem.MkdirAll(file, 0o755)))
		h.saveOrTell()
		must(events.Flush())
		b, err := disk.ReadFile(mem, "/crawl/events", 1<<20)
		if err != nil || !strings.Contains(string(b), "history-failed") {
			t.Errorf("events: %s, %v", b, err)
		}
	})
}

// A key of archived pages is valid for an hour and some of the next, and not for another agent or another run.
func TestArchiveKeys(t *testing.T) {
	now := time.Unix(1e9, 0).Truncate(archiveKeyTime)
	a, b := newArchiveKeys(), newArchiveKeys()
	for d, want := range map[time.Duration]bool{0: true, archiveKeyTime: true, 2*archiveKeyTime - time.Second: true,
		2 * archiveKeyTime: false, -time.Second: false} {
		if got := a.valid(a.at(now), now.Add(d)); got != want {
			t.Errorf("%s later it is valid: %v", d, got)
		}
	}
	if b.valid(a.at(now), now) || a.valid("", now) || a.at(now) == b.at(now) {
		t.Error("a key that this agent has not made is valid")
	}
}

// Of crawl.log, the last lines are shown that match, in their order.
func TestLog(t *testing.T) {
	mem := testdisk.NewMem()
	log, err := report.OpenLog(mem, "/crawl/logs/crawl.log")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		url := fmt.Sprintf("http://h%d.example/%d", i%3, i)
		log.Write(report.Line{Time: time.Unix(1e9, 0), Code: 200 + i%2, URL: url})
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	v := NewViews(Views{Logs: &Logs{FS: mem, Dir: "/crawl"}})
	for want, q := range map[string]*pb.LogRequest{
		"[97 98 99]":  {Limit: 3},
		"[91 94 97]":  {Limit: 3, Host: "h1.example"},
		"[0 6 12 18]": {Limit: 100, Host: "h0.example", Status: "200"},
		"[]":          {Limit: 3, Host: "x.example"},
	} {
		r, err := v.Log(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		pages := []string{}
		for _, l := range r.Lines {
			pages = append(pages, l.Url[len("http://h0.example/"):])
		}
		if got := fmt.Sprint(pages[:min(4, len(pages))]); got != want {
			t.Errorf("%v: %s, want %s", q, got, want)
		}
	}
	if _, err := v.Log(t.Context(), &pb.LogRequest{Limit: 3, Status: "many"}); err == nil {
		t.Error("a status that is none")
	}
}

// An agent is ready while its crawl runs, also if it is paused, and answers before and after that.
func TestMetrics(t *testing.T) {
	for name, c := range map[string]struct {
		status        *crawl.Status
		ready, paused float64
	}{
		"before the crawl": {},
		"crawls":           {&crawl.Status{}, 1, 0},
		"paused":           {&crawl.Status{Paused: true}, 1, 1},
		"ends":             {&crawl.Status{Stop: crawl.Finished}, 0, 0},
	} {
		reg := prometheus.NewRegistry()
		reg.MustRegister(&Metrics{Agent: "a1", Version: "1", Dir: t.TempDir(), Run: &fake{status: c.status}})
		families, err := reg.Gather()
		got := map[string]float64{}
		for _, f := range families {
			got[f.GetName()] = f.GetMetric()[0].GetGauge().GetValue()
		}
		if err != nil || got["orbweaver_crawl_ready"] != c.ready || got["orbweaver_crawl_paused"] != c.paused ||
			got["orbweaver_agent_info"] != 1 || got["orbweaver_build_info"] != 1 {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}
