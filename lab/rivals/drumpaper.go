package rivals

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

const (
	drumBuckets    = 16
	drumBucketBits = 4
)

// drumPaper is DRUM (Lee et al., IRLbot, WWW 2008) with its operation check+update, without
// values. Each bucket has an array of keys and an array of links in RAM. A full array is
// appended to its file. When one file of keys is full, all of them are merged with Z, the
// sorted file of all keys.
//
//	keys   8 octets little-endian each
//	links  host and path part, 8 octets each; 2 octets length; the link
type drumPaper struct {
	cfg     Config
	buckets [drumBuckets]drumBucket
	arrays  int   // bytes of an array of keys, and of an array of links
	most    int64 // largest number of keys in a bucket's file
	round   int
	z       string // name of the file; empty: there is none
	fresh   fresh
}

type drumBucket struct {
	keys, links       []byte
	keyFile, linkFile disk.File
	n                 int64 // number of keys, in RAM and on disk
}

func openDrumPaper(c Config) (Store, error) {
	d := &drumPaper{cfg: c, fresh: fresh{emit: c.Emit}}
	memory := c.memory()
	d.arrays = int(max(memory/4/drumBuckets/2, 4096)) // a quarter of the memory for all arrays
	d.most = max(memory/256, 256)                     // sorting takes an eighth of the memory
	for i := range d.buckets {
		b := &d.buckets[i]
		var err error
		if b.keyFile, err = d.open(fmt.Sprintf("keys.%d", i)); err != nil {
			return nil, err
		}
		if b.linkFile, err = d.open(fmt.Sprintf("links.%d", i)); err != nil {
			return nil, err
		}
		b.keys, b.links = make([]byte, 0, d.arrays), make([]byte, 0, d.arrays)
	}
	return d, nil
}

func (d *drumPaper) open(name string) (disk.File, error) {
	f, err := d.cfg.FS.OpenFile(filepath.Join(d.cfg.Dir, name), os.O_RDWR|os.O_CREATE, 0o644)
	return f, wrap("drum", err)
}

// narrow returns the paper's 64-bit key.
func narrow(k link.Key) uint64 { return mix(k.Path ^ mix(k.Host)) }

func (d *drumPaper) Add(items []Item) error {
	full := false
	for i := range items {
		it := &items[i]
		key := narrow(it.Key)
		b := &d.buckets[key>>(64-drumBucketBits)]
		if len(b.keys)+8 > d.arrays || len(b.links)+18+len(it.Aux) > d.arrays {
			if err := b.spill(); err != nil {
				return wrap("drum", err)
			}
		}
		b.keys = binary.LittleEndian.AppendUint64(b.keys, key)
		b.links = binary.LittleEndian.AppendUint64(b.links, it.Key.Host)
		b.links = binary.LittleEndian.AppendUint64(b.links, it.Key.Path)
		b.links = binary.LittleEndian.AppendUint16(b.links, uint16(len(it.Aux)))
		b.links = append(b.links, it.Aux...)
		b.n++
		full = full || b.n >= d.most
	}
	if !full {
		return nil
	}
	return d.Flush()
}

// spill appends the arrays of a bucket to its files.
func (b *drumBucket) spill() error {
	_, err := b.keyFile.Write(b.keys)
	if err == nil {
		_, err = b.linkFile.Write(b.links)
	}
	b.keys, b.links = b.keys[:0], b.links[:0]
	return err
}

// Flush merges all buckets with Z in one pass.
func (d *drumPaper) Flush() error {
	var z uint64s
	if d.z != "" {
		f, err := d.cfg.FS.OpenFile(filepath.Join(d.cfg.Dir, d.z), os.O_RDONLY, 0)
		if err != nil {
			return wrap("drum", err)
		}
		defer f.Close()
		z.r = bufio.NewReaderSize(f, ioBytes)
	}
	d.round++
	name := fmt.Sprintf("z.%d", d.round)
	w, err := d.cfg.create(name)
	if err != nil {
		return wrap("drum", err)
	}
	if err = z.next(); err == nil {
		for i := range d.buckets {
			if err = d.merge(&d.buckets[i], i == drumBuckets-1, uint64(i+1)<<(64-drumBucketBits), &z,
				w.Writer); err != nil {
				break
			}
		}
	}
	if err = errors.Join(err, w.close()); err != nil {
		return wrap("drum", err)
	}
	if d.z != "" {
		if err := d.cfg.FS.Remove(filepath.Join(d.cfg.Dir, d.z)); err != nil {
			return wrap("drum", err)
		}
	}
	d.z = name
	return nil
}

