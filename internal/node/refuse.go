package node

import (
	"errors"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/node/crawldir"
	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// vacant returns an error if another process has the crawl directory open.
func (a *Agent) vacant() error {
	if a.cfg.FS != disk.OS {
		return nil // only the machine's files tell the process; a.fs.Lock finds out the rest
	}
	return crawldir.Vacant(a.cfg.Dir)
}

// An unanswered error says why the agent at an address does not admit this one, in few words.
type unanswered struct {
	addr string
	err  error
}

func (u *unanswered) Unwrap() error { return u.err }

func (u *unanswered) Error() string { return u.addr + ": " + u.why() }

func (u *unanswered) why() string { return rpc.Why(u.err) }

// joinRemedy returns what the operator can do about an error that lasts, with a semicolon in front.
func joinRemedy(err error) string {
	_, foreign := errors.AsType[*rpc.ForeignError](err)
	switch {
	case foreign:
		return "; give the address of an agent's --listen"
	case errors.Is(err, rpc.ErrStranger):
		return "; give both agents keys that one \"orbweaver cluster keys\" made"
	case errors.Is(err, rpc.ErrKeysThere), errors.Is(err, rpc.ErrKeysHere):
		return "; give --keys to all agents"
	}
	return ""
}
