package coordinator

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/orbweaver/orbweaver/internal/cluster/assignment"
	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// MachineConfig tunes a Machine.
type MachineConfig struct {
	FS disk.FS
	// Dir belongs to the Machine. Its files are working files: OpenMachine empties it.
	Dir string
	// MemoryBytes bounds the RAM of the table of hosts. Zero means 256 MiB, which is enough for 90 million hosts;
	// with more, commands read more of the disk.
	MemoryBytes int64
}

// A Machine is the state that coordinators replicate: the stream, and what follows from it. The log of the
// coordinators drives it (Apply, Snapshot, Restore: one call at a time). All else is safe for concurrent use.
//
// After the same commands two Machines are equal (Digest). If the disk fails, the Machine fails for good (Failed):
// the coordinator must be closed. It is made anew from the log and its last snapshot.
type Machine struct {
	cfg    MachineConfig
	failed chan error
	made   int // directories that were made

	mu  sync.RWMutex // guards the fields below; not held during I/O
	now state
	err error
	// changed is closed and replaced when the stream has a new entry.
	changed chan struct{}
}

// A state is all that a Machine knows. Apply changes it.
type state struct {
	dir    string
	stream *stream
	table  *table

	claim  *Claim
	roster assignment.Roster // its Term is 0 if there was none
	// since has, for agents of the roster, the term since which the agent has been a member without a break, and up
	// before it was leaving. read has the term up to which the agent is known to have read the stream, not below
	// since.
	since, read map[string]uint64
	chooser     chooser
	hosts       uint64
	assigned    map[string]uint64 // hosts by agent
	// chain is a hash of all entries.
	chain [sha256.Size]byte
}

// OpenMachine returns a Machine without entries.
func OpenMachine(cfg MachineConfig) (*Machine, error) {
	if cfg.MemoryBytes <= 0 {
		cfg.MemoryBytes = 256 << 20
	}
	m := &Machine{cfg: cfg, failed: make(chan error, 1), changed: make(chan struct{})}
	if err := cfg.FS.RemoveAll(cfg.Dir); err != nil {
		return nil, fmt.Errorf("coordinator: %w", err)
	}
	s, err := m.empty()
	if err != nil {
		return nil, fmt.Errorf("coordinator: %w", err)
	}
	m.now = s
	return m, nil
}

// empty returns a state without entries in a new directory.
func (m *Machine) empty() (s state, err error) {
	m.made++
	s = state{dir: filepath.Join(m.cfg.Dir, fmt.Sprint(m.made)), since: map[string]uint64{},
		read: map[string]uint64{}, assigned: map[string]uint64{}}
	if err := m.cfg.FS.MkdirAll(s.dir, 0o755); err != nil {
		return s, err
	}
	if s.stream, err = createStream(m.cfg.FS, filepath.Join(s.dir, "stream")); err != nil {
		return s, err
	}
	if s.table, err = openTable(m.cfg.FS, filepath.Join(s.dir, "hosts"), m.cfg.MemoryBytes); err != nil {
		return s, errors.Join(err, s.stream.close())
	}
	return s, nil
}

// discard closes the files of a state and removes them. The stream stays until its readers have ended.
func (m *Machine) discard(s *state) error {
	return errors.Join(s.table.close(), m.cfg.FS.RemoveAll(filepath.Join(s.dir, "hosts")), s.stream.close())
}

// Failed receives the error that ended the Machine.
func (m *Machine) Failed() <-chan error { return m.failed }

// fail ends the Machine, and returns err.
func (m *Machine) fail(err error) error {
	err = fmt.Errorf("coordinator: %w", err)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err == nil {
		m.err = err
		m.failed <- err
	}
	return m.err
}

func (m *Machine) failure() error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.err
}

// Close closes the files and removes them.
func (m *Machine) Close() error {
	m.mu.Lock()
	s := m.now
	closed := m.err == errClosed
	m.err = errClosed
	m.mu.Unlock()
	if closed {
		return nil
	}
	return errors.Join(m.discard(&s), m.cfg.FS.RemoveAll(m.cfg.Dir))
}

var errClosed = errors.New("the coordinator is closed")

// Apply executes a command. The result is nil or an error. The index is that of the command in the log.
func (m *Machine) Apply(index uint64, command []byte) (result any) {
	if err := m.failure(); err != nil {
		return err
	}
	if len(command) == 0 {
		return fmt.Errorf("%w: entry %d of the log is empty", errCommand, index)
	}
	err := errCommand
	switch kind, b := command[0], command[1:]; kind {
	case cmdNothing:
		err = nil
	case cmdAssign:
		err = m.applyAssign(b)
	case cmdRoster:
		err = m.applyRoster(b)
	case cmdClaim:
		err = m.applyClaim(b)
	case cmdRead:
		err = m.applyRead(b)
	}
	if err != nil {
		return err
	}
	return nil // not a nil error in an interface
}

func (m *Machine) applyAssign(b []byte) error {
	a, hosts, err := decodeAssign(b)
	if err != nil {
		return err
	}
	m.mu.Lock()
	s := &m.now // only Apply and Restore replace it
	ended, some := s.roster.Ended, s.chooser.candidates(&s.roster, a.Away)
	m.mu.Unlock()
	switch {
	case ended:
		return errEnded
	case !some:
		return errNobody
	}
	last, _ := s.stream.extent()
	added, err := s.table.add(hosts, last+1)
	if err != nil {
		return m.fail(err)
	}
	if len(added) == 0 {
		return nil
	}
	m.mu.Lock()
	shares := s.divide(a, hosts, added)
	m.mu.Unlock()
	return m.add(&assignment.Entry{Number: last + 1, Shares: shares})
}

