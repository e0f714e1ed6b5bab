package limits

import (
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
)

const (
	maxAgents = 4096
	maxWant   = 1 << 20
	maxPages  = 1 << 60 // of an agent
)

// Call reports to the counter how many pages an agent has fetched over all runs, how many it may fetch, and how many
// more it wants. The counter answers how many the agent may fetch from now on. Both tell what each agent held when they
// last heard of it, so that this survives the loss of the counter. Seq numbers the reports of one start of an agent.
var Call = rpc.Method[pb.BudgetRequest, pb.BudgetResponse]{Call: rpc.CallBudget, Request: checkReport,
	Response: checkGrant}

func checkReport(q *pb.BudgetRequest) error {
	if q.Used > q.Held || q.Held > maxPages || q.Want > maxWant {
		return rpc.Malformedf("%d pages of %d, %d wanted", q.Used, q.Held, q.Want)
	}
	return checkKnown(q.Known)
}

func checkGrant(q *pb.BudgetRequest, g *pb.BudgetResponse) error {
	if g.Held < q.Held || g.Held > q.Held+uint64(q.Want) {
		return rpc.Malformedf("%d pages to hold, of %d and %d wanted", g.Held, q.Held, q.Want)
	}
	return checkKnown(g.Known)
}

func checkKnown(known map[string]uint64) error {
	if len(known) > maxAgents {
		return rpc.Malformedf("%d agents known", len(known))
	}
	for name, pages := range known {
		if err := rpc.CheckName(name); err != nil {
			return rpc.Malformedf("%v", err)
		}
		if pages > maxPages {
			return rpc.Malformedf("%d pages", pages)
		}
	}
	return nil
}
