package warc

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// A stream is one WARC file after the other: a Writer has one for each part of a segment, or a single one. Its fields
// but info change under the Writer's mu.
type stream struct {
	// info is the first record of file or, between files, of the next one.
	info atomic.Pointer[warcinfo]

	part   Part
	file   disk.File // nil between files
	folder string    // of file
	name   string    // final name of file
	out    *bufio.Writer
	size   int64 // bytes appended to file, including buffered ones
	ran    int64 // size when the last run of index lines was taken
	count  int   // exchanges in file
	lines  runs

	syncFile disk.File // a second handle of file, so that appends need not wait for its fsync; guarded by syncMu
}

// Write appends to the file and counts the bytes. The caller holds the Writer's mu.
func (s *stream) Write(p []byte) (int, error) {
	n, err := s.out.Write(p)
	s.size += int64(n)
	return n, err
}

// streamsOf returns the streams of a Writer: one, or one for each part of a segment.
func streamsOf(cfg Config) (streams []*stream) {
	n := Part(1)
	if cfg.Segments.Crawl != "" {
		n = parts
	}
	for part := range n {
		s := &stream{part: part, out: bufio.NewWriterSize(nil, bufferSize)}
		s.lines = runs{fs: cfg.FS, dir: runsDir(cfg.Dir), spare: make(chan []byte, 1)}
		s.info.Store(newWarcinfo())
		streams = append(streams, s)
	}
	return streams
}

// A segment is what a Writer writes into the folder of one segment.
type segment struct {
	name  string // empty: none has begun
	began time.Time
	bytes int64
}

// Segment returns the name of the segment to which the Writer appends; "" if none has begun.
func (w *Writer) Segment() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.segment.name
}

// Progress returns how many bytes the Writer has appended to WARC files, and how many segments it has ended. It does
// not block.
func (w *Writer) Progress() (bytes, segments int64) { return w.written.Load(), w.ended.Load() }

// EndSegment ends the segment to which the Writer appends if its span is over, and blocks until its files are finished.
// Write ends it too, but a crawl may have nothing to write for a long time.
func (w *Writer) EndSegment() error {
	w.mu.Lock()
	err := w.err
	if err == nil && w.segmentDue(0) {
		err = w.endSegment()
	}
	w.mu.Unlock()
	return cmp.Or(err, w.runTasks())
}

// EndFiles ends the segment to which the Writer appends, or else its files, and blocks until they are finished.
func (w *Writer) EndFiles() error {
	w.mu.Lock()
	err := w.err
	if err == nil {
		err = w.endSegment()
	}
	w.mu.Unlock()
	return cmp.Or(err, w.runTasks())
}

// segmentDue reports whether the next records, of n bytes, belong to another segment. The caller holds mu.
func (w *Writer) segmentDue(n int64) bool {
	s, bound := &w.segment, &w.cfg.Segments
	return s.name != "" && (bound.Bytes > 0 && s.bytes > 0 && s.bytes+n > bound.Bytes ||
		bound.Span > 0 && w.cfg.Clock.Now().Sub(s.began) >= bound.Span)
}

// endSegment leaves the files of the segment to disk tasks. The caller holds mu.
func (w *Writer) endSegment() error {
	for _, s := range w.streams {
		if s.file != nil {
			if w.err = w.rotate(s); w.err != nil {
				return w.err
			}
		}
	}
	if w.segment.name != "" {
		w.ended.Add(1)
	}
	w.segment = segment{}
	return nil
}

// folder returns the folder of the next file of a stream, which begins now. The caller holds mu.
func (w *Writer) folder(s *stream, now time.Time) (string, error) {
	dir := archiveDir(w.cfg.Dir)
	if w.cfg.Segments.Crawl == "" {
		return dir, nil
	}
	if w.segment.name == "" {
		w.segment = segment{name: segmentName(stamp17(now), w.serial, w.cfg.Agent), began: now}
	}
	dir = filepath.Join(SegmentsDir(w.cfg.Dir, w.cfg.Segments.Crawl), w.segment.name, s.part.String())
	return dir, MakeDirs(w.cfg.FS, w.cfg.Dir, dir)
}

