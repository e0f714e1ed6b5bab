package lost

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/cluster/members"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A Stored is a store that has complete segments of archives.
type Stored interface {
	// Each calls fn for the URL of each record in the segments of an agent. A URL may come more than once. While the
	// store is away, Each waits until ctx is done. It returns the first error of fn, or of a store that refuses.
	Each(ctx context.Context, agent string, fn func(url string) error) error
}

const (
	// siftAfter is how long after a change the lists are sifted: a takeover often follows another.
	siftAfter = 5 * time.Second
	// siftAgain is the wait after a store has refused.
	siftAgain = time.Minute
	// siftTries bounds how often a list is read again because takeovers add to it meanwhile.
	siftTries = 5
)

// Kinds of records in the sort of a list. A URL that is stored comes before its places on the list.
const isStored, isListed = 0, 1

// Tend keeps the pages that the store has off the lists of lost archives, until ctx is done.
func (l *Lists) Tend(ctx context.Context) {
	if l.cfg.Stored == nil {
		return
	}
	for last := int64(-1); clock.Pause(ctx, siftAfter); {
		now := l.commits.Load()
		if now == last {
			continue
		}
		if err := l.sift(ctx); err != nil && ctx.Err() == nil {
			l.cfg.Events.Write("lost-stored-failed", report.F("error", err.Error()))
			if !clock.Pause(ctx, siftAgain) {
				return
			}
			continue
		}
		last = now
	}
}

// sift takes the pages that the store has off all lists of lost archives. Without a store it does nothing.
func (l *Lists) sift(ctx context.Context) error {
	if l.cfg.Stored == nil {
		return nil
	}
	select {
	case l.sifting <- struct{}{}:
		defer func() { <-l.sifting }()
	case <-ctx.Done():
		return ctx.Err()
	}
	files, err := l.filesIn(listDir, lostOf)
	if err != nil {
		return err
	}
	for _, f := range files {
		agent, instance := members.SplitArchive(f.archive)
		if instance == "" { // somebody has made the file
			continue
		}
		for n, done := 0, false; !done && n < siftTries; n++ {
			if done, err = l.siftList(ctx, f.archive, agent); err != nil {
				return fmt.Errorf("the pages of %s in the store: %w", f.archive, err)
			}
		}
	}
	return nil
}

// siftList sifts the list of an archive. done is false if the list has changed meanwhile.
func (l *Lists) siftList(ctx context.Context, archive, agent string) (done bool, err error) {
	l.mu.Lock()
	commits := l.commits.Load()
	l.mu.Unlock()
	both, left := l.sorter(archive+".stored", sortMemory), l.sorter(archive+".left", sortMemory)
	defer func() { err = errors.Join(err, both.Close(), left.Close()) }()
	file := l.path(listDir, lostName(archive))
	if err := l.each(file, func(u link.Link) error {
		return both.Push(append([]byte(u.URL.String()), 0, isListed, u.Refetches()))
	}); err != nil {
		return false, err
	}
	if both.Len() == 0 {
		return true, nil
	}
	if err := l.cfg.Stored.Each(ctx, agent, func(text string) error {
		u, err := weburl.Parse(text)
		if err != nil {
			return nil // not a page of a crawl
		}
		return both.Push(append([]byte(u.String()), 0, isStored))
	}); err != nil {
		return false, err
	}
	var stored []byte // the last URL of the store
	n := int64(0)
	if err := both.Each(func(rec []byte) error {
		at := bytes.IndexByte(rec, 0)
		url, kind := rec[:at], rec[at+1:]
		switch {
		case kind[0] == isStored:
			stored = append(stored[:0], url...)
			return nil
		case bytes.Equal(url, stored):
			n++
			return nil
		}
		return left.Push(append([]byte{kind[1]}, url...))
	}); err != nil || n == 0 {
		return err == nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.commits.Load() != commits {
		return false, nil
	}
	if _, err := l.cfg.FS.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	l.commits.Add(1)
	lost := left.Len()
	head := l.head(archive) + fmt.Sprintf("# The store has %d pages of the archive in complete segments. "+
		"They are not lost, and not on this list.\n", n)
	if err := l.write(listDir, lostName(archive), head, left); err != nil {
		return false, err
	}
	l.cfg.Events.Write("lost-stored", report.F("list", archive), report.F("stored", n), report.F("urls", lost))
	return true, l.count()
}
