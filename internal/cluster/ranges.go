package cluster

import (
	"maps"

	"github.com/orbweaver/orbweaver/internal/cluster/boundary"
	"github.com/orbweaver/orbweaver/internal/crawl/ledger"
	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/store/fields"
	"github.com/orbweaver/orbweaver/internal/store/keyset"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// Where hosts move between agents, the seen-set has three ranges of keys for each host:
//
//	own      accepted here since the host was last given away, pending or finished
//	done     finished, here or elsewhere: sent to the host's next owner
//	foreign  links sent, or to be sent, to the host's owner (foreignKey)
//	page     pages that this agent has, and that other agents have fetched or may fetch, too (boundary.VersionKey)
//
// When the agent gives a host away, it starts a new, empty own range. So the links that leave with
// the host are unknown here, and are accepted if they come back with it. Before this agent crawls
// the host again, it copies the done keys into the new own range.

// ranges are these keys. The dispatcher owns them.
type ranges struct {
	*base
	handed map[uint64]handed // hosts that were given away, by key
	done   []link.Key        // of finished URLs and of pages, which the seen-set does not have yet
}

// A handed records that a host was handed to another agent.
type handed struct {
	gen   uint32 // how often the host was given away; names its own range
	apart bool   // its done keys are not in its own range yet
	last  uint64 // number of the last accept before it was last given away
}

// key returns the key of a URL of the host in the host's own range.
func (h handed) key(k link.Key) link.Key {
	k.Host += uint64(h.gen) * 0x9e3779b97f4a7c15
	return k
}

// OwnKey returns the key in the seen-set of a URL that this agent crawls.
func (r *ranges) OwnKey(k link.Key) link.Key { return r.keys().own(k) }

// keys returns the keys of the seen-set.
func (r *ranges) keys() hostKeys { return hostKeys{r.handed, r.PageBox != nil} }

// hostKeys are the Keys of an agent of a cluster.
type hostKeys struct {
	handed map[uint64]handed // the hosts that it has given away
	moves  bool              // pages move
}

func (h hostKeys) own(k link.Key) link.Key {
	if len(h.handed) == 0 {
		return k
	}
	return h.handed[k.Host].key(k)
}

func (h hostKeys) Of(k link.Key, foreign bool) link.Key {
	if foreign {
		return foreignKey(k)
	}
	return h.own(k)
}

func (h hostKeys) Kind(k link.Key, l link.Link) byte {
	switch {
	case isForeign(k, l):
		return state.Outgoing
	case k != h.own(l.Key()): // given away meanwhile
		return state.Passed
	}
	return state.Accept
}

func (h hostKeys) Accept(kind byte, number uint64, p []byte) (k link.Key, ok bool, err error) {
	if kind == state.Passed {
		return k, false, nil
	}
	if k, err = linkKey(p); err != nil || kind == state.Outgoing {
		return foreignKey(k), err == nil, err
	}
	given, is := h.handed[k.Host]
	return given.key(k), !is || number > given.last, nil
}

func (h hostKeys) Finish(k link.Key) (link.Key, bool) { return doneKey(k), true }

func (h hostKeys) Page(dst []link.Key, l link.Link) []link.Key {
	if !h.moves || l.App() != "" {
		return dst
	}
	page, version := boundary.PageKey(link.KeyOf(l.URL)), boundary.VersionKey(l)
	if dst = append(dst, page); version != page {
		dst = append(dst, version)
	}
	return dst
}

func (h hostKeys) Freeze() ledger.Keys { return hostKeys{maps.Clone(h.handed), h.moves} }

// doneKey returns the key of a finished URL. No host has its host part, as with foreignKey.
func doneKey(k link.Key) link.Key {
	return link.Key{Host: k.Host ^ 0xd1b54a32d192ed03, Path: k.Path}
}

// fields names the fields of a record: 8 bytes key of the host, big-endian, uvarint gen, uvarint last, and a byte that
// is 1 if apart is true.
func (h *handed) fields(c *fields.Codec, host *uint64) *fields.Codec {
	fields.Fixed64(c, host)
	fields.Uint(c, &h.gen)
	fields.Uint(c, &h.last)
	c.Flags(&h.apart)
	c.Check(h.gen > 0 && h.last <= state.MaxNumber)
	return c
}

func appendHanded(dst []byte, host uint64, h handed) []byte {
	return h.fields(fields.Write(dst), &host).Written()
}

// setHanded records what becomes of the range of a host.
func (r *ranges) setHanded(host uint64, h handed) {
	r.handed[host] = h
	r.loop.Ledger.Add(state.Handed, appendHanded(nil, host, h))
}

// putHanded writes the hosts that were given away into a checkpoint.
func (r *ranges) putHanded(put func(kind byte, p []byte) error) error {
	for host, h := range r.handed {
		if err := put(state.Handed, appendHanded(nil, host, h)); err != nil {
			return err
		}
	}
	return nil
}

func decodeHanded(p []byte) (host uint64, h handed, err error) {
	if !h.fields(fields.Read(p), &host).Whole() {
		return 0, handed{}, state.ErrRecord
	}
	return host, h, nil
}

// rangeOf reads a range of the seen-set.
func (r *ranges) rangeOf(host uint64) keyset.Paths {
	r.flush()
	s, err := r.loop.Ledger.Range(host)
	r.run.Fail(err)
	return s
}

// hasNone reports that the seen-set has no key of a range.
func (r *ranges) hasNone(host uint64) bool {
	none, err := r.loop.Ledger.EmptyRange(host)
	r.run.Fail(err)
	return none
}

// noteDone records that a URL is finished, for the host's next owner.
func (r *ranges) noteDone(k link.Key) { r.done = append(r.done, doneKey(k)) }

// NotePage records that this agent has a page.
func (r *ranges) NotePage(l link.Link) { r.done = r.keys().Page(r.done, l) }

// flush adds the keys of finished URLs to the seen-set. It is also called before these keys are read.
func (r *ranges) flush() {
	if len(r.done) == 0 || r.run.Failed() {
		return
	}
	keys := r.done
	r.done = nil
	if r.run.Fail(r.loop.Ledger.Note(keys)); r.done == nil {
		r.done = keys[:0]
	}
}

// HasKey reports whether the seen-set has a key.
func (r *ranges) HasKey(key link.Key) bool {
	if r.flush(); !r.loop.Seen.MayHave(key) {
		return false
	}
	paths := r.rangeOf(key.Host)
	return paths.Has(keyset.WholeKey, key.Path)
}

// linkKey returns the key of an encoded link, which contains its destination.
func linkKey(enc []byte) (link.Key, error) {
	l, _, err := link.Peek(enc)
	to, _ := l.Destination()
	return l.Key().To(to), err
}
