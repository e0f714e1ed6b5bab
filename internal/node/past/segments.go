package past

import (
	"context"
	"errors"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
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
	Store    Place       // where committed segments are sent; without a URL: nowhere
	// Events gets segment-committed for each segment.
	Events interface {
		Write(kind string, fields ...report.Field)
	}

	damaged map[string]bool // segments that Run passes over
}

// An Archive is divided into segments while a crawl writes it.
type Archive interface {
	// Segment returns the name of the segment to which the crawl writes; "" if none has begun.
	Segment() string
	// EndSegment ends that segment if its span is over.
	EndSegment() error
}

const (
	// beside is the greatest part of a processor that commits take while the crawl runs.
	beside = 0.2
	// lookAgain is how often Run looks for segments that have ended.
	lookAgain = 10 * time.Second
)

// Run commits each segment that has ended, and sends it to the store if there is one, until ctx is done or the
// archive fails. First come those of earlier runs. It passes over a segment with a damaged file, and tries again if the
// disk fails.
func (s *Segments) Run(ctx context.Context, archive Archive) error {
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() { s.keepSending(ctx); close(ended) }()
	defer func() { stop(); <-ended }()
	for told := false; ; {
		if err := archive.EndSegment(); err != nil {
			return err
		}
		err := s.commit(ctx, beside, archive.Segment)
		if err != nil && !told && ctx.Err() == nil { // such as a disk that is full for a while
			s.Events.Write("segment-failed", report.F("error", err.Error()))
		}
		told = err != nil
		if !clock.Pause(ctx, lookAgain) {
			return nil
		}
	}
}

// Rest commits all segments that are not committed, as fast as it can. No crawl may write meanwhile. If files are
// damaged, it commits the other segments, and the error wraps warc.ErrDamaged.
func (s *Segments) Rest(ctx context.Context) error {
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
		Tables: s.Tables, Clock: s.Clock}
}

// commit commits the segments that have ended, with a part of a processor.
func (s *Segments) commit(ctx context.Context, share float64, current func() string) error {
	c := s.committer()
	c.Share, c.Idle = share, share == 1
	names, err := c.Waiting()
	if err != nil {
		return err
	}
	done, open := 0, current() // asked after Waiting, so that it has not begun since
	var flaws error
	for _, name := range names {
		if name == open || share < 1 && s.damaged[name] {
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
		if ok {
			done++
			s.committed(&m)
		}
	}
	if done == 0 && !c.Idle { // at the end a kill may have left the lists of a committed segment unwritten
		return nil
	}
	err = c.WriteLists()
	if share < 1 && errors.Is(err, warc.ErrDamaged) {
		return nil // the end of the crawl tells it
	}
	return errors.Join(flaws, err)
}

// pass makes Run pass over a segment, so that it does not read a damaged file again and again.
func (s *Segments) pass(name string) {
	if s.damaged == nil {
		s.damaged = map[string]bool{}
	}
	s.damaged[name] = true
}
