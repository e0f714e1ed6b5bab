package crawl

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// A Listing is a copy of the links that wait at one moment, in the order in which the crawl would fetch them if all
// hosts were due: by priority, then by the time at which they were accepted. It is read from the journal beside the
// dispatcher, so it costs the crawl one sync and the disk's time, however long the queues are and wherever they lie.
// The copy is in files of the journal's directory, so a slow reader holds nothing up.
//
// A Listing has the accepted links of this agent that are not finished: those in queues, pools and memory, of blocked
// hosts, set aside, waiting for a retry, and being fetched. It lacks links whose answer of the seen-set is open, links
// on their way to other agents, and pages that a Planner wants to visit again.
type Listing struct {
	fs    disk.FS
	at    time.Time
	ended chan struct{} // closed when the fields below do not change any more

	mu      sync.Mutex // guards the fields below
	err     error
	waiting int64           // links so far
	matched int64           // of these: in the Listing
	levels  []*listingLevel // the highest level first, when ended
	files   map[uint8]*listingLevel
	closed  bool
}

// A listingLevel has the links of one level, one after the other: uvarint length, the link.
type listingLevel struct {
	level uint8
	name  string
	file  disk.File
	w     *bufio.Writer
	size  int64
}

// A Count tells how much of a Listing is read.
type Count struct {
	Waiting int64 // links that wait, so far
	Matched int64 // of these: in the Listing
	Reading bool  // more may follow
	At      time.Time
}

// List begins a Listing of the links for which match returns true; nil means all. Call Close when it is not needed any
// more. nth must be another number for each open Listing. The reading ends early when ctx is done. Safe for concurrent
// use while Run runs.
func (v *View) List(ctx context.Context, nth int, match func(l *link.Link) bool) *Listing {
	fs, dir := v.ledger.Scratch()
	ls := &Listing{fs: fs, at: v.cfg.Clock.Now(), ended: make(chan struct{}), files: map[uint8]*listingLevel{}}
	prefix := filepath.Join(dir, fmt.Sprintf("listing-%d-", nth))
	go func() {
		defer close(ls.ended)
		err := v.readQueue(ctx, func(l *link.Link, enc []byte) error {
			matches := match == nil || match(l)
			ls.mu.Lock()
			defer ls.mu.Unlock()
			if ls.waiting++; !matches {
				return nil
			}
			ls.matched++
			return ls.add(prefix, l.Level, enc)
		})
		ls.mu.Lock()
		defer ls.mu.Unlock()
		ls.err = err
		for _, v := range ls.files {
			if err := v.w.Flush(); ls.err == nil {
				ls.err = err
			}
			ls.levels = append(ls.levels, v)
		}
		slices.SortFunc(ls.levels, func(a, b *listingLevel) int { return cmp.Compare(b.level, a.level) })
	}()
	return ls
}

func (ls *Listing) add(prefix string, level uint8, enc []byte) (err error) {
	v := ls.files[level]
	if v == nil {
		v = &listingLevel{level: level, name: fmt.Sprintf("%s%d.tmp", prefix, level)}
		if v.file, err = ls.fs.OpenFile(v.name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600); err != nil {
			return fmt.Errorf("list the queue: %w", err)
		}
		v.w = bufio.NewWriterSize(v.file, 256<<10)
		ls.files[level] = v
	}
	var head [binary.MaxVarintLen64]byte
	n := binary.PutUvarint(head[:], uint64(len(enc)))
	_, _ = v.w.Write(head[:n])
	v.size += int64(n + len(enc))
	if _, err := v.w.Write(enc); err != nil {
		return fmt.Errorf("list the queue: %w", err)
	}
	return nil
}