// begin creates the next file of a stream with its warcinfo record. The caller holds mu.
func (w *Writer) begin(s *stream) error {
	now := w.cfg.Clock.Now()
	folder, err := w.folder(s, now)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("%s-%s-%05d-%s%s", w.cfg.Prefix, stamp17(now), w.serial, w.cfg.Agent, warcSuffix)
	path := filepath.Join(folder, name+openSuffix)
	f, err := w.cfg.FS.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	syncFile, err := w.cfg.FS.OpenFile(path, os.O_WRONLY, 0)
	if err == nil {
		err = w.cfg.FS.SyncDir(folder)
	}
	if err != nil {
		f.Close()
		return err
	}
	w.syncMu.Lock()
	s.syncFile = syncFile
	w.syncMu.Unlock()
	s.file, s.folder, s.name, s.size, s.ran, s.count = f, folder, name, 0, 0, 0
	s.out.Reset(f)
	w.serial++

	g := w.pool.Get().(*group)
	defer w.pool.Put(g)
	g.out.b = g.out.b[:0]
	g.fields = appendFields(g.fields[:0], append([]Field{
		{"format", "WARC File Format 1.1"},
		{"conformsTo", "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/"},
	}, w.cfg.Info...))
	g.dates(now)
	g.start("warcinfo", s.info.Load().id, "")
	g.field("WARC-Filename", name)
	if err := g.small(typeFields, g.fields); err != nil {
		return err
	}
	_, err = s.Write(g.out.b)
	return err
}

// A diskTask is work for the disk that appends need not wait for: sync a WARC file, write a run of its index lines and,
// if file is set, finish the WARC file.
type diskTask struct {
	of       *stream
	run      run
	folder   string
	name     string    // final name of the file
	file     disk.File // its first handle; nil if the file is not to be finished
	syncFile disk.File // its second handle; closed only with the first
}

// rotate leaves the current file of a stream to a new disk task, which finishes it. The caller holds mu.
func (w *Writer) rotate(s *stream) error {
	if err := s.out.Flush(); err != nil {
		return err
	}
	t := diskTask{of: s, run: s.lines.last(s.name), folder: s.folder, name: s.name, file: s.file}
	w.found.turn(s.part)
	w.syncMu.Lock()
	t.syncFile, s.syncFile = s.syncFile, nil
	w.syncMu.Unlock()
	s.file = nil
	s.info.Store(newWarcinfo())
	w.tasks = append(w.tasks, t)
	return nil
}

// endRun leaves the index lines since the last run to a disk task, if they are enough for a run. The caller holds mu.
func (w *Writer) endRun(s *stream, full bool) error {
	if !full && s.size-s.ran < w.cfg.runSpan {
		return nil
	}
	if err := s.out.Flush(); err != nil { // the task syncs the records first, so they leave the buffer
		return err
	}
	w.tasks = append(w.tasks, diskTask{of: s, run: s.lines.next(s.name), syncFile: s.syncFile})
	s.ran = s.size
	w.found.turn(s.part)
	return nil
}

// runTask does one disk task. The caller holds taskMu.
func (w *Writer) runTask(t diskTask) (err error) {
	defer func() { err = errors.Join(err, t.close()) }()
	// The records are on the disk before their lines, so that Open need not read again what a run covers. The lines are
	// there before the rename, because Open trusts the index of a file without the suffix .open.
	if err := t.syncFile.Sync(); err != nil {
		return err
	}
	if err := t.of.lines.store(t.run); err != nil {
		return err
	}
	w.mu.Lock()
	d := w.found
	w.mu.Unlock()
	d.written(filepath.Join(t.of.lines.dir, t.run.name))
	if t.file == nil {
		return nil
	}
	if err := t.close(); err != nil {
		return err
	}
	path := filepath.Join(t.folder, t.name)
	if err := w.cfg.FS.Rename(path+openSuffix, path); err != nil {
		return err
	}
	return w.cfg.FS.SyncDir(t.folder)
}

// close closes the file handles if they are still open.
func (t *diskTask) close() (err error) {
	if t.file != nil {
		err = errors.Join(t.file.Close(), t.syncFile.Close())
		t.file, t.syncFile = nil, nil
	}
	return err
}
