package robots

import (
	"encoding/binary"
	"hash/maphash"
	"slices"
	"sync"
)

// sharing keeps one copy of a group for all origins whose robots.txt say the same to the agent.
// Most hosts have the file that came with their software, and only its sitemaps differ.
type sharing struct {
	seed maphash.Seed
	// mu guards all fields below and the holders of every group. Ask does not take it.
	mu    sync.Mutex
	byKey map[uint64]*group // the groups in use
}

func (s *sharing) init() {
	s.seed = maphash.MakeSeed()
	s.byKey = make(map[uint64]*group)
}

func (s *sharing) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.byKey)
}

// hold returns the copy of g to keep and the memory in bytes that it adds: zero if the same group
// is kept already. A nil g means "no group".
func (s *sharing) hold(g *group) (kept *group, bytes int64) {
	if g == nil {
		return nil, 0
	}
	key := s.key(g)
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.byKey[key]; k != nil {
		if k != g && (k.text != g.text || !slices.Equal(k.lines, g.lines)) {
			// Two different groups have one key: the later one is not shared.
			return g, g.memory
		}
		k.holders++
		return k, 0
	}
	g.key, g.holders = key, 1
	s.byKey[key] = g
	return g, g.memory
}

// release releases groups and returns the memory in bytes that becomes free.
func (s *sharing) release(groups [2]*group) (bytes int64) {
	if groups == [2]*group{} {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range groups {
		if g == nil {
			continue
		}
		if g.holders == 0 { // not shared
			bytes += g.memory
			continue
		}
		if g.holders--; g.holders == 0 {
			bytes += g.memory
			delete(s.byKey, g.key)
		}
	}
	return bytes
}

func (s *sharing) key(g *group) uint64 {
	var h maphash.Hash
	h.SetSeed(s.seed)
	h.WriteString(g.text)
	var b [8]byte
	for _, l := range g.lines {
		binary.LittleEndian.PutUint32(b[:], uint32(l.end))
		binary.LittleEndian.PutUint32(b[4:], uint32(l.line))
		h.Write(b[:])
	}
	return h.Sum64()
}