// divide chooses the agents of new hosts: of those of hosts that added names.
func (s *state) divide(a assign, hosts []string, added []int) (shares []assignment.Share) {
	c := &s.chooser
	for i := range c.Turns {
		c.Turns[i].load = a.Loads[c.Turns[i].Name]
	}
	got := make([][]string, len(c.Turns))
	for _, i := range added {
		at := 0
		if a.Loads == nil {
			at = c.next()
		} else {
			at = c.least(a.Unit)
		}
		got[at] = append(got[at], hosts[i])
	}
	for i, hosts := range got { // Turns are ordered by name
		if len(hosts) > 0 {
			slices.Sort(hosts)
			shares = append(shares, assignment.Share{Agent: c.Turns[i].Name, Hosts: hosts})
		}
	}
	return shares
}

func (m *Machine) applyRoster(b []byte) error {
	term, number, next, err := decodeRoster(b)
	last, _ := m.now.stream.extent()
	switch {
	case err != nil:
		return err
	case m.now.roster.Ended:
		return errEnded
	case term != m.now.roster.Term || number > 0 && number != last:
		return errStale
	}
	next.Term = last + 1
	return m.add(&assignment.Entry{Number: last + 1, Roster: next})
}

// add appends an entry to the stream and lets it take effect.
func (m *Machine) add(e *assignment.Entry) error {
	if err := m.now.stream.append(e.AppendTo(nil)); err != nil {
		return m.fail(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now.effect(e)
	close(m.changed)
	m.changed = make(chan struct{})
	return nil
}

// effect changes what follows from the stream.
func (s *state) effect(e *assignment.Entry) {
	h := sha256.New()
	h.Write(s.chain[:])
	h.Write(e.AppendText(binary.BigEndian.AppendUint64(nil, e.Number)))
	h.Sum(s.chain[:0])
	for _, share := range e.Shares {
		n := uint64(len(share.Hosts))
		s.assigned[strings.Clone(share.Agent)] += n
		s.hosts += n
	}
	if e.Roster == nil {
		return
	}
	since := map[string]uint64{}
	for _, n := range e.Roster.Members {
		since[n.Name] = e.Number
		o, ok := s.roster.Member(n.Name)
		if ok && o.Instance == n.Instance && (o.State == assignment.Up || n.State == assignment.Leaving) {
			since[n.Name] = s.since[n.Name]
		}
	}
	s.roster, s.since = *e.Roster, since
	s.roster.Term = e.Number
	maps.DeleteFunc(s.read, func(name string, term uint64) bool { return term < since[name] || since[name] == 0 })
}

func (m *Machine) applyClaim(b []byte) error {
	var c Claim
	if _, err := head(b, &c); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.now.claim == nil {
		m.now.claim = &c
	}
	return nil
}

func (m *Machine) applyRead(b []byte) error {
	var read map[string]uint64
	if _, err := head(b, &read); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := &m.now
	for name, term := range read {
		if since := s.since[name]; since > 0 && term >= since && term > s.read[name] && term <= s.roster.Term {
			s.read[name] = term
		}
	}
	return nil
}

// Extent returns the number of the last entry and the size of the stream.
func (m *Machine) Extent() (last uint64, bytes int64) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.now.stream.extent()
}

// Roster returns the last roster, which must not be changed. Its Term is 0 if there was none.
func (m *Machine) Roster() assignment.Roster {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.now.roster
}

// claimed returns the crawl that the coordinators serve, or nil. It must not be changed.
func (m *Machine) claimed() *Claim {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.now.claim
}

// progress returns the roster, and copies of the terms since which agents are members and up to which they have
// read.
func (m *Machine) progress() (r assignment.Roster, since, read map[string]uint64) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.now.roster, maps.Clone(m.now.since), maps.Clone(m.now.read)
}

// counts returns the number of hosts, and those of each agent.
func (m *Machine) counts() (hosts uint64, byAgent map[string]uint64) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.now.hosts, maps.Clone(m.now.assigned)
}

// Bytes returns the memory and the disk space of the table of hosts. It may wait for a command.
func (m *Machine) Bytes() (memory, disk int64) {
	m.mu.RLock()
	t := m.now.table
	m.mu.RUnlock()
	return t.bytes()
}

// check returns the numbers of the entries of hosts, 0 for hosts without an entry.
func (m *Machine) check(hosts []string) ([]uint64, error) {
	m.mu.RLock()
	t, err := m.now.table, m.err
	m.mu.RUnlock()
	if err != nil {
		return nil, err
	}
	numbers, err := t.check(hosts)
	if err != nil && m.replaced(t) {
		return nil, errStale
	}
	if err != nil {
		return nil, m.fail(err)
	}
	return numbers, nil
}

// replaced reports whether Restore has replaced a table.
func (m *Machine) replaced(t *table) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.now.table != t
}

// entries returns the entries from a number on, as many as fit into MaxData, and a channel that is closed when there
// are more than these.
func (m *Machine) entries(from uint64) (data []byte, more <-chan struct{}, err error) {
	m.mu.RLock()
	s, more, err := m.now.stream, m.changed, m.err
	m.mu.RUnlock()
	if err != nil {
		return nil, nil, err
	}
	if data, err = s.entries(from, MaxData); err != nil {
		return nil, nil, m.fail(err)
	}
	return data, more, nil
}

// changes returns a channel that is closed when the stream has more entries than at the call.
func (m *Machine) changes() <-chan struct{} {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.changed
}

// Digest is equal for two Machines that have applied the same commands, in any versions of their files.
func (m *Machine) Digest() [sha256.Size]byte {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return sha256.Sum256(m.now.head())
}

// Crawl returns the crawl that the first agent has brought; zero before that.
func (m *Machine) Crawl() [16]byte {
	if c := m.claimed(); c != nil {
		return c.Crawl
	}
	return [16]byte{}
}
