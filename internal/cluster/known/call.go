package known

import (
	"context"
	"fmt"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

const (
	// maxAsked bounds the fingerprints in one call.
	maxAsked = 10_000
	// octets is the length of a fingerprint on the wire.
	octets = fingerprintBits / 8
)

// Call asks an agent which URLs it has, by their fingerprints. The answer has a bit for each, in their order.
var Call = rpc.Method[pb.KnownRequest, pb.KnownResponse]{Call: rpc.CallKnown, Request: checkRequest,
	Response: checkResponse}

func checkRequest(q *pb.KnownRequest) error {
	n := len(q.Fingerprints)
	if n == 0 || n%octets != 0 {
		return rpc.Malformedf("%d octets of fingerprints", n)
	}
	if n > maxAsked*octets {
		return fmt.Errorf("%w: %d fingerprints", rpc.ErrTooLarge, n/octets)
	}
	return nil
}

func checkResponse(q *pb.KnownRequest, r *pb.KnownResponse) error {
	n := len(q.Fingerprints) / octets
	if len(r.Known) != (n+7)/8 || n%8 != 0 && r.Known[len(r.Known)-1]>>(n%8) != 0 {
		return rpc.Malformedf("%d octets for %d fingerprints", len(r.Known), n)
	}
	return nil
}

// Request returns a question about fingerprints.
func Request(fingerprints ...uint64) *pb.KnownRequest {
	b := make([]byte, 0, len(fingerprints)*octets)
	for _, f := range fingerprints {
		b = append(b, byte(f>>40), byte(f>>32), byte(f>>24), byte(f>>16), byte(f>>8), byte(f))
	}
	return &pb.KnownRequest{Fingerprints: b}
}

// Ask asks another agent which of the URLs with these keys it has. False may also mean that it has forgotten the URL.
func (d *Durable) Ask(ctx context.Context, p *rpc.Peer, keys []link.Key) (known []bool, err error) {
	fs := make([]uint64, len(keys))
	for i, k := range keys {
		fs[i] = d.Fingerprint(k)
	}
	r, err := Call.Ask(ctx, p, Request(fs...))
	if err != nil {
		return nil, err
	}
	d.asked.Add(uint64(len(keys)))
	known = make([]bool, len(keys))
	for i := range known {
		known[i] = r.Known[i/8]>>(i%8)&1 == 1
	}
	return known, nil
}

// Asked returns the number of URLs that this agent has asked others about.
func (d *Durable) Asked() uint64 { return d.asked.Load() }

// Answer answers another agent which of the URLs this one has.
func (d *Durable) Answer(_ context.Context, _ rpc.Caller, q *pb.KnownRequest) (*pb.KnownResponse, error) {
	n := len(q.Fingerprints) / octets
	r := &pb.KnownResponse{Known: make([]byte, (n+7)/8)}
	for i := range n {
		var f uint64
		for _, b := range q.Fingerprints[i*octets : (i+1)*octets] {
			f = f<<8 | uint64(b)
		}
		if d.Has(f) {
			r.Known[i/8] |= 1 << (i % 8)
		}
	}
	return r, nil
}
