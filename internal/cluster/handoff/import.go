package handoff

import (
	"context"
	"fmt"

	"github.com/orbweaver/orbweaver/internal/store/journal"
)

// A Mark says how much a source had sent when an Import began.
type Mark struct {
	of       *source
	appended uint64
}

// Import passes the state that results from a source's records to fn, host by host in the order of
// the host keys. For each host, fn gets at most one Clock, then a Pages for each Counter, then the
// finished URLs, then the pending links in the order of their numbers, then the Named, then the
// truncated keys. A finished URL is either a Finish or one of the whole keys of a Known; both come in
// the order of their paths. No finished URL is pending, and each URL comes once. A Named may come in
// addition, unless a Finish says that the URL is archived. A Record is valid until fn returns. An
// error of fn ends the Import.
//
// Truncated keys do not tell which URLs are finished. Accept the pending links before the keys
// become known.
//
// Import changes nothing, so it may be repeated. The caller may have imported any record before, so
// a repeated record must change nothing. The caller must make the state durable elsewhere before
// it calls DropSource with the mark. Append may run at the same time.
//
// If the source is damaged, Import passes what is before the damage, and the error is an
// ErrDamaged. For a source that has sent nothing, Import does nothing.
func (s *Store) Import(ctx context.Context, id Source, fn func(*Record) error) (Mark, error) {
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
	var r Record
	var paths []uint64 // reused
	var failed error   // returned by fn
	err = s.reduce(ctx, replay, func(k Kind, payload []byte) error {
		if r.decode(k, payload, paths) != "" {
			return unreadable(k)
		}
		if k == Known {
			paths = r.Paths
		}
		failed = fn(&r)
		return failed
	}, true)
	switch {
	case failed != nil:
		return mark, fmt.Errorf("import replica of %v: %w", id, failed)
	case isDamage(err):
		return mark, o.harm(err)
	case err != nil:
		return mark, fmt.Errorf("import replica of %v: %w", id, err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return mark, o.usable()
}
