package gen

import (
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testweb"
)

// TestNothingIsStored: a hundred million hosts need no more memory than one.
func TestNothingIsStored(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	w := newWeb(t, Plain(1, 100_000_000))
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 64<<20 {
		t.Errorf("New allocates %d bytes, want at most 64 MiB", got)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	var dst []byte
	for range 500 {
		h := rng.Int64N(w.Hosts())
		o := w.Host(h)
		if got, ok := w.Find(o.Name); !ok || got != h || o.Pages < 1 || !o.Addr.IsLoopback() {
			t.Fatalf("host %d: %+v, found as %d, %v", h, o, got, ok)
		}
		p := rng.Int64N(o.Pages)
		var r testweb.Reply
		dst, r = w.Answer(dst[:0], testweb.Query{Host: h, Target: w.Target(h, p), Gzip: true})
		if r.Status != 200 || r.Page != p {
			t.Fatalf("%s: %+v, want page %d", w.URL(h, p), r, p)
		}
	}
}

// TestAnswerAllocatesNothing: Answer allocates nothing for an ordinary page.
func TestAnswerAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector empties pools at random")
	}
	w := newWeb(t, Spec{Hosts: 1000, Topics: 3, Languages: 2, Denied: 0.02})
	list := make([]string, 100)
	for h := range list {
		list[h] = w.Target(int64(h), w.Pages(int64(h))-1)
	}
	var dst []byte
	for _, gz := range []bool{false, true} {
		all := func() {
			for h, target := range list {
				dst, _ = w.Answer(dst[:0], testweb.Query{Host: int64(h), Target: target, Gzip: gz})
			}
		}
		all()
		if n := testing.AllocsPerRun(10, all); n > 1 { // the pool may be emptied once
			t.Errorf("gzip %v: got %g allocations for 100 pages, want at most 1", gz, n)
		}
	}
}

// TestSizesFollowThePowerLaw checks the mean of the sizes, and the share of hosts above two sizes.
func TestSizesFollowThePowerLaw(t *testing.T) {
	for _, test := range []struct {
		hosts int64
		mean  float64
	}{{1000, 100}, {20_000, 30}, {1_000_000, 3}, {300_000, 1000}} {
		for seed := range uint64(3) {
			w := newWeb(t, Spec{Seed: seed, Hosts: test.hosts, PagesMean: test.mean})
			sum, small, large := 0.0, 0.0, 0.0
			for h := range w.Hosts() {
				n := float64(w.Pages(h))
				sum += n
				if n >= 2*test.mean {
					small++
				}
				if n >= 16*test.mean {
					large++
				}
			}
			got := sum / float64(test.hosts)
			if math.Abs(got/test.mean-1) > 0.03 {
				t.Errorf("%d hosts, seed %d: mean %.2f, want %g", test.hosts, seed, got, test.mean)
			}
			// Hosts of eight times the size are a sixteenth as frequent (8^(4/3)).
			if ratio := small / large; ratio < 12 || ratio > 20 {
				t.Errorf("%d hosts, seed %d: %g hosts with twice the mean, %g with sixteen times; want a ratio of 16",
					test.hosts, seed, small, large)
			}
		}
	}
}

// TestLinksAreSpreadAsSaid checks links (number, share within the site, topics, languages) and page lengths.
func TestLinksAreSpreadAsSaid(t *testing.T) {
	w := newWeb(t, Plain(2, 100_000))
	rng := rand.New(rand.NewPCG(8, 9))
	var refs []Ref
	var links, local, home, outside, topic, lang int
	indegree := map[int64]int{}
	const pages = 4000
	bytes := 0
	var b builder
	for range pages {
		h := rng.Int64N(w.Hosts())
		p := rng.Int64N(w.Pages(h))
		s, _ := site(h)
		tp, la := w.topicAndLanguage(h)
		refs = w.Links(h, p, refs[:0])
		links += len(refs)
		for _, r := range refs {
			if to, _ := site(r.Host); to == s {
				local++
				continue
			}
			outside++
			if r.Page == 0 {
				home++
			}
			tp2, la2 := w.topicAndLanguage(r.Host)
			if tp == tp2 {
				topic++
			}
			if la == la2 {
				lang++
			}
			indegree[r.Host]++
		}
		l := w.compose(&b, h, p, 0)
		bytes += l.size
	}
	near := func(what string, got, want, by float64) {
		t.Helper()
		if math.Abs(got-want) > by {
			t.Errorf("%s: %.3f, want %.3f", what, got, want)
		}
	}
	near("links a page", float64(links)/pages, 50, 1)
	near("share within the site", float64(local)/float64(links), 0.8, 0.01)
	near("share to home pages", float64(home)/float64(outside), 7./8, 0.02)
	near("share within the topic", float64(topic)/float64(outside), 0.7+0.3/15, 0.02)
	near("share within the language", float64(lang)/float64(outside), 0.7+0.3*0.12, 0.05)
	near("bytes a page", float64(bytes)/pages, 22_300, 0.02*22_300)
	most := 0
	for _, n := range indegree {
		most = max(most, n)
	}
	if most < 50 || most > outside/50 {
		t.Errorf("the most popular host has %d of %d links, want between 50 and 2 %%", most, outside)
	}
}

