package rpc

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
)

// TestOrdersBounds: the largest messages that are allowed arrive.
func TestOrdersBounds(t *testing.T) {
	many := slices.Repeat([][]byte{[]byte(strings.Repeat("x", MaxData/MaxOrders))}, MaxOrders)
	large := slices.Repeat([][]byte{make([]byte, MaxOrder)}, MaxData/MaxOrder)
	data := make([]byte, MaxData)
	problem := strings.Repeat("e", maxProblem)
	l, _ := serve(t, nil, Handlers{
		Orders: func(_ context.Context, _ Caller, o Orders) (OrdersAnswer, error) {
			return OrdersAnswer{Orders: o.Orders, Digest: o.Digest}, nil
		},
		Operate: func(_ context.Context, _ Caller, o Operation) (OperationAnswer, error) {
			return OperationAnswer{o.Request, problem, strings.Repeat("c", maxCode)}, nil
		},
	})
	p := client(t, nil, caller("a1"), nil).Peer("a2", l.Addr())
	for _, orders := range [][][]byte{nil, many, large} {
		o := Orders{orders, [32]byte{7}}
		a, err := p.Orders(t.Context(), o)
		if err != nil || !slices.EqualFunc(a.Orders, orders, bytes.Equal) || a.Digest != o.Digest || a.More {
			t.Errorf("%d orders are %d, %v", len(orders), len(a.Orders), err)
		}
	}
	a, err := p.Operate(t.Context(), Operation{strings.Repeat("M", MaxMethod), data})
	if err != nil || len(a.Response) != MaxData || a.Error != problem || len(a.Code) != maxCode {
		t.Errorf("%d octets, %v", len(a.Response), err)
	}
}

// TestOperatorsAnswers: an answer beyond its bounds is a failure of the answering agent. A long error is cut.
func TestOperatorsAnswers(t *testing.T) {
	failed := func(err error) bool {
		return err != nil && !errors.Is(err, ErrRejected) && !errors.Is(err, ErrUnreachable) &&
			!errors.Is(err, ErrAgain)
	}
	for _, orders := range [][][]byte{{{}}, {make([]byte, MaxOrder+1)}, slices.Repeat([][]byte{{1}}, MaxOrders+1),
		slices.Repeat([][]byte{make([]byte, MaxOrder)}, MaxData/MaxOrder+1)} {
		l, _ := serve(t, nil, Handlers{Orders: func(context.Context, Caller, Orders) (OrdersAnswer, error) {
			return OrdersAnswer{Orders: orders}, nil
		}})
		p := client(t, nil, caller("a1"), nil).Peer("a2", l.Addr())
		if a, err := p.Orders(t.Context(), Orders{}); !failed(err) {
			t.Errorf("%d orders, %v", len(a.Orders), err)
		}
	}
	for _, answer := range []OperationAnswer{{Response: make([]byte, MaxData+1)}, {Code: strings.Repeat("c", 65)}} {
		l, _ := serve(t, nil, Handlers{Operate: func(context.Context, Caller, Operation) (OperationAnswer, error) {
			return answer, nil
		}})
		p := client(t, nil, caller("a1"), nil).Peer("a2", l.Addr())
		if a, err := p.Operate(t.Context(), Operation{Method: "Pause"}); !failed(err) {
			t.Errorf("%d octets, %v", len(a.Response), err)
		}
	}
	l, _ := serve(t, nil, Handlers{Operate: func(context.Context, Caller, Operation) (OperationAnswer, error) {
		return OperationAnswer{Error: "\xff" + strings.Repeat("é", maxProblem)}, nil
	}})
	a, err := client(t, nil, caller("a1"), nil).Peer("a2", l.Addr()).Operate(t.Context(), Operation{Method: "Pause"})
	if want := strings.Repeat("é", maxProblem/2-1); err != nil || a.Error != want {
		t.Errorf("%d octets of an error, want %d, %v", len(a.Error), len(want), err)
	}
}

// TestOperatorsDoNotWait: orders reach an agent that has as many bulk calls as it serves. Orders above their own limit
// are told to come back, and quick calls still succeed.
func TestOperatorsDoNotWait(t *testing.T) {
	block := make(chan struct{})
	var pushes, orders sync.WaitGroup
	pushes.Add(servedBulk)
	orders.Add(servedOperators)
	l, s := serve(t, nil, Handlers{
		Push: func(context.Context, Caller, Links) error {
			pushes.Done()
			<-block
			return nil
		},
		Orders: func(context.Context, Caller, Orders) (OrdersAnswer, error) {
			orders.Done()
			<-block
			return OrdersAnswer{}, nil
		},
		Operate: func(context.Context, Caller, Operation) (OperationAnswer, error) { return OperationAnswer{}, nil },
		Pulse:   func(context.Context, Caller, uint64) (Pulse, error) { return Pulse{}, nil },
	})
	var wg sync.WaitGroup
	peer := func(name string) *Peer { return client(t, nil, caller(name), nil).Peer("b", l.Addr()) }
	for i := range servedBulk / askedBulk {
		p := peer(strings.Repeat("a", i+1))
		for range askedBulk {
			wg.Go(func() {
				if err := p.Push(t.Context(), links("http://a.example/")); err != nil {
					t.Error(err)
				}
			})
		}
	}
	pushes.Wait()
	p := peer("late")
	if _, err := p.Operate(t.Context(), Operation{Method: "Pause"}); err != nil {
		t.Error(err)
	}
	for i := range servedOperators / askedOperators {
		p := peer(strings.Repeat("o", i+1))
		for range askedOperators {
			wg.Go(func() {
				if _, err := p.Orders(t.Context(), Orders{}); err != nil {
					t.Error(err)
				}
			})
		}
	}
	orders.Wait()
	if _, err := p.Operate(t.Context(), Operation{Method: "Pause"}); !errors.Is(err, ErrUnreachable) {
		t.Errorf("Operate at a busy agent: %v", err)
	}
	if _, err := p.Pulse(t.Context(), 1); err != nil {
		t.Errorf("Pulse of a busy agent: %v", err)
	}
	if n := s.Counts().Refused["busy"]; n != 1 {
		t.Errorf("%d refused as busy", n)
	}
	close(block)
	wg.Wait()
}
