package replicas

import (
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
)

// Call ships records of package handoff to an heir. Seq numbers the batches of one sender, so that the heir recognizes
// a repeated one. Without an error the records are durable there.
var Call = rpc.Method[pb.ShipRequest, pb.ShipResponse]{Call: rpc.CallShip, Request: checkRequest,
	Response: checkResponse}

func checkRequest(q *pb.ShipRequest) error { return rpc.CheckRecords(q.Count, q.Records) }

func checkResponse(q *pb.ShipRequest, r *pb.ShipResponse) error {
	if r.Seq != q.Seq {
		return rpc.Malformedf("batch %d acknowledged as %d", q.Seq, r.Seq)
	}
	return nil
}
