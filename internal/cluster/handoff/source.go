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
	last     uint64           // number of the last batch
	appended uint64           // batches since Open, without those of Drop
	moved    int64            // hosts that lost their records since the snapshot
	base     base
	damage   *Damage
	gone     bool // removed: a new source may have its name
	closed   bool
}

// A base has the numbers that a snapshot states.
type base struct {
	last, bytes, hosts, pending, finished uint64
}

func (b *base) fields() []*uint64 {
	return []*uint64{&b.last, &b.bytes, &b.hosts, &b.pending, &b.finished}
}

func (b *base) appendTo(dst []byte) []byte {
	dst = append(dst, recordsVersion)
	for _, v := range b.fields() {
		dst = binary.AppendUvarint(dst, *v)
	}
	return dst
}

// decode reads the first record of a journal or of a snapshot. That of a snapshot has more fields.
func (b *base) decode(k Kind, p []byte) error {
	if k != kindVersion || len(p) == 0 || p[0] != recordsVersion {
		return fmt.Errorf("%w: it begins with a record of kind %q, %x", ErrVersion, rune(k), p[:min(len(p), 1)])
	}
	if p = p[1:]; len(p) == 0 {
		return nil
	}
	for _, f := range b.fields() {
		v, w := binary.Uvarint(p)
		if w <= 0 {
			return unreadable(k)
		}
		*f, p = v, p[w:]
	}
	return nil
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
	o.base, o.last, o.moved = base{}, 0, 0
	first := true
	_, err = journal.ReplayWithout(o.store.fs, o.dir, func(journal.Part) bool { return true },
		func(kind byte, p []byte) error {
			k := Kind(kind)
			if first {
				first = false
				if err := o.base.decode(k, p); err != nil {
					return err
				}
				o.last = o.base.last
				return nil
			}
			switch k {
			case kindBatch:
				n, w := binary.Uvarint(p)
				if w <= 0 {
					return unreadable(k)
				}
				o.last = max(o.last, n)
			case End:
				o.moved++
			}
			return nil
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
func (o *source) append(number uint64, batch []journal.Record, moved int64) (wants, gone bool, err error) {
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
	switch {
	case number == 0:
	case number <= o.last:
		return false, false, nil
	case number > o.last+1:
		return false, false, &GapError{o.id, o.last, number}
	}
	if err := o.j.Append(batch); err != nil {
		return false, false, fmt.Errorf("replica of %v: %w", o.id, err)
	}
	o.last = max(o.last, number)
	o.appended++
	o.moved += moved
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

// wants reports whether the source should be compacted. This is so if it has sent as much as the
// snapshot has, or if half of the snapshot's hosts have lost their records. So obsolete records
// stay below about half. The caller holds o.mu.
func (o *source) wants() bool {
	if o.j == nil || o.damage != nil {
		return false
	}
	min := o.store.cfg.CompactBytes
	return o.j.SinceSnapshot() >= max(min, int64(o.base.bytes)) ||
		int64(o.base.bytes) >= min/4 && o.moved > 0 && 2*uint64(o.moved) >= o.base.hosts
}

func (o *source) info() (i Info, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.j == nil && o.damage == nil {
		return i, false
	}
	i = Info{
		Source: o.id, Last: o.last, Bytes: int64(o.base.bytes),
		Hosts: int64(o.base.hosts), Pending: int64(o.base.pending), Finished: int64(o.base.finished),
	}
	if o.damage != nil {
		i.Damage = o.damage
		return i, true
	}
	i.Since = o.j.SinceSnapshot()
	i.Bytes += i.Since
	return i, true
}

// sync makes all appended batches durable.
func (o *source) sync() (last uint64, err error) {
	o.flush.Lock()
	defer o.flush.Unlock()
	return o.syncFlushing()
}

// syncFlushing is sync for callers that hold flush.
func (o *source) syncFlushing() (last uint64, err error) {
	o.mu.Lock()
	if err := o.usable(); err != nil || o.j == nil {
		o.mu.Unlock()
		return 0, err
	}
	last = o.last
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
		return 0, fmt.Errorf("replica of %v: %w", o.id, err)
	}
	return last, nil
}

// begin starts a checkpoint of all records, and returns their Mark. For a source that is damaged or
// has no records, c is nil.
func (o *source) begin() (c *journal.Checkpoint, mark Mark, err error) {
	o.flush.Lock()
	defer o.flush.Unlock()
	// The Begin below then has to sync only what is appended meanwhile.
	if _, err := o.syncFlushing(); err != nil && !errors.Is(err, ErrDamaged) {
		return nil, mark, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	mark = Mark{of: o, appended: o.appended, last: o.last}
	if o.j == nil {
		return nil, mark, nil
	}
	if c, err = o.j.Begin(); err != nil {
		return nil, mark, fmt.Errorf("replica of %v: %w", o.id, err)
	}
	mark.moved = o.moved
	return c, mark, nil
}

// adopt makes a finished checkpoint the source's snapshot.
func (o *source) adopt(c *journal.Checkpoint, mark Mark, b base) error {
	o.flush.Lock()
	defer o.flush.Unlock()
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.j.Adopt(c, nil); err != nil {
		return err
	}
	o.base = b
	o.moved -= mark.moved
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
