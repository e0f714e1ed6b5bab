package coordinator

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/orbweaver/orbweaver/internal/cluster/assignment"
	"github.com/orbweaver/orbweaver/internal/store/disk"
)

const (
	// indexEvery is the distance of two entries whose offsets are in RAM.
	indexEvery = 64
	// MaxData bounds the bytes of entries in the answer to one Follow.
	MaxData = 1 << 20
)

// A stream is the file of all entries. One goroutine appends. Reads run beside that, and may go on after close.
type stream struct {
	fs   disk.FS
	name string
	file disk.File // is written
	read disk.File

	mu     sync.Mutex // guards the fields below
	size   int64
	last   uint64  // number of the last entry
	index  []int64 // offsets of the entries 1, 1+indexEvery, ...
	users  int     // reads that are running, and 1 until close
	closed bool
}

func createStream(fs disk.FS, name string) (*stream, error) {
	f, err := fs.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	r, err := fs.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &stream{fs: fs, name: name, file: f, read: r, users: 1}, nil
}

// append writes the next entry. Readers see it when append returns.
func (s *stream) append(entry []byte) error {
	if _, err := s.file.Write(entry); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last%indexEvery == 0 {
		s.index = append(s.index, s.size)
	}
	s.last++
	s.size += int64(len(entry))
	return nil
}

// enter keeps the files open until leave. It returns false if they are closed.
func (s *stream) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users == 0 {
		return false
	}
	s.users++
	return true
}

func (s *stream) leave() error {
	s.mu.Lock()
	s.users--
	over := s.users == 0
	s.mu.Unlock()
	if !over {
		return nil
	}
	return errors.Join(s.file.Close(), s.read.Close(), s.fs.Remove(s.name))
}

// close removes the file when no reader uses it any more.
func (s *stream) close() error {
	s.mu.Lock()
	closed := s.closed
	s.closed = true
	s.mu.Unlock()
	if closed {
		return nil
	}
	return s.leave()
}

func (s *stream) extent() (last uint64, size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last, s.size
}

// entries returns the entries from a number on, as many as fit into most bytes. It returns none if the stream has
// none, or is closed.
func (s *stream) entries(from uint64, most int) (data []byte, err error) {
	s.mu.Lock()
	if from == 0 || from > s.last || s.users == 0 {
		s.mu.Unlock()
		return nil, nil
	}
	s.users++
	at, size := s.index[(from-1)/indexEvery], s.size
	s.mu.Unlock()
	defer func() { err = errors.Join(err, s.leave()) }()
	for range (from - 1) % indexEvery {
		n, err := s.sizeAt(at, size)
		if err != nil {
			return nil, err
		}
		at += n
	}
	data = make([]byte, min(int64(most), size-at))
	if _, err := s.read.ReadAt(data, at); err != nil {
		return nil, err
	}
	end := 0
	for {
		n := assignment.Size(data[end:])
		if n == 0 || n > len(data)-end {
			break
		}
		end += n
	}
	if end == 0 {
		return nil, fmt.Errorf("%s: no entry at offset %d", s.name, at)
	}
	return data[:end], nil
}

// sizeAt returns the size of the entry at an offset.
func (s *stream) sizeAt(at, size int64) (int64, error) {
	var b [assignment.MaxHead]byte
	head := b[:min(int64(len(b)), size-at)]
	if _, err := s.read.ReadAt(head, at); err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	n := assignment.Size(head)
	if n == 0 {
		return 0, fmt.Errorf("%s: no entry at offset %d", s.name, at)
	}
	return int64(n), nil
}
