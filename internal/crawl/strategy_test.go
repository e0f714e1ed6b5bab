package crawl_test

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testparts"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/fetch"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// A follower is a Strategy that consists of one function.
type follower func(p *visit.Page, l *link.Link) visit.Choice

func (f follower) Follow(p *visit.Page, l *link.Link) visit.Choice { return f(p, l) }

// playWith runs the crawl of a story with a strategy to its end.
func playWith(t *testing.T, text string, st func() visit.Strategy) (*story, *world) {
	t.Helper()
	s := &story{text: text, strategy: st}
	s.parse(t)
	w := s.run(t)
	return s, w
}

// Links are visited in the order of their levels. Links that are not followed are not requested.
func TestLevels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		follow := func(p *visit.Page, l *link.Link) visit.Choice {
			path := l.URL.String()[len("http://a.example"):]
			switch {
			case strings.HasPrefix(path, "/urgent"):
				l.Level = 2
			case strings.HasPrefix(path, "/news"):
				l.Level = 1
			case strings.HasPrefix(path, "/dull"):
				return visit.Drop
			}
			if p.Status != 200 || !bytes.Contains(p.Body, []byte("<a ")) || p.Parsed == nil ||
				p.Header.Get("Content-Type") != "text/html" {
				t.Errorf("%s: page %d %q", l.URL, p.Status, p.Body)
			}
			return visit.Take
		}
		s, w := playWith(t, `
seed http://a.example/
dns a.example 192.0.2.1
http://a.example/ /1 /news1 /dull /2 /news2
http://a.example/news1 /urgent /3
`, func() visit.Strategy { return follower(follow) })
		want := "0s     a.example/robots.txt\n2s     a.example/\n4s     a.example/news1\n6s     a.example/urgent\n8s " +
			"    a.example/news2\n10s    a.example/1\n12s    a.example/2\n14s    a.example/3\n"
		if diff := cmp.Diff(want, s.web.Requests()); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
		s.check(t, w)

		// A kill does not change that.
		s = &story{text: s.text, strategy: s.strategy, pauses: []pause{{at: 4500 * time.Millisecond, kill: true}}}
		s.parse(t)
		w = s.run(t)
		want = strings.NewReplacer("6s     a", "6.5s   a", "8s     a", "8.5s   a", "10s    a", "10.5s  a", "12s    a",
			"12.5s  a", "14s    a", "14.5s  a").Replace(want)
		if diff := cmp.Diff(want, s.web.Requests()); diff != "" {
			t.Errorf("requests with a kill (-want +got):\n%s", diff)
		}
		s.check(t, w)
	})
}

// A levelReader is a Reader that gives links with the anchor text x the level of the digit in their path.
type levelReader struct {
	mu    sync.Mutex // guards asked
	asked map[string]int
}

func (*levelReader) SeedLevel() uint8 { return 5 }

func (*levelReader) Passed(*visit.Page) {}

func (r *levelReader) Follow(p *visit.Page, l *link.Link) visit.Choice {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked[l.URL.Path()]++
	for i := range p.Parsed.Links {
		if p.Parsed.Links[i].URL == l.URL && string(p.Parsed.Anchor(i)) == "x" {
			l.Level = l.URL.Path()[1] - '0'
		}
	}
	return visit.Take
}

// TestReader: a Reader finds the anchor texts, its seeds have their level, and it is not asked about links that the
// crawl knows already.
func TestReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &levelReader{asked: map[string]int{}}
		s, w := playWith(t, `
seed http://a.example/
seed http://a.example/second
dns a.example 192.0.2.1
http://a.example/ /4 /9 /1
http://a.example/9 /4 /2
`, func() visit.Strategy { return r })
		want := "0s     a.example/robots.txt\n2s     a.example/\n4s     a.example/9\n6s     a.example/second\n8s " +
			"    a.example/4\n10s    a.example/2\n12s    a.example/1\n"
		if diff := cmp.Diff(want, s.web.Requests()); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(map[string]int{"/4": 1, "/9": 1, "/1": 1, "/2": 1}, r.asked); diff != "" {
			t.Errorf("asked (-want +got):\n%s", diff)
		}
		s.check(t, w)
	})
}

// A returner wants each page n more times, at regular intervals. It remembers the number of visits,
// the time of the last one and the print of its content. It implements Postponer.
type returner struct {
	follower
	n, every int // seconds
	due      []returning
	restored int
	forgot   map[string]time.Time
}

