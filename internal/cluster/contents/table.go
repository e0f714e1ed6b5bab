package contents

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
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
var ErrClosed = entries.ErrClosed

// An asked is one call of Ask.
type asked struct {
	qs      []Question
	answers []Answer
}

// A Table stores the contents that an agent judges. Ask is safe for concurrent use. The goroutine
// of Run owns the rest.
type Table struct {
	cfg Config
	all *entries.Server[asked] // by digest

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
	return &Table{cfg: cfg, all: entries.NewServer[asked](all), claims: recent.New[Digest, Original](claimsMost)}, nil
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
	a := &asked{qs: qs}
	if err := t.all.Ask(ctx, a); err != nil {
		return nil, err
	}
	return a.answers, nil
}

// claimsMost bounds the claims: some 5 MB. A claim is of use for the seconds
// until its page is archived. If the Table forgets one earlier, a second page
// with the content is archived in full.
const claimsMost = 1 << 15

// Run answers questions until ctx is done or the disk fails.
func (t *Table) Run(ctx context.Context) error {
	nothing := func() error { return nil } // answer stores
	if err := t.all.Run(ctx, t.cfg.SyncEvery, t.answer, nil, nothing); err != nil {
		return fmt.Errorf("contents: %w", err)
	}
	return nil
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
	return t.judge(calls, found)
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
func (t *Table) Close() error { return t.all.Close() }