// TestAddresses: hosts share addresses as the Spec says.
func TestAddresses(t *testing.T) {
	for _, test := range []struct {
		spec     Spec
		min, max int
	}{
		{Spec{Hosts: 10_000}, 3000, 4000},
		{Spec{Hosts: 10_000, Addresses: 7}, 7, 7},
		{Spec{Hosts: 10_000, Addresses: -1}, 10_000, 10_000},
		{Spec{Hosts: 200_000, Addresses: -1}, 200_000, 200_000},
	} {
		w := newWeb(t, test.spec)
		used := map[string]int{}
		for h := range w.Hosts() {
			a := w.Host(h).Addr
			if b := a.As4(); b[0] != 127 || b[1] == 0 || b[1] == 255 || b[3] == 0 || b[3] == 255 {
				t.Fatalf("host %d: got address %s, want one from 127.1.0.1 to 127.254.255.254", h, a)
			}
			used[a.String()]++
		}
		if len(used) < test.min || len(used) > test.max {
			t.Errorf("%+v: %d addresses, want %d to %d", test.spec, len(used), test.min, test.max)
		}
	}
}

// TestRolesAndFates: the shares in the web equal the shares in the Spec.
func TestRolesAndFates(t *testing.T) {
	s := Wild(3, 20_000)
	s.PagesMean = 50
	w := newWeb(t, s)
	hosts := map[string]float64{}
	pages, all := map[string]float64{}, 0.0
	names := [...]string{
		"fine", "failing", "busy", "slow", "duplicate", "gone", "broken", "hanging", "resetting", "truncated",
	}
	for h := range w.Hosts() {
		switch w.role(h) {
		case mirror:
			hosts["mirror"]++
			continue
		case closed:
			hosts["closed"]++
		case dead:
			hosts["dead"]++
			if o := w.Host(h); (o.DNS != "" || o.TLS != "") == (w.death(h) == hangs || w.death(h) == resets) {
				t.Fatalf("dead host %+v", o)
			}
		}
		if w.trapped(h) {
			hosts["trapped"]++
		}
		if w.secure(h) {
			hosts["secure"]++
		}
		if w.Host(h).CrawlDelay > 0 {
			hosts["delay"]++
		}
		for p := range w.Pages(h) {
			all++
			pages[names[w.fate(h, p)]]++
			if p > 0 && w.private(h, p, w.hash(saltPath, h, p)) {
				pages["denied"]++
			}
		}
	}
	for _, test := range []struct {
		what      string
		got, want float64
	}{
		{"mirrors", hosts["mirror"] / 20_000, s.Mirrors}, {"closed", hosts["closed"] / 20_000, s.ClosedHosts},
		{"dead", hosts["dead"] / 20_000, s.DeadHosts}, {"trapped", hosts["trapped"] / 20_000, s.Traps},
		{"secure", hosts["secure"] / 20_000, s.Secure}, {"delay", hosts["delay"] / 20_000, s.CrawlDelays},
		{"failing", pages["failing"] / all, s.Failing}, {"busy", pages["busy"] / all, s.Busy},
		{"slow", pages["slow"] / all, s.Slow}, {"duplicate", pages["duplicate"] / all, s.Duplicates},
		{"gone", pages["gone"] / all, s.Gone}, {"broken", pages["broken"] / all, s.Broken},
		{"hanging", pages["hanging"] / all, s.Hanging}, {"denied", pages["denied"] / all, s.Denied},
	} {
		if math.Abs(test.got/test.want-1) > 0.2 {
			t.Errorf("%s: share %.4f, want %.4f", test.what, test.got, test.want)
		}
	}
}

func TestSpecs(t *testing.T) {
	for _, bad := range []Spec{
		{Hosts: -1}, {Hosts: 1 << 50}, {PagesMean: 0.5}, {PagesMean: 1e12}, {PagesMean: math.NaN()},
		{MaxPages: 5, PagesMean: 10}, {PageBytes: -1}, {Links: -2}, {Links: 5000}, {Local: 1.5}, {Topics: 16},
		{Languages: 21}, {Denied: 2}, {Broken: -0.1}, {Slow: math.NaN()}, {Mirrors: 0.4, DeadHosts: 0.4},
		{Gone: 0.5, Broken: 0.5}, {CrawlDelay: -1},
	} {
		if _, err := New(bad); err == nil {
			t.Errorf("%+v: no error", bad)
		}
	}
	for _, good := range []Spec{
		{}, {Local: -1}, {Local: 1}, {Locality: -1}, {Links: 1}, {Hosts: 1}, {PagesMean: 1},
		{PagesMean: 2e6, Hosts: 3}, {MaxPages: 100},
	} {
		w := newWeb(t, good)
		for h := range min(w.Hosts(), 50) {
			if refs := w.Links(h, w.Pages(h)-1, nil); len(refs) > 2*50 {
				t.Errorf("%+v: got %d links, want at most 100", good, len(refs))
			}
		}
	}
}
