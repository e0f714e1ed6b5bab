package node

import (
	"context"
	"encoding/binary"
	"slices"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
)

// At its start an agent waits before it grants leases, because other agents may have used the
// addresses before. Agents that begin a crawl together need not wait, because no agent has crawled
// yet.
//
// Each agent fixes the first view that has enough agents, and asks all agents of that view. An
// agent answers yes on three conditions: it has fixed the same view and still sees these agents,
// this is the first start of its crawl directory, and it has never met an agent outside the view.
// The asker may skip the wait if all agree, one of them started the crawl in this run, and less
// than togetherTime has passed since it fixed its view. Then no agent can have used what the asker
// grants:
//
//   - Every agent that ever crawled joined through another agent, which thereby met it. So if the
//     agent that started the crawl is among those asked, and none of them has met any other agent,
//     no other agent ever crawled.
//   - All of them begin with this view, and in this view only the asker grants its leases. An
//     agent that already sees another view would have said no. If an agent sees another view later,
//     the new grantor waits longer than togetherTime.
const (
	togetherTime  = 3 * time.Second // at most lease.Config.Settle
	togetherAgain = 50 * time.Millisecond
)

// Answers to the question whether this is the first view: one byte. The question is the byte
// togetherAsk, which begins no lease.Batch, and the 8 bytes of the agents' hash.
const (
	togetherAsk     byte = 0
	togetherNo      byte = 1
	togetherNotYet  byte = 2
	togetherYes     byte = 3
	togetherFounder byte = 4 // yes, and this agent started the crawl
)

// A start is the view with which an agent begins.
type start struct {
	// mu guards the fields below.
	mu      sync.Mutex
	fixed   uint64 // hash of the fixed view's agents; 0: not fixed yet
	founder bool   // this agent started the crawl, in this run
}

func (s *start) founds() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.founder = true
}

// agentsHash returns a hash of the agents that are up in v, each with its boot number. It is never
// 0.
func agentsHash(v *gossip.View) uint64 {
	var ids []uint64
	for _, a := range v.Agents {
		if a.State == gossip.Up {
			ids = append(ids, uint64(leaseAgent(a.Instance, a.Boot)))
		}
	}
	slices.Sort(ids)
	var b []byte
	for _, id := range ids {
		b = binary.BigEndian.AppendUint64(b, id)
	}
	return max(xxhash.Sum64(b), 1)
}

// starts answers another agent that asks whether we begin with the view of this hash.
func (c *membership) starts(hash uint64) byte {
	m := c.member.Load()
	c.start.mu.Lock()
	fixed, founder := c.start.fixed, c.start.founder
	c.start.mu.Unlock()
	switch {
	case m == nil || fixed == 0:
		return togetherNotYet
	case fixed != hash || c.self.Boot != 1:
		return togetherNo
	}
	v := m.View()
	if agentsHash(v) != hash || m.Met() != len(agentsUp(v)) {
		return togetherNo
	}
	if founder {
		return togetherFounder
	}
	return togetherYes
}

// together fixes the view with which this agent begins. It reports whether no agent can have
// crawled before.
func (c *membership) together(ctx context.Context, v *gossip.View) bool {
	hash, began := agentsHash(v), time.Now()
	c.start.mu.Lock()
	c.start.fixed = hash
	c.start.mu.Unlock()
	question := binary.BigEndian.AppendUint64([]byte{togetherAsk}, hash)
	ctx, cancel := context.WithTimeout(ctx, togetherTime)
	defer cancel()
	answers := make(chan byte)
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel()
	n := 0
	for _, a := range v.Agents {
		if a.State != gossip.Up || a.Name == c.self.Name {
			continue
		}
		n++
		asking.Go(func() {
			for ctx.Err() == nil {
				ans, err := c.client.Peer(a.Name, a.Addr).Lease(ctx, question)
				if err == nil && len(ans) == 1 && ans[0] != togetherNotYet {
					select {
					case answers <- ans[0]:
					case <-ctx.Done():
					}
					return
				}
				select {
				case <-time.After(togetherAgain):
				case <-ctx.Done():
				}
			}
		})
	}
	founder := false
	for range n {
		select {
		case ans := <-answers:
			if ans != togetherYes && ans != togetherFounder {
				return false
			}
			founder = founder || ans == togetherFounder
		case <-ctx.Done():
			return false
		}
	}
	own := c.starts(hash)
	founder = founder || own == togetherFounder
	return own != togetherNo && founder && time.Since(began) < togetherTime
}
