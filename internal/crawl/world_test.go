package crawl_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/rate"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/keyset"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testparts"
	"github.com/orbweaver/orbweaver/internal/testkit/textweb"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/fetch"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/scope"
	"github.com/orbweaver/orbweaver/internal/web/sheet"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var update = flag.Bool("update", false, "write what the stories come to into their files")

// A story is a crawl in text: settings and a web, then the expected events.
type story struct {
	cfg       crawl.Config
	frontier  frontier.Config
	scope     scope.Config
	seen      keyset.Config
	fetch     fetch.Config
	rate      rate.Limit
	seeds     []weburl.URL
	bare      []weburl.URL // seeds without a scheme
	pauses    []pause      // ends of runs before the last one
	web       *textweb.Web
	strategy  func() visit.Strategy        // called for each process; nil: none
	again     bool                         // URLs may be visited again
	name      string                       // of the agent, if there are several
	with      func(r *crawl.Parts) error   // adds parts that the story needs
	recovered func(crawl.Recovered)        // is told what each process has recovered
	disk      atomic.Pointer[testdisk.Mem] // of the last process
	dir       string                       // of the crawl; empty: crawlDir
	links     int64                        // size of a file of the link log; 0: there is none
	archive   int64                        // size of a WARC file; 0: the usual one
	earlier   warc.Earlier
	cookies   bool // servers' cookies are sent back

	agent // gives the commands

	text string            // settings and web as text
	want map[string]string // the expected text of each section
}

// A pause ends a run: by a signal, or by a kill of the process.
type pause struct {
	at    time.Duration
	end   bool // the run ends by itself
	kill  bool
	crash bool
	takes func(name string) bool // the crash affects only these files; nil: all
	then  func(*testdisk.Mem)    // runs before the next process starts
	gap   time.Duration
}

func readStory(t *testing.T, file string) *story {
	t.Helper()
	b, err := os.ReadFile(file)
	must.Do(t, err)
	part := strings.Split("\n"+string(b), "\n-- ")
	s := &story{text: strings.TrimPrefix(part[0], "\n"), want: map[string]string{}}
	for _, p := range part[1:] {
		name, body, _ := strings.Cut(p, "\n")
		if body = strings.TrimRight(body, "\n"); body != "" {
			body += "\n"
		}
		s.want[name] = body
	}
	s.parse(t)
	return s
}

// parsed returns the story of a text.
func parsed(t *testing.T, text string) *story {
	t.Helper()
	s := &story{text: text}
	s.parse(t)
	return s
}

// includes matches a line "include FILE": the lines of that file of testdata/orders stand there.
var includes = regexp.MustCompile(`(?m)^include .*$`)

