package remote

import (
	"bytes"
	"container/list"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"sync"

	"github.com/orbweaver/orbweaver/internal/store/object"
)

const (
	blockSize   = 64 << 10
	maxFetch    = 4 << 20  // bytes of one request of a reader that goes on
	maxExpected = 16 << 20 // bytes of one request for a range that OpenRange announced
)

// blocks are the last blocks that were read. The FS that has them guards them.
type blocks struct {
	room   int64 // bytes that may still be kept
	places map[blockName]*list.Element
	recent *list.List // of block, the latest first
}

// A blockName names a block of one version of an object.
type blockName struct {
	key, tag string
	number   int64
}

type block struct {
	name  blockName
	bytes []byte
}

func (b *blocks) init(room int64) {
	b.room, b.places, b.recent = room, map[blockName]*list.Element{}, list.New()
}

// get returns a block, or nil.
func (b *blocks) get(name blockName) []byte {
	e := b.places[name]
	if e == nil {
		return nil
	}
	b.recent.MoveToFront(e)
	return e.Value.(*block).bytes
}

// put keeps a copy of a block.
func (b *blocks) put(name blockName, content []byte) {
	if b.places[name] != nil {
		return
	}
	b.places[name] = b.recent.PushFront(&block{name, bytes.Clone(content)})
	b.room -= int64(len(content))
	for b.room < 0 && b.recent.Len() > 1 {
		oldest := b.recent.Remove(b.recent.Back()).(*block)
		delete(b.places, oldest.name)
		b.room += int64(len(oldest.bytes))
	}
}

// expected is a range that the first read brings as a whole.
type expected struct{ offset, length int64 }

// A file is an open object.
type file struct {
	fs   *FS
	name string
	at   int64 // of Read and Seek

	mu     sync.Mutex  // guards all below
	info   object.Info // its size is -1 as long as it is not known
	expect expected
	end    int64 // the block at which the last request ended
	ahead  int64 // blocks of the last request
	fresh  bool  // no byte was handed out yet
	closed bool
}

// Name returns the name with which the file was opened.
func (f *file) Name() string { return f.name }

// Close forgets the file. Its blocks stay in memory for other readers.
func (f *file) Close() error {
	f.mu.Lock()
	was := f.closed
	f.closed = true
	f.mu.Unlock()
	if was {
		return f.fs.fault("close", f.name, fs.ErrClosed)
	}
	f.fs.mu.Lock()
	f.fs.opened--
	f.fs.mu.Unlock()
	return nil
}

// version returns the object as far as it is known.
func (f *file) version() object.Info {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.info
}

// Stat describes the object.
func (f *file) Stat() (fs.FileInfo, error) {
	if f.version().Size < 0 {
		if err := f.renew(); err != nil {
			return nil, f.fs.fault("stat", f.name, err)
		}
	}
	return entry{path.Base(filepath.ToSlash(f.name)), f.version(), false}, nil
}

// renew looks the object up.
func (f *file) renew() error {
	info, folder, err := f.fs.lookUp(f.version().Key)
	if err == nil && folder {
		err = fs.ErrNotExist
	}
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.info = info
	return nil
}

// Read reads on.
func (f *file) Read(p []byte) (n int, err error) {
	if len(p) == 0 {
		return 0, nil
	}
	n, err = f.ReadAt(p[:min(len(p), maxFetch)], f.at)
	f.at += int64(n)
	if n > 0 && err == io.EOF {
		err = nil
	}
	return n, err
}

// Seek moves where Read reads on.
func (f *file) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		offset += f.at
	case io.SeekEnd:
		info, err := f.Stat()
		if err != nil {
			return f.at, err
		}
		offset += info.Size()
	default:
		offset = -1
	}
	if offset < 0 {
		return f.at, f.fs.fault("seek", f.name, fs.ErrInvalid)
	}
	f.at = offset
	return offset, nil
}

// ReadAt reads from the blocks that are kept, and asks the store for others.
func (f *file) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, f.fs.fault("read", f.name, fs.ErrInvalid)
	}
	for n < len(p) {
		var b []byte
		if b, err = f.block(off/blockSize, off+int64(len(p)-n)); err != nil {
			break
		}
		in := off % blockSize
		if in >= int64(len(b)) {
			return n, io.EOF
		}
		k := copy(p[n:], b[in:])
		n, off = n+k, off+int64(k)
	}
	if err != nil && err != io.EOF {
		err = f.fs.fault("read", f.name, err)
	}
	return n, err
}