// sortedKey is a waiting key and its place in the order of arrival.
type sortedKey struct {
	key uint64
	at  uint32
}

// merge sorts a bucket's keys, copies the part of Z below end and inserts the new keys. It
// emits the links of the new keys in the order of arrival.
func (d *drumPaper) merge(b *drumBucket, last bool, end uint64, z *uint64s, w *bufio.Writer) error {
	if err := b.spill(); err != nil {
		return err
	}
	keys, err := b.sorted()
	if err != nil {
		return err
	}
	isNew := make([]uint64, len(keys)/64+1)
	var buf [8]byte
	put := func(k uint64) {
		binary.LittleEndian.PutUint64(buf[:], k)
		w.Write(buf[:]) // Flush returns the errors
	}
	for i, k := range keys {
		for !z.over && z.key < k.key {
			put(z.key)
			if err := z.next(); err != nil {
				return err
			}
		}
		if !z.over && z.key == k.key || i > 0 && keys[i-1].key == k.key {
			continue
		}
		put(k.key)
		isNew[k.at>>6] |= 1 << (k.at & 63)
	}
	for !z.over && (last || z.key < end) {
		put(z.key)
		if err := z.next(); err != nil {
			return err
		}
	}
	if err := d.dispatch(b, isNew); err != nil {
		return err
	}
	b.n = 0
	for _, f := range []disk.File{b.keyFile, b.linkFile} {
		if err := f.Truncate(0); err != nil {
			return err
		}
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return err
		}
	}
	return nil
}

// sorted returns a bucket's keys in sorted order. Equal keys stay in the order of arrival.
func (b *drumBucket) sorted() ([]sortedKey, error) {
	if _, err := b.keyFile.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	in := uint64s{r: bufio.NewReaderSize(b.keyFile, ioBytes)}
	keys := make([]sortedKey, b.n)
	for i := range keys {
		if err := in.next(); err != nil {
			return nil, err
		}
		if in.over {
			return nil, io.ErrUnexpectedEOF
		}
		keys[i] = sortedKey{in.key, uint32(i)}
	}
	slices.SortFunc(keys, func(a, b sortedKey) int {
		switch {
		case a.key < b.key || a.key == b.key && a.at < b.at:
			return -1
		case a.key > b.key || a.at > b.at:
			return 1
		}
		return 0
	})
	return keys, nil
}

// dispatch reads a bucket's links and emits the new ones.
func (d *drumPaper) dispatch(b *drumBucket, isNew []uint64) error {
	if _, err := b.linkFile.Seek(0, io.SeekStart); err != nil {
		return err
	}
	r := bufio.NewReaderSize(b.linkFile, ioBytes)
	var head [18]byte
	aux := make([]byte, 0, 1<<20)
	for i := range b.n {
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return err
		}
		n := int(binary.LittleEndian.Uint16(head[16:]))
		if isNew[i>>6]>>(i&63)&1 == 0 {
			if _, err := r.Discard(n); err != nil {
				return err
			}
			continue
		}
		if len(aux)+n > cap(aux) || len(d.fresh.items) == 1000 {
			if err := d.fresh.flush(); err != nil {
				return err
			}
			aux = aux[:0]
		}
		from := len(aux)
		aux = aux[:from+n]
		if _, err := io.ReadFull(r, aux[from:]); err != nil {
			return err
		}
		d.fresh.add(Item{Key: link.Key{Host: binary.LittleEndian.Uint64(head[:]),
			Path: binary.LittleEndian.Uint64(head[8:])}, Aux: aux[from:]})
	}
	return d.fresh.flush()
}

// uint64s reads numbers from r. If r is nil, there are none.
type uint64s struct {
	r    *bufio.Reader
	key  uint64
	over bool
}

func (u *uint64s) next() error {
	if u.r == nil {
		u.over = true
		return nil
	}
	b, err := u.r.Peek(8)
	if err == io.EOF && len(b) == 0 {
		u.over = true
		return nil
	}
	if err != nil {
		return err
	}
	u.key = binary.LittleEndian.Uint64(b)
	_, err = u.r.Discard(8)
	return err
}

func (d *drumPaper) Close() error {
	var errs []error
	for i := range d.buckets {
		errs = append(errs, d.buckets[i].keyFile.Close(), d.buckets[i].linkFile.Close())
	}
	return errors.Join(errs...)
}
