package crawl

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/archive"
	"github.com/orbweaver/orbweaver/disk"
	"github.com/orbweaver/orbweaver/frontier"
	"github.com/orbweaver/orbweaver/scope"
	"github.com/orbweaver/orbweaver/seen"
	"github.com/orbweaver/orbweaver/weburl"
)

// A randomWeb is a small web and what a crawl of it must come to.
type randomWeb struct {
	text     string
	reach    map[string]bool          // URLs that a crawl from the seed meets
	delays   map[string]time.Duration // Crawl-delay of hosts
	response map[string]bool          // of those: which answer
}

func newRandomWeb(rng *rand.Rand, pages int) randomWeb {
	var b strings.Builder
	w := randomWeb{reach: map[string]bool{}, delays: map[string]time.Duration{}, response: map[string]bool{}}
	links := map[string][]string{}
	var urls, hosts []string
	for h := range 1 + rng.IntN(5) {
		host := fmt.Sprintf("h%d.example", h)
		hosts = append(hosts, host)
		fmt.Fprintf(&b, "dns %s 192.0.2.%d\n", host, 1+rng.IntN(3))
		if rng.IntN(3) == 0 {
			w.delays[host] = time.Second
			fmt.Fprintf(&b, "http://%s/robots.txt robots=User-agent:_*;Crawl-delay:_1\n", host)
		}
		urls = append(urls, "http://"+host+"/")
		for p := range rng.IntN(pages) {
			urls = append(urls, fmt.Sprintf("http://%s/%d", host, p))
		}
	}
	for _, u := range urls {
		fmt.Fprintf(&b, "%s", u)
		if rng.IntN(4) == 0 {
			fmt.Fprintf(&b, " slow=%dms", rng.IntN(400))
		}
		w.response[u] = true
		switch rng.IntN(12) {
		case 0:
			b.WriteString(" 404\n")
			continue
		case 1:
			to := urls[rng.IntN(len(urls))]
			links[u] = []string{to}
			fmt.Fprintf(&b, " 302 to=%s\n", to)
			continue
		case 2:
			b.WriteString(" same")
		case 3:
			fmt.Fprintf(&b, " size=%d", 1<<rng.IntN(16))
		case 4:
			b.WriteString(" 503 | 200")
		}
		for range rng.IntN(6) {
			to := urls[rng.IntN(len(urls))]
			links[u] = append(links[u], to)
			b.WriteString(" " + to)
		}
		b.WriteByte('\n')
	}
	todo := []string{urls[0]}
	w.reach[urls[0]] = true
	for len(todo) > 0 {
		u := todo[0]
		todo = todo[1:]
		for _, to := range links[u] {
			if !w.reach[to] {
				w.reach[to] = true
				todo = append(todo, to)
			}
		}
	}
	w.text = b.String()
	return w
}

// TestRecoveryModel ends crawls of random webs at random instants, by signal,
// kill and power failure, and holds the whole to what an undisturbed crawl
// would have come to.
func TestRecoveryModel(t *testing.T) {
	n := uint64(150)
	if testing.Short() {
		n = 20
	}
	for seed := range n {
		t.Run(fmt.Sprint("seed-", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { recoverOnce(t, seed, 0, seen.Config{}, 0) })
		})
	}
}

// The same with pages that are visited again: none of these visits is lost,
// none is counted twice.
func TestRecoveryModelAgain(t *testing.T) {
	n := uint64(40)
	if testing.Short() {
		n = 20
	}
	for seed := range n {
		t.Run(fmt.Sprint("seed-", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { recoverOnce(t, seed, 1+int(seed%3), seen.Config{}, 0) })
		})
	}
}

// The same where seen has hardly any memory: nearly all of its keys are on disk,
// and nearly all links are held back for a while.
func TestRecoveryModelHeld(t *testing.T) {
	n := uint64(40)
	if testing.Short() {
		n = 20
	}
	for seed := range n {
		t.Run(fmt.Sprint("seed-", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { recoverOnce(t, seed, 0, onDisk, 0) })
		})
	}
}

// The same where bits of seen's runs are lost now and then.
func TestRecoveryModelDamaged(t *testing.T) {
	n := uint64(40)
	if testing.Short() {
		n = 20
	}
	for seed := range n {
		t.Run(fmt.Sprint("seed-", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { recoverOnce(t, seed, 0, onDisk, 2500*time.Millisecond) })
		})
	}
}