// Count returns how many links there are, so far. With wait it waits for the end of the reading, until ctx is done. The
// error is that of the reading.
func (ls *Listing) Count(ctx context.Context, wait bool) (Count, error) {
	if wait {
		select {
		case <-ls.ended:
		case <-ctx.Done():
		}
	}
	reading := true
	select {
	case <-ls.ended:
		reading = false
	default:
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return Count{Waiting: ls.waiting, Matched: ls.matched, Reading: reading, At: ls.at}, ls.err
}

// ErrListing reports a position that a Listing does not have.
var ErrListing = errors.New("no position of this listing")

// Page returns the links from a position on: at most most, and about bytes bytes. 0 is the first position. next is the
// position after them, and more reports whether links follow. Call it when the reading has ended.
func (ls *Listing) Page(from int64, most, bytes int) (links []link.Link, next int64, more bool, err error) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.err != nil || ls.closed || from < 0 {
		return nil, 0, false, errors.Join(ls.err, ErrListing)
	}
	next = from
	at := from // within the level
	for i, v := range ls.levels {
		if at > v.size {
			at -= v.size
			continue
		}
		r := bufio.NewReaderSize(io.NewSectionReader(v.file, at, v.size-at), 64<<10)
		var enc []byte
		for at < v.size {
			if len(links) == most || bytes <= 0 {
				return links, next, true, nil
			}
			size, err := binary.ReadUvarint(r)
			if err != nil || size > uint64(v.size-at) {
				return nil, 0, false, ErrListing
			}
			enc = slices.Grow(enc[:0], int(size))[:size]
			if _, err := io.ReadFull(r, enc); err != nil {
				return nil, 0, false, fmt.Errorf("list the queue: %w", err)
			}
			l, n, err := link.Decode(enc)
			if err != nil || n != len(enc) {
				return nil, 0, false, ErrListing
			}
			links = append(links, l)
			n += len(binary.AppendUvarint(nil, size))
			at, next, bytes = at+int64(n), next+int64(n), bytes-n
		}
		if at = 0; i+1 == len(ls.levels) {
			return links, next, false, nil
		}
	}
	if len(ls.levels) > 0 || from > 0 {
		return nil, 0, false, ErrListing
	}
	return nil, 0, false, nil
}

// Close removes the copy. It waits for the end of the reading, so end its ctx first.
func (ls *Listing) Close() error {
	<-ls.ended
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.closed {
		return nil
	}
	ls.closed = true
	var errs []error
	for _, v := range ls.levels {
		errs = append(errs, v.file.Close(), ls.fs.Remove(v.name))
	}
	return errors.Join(errs...)
}

// queueRetry is how long readQueue waits while something else reads the journal.
const queueRetry = 20 * time.Millisecond

// readQueue calls fn for each link of this agent that is accepted and not finished, in the order in which they were
// accepted. l and enc are valid until fn returns. The links are those of one moment.
func (v *View) readQueue(ctx context.Context, fn func(l *link.Link, enc []byte) error) error {
	if !v.run.Begun() {
		return ErrNotRunning
	}
	for {
		var done chan error
		err := v.run.Do(ctx, "queue", func(time.Time) { done = v.beginReading(ctx, fn) })
		switch {
		case err != nil:
			return err
		case done != nil:
			return <-done
		}
		select {
		case <-time.After(queueRetry):
		case <-v.run.Ended():
			return ErrNotRunning
		case <-ctx.Done():
			return fmt.Errorf("queue: %w", ctx.Err())
		}
	}
}

// beginReading starts to read the journal, and returns nil if that is not possible now. The run waits for its end.
func (v *View) beginReading(ctx context.Context, fn func(l *link.Link, enc []byte) error) (done chan error) {
	t, err := v.ledger.Transfer()
	if v.run.Fail(err); t == nil {
		return nil
	}
	done = make(chan error, 1)
	v.run.Go(func() {
		err := t.Pending(func(_ uint64, enc []byte) error {
			select {
			case <-ctx.Done():
				return fmt.Errorf("queue: %w", ctx.Err())
			case <-v.run.Ended():
				return ErrNotRunning
			default:
			}
			l, _, err := link.Peek(enc)
			if err != nil {
				return err
			}
			return fn(&l, enc)
		}, func(frontier.HostState) error { return nil })
		err = errors.Join(err, t.Close())
		v.run.Tell(func(time.Time) { t.Release() })
		done <- err
	})
	return done
}
