package membership

import (
	"sync/atomic"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/limits"
	"github.com/orbweaver/orbweaver/internal/cluster/members"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/sites/follower"
	"github.com/orbweaver/orbweaver/internal/node/local"
	"github.com/orbweaver/orbweaver/internal/report"
)

// A joining is how an agent comes into its cluster, and whom it lets in.
type joining struct {
	Place
	cfg      *Config
	events   *report.Events
	keys     *rpc.Keys
	listener *rpc.Listener
	members  *members.Members
	sites    *follower.Follower // nil: no coordinator assigns the hosts
	age      *limits.Age
	paused   pauses           // nil: the crawl is not open yet
	endings  *members.Endings // nil: replication is off

	who        identity
	founder    bool     // this agent begins the cluster
	join       []string // addresses of --join, without its own
	starting   []string // agents that were starting when this one went on without a cluster
	waits      atomic.Pointer[local.Waiting]
	unmet      string                   // what meet has waited for in vain, in words
	absent     atomic.Pointer[[]string] // agents of this or an earlier run that are gone; nil: none
	admissions admissions
	late       atomic.Bool       // the others had begun when this agent joined
	begun      atomic.Bool       // this agent has begun, now or in an earlier run
	settings   map[string]string // equal at all agents
}

// pauses tells how long operators have paused the crawl, which is no time that it has run.
type pauses interface{ PausedFor() time.Duration }
