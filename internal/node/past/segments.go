package past

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/output/segment"
	"github.com/orbweaver/orbweaver/internal/output/tables"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/warc"
)

// SegmentTables is the folder of a crawl directory with the Parquet tables of its segments.
const SegmentTables = tables.SegmentTables

// Segments commits the segments of an archive.
type Segments struct {
	FS       disk.FS
	Dir      string
	Crawl    string // the name of the crawl below crawl-data
	Software string
	Tables   string      // which Parquet tables a segment gets: one of segment.TableKinds
	Agent    string      // in the names of segments that have only logs
	Clock    clock.Clock // nil: the machine's
	// Members tells the identity of the cluster's crawl, which is in the manifests. nil: the agent crawls alone.
	Members interface{ Crawl() rpc.ID }
	Store   Place // where committed segments are sent; without a URL: nowhere
	// Events gets segment-committed for each segment.
	Events interface {
		Write(kind string, fields ...report.Field)
	}

	// Most bounds what the segments take here, in bytes: the files of those that the store has are removed, oldest
	// first. nil: they stay.
	Most *int64

	lists, sentLists pacing
	unlisted         bool // the lists here lack a committed segment
	unsentLists      bool // those in the store lack one

	room    room
	damaged sync.Map      // names of segments that Run passes over
	ended   chan struct{} // a segment was committed
}

// An Archive is divided into segments while a crawl writes it.
type Archive interface {
	// Segment returns the name of the segment to which the crawl writes; "" if none has begun.
	Segment() string
	// EndSegment ends that segment if its span is over.
	EndSegment() error
	// Progress returns how many bytes were written, and how many segments were ended. It does not block.
	Progress() (bytes, segments int64)
}

const (
	// beside is the greatest part of a processor that commits take while the crawl runs.
	beside = 0.2
	// lookAgain is how often Run looks for segments that have ended, and glance how often it asks whether one has.
	lookAgain, glance = 10 * time.Second, time.Second
)

// Run commits each segment that has ended, and sends it to the store if there is one, until ctx is done or the
// archive fails. First come those of earlier runs. It passes over a segment with a damaged file, and tries again if the
// disk fails.
func (s *Segments) Run(ctx context.Context, archive Archive) error {
	c := s.committer()
	if err := c.FinishMerges(); err != nil {
		s.Events.Write("segment-failed", report.F("error", err.Error()))
	}
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	s.room.follow(archive)
	s.ended = make(chan struct{}, 1)
	go func() { s.keepSending(ctx); close(ended) }()
	defer func() { stop(); <-ended; s.room.follow(nil) }()
	for told := false; ; {
		if err := archive.EndSegment(); err != nil {
			return err
		}
		err := s.commit(ctx, beside, archive.Segment)
		if err != nil && !told && ctx.Err() == nil { // such as a disk that is full for a while
			s.Events.Write("segment-failed", report.F("error", err.Error()))
		}
		told = err != nil
		for waited := glance; ; waited += glance {
			if !clock.Pause(ctx, glance) {
				return nil
			}
			if waited >= lookAgain || s.due() {
				break
			}
		}
	}
}

// Rest commits all segments that are not committed, as fast as it can. No crawl may write meanwhile. If files are
// damaged, it commits the other segments, and the error wraps warc.ErrDamaged.
func (s *Segments) Rest(ctx context.Context) error {
	c := s.committer()
	if err := c.FinishMerges(); err != nil {
		return err
	}
	return s.commit(ctx, 1, func() string { return "" })
}

// RestOfLogs commits the lines of the logs that no segment has, as a segment of their own. It is for the end of a run,
// after Rest.
func (s *Segments) RestOfLogs(ctx context.Context) error {
	c := s.committer()
	m, ok, err := c.CommitLogs(ctx)
	if err != nil || !ok {
		return err
	}
	s.committed(&m)
	err = c.WriteLists()
	if errors.Is(err, warc.ErrDamaged) {
		return nil // Rest has told it
	}
	return err
}

func (s *Segments) committed(m *segment.Manifest) {
	s.Events.Write("segment-committed", report.F("segment", m.Segment), report.F("records", m.Records),
		report.F("files", len(m.Files)), report.F("bytes", m.Bytes))
}

