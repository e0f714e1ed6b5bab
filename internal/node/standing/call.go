package standing

import (
	"crypto/sha256"
	"fmt"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
)

const (
	// maxOrders bounds the orders in one message, and maxOrder the bytes of one order.
	maxOrders = 4096
	maxOrder  = 4 << 10
)

// Call sends encoded orders to another agent, and asks for those that the caller lacks. Without an error, the orders
// that were sent are durable there. Package orders checks more of an order than its size.
var Call = rpc.Method[pb.OrdersRequest, pb.OrdersResponse]{Call: rpc.CallOrders,
	Request:  func(q *pb.OrdersRequest) error { return checkOrders(q.Orders, q.Digest) },
	Response: func(_ *pb.OrdersRequest, r *pb.OrdersResponse) error { return checkOrders(r.Orders, r.Digest) },
}

// checkOrders checks orders, and the digest of a set.
func checkOrders(orders [][]byte, digest []byte) error {
	if len(digest) != sha256.Size {
		return rpc.Malformedf("digest of %d octets", len(digest))
	}
	if len(orders) > maxOrders {
		return fmt.Errorf("%w: %d orders", rpc.ErrTooLarge, len(orders))
	}
	size := 0
	for i, o := range orders {
		if len(o) == 0 {
			return rpc.Malformedf("order %d is empty", i)
		}
		if len(o) > maxOrder {
			return fmt.Errorf("%w: order %d of %d octets", rpc.ErrTooLarge, i, len(o))
		}
		size += len(o)
	}
	if size > rpc.MaxData {
		return fmt.Errorf("%w: %d octets of orders", rpc.ErrTooLarge, size)
	}
	return nil
}
