// Package operation answers: how does a request reach another agent that has no call of its own?
//
//	an operator's request, a question for a record, "I leave" -> Ask -> Call -> the other agent, by its method
//
// Only the caller and the agent that answers know the methods and the encodings of their requests and responses.
package operation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
)

const (
	// maxMethod bounds the letters A-Z and a-z of a method.
	maxMethod = 64
	// maxProblem bounds the bytes of the error in an answer.
	maxProblem = 16 << 10
)

// Call carries a request and a response, of at most rpc.MaxData bytes each.
var Call = rpc.Method[pb.OperateRequest, pb.OperateResponse]{Call: rpc.CallOperate, Request: checkRequest,
	Response: func(_ *pb.OperateRequest, r *pb.OperateResponse) error { return checkResponse(r) }}

func checkRequest(q *pb.OperateRequest) error {
	if q.Method == "" || len(q.Method) > maxMethod || strings.ContainsFunc(q.Method, notLetter) {
		return rpc.Malformedf("method %.80q", q.Method)
	}
	if len(q.Request) > rpc.MaxData {
		return fmt.Errorf("%w: request of %d octets", rpc.ErrTooLarge, len(q.Request))
	}
	return nil
}

func notLetter(r rune) bool { return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') }

func checkResponse(r *pb.OperateResponse) error {
	switch {
	case len(r.Error) > maxProblem:
		return fmt.Errorf("%w: error of %d octets", rpc.ErrTooLarge, len(r.Error))
	case len(r.Response) > rpc.MaxData:
		return fmt.Errorf("%w: response of %d octets", rpc.ErrTooLarge, len(r.Response))
	}
	return nil
}

// A Failure is what an agent says about a request that it could not carry out, for people.
type Failure string

func (f Failure) Error() string { return string(f) }

// Ask passes a request on to an agent. An error of that agent about the request is a Failure. After any other error the
// request may have been carried out.
func Ask(ctx context.Context, p *rpc.Peer, method string, request []byte) (response []byte, err error) {
	r, err := Call.Ask(ctx, p, &pb.OperateRequest{Method: method, Request: request})
	switch {
	case err != nil:
		return nil, err
	case r.Error != "":
		return nil, Failure(r.Error)
	}
	return r.Response, nil
}

// A Handler carries out a request of another agent. Its error reaches that agent as a Failure, but see Serve.
type Handler func(ctx context.Context, from rpc.Caller, method string, request []byte) (response []byte, err error)

// Serve makes a server answer requests, before it runs. From the methods in again, an rpc.ErrAgain reaches the caller
// as it is: their callers repeat the request.
func Serve(s *rpc.Server, do Handler, again ...string) {
	Call.Serve(s, handler(do, again))
}

func handler(do Handler, again []string) rpc.Handler[pb.OperateRequest, pb.OperateResponse] {
	return func(ctx context.Context, from rpc.Caller, q *pb.OperateRequest) (*pb.OperateResponse, error) {
		response, problem := do(ctx, from, q.Method, q.Request)
		if errors.Is(problem, rpc.ErrAgain) && slices.Contains(again, q.Method) {
			return nil, problem
		}
		return answer(response, problem)
	}
}

// answer cuts the text of a long problem, and leaves out of it what is not UTF-8. Its error is a response that is too
// large.
func answer(response []byte, problem error) (*pb.OperateResponse, error) {
	if problem != nil {
		text := problem.Error()
		return &pb.OperateResponse{Error: strings.ToValidUTF8(text[:min(len(text), maxProblem)], "")}, nil
	}
	r := &pb.OperateResponse{Response: response}
	if err := checkResponse(r); err != nil {
		return nil, fmt.Errorf("the answer is invalid: %v", err) // a failure of this agent, and not of the caller
	}
	return r, nil
}
