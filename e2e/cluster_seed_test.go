package e2e

import (
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testweb"
	"github.com/orbweaver/orbweaver/internal/testweb/gen"
)

// An operator adds the seeds of two hosts to a crawl of one host, at one of two agents. Both hosts are fetched in
// whole, although both agents are killed at the answer, and a third agent joins that was started with the first seed
// alone.
func TestClusterSeeds(t *testing.T) {
	weighs(t, 3)
	b := bandOf(t, gen.Plain(36, 12), 5*bandDelay, 3, "2")
	truth, err := b.made.Reachable(gen.Bounds{Seeds: []gen.Seed{{}, {Host: 5}, {Host: 9}}, Scope: gen.SeedHosts,
		Robots: true})
	if err != nil {
		t.Fatal(err)
	}
	b.web = serve(t, testweb.Config{Origin: b.made, Truth: truth, LogEntries: 1 << 17,
		Promise: testweb.Promise{HostDelay: b.delay}})
	b.scope = "host"
	for i := range 2 {
		b.begin(i, "--agents", "2", "--api", "127.0.0.1:0", b.seed())
	}
	b.await(2)
	added := crawl(t.Context(), t, "ctl", "--dir", b.home(1), "seed", b.made.URL(5, 0), b.made.URL(9, 0), b.seed(),
		"--why", "more").must(t, 0).stdout
	if !strings.Contains(added, "3 seeds: 2 new, 1 known; 1 order extends the scope") {
		t.Errorf("ctl seed: %s", added)
	}
	for i := range 2 {
		b.ps[i].kill()
		b.ps[i] = start(t, "crawl", "--resume", "--dir", b.home(i), "--quiet")
	}
	b.begin(2, "--agents", "1", b.seed())
	b.finish(20)
}
