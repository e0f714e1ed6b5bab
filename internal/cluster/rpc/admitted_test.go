package rpc

import (
	"context"
	"errors"
	"testing"
)

// TestNotAdmitted: a caller with a certificate of the cluster that was not admitted may only call
// Hello. Each of its other calls is counted and told to come back.
func TestNotAdmitted(t *testing.T) {
	keys := bundles(t, "a2", unknown)
	reached := errors.New("a handler was reached")
	l, s := serve(t, keys["a2"], Handlers{
		Hello: func(context.Context, Caller, Hello) (Welcome, error) {
			return Welcome{}, &Refusal{"settings", "other settings"}
		},
		Push:     func(context.Context, Caller, Links) error { return reached },
		Ship:     func(context.Context, Caller, Records) error { return reached },
		Claim:    func(context.Context, Caller, Claim) ([]Verdict, error) { return nil, reached },
		Hand:     func(context.Context, Caller, Records) error { return reached },
		Lease:    func(context.Context, Caller, []byte) ([]byte, error) { return nil, reached },
		Pulse:    func(context.Context, Caller, uint64) (Pulse, error) { return Pulse{}, reached },
		End:      func(context.Context, Caller, End) (bool, error) { return false, reached },
		Budget:   func(context.Context, Caller, Budget) (Grant, error) { return Grant{}, reached },
		Share:    func(context.Context, Caller, ShareAsk) (ShareGrant, error) { return ShareGrant{}, reached },
		Contents: func(context.Context, Caller, []Content) ([]ContentAnswer, error) { return nil, reached },
		Pages:    func(context.Context, Caller, *PageReader) error { return reached },
		Copy:     func(context.Context, Caller, Copy) (CopyAnswer, error) { return CopyAnswer{}, reached },
		Orders:   func(context.Context, Caller, Orders) (OrdersAnswer, error) { return OrdersAnswer{}, reached },
		Operate: func(context.Context, Caller, Operation) (OperationAnswer, error) {
			return OperationAnswer{}, reached
		},
	})
	me := caller(unknown)
	ctx := t.Context()
	var refused uint64
	for call, do := range map[Call]func(*Peer) error{
		CallHello: func(p *Peer) error {
			_, err := p.Hello(ctx, Hello{Agent: Agent{
				Name: me.Name, Instance: me.Instance, Boot: me.Boot, Capacity: 1, Addr: "127.0.0.1:1",
			}})
			return err
		},
		CallPush:   func(p *Peer) error { return p.Push(ctx, links("http://a.example/")) },
		CallShip:   func(p *Peer) error { return p.Ship(ctx, Records{Seq: 1, Count: 1, Data: []byte("record")}) },
		CallClaim:  func(p *Peer) error { _, err := p.Claim(ctx, Claim{Hosts: []string{"a.example"}}); return err },
		CallHand:   func(p *Peer) error { return p.Hand(ctx, Records{Count: 1, Data: []byte("x")}) },
		CallLease:  func(p *Peer) error { _, err := p.Lease(ctx, []byte("may I?")); return err },
		CallPulse:  func(p *Peer) error { _, err := p.Pulse(ctx, 1); return err },
		CallEnd:    func(p *Peer) error { _, err := p.End(ctx, End{}); return err },
		CallBudget: func(p *Peer) error { _, err := p.Budget(ctx, Budget{Known: map[string]int64{}}); return err },
		CallKnown:  func(p *Peer) error { _, err := p.Known(ctx, []Fingerprint{1}); return err },
		CallShare:  func(p *Peer) error { _, err := p.Share(ctx, ShareAsk{}); return err },
		CallRecall: func(p *Peer) error {
			_, err := p.Recall(ctx, Recall{Links: links("http://a.example/")})
			return err
		},
		CallCopy:    func(p *Peer) error { _, err := p.Copy(ctx, Copy{Kind: CopyList}); return err },
		CallOrders:  func(p *Peer) error { _, err := p.Orders(ctx, Orders{}); return err },
		CallOperate: func(p *Peer) error { _, err := p.Operate(ctx, Operation{Method: "Pause"}); return err },
		CallPages: func(p *Peer) error {
			return p.Pages(ctx, []Page{pageOf("http://a.example/", []byte("page"))})
		},
		CallContents: func(p *Peer) error {
			_, err := p.Contents(ctx, []Content{{Page: ContentPage{URL: "http://a.example/"}}})
			return err
		},
	} {
		err := do(client(t, keys[unknown], me, nil).Peer("a2", l.Addr()))
		refusal, ok := errors.AsType[*Refusal](err)
		switch {
		case call == CallHello && (!ok || refusal.Reason != "settings"):
			t.Errorf("%s: %v", call, err)
		case call != CallHello && !errors.Is(err, ErrAgain):
			t.Errorf("%s: %v", call, err)
		case call != CallHello:
			refused++
		}
	}
	if n := s.Counts().Refused[NotAdmitted.String()]; n != refused || refused != uint64(CallDiscover)-1 {
		t.Errorf("%d calls refused, %d counted", refused, n)
	}
}
