// Package known answers: which of these URLs does another agent have durably?
//
//	batch -> fingerprints -> Durable.Ask -> Durable.Answer, at the owner -> the links that it does not have
//
// Most URLs that agents send to their owner are known there: popular pages are linked from the hosts of all agents. So
// an agent first asks the owner, in 6 bytes for each URL, and then sends the other links alone. The same question about
// a page names its keeper, and any question shows that an agent lives.
package known

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/bits"
	"sync/atomic"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

const (
	// durableBits makes the cache of durable URLs 2 MiB large.
	durableBits = 18
	// fingerprintBits is the number of bits of a fingerprint, and octets its length on the wire.
	fingerprintBits = 48
	octets          = fingerprintBits / 8
	// maxAsked bounds the fingerprints in one call.
	maxAsked = 10_000

	stampMask = 1<<(64-fingerprintBits) - 1
)

// A Durable is a cache of URLs that this agent crawls and that cannot be lost any more: they are as
// durable as links of other agents that it has accepted. The URLs are known by fingerprints of 48 bits. Two of
// them are equal by chance with a probability of 3.6e-15, and each URL is compared with one other
// only. A nil Durable has no URLs. Safe for concurrent use.
type Durable struct {
	crawl Crawl
	asked atomic.Uint64
	// A slot has a fingerprint and, above it, the low bits of its generation.
	slots      [1 << durableBits]atomic.Uint64
	generation atomic.Uint64
}

// A Crawl is what all agents of a crawl have in common.
type Crawl interface {
	// Crawl returns the crawl's random ID. Without it, nobody can make a URL with the fingerprint of another one.
	Crawl() rpc.ID
}

// New returns an empty Durable.
func New(of Crawl) *Durable {
	d := &Durable{crawl: of}
	d.generation.Store(1) // so the zero slot is empty
	return d
}

// Fingerprint returns the fingerprint of a URL with key k. It is the same at all agents of a crawl.
func (d *Durable) Fingerprint(k link.Key) uint64 {
	salt := d.crawl.Crawl()
	hi, lo := bits.Mul64(k.Host^binary.LittleEndian.Uint64(salt[:]), k.Path^binary.LittleEndian.Uint64(salt[8:]))
	h := (hi ^ lo) * 0x9e3779b97f4a7c15
	return (h ^ h>>32) * 0xff51afd7ed558ccd >> (64 - fingerprintBits)
}

// Has reports whether this agent has the URL with a fingerprint. False may also mean that it has
// forgotten it.
func (d *Durable) Has(fingerprint uint64) bool {
	return d.slot(fingerprint).Load() == stamped(fingerprint, d.Now())
}

func (d *Durable) slot(f uint64) *atomic.Uint64 { return &d.slots[f>>(fingerprintBits-durableBits)] }

func stamped(f, generation uint64) uint64 { return f | generation&stampMask<<fingerprintBits }

// Now returns the generation, for Add.
func (d *Durable) Now() uint64 {
	if d == nil {
		return 0
	}
	return d.generation.Load()
}

// Add adds a URL. generation is from a time when this agent had the URL already. If Forget was
// called since then, the URL is not added.
func (d *Durable) Add(k link.Key, generation uint64) {
	if d == nil {
		return
	}
	f := d.Fingerprint(k)
	d.slot(f).Store(stamped(f, generation))
}

// Forget empties the cache: this agent may not have some of the URLs any more, or may not know who
// has them.
func (d *Durable) Forget() {
	if d == nil {
		return
	}
	for d.generation.Add(1)&stampMask == 0 { // from now on the stamps repeat
		for i := range d.slots {
			d.slots[i].Store(0)
		}
	}
}

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
