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

// SpoolBytes is the size up to which a Spool stays in RAM. While it grows to that size, up to three times as much
// RAM is in use. It is a variable so that tests use the file.
var SpoolBytes = 4 << 20

// A Spool keeps records in the order in which they were added, in RAM and, above 4 MiB, in a file.
type Spool struct {
	fs   disk.FS
	name string
	buf  []byte
	file disk.File // nil: all is in buf
}

// NewSpool returns an empty Spool. name is the path of its file.
func NewSpool(fs disk.FS, name string) *Spool { return &Spool{fs: fs, name: name} }

// Add adds a copy of a record.
func (s *Spool) Add(kind byte, number uint64, p []byte) error {
	s.buf = append(s.buf, kind)
	s.buf = binary.AppendUvarint(s.buf, number)
	s.buf = binary.AppendUvarint(s.buf, uint64(len(p)))
	if s.buf = append(s.buf, p...); len(s.buf) < SpoolBytes {
		return nil
	}
	return s.flush()
}

// Empty reports that nothing was added.
func (s *Spool) Empty() bool { return s.file == nil && len(s.buf) == 0 }

func (s *Spool) flush() (err error) {
	if s.file == nil {
		s.file, err = s.fs.OpenFile(s.name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	}
	if err == nil {
		_, err = s.file.Write(s.buf)
	}
	s.buf = s.buf[:0]
	if err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	return nil
}

// Each calls fn for each record. p is valid until fn returns.
func (s *Spool) Each(fn func(kind byte, number uint64, p []byte) error) error {
	if s.file == nil {
		for b := s.buf; len(b) > 0; {
			number, n := binary.Uvarint(b[1:])
			size, m := binary.Uvarint(b[1+n:])
			p := b[1+n+m:]
			if err := fn(b[0], number, p[:size]); err != nil {
				return err
			}
			b = p[size:]
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
	s.file, s.buf = nil, nil
	return err
}
