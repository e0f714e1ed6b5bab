package index

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/entries"
	"github.com/orbweaver/orbweaver/internal/wake"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/near"
)

// Config tunes an Index. The zero Config takes little memory.
type Config struct {
	// Threshold is the estimated similarity from which a page is a near-duplicate. Zero means 0.9.
	Threshold float64
	// Patience bounds how long Find waits until another page is archived. Zero means 2 s.
	Patience time.Duration
	// MemoryBytes bounds the RAM of drum. Zero means 16 MiB.
	MemoryBytes int64
	// SyncEvery bounds how long an entry is not synced to the disk. Zero means 1 s.
	SyncEvery time.Duration
}

// An Original is an archived page.
type Original struct {
	URL string
	// Date is the date of its record, to the millisecond.
	Date time.Time
}

// ErrClosed reports an Index whose Run has ended.
var ErrClosed = entries.ErrClosed

// An Index stores the pages of which others are near-duplicates. Find and the methods of Claim are safe for concurrent
// use. The goroutine of Run owns the entries on disk.
type Index struct {
	cfg Config
	all *entries.Server[asked] // by the keys of bands
	// due tells Run that pages are durable.
	due chan struct{}

	// mu guards the fields below. It is never held across I/O.
	mu      sync.Mutex
	recent  map[uint64][]*Claim // by key: claims, and pages that are not on disk yet
	young   []*Claim            // archived; their finishes are not durable yet
	durable []*Claim            // for Run

	keys []link.Key
	buf  []byte
}

// A Claim is a page that has asked and is no near-duplicate. Its visit ends with Archived or Release.
type Claim struct {
	x        *Index
	sketch   near.Sketch
	keys     [near.Bands]uint64
	page     Original
	archived bool          // guarded by x.mu
	over     chan struct{} // closed by Archived and Release
}

// asked is a question of Find for Run.
type asked struct {
	c     *Claim
	first Original // a similar page; its URL may be that of c
}

const (
	fileName = "near"
	head     = near.Bytes + 8
	// maxURL is the longest URL of an entry.
	maxURL = 4096
	// recentMost bounds the recent pages. Beyond it, pages are not stored.
	recentMost = 1 << 14
)

// shape is the shape of the entries on disk.
var shape = entries.Shape{Magic: "OWNEAR\x00\x01", Head: head, MaxTail: maxURL}

// Open opens or creates the Index in dir, which belongs to the Index.
func Open(fs disk.FS, dir string, cfg Config) (*Index, error) {
	cfg.Threshold = cmp.Or(cfg.Threshold, 0.9)
	cfg.Patience = cmp.Or(cfg.Patience, 2*time.Second)
	cfg.MemoryBytes = cmp.Or(cfg.MemoryBytes, 16<<20)
	cfg.SyncEvery = cmp.Or(cfg.SyncEvery, time.Second)
	all, err := entries.Open(fs, dir, entries.Config{
		Shape: shape, Name: fileName, MemoryBytes: cfg.MemoryBytes, Keep: true,
		Keys: func(dst []link.Key, data []byte) []link.Key {
			s := near.Sketch(data[:near.Bytes])
			return appendKeys(dst, s.Keys())
		},
	})
	if err != nil {
		return nil, fmt.Errorf("open the index of near-duplicates: %w", err)
	}
	return &Index{
		cfg: cfg, all: entries.NewServer[asked](all), due: make(chan struct{}, 1), recent: map[uint64][]*Claim{},
	}, nil
}

// appendKeys appends the keys of an entry in drum.
func appendKeys(dst []link.Key, keys [near.Bands]uint64) []link.Key {
	for _, k := range keys {
		dst = append(dst, link.Key{Host: (k>>48 + 1) * 0x9E3779B97F4A7C15, Path: k})
	}
	return dst
}

// Find returns the page of which a page with this Sketch is a near-duplicate. If there is none, claim is not nil, and
// the caller must end it. Both are nil if the Index has this page already. Find waits at most Config.Patience for a
// page that is about to be archived, and for the disk. The error is ctx's, or ErrClosed.
func (x *Index) Find(ctx context.Context, s near.Sketch, page Original) (first *Original, claim *Claim, err error) {
	c := &Claim{x: x, sketch: s, keys: s.Keys(), page: page, over: make(chan struct{})}
	var patience <-chan time.Time
	for waits := true; ; {
		other := x.claim(c, waits)
		if other == nil {
			break
		}
		if other.page.URL == page.URL {
			return nil, nil, nil
		}
		if x.isArchived(other) {
			return &other.page, nil, nil
		}
		if patience == nil {
			timer := time.NewTimer(x.cfg.Patience)
			defer timer.Stop()
			patience = timer.C
		}
		select {
		case <-other.over:
		case <-patience:
			waits = false
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
	a := &asked{c: c}
	if err := x.all.Ask(ctx, a); err != nil {
		c.Release()
		return nil, nil, err
	}
	switch a.first.URL {
	case "":
		return nil, c, nil
	case page.URL:
		c.Release()
		return nil, nil, nil
	}
	c.Release()
	return &a.first, nil, nil
}

func (x *Index) isArchived(c *Claim) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return c.archived
}

// claim returns a similar page in RAM: an archived one or, if there is none, one that claims are told to wait for. If
// there is neither, it adds c.
func (x *Index) claim(c *Claim, waits bool) (similar *Claim) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, k := range c.keys {
		for _, o := range x.recent[k] {
			if near.Similarity(&c.sketch, &o.sketch) < x.cfg.Threshold {
				continue
			}
			if o.archived {
				return o
			}
			if waits {
				similar = o
			}
		}
	}
	if similar == nil {
		for _, k := range c.keys {
			x.recent[k] = append(x.recent[k], c)
		}
	}
	return similar
}

