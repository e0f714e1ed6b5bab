package contents

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/keyset/drum"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// Config tunes a Table. The zero Config takes little memory.
type Config struct {
	// MemoryBytes bounds the RAM. Zero means 16 MiB, which holds the keys of 350,000 contents
	// without look-ups on disk.
	MemoryBytes int64
	// SyncEvery bounds how long a content is not yet synced to the disk. Zero means 1 s.
	SyncEvery time.Duration
}

// A Question asks whether a page is the first with its content.
type Question struct {
	Digest Digest
	Page   Page
	// Archived reports that Page is archived in full, and that no kill or power failure can
	// undo that. If the Table has no page with the content, it stores this one.
	Archived bool
}

// An Answer says which page has the content. It has one of three forms.
type Answer struct {
	// First: no other page has the content. The asking page must be archived in full.
	First bool
	// Claimed: another page got First, and is not archived yet. It may never be: ask again, or
	// archive the asking page in full.
	Claimed bool
	// Page is archived in full, and the asking page may be a revisit of it.
	Page Page
}

// ErrClosed reports a Table whose Run has ended.
var ErrClosed = errors.New("table of contents closed")

// An asked is one call of Ask.
type asked struct {
	qs      []Question
	answers []Answer
	done    chan struct{}
}

// A Table stores the contents that an agent judges. Ask is safe for concurrent use. The goroutine
// of Run owns the rest.
type Table struct {
	cfg  Config
	fs   disk.FS
	dir  string
	file *file
	drum *drum.Store

	asks chan *asked
	over chan struct{} // closed when Run has ended
	once sync.Once     // closes over

	claims *Recent // pages that were told First and are not archived yet

	// base is the number in drum of the first of the current questions. Keys that a killed process
	// left held in drum have other numbers.
	base    uint64
	found   []verdict
	items   []drum.Item
	aux     []byte
	buf     []byte
	dirty   bool
	syncing *syncing // nil: no sync is running
}

// A verdict is drum's answer to a question.
type verdict struct {
	known bool
	at    uint64
}

// A syncing is a sync that is running.
type syncing struct {
	of   *drum.Syncing
	size int64
	done chan error
}

// Open opens or creates the Table in dir, which belongs to the Table.
func Open(fs disk.FS, dir string, cfg Config) (*Table, error) {
	if cfg.MemoryBytes == 0 {
		cfg.MemoryBytes = 16 << 20
	}
	if cfg.SyncEvery == 0 {
		cfg.SyncEvery = time.Second
	}
	t := &Table{
		cfg: cfg, fs: fs, dir: dir, base: rand.Uint64(), asks: make(chan *asked), over: make(chan struct{}),
		claims: NewRecent(claimsMost),
	}
	if err := fs.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("open contents: %w", err)
	}
	if err := fs.SyncDir(filepath.Dir(dir)); err != nil {
		return nil, fmt.Errorf("open contents: %w", err)
	}
	var err error
	if t.file, err = openFile(fs, dir); err != nil {
		return nil, fmt.Errorf("open contents: %w", err)
	}
	if err = t.open(); err != nil {
		t.file.f.Close() // the caller needs the first error
		if t.drum != nil {
			t.drum.Close() // likewise
		}
		return nil, fmt.Errorf("open contents: %w", err)
	}
	return t, nil
}

func (t *Table) keys() string { return filepath.Join(t.dir, "keys") }

// open opens drum and adds the contents that drum does not have on disk.
func (t *Table) open() error {
	length, err := t.file.length()
	if err != nil {
		return err
	}
	t.file.size = length
	from, err := t.openKeys()
	if err == nil && from <= length {
		err = t.restore(from)
	}
	if _, damage := errors.AsType[*drum.Damage](err); damage || err == nil && (from > length || t.file.size < from) {
		t.file.size = length
		return t.anew()
	}
	return err
}

// openKeys opens drum. from is the offset up to which drum has the file.
func (t *Table) openKeys() (from int64, err error) {
	t.drum, err = drum.Open(t.fs, t.keys(),
		drum.Config{MemoryBytes: t.cfg.MemoryBytes, Values: true, Known: true, Journal: true}, t.take)
	if errors.Is(err, drum.ErrManifest) {
		if err = t.fs.RemoveAll(t.keys()); err == nil {
			return t.openKeys()
		}
	}
	if err != nil {
		return 0, err
	}
	if len(t.drum.Damaged()) > 0 {
		d := t.drum.Damaged()[0]
		return 0, &d
	}
	from = int64(len(fileMagic))
	if m := t.drum.Mark(); len(m) == 8 {
		from = int64(binary.LittleEndian.Uint64(m))
	}
	return from, nil
}

