package drum

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"golang.org/x/sync/errgroup"
)

// Open opens the Store in dir or creates an empty one. Nobody else may use dir. The Store passes answers to emit, in
// the order that Add describes. The slice and the memory it points to are valid until emit returns. emit must not call
// the Store. An error of emit is final.
//
// Open reads all runs to fill the filters. If a run is damaged, Open still returns a Store: see Damaged.
func Open(fs disk.FS, dir string, cfg Config, emit func([]Item) error) (*Store, error) {
	if err := fs.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("open drum: %w", err)
	}
	if err := fs.SyncDir(filepath.Dir(dir)); err != nil { // a power failure must not lose the name dir
		return nil, fmt.Errorf("open drum: %w", err)
	}
	t := cfg.tuning()
	s := &Store{
		cfg: cfg, tune: t, emit: emit,
		vol:  &volume{fs: fs, dir: dir, withValues: cfg.Values, blockBytes: t.blockBytes},
		pool: &pool{keep: 2 + (t.memKeys+2*t.slabKeys)/chunkKeys},
		seed: rand.Uint64(), bucketBits: t.bucketBits,
		ready: make(chan struct{}, 1), timer: time.NewTimer(time.Hour),
		items: itemReader{withValues: cfg.Values}, heldWriter: newHeldWriter(t.pendingFrames),
	}
	s.timer.Stop()
	s.gen = &generation{slab: log{pool: s.pool}}
	s.mem = newTable(s.pool, cfg.Values, 0)
	m, err := readManifest(s.vol)
	if err != nil {
		return nil, err
	}
	if m != nil {
		if m.withValues != cfg.Values {
			return nil, fmt.Errorf("open drum %s: the store has values: %t; the caller wants: %t", dir, m.withValues,
				cfg.Values)
		}
		s.seed, s.bucketBits, s.mark = m.seed, m.bucketBits, m.mark
	}
	s.shift = 64 - s.bucketBits
	s.buckets = make([]bucket, 1<<s.bucketBits)
	s.timer = time.AfterFunc(time.Hour, s.notify)
	s.timer.Stop()
	parts, err := s.tidy(m)
	if err != nil {
		return nil, err
	}
	if err := s.openRuns(m); err != nil {
		return nil, err
	}
	for _, num := range parts {
		if err := s.openPart(num); err != nil {
			s.Close()
			return nil, err
		}
	}
	return s, nil
}

// tidy removes files that no manifest names and returns the numbers of the parts.
func (s *Store) tidy(m *manifest) (parts []uint64, err error) {
	keep := map[string]bool{ManifestName: true}
	if m != nil {
		for _, r := range m.runs {
			keep[runName(r.num)] = true
		}
	}
	entries, err := s.vol.fs.ReadDir(s.vol.dir)
	if err != nil {
		return nil, fmt.Errorf("open drum: %w", err)
	}
	for _, e := range entries {
		name := e.Name()
		kind, digits, _ := strings.Cut(name, "-")
		num, err := strconv.ParseUint(digits, 10, 64)
		if err == nil && num > s.num.Load() {
			s.num.Store(num)
		}
		switch {
		case keep[name]:
		case err == nil && kind == "held":
			parts = append(parts, num)
		case err == nil && (kind == "run" || kind == "spill"), name == ManifestName+".tmp":
			if err := s.vol.fs.Remove(s.vol.path(name)); err != nil {
				return nil, fmt.Errorf("open drum: %w", err)
			}
		}
	}
	slices.Sort(parts)
	return parts, nil
}

