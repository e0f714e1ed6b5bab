package e2e

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testweb"
	"github.com/orbweaver/orbweaver/internal/testweb/gen"
)

// A replaced is the loss of one of three machines with its disk, and what comes in
// its place. The times are seconds after the loss.
type replaced struct {
	name    string
	after   float64  // a new machine comes
	same    bool     // under the name of the lost one
	restart float64  // another agent is killed, and resumed at once; 0: none is
	second  float64  // yet another machine comes; 0: none does
	flags   []string // of all agents
}

// TestClusterReplaced kills one of three agents, deletes its directory and starts
// another one in its place, before the others have noticed. Every page is fetched,
// and the only pages that are fetched again are those that the killed agents had
// fetched in their last moments.
func TestClusterReplaced(t *testing.T) {
	for i, r := range []replaced{
		{name: "another name", after: 1},
		{name: "same name while another restarts", after: 1.5, same: true, restart: 1},
		{
			name: "same name before another restarts", after: 1, same: true, restart: 2,
			flags: []string{"--partition", "ring"},
		},
		{name: "two while another restarts", after: 4, second: 5, restart: 6},
	} {
		t.Run(strings.ReplaceAll(r.name, " ", "-"), func(t *testing.T) { r.play(t, 41+uint64(i), size{24, 80}) })
	}
}

// TestClusterReplacedLarge does so in a crawl of some 50,000 pages. Here all pages
// count that are answered twice, also those of the last moments before a kill: at
// most one of a thousand.
func TestClusterReplacedLarge(t *testing.T) {
	if !*long {
		t.Skip("told with -long")
	}
	for i, r := range []replaced{
		{name: "another name", after: 1},
		{name: "same name while another restarts", after: 1.5, same: true, restart: 1},
		{name: "two while another restarts", after: 4, second: 5, restart: 6},
	} {
		t.Run(strings.ReplaceAll(r.name, " ", "-"), func(t *testing.T) {
			twice, all := r.play(t, 61+uint64(i), size{24, 2100})
			if twice*1000 > all {
				t.Errorf("%d pages of %d were fetched twice", twice, all)
			}
		})
	}
}

// TestClusterReplacedAtRandom does so again and again, at random times within 20 s.
func TestClusterReplacedAtRandom(t *testing.T) {
	if !*long {
		t.Skip("told with -long")
	}
	for round := range 20 {
		rng := rand.New(rand.NewPCG(uint64(round), 77))
		r := replaced{after: 20 * rng.Float64(), same: rng.IntN(2) == 0}
		if rng.IntN(2) == 0 {
			r.restart = 0.1 + 20*rng.Float64()
		}
		if rng.IntN(2) == 0 {
			r.second = 0.1 + 20*rng.Float64()
		}
		t.Run(fmt.Sprint("round-", round), func(t *testing.T) {
			t.Logf("%+v", r)
			r.play(t, 100+uint64(round), size{24, 150})
		})
	}
}

// A killing is the kill of an agent, and for how long before that it had not been
// able to tell others of what it had fetched.
type killing struct {
	at     time.Time
	untold time.Duration
}

// A size is that of a web: its hosts, and how many pages each has, on average.
type size struct{ hosts, pages int64 }

