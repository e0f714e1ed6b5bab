package lab

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// Every pushed link comes out once and in order. The test asserts nothing about the time.
func TestRunQueue(t *testing.T) {
	spec := must.Get(json.Marshal(QueueSpec{Dir: t.TempDir(), Seed: 3, Hosts: 500, Points: []int64{3000, 10_000}}))(t)
	var ps []QueuePoint
	out := &lines{fn: func(line []byte) {
		var p QueuePoint
		must.Do(t, json.Unmarshal(line, &p))
		ps = append(ps, p)
	}}
	if err := RunQueue(context.Background(), spec, out); err != nil || len(ps) != 2 {
		t.Fatalf("%d points, %v", len(ps), err)
	}
	for i, p := range ps {
		if p.Queued < []int64{3000, 10_000}[i] || p.Ops < 2*p.Queued || p.Wrong != 0 || p.Time <= 0 || p.Made <= 0 ||
			p.InRAM == 0 || p.Hosts < p.Queued/25 {
			t.Errorf("point %d: %+v", i, p)
		}
	}
	for _, bad := range []string{"", `{"Hosts":5}`, `{"Hosts":-1,"Points":[5]}`} {
		if err := RunQueue(context.Background(), []byte(bad), out); err == nil {
			t.Errorf("%q was run", bad)
		}
	}
}

func TestLinkMaker(t *testing.T) {
	spec := QueueSpec{Hosts: 50, Seed: 1}
	r := queueRun{last: make([]uint32, spec.Hosts)}
	if made, own, err := r.ownCost(spec); err != nil || made <= 0 || own <= 0 || r.last[0] != 0 {
		t.Error(made, own, err)
	}
	m := linkMaker{rand: newRand(1), hosts: 50}
	var p linkPage
	perHost := map[int64]int{}
	for range 100 {
		from := m.n
		must.Do(t, m.page(&p))
		for i := range p.links {
			host, n, err := linkNumbers(&p.links[i])
			if err != nil || n != from+int64(i) || host >= 50 {
				t.Fatalf("link %d: host %d, number %d, %v", from+int64(i), host, n, err)
			}
			perHost[host]++
		}
	}
	if len(perHost) != 50 || perHost[0] < 1000 {
		t.Errorf("%d hosts, the first has %d of 6,200 links", len(perHost), perHost[0])
	}
}
