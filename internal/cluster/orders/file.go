package orders

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

const (
	magic = "OWORDER\x01"
	// maxFile bounds the bytes of a file.
	maxFile = 256 << 20
)

// ErrFile reports bytes that are not an encoded Set.
var ErrFile = errors.New("invalid file of orders")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Encode returns the content of a file with the set.
func (s *Set) Encode() []byte {
	os := s.all()
	body := binary.AppendUvarint(nil, uint64(len(os)))
	for _, o := range os {
		body = o.AppendTo(body)
	}
	return summed(body)
}

// summed returns the content of a file with the body: the number of orders, and the orders.
func summed(body []byte) []byte {
	b := binary.LittleEndian.AppendUint32([]byte(magic), crc32.Checksum(body, castagnoli))
	return append(b, body...)
}

// DecodeSet reads what Encode returned. The error is ErrFile.
func DecodeSet(src []byte) (*Set, error) {
	if len(src) < len(magic)+4 || string(src[:len(magic)]) != magic {
		return nil, fmt.Errorf("%w: it does not begin with %q", ErrFile, magic)
	}
	sum, rest := binary.LittleEndian.Uint32(src[len(magic):]), src[len(magic)+4:]
	if crc32.Checksum(rest, castagnoli) != sum {
		return nil, fmt.Errorf("%w: its checksum is wrong", ErrFile)
	}
	count, used := binary.Uvarint(rest)
	if used <= 0 {
		return nil, fmt.Errorf("%w: the number of orders is cut off", ErrFile)
	}
	rest = rest[used:]
	var os []Order
	for len(rest) > 0 {
		o, n, err := Decode(rest)
		if err != nil {
			return nil, fmt.Errorf("%w: order %d: %w", ErrFile, len(os), err)
		}
		os, rest = append(os, o), rest[n:]
	}
	if uint64(len(os)) != count {
		return nil, fmt.Errorf("%w: it has %d orders, not %d", ErrFile, len(os), count)
	}
	s := NewSet()
	s.Merge(os)
	return s, nil
}

// Load reads the set that Save has written. If there is no file, the set is empty.
func Load(fs disk.FS, name string) (*Set, error) {
	b, err := disk.ReadFile(fs, name, maxFile)
	if errors.Is(err, os.ErrNotExist) {
		return NewSet(), nil
	}
	if err != nil {
		return nil, err
	}
	s, err := DecodeSet(b)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return s, nil
}

// Save replaces the file with the set. When it returns nil, the set is durable.
func (s *Set) Save(fs disk.FS, name string) error {
	b := s.Encode()
	if len(b) > maxFile {
		return fmt.Errorf("write %s: %w (over %d bytes)", name, disk.ErrTooLarge, maxFile)
	}
	return disk.WriteFile(fs, name, b)
}