// play crawls a web, and says how many of its pages were fetched twice.
func (r replaced) play(t *testing.T, seed uint64, s size) (twice, all int64) {
	web := gen.Plain(seed, s.hosts)
	web.PagesMean, web.MaxPages = float64(s.pages), 2*s.pages
	b := bandOf(t, web, 100*time.Millisecond, 3, "2")
	for i := range b.ps {
		b.begin(i, append([]string{"--agents", "3", "--api", "127.0.0.1:0", b.seed()}, r.flags...)...)
	}
	b.await(b.web.Report().Origin.Reachable / 8)
	const lost, other = 1, 2
	var ends []killing
	kill := func(i int) {
		untold := b.untold(i)
		at, killed := b.ps[i].kill()
		if !killed {
			t.Fatalf("a%d had ended before\n%s", i+1, events(t, b.home(i)))
		}
		ends = append(ends, killing{at, untold})
	}
	kill(lost)
	b.ps[lost] = nil
	if err := os.RemoveAll(b.home(lost)); err != nil {
		t.Fatal(err)
	}
	before := b.web.Report().Origin.Fetched
	began := time.Now()
	come := func(i int) func() {
		return func() {
			if i == len(b.ps) {
				b.ps, b.addrs = append(b.ps, nil), append(b.addrs, port(t))
			}
			args := append([]string{"--api", "127.0.0.1:0", b.seed()}, r.flags...)
			if i == lost { // with the command of the lost one
				args = append(args, "--agents", "3")
			}
			b.begin(i, args...)
		}
	}
	type event struct {
		after float64
		do    func()
	}
	place := lost
	if !r.same {
		place = 3
	}
	todo := []event{{r.after, come(place)}}
	if r.second > 0 {
		todo = append(todo, event{r.second, func() { come(len(b.ps))() }})
	}
	if r.restart > 0 {
		todo = append(todo, event{r.restart, func() {
			kill(other)
			b.begin(other, "--api", "127.0.0.1:0", "--resume")
		}})
	}
	if r.second > 0 && r.second < r.after && !r.same {
		todo[0].do = func() { come(len(b.ps))() }
	}
	slices.SortFunc(todo, func(a, b event) int { return cmp.Compare(a.after, b.after) })
	for _, e := range todo {
		time.Sleep(time.Until(began.Add(time.Duration(e.after * float64(time.Second)))))
		if slices.ContainsFunc(b.ps, func(p *process) bool { return p != nil && ended(p, time.Millisecond) }) {
			t.Logf("over before %v s", e.after)
			break
		}
		e.do()
	}
	all = b.web.Report().Origin.Reachable
	b.awaitFor(all-all/50, 2*time.Minute+time.Duration(all)*20*time.Millisecond)
	b.finish(all)
	twice, unexcused := b.repeatsOf(ends)
	t.Logf("lost after %d of %d pages, over after %s more; fetched twice: %d, %.3f %%", before, all,
		time.Since(began).Round(time.Second), twice, 100*float64(twice)/float64(all))
	if unexcused*1000 > all {
		t.Errorf("%d pages of %d were fetched twice, though others had been told of them", unexcused, all)
	}
	return twice, all
}

// repeatsOf counts the pages that were answered twice. Unexcused are all but those
// that were answered first in the last second before a kill, or in the time for which
// the killed agent had not been able to tell the others, and again after it. What was
// under way at the kill was answered shortly after it.
func (b *band) repeatsOf(ends []killing) (n, unexcused int64) {
	b.t.Helper()
	const asking = 500 * time.Millisecond   // ctl takes its time before the kill
	const underWay = 500 * time.Millisecond // the web takes its time to answer
	last := map[string]testweb.Entry{}
	b.web.WaitIdle(time.Minute)
	log := b.web.Log()
	if r := b.web.Report(); int64(len(log)) != r.Requests {
		b.t.Fatalf("%d of %d requests in the log", len(log), r.Requests)
	}
	for _, e := range log {
		if e.Aborted || e.Broken || strings.HasSuffix(e.URL, "/robots.txt") {
			continue
		}
		if old, ok := last[e.URL]; ok {
			n++
			if !slices.ContainsFunc(ends, func(k killing) bool {
				before := k.at.Sub(old.Ended)
				return before >= -underWay && before <= max(time.Second, k.untold+asking) && e.Began.After(k.at)
			}) {
				unexcused++
				b.t.Logf("%s: answered at %v and again at %v", e.URL, old.Ended, e.Began)
			}
		}
		last[e.URL] = e
	}
	b.t.Logf("%d pages answered twice, %d of them unexcused", n, unexcused)
	return n, unexcused
}