func (r *returner) Forget(host string, at time.Time) {
	if r.forgot == nil {
		r.forgot = map[string]time.Time{}
	}
	r.forgot[host] = at
	for i := range r.due {
		r.forget(&r.due[i])
	}
}

// forget stops wanting d if its last visit was too early.
func (r *returner) forget(d *returning) {
	last := d.at.Add(-time.Duration(r.every) * time.Second)
	if at, ok := r.forgot[d.link.URL.Host()]; ok && !d.at.IsZero() && last.Before(at) {
		d.visits = r.n + 1
	}
}

type returning struct {
	link   link.Link
	at     time.Time
	visits int
	before visit.Before
	off    bool // it was put off
}

func (r *returner) Visited(v *visit.Visit) ([]byte, error) {
	if !v.Again && v.Status != 200 {
		return nil, nil
	}
	n := 1
	for i, d := range r.due {
		if d.link.URL == v.Link.URL {
			if !v.Again {
				return nil, fmt.Errorf("%s is not known as visited before", v.Link.URL)
			}
			n += d.visits
			r.due = append(r.due[:i], r.due[i+1:]...)
			break
		}
	}
	if v.Outcome == visit.Dropped {
		n = r.n + 1
	}
	link := link.Link{URL: v.Link.URL.Clone(), Hops: strings.Clone(v.Link.Hops), Seed: strings.Clone(v.Link.Seed)}
	r.due = append(r.due, returning{link, v.Now.Add(time.Duration(r.every) * time.Second), n, v.Response, false})
	return fmt.Appendf(nil, "%d %d %d", n, v.Now.UnixMilli(), v.Response.Print), nil
}

func (r *returner) Restore(l link.Link, state []byte) error {
	var n int
	var at int64
	var print uint64
	if _, err := fmt.Sscanf(string(state), "%d %d %d", &n, &at, &print); err != nil {
		return err
	}
	r.restored++
	for _, d := range r.due {
		if d.link.URL == l.URL {
			return fmt.Errorf("%s is restored twice", l.URL)
		}
	}
	r.due = append(r.due, returning{l, time.UnixMilli(at).Add(time.Duration(r.every) * time.Second), n,
		visit.Before{Print: print}, false})
	r.forget(&r.due[len(r.due)-1])
	return nil
}

func (r *returner) Next(now time.Time) (*visit.Wanted, time.Time, error) {
	var wake time.Time
	for i := range r.due {
		d := &r.due[i]
		switch {
		case d.at.IsZero() || d.visits > r.n:
		case d.at.After(now):
			if wake.IsZero() || d.at.Before(wake) {
				wake = d.at
			}
		default:
			d.at = time.Time{}
			before := d.before
			return &visit.Wanted{Link: d.link, Before: &before, Returned: d.off}, time.Time{}, nil
		}
	}
	return nil, wake, nil
}

func takeAll(*visit.Page, *link.Link) visit.Choice { return visit.Take }

// Pages are visited again. The crawl tells unchanged pages from changed ones by the server's answer
// or by their bytes, and counts and archives them accordingly.
func TestAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := playWith(t, `
seed http://a.example/
dns a.example 192.0.2.1
http://a.example/ etag=1 /1 | etag=1 /1 | etag=2 /1 /2 | etag=2
http://a.example/1 200 | 200 | size=99
http://a.example/2
http://a.example/robots.txt robots=User-agent:_*;Disallow:
`, func() visit.Strategy { return &returner{follower: takeAll, n: 2, every: 60} })
		want := strings.TrimLeft(`
  200 a.example/robots.txt P
  200 a.example/
  200 a.example/1 L
  304 a.example/ [warcRevisit:notModified]
  200 a.example/1 L [duplicate:digest]
  200 a.example/
  200 a.example/2 L
  200 a.example/1 L
  200 a.example/2 L [duplicate:digest]
  200 a.example/2 L [duplicate:digest]
`, "\n")
		if diff := cmp.Diff(want, logText(w.parts.Lines(t, w.fs))); diff != "" {
			t.Errorf("log (-want +got):\n%s", diff)
		}
		sum := w.Tally.Summary(0, "")
		if sum.Finished != 3 || sum.Unique != 3 || sum.Pages != 8 || sum.Revisits != 6 || sum.Unchanged != 4 ||
			sum.Changed != 2 || sum.Status["304"] != 1 {
			t.Errorf("%+v", sum)
		}
		s.again = true
		s.check(t, w)
		recs := testparts.Captures(t, w.fs, "http://a.example/")
		if len(recs) != 3 || recs[0].Type != "response" || recs[1].Type != "revisit" ||
			recs[2].Type != "response" {
			t.Fatalf("%d records of /", len(recs))
		}
		for name, want := range map[string]string{
			"WARC-Profile": warc.ProfileNotModified, "WARC-Refers-To": recs[0].Header.Value("WARC-Record-ID"),
			"WARC-Refers-To-Target-URI": "http://a.example/", "WARC-Refers-To-Date": recs[0].Header.Value("WARC-Date"),
		} {
			if got := recs[1].Header.Value(name); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
	})
}

