// Package teststore answers: what does a program keep in an object store that fails as real ones do?
//
// Sim is a store in memory, with faults that a seed draws. Conform is the suite that all stores pass.
//
// Only tests import this package.
package teststore

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/object"
)

// Faults say how often a Sim fails, as shares of its requests.
type Faults struct {
	Delay       time.Duration // each request takes up to this long
	Busy        float64       // it answers SlowDown
	Broken      float64       // it has an error of its own, and has not done it
	LostRequest float64       // the request does not arrive
	LostAnswer  float64       // it is done, and the answer does not arrive
	Lying       float64       // it says that it has written, and has not
	Torn        float64       // it says that it has written, and has half of it
	TornAnswer  float64       // the content of an object ends early
	LateLists   time.Duration // a list shows what was there this long ago
}

// Traits say what a Sim does with conditions and checksums.
type Traits struct {
	IgnoresConditions bool
	RefusesConditions bool
	IgnoresChecksums  bool
}

// A Sim is an object store in memory. It implements object.Backend.
type Sim struct {
	traits Traits

	mu      sync.Mutex // guards all below
	faults  Faults
	draw    *rand.Rand
	objects map[string]*stored
	past    []change
	uploads map[string]*upload
	next    int
}

// stored is an object. It is not changed after it was made.
type stored struct {
	data     []byte
	said     string // the checksum that the writer said
	tag      string
	modified time.Time
}

// A change is what became of a key; to is nil if it was deleted.
type change struct {
	at  time.Time
	key string
	to  *stored
}

type upload struct {
	key, said string
	begun     time.Time
	parts     map[int]*stored
}

// NewSim returns an empty store without faults.
func NewSim(seed uint64, t Traits) *Sim {
	return &Sim{traits: t, draw: rand.New(rand.NewPCG(seed, 1)), objects: map[string]*stored{},
		uploads: map[string]*upload{}}
}

// Clone returns a store with the same objects and no faults.
func (s *Sim) Clone() *Sim {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := NewSim(1, s.traits)
	c.objects, c.past, c.next = maps.Clone(s.objects), slices.Clone(s.past), s.next
	return c
}

// Fail sets the faults from now on.
func (s *Sim) Fail(f Faults) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = f
}

// Content returns an object, or nil.
func (s *Sim) Content(key string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.objects[key]; o != nil {
		return o.data
	}
	return nil
}

// Keys returns all keys.
func (s *Sim) Keys() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.objects))
}

// Pending returns how many uploads in parts were begun and not ended.
func (s *Sim) Pending() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.uploads)
}

// request makes a request: do with the lock held, unless a fault prevents it.
func (s *Sim) request(ctx context.Context, do func() error) error {
	s.mu.Lock()
	f := s.faults
	delay := time.Duration(s.draw.Float64() * float64(f.Delay))
	dice := [4]float64{s.draw.Float64(), s.draw.Float64(), s.draw.Float64(), s.draw.Float64()}
	s.mu.Unlock()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(delay):
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case dice[0] < f.Busy:
		return object.ErrSlow
	case dice[1] < f.Broken:
		return object.ErrBroken
	case dice[2] < f.LostRequest:
		return object.ErrAway
	}
	s.mu.Lock()
	err := do()
	s.mu.Unlock()
	if dice[3] < f.LostAnswer {
		return object.ErrAway
	}
	return err
}

// sumOf computes a CRC-32C, without the code that is tested.
func sumOf(b []byte) string {
	sum := crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, sum))
}

// read returns what a client sends.
func (s *Sim) read(c object.Content, sum object.Sum) ([]byte, error) {
	b := make([]byte, c.Size())
	if n, err := c.ReadAt(b, 0); n < len(b) {
		return nil, err
	}
	if sum.CRC32C != "" && sum.MD5 == "" && !s.traits.IgnoresChecksums && sum.CRC32C != sumOf(b) {
		return nil, object.ErrDigest
	}
	return b, nil
}

// holds returns an error if a condition does not hold.
func (s *Sim) holds(key string, when object.Condition) error {
	o := s.objects[key]
	switch {
	case !when.IfAbsent && when.IfTag == "" || s.traits.IgnoresConditions:
	case s.traits.RefusesConditions:
		return object.ErrUnsupported
	case when.IfAbsent && o != nil, when.IfTag != "" && (o == nil || o.tag != when.IfTag):
		return object.ErrPrecondition
	}
	return nil
}

// set stores an object, or lies.
func (s *Sim) set(key string, b []byte, said string) {
	switch {
	case s.draw.Float64() < s.faults.Lying:
		return
	case s.draw.Float64() < s.faults.Torn:
		b = b[:len(b)/2]
	}
	s.next++
	o := &stored{b, said, fmt.Sprintf("tag-%s-%d", sumOf(b), s.next), time.Now()}
	s.objects[key] = o
	s.past = append(s.past, change{o.modified, key, o})
}

// Put implements object.Backend.
func (s *Sim) Put(ctx context.Context, key string, c object.Content, sum object.Sum, when object.Condition) error {
	b, err := s.read(c, sum)
	if err != nil {
		return err
	}
	return s.request(ctx, func() error {
		if err := s.holds(key, when); err != nil {
			return err
		}
		s.set(key, b, sum.CRC32C)
		return nil
	})
}

