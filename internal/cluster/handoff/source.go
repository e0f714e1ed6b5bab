package handoff

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/orbweaver/orbweaver/internal/store/journal"
)

// A source has the records of one agent.
type source struct {
	store *Store
	id    Source
	dir   string

	// flush is locked before mu to sync or replace files. So only one goroutine does so, and
	// appends do not have to wait for it.
	flush sync.Mutex
	// mu guards the fields below. It is held while a full buffer is written. A caller that waits
	// for it then has records that must be written after the buffer anyway.
	mu       sync.Mutex
	j        *journal.Journal // nil: no records yet, or damaged or gone
	appended uint64           // batches since Open
	snapshot uint64           // bytes of the snapshot's parts
	damage   *Damage
	gone     bool // removed: a new source may have its name
	closed   bool
}

// decodeVersion reads the first record of a journal or of a snapshot. That of a snapshot has the
// bytes of the parts; otherwise they are 0.
func decodeVersion(k Kind, p []byte) (parts uint64, err error) {
	if k != kindVersion || len(p) == 0 || p[0] != recordsVersion {
		return 0, fmt.Errorf("%w: it begins with a record of kind %q, %x", ErrVersion, rune(k), p[:min(len(p), 1)])
	}
	if p = p[1:]; len(p) == 0 {
		return 0, nil
	}
	parts, w := binary.Uvarint(p)
	if w <= 0 {
		return 0, unreadable(k)
	}
	return parts, nil
}

func newSource(s *Store, id Source) *source {
	return &source{store: s, id: id, dir: filepath.Join(s.dir, id.dir())}
}

// open opens the source's journal, or creates it. Damage is not an error.
func (o *source) open() error {
	j, err := journal.Open(o.store.fs, o.dir, journal.Config{BufferBytes: o.store.cfg.BufferBytes})
	if errors.Is(err, journal.ErrDamaged) {
		o.damage = &Damage{o.id, err}
		return nil
	}
	if err != nil {
		return err
	}
	o.snapshot = 0
	first := true
	_, err = journal.ReplayWithout(o.store.fs, o.dir, func(journal.Part) bool { return true },
		func(kind byte, p []byte) (err error) {
			if first {
				first = false
				o.snapshot, err = decodeVersion(Kind(kind), p)
			}
			return err
		})
	if err == nil && first {
		err = j.Append([]journal.Record{{Kind: byte(kindVersion), Payload: []byte{recordsVersion}}})
	}
	switch {
	case isDamage(err):
		o.damage = &Damage{o.id, err}
		return j.Close()
	case err != nil:
		_ = j.Close() // err is the one to report
		return err
	}
	o.j = j
	return nil
}

// append appends a batch. gone reports that the source has been removed, wants that it should be
// compacted.
func (o *source) append(batch []journal.Record) (wants, gone bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.usable(); err != nil || o.gone {
		return false, o.gone, err
	}
	if o.j == nil {
		if err := o.open(); err != nil {
			return false, false, fmt.Errorf("replica of %v: %w", o.id, err)
		}
		if o.damage != nil {
			return false, false, o.damage
		}
	}
	if err := o.j.Append(batch); err != nil {
		return false, false, fmt.Errorf("replica of %v: %w", o.id, err)
	}
	o.appended++
	return o.wants(), false, nil
}

// usable returns the reason why the source takes no records, or nil. The caller holds o.mu.
func (o *source) usable() error {
	switch {
	case o.closed:
		return ErrClosed
	case o.damage != nil:
		return o.damage
	}
	return nil
}

// wants reports whether the source should be compacted: it has sent as much as the snapshot has. So
// obsolete records stay below about half. The caller holds o.mu.
func (o *source) wants() bool {
	return o.j != nil && o.damage == nil &&
		o.j.SinceSnapshot() >= max(o.store.cfg.CompactBytes, int64(o.snapshot))
}

func (o *source) info() (i Info, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.j == nil && o.damage == nil {
		return i, false
	}
	i = Info{Source: o.id, Bytes: int64(o.snapshot)}
	if o.j != nil {
		i.Bytes += o.j.SinceSnapshot()
	}
	return i, true
}

// sync makes all appended batches durable.
func (o *source) sync() error {
	o.flush.Lock()
	defer o.flush.Unlock()
	return o.syncFlushing()
}

// syncFlushing is sync for callers that hold flush.
func (o *source) syncFlushing() error {
	o.mu.Lock()
	if err := o.usable(); err != nil || o.j == nil {
		o.mu.Unlock()
		return err
	}
	j := o.j
	run, err := j.BeginSync()
	o.mu.Unlock()
	if err == nil {
		err = run.Run()
		o.mu.Lock()
		err = j.EndSync(run, err)
		o.mu.Unlock()
	}
	if err != nil {
		return fmt.Errorf("replica of %v: %w", o.id, err)
	}
	return nil
}

// begin starts a checkpoint of all records, and returns their Mark. For a source that is damaged or
// has no records, c is nil.
func (o *source) begin() (c *journal.Checkpoint, mark Mark, err error) {
	o.flush.Lock()
	defer o.flush.Unlock()
	// The Begin below then has to sync only what is appended meanwhile.
	if err := o.syncFlushing(); err != nil && !errors.Is(err, ErrDamaged) {
		return nil, mark, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	mark = Mark{of: o, appended: o.appended}
	if o.j == nil {
		return nil, mark, nil
	}
	if c, err = o.j.Begin(); err != nil {
		return nil, mark, fmt.Errorf("replica of %v: %w", o.id, err)
	}
	return c, mark, nil
}

// adopt makes a finished checkpoint, with parts of so many bytes, the source's snapshot.
func (o *source) adopt(c *journal.Checkpoint, bytes uint64) error {
	o.flush.Lock()
	defer o.flush.Unlock()
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.j.Adopt(c, nil); err != nil {
		return err
	}
	o.snapshot = bytes
	return nil
}

// harm marks the source as damaged. From then on it takes no records.
func (o *source) harm(err error) *Damage {
	o.flush.Lock()
	defer o.flush.Unlock()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.damage == nil {
		o.damage = &Damage{o.id, err}
	}
	if o.j != nil {
		_ = o.j.Close() // it cannot be used any more
		o.j = nil
	}
	return o.damage
}

// remove renames the source's directory and returns the new path, or an empty string if there are
// no files. The source is gone from then on.
func (o *source) remove(mark *Mark) (where string, err error) {
	o.flush.Lock()
	defer o.flush.Unlock()
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.gone:
		return "", nil
	case mark != nil && o.appended != mark.appended:
		return "", ErrNewer
	}
	if o.j != nil {
		_ = o.j.Close() // its records are to be deleted
		o.j = nil
	} else if o.damage == nil {
		o.gone = true
		return "", nil
	}
	fs, root := o.store.fs, o.store.dir
	where = filepath.Join(root, gonePrefix+o.id.dir())
	if err = fs.RemoveAll(where); err != nil {
		return "", err
	}
	if err = fs.Rename(o.dir, where); err != nil {
		return "", err
	}
	if err = fs.SyncDir(root); err != nil {
		return "", err
	}
	o.gone = true
	return where, nil
}

func (o *source) close() error {
	o.flush.Lock()
	defer o.flush.Unlock()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	if o.j == nil {
		return nil
	}
	err := o.j.Close()
	o.j = nil
	return err
}
