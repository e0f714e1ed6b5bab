package object

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
)

// Abilities says what a store does with conditions and checksums. What it lacks, a Store does otherwise: it looks
// before it writes, so that two writers at the same moment may overwrite each other, and it sends MD5.
type Abilities struct {
	IfAbsent      bool // keeps If-None-Match: * of a whole object
	IfAbsentParts bool // keeps it at the end of an upload in parts
	IfTag         bool // keeps If-Match
	Checksums     bool // refuses an object whose CRC-32C is wrong
	Attests       bool // tells the CRC-32C of an object
}

// Abilities probes the store, once: it writes small objects below the name .orbweaver-probe and deletes them.
func (s *Store) Abilities(ctx context.Context) (Abilities, error) {
	a, err := s.abilities(ctx)
	return a, s.fault("probe", "", err)
}

func (s *Store) abilities(ctx context.Context) (Abilities, error) {
	select {
	case <-s.turn:
	case <-ctx.Done():
		return Abilities{}, ctx.Err()
	}
	defer func() { s.turn <- struct{}{} }()
	if s.able != nil {
		return *s.able, nil
	}
	a, err := s.probeWhole(ctx)
	// At times a store confirms what it has not written. So it is asked again before it counts as one that knows no
	// conditions.
	for n := 1; err == nil && !(a.IfAbsent && a.IfTag) && n < probes; n++ {
		a, err = s.probeWhole(ctx)
	}
	if err == nil {
		s.able = &a
	}
	return a, err
}

// probes is how often a store is probed that seems to know no conditions.
const probes = 3

// probeWhole probes the store until it keeps what the probe has written.
func (s *Store) probeWhole(ctx context.Context) (a Abilities, err error) {
	for n := 1; ; n++ {
		if a, err = s.probe(ctx); !errors.Is(err, ErrLost) || n == repairs {
			return a, err
		}
	}
}

// probe writes objects that a store with the ability refuses.
func (s *Store) probe(ctx context.Context) (a Abilities, err error) {
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	key := ".orbweaver-probe-" + hex.EncodeToString(random[:])
	text := bytes.NewReader([]byte("orbweaver probes what this store can do\n"))
	right, err := s.sumsOf(text, text.Size(), true)
	if err != nil {
		return a, err
	}
	wrong, plain, sum := right.whole, right.whole, right.whole
	sum.MD5, plain.CRC32C = "", ""
	wrong.MD5, wrong.CRC32C = "", CRC32C(0)
	put := func(sum Sum, when Condition) error {
		when.Mutable = true
		return s.try(ctx, 0, func(ctx context.Context) error { return s.to.Put(ctx, key, text, sum, when) })
	}
	defer func() { // best effort: a writer need not have the right to delete
		_ = s.try(ctx, 0, func(ctx context.Context) error { return s.to.Delete(ctx, key) })
	}()
	if err := put(plain, Condition{}); err != nil {
		return a, err
	}
	a.IfAbsent, err = refuses(put(plain, Condition{IfAbsent: true}))
	if err == nil {
		a.IfTag, err = refuses(put(plain, Condition{IfTag: "0123456789abcdef0123456789abcdef"}))
	}
	if err == nil {
		a.Checksums, err = refuses(put(wrong, Condition{}))
	}
	if err != nil {
		return a, err
	}
	if a.Checksums { // a store that knows no checksums may refuse all: then it refuses the right one, too
		err := put(sum, Condition{})
		if a.Checksums = err == nil; err != nil && Temporary(err) {
			return a, err
		}
	}
	i, err := s.stat(ctx, key)
	if errors.Is(err, ErrNotFound) {
		err = ErrLost
	}
	if err != nil {
		return a, err
	}
	a.Attests = a.Checksums && i.Attested && i.Sum == right.whole.CRC32C
	if _, ok := s.to.(Whole); ok {
		a.IfAbsentParts = a.IfAbsent // it has no uploads in parts
		return a, nil
	}
	part := right.whole
	if a.Checksums {
		part = sum
	}
	a.IfAbsentParts, err = s.probeParts(ctx, key, text, part)
	return a, err
}

// probeParts ends an upload in parts whose object exists.
func (s *Store) probeParts(ctx context.Context, key string, c Content, sum Sum) (bool, error) {
	when := Condition{IfAbsent: true, Mutable: true}
	var id string
	err := s.try(ctx, 0, func(ctx context.Context) (err error) {
		id, err = s.to.Begin(ctx, key, sum, when)
		return err
	})
	if err != nil {
		return false, err
	}
	var parts [1]Part
	err = s.try(ctx, 0, func(ctx context.Context) (err error) {
		parts[0], err = s.to.Part(ctx, key, id, 1, c, sum)
		return err
	})
	kept := false
	if err == nil {
		err = s.try(ctx, 0, func(ctx context.Context) error {
			return s.to.Complete(ctx, key, id, parts[:], sum, when)
		})
		kept = errors.Is(err, ErrPrecondition)
	}
	if err == nil {
		return false, nil
	}
	// Best effort: Abort finds it later.
	_ = s.try(ctx, 0, func(ctx context.Context) error { return s.to.Abort(ctx, key, id) })
	if kept || errors.Is(err, ErrUnsupported) {
		return kept, nil
	}
	return false, fmt.Errorf("probe: %w", err)
}

// refuses reports whether a store has refused what it was to refuse. An error is that of a store that cannot be probed.
func refuses(err error) (bool, error) {
	switch {
	case err == nil, errors.Is(err, ErrUnsupported):
		return false, nil
	case errors.Is(err, ErrPrecondition), errors.Is(err, ErrDigest):
		return true, nil
	case errors.Is(err, ErrRefused):
		return false, nil
	}
	return false, fmt.Errorf("probe: %w", err)
}
