package rpc

import (
	"context"
	"fmt"
	"strings"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
)

const (
	// MaxOrders bounds the orders in one message, and MaxOrder the bytes of one order.
	MaxOrders = 4096
	MaxOrder  = 4 << 10
	// MaxMethod bounds the bytes of an Operation's method.
	MaxMethod = 64
	// maxProblem bounds the bytes of an error in the answer to an Operation, and maxCode those of its code.
	maxProblem = 16 << 10
	maxCode    = 64
)

// Orders are encoded orders of operators. Only package orders knows their form. There are at most MaxOrders, of 1 to
// MaxOrder bytes each, and of MaxData bytes together.
type Orders struct {
	Orders [][]byte
	// Digest is of all orders that the caller has.
	Digest [32]byte
}

// An OrdersAnswer is the answer to Orders. Its orders have the same bounds.
type OrdersAnswer struct {
	Orders [][]byte
	// Digest is of all orders that the answering agent has.
	Digest [32]byte
	// More reports that the answering agent has more orders for the caller.
	More bool
}

// An Operation is an operator's request that is forwarded to another agent.
type Operation struct {
	// Method has 1 to MaxMethod of the characters A-Z and a-z.
	Method string
	// Request is the method's own encoding of the request, of at most MaxData bytes.
	Request []byte
}

// An OperationAnswer is the answer to an Operation.
type OperationAnswer struct {
	// Response is the method's own encoding of the response, of at most MaxData bytes.
	Response []byte
	// Error says to the operator why the request failed. It is empty if it did not. What is longer than 16 KiB is cut.
	Error string
	// Code is the error's code for programs, of at most 64 bytes.
	Code string
}

// Orders sends orders, and asks for orders. Without an error, the orders that were sent are durable there.
func (p *Peer) Orders(ctx context.Context, o Orders) (a OrdersAnswer, err error) {
	err = p.call(ctx, CallOrders, func(ctx context.Context) error {
		res, err := unary[pb.OrdersResponse](ctx, p, CallOrders, ordersToWire(o))
		if err == nil {
			a, err = ordersAnswerFromWire(res)
		}
		return err
	})
	return a, err
}

// Operate forwards an operator's request. After an error it may have been carried out.
func (p *Peer) Operate(ctx context.Context, o Operation) (a OperationAnswer, err error) {
	err = p.call(ctx, CallOperate, func(ctx context.Context) error {
		res, err := unary[pb.OperateResponse](ctx, p, CallOperate, &pb.OperateRequest{Method: o.Method,
			Request: o.Request})
		if err == nil {
			a, err = operationAnswerFromWire(res)
		}
		return err
	})
	return a, err
}

// bounded adapts a handler whose answer has bounds. An answer beyond them is a failure of this agent, and not of the
// caller.
func bounded[In, Out any](
	do func(context.Context, Caller, In) (Out, error), check func(Out) error,
) func(context.Context, Caller, In) (Out, error) {
	if do == nil {
		return nil
	}
	return func(ctx context.Context, from Caller, in In) (Out, error) {
		out, err := do(ctx, from, in)
		if err != nil {
			return out, err
		}
		if err := check(out); err != nil {
			return out, fmt.Errorf("the answer is invalid: %v", err)
		}
		return out, nil
	}
}

func checkOrders(orders [][]byte) error {
	if len(orders) > MaxOrders {
		return fmt.Errorf("%w: %d orders", ErrTooLarge, len(orders))
	}
	size := 0
	for i, o := range orders {
		if len(o) == 0 {
			return malformed("order %d is empty", i)
		}
		if len(o) > MaxOrder {
			return fmt.Errorf("%w: order %d of %d octets", ErrTooLarge, i, len(o))
		}
		size += len(o)
	}
	if size > MaxData {
		return fmt.Errorf("%w: %d octets of orders", ErrTooLarge, size)
	}
	return nil
}

func digestFromWire(b []byte) (d [32]byte, err error) {
	if len(b) != len(d) {
		return d, malformed("digest of %d octets", len(b))
	}
	return [32]byte(b), nil
}

func ordersToWire(o Orders) *pb.OrdersRequest {
	return &pb.OrdersRequest{Orders: o.Orders, Digest: o.Digest[:]}
}

func ordersFromWire(w *pb.OrdersRequest) (o Orders, err error) {
	if o.Digest, err = digestFromWire(w.Digest); err != nil {
		return o, err
	}
	o.Orders = w.Orders
	return o, checkOrders(o.Orders)
}

func ordersAnswerToWire(a OrdersAnswer) *pb.OrdersResponse {
	return &pb.OrdersResponse{Orders: a.Orders, Digest: a.Digest[:], More: a.More}
}

func ordersAnswerFromWire(w *pb.OrdersResponse) (a OrdersAnswer, err error) {
	if a.Digest, err = digestFromWire(w.Digest); err != nil {
		return a, err
	}
	a.Orders, a.More = w.Orders, w.More
	return a, checkOrders(a.Orders)
}

func operationFromWire(w *pb.OperateRequest) (Operation, error) {
	o := Operation{Method: w.Method, Request: w.Request}
	if o.Method == "" || len(o.Method) > MaxMethod || strings.ContainsFunc(o.Method, notLetter) {
		return o, malformed("method %.80q", o.Method)
	}
	if len(o.Request) > MaxData {
		return o, fmt.Errorf("%w: request of %d octets", ErrTooLarge, len(o.Request))
	}
	return o, nil
}

func notLetter(r rune) bool { return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') }

// check returns an error if the answer is beyond its bounds. A long Error is cut before.
func (a OperationAnswer) check() error {
	if len(a.Response) > MaxData {
		return fmt.Errorf("%w: response of %d octets", ErrTooLarge, len(a.Response))
	}
	if len(a.Code) > maxCode {
		return fmt.Errorf("%w: code of %d octets", ErrTooLarge, len(a.Code))
	}
	return nil
}

// operationAnswerToWire cuts a long Error, and leaves out of it what is not UTF-8.
func operationAnswerToWire(a OperationAnswer) *pb.OperateResponse {
	problem := strings.ToValidUTF8(a.Error[:min(len(a.Error), maxProblem)], "")
	return &pb.OperateResponse{Response: a.Response, Error: problem, Code: a.Code}
}

func operationAnswerFromWire(w *pb.OperateResponse) (OperationAnswer, error) {
	if len(w.Error) > maxProblem {
		return OperationAnswer{}, fmt.Errorf("%w: error of %d octets", ErrTooLarge, len(w.Error))
	}
	a := OperationAnswer{Response: w.Response, Error: w.Error, Code: w.Code}
	return a, a.check()
}
