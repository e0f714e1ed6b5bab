package cluster

import (
	"encoding/binary"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/orbweaver/orbweaver/internal/web/link"
)

// Several agents find the links to a popular page, and each of them has to tell the page's owner. So
// an agent first asks the owner which of the URLs it has, and then sends the links to the others:
//
//	batch -> fingerprints -> Durable.Has, at the owner -> links that it does not have -> Receive

const (
	// durableBits makes the cache of durable URLs 2 MiB large.
	durableBits = 18
	// FingerprintBits is the number of bits of a fingerprint.
	FingerprintBits = 48
	// freshMax bounds the URLs that wait until they are durable.
	freshMax = 1 << 16

	stampMask = 1<<(64-FingerprintBits) - 1
)

// A Durable is a cache of URLs that this agent crawls and that cannot be lost any more: they are as
// durable as links that Receive has accepted. The URLs are known by fingerprints of 48 bits. Two of
// them are equal by chance with a probability of 3.6e-15, and each URL is compared with one other
// only. A nil Durable has no URLs. Safe for concurrent use.
type Durable struct {
	salt func() [16]byte
	// A slot has a fingerprint and, above it, the low bits of its generation.
	slots      [1 << durableBits]atomic.Uint64
	generation atomic.Uint64
}

// NewDurable returns an empty Durable. salt returns the crawl's random ID, which is the same at all
// agents: without it, nobody can make a URL with the fingerprint of another one.
func NewDurable(salt func() [16]byte) *Durable {
	d := &Durable{salt: salt}
	d.generation.Store(1) // so the zero slot is empty
	return d
}

// Fingerprint returns the fingerprint of a URL with key k. It is the same at all agents of a crawl.
func (d *Durable) Fingerprint(k link.Key) uint64 {
	salt := d.salt()
	hi, lo := bits.Mul64(k.Host^binary.LittleEndian.Uint64(salt[:]), k.Path^binary.LittleEndian.Uint64(salt[8:]))
	h := (hi ^ lo) * 0x9e3779b97f4a7c15
	return (h ^ h>>32) * 0xff51afd7ed558ccd >> (64 - FingerprintBits)
}

// OfPage returns the fingerprint of a page that this agent has by a link; see DurableKey.
func (d *Durable) OfPage(page link.Link) uint64 { return d.Fingerprint(DurableKey(page)) }

// Has reports whether this agent has the URL with a fingerprint. False may also mean that it has
// forgotten it.
func (d *Durable) Has(fingerprint uint64) bool {
	return d.slot(fingerprint).Load() == stamped(fingerprint, d.now())
}

func (d *Durable) slot(f uint64) *atomic.Uint64 { return &d.slots[f>>(FingerprintBits-durableBits)] }

func stamped(f, generation uint64) uint64 { return f | generation&stampMask<<FingerprintBits }

// now returns the generation, for add.
func (d *Durable) now() uint64 {
	if d == nil {
		return 0
	}
	return d.generation.Load()
}

// add adds a URL. generation is from a time when this agent had the URL already. If forget was
// called since then, the URL is not added.
func (d *Durable) add(k link.Key, generation uint64) {
	if d == nil {
		return
	}
	f := d.Fingerprint(k)
	d.slot(f).Store(stamped(f, generation))
}

// forget empties the cache: this agent may not have some of the URLs any more, or may not know who
// has them.
func (d *Durable) forget() {
	if d == nil {
		return
	}
	for d.generation.Add(1)&stampMask == 0 { // from now on the stamps repeat
		for i := range d.slots {
			d.slots[i].Store(0)
		}
	}
}

// lingerFor is how long links for another agent are gathered after a batch. Larger batches take
// fewer calls. But a page is shipped to its heir only when its links have arrived, so the loss of a
// machine repeats the pages of this time, too. It is also shorter than the delay between two
// requests to a host, so the order of the visits hardly changes. An agent with fewer than lingerFrom
// pending links sends at once, because the others may have no work either.
const (
	lingerFor  = 500 * time.Millisecond
	lingerFrom = 256
)

// linger returns how long links are gathered now.
func (b *base) linger() time.Duration {
	if b.run.Stopping() || b.loop.Frontier.Pending() < lingerFrom {
		return 0
	}
	return lingerFor
}
