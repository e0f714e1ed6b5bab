package drum

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

const (
	// ManifestName is the name of the manifest. Without it, a directory has no keys, but may have held items.
	ManifestName  = "manifest"
	manifestMagic = "OWDRUM\x00\x01"
	maxManifest   = 64 << 20
)

// A manifest lists the runs of a Store.
type manifest struct {
	seed       uint64
	bucketBits uint
	withValues bool
	mark       []byte
	runs       []manifestRun
}

// A manifestRun is a run. The runs of a bucket are in order of age, the oldest first.
type manifestRun struct {
	num    uint64
	bucket int
	keys   int64
	size   int64
}

func (m *manifest) encode() []byte {
	le := binary.LittleEndian
	b := []byte(manifestMagic)
	b = le.AppendUint64(b, m.seed)
	flags := byte(0)
	if m.withValues {
		flags = 1
	}
	b = append(b, byte(m.bucketBits), flags)
	b = le.AppendUint32(b, uint32(len(m.mark)))
	b = append(b, m.mark...)
	b = le.AppendUint32(b, uint32(len(m.runs)))
	for _, r := range m.runs {
		b = le.AppendUint64(b, r.num)
		b = le.AppendUint32(b, uint32(r.bucket))
		b = le.AppendUint64(b, uint64(r.keys))
		b = le.AppendUint64(b, uint64(r.size))
	}
	return le.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// ErrManifest means that a manifest does not hold what was written. The Store must be rebuilt: remove the manifest,
// open again and restore all keys.
var ErrManifest = errors.New("damaged manifest")

func decodeManifest(b []byte) (*manifest, error) {
	le := binary.LittleEndian
	n := len(b) - 4
	if n < 26 || le.Uint32(b[n:]) != crc32.Checksum(b[:n], castagnoli) || string(b[:8]) != manifestMagic {
		return nil, ErrManifest
	}
	m := &manifest{seed: le.Uint64(b[8:]), bucketBits: uint(b[16]), withValues: b[17]&1 != 0}
	b = b[18:n]
	mark := int64(le.Uint32(b))
	if mark > int64(len(b))-8 || m.bucketBits > maxBucketBits {
		return nil, ErrManifest
	}
	m.mark = append([]byte{}, b[4:4+mark]...)
	b = b[4+mark:]
	runs := int64(le.Uint32(b))
	if b = b[4:]; int64(len(b)) != runs*28 {
		return nil, ErrManifest
	}
	for ; len(b) > 0; b = b[28:] {
		r := manifestRun{le.Uint64(b), int(le.Uint32(b[8:])), int64(le.Uint64(b[12:])), int64(le.Uint64(b[20:]))}
		if r.bucket>>m.bucketBits != 0 || r.keys <= 0 || r.size <= 0 {
			return nil, ErrManifest
		}
		m.runs = append(m.runs, r)
	}
	return m, nil
}

// writeManifest makes these runs and this mark the Store's. The content of the runs must be durable. It makes their
// names durable before it writes the manifest.
func (s *Store) writeManifest(buckets [][]*run, mark []byte) error {
	m := manifest{seed: s.seed, bucketBits: s.bucketBits, withValues: s.vol.withValues, mark: mark}
	for _, runs := range buckets {
		for _, r := range runs {
			m.runs = append(m.runs, manifestRun{r.num, r.bucket, r.keys, r.size})
		}
	}
	if err := s.vol.fs.SyncDir(s.vol.dir); err != nil {
		return fmt.Errorf("sync drum: %w", err)
	}
	b := m.encode()
	s.vol.written.Add(int64(len(b)))
	return disk.WriteFile(s.vol.fs, s.vol.path(ManifestName), b)
}

// readManifest returns nil if there is no manifest.
func readManifest(v *volume) (*manifest, error) {
	b, err := disk.ReadFile(v.fs, v.path(ManifestName), maxManifest)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("open drum: %w", err)
	}
	m, err := decodeManifest(b)
	if err != nil {
		return nil, fmt.Errorf("open drum: %s: %w", v.path(ManifestName), err)
	}
	return m, nil
}