// committer returns what commits and sends the segments.
func (s *Segments) committer() segment.Committer {
	return segment.Committer{FS: s.FS, Dir: s.Dir, Crawl: s.Crawl, Software: s.Software, Agent: s.Agent,
		Tables: s.Tables, Clock: s.Clock, Run: s.run()}
}

// run returns the identity of the cluster's crawl; "": it is not known, or the agent crawls alone.
func (s *Segments) run() string {
	if s.Members == nil || s.Members.Crawl() == (rpc.ID{}) {
		return ""
	}
	return s.Members.Crawl().String()
}

// commit commits the segments that have ended, with a part of a processor.
func (s *Segments) commit(ctx context.Context, share float64, current func() string) error {
	c := s.committer()
	c.Share, c.Idle = share, share == 1
	names, err := s.list(false)
	if err != nil {
		return err
	}
	done, open := 0, current() // asked after list, so that it has not begun since
	var flaws error
	for _, name := range names {
		if name == open || share < 1 && s.isDamaged(name) {
			continue
		}
		m, ok, err := c.Commit(ctx, name)
		switch {
		case errors.Is(err, segment.ErrUnfinished) && share < 1:
			continue // its files are being finished
		case errors.Is(err, warc.ErrDamaged) && share < 1:
			s.Events.Write("segment-failed", report.F("error", err.Error()))
			s.pass(name)
			continue
		case errors.Is(err, warc.ErrDamaged):
			flaws = errors.Join(flaws, err)
			continue
		case err != nil:
			return err
		}
		s.room.changed(name)
		if ok {
			done++
			s.committed(&m)
		}
	}
	if done > 0 && s.ended != nil {
		select {
		case s.ended <- struct{}{}:
		default:
		}
	}
	if done == 0 && !s.unlisted && !c.Idle { // at the end, a kill may have left the lists unwritten
		return nil
	}
	if s.unlisted = !s.lists.due(c.Idle, clock.Or(s.Clock).Now()); s.unlisted {
		return nil
	}
	err = c.WriteLists()
	s.lists.done(clock.Or(s.Clock).Now())
	if share < 1 && errors.Is(err, warc.ErrDamaged) {
		return nil // the end of the crawl tells it
	}
	return errors.Join(flaws, err)
}

// A pacing keeps lists of all segments, which grow with the crawl, from being written all the time.
type pacing struct {
	began time.Time
	next  time.Time
}

// due reports whether the lists may be written now. last says that they must.
func (p *pacing) due(last bool, now time.Time) bool {
	p.began = now
	return last || !now.Before(p.next)
}

// done notes that they are written: the next time is after 50 times as long as it took.
func (p *pacing) done(now time.Time) { p.next = now.Add(50 * now.Sub(p.began)) }

// Stored blocks until the store has all segments that have ended by now, except damaged ones. Run sends them.
func (s *Segments) Stored(ctx context.Context, archive Archive) error {
	names, err := warc.SegmentNames(cmp.Or(s.FS, disk.OS), s.Dir, s.Crawl)
	if err != nil {
		return err
	}
	open := archive.Segment() // asked after the names, so that a segment that begins now is not waited for
	names = slices.DeleteFunc(names, func(name string) bool { return name == open })
	for {
		names = slices.DeleteFunc(names, func(name string) bool { return s.isDamaged(name) || s.isStored(name) })
		if len(names) == 0 {
			return nil
		}
		if !clock.Pause(ctx, time.Second) {
			return ctx.Err()
		}
	}
}

// AllStored reports that the store has all segments of the directory.
func (s *Segments) AllStored() bool {
	names, err := warc.SegmentNames(cmp.Or(s.FS, disk.OS), s.Dir, s.Crawl)
	return err == nil && !slices.ContainsFunc(names, func(name string) bool { return !s.isStored(name) })
}

// isStored reports that the store has a segment.
func (s *Segments) isStored(name string) bool {
	_, err := cmp.Or(s.FS, disk.OS).Stat(filepath.Join(warc.SegmentsDir(s.Dir, s.Crawl), name, segment.StoredName))
	return err == nil
}
