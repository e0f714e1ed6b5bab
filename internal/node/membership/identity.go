package membership

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/members"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// identityFile has the identity of the agent in a crawl directory.
const identityFile = "state/agent.json"

// identity is the content of identityFile.
type identity struct {
	Name string `json:"name"`
	// Instance is created with the crawl directory, and renewed after each restore from a store: see renew. Boot is 1
	// at its first start, and grows with each start: see nextBoot.
	Instance string `json:"instance"`
	Boot     uint64 `json:"boot"`
	// Origin is the Place.Origin that Instance is of.
	Origin string `json:"origin,omitempty"`
	// Crawl is the cluster's crawl; empty until an agent has told it.
	Crawl string `json:"crawl,omitempty"`
	// Begun reports that this agent has crawled, so it does not wait for Config.Agents agents.
	Begun bool `json:"begun,omitempty"`
	// Partition is how the crawl divides its hosts: see Config.method.
	Partition string `json:"partition,omitempty"`
	// Others are the last known addresses of the other agents, by name.
	Others map[string]string `json:"others,omitempty"`
	// Ended are the agents that have ended in order, by instance.
	Ended map[string]members.Ending `json:"ended,omitempty"`
}

// maxIdentity bounds identityFile. It has up to 1024 absent agents and as many endings.
const maxIdentity = 1 << 20

// identify reads or creates the agent's identity, and counts this start.
func (j *joining) identify() error {
	name := j.path(identityFile)
	b, err := disk.ReadFile(j.FS, name, maxIdentity)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		j.who.Name, j.who.Instance, j.who.Origin = j.cfg.Name, newExchangeID().String(), j.Origin
	case err != nil:
		return err
	default:
		if err := json.Unmarshal(b, &j.who); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if j.who.Name != j.cfg.Name {
			return input.Errorf("{name} %s: the crawl in %s belongs to agent %q; give {name} %s, or another {dir}",
				j.cfg.Name, j.Dir, j.who.Name, j.who.Name)
		}
		if j.who.Begun {
			if err := j.cfg.sameMethod(j.Dir, j.who.Partition); err != nil {
				return err
			}
		}
	}
	j.who.Partition = j.cfg.method()
	instance, err := rpc.ParseID(j.who.Instance)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	instance = j.renew(instance)
	if j.who.Crawl != "" {
		id, err := rpc.ParseID(j.who.Crawl)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		j.members.SetCrawl(id)
	}
	j.begun.Store(j.who.Begun)
	j.who.Boot = nextBoot(j.who.Boot, j.Clock.Now())
	j.members.Self = gossip.Agent{Name: j.cfg.Name, Capacity: j.cfg.Capacity, Instance: instance,
		Boot: j.who.Boot, Addr: j.members.Self.Addr}
	return j.remember()
}

// renew returns the agent's instance. It is another one after each restore from a store, if the agents have replicas:
// what the agent archived after the saved state is lost, and the others know that it has fetched these pages. By the
// new instance they see that the archive of the former one is lost. Origin becomes durable together with the instance,
// so a kill renews it neither twice nor never.
func (j *joining) renew(instance rpc.ID) rpc.ID {
	if j.Origin == "" || j.Origin == j.who.Origin {
		return instance
	}
	if j.who.Origin = j.Origin; j.cfg.Replicas >= 2 {
		instance = members.Renew(instance)
		j.who.Instance = instance.String()
	}
	return instance
}

// CheckResumed returns an *input.ConfigError if the crawl in dir, on this machine, has begun with another partition. A
// program may call it before it compares other settings with the partition. It does not look at the model of
// PartitionTopic, or at a crawl that cannot be read: the start of the agent reports these.
func (c *Config) CheckResumed(dir string) error {
	b, err := disk.ReadFile(disk.OS, filepath.Join(dir, identityFile), maxIdentity)
	var who identity
	if err != nil || json.Unmarshal(b, &who) != nil || !who.Begun || c.ByPages() {
		return nil
	}
	return c.sameMethod(dir, who.Partition)
}

// CheckAlone returns an *input.ConfigError if the crawl in a directory belongs to an agent of a cluster. Such an agent
// must not continue alone, because its directory has links of other agents' hosts.
func CheckAlone(fsys disk.FS, dir string) error {
	if _, err := fsys.Stat(filepath.Join(dir, identityFile)); err == nil {
		return input.Errorf("the crawl in %s belongs to an agent of a cluster; "+
			"continue it with its {name} and {listen}", dir)
	}
	return nil
}

// nextBoot returns the number of a start. It is larger than that of each earlier start, also if the
// directory was restored from an older copy: then the last number in it is not the last one used.
// With an equal number, the others would take this start for the one before, and count on leases
// and questions that this one does not know.
func nextBoot(last uint64, now time.Time) uint64 {
	if last == 0 {
		return 1
	}
	return max(last+1, uint64(max(0, now.UnixMilli())))
}

func (j *joining) remember() error {
	b, err := json.Marshal(j.who)
	if err != nil {
		return err
	}
	return disk.WriteFile(j.FS, j.path(identityFile), append(b, '\n'))
}

func newExchangeID() (id rpc.ID) {
	rand.Read(id[:])
	return id
}