// openRuns reads the indexes of the runs and fills the filters.
func (s *Store) openRuns(m *manifest) error {
	if m == nil {
		return nil
	}
	of := make([][]manifestRun, len(s.buckets))
	total := int64(0)
	for _, r := range m.runs {
		total += r.keys
		of[r.bucket] = append(of[r.bucket], r)
	}
	var mu sync.Mutex // guards s.damages and s.onDisk
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range s.buckets {
		g.Go(func() error {
			b := &s.buckets[i]
			whole := true
			var damages []Damage
			recordDamage := func(err error) error {
				var d *Damage
				if !errors.As(err, &d) {
					return err
				}
				damages, whole = append(damages, *d), false
				return nil
			}
			for _, mr := range of[i] {
				r, err := s.vol.openRun(mr.num, mr.bucket, mr.keys, mr.size)
				if err := recordDamage(err); err != nil {
					return err
				}
				b.runs = append(b.runs, r)
			}
			if whole && len(b.runs) > 0 {
				if err := recordDamage(s.refill(b, total)); err != nil {
					return err
				}
			}
			mu.Lock()
			defer mu.Unlock()
			s.damages = append(s.damages, damages...)
			s.onDisk = s.onDisk || len(b.runs) > 0
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("open drum: %w", err)
	}
	if s.onDisk && !s.cfg.Known {
		s.cache = newCache(s.tune.cacheSets)
	}
	return nil
}

// refill fills a new filter for b from its runs and from its keys in tables. total is the number of keys of all
// buckets. If a run is damaged, the bucket has no filter.
func (s *Store) refill(b *bucket, total int64, tables ...*table) error {
	b.filter = nil
	if s.tune.filterBytes <= 0 {
		return nil
	}
	keys := b.keys()
	f := newFilter(keys+keys/7+64, s.bitsPerKey(total))
	var stop atomic.Bool
	for _, r := range b.runs {
		if err := s.vol.fill(f, r, &stop); err != nil {
			return err
		}
	}
	for _, t := range tables {
		for i := 0; t != nil && i < t.n; i++ {
			if k := t.at(i); &s.buckets[k.h>>s.shift] == b {
				f.add(filterHash(k.h, k.p))
			}
		}
	}
	b.filter = f
	return nil
}

// openPart adds the items of a part file to the generation that collects held items. It ignores what a crash tore off.
// Missing bytes that were durable are damage.
func (s *Store) openPart(num uint64) error {
	p := &part{num: num, name: s.vol.path(heldName(num))}
	f, err := s.vol.fs.OpenFile(p.name, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("open held items: %w", err)
	}
	p.file = f
	s.parts = append(s.parts, p)
	g := s.gen
	g.parts = append(g.parts, p)
	fi, err := f.Stat()
	if err != nil {
		return fmt.Errorf("open held items: %w", err)
	}
	p.size = fi.Size() // p.synced stays 0: nothing is known to be durable
	if g.n == 0 {
		g.since = time.Now()
	}
	head := make([]byte, len(heldMagic))
	off := int64(0)
	n, _ := f.ReadAt(head, 0)
	if n == len(head) && string(head) == heldMagic {
		off = int64(n)
	}
	whole := true // no damage so far
	for off < p.size {
		items, fr, _, err := s.frameAt(p, off)
		if errors.Is(err, errFrame) || off == 0 {
			next, durable, err := s.afterGap(p, off)
			if err != nil {
				return err
			}
			if durable <= off { // the rest was never promised to be durable
				break
			}
			s.lost = append(s.lost, Damage{File: p.name, Offset: off, Bucket: -1, Err: errFrame})
			off, whole = next, false
			continue
		} else if err != nil {
			return err
		}
		s.items.reset(items)
		for range fr.n {
			var it Item
			if _, err := s.items.next(&it, false); err != nil {
				return &Damage{File: p.name, Offset: off, Bucket: -1, Err: err}
			}
			if err := s.holdKey(keyOf(it.Key, s.seed)); err != nil {
				return err
			}
		}
		off += int64(fr.size)
		if fr.n == 0 {
			continue
		}
		g.frames = append(g.frames, fr)
		if whole {
			p.end, p.items = off, p.items+int64(fr.n)
		}
	}
	if off < p.size {
		if err := f.Truncate(off); err != nil {
			return fmt.Errorf("open held items: %w", err)
		}
		p.size = off
	}
	p.tail = p.size
	if _, err := f.Seek(0, io.SeekEnd); err != nil {
		return fmt.Errorf("open held items: %w", err)
	}
	return nil
}

// afterGap returns the offset of the next frame after off, or the end of the file. durable is the largest number of
// durable bytes that any later frame states.
func (s *Store) afterGap(p *part, off int64) (next, durable int64, err error) {
	next = -1
	for off++; off < p.size; {
		if off, err = s.nextFrame(p, off); err != nil || off == p.size {
			break
		}
		_, f, synced, err := s.frameAt(p, off)
		if errors.Is(err, errFrame) {
			off++
			continue
		} else if err != nil {
			return 0, 0, err
		}
		if next < 0 {
			next = off
		}
		durable = max(durable, synced)
		off += int64(f.size)
	}
	if next < 0 {
		next = p.size
	}
	return next, durable, err
}

// frameAt reads the frame at off.
func (s *Store) frameAt(p *part, off int64) (items []byte, f frame, synced int64, err error) {
	var head [frameHead]byte
	if n, err := p.file.ReadAt(head[:], off); n < len(head) {
		if err == io.EOF {
			err = errFrame
		}
		return nil, f, 0, err
	}
	size := int64(binary.LittleEndian.Uint32(head[8:]))
	if binary.LittleEndian.Uint32(head[:]) != frameMagic || size < frameHead || size > min(maxFrame, p.size-off) {
		return nil, f, 0, errFrame
	}
	if int64(cap(s.framed)) < size {
		s.framed = make([]byte, size)
	}
	b := s.framed[:size]
	if n, err := p.file.ReadAt(b, off); int64(n) < size {
		return nil, f, 0, err
	}
	s.vol.read.Add(size)
	n, synced, items, err := parseFrame(b, &s.unpacked)
	return items, frame{p, off, uint32(size), s.gen.n, n}, synced, err
}

// nextFrame returns the offset of the next frame magic at off or later, or the size of the file if there is none.
func (s *Store) nextFrame(p *part, off int64) (int64, error) {
	magic := binary.LittleEndian.AppendUint32(nil, frameMagic)
	b := make([]byte, 64<<10)
	for off < p.size {
		n, err := p.file.ReadAt(b, off)
		if i := bytes.Index(b[:n], magic); i >= 0 {
			return off + int64(i), nil
		}
		if n < len(b) {
			if err != nil && err != io.EOF {
				return 0, fmt.Errorf("read held items: %w", err)
			}
			break
		}
		off += int64(n - len(magic) + 1)
	}
	return p.size, nil
}