// forget removes a page from RAM. The caller holds x.mu.
func (x *Index) forget(c *Claim) {
	for _, k := range c.keys {
		left := slices.DeleteFunc(x.recent[k], func(o *Claim) bool { return o == c })
		if len(left) == 0 {
			delete(x.recent, k)
			continue
		}
		x.recent[k] = left
	}
}

// Archived reports that the page is in the archive, and that its finish precedes all later finishes in the journal.
// From now on Find names it. date is that of its record. The method does not block.
func (c *Claim) Archived(date time.Time) {
	x := c.x
	x.mu.Lock()
	defer x.mu.Unlock()
	defer close(c.over)
	c.page.Date = date.Truncate(time.Millisecond).UTC()
	c.archived = true
	if len(x.young)+len(x.durable) >= recentMost || len(c.page.URL) > maxURL {
		x.forget(c)
		return
	}
	x.young = append(x.young, c)
}

// Release reports that the page was not archived. The method does not block.
func (c *Claim) Release() {
	c.x.mu.Lock()
	defer c.x.mu.Unlock()
	c.x.forget(c)
	close(c.over)
}

// Syncing is told that a sync of the journal begins. The caller calls durable when it has ended well. Then the pages
// that were archived before it began go to disk.
func (x *Index) Syncing() (durable func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	n := len(x.young)
	return func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.durable = append(x.durable, x.young[:n]...)
		x.young = slices.Delete(x.young, 0, n)
		if len(x.durable) > 0 {
			wake.Up(x.due)
		}
	}
}

// Run answers questions and stores entries until ctx is done or the disk fails.
func (x *Index) Run(ctx context.Context) error {
	if err := x.all.Run(ctx, x.cfg.SyncEvery, x.answer, x.due, x.store); err != nil {
		return fmt.Errorf("index of near-duplicates: %w", err)
	}
	return nil
}

// store writes the durable pages to disk.
func (x *Index) store() error {
	x.mu.Lock()
	cs := x.durable
	x.durable = nil
	x.mu.Unlock()
	x.buf = x.buf[:0]
	for _, c := range cs {
		var b [head]byte
		copy(b[:], c.sketch[:])
		binary.LittleEndian.PutUint64(b[near.Bytes:], uint64(c.page.Date.UnixMilli()))
		x.buf = shape.Encode(x.buf, b[:], []byte(c.page.URL))
	}
	if err := x.all.Append(x.buf); err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, c := range cs {
		x.forget(c)
	}
	return nil
}

// answer answers questions.
func (x *Index) answer(qs []*asked) error {
	x.keys = x.keys[:0]
	for _, a := range qs {
		x.keys = appendKeys(x.keys, a.c.keys)
	}
	places, err := x.all.Look(x.keys)
	if err != nil {
		return err
	}
	for i, a := range qs {
		if err := x.judge(a, places[i*near.Bands:(i+1)*near.Bands]); err != nil {
			return err
		}
	}
	return nil
}

// judge compares the page of a question with the entries that share a key with it. An entry of its own URL decides, and
// otherwise the most similar entry.
func (x *Index) judge(a *asked, places []entries.Place) error {
	best := 0.0
	for i, p := range places {
		if !p.Known || slices.Contains(places[:i], p) {
			continue
		}
		data, err := x.all.At(p.At)
		if errors.Is(err, entries.ErrEntry) {
			continue
		}
		if err != nil {
			return err
		}
		s := near.Sketch(data[:near.Bytes])
		similarity, url := near.Similarity(&s, &a.c.sketch), string(data[head:])
		own := url == a.c.page.URL
		if similarity < x.cfg.Threshold || similarity <= best && !own {
			continue
		}
		best = similarity
		a.first = Original{url, time.UnixMilli(int64(binary.LittleEndian.Uint64(data[near.Bytes:]))).UTC()}
		if own {
			return nil
		}
	}
	return nil
}

// Size returns the bytes of the entries and of their keys on disk, and those of the keys in RAM. Call it after Run has
// ended.
func (x *Index) Size() (file, keys, memory int64) { return x.all.Size() }

// Close closes the files. Call it after Run has ended.
func (x *Index) Close() error { return x.all.Close() }
