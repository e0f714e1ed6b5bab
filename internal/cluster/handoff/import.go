package handoff

import (
	"context"
	"errors"
	"fmt"

	"github.com/orbweaver/orbweaver/internal/store/journal"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// Funcs are given what a source had, host by host in the order of their keys;
// nil ones want nothing. Of a host first Clock is called, then Finished and
// Pending, in turns, then Known. What they are given is valid until they
// return. An error ends the Import.
//
// Who imports may have had any of it before: the same again is to change
// nothing.
type Funcs struct {
	// Clock gives when the host may be asked again, counted from when that was
	// shipped; counting from now is on the safe side.
	Clock func(c Record) error
	// Pending gives the host's links that were accepted and not finished, in
	// the order of the source's numbers, and each one once: Accepts.
	Pending func(links []Record) error
	// Finished gives URLs that are finished, and none of which is Pending:
	// Finishes.
	Finished func(urls []Record) error
	// Known gives keys that were ever accepted, cut off at some width. Those of
	// pending links are among them: what Pending gave must have been accepted
	// before these keys become known, or it would be taken for known itself.
	Known func(keys Record) error
}

// Bounds of what Pending and Finished are given at once.
const (
	importRecords = 1024
	importBytes   = 256 << 10
)

// A Mark is how much a source had sent when an Import began.
type Mark struct {
	of             *source
	appended, last uint64
	moved          int64
}

// Import gives what a source's records of the wanted hosts amount to; a nil
// wanted wants all. Nothing is kept or forgotten by it: it may end at any
// moment and be begun again. What it gave is to be durable elsewhere before
// Drop or DropSource is called with the mark. Appends go on meanwhile.
//
// If the source is damaged, what stands before the damage is imported, as good
// as it is, and the error is an ErrDamaged. For a source that has sent nothing
// there is nothing to do.
func (s *Store) Import(ctx context.Context, id Source, wanted func(host uint64) bool, fn Funcs) (Mark, error) {
	release, err := s.seize(ctx)
	if err != nil {
		return Mark{}, fmt.Errorf("import replica of %v: %w", id, err)
	}
	defer release()
	o, err := s.source(id, true)
	if err != nil {
		return Mark{}, err
	}
	c, mark, err := o.begin()
	if err != nil {
		return mark, fmt.Errorf("import replica of %v: %w", id, err)
	}
	replay := func(fn func(byte, []byte) error) error {
		_, err := journal.Replay(s.fs, o.dir, fn) // of a damaged one, or none
		return err
	}
	if c != nil {
		defer c.Abandon() // it was begun for the files to stand still
		replay = func(fn func(byte, []byte) error) error { return c.Replay(false, fn) }
	}
	im := importing{fn: fn}
	err = s.reduce(ctx, wanted, replay, im.put, true)
	if err == nil || isDamage(err) {
		err = errors.Join(im.flush(), err)
	}
	switch {
	case im.failed != nil:
		return mark, fmt.Errorf("import replica of %v: %w", id, im.failed)
	case isDamage(err):
		return mark, o.harm(err)
	case err != nil:
		return mark, fmt.Errorf("import replica of %v: %w", id, err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return mark, o.usable()
}

// importing hands on what a reduction tells.
type importing struct {
	fn Funcs

	host    uint64
	pending gathered
	done    gathered
	paths   []uint64
	failed  error // of one of the funcs
}

// gathered are records that are handed on together.
type gathered struct {
	records []Record
	bytes   []byte // that they point into
	ends    []int
}

func (im *importing) put(k Kind, host, path uint64, payload []byte) error {
	if host != im.host {
		if err := im.flush(); err != nil {
			return err
		}
		im.host = host
	}
	if k >= 'a' {
		k -= older
	}
	switch k {
	case Accept:
		return im.gather(&im.pending, im.fn.Pending, k, payload)
	case Finish:
		return im.gather(&im.done, im.fn.Finished, k, payload)
	case kindDone:
		r := Record{Kind: Finish, Host: host, Path: path}
		return im.gather(&im.done, im.fn.Finished, Finish, r.appendPayload(nil))
	case Known, Clock:
		if err := im.flush(); err != nil {
			return err
		}
		fn := im.fn.Known
		if k == Clock {
			fn = im.fn.Clock
		}
		if fn == nil {
			return nil
		}
		r := Record{Kind: k, Host: host}
		if err := r.read(payload, im.paths); err != nil {
			return err
		}
		if k == Known {
			im.paths = r.Paths
		}
		return im.told(fn(r))
	}
	return nil // a Begin says nothing to who goes on
}

// read decodes a payload of the journal.
func (r *Record) read(p []byte, paths []uint64) error {
	if reason := r.decode(p, paths); reason != "" {
		return unreadable(r.Kind)
	}
	return nil
}

func (im *importing) told(err error) error {
	if err != nil {
		im.failed = err
	}
	return err
}

func (im *importing) gather(g *gathered, fn func([]Record) error, k Kind, payload []byte) error {
	if fn == nil {
		return nil
	}
	if len(g.ends) > 0 && (len(g.ends) == importRecords || len(g.bytes)+len(payload) > importBytes) {
		if err := im.end(g, fn, k); err != nil {
			return err
		}
	}
	g.bytes = append(g.bytes, payload...)
	g.ends = append(g.ends, len(g.bytes))
	return nil
}

// end hands on what has gathered.
func (im *importing) end(g *gathered, fn func([]Record) error, k Kind) error {
	if len(g.ends) == 0 {
		return nil
	}
	from := 0
	for _, to := range g.ends {
		r := Record{Kind: k}
		if err := r.read(g.bytes[from:to:to], nil); err != nil {
			return err
		}
		g.records = append(g.records, r)
		from = to
	}
	err := im.told(fn(g.records))
	clear(g.records)
	g.records, g.bytes, g.ends = g.records[:0], g.bytes[:0], g.ends[:0]
	return err
}

// flush hands on all of a host.
func (im *importing) flush() error {
	if err := im.end(&im.done, im.fn.Finished, Finish); err != nil {
		return err
	}
	return im.end(&im.pending, im.fn.Pending, Accept)
}

// Key is the key of the URL that an Accept or a Finish is about.
func (r *Record) Key() weburl.Key { return weburl.Key{Host: r.Host, Path: r.Path} }
