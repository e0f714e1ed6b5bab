package consensus

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// A voteStore is a raft.StableStore for the three values that raft stores: the term, and the last vote. It also has
// what a returning member must catch up with. Safe for concurrent use. Each call is durable when it returns.
type voteStore struct {
	fs     disk.FS
	name   string
	health *health

	writing turn       // one call at a time changes the file
	mu      sync.Mutex // guards v
	v       votes
}

// votes are the values of a voteStore.
type votes struct {
	term, votedTerm uint64
	candidate       []byte // nil: no vote
	// A returning member does not vote before its log is as new as this entry. Zeros: it may vote.
	missingTerm, missingIndex uint64
}

const maxVoteFile = 4 << 10

func openVotes(fs disk.FS, dir string, h *health) (*voteStore, error) {
	s := &voteStore{fs: fs, name: filepath.Join(dir, "vote"), health: h, writing: newTurn()}
	b, err := disk.ReadFile(fs, s.name, maxVoteFile)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return s, nil
	case err != nil:
		return nil, err
	}
	if s.v, err = parseVotes(b); err != nil {
		return nil, &DamageError{s.name, 0, err.Error()}
	}
	return s, nil
}

func (v *votes) appendTo(dst []byte) []byte {
	start := len(dst)
	dst = append(dst, voteMagic...)
	for _, n := range []uint64{v.term, v.votedTerm, v.missingTerm, v.missingIndex, uint64(len(v.candidate))} {
		dst = le.AppendUint64(dst, n)
	}
	dst = append(dst, v.candidate...)
	return le.AppendUint32(dst, checksum(dst[start:]))
}

func parseVotes(b []byte) (v votes, err error) {
	const fixed = 48
	switch {
	case len(b) < fixed+4 || string(b[:7]) != voteMagic[:7]:
		return v, errors.New("it is not a file with votes")
	case le.Uint32(b[len(b)-4:]) != checksum(b[:len(b)-4]):
		return v, errors.New("its checksum is wrong")
	case b[7] != voteMagic[7]:
		return v, fmt.Errorf("it has format version %d; use a program that reads it, this one reads version %d",
			b[7], voteMagic[7])
	case le.Uint64(b[40:]) != uint64(len(b)-fixed-4):
		return v, errors.New("its length is wrong")
	}
	v = votes{term: le.Uint64(b[8:]), votedTerm: le.Uint64(b[16:]),
		missingTerm: le.Uint64(b[24:]), missingIndex: le.Uint64(b[32:])}
	if c := b[fixed : len(b)-4]; len(c) > 0 {
		v.candidate = c
	}
	return v, nil
}

// The keys that raft uses.
const (
	keyTerm      = "CurrentTerm"
	keyVotedTerm = "LastVoteTerm"
	keyCandidate = "LastVoteCand"
)

func errKey(key []byte) error { return fmt.Errorf("unknown key %q", key) }

// change lets fn change the values, and writes them if they have changed. It returns no failure of the disk, because
// raft would panic: see health.
func (s *voteStore) change(fn func(*votes)) {
	s.writing.begin()
	defer s.writing.end()
	v := s.get()
	old := v.appendTo(nil)
	fn(&v)
	if b := v.appendTo(nil); string(b) != string(old) && s.health.err() == nil {
		s.health.fail(disk.WriteFile(s.fs, s.name, b))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.v = v
}

func (s *voteStore) get() votes {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.v
}

func (s *voteStore) Set(key, val []byte) error {
	if string(key) != keyCandidate {
		return errKey(key)
	}
	s.change(func(v *votes) { v.candidate = append([]byte(nil), val...) })
	return nil
}

func (s *voteStore) Get(key []byte) ([]byte, error) {
	if string(key) != keyCandidate {
		return nil, errKey(key)
	}
	return s.get().candidate, nil
}

func (s *voteStore) SetUint64(key []byte, val uint64) error {
	switch string(key) {
	case keyTerm:
		s.change(func(v *votes) { v.term = val })
	case keyVotedTerm:
		s.change(func(v *votes) { v.votedTerm = val })
	default:
		return errKey(key)
	}
	return nil
}

func (s *voteStore) GetUint64(key []byte) (uint64, error) {
	switch string(key) {
	case keyTerm:
		return s.get().term, nil
	case keyVotedTerm:
		return s.get().votedTerm, nil
	}
	return 0, errKey(key)
}
