package wacz

import (
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/klauspost/compress/flate"
)

const (
	maxEntries   = 1 << 20
	maxDirectory = 64 << 20  // bytes of the list of entries
	maxUnpacked  = 256 << 20 // bytes of all entries that are compressed in the ZIP file
	maxPackage   = 64 << 20  // bytes of datapackage.json
)

// ErrNoWACZ means that a file is not a WACZ, or one that this package refuses.
var ErrNoWACZ = errors.New("not a WACZ that can be read")

// A File is a WACZ that is read. It is safe for concurrent use. These are refused: a file that is no ZIP file or has no
// datapackage.json, too many entries, and two entries with one name among those that are read. Other entries are
// ignored: names with "..", absolute names, and deeper folders. Only the bytes that are asked for are read.
type File struct {
	// Unsealed means that datapackage-digest.json is there, and that datapackage.json does not have that digest.
	Unsealed bool
	// Renewed means that the index was damaged, and that Add has made one of the WARC files.
	Renewed bool

	in       io.ReaderAt
	size     int64
	all      []*zip.File
	manifest []byte               // datapackage.json
	sealed   bool                 // there is a digest of it
	entries  map[string]*zip.File // by their names in the view of a crawl directory
	indexed  bool

	mu       sync.Mutex
	unpacked map[*zip.File][]byte
	room     int64 // bytes that may still be unpacked
}

// Open reads the list of entries of a WACZ of some size in bytes.
func Open(in io.ReaderAt, size int64) (*File, error) {
	if err := checkDirectory(in, size); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoWACZ, err)
	}
	list := &bounded{in, maxDirectory}
	z, err := zip.NewReader(list, size)
	list.left = math.MaxInt64 // from here on, only what is asked for is read
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoWACZ, err)
	}
	f := &File{in: in, size: size, all: z.File, entries: map[string]*zip.File{}, unpacked: map[*zip.File][]byte{},
		room: maxUnpacked}
	all := map[string]*zip.File{}
	for _, e := range z.File {
		dir, name := path.Split(e.Name)
		if name == "" || !slices.Contains([]string{"", "archive/", "indexes/"}, dir) || name == ".." {
			continue
		}
		if all[e.Name] != nil {
			return nil, fmt.Errorf("%w: two entries are called %q", ErrNoWACZ, e.Name)
		}
		all[e.Name] = e
		if dir == "archive/" {
			f.entries[e.Name] = e
		}
	}
	manifest := all["datapackage.json"]
	if manifest == nil {
		return nil, fmt.Errorf("%w: the ZIP file has no datapackage.json", ErrNoWACZ)
	}
	if err := f.seal(manifest, all["datapackage-digest.json"]); err != nil {
		return nil, fmt.Errorf("%w: datapackage.json: %w", ErrNoWACZ, err)
	}
	f.chooseIndex(all)
	return f, nil
}

// Warnings says in words what is wrong with the file although it can be read.
func (f *File) Warnings() (all []string) {
	if f.Unsealed {
		all = append(all, "datapackage.json does not have the digest in datapackage-digest.json: somebody has changed "+
			"the WACZ")
	}
	if f.Renewed {
		all = append(all, "its index is damaged; another one was made of its WARC files")
	}
	return all
}

// damagedIndex reports whether an entry of the index does not have the checksum that the ZIP file has of it. It reads
// the whole index. Other errors of reading are returned.
func (f *File) damagedIndex(ctx context.Context) (bool, error) {
	for name, e := range f.entries {
		if !strings.HasPrefix(name, "indexes/") {
			continue
		}
		r, size, err := f.open(e)
		if err == nil {
			sum, in := crc32.NewIEEE(), io.NewSectionReader(r, 0, size)
			for err == nil && ctx.Err() == nil {
				_, err = io.CopyN(sum, in, 1<<20)
			}
			if err == io.EOF {
				if sum.Sum32() != e.CRC32 {
					return true, nil
				}
				continue
			}
			err = cmp.Or(err, ctx.Err())
		}
		if errors.Is(err, fs.ErrInvalid) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
	}
	return false, nil
}

// dropIndex hides the index.
func (f *File) dropIndex() {
	for name := range f.entries {
		if strings.HasPrefix(name, "indexes/") {
			delete(f.entries, name)
		}
	}
}

// seal checks that the manifest is JSON and has the digest that another entry names.
func (f *File) seal(manifest, digest *zip.File) error {
	b, err := f.small(manifest)
	if err != nil {
		return err
	}
	if !json.Valid(b) {
		return errors.New("not JSON")
	}
	f.manifest = b
	if digest == nil {
		return nil
	}
	var d struct {
		Hash string `json:"hash"`
	}
	text, err := f.small(digest)
	if err == nil && json.Unmarshal(text, &d) == nil && strings.HasPrefix(d.Hash, "sha256:") {
		f.sealed = true
		f.Unsealed = d.Hash != fmt.Sprintf("sha256:%x", sha256.Sum256(b))
	}
	return err
}

// small returns the content of an entry.
func (f *File) small(e *zip.File) ([]byte, error) {
	r, size, err := f.open(e)
	if err != nil {
		return nil, err
	}
	if size > maxPackage {
		return nil, fmt.Errorf("%d bytes, and at most %d are read", size, int64(maxPackage))
	}
	return io.ReadAll(io.NewSectionReader(r, 0, size))
}

