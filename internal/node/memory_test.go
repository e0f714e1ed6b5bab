package node

import (
	"testing"

	"github.com/orbweaver/orbweaver/internal/node/membership"
	"github.com/orbweaver/orbweaver/internal/web/dns"
)

// With too little room besides the shares, the garbage collector runs all the time: at 256 MiB a
// page then costs twice the processor time. So a third of the limit stays free of shares at every
// budget, for single agents and in a cluster.
func TestBudgetLeavesRoom(t *testing.T) {
	clusters := map[string]*membership.Config{
		"alone":    nil,
		"one copy": {Replicas: 1},
		"ring":     {Replicas: 2, Partition: membership.PartitionRing},
		"hash":     {Replicas: 2, Partition: membership.PartitionHash},
	}
	for name, cluster := range clusters {
		for _, total := range []int64{LeastMemory, 200 << 20, 256 << 20, 512 << 20, 1 << 30, 64 << 30} {
			b := newBudget(total, cluster, cluster != nil)
			if b.limit+codeBytes > total {
				t.Errorf("%s, %d MiB: the limit is %d MiB, and the code takes %d", name, total>>20,
					b.limit>>20, codeBytes>>20)
			}
			cfg := Config{}
			cfg.divide(b)
			used := b.of(shareSeen) + cfg.Frontier.MemoryBytes + cfg.Robots.MemoryBytes + cfg.Archive.RevisitBytes +
				int64(cfg.DNS.CacheEntries)*nameBytes
			if cluster != nil {
				used += b.of(shareOutbox) + b.of(shareExchange)
				if cluster.Replicas == 2 {
					used += b.of(shareReplicas) + 2*b.of(shareShipping)
				}
				if cluster.Partition == membership.PartitionHash {
					used += b.of(shareContents)
				}
			}
			if most := (b.limit - workBytes) * 6 / 10; used > most {
				t.Errorf("%s, %d MiB: the packages may take %d MiB, want at most %d", name,
					total>>20, used>>20, most>>20)
			}
			if least := (b.limit - workBytes) / 2; used < least {
				t.Errorf("%s, %d MiB: the packages may take only %d MiB, want at least %d", name, total>>20,
					used>>20, least>>20)
			}
		}
	}
}

// The budget keeps what the configuration sets for one package.
func TestBudgetKeepsSettings(t *testing.T) {
	cfg := Config{DNS: dns.Config{CacheEntries: 7}}
	cfg.Frontier.MemoryBytes, cfg.Robots.MemoryBytes, cfg.Archive.RevisitBytes = 1, 2, -1
	cfg.divide(newBudget(1<<30, nil, false))
	if f, r, a, d := cfg.Frontier.MemoryBytes, cfg.Robots.MemoryBytes, cfg.Archive.RevisitBytes,
		cfg.DNS.CacheEntries; f != 1 ||
		r != 2 || a != -1 || d != 7 {
		t.Errorf("queues %d, robots %d, payloads %d, names %d; want 1, 2, -1, 7", f, r, a, d)
	}
}

// However small the budget, each share is at least one byte: zero means a default.
func TestBudgetOfNothing(t *testing.T) {
	b := newBudget(1, nil, true)
	for _, s := range []share{shareSeen, shareQueues, shareRobots, sharePayloads, shareNames} {
		if n := b.of(s); n != 1 {
			t.Errorf("share %d of a budget of one byte is %d, want 1", s, n)
		}
	}
}
