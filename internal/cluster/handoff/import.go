package handoff

import (
	"context"
	"errors"
	"fmt"

	"github.com/orbweaver/orbweaver/internal/store/journal"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// Funcs receive the records of a source, host by host in the order of the host keys. A nil
// function receives nothing. For each host, Import first calls Clock, then Finished and Pending
// in turns, then Known. Arguments are valid until the function returns. An error ends the Import.
//
// The caller may have imported any record before, so a repeated record must change nothing.
type Funcs struct {
	// Clock receives how long the host must rest, counted from when the record was shipped.
	// Counting from now is safe.
	Clock func(c Record) error
	// Pending receives the host's pending links as Accepts, in the order of the source's
	// numbers, each link once.
	Pending func(links []Record) error
	// Finished receives the finished URLs as Finishes. None of them is Pending.
	Finished func(urls []Record) error
	// Known receives keys of all URLs ever accepted, truncated to a width. They include the
	// keys of pending links, so accept the links of Pending before these keys become known.
	Known func(keys Record) error
}

// Limits of one call of Pending or Finished.
const (
	importRecords = 1024
	importBytes   = 256 << 10
)

// A Mark says how much a source had sent when an Import began.
type Mark struct {
	of             *source
	appended, last uint64
	moved          int64
}

// Import passes the state of the wanted hosts, which follows from a source's records, to fn. A
// nil wanted means all hosts. Import changes nothing, so it may be repeated. The caller must make
// the state durable elsewhere before it calls DropSource with the mark. Append may run at
// the same time.
//
// If the source is damaged, Import passes what is before the damage, and the error is an
// ErrDamaged. For a source that has sent nothing, Import does nothing.
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
		_, err := journal.Replay(s.fs, o.dir, fn) // a damaged journal, or none
		return err
	}
	if c != nil {
		defer c.Abandon() // begun only so that the files do not change
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

// importing passes the state from a reduction to the Funcs.
type importing struct {
	fn Funcs

	host    uint64
	pending gathered
	done    gathered
	paths   []uint64
	failed  error // returned by one of the funcs
}

// gathered has records that are passed on together.
type gathered struct {
	records []Record
	bytes   []byte // the records point into it
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
	return nil // Import does not report Begin
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

// end passes on the gathered records.
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

// flush passes on everything gathered for a host.
func (im *importing) flush() error {
	if err := im.end(&im.done, im.fn.Finished, Finish); err != nil {
		return err
	}
	return im.end(&im.pending, im.fn.Pending, Accept)
}

// Key returns the key of the URL of an Accept or a Finish.
func (r *Record) Key() weburl.Key { return weburl.Key{Host: r.Host, Path: r.Path} }