// anew rebuilds drum's part from the file.
func (t *Table) anew() error {
	if t.drum != nil {
		t.drum.Close() // an error does not matter: it is deleted
		t.drum = nil
	}
	if err := t.fs.RemoveAll(t.keys()); err != nil {
		return err
	}
	if err := t.file.f.Sync(); err != nil { // drum must never be ahead of the file
		return err
	}
	from, err := t.openKeys()
	if err != nil {
		return err
	}
	return t.restore(from)
}

// restore adds to drum the contents in the file from an offset on. It cuts off a torn end.
func (t *Table) restore(from int64) error {
	var items []drum.Item
	give := func() error {
		err := t.drum.RestoreValues(items)
		items = items[:0]
		return err
	}
	end, err := t.file.each(from, t.file.size, func(off int64, e *entry) error {
		items = append(items, drum.Item{Key: keyOf(&e.digest), Value: uint64(off)})
		if len(items) < 1024 {
			return nil
		}
		return give()
	})
	if err == nil {
		err = give()
	}
	if err != nil {
		return err
	}
	if end < t.file.size {
		return t.file.cut(end)
	}
	return nil
}

func keyOf(d *Digest) weburl.Key {
	return weburl.Key{Host: binary.BigEndian.Uint64(d[:]), Path: binary.BigEndian.Uint64(d[8:])}
}

// Ask answers questions in order, each as if it were asked after the ones before it. It blocks
// until Run has answered or ctx is done.
func (t *Table) Ask(ctx context.Context, qs []Question) ([]Answer, error) {
	for i := range qs {
		if err := CheckPage(qs[i].Page); err != nil {
			return nil, fmt.Errorf("contents: %w", err)
		}
	}
	a := &asked{qs: qs, done: make(chan struct{})}
	select {
	case t.asks <- a:
	case <-t.over:
		return nil, ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case <-a.done:
		return a.answers, nil
	case <-t.over:
		return nil, ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err() // Run still answers, and the answer is dropped
	}
}

const (
	// atOnce bounds the calls of Ask that are answered together.
	atOnce = 64
	// claimsMost bounds the claims: some 5 MB. A claim is of use for the seconds
	// until its page is archived. If the Table forgets one earlier, a second page
	// with the content is archived in full.
	claimsMost = 1 << 15
)

