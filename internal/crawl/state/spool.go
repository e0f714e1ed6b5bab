package state

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// SpoolBytes is the size up to which a Spool stays in RAM. It is a variable so that tests use the file.
var SpoolBytes = 4 << 20

// chunkBytes is the size of a full chunk of a Spool in RAM, if no record is longer.
const chunkBytes = 256 << 10

// A Spool keeps records in the order in which they were added: in RAM up to 4 MiB, then in a file. In RAM they take
// their own size, and less than a chunk.
type Spool struct {
	fs     disk.FS
	name   string
	chunks [][]byte  // of whole records; the last one grows up to its capacity
	size   int       // bytes of chunks
	file   disk.File // nil: all is in chunks; else one chunk is not in the file
}

// NewSpool returns an empty Spool. name is the path of its file.
func NewSpool(fs disk.FS, name string) *Spool { return &Spool{fs: fs, name: name} }

// Add adds a copy of a record.
func (s *Spool) Add(kind byte, number uint64, p []byte) error {
	need := 1 + 2*binary.MaxVarintLen64 + len(p)
	if n := len(s.chunks); n == 0 || cap(s.chunks[n-1])-len(s.chunks[n-1]) < need ||
		s.file == nil && s.size >= SpoolBytes {
		if err := s.room(need); err != nil {
			return err
		}
	}
	last := &s.chunks[len(s.chunks)-1]
	before := len(*last)
	*last = append(*last, kind)
	*last = binary.AppendUvarint(*last, number)
	*last = binary.AppendUvarint(*last, uint64(len(p)))
	*last = append(*last, p...)
	s.size += len(*last) - before
	return nil
}

// room makes the last chunk one that has room for need bytes.
func (s *Spool) room(need int) error {
	if s.file != nil || s.size >= SpoolBytes {
		if err := s.flush(); err != nil || cap(s.chunks[0]) >= need {
			return err
		}
		s.chunks = s.chunks[:0]
	}
	s.chunks = append(s.chunks, make([]byte, 0, max(need, min(512+s.size, chunkBytes))))
	return nil
}

// Empty reports that nothing was added.
func (s *Spool) Empty() bool { return s.file == nil && s.size == 0 }

// flush writes all chunks to the file, and keeps the last one.
func (s *Spool) flush() (err error) {
	if s.file == nil {
		s.file, err = s.fs.OpenFile(s.name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	}
	for _, c := range s.chunks {
		if err == nil {
			_, err = s.file.Write(c)
		}
	}
	last := s.chunks[len(s.chunks)-1][:0]
	clear(s.chunks)
	s.chunks, s.size = append(s.chunks[:0], last), 0
	if err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	return nil
}

// Each calls fn for each record. p is valid until fn returns.
func (s *Spool) Each(fn func(kind byte, number uint64, p []byte) error) error {
	if s.file == nil {
		for _, b := range s.chunks {
			for len(b) > 0 {
				number, n := binary.Uvarint(b[1:])
				size, m := binary.Uvarint(b[1+n:])
				p := b[1+n+m:]
				if err := fn(b[0], number, p[:size]); err != nil {
					return err
				}
				b = p[size:]
			}
		}
		return nil
	}
	if err := s.flush(); err != nil {
		return err
	}
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	r := bufio.NewReaderSize(s.file, 256<<10)
	var p []byte
	for {
		kind, err := r.ReadByte()
		if err == io.EOF {
			return nil
		}
		number, err1 := binary.ReadUvarint(r)
		size, err2 := binary.ReadUvarint(r)
		if err = errors.Join(err, err1, err2); err == nil {
			if uint64(cap(p)) < size {
				p = make([]byte, size)
			}
			p = p[:size]
			_, err = io.ReadFull(r, p)
		}
		if err != nil {
			return fmt.Errorf("spool: %w", err)
		}
		if err := fn(kind, number, p); err != nil {
			return err
		}
	}
}

// Close deletes the file.
func (s *Spool) Close() error {
	if s.file == nil {
		return nil
	}
	err := errors.Join(s.file.Close(), s.fs.Remove(s.name))
	s.file, s.chunks, s.size = nil, nil, 0
	return err
}
