package past

import (
	"errors"
	"sync"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/output/moved"
	"github.com/orbweaver/orbweaver/internal/output/segment"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/warc"
)

// A room is what the segments of a crawl take on this disk.
type room struct {
	// lookMu is held while the disk is read, and guards these two. There may be thousands of segments, of which few
	// change: a committed one is read again only after it was changed.
	lookMu   sync.Mutex
	segments map[string]segment.Held
	names    []string // of segments, oldest first

	mu      sync.Mutex // guards all below; never held while the disk is used
	archive Archive    // nil: no crawl writes
	store   *watched   // nil: not open
	refused string     // why the store has not taken a segment, the last time; "": it has taken all
	usage
}

// A usage is what a look has found.
type usage struct {
	here    int64 // bytes of all segments
	stored  int64 // of these: the store has them
	written int64 // Archive.Progress before the look
	ended   int64
	waiting bool // a segment has ended, and the store does not have it
}

// follow names the archive that a crawl writes; nil: none.
func (r *room) follow(a Archive) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.archive = a
}

// opened notes the store to which segments are sent.
func (r *room) opened(w *watched) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.store = w
}

// refuses notes why the store has not taken a segment; nil: it has taken all.
func (r *room) refuses(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refused = ""; err != nil {
		r.refused = err.Error()
	}
}

// changed notes that a segment was committed or stored, so that the next look reads it again.
func (r *room) changed(name string) {
	r.lookMu.Lock()
	defer r.lookMu.Unlock()
	delete(r.segments, name)
}

// look finds out what the segments take, and removes files if it is too much.
func (s *Segments) look() error {
	r := &s.room
	r.lookMu.Lock()
	defer r.lookMu.Unlock()
	return s.lookLocked()
}

// lookLocked is look for a caller that holds lookMu.
func (s *Segments) lookLocked() error {
	r := &s.room
	r.mu.Lock()
	archive, store := r.archive, r.store
	r.mu.Unlock()
	var u usage
	current, url := "", ""
	if archive != nil { // first of all: what is written meanwhile counts twice, and not never
		u.written, u.ended = archive.Progress()
		current = archive.Segment()
	}
	if store != nil {
		url = store.Location("")
	}
	c := s.committer()
	c.FS = moved.Here(s.FS)
	names, err := warc.SegmentNames(c.FS, s.Dir, s.Crawl)
	if err != nil {
		return err
	}
	if r.segments == nil {
		r.segments = map[string]segment.Held{}
	}
	r.names = names
	for _, name := range names {
		h, known := r.segments[name]
		if !known || !h.Committed {
			h, err = c.Held(name)
			if errors.Is(err, warc.ErrDamaged) {
				s.pass(name)
			} else if err != nil {
				return err
			}
			r.segments[name] = h
		}
		u.here += h.Bytes
		switch {
		case h.Store == url && url != "":
			u.stored += h.Bytes
		case name != current && !s.isDamaged(name):
			u.waiting = true
		}
	}
	r.found(u)
	return s.trim(c, u, url)
}

// found notes what a look has found.
func (r *room) found(u usage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.usage = u
}

// trim removes the files of the oldest segments that the store has, until the archive has room.
func (s *Segments) trim(c segment.Committer, u usage, url string) error {
	r := &s.room
	for _, name := range r.names {
		h := r.segments[name]
		if s.Most == nil || u.here <= *s.Most || u.stored == 0 {
			return nil
		}
		if h.Bytes == 0 || h.Store != url {
			continue
		}
		if err := c.RemoveStored(name); err != nil {
			return err
		}
		s.Events.Write("segment-removed", report.F("segment", name), report.F("bytes", h.Bytes))
		u.here, u.stored = u.here-h.Bytes, u.stored-h.Bytes
		h.Bytes = 0
		r.segments[name] = h
		r.found(u)
	}
	return nil
}

// list looks, and returns the segments that are not committed, or those that are committed and not in the store.
func (s *Segments) list(committed bool) (names []string, err error) {
	r := &s.room
	r.lookMu.Lock()
	defer r.lookMu.Unlock()
	if err := s.lookLocked(); err != nil {
		return nil, err
	}
	for _, name := range r.names {
		if h := r.segments[name]; h.Committed == committed && (!committed || h.Store != r.store.Location("")) {
			names = append(names, name)
		}
	}
	return names, nil
}

// due reports whether a look may find something: a segment has ended, or the archive has grown beyond its room.
func (s *Segments) due() bool {
	r := &s.room
	r.mu.Lock()
	defer r.mu.Unlock()
	written, ended := r.archive.Progress()
	return ended != r.ended || s.Most != nil && r.stored > 0 && r.here+written-r.written > *s.Most
}

// Fill implements crawl.Backlog.
func (s *Segments) Fill() float64 {
	r := &s.room
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.Most == nil || r.archive == nil {
		return 0
	}
	written, ended := r.archive.Progress()
	if !r.waiting && ended == r.ended {
		return 0 // there is nothing to wait for
	}
	return float64(r.here+written-r.written-r.stored) / float64(max(*s.Most, 1))
}

// Archived implements crawl.Backlog.
func (s *Segments) Archived() (a crawl.Archived) {
	r := &s.room
	r.mu.Lock()
	defer r.mu.Unlock()
	a.Here, a.Most = r.here, -1
	if s.Most != nil {
		a.Most = *s.Most
	}
	if r.archive != nil {
		written, _ := r.archive.Progress()
		a.Here += written - r.written
	}
	if s.Store.URL != "" {
		a.Unsent = a.Here - r.stored
	}
	if r.store != nil {
		a.Away = clock.Stamp{Time: r.store.awaySince()}
	}
	a.Refused = r.refused
	return a
}

// pass makes Run pass over a segment, so that it does not read a damaged file again and again.
func (s *Segments) pass(name string) { s.damaged.Store(name, true) }

func (s *Segments) isDamaged(name string) bool {
	_, is := s.damaged.Load(name)
	return is
}