// Run answers questions until ctx is done or the disk fails.
func (t *Table) Run(ctx context.Context) error {
	defer t.once.Do(func() { close(t.over) })
	tick := time.NewTicker(t.cfg.SyncEvery)
	defer tick.Stop()
	for {
		var synced chan error
		if t.syncing != nil {
			synced = t.syncing.done
		}
		var err error
		select {
		case a := <-t.asks:
			err = t.answer(t.gather(a))
		case <-tick.C:
			if t.syncing == nil && t.dirty {
				err = t.beginSync()
			}
		case serr := <-synced:
			err = t.endSync(serr)
		case <-t.drum.Ready():
			err = t.mend(t.drum.Emit())
		case <-ctx.Done():
			if err := t.sync(); err != nil {
				return fmt.Errorf("contents: %w", err)
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("contents: %w", err)
		}
	}
}

// gather returns a and the other calls that wait, at most atOnce.
func (t *Table) gather(a *asked) []*asked {
	all := []*asked{a}
	for len(all) < atOnce {
		select {
		case b := <-t.asks:
			all = append(all, b)
		default:
			return all
		}
	}
	return all
}

// answer answers several calls together.
func (t *Table) answer(calls []*asked) error {
	n := 0
	for _, a := range calls {
		n += len(a.qs)
	}
	t.found, t.items, t.aux = append(t.found[:0], make([]verdict, n)...), t.items[:0], t.aux[:0]
	for _, a := range calls {
		for i := range a.qs {
			t.aux = binary.BigEndian.AppendUint64(t.aux, t.base+uint64(len(t.items)))
			t.items = append(t.items, drum.Item{Key: keyOf(&a.qs[i].Digest)})
		}
	}
	for i := range t.items {
		t.items[i].Aux = t.aux[8*i : 8*i+8]
	}
	err := t.look()
	if _, damage := errors.AsType[*drum.Damage](err); damage {
		if err = t.mend(err); err == nil {
			err = t.look()
		}
	}
	t.base += uint64(n)
	if err != nil {
		return err
	}
	if err := t.judge(calls); err != nil {
		return err
	}
	for _, a := range calls {
		close(a.done)
	}
	return nil
}

// look asks drum for t.items and returns when drum has answered.
func (t *Table) look() error {
	if err := t.drum.Check(t.items); err != nil {
		return err
	}
	return t.drum.Flush()
}

// take stores drum's answers.
func (t *Table) take(items []drum.Item) error {
	for _, it := range items {
		if len(it.Aux) != 8 {
			continue // left from a damaged entry
		}
		if i := binary.BigEndian.Uint64(it.Aux) - t.base; i < uint64(len(t.found)) {
			t.found[i] = verdict{it.Known, it.Value}
		}
	}
	return nil
}

// judge turns drum's verdicts into answers, and stores the pages that are archived. A content that
// drum cannot look up counts as new.
func (t *Table) judge(calls []*asked) error {
	fresh := map[Digest]Page{} // archived, according to these calls
	t.buf, t.items = t.buf[:0], t.items[:0]
	n := 0
	for _, a := range calls {
		a.answers = make([]Answer, len(a.qs))
		for i := range a.qs {
			q, v := &a.qs[i], t.found[n]
			n++
			first, known := fresh[q.Digest]
			if !known && v.known {
				e, err := t.file.at(int64(v.at))
				switch {
				case err == nil && e.digest == q.Digest:
					first, known = e.page, true
				case err != nil && !errors.Is(err, errEntry):
					return err
				}
			}
			if !known && q.Archived {
				at := t.file.size + int64(len(t.buf))
				e := entry{q.Digest, q.Page}
				t.buf = e.appendTo(t.buf)
				first, known = q.Page, true
				fresh[q.Digest] = first
				t.items = append(t.items, drum.Item{Key: keyOf(&q.Digest), Value: uint64(at)})
			}
			a.answers[i] = t.answerOf(q, first, known)
		}
	}
	if len(t.items) == 0 {
		return nil
	}
	t.dirty = true
	if err := t.file.write(t.buf); err != nil {
		return err
	}
	return t.mend(t.drum.Update(t.items))
}

// answerOf returns the answer to q. If known, first is the archived page with the content.
func (t *Table) answerOf(q *Question, first Page, known bool) Answer {
	if !known {
		claimant, claimed := t.claims.First(q.Digest)
		if !claimed {
			t.claims.Add(q.Digest, q.Page)
			return Answer{First: true}
		}
		return Answer{First: claimant.URL == q.Page.URL, Claimed: claimant.URL != q.Page.URL}
	}
	if first.URL == q.Page.URL {
		return Answer{First: true}
	}
	return Answer{Page: first}
}

// mend rebuilds drum's part if it is damaged: the file has all of it.
func (t *Table) mend(err error) error {
	if _, damage := errors.AsType[*drum.Damage](err); !damage {
		return err
	}
	if err := t.waitSync(); err != nil {
		return err
	}
	return t.anew()
}

// beginSync starts to sync the file, so that drum may go on.
func (t *Table) beginSync() error {
	of, err := t.drum.BeginSync()
	if err != nil {
		return err
	}
	s := &syncing{of: of, size: t.file.size, done: make(chan error, 1)}
	t.syncing, t.dirty = s, false
	f := t.file.f
	go func() { s.done <- errors.Join(of.Run(), f.Sync()) }()
	return nil
}

// endSync processes the result of a sync.
func (t *Table) endSync(err error) error {
	s := t.syncing
	t.syncing = nil
	return t.mend(t.drum.EndSync(s.of, err, binary.LittleEndian.AppendUint64(nil, uint64(s.size))))
}

// waitSync waits for the running sync, if there is one.
func (t *Table) waitSync() error {
	if t.syncing == nil {
		return nil
	}
	return t.endSync(<-t.syncing.done)
}

// sync makes all contents durable.
func (t *Table) sync() error {
	if err := t.waitSync(); err != nil || !t.dirty {
		return err
	}
	if err := t.beginSync(); err != nil {
		return err
	}
	return t.waitSync()
}

// Close closes the files. Call it after Run has ended.
func (t *Table) Close() error {
	t.once.Do(func() { close(t.over) })
	var err error
	if t.syncing != nil { // after an error
		err = <-t.syncing.done
		t.syncing = nil
	}
	if t.drum != nil {
		err = errors.Join(err, t.drum.Close())
	}
	return errors.Join(err, t.file.f.Close())
}