func (s *story) parse(t *testing.T) {
	t.Helper()
	s.frontier.Seed = 1
	s.scope.Scope = scope.Any
	s.fetch = fetch.Config{UserAgent: "orbweaver", AllowPrivate: true}
	var web strings.Builder
	text := includes.ReplaceAllStringFunc(s.text, func(line string) string {
		b, err := os.ReadFile("testdata/orders/" + strings.TrimPrefix(line, "include "))
		must.Do(t, err)
		return string(b)
	})
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) == 0 || f[0] == "#" {
			continue
		}
		arg := func(i int) string {
			if i >= len(f) {
				t.Fatalf("story: %q", line)
			}
			return f[i]
		}
		num := func() int64 {
			var n int64
			if _, err := fmt.Sscan(arg(1), &n); err != nil {
				t.Fatalf("story: %q: %v", line, err)
			}
			return n
		}
		switch f[0] {
		case "seed":
			rest, bare := strings.CutPrefix(arg(1), "//") // given without a scheme
			if bare {
				rest = "https://" + rest
			}
			u, err := weburl.Parse(rest)
			must.Do(t, err)
			s.seeds = append(s.seeds, u)
			if bare {
				s.bare = append(s.bare, u)
			}
		case "delay":
			s.frontier.HostDelay = textweb.Duration(t, arg(1))
		case "ip-delay":
			s.frontier.IPDelay = textweb.Duration(t, arg(1))
		case "slow-base":
			s.frontier.SlowBase = textweb.Duration(t, arg(1))
		case "forgive-after":
			s.frontier.ForgiveAfter = textweb.Duration(t, arg(1))
		case "workers":
			s.cfg.Workers = int(num())
		case "slow-visits":
			s.cfg.SlowVisits = int(num())
		case "retries":
			s.cfg.Retries = int(num())
		case "retry-wait":
			s.cfg.RetryWait = textweb.Duration(t, arg(1))
		case "max-redirects":
			s.cfg.MaxRedirects = int(num())
		case "page-limit":
			s.cfg.PageLimit = num()
		case "host-page-limit":
			s.cfg.HostPageLimit = num()
		case "size-limit":
			s.cfg.SizeLimit = num()
		case "time-limit":
			s.cfg.TimeLimit = textweb.Duration(t, arg(1))
		case "disk": // of so many bytes, of which one is taken each second; so many must stay free
			var began time.Time
			size := uint64(num())
			_, err := fmt.Sscan(arg(2), &s.cfg.MinFreeDisk)
			must.Do(t, err)
			s.cfg.Disk = filling(func() disk.Space {
				if began.IsZero() {
					began = time.Now()
				}
				return disk.Space{Free: size - min(uint64(time.Since(began)/time.Second), size), Size: size}
			})
		case "drain-timeout":
			s.cfg.DrainTimeout = textweb.Duration(t, arg(1))
		case "rate":
			s.rate.Requests = float64(num())
		case "cookies":
			s.cookies = true
		case "connect-to":
			s.fetch.ConnectTo = append(s.fetch.ConnectTo, arg(1))
		case "no-keep":
			s.fetch.IdleKeep = -1
		case "keep":
			var err error
			if s.cfg.Keep, err = sheet.ParseKeep("keep", f[1:]); err != nil {
				t.Fatal(err)
			}
		case "obey-noarchive":
			s.cfg.ObeyNoArchive = true
		case "requisites":
			s.cfg.Requisites = true
		case "sitemaps":
			s.cfg.Sitemaps.Follow = true
			for _, u := range f[1:] {
				s.cfg.Sitemaps.Named = append(s.cfg.Sitemaps.Named, weburl.MustParse(u))
			}
		case "sitemap-from":
			at, err := time.Parse(time.DateOnly, arg(1))
			must.Do(t, err)
			s.cfg.Sitemaps.From = at
		case "seed-roots":
			s.cfg.SeedRoots = true
		case "depth", "host-depth":
			n := int(num())
			if f[0] == "depth" {
				s.scope.Depth = &n
			} else {
				s.scope.HostDepth = &n
			}
		case "scope":
			var k scope.Kind
			must.Do(t, k.UnmarshalText([]byte(arg(1))))
			s.scope.Scope = k
		case "exclude":
			s.scope.Exclude = f[1:]
		case "again": // each page is visited N more times, at an interval in seconds
			n, every := int(num()), 0
			_, err := fmt.Sscan(arg(2), &every)
			must.Do(t, err)
			s.again, s.strategy = true, func() visit.Strategy {
				return &returner{follower: takeAll, n: n, every: every}
			}
		case "delay-factor":
			s.cfg.DelayFactor = float64(num())
		case "delay-max":
			s.cfg.DelayMax = textweb.Duration(t, arg(1))
		case "delay-of-all": // an order
			d := textweb.Duration(t, arg(1))
			s.frontier.Delays, s.cfg.WhyDelay = delayOfAll(d), delayOfAll(d)
		case "at":
			s.commands = append(s.commands, parseCommand(t, f[1:]))
		case "run": // run 5s signal|kill|crash [gap]
			p := pause{at: textweb.Duration(t, arg(1)), kill: arg(2) == "kill", end: arg(2) == "end",
				crash: arg(2) == "crash"}
			if len(f) > 3 {
				p.gap = textweb.Duration(t, f[3])
			}
			s.pauses = append(s.pauses, p)
		default:
			web.WriteString(line)
		}
	}
	s.noting = len(s.commands) > 0
	s.web = textweb.Parse(t, web.String())
	s.fetch.Lookup = func(ctx context.Context, host string) ([]netip.Addr, error) {
		a, err := s.web.Lookup(ctx, host)
		return a.Addrs, err
	}
}

// A world is one process: a Crawler with its parts, wired as in package node.
type world struct {
	*crawl.Crawler
	crawl.Parts
	fs    disk.FS
	parts *testparts.Parts
	rec   crawl.Recovered
	dead  atomic.Bool
	stop  crawl.Stop // how the last run of a story ended
}

const crawlDir = testparts.Dir

