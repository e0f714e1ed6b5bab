package rpc

import (
	"context"
	"fmt"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
)

// Most URLs that agents send to their owner are known there: popular pages are linked from the
// hosts of all agents. So the sender first asks with Known, in 6 bytes for each URL, and then
// pushes the links that are not known.

// MaxKnown bounds the fingerprints in one call.
const MaxKnown = 10_000

// A Fingerprint is a hash of a URL in 48 bits, which the callers agree on.
type Fingerprint uint64

// fingerprintLen is the length of a fingerprint on the wire, in octets.
const fingerprintLen = 6

// Known asks the owner of URLs which of them it has durably. There is an answer for each
// fingerprint, in their order. False may also mean that the owner has forgotten it.
func (p *Peer) Known(ctx context.Context, ps []Fingerprint) (known []bool, err error) {
	err = p.call(ctx, CallKnown, func(ctx context.Context) error {
		res, err := unary[pb.KnownResponse](ctx, p, CallKnown, fingerprintsToWire(ps))
		if err == nil {
			p.client.counts.keys.Add(uint64(len(ps)))
			known, err = knownBitsFromWire(res, len(ps))
		}
		return err
	})
	return known, err
}

func fingerprintsToWire(ps []Fingerprint) *pb.KnownRequest {
	b := make([]byte, 0, len(ps)*fingerprintLen)
	for _, p := range ps {
		b = append(b, byte(p>>40), byte(p>>32), byte(p>>24), byte(p>>16), byte(p>>8), byte(p))
	}
	return &pb.KnownRequest{Fingerprints: b}
}

func fingerprintsFromWire(w *pb.KnownRequest) ([]Fingerprint, error) {
	n := len(w.Fingerprints) / fingerprintLen
	if n == 0 || len(w.Fingerprints)%fingerprintLen != 0 {
		return nil, malformed("%d octets of fingerprints", len(w.Fingerprints))
	}
	if n > MaxKnown {
		return nil, fmt.Errorf("%w: %d fingerprints", ErrTooLarge, n)
	}
	ps := make([]Fingerprint, n)
	for i := range ps {
		for _, b := range w.Fingerprints[i*fingerprintLen : (i+1)*fingerprintLen] {
			ps[i] = ps[i]<<8 | Fingerprint(b)
		}
	}
	return ps, nil
}

func knownBitsToWire(known []bool) *pb.KnownResponse {
	b := make([]byte, (len(known)+7)/8)
	for i, k := range known {
		if k {
			b[i/8] |= 1 << (i % 8)
		}
	}
	return &pb.KnownResponse{Known: b}
}

func knownBitsFromWire(w *pb.KnownResponse, n int) ([]bool, error) {
	if len(w.Known) != (n+7)/8 || n%8 != 0 && w.Known[len(w.Known)-1]>>(n%8) != 0 {
		return nil, malformed("%d octets for %d fingerprints", len(w.Known), n)
	}
	known := make([]bool, n)
	for i := range known {
		known[i] = w.Known[i/8]>>(i%8)&1 == 1
	}
	return known, nil
}
