package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/orbweaver/orbweaver/internal/node/operate"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
)

// Seed makes an operator add seeds at an agent. No page links to them, and each answers 404: so that each is fetched,
// the agents must not forget it.
const Seed Kind = "seed"

// seedsAtOnce is the number of seeds of a Seed, each of another host.
const seedsAtOnce = 12

// seedText begins the paths of the seeds.
const seedText = "/added-"

// seeds makes an operator add seeds at an agent.
func (s *story) seeds(a *actor) {
	s.orderAt(a, true, func(o *operate.Operator) {
		var urls []string
		for range seedsAtOnce {
			n := s.judge.nextSeed()
			host, _ := s.made.Name(n % s.made.Hosts())
			urls = append(urls, fmt.Sprintf("http://%s%s%d", host, seedText, n))
		}
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
		defer cancel()
		r, err := o.AddSeeds(ctx, &pb.AddSeedsRequest{Urls: urls, Why: "story"})
		s.log("%s is given seeds: %v %v", a.name, r, err)
		for _, seed := range r.GetSeeds() {
			if err == nil && seed.Result != "refused" {
				s.judge.seeded(seed)
			}
		}
	})
}

// nextSeed returns the number of another seed.
func (j *judge) nextSeed() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.seedNumber++
	return j.seedNumber
}

// seeded records a seed that the agents have accepted.
func (j *judge) seeded(s *pb.Seed) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.seedsTaken = append(j.seedsTaken, s)
}

// judgeSeeds says which accepted seeds were not fetched, and how often others were fetched again. The caller holds mu.
func (j *judge) judgeSeeds(v *Verdict) {
	for _, s := range j.seedsTaken {
		v.Seeded++
		switch n := len(j.others[s.Url]); {
		case n == 0:
			v.SeedsMissed = append(v.SeedsMissed, fmt.Sprintf("%s, %s at %s: %q", s.Url, s.Result, s.Agent, s.Text))
		case n > 1:
			v.SeedsTwice += n - 1
		}
	}
}