// A page that is visited again does not count for its host's limit, but counts for the crawl's
// limit.
func TestAgainAndLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := playWith(t, "host-page-limit 1\npage-limit 3\nseed http://a.example/\ndns a.example 192.0.2.1\n"+
			"http://a.example/ /1\nhttp://a.example/1\n",
			func() visit.Strategy { return &returner{follower: takeAll, n: 100, every: 10} })
		sum := w.Tally.Summary(0, "")
		if w.stop != crawl.PageLimit || sum.Pages != 3 || sum.Revisits != 2 || sum.Status["-5003"] != 1 {
			t.Errorf("%s, %+v", w.stop, sum)
		}
		s.again = true
		s.check(t, w)
	})
}

// A journal continues with a condition that no server may see.
func TestBadCondition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &story{text: "seed http://a.example/\ndns a.example 192.0.2.1\nhttp://a.example/\n"}
		r := &returner{follower: takeAll, n: 1, every: 10}
		s.strategy = func() visit.Strategy { return bad{r} }
		s.parse(t)
		w := s.opened(t, testdisk.NewMem())
		if _, err := w.Run(t.Context()); err == nil || !strings.Contains(err.Error(), fetch.ErrHeader.Error()) {
			t.Errorf("error %v", err)
		}
		must.Do(t, w.close())
	})
}

type bad struct{ *returner }

func (b bad) Next(now time.Time) (*visit.Wanted, time.Time, error) {
	w, wake, err := b.returner.Next(now)
	if w != nil {
		w.Before.If.ETag = "\r\nX: y"
	}
	return w, wake, err
}

func (r *returner) PutOff(w *visit.Wanted, until time.Time) error {
	for i := range r.due {
		if d := &r.due[i]; d.link.URL == w.Link.URL && d.at.IsZero() {
			d.at, d.off = until, true
			return nil
		}
	}
	return fmt.Errorf("%s is put off and was not wanted", w.Link.URL)
}

// TestWhaleAgain: a host has far more due pages than it can answer, and more than there are places.
// It does not keep another host waiting. It gets visits without a pause itself, and each of its
// pages gets a turn.
func TestWhaleAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := "delay 1s\ntime-limit 300s\nseed http://a.example/\nseed http://b.example/\ndns a.example 192.0.2.1\n" +
			"dns b.example 192.0.2.2\nhttp://b.example/\nhttp://a.example/"
		for i := range 60 {
			text += fmt.Sprint(" /", i)
		}
		for i := range 60 {
			text += fmt.Sprint("\nhttp://a.example/", i)
		}
		s, w := playWith(t, text+"\n", func() visit.Strategy {
			return &returner{follower: takeAll, n: 1 << 30, every: 3}
		})
		visits := map[string]int{}
		for _, r := range s.web.Told() {
			visits[r.URL]++
		}
		if n := visits["http://b.example/"]; n < 70 {
			t.Errorf("the other host's page was visited %d times in 300 s, due every 3 s", n)
		}
		all := 0
		for i := range 60 {
			n := visits[fmt.Sprint("http://a.example/", i)]
			if all += n; n < 2 {
				t.Errorf("/%d was visited %d times", i, n)
			}
		}
		if all < 280 {
			t.Errorf("the whale's pages were visited %d times in 300 s, once a second at the most", all)
		}
		t.Logf("whale %d visits, other %d", all, visits["http://b.example/"])
		s.again = true
		s.check(t, w)
	})
}