func (s *story) open(fs disk.FS) (w *world, err error) {
	w = &world{fs: fs}
	if m, ok := fs.(*testdisk.Mem); ok {
		s.disk.Store(m)
	}
	fr := s.frontier
	fr.ClassOf = func(l *link.Link) uint8 { return w.Applications.ClassOf(l) }
	w.parts, err = testparts.Open(fs, testparts.Config{Dir: s.dir, Frontier: fr, Scope: s.scope, Seen: s.seen,
		Fetch: s.fetch, Dial: s.web.Dialer(s.name, w.dead.Load), RetryWait: s.cfg.RetryWait, Seeds: s.seeds,
		LinkLogBytes: s.links, ArchiveBytes: s.archive, Earlier: s.earlier,
		Accept: func(items []keyset.Item) error { return w.Intake.Accept(items) }})
	if err != nil {
		return nil, err
	}
	p := w.parts
	r := crawl.Parts{Robots: p.Robots, Tally: p.Tally, Queries: p.Queries, DNS: s.web, Fetch: p.Fetch,
		Scope: p.Scope, Log: p.Log, Events: p.Events, Skipped: p.Skipped, Archive: p.Archive, Frontier: p.Frontier,
		Seen: p.Seen, Journal: p.Journal, LinkLog: p.LinkLog, Delivery: p.Delivery}
	if !s.rate.None() {
		r.Rate = rate.New(clock.System)
		r.Rate.Set(s.rate, 1, time.Time{})
	}
	if s.with != nil {
		if err := s.with(&r); err != nil {
			return nil, err
		}
	}
	if s.strategy != nil {
		r.Strategy = s.strategy()
	}
	cfg := s.cfg
	cfg.ResumeWait = max(s.frontier.HostDelay, s.frontier.IPDelay, 2*time.Second)
	if s.cookies {
		cfg.KeepCookies()
	}
	w.Crawler, w.Parts = crawl.New(cfg, r), r
	if w.rec, err = w.Recover(fs, p.JournalDir(), p.Intact, time.Now()); err != nil {
		return nil, err
	}
	if s.recovered != nil {
		s.recovered(w.rec)
	}
	bare := map[weburl.URL]bool{}
	for _, u := range s.bare {
		bare[u] = true
	}
	return w, w.Intake.Seed(s.seeds, bare)
}

// opened is open for a test that an error ends.
func (s *story) opened(t testing.TB, fs disk.FS) *world {
	t.Helper()
	w, err := s.open(fs)
	must.Do(t, err)
	return w
}

// filling is a disk that fills up.
type filling func() disk.Space

func (f filling) Space() disk.Space { return f() }

// bubble runs a subtest in virtual time.
func bubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