func recoverOnce(t *testing.T, seed uint64, again int, sc seen.Config, damaged time.Duration) {
	rng := rand.New(rand.NewPCG(seed, 7))
	pages := 12
	if sc == onDisk {
		pages = 60
	}
	web := newRandomWeb(rng, pages)
	s := &story{
		cfg:      Config{Workers: 1 + rng.IntN(8), SnapshotBytes: 1 << (8 + rng.IntN(10)), DrainTimeout: 100 * time.Millisecond, MaxRedirects: 100},
		frontier: frontier.Config{HostDelay: 200 * time.Millisecond, SlowBase: time.Second, Seed: seed},
		scope:    scope.Config{Scope: scope.Any},
		seen:     sc,
	}
	s.fetch.UserAgent, s.fetch.AllowPrivate = "orbweaver", true
	if s.again = again > 0; s.again {
		s.strategy = func() Strategy { return &returner{follower: takeAll, n: again, every: 1} }
	}
	if rng.IntN(2) == 0 {
		s.frontier.IPDelay = 300 * time.Millisecond
	}
	u, err := weburl.Parse("http://h0.example/")
	if err != nil {
		t.Fatal(err)
	}
	s.seeds = []weburl.URL{u}
	at := time.Duration(0)
	for range rng.IntN(7) {
		at += time.Duration(rng.IntN(3000)) * time.Millisecond
		at += time.Millisecond
		p := pause{at: at, gap: time.Duration(rng.IntN(400)) * time.Millisecond}
		switch rng.IntN(5) {
		case 0:
		case 1, 2:
			p.kill = true
		default:
			p.crash = true
		}
		s.pauses = append(s.pauses, p)
		at += p.gap + s.cfg.DrainTimeout
	}
	s.web = parseWeb(t, web.text)
	if damaged > 0 {
		defer s.damage(rand.New(rand.NewPCG(seed, 9)), 12, damaged)()
	}
	w := s.run(t)
	log := logText(w.lines(t))
	defer func() {
		if t.Failed() {
			t.Logf("seed %d, pauses %+v, config %+v\n%s\n%s\n%s", seed, s.pauses, s.cfg, web.text, s.web.requests(), log)
		}
	}()
	if w.stop != Finished || w.Pending() != 0 {
		t.Fatalf("stop %s, %d pending", w.stop, w.Pending())
	}
	if got := int(w.Tally.Finished()); got != len(web.reach) {
		t.Errorf("%d URLs finished, %d reachable", got, len(web.reach))
	}
	if s.again {
		sum := w.Tally.Summary(0, "")
		if want := (sum.Finished - sum.Status["404"] - sum.Status["302"]) * int64(again); sum.Revisits != want || sum.Unchanged+sum.Changed != want {
			t.Errorf("%d URLs visited again, %d unchanged and %d changed, want %d", sum.Revisits, sum.Unchanged, sum.Changed, want)
		}
	}
	s.checkRequests(t, web)
	s.check(t, w)
	have := archived(t, w.fs)
	for u := range web.reach {
		if have[u] == 0 && web.response[u] {
			t.Errorf("no record of %s", u)
		}
	}
}

// checkRequests holds the server's view to coverage, overlap and politeness.
func (s *story) checkRequests(t *testing.T, web randomWeb) {
	t.Helper()
	last := map[string]request{}
	visits := map[string][]request{}
	s.web.mu.Lock()
	defer s.web.mu.Unlock()
	for _, r := range s.web.asked {
		if before, ok := last[r.host]; ok {
			delay := 200 * time.Millisecond
			robots := strings.HasSuffix(before.url, "/robots.txt")
			if !robots || s.endedBetween(before.end, r.at) == nil {
				delay = max(delay, web.delays[r.host])
			}
			if r.at-before.end < delay {
				t.Errorf("%s at %s, %s after %s at %s", r.url, r.at, r.at-before.end, before.url, before.at)
			}
		}
		last[r.host] = r
		if !strings.HasSuffix(r.url, "/robots.txt") {
			visits[r.url] = append(visits[r.url], r)
		}
		if s.frontier.IPDelay > 0 {
			if before, ok := last[r.addr]; ok && r.at-before.end < s.frontier.IPDelay {
				t.Errorf("%s at %s, %s after %s on the same address", r.url, r.at, r.at-before.end, before.url)
			}
			last[r.addr] = r
		}
	}
	for u := range web.reach {
		if len(visits[u]) == 0 {
			t.Errorf("%s was never asked for", u)
		}
	}
	for u, rs := range visits {
		if !web.reach[u] {
			t.Errorf("%s is not reachable", u)
		}
		for i, r := range rs[:max(len(rs)-1, 0)] {
			if r.status == 503 || s.again {
				continue // asked for again on purpose
			}
			p := s.endedBetween(r.at, rs[i+1].at)
			switch {
			case p == nil:
				t.Errorf("%s at %s and at %s, without an end of the run in between", u, r.at, rs[i+1].at)
			case p.kill && r.end+150*time.Millisecond < p.at, p.crash && r.end+1300*time.Millisecond < p.at,
				!p.kill && !p.crash && r.end < p.at:
				t.Errorf("%s ended at %s, the run at %s (%+v), asked for again at %s", u, r.end, p.at, *p, rs[i+1].at)
			}
		}
	}
}

// endedBetween finds the first end of a run in a stretch of time.
func (s *story) endedBetween(from, to time.Duration) *pause {
	for i := range s.pauses {
		if p := &s.pauses[i]; p.at >= from && p.at <= to {
			return p
		}
	}
	return nil
}

// archived counts the captures of each URL.
func archived(t *testing.T, fs disk.FS) map[string]int {
	t.Helper()
	entries, err := fs.ReadDir(crawlDir + "/archive")
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]int{}
	for _, e := range entries {
		b, err := disk.ReadFile(fs, crawlDir+"/archive/"+e.Name(), 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		r := archive.NewReader(bytes.NewReader(b))
		for {
			rec, err := r.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if rec.Type() == "response" || rec.Type() == "revisit" {
				have[rec.URL()]++
			}
		}
	}
	return have
}