// block returns a block of the object. upTo is where the caller's range ends. If the object was replaced before the
// first byte was handed out, the new one is read.
func (f *file) block(number, upTo int64) ([]byte, error) {
	b, err := f.try(number, upTo)
	if errors.Is(err, object.ErrChanged) {
		f.fs.forget(f.version().Key)
		f.mu.Lock()
		fresh := f.fresh
		f.mu.Unlock()
		if fresh && f.renew() == nil {
			b, err = f.try(number, upTo)
		}
	}
	if err == nil {
		f.mu.Lock()
		f.fresh = false
		f.mu.Unlock()
	}
	return b, err
}

func (f *file) try(number, upTo int64) ([]byte, error) {
	b, info, ask, err := f.plan(number, upTo)
	if b != nil || err != nil {
		return b, err
	}
	from, want := number*blockSize, ask*blockSize
	if info.Size >= 0 {
		want = min(want, info.Size-from)
	}
	f.fs.mu.Lock()
	f.fs.made.Reads++
	f.fs.mu.Unlock()
	err = f.fs.ask(func(ctx context.Context) (err error) {
		b, err = f.fs.store.ReadTagged(ctx, info.Key, info.Tag, from, want)
		return err
	})
	if err != nil {
		return nil, err
	}
	if info.Size < 0 && int64(len(b)) < want && (len(b) > 0 || from == 0) {
		info.Size = from + int64(len(b))
		f.mu.Lock()
		f.info.Size = info.Size
		f.mu.Unlock()
	}
	if info.Size >= 0 && int64(len(b)) < want && from+int64(len(b)) != info.Size {
		return nil, fmt.Errorf("%w (it has %d bytes in place of %d)", object.ErrChanged, from+int64(len(b)), info.Size)
	}
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.fs.made.Bytes += int64(len(b))
	for i := int64(0); i*blockSize < int64(len(b)); i++ {
		f.fs.cache.put(blockName{info.Key, info.Tag, number + i}, b[i*blockSize:min((i+1)*blockSize, int64(len(b)))])
	}
	return b[:min(blockSize, len(b))], nil
}

// plan returns a block that is kept, or how many blocks to ask for. The error is io.EOF behind the end.
func (f *file) plan(number, upTo int64) (b []byte, info object.Info, ask int64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	info = f.info
	switch {
	case f.closed:
		return nil, info, 0, fs.ErrClosed
	case info.Size >= 0 && number*blockSize >= info.Size:
		return nil, info, 0, io.EOF
	}
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	name := blockName{info.Key, info.Tag, number}
	if b := f.fs.cache.get(name); b != nil {
		return b, info, 0, nil
	}
	// What is read ahead for all open files must stay in memory until it is used.
	most := max(1, min(maxFetch, f.fs.room/(2*max(1, f.fs.opened)))/blockSize)
	if f.ahead *= 2; number != f.end {
		f.ahead = 1
	}
	ask = min(max(f.ahead, (upTo-1)/blockSize+1-number), most)
	if e := f.expect; e.length > 0 && number >= e.offset/blockSize && number*blockSize < e.offset+e.length {
		ask = max(ask, (e.offset+e.length-1)/blockSize+1-number)
	}
	if info.Size >= 0 {
		ask = min(ask, (info.Size-1)/blockSize+1-number)
	}
	for i := int64(1); i < ask; i++ {
		if name.number = number + i; f.fs.cache.places[name] != nil {
			ask = i
		}
	}
	f.end, f.ahead = number+ask, ask
	return nil, info, ask, nil
}

// Write is refused, as all that follow are.
func (f *file) Write([]byte) (int, error) { return 0, f.fs.fault("write", f.name, ErrReadOnly) }
func (f *file) Sync() error               { return f.fs.fault("sync", f.name, ErrReadOnly) }
func (f *file) Truncate(int64) error      { return f.fs.fault("truncate", f.name, ErrReadOnly) }