// ran returns a function for the result of a run, which fails the test if the run ended with an error.
func ran(t *testing.T) func(crawl.Stop, error) {
	return func(_ crawl.Stop, err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
}

// finished is ran for a run that must have finished.
func finished(t *testing.T) func(crawl.Stop, error) {
	return func(stop crawl.Stop, err error) {
		t.Helper()
		if stop != crawl.Finished || err != nil {
			t.Errorf("the run ended with %q, %v, want %q", stop, err, crawl.Finished)
		}
	}
}

func (w *world) close() error { return w.parts.Close() }

// kill abandons the process: nothing that it does from now on has an effect.
func (w *world) kill(stop context.CancelFunc) *testdisk.Mem {
	left := w.fs.(*testdisk.Mem).Clone()
	w.dead.Store(true)
	stop()
	return left
}

// run plays the story. It returns the last process, which has ended and is still open.
func (s *story) run(t *testing.T) *world {
	t.Helper()
	mem := testdisk.NewMem()
	for _, p := range s.pauses {
		drain := s.cfg.DrainTimeout
		if p.kill || p.crash {
			s.cfg.DrainTimeout = time.Nanosecond
		}
		w := s.opened(t, mem)
		s.cfg.DrainTimeout = drain
		s.accounts(t, w)
		ctx, cancel := context.WithCancel(context.Background())
		s.orders(t, w)
		ended := w.background(ctx, t)
		s.obey(t, w, p.at)
		time.Sleep(time.Until(s.web.Start.Add(p.at)))
		synctest.Wait()
		switch {
		case p.kill:
			mem = w.kill(cancel)
		case p.crash:
			if p.takes != nil {
				mem = mem.CrashOf(p.takes)
			} else {
				mem = mem.Crash(uint64(p.at))
			}
			w.kill(cancel)
		}
		if !p.end {
			cancel()
		}
		stop := <-ended
		if stop != crawl.Signal && !p.end && stop != crawl.Finished {
			t.Fatalf("the run until %s ended before: %s", p.at, stop)
		}
		if !p.kill && !p.crash {
			s.ended(p.at.String(), w, s.web.Start, stop)
			s.accounts(t, w)
		}
		cancel()
		must.Do(t, w.close())
		time.Sleep(p.gap)
		if p.then != nil {
			p.then(mem)
		}
	}
	w := s.opened(t, mem)
	s.accounts(t, w)
	s.orders(t, w)
	ended := w.background(t.Context(), t)
	s.obey(t, w, atEnd-1)
	stop := <-ended
	s.ended("end", w, s.web.Start, stop)
	s.obey(t, w, atEnd)
	w.stop = stop
	return w
}

// accounts checks that every URL is in exactly one place.
func (s *story) accounts(t *testing.T, w *world) {
	t.Helper()
	sum := w.Tally.Summary(0, "")
	if got := sum.Finished + sum.Sent + w.View.Pending(); got != sum.Unique {
		t.Errorf("%s: %d URLs finished + %d sent + %d pending = %d, accepted %d", s.name, sum.Finished, sum.Sent,
			w.View.Pending(), got, sum.Unique)
	}
}

func logText(ls []report.Line) string {
	ls = slices.Clone(ls)
	slices.SortStableFunc(ls, func(a, b report.Line) int {
		if c := a.Time.Compare(b.Time); c != 0 {
			return c
		}
		return strings.Compare(a.URL, b.URL)
	})
	var b strings.Builder
	for _, l := range ls {
		fmt.Fprintf(&b, "%5d %s", l.Code, strings.TrimPrefix(l.URL, "http://"))
		if l.Hops != "" {
			fmt.Fprintf(&b, " %s", l.Hops)
		}
		if len(l.Notes) > 0 {
			fmt.Fprintf(&b, " [%s]", strings.Join(l.Notes, ","))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// check compares the end of a story with the invariants of every story.
func (s *story) check(t *testing.T, w *world) {
	t.Helper()
	s.accounts(t, w)
	if s.web.Busy != "" {
		t.Errorf("%s had two requests at once", s.web.Busy)
	}
	killed := slices.ContainsFunc(s.pauses, func(p pause) bool { return p.kill || p.crash })
	finished := int64(0)
	seen := map[string]bool{}
	for _, l := range w.parts.Lines(t, w.fs) {
		if strings.HasSuffix(l.Hops, "P") {
			continue
		}
		if seen[l.URL] && s.again {
			continue
		}
		finished++
		if seen[l.URL] && !killed && !s.cookies {
			t.Errorf("two lines for %s", l.URL)
		}
		seen[l.URL] = true
	}
	if n := w.Tally.Finished(); n != finished && !killed || n > finished {
		t.Errorf("%d URLs finished, %d lines in crawl.log", n, finished)
	}
	live := plain(w.Tally.Summary(0, ""))
	must.Do(t, w.close())
	testparts.Verify(t, w.fs)

	// The counts must agree with the journal.
	again := s.opened(t, w.fs)
	if diff := cmp.Diff(live, plain(again.Tally.Summary(0, ""))); diff != "" {
		t.Errorf("after replay (-live +replay):\n%s", diff)
	}
	s.accounts(t, again)
	if again.rec.Repeated != 0 {
		t.Errorf("%d to be repeated after an ordinary end", again.rec.Repeated)
	}
	must.Do(t, again.close())
}

// plain returns a Summary without the values that differ between runs.
func plain(s report.Summary) map[string]any {
	s.PeakMemory, s.Ended.Time, s.StopReason = 0, time.Time{}, ""
	b, _ := json.Marshal(s)
	var m map[string]any
	json.Unmarshal(b, &m)
	return m
}

// TestStories plays the stories in testdata. Each says which requests are made, and which lines crawl.log has. Those in
// testdata/orders have commands, and say what each answers.
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/*/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, file := range files {
		bubble(t, strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			readStory(t, file).play(t, file)
		})
	}
}

// play runs the story and compares it with the sections of its file, or writes them.
func (s *story) play(t *testing.T, file string) {
	t.Helper()
	w := s.run(t)
	got := map[string]string{"answers": s.answers.String(), "requests": s.web.Requests(),
		"log": logText(w.parts.Lines(t, w.fs)), "stop": string(w.stop) + "\n"}
	if s.check(t, w); *update {
		text := strings.TrimRight(s.text, "\n") + "\n"
		for _, name := range []string{"answers", "requests", "log", "stop"} {
			if name != "answers" || got[name] != "" {
				text += "-- " + name + "\n" + got[name]
			}
		}
		must.Do(t, os.WriteFile(file, []byte(text), 0o644))
		return
	}
	for name, text := range got {
		if diff := cmp.Diff(s.want[name], text); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// delayOfAll is an order that gives all hosts a delay.
type delayOfAll time.Duration

func (d delayOfAll) Of(string) (time.Duration, bool) { return time.Duration(d), true }
func (d delayOfAll) Why(host string) string          { return "order of " + host }
