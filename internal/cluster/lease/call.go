package lease

import (
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
)

// Call carries an encoded Batch to another agent, and the answer, which is one as well. ParseBatch checks more than
// their size.
var Call = rpc.Method[pb.LeaseRequest, pb.LeaseResponse]{
	Call:     rpc.CallLease,
	Request:  func(q *pb.LeaseRequest) error { return rpc.CheckBatch(q.Batch) },
	Response: func(_ *pb.LeaseRequest, r *pb.LeaseResponse) error { return rpc.CheckBatch(r.Batch) },
}
