package contents

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/entries"
	"github.com/orbweaver/orbweaver/internal/store/recent"
	"github.com/orbweaver/orbweaver/internal/web/link"
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
	Page   Original
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
	Page Original
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
	cfg Config
	all *entries.Map // by digest

	asks chan *asked
	over chan struct{} // closed when Run has ended
	once sync.Once     // closes over

	claims *recent.Cache[Digest, Original] // pages that were told First and are not archived yet

	keys []link.Key
	buf  []byte
}

// Open opens or creates the Table in dir, which belongs to the Table.
func Open(fs disk.FS, dir string, cfg Config) (*Table, error) {
	cfg.MemoryBytes = cmp.Or(cfg.MemoryBytes, 16<<20)
	cfg.SyncEvery = cmp.Or(cfg.SyncEvery, time.Second)
	all, err := entries.Open(fs, dir, entries.Config{
		Shape: shape, Name: fileName, MemoryBytes: cfg.MemoryBytes,
		Keys: func(dst []link.Key, data []byte) []link.Key { return append(dst, keyOf((*Digest)(data[:20]))) },
	})
	if err != nil {
		return nil, fmt.Errorf("open contents: %w", err)
	}
	return &Table{
		cfg: cfg, all: all, asks: make(chan *asked), over: make(chan struct{}),
		claims: recent.New[Digest, Original](claimsMost),
	}, nil
}

func keyOf(d *Digest) link.Key {
	return link.Key{Host: binary.BigEndian.Uint64(d[:]), Path: binary.BigEndian.Uint64(d[8:])}
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
		var err error
		select {
		case a := <-t.asks:
			err = t.answer(t.gather(a))
		case <-tick.C:
			err = t.all.BeginSync()
		case serr := <-t.all.Synced():
			err = t.all.EndSync(serr)
		case <-t.all.Ready():
			err = t.all.Emit()
		case <-ctx.Done():
			if err := t.all.Sync(); err != nil {
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
	t.keys = t.keys[:0]
	for _, a := range calls {
		for i := range a.qs {
			t.keys = append(t.keys, keyOf(&a.qs[i].Digest))
		}
	}
	found, err := t.all.Look(t.keys)
	if err != nil {
		return err
	}
	if err := t.judge(calls, found); err != nil {
		return err
	}
	for _, a := range calls {
		close(a.done)
	}
	return nil
}

// judge turns places into answers, and stores the pages that are archived. A content that the Map cannot look up counts
// as new.
func (t *Table) judge(calls []*asked, found []entries.Place) error {
	fresh := map[Digest]Original{} // archived, according to these calls
	t.buf = t.buf[:0]
	n := 0
	for _, a := range calls {
		a.answers = make([]Answer, len(a.qs))
		for i := range a.qs {
			q, v := &a.qs[i], found[n]
			n++
			first, known := fresh[q.Digest]
			if !known && v.Known {
				e, err := t.at(v.At)
				switch {
				case err == nil && e.digest == q.Digest:
					first, known = e.page, true
				case err != nil && !errors.Is(err, entries.ErrEntry):
					return err
				}
			}
			if !known && q.Archived {
				e := entry{q.Digest, q.Page}
				t.buf = e.appendTo(t.buf)
				first, known = q.Page, true
				fresh[q.Digest] = first
			}
			a.answers[i] = t.answerOf(q, first, known)
		}
	}
	return t.all.Append(t.buf)
}

// at returns the entry at a Place.
func (t *Table) at(off int64) (entry, error) {
	data, err := t.all.At(off)
	if err != nil {
		return entry{}, err
	}
	return entryOf(data)
}

// answerOf returns the answer to q. If known, first is the archived page with the content.
func (t *Table) answerOf(q *Question, first Original, known bool) Answer {
	if !known {
		claimant, claimed := t.claims.Get(q.Digest)
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

// Close closes the files. Call it after Run has ended.
func (t *Table) Close() error {
	t.once.Do(func() { close(t.over) })
	return t.all.Close()
}
