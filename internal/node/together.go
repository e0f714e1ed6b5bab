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

// Agents that begin a crawl together need not wait, as every other one does at
// its start, until what others may have used before is over: nobody has.
//
// Each takes the first view in which there are as many as there have to be as the
// one that it begins with (fixed), and asks all agents in it. Each says yes if it
// has fixed the same view and sees the same agents now, if this is the first life
// of its crawl directory, and if it has never met an agent that is not among
// them. If all say yes, and one of them is who began the crawl, in this life, and
// the asker begins within togetherTime of having fixed its view, then nobody can
// have used what is its own to grant:
//
//   - An agent that ever crawled joined the crawl by way of another one, which
//     met it. So if the one that began the crawl is among those asked, and none of
//     them has met anybody else, these are all that there ever were.
//   - All of them begin with this view, and by it only the asker grants what is its
//     own. One that sees another view by now would have said so; one that comes to
//     see another one later is followed by a new grantor, who waits for longer
//     than togetherTime.
const (
	togetherTime  = 3 * time.Second // at most lease.Config.Settle
	togetherAgain = 50 * time.Millisecond
)

// What is said to a question whether this is the first view: one octet. The
// question is the octet togetherAsk, which no lease.Batch begins with, and the
// agents' hash, 8 octets.
const (
	togetherAsk     byte = 0
	togetherNo      byte = 1
	togetherNotYet  byte = 2
	togetherYes     byte = 3
	togetherFounder byte = 4 // yes, and it began the crawl
)

// A start is what an agent begins with.
type start struct {
	// mu guards what follows.
	mu      sync.Mutex
	fixed   uint64 // the agents' hash; 0: not yet
	founder bool   // we began the crawl, in this life
}

func (s *start) founds() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.founder = true
}

// agentsHash is the same for two agents that see the same lives up.
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

// starts answers whether this agent begins with the agents of a hash.
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

// together fixes the view with which this agent begins, and says whether nobody
// can have crawled before it.
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
