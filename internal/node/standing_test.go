package node

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/orders"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

// An agent cannot write its file of orders, so another agent sends the same orders again. Only then are they
// acknowledged. Orders from the future, and bytes that are no order, are refused.
func TestOrdersAreDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := testdisk.NewMem()
		faulty := testdisk.NewFaulty(mem, nil)
		cfg := newSmallWeb().config(t, mem)
		cfg.FS = faulty
		a, err := Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		other := orders.NewSet()
		o, err := other.Give(orders.Order{Verb: "pause"}, "a2", time.Now())
		if err != nil {
			t.Fatal(err)
		}
		sent := rpc.Orders{Orders: [][]byte{o.AppendTo(nil)}, Digest: other.Digest()}
		faulty.Break(func(c testdisk.Call) testdisk.Fault {
			if c.Op.Changes() && strings.Contains(c.Name, "orders") {
				return testdisk.Fault{Err: errors.New("the disk fails")}
			}
			return testdisk.Fault{}
		})
		for range 2 {
			if _, err := a.standing.serve(t.Context(), rpc.Caller{}, sent); err == nil {
				t.Fatal("an order that is not durable is acknowledged")
			}
		}
		faulty.Heal()
		answer, err := a.standing.serve(t.Context(), rpc.Caller{}, sent)
		if err != nil || answer.Digest != other.Digest() || len(answer.Orders) > 0 {
			t.Fatalf("%+v, %v", answer, err)
		}
		kept, err := orders.Load(mem, a.dir(ordersFile))
		if err != nil || kept.Digest() != other.Digest() {
			t.Errorf("the file has %v, %v", kept, err)
		}
		late, err := other.Give(orders.Order{Verb: "pause"}, "a2", time.Now().Add(25*time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		var refusal *rpc.Refusal
		if _, err := a.standing.serve(t.Context(), rpc.Caller{},
			rpc.Orders{Orders: [][]byte{late.AppendTo(nil)}}); !errors.As(err, &refusal) {
			t.Errorf("an order from the future: %v", err)
		}
		if _, err := a.standing.serve(t.Context(), rpc.Caller{},
			rpc.Orders{Orders: [][]byte{{7}}}); !errors.Is(err, rpc.ErrMalformed) {
			t.Errorf("no order: %v", err)
		}
		if n := len(a.standing.Past()); n != 1 {
			t.Errorf("%d orders, want 1", n)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
}