// chooseIndex gives the index the name that it has in a crawl directory. If there are several, none is used.
func (f *File) chooseIndex(all map[string]*zip.File) {
	var plain, blocks, index []*zip.File
	for _, e := range all {
		switch name, in := strings.CutPrefix(e.Name, "indexes/"); {
		case !in:
		case strings.HasSuffix(name, ".idx"):
			index = append(index, e)
		case strings.HasSuffix(name, ".cdx.gz") || strings.HasSuffix(name, ".cdxj.gz"):
			blocks = append(blocks, e)
		case strings.HasSuffix(name, ".cdx") || strings.HasSuffix(name, ".cdxj"):
			plain = append(plain, e)
		}
	}
	switch {
	case len(index) == 1 && len(blocks) == 1:
		f.entries["indexes/index.idx"], f.entries["indexes/index.cdx.gz"] = index[0], blocks[0]
	case len(index) == 0 && len(blocks) == 0 && len(plain) == 1:
		f.entries["indexes/index.cdxj"] = plain[0]
	default:
		return
	}
	f.indexed = true
}

// open returns the content of an entry, and its size.
func (f *File) open(e *zip.File) (io.ReaderAt, int64, error) {
	switch {
	case e.Flags&1 != 0:
		return nil, 0, &entryError{"the entry is encrypted"}
	case e.UncompressedSize64 > math.MaxInt64 || e.CompressedSize64 > uint64(f.size):
		return nil, 0, &entryError{"the entry is larger than the file"}
	case e.Method == zip.Deflate:
		return f.unpack(e)
	case e.Method != zip.Store:
		return nil, 0, &entryError{fmt.Sprintf("the compression %d of the entry is not supported", e.Method)}
	}
	at, err := e.DataOffset()
	if err != nil {
		return nil, 0, invalid(err)
	}
	size := int64(e.CompressedSize64)
	if e.UncompressedSize64 != e.CompressedSize64 || at < 0 || at > f.size-size {
		return nil, 0, &entryError{"the entry reaches beyond the end of the file"}
	}
	return io.NewSectionReader(f.in, at, size), size, nil
}

// An entryError says why an entry cannot be read although its file can. It wraps fs.ErrInvalid.
type entryError struct{ text string }

func (e *entryError) Error() string { return e.text }

// Unwrap returns fs.ErrInvalid.
func (e *entryError) Unwrap() error { return fs.ErrInvalid }

// invalid makes an error of the ZIP format an entryError.
func invalid(err error) error {
	if errors.Is(err, zip.ErrFormat) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return &entryError{err.Error()}
	}
	return err
}

// unpack unpacks a compressed entry into memory.
func (f *File) unpack(e *zip.File) (io.ReaderAt, int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	b, done := f.unpacked[e]
	if !done {
		size := int64(e.UncompressedSize64)
		if size > f.room {
			return nil, 0, &entryError{fmt.Sprintf("the entry is compressed in the ZIP file, and the compressed "+
				"entries have more than %d bytes; unpack the file, and name its WARC files", int64(maxUnpacked))}
		}
		at, err := e.DataOffset()
		if err != nil {
			return nil, 0, invalid(err)
		}
		r := flate.NewReader(io.NewSectionReader(f.in, at, int64(e.CompressedSize64)))
		if b, err = io.ReadAll(io.LimitReader(r, size+1)); err != nil {
			if _, disk := errors.AsType[*fs.PathError](err); !disk {
				err = &entryError{err.Error()}
			}
			return nil, 0, err
		}
		if int64(len(b)) != size {
			return nil, 0, &entryError{"the entry has another size than the ZIP file says"}
		}
		f.room -= size
		f.unpacked[e] = b
	}
	return bytes.NewReader(b), int64(len(b)), nil
}

// bounded reads at most left bytes, or any number if left is math.MaxInt64.
type bounded struct {
	io.ReaderAt
	left int64
}

// ReadAt counts what it reads.
func (b *bounded) ReadAt(p []byte, off int64) (int, error) {
	if b.left == math.MaxInt64 { // then several goroutines may read
		return b.ReaderAt.ReadAt(p, off)
	}
	if b.left -= int64(len(p)); b.left < 0 {
		return 0, fmt.Errorf("the list of entries has more than %d bytes", int64(maxDirectory))
	}
	return b.ReaderAt.ReadAt(p, off)
}

// checkDirectory refuses a ZIP file with too many entries before package zip makes room for them.
func checkDirectory(in io.ReaderAt, size int64) error {
	const end, locator = 22, 20
	tail := make([]byte, min(size, 1<<16+end+locator))
	if _, err := in.ReadAt(tail, size-int64(len(tail))); err != nil && err != io.EOF {
		return err
	}
	at := bytes.LastIndex(tail, []byte("PK\x05\x06"))
	if at < 0 || len(tail)-at < end {
		return zip.ErrFormat
	}
	le := binary.LittleEndian
	n := uint64(le.Uint16(tail[at+10:]))
	if at >= locator && bytes.HasPrefix(tail[at-locator:], []byte("PK\x06\x07")) {
		var b [56]byte
		offset := int64(le.Uint64(tail[at-locator+8:]))
		if offset < 0 || offset > size-int64(len(b)) {
			return zip.ErrFormat
		}
		if _, err := in.ReadAt(b[:], offset); err != nil && err != io.EOF {
			return err
		}
		n = max(n, le.Uint64(b[32:]))
	}
	if n > maxEntries {
		return fmt.Errorf("%d entries, and at most %d are read", n, maxEntries)
	}
	return nil
}
