package cluster

import (
	"math"
	"slices"
	"strings"

	"github.com/orbweaver/orbweaver/internal/cluster/handoff"
	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/store/fields"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// --host-page-limit bounds the pages of a host that all agents have fetched. Each agent counts its own pages
// (report.Tally), and has the counts of the agents that crawled the host before. They come with the host's
// finished URLs: from its previous owners, from an agent that leaves, or from the replica of a lost agent.
// Only one agent at a time adds to its count. A count never becomes smaller, so the largest one counts that this
// agent was told, in whatever order it comes.

// A pageCount is how many pages of a host another agent has fetched.
//
// If the disk of this agent was restored from an older copy, others may know a larger count of this agent than its
// Tally has. Then the entry with its own counter has the difference.
type pageCount struct{ counter, pages uint64 }

// maxCounts bounds the counts of one host: more agents than that do not crawl a host in turn. If another agent tells of
// more, this one leaves them out.
const maxCounts = 256

// pageCounts are the counts of other agents. The dispatcher owns them.
type pageCounts struct {
	*base
	of      map[string][]pageCount // by host
	leftOut int64                  // counts beyond maxCounts
}

// elsewhere returns how many pages of a host other agents have fetched.
func (p *pageCounts) elsewhere(host string) (n int64) {
	for _, c := range p.of[host] {
		n += int64(c.pages)
	}
	return n
}

// ownPages returns this agent's count of a host's pages, as other agents are told it.
func (p *pageCounts) ownPages(host string) uint64 {
	n := uint64(p.loop.Tally.HostPages(host))
	for _, c := range p.of[host] {
		if c.counter == p.Counter {
			n += c.pages
		}
	}
	return min(n, handoff.MaxPages)
}

// eachPages passes all counts of a host's pages to put.
func (p *pageCounts) eachPages(host string, put func(r *handoff.Record)) {
	if n := p.ownPages(host); n > 0 {
		put(&handoff.Record{Kind: handoff.Pages, Name: host, Counter: p.Counter, Pages: n})
	}
	for _, c := range p.of[host] {
		if c.counter != p.Counter {
			put(&handoff.Record{Kind: handoff.Pages, Name: host, Counter: c.counter, Pages: c.pages})
		}
	}
}

// allPages returns the encoded counts of all hosts that are wanted, given by their keys.
func (p *pageCounts) allPages(wanted func(host uint64) bool) (enc []byte) {
	add := func(host string) {
		if wanted(link.HostKey(host)) {
			p.eachPages(host, func(r *handoff.Record) { enc = r.AppendTo(enc) })
		}
	}
	for host, pages := range p.loop.Tally.EachHost() {
		if pages > 0 {
			add(host)
		}
	}
	for host := range p.of {
		if p.loop.Tally.HostPages(host) == 0 {
			add(host)
		}
	}
	return enc
}

// putAll passes concatenated encodings of records to put.
func putAll(enc []byte, put func(r *handoff.Record, host uint64) error) error {
	for len(enc) > 0 {
		r, n, err := handoff.Decode(enc, nil)
		if err != nil {
			return err
		}
		if err := put(&r, r.Host); err != nil {
			return err
		}
		enc = enc[n:]
	}
	return nil
}

// learn learns an agent's count of a host's pages. It reports whether it is new.
func (p *pageCounts) learn(r *handoff.Record) (isNew bool) {
	n := r.Pages
	if r.Counter == p.Counter {
		own := uint64(p.loop.Tally.HostPages(r.Name))
		if n <= own {
			return false
		}
		n -= own
	}
	c := pageCount{r.Counter, n}
	if !p.count(r.Name, c) {
		return false
	}
	p.loop.Ledger.Add(state.HostPages, appendPages(nil, r.Name, c))
	return true
}

// put writes the counts into a checkpoint.
func (p *pageCounts) put(put func(kind byte, b []byte) error) error {
	for host, counts := range p.of {
		for _, c := range counts {
			if err := put(state.HostPages, appendPages(nil, host, c)); err != nil {
				return err
			}
		}
	}
	return nil
}

// count records a count, unless a larger one is known, or too many others are.
func (p *pageCounts) count(host string, c pageCount) (larger bool) {
	all := p.of[host]
	switch i := slices.IndexFunc(all, func(o pageCount) bool { return o.counter == c.counter }); {
	case i < 0 && len(all) >= maxCounts && c.counter != p.Counter:
		p.leftOut++
		return false
	case i < 0:
		p.of[strings.Clone(host)] = append(all, c)
	case all[i].pages >= c.pages:
		return false
	default:
		all[i] = c
	}
	return true
}

// fields names the fields of a count: 8 bytes counter, big-endian, uvarint pages. The host follows.
func (n *pageCount) fields(c *fields.Codec) *fields.Codec {
	fields.Fixed64(c, &n.counter)
	fields.Uint(c, &n.pages)
	c.Check(n.pages <= math.MaxUint32)
	return c
}

func appendPages(dst []byte, host string, n pageCount) []byte {
	return append(n.fields(fields.Write(dst)).Written(), host...)
}

func decodePages(p []byte) (host string, n pageCount, err error) {
	c := n.fields(fields.Read(p))
	if c.Left() == 0 {
		return "", pageCount{}, state.ErrRecord
	}
	return string(c.Rest()), n, nil
}
