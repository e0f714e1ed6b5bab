package coordinator

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/orbweaver/orbweaver/internal/cluster/assignment"
)

// snapshotMagic begins a snapshot. The last byte is the version.
const snapshotMagic = "OWSITES\x01"

// maxHead bounds the head of a snapshot: 1,024 agents and their terms and turns.
const maxHead = 1 << 20

// A snapshotHead is what does not follow from the entries, and a check of these. It is equal for equal Machines.
type snapshotHead struct {
	Entries uint64            `json:"entries"`
	Chain   [sha256.Size]byte `json:"chain"`
	Claim   *Claim            `json:"claim,omitempty"`
	Read    map[string]uint64 `json:"read"`
	Chooser chooser           `json:"chooser"`
}

func (s *state) head() []byte {
	last, _ := s.stream.extent()
	b, err := json.Marshal(snapshotHead{last, s.chain, s.claim, s.read, s.chooser})
	if err != nil {
		panic(err) // structs of strings and numbers
	}
	return b
}

// A Snapshot is the state of a Machine at one moment. Write may run beside later commands.
type Snapshot struct {
	head   []byte
	size   int64
	stream *stream
}

// Snapshot returns the present state.
func (m *Machine) Snapshot() (*Snapshot, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.err != nil {
		return nil, m.err
	}
	s := &Snapshot{head: m.now.head(), stream: m.now.stream}
	_, s.size = s.stream.extent()
	if !s.stream.enter() {
		return nil, errClosed
	}
	return s, nil
}

// Write writes the snapshot.
func (s *Snapshot) Write(w io.Writer) error {
	b := binary.AppendUvarint([]byte(snapshotMagic), uint64(len(s.head)))
	b = append(b, s.head...)
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	if _, err := w.Write(b); err != nil {
		return err
	}
	if _, err := io.Copy(w, io.NewSectionReader(s.stream.read, 0, s.size)); err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	return nil
}

// Release must be called once, when the snapshot is not used any more.
func (s *Snapshot) Release() {
	_ = s.stream.leave() // at worst a working file stays until the next start
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrSnapshot reports a snapshot that is damaged, or of another version.
var ErrSnapshot = errors.New("damaged snapshot")

// damaged returns an ErrSnapshot that says where, and why if err is not nil.
func damaged(err error, format string, args ...any) error {
	where := fmt.Errorf("%w: %s", ErrSnapshot, fmt.Sprintf(format, args...))
	if err == nil {
		return where
	}
	return fmt.Errorf("%w: %w", where, err)
}

// Restore replaces the state by that of a snapshot. After an error the state is as it was.
func (m *Machine) Restore(r io.Reader) error {
	if err := m.failure(); err != nil {
		return err
	}
	s, err := m.empty()
	if err == nil {
		if err = s.readFrom(bufio.NewReaderSize(r, 64<<10)); err != nil {
			err = errors.Join(err, m.discard(&s))
		}
	}
	if err != nil {
		return fmt.Errorf("coordinator: %w", err)
	}
	m.mu.Lock()
	old := m.now
	m.now = s
	close(m.changed)
	m.changed = make(chan struct{})
	m.mu.Unlock()
	if err := m.discard(&old); err != nil {
		return m.fail(err)
	}
	return nil
}

// readFrom reads a snapshot into an empty state.
func (s *state) readFrom(r *bufio.Reader) error {
	head, err := readHead(r)
	if err != nil {
		return err
	}
	var buf []byte
	for number := uint64(1); number <= head.Entries; number++ {
		if buf, err = readEntry(r, buf); err != nil {
			return err
		}
		e, rest, err := assignment.Decode(buf)
		if err != nil || len(rest) > 0 || e.Number != number {
			return damaged(err, "entry %d of %d", number, head.Entries)
		}
		for _, share := range e.Shares {
			if err := s.table.restore(share.Hosts, number); err != nil {
				return err
			}
		}
		if err := s.stream.append(buf); err != nil {
			return err
		}
		s.effect(&e)
	}
	if _, err := r.ReadByte(); err != io.EOF {
		return damaged(nil, "more than %d entries", head.Entries)
	}
	if s.chain != head.Chain {
		return damaged(nil, "its entries are not those of its head")
	}
	s.claim, s.read, s.chooser = head.Claim, head.Read, head.Chooser
	if s.read == nil {
		s.read = map[string]uint64{}
	}
	s.chooser.sum()
	return nil
}

func readHead(r *bufio.Reader) (h snapshotHead, err error) {
	var seen bytes.Buffer
	t := io.TeeReader(r, &seen)
	magic := make([]byte, len(snapshotMagic))
	if _, err := io.ReadFull(t, magic); err != nil || string(magic) != snapshotMagic {
		return h, damaged(err, "it begins with %q, not with %q", magic, snapshotMagic)
	}
	size, err := binary.ReadUvarint(oneByte{t})
	if err != nil || size > maxHead {
		return h, damaged(err, "a head of %d bytes", size)
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(t, b); err != nil {
		return h, damaged(err, "its head")
	}
	sum := crc32.Checksum(seen.Bytes(), castagnoli)
	var want [4]byte
	if _, err := io.ReadFull(r, want[:]); err != nil || binary.LittleEndian.Uint32(want[:]) != sum {
		return h, damaged(err, "the checksum of its head")
	}
	if err := json.Unmarshal(b, &h); err != nil {
		return h, damaged(err, "its head")
	}
	return h, nil
}

// oneByte reads single bytes.
type oneByte struct{ io.Reader }

func (r oneByte) ReadByte() (byte, error) {
	var b [1]byte
	_, err := io.ReadFull(r.Reader, b[:])
	return b[0], err
}

// readEntry reads one encoded entry into buf.
func readEntry(r *bufio.Reader, buf []byte) ([]byte, error) {
	b, err := r.Peek(assignment.MaxHead)
	if len(b) == 0 || err != nil && err != io.EOF {
		return buf, damaged(err, "an entry")
	}
	n := assignment.Size(b)
	if n == 0 {
		return buf, damaged(nil, "no entry where one should begin")
	}
	if cap(buf) < n {
		buf = make([]byte, n)
	}
	buf = buf[:n]
	if _, err := io.ReadFull(r, buf); err != nil {
		return buf, damaged(err, "an entry")
	}
	return buf, nil
}
