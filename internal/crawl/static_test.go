package crawl

import (
	"context"
	"iter"
	"time"

	"github.com/orbweaver/orbweaver/internal/warc"
)

// static is a Tenancy of hosts that never move.
type static struct {
	owner func(host string) (agent string, mine bool)
}

func (s static) Owner(host string) (string, bool) { return s.owner(host) }

func (s static) Tenure(host string) (owner string, mine bool, since uint64) {
	owner, mine = s.owner(host)
	return owner, mine, 0
}

func (static) Before(string) ([]string, int)                        { return nil, 0 }
func (static) View() uint64                                         { return 1 }
func (static) Had(string) (ever, began bool)                        { return false, false }
func (static) Inheriting() bool                                     { return false }
func (static) Identity(agent string) string                         { return agent }
func (static) Push(context.Context, string, []byte, int, int) error { return errLost }
func (static) Hand(context.Context, string, iter.Seq[Part]) error   { return errLost }
func (static) Claim(context.Context, string, uint64, []string) ([]Verdict, error) {
	return nil, errLost
}

// partly is the Cluster of a single agent that has only the Contents or the Leases of a cluster.
type partly struct {
	alone
	cl *Clustered
}

func (p partly) Permit(host string) *Permit { return p.cl.Permit(host) }

func (p partly) First(ctx context.Context, x *warc.Exchange, size int64) (warc.Original, bool, bool, error) {
	return p.cl.First(ctx, x, size)
}

func (p partly) Archived(digest [20]byte, page warc.Original) {
	p.cl.Contents.Archived(digest, page)
	p.cl.Contents.Durable(digest, page)
}

func (p partly) Status(time.Time) ClusterStatus {
	return ClusterStatus{Leases: p.cl.leaseCounts(), Contents: p.cl.contentCounts()}
}