// Begin implements object.Backend.
func (s *Sim) Begin(ctx context.Context, key string, sum object.Sum, _ object.Condition) (id string, err error) {
	err = s.request(ctx, func() error {
		s.next++
		id = fmt.Sprintf("upload-%09d", s.next)
		s.uploads[id] = &upload{key, sum.CRC32C, time.Now(), map[int]*stored{}}
		return nil
	})
	return id, err
}

// Part implements object.Backend.
func (s *Sim) Part(ctx context.Context, key, id string, number int, c object.Content, sum object.Sum) (p object.Part,
	err error) {
	b, err := s.read(c, sum)
	if err != nil {
		return p, err
	}
	err = s.request(ctx, func() error {
		u := s.uploads[id]
		if u == nil || u.key != key {
			return object.ErrNoUpload
		}
		p = object.Part{Number: number, Size: c.Size(), Tag: sumOf(b), Sum: sum}
		u.parts[number] = &stored{data: b, tag: p.Tag}
		return nil
	})
	return p, err
}

// Complete implements object.Backend.
func (s *Sim) Complete(ctx context.Context, key, id string, parts []object.Part, sum object.Sum,
	when object.Condition) error {
	return s.request(ctx, func() error {
		u := s.uploads[id]
		if u == nil || u.key != key {
			return object.ErrNoUpload
		}
		if err := s.holds(key, when); err != nil {
			return err
		}
		var all []byte
		for _, p := range parts {
			part := u.parts[p.Number]
			if part == nil || part.tag != p.Tag {
				return object.ErrNoUpload
			}
			all = append(all, part.data...)
		}
		if sum.CRC32C != "" && sum.MD5 == "" && !s.traits.IgnoresChecksums && sumOf(all) != sum.CRC32C {
			return object.ErrDigest
		}
		delete(s.uploads, id)
		s.set(key, all, u.said)
		return nil
	})
}

// Abort implements object.Backend.
func (s *Sim) Abort(ctx context.Context, _, id string) error {
	return s.request(ctx, func() error {
		if s.uploads[id] == nil {
			return object.ErrNoUpload
		}
		delete(s.uploads, id)
		return nil
	})
}

// Uploads implements object.Backend. Its pages are short.
func (s *Sim) Uploads(ctx context.Context, prefix string, after object.Upload) (page []object.Upload, more bool,
	err error) {
	err = s.request(ctx, func() error {
		page, more = nil, false
		for id, u := range s.uploads {
			if strings.HasPrefix(u.key, prefix) && (u.key > after.Key || u.key == after.Key && id > after.ID) {
				page = append(page, object.Upload{Key: u.key, ID: id, Begun: u.begun})
			}
		}
		slices.SortFunc(page, func(a, b object.Upload) int {
			return strings.Compare(a.Key+"\x00"+a.ID, b.Key+"\x00"+b.ID)
		})
		if more = len(page) > 3; more {
			page = page[:3]
		}
		return nil
	})
	return page, more, err
}

// Get implements object.Backend.
func (s *Sim) Get(ctx context.Context, key string, offset, length int64) (body io.ReadCloser, n int64, err error) {
	return s.GetTagged(ctx, key, "", offset, length)
}

// GetTagged implements object.Tagged.
func (s *Sim) GetTagged(ctx context.Context, key, tag string, offset, length int64) (body io.ReadCloser, n int64,
	err error) {
	err = s.request(ctx, func() error {
		o := s.objects[key]
		if o == nil {
			return object.ErrNotFound
		}
		if tag != "" && tag != o.tag {
			return object.ErrPrecondition
		}
		b := o.data[min(offset, int64(len(o.data))):]
		b = b[:min(length, int64(len(b)))]
		n = int64(len(b))
		if s.draw.Float64() < s.faults.TornAnswer {
			b = b[:len(b)/2]
		}
		body = io.NopCloser(bytes.NewReader(b))
		return nil
	})
	return body, n, err
}

// Stat implements object.Backend.
func (s *Sim) Stat(ctx context.Context, key string) (i object.Info, err error) {
	err = s.request(ctx, func() error {
		o := s.objects[key]
		if o == nil {
			return object.ErrNotFound
		}
		i = object.Info{Key: key, Size: int64(len(o.data)), Sum: o.said, Said: o.said, Tag: o.tag, Modified: o.modified}
		if !s.traits.IgnoresChecksums {
			i.Sum, i.Attested = sumOf(o.data), true
		}
		return nil
	})
	return i, err
}

// List implements object.Backend.
func (s *Sim) List(ctx context.Context, prefix, after string, most int) (list []object.Info, more bool, err error) {
	err = s.request(ctx, func() error {
		seen := map[string]*stored{}
		for _, c := range s.past {
			if time.Since(c.at) >= s.faults.LateLists {
				seen[c.key] = c.to
			}
		}
		list, more = nil, false
		for _, key := range slices.Sorted(maps.Keys(seen)) {
			if o := seen[key]; o != nil && strings.HasPrefix(key, prefix) && key > after {
				if more = len(list) == most; more {
					break
				}
				list = append(list, object.Info{Key: key, Size: int64(len(o.data)), Tag: o.tag, Modified: o.modified})
			}
		}
		return nil
	})
	return list, more, err
}

// Delete implements object.Backend.
func (s *Sim) Delete(ctx context.Context, key string) error {
	return s.request(ctx, func() error {
		if s.objects[key] != nil {
			delete(s.objects, key)
			s.past = append(s.past, change{time.Now(), key, nil})
		}
		return nil
	})
}

var _ interface {
	object.Backend
	object.Tagged
} = (*Sim)(nil)
