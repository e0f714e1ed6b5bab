package warc

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// Config tunes a Writer. Only Dir is needed.
type Config struct {
	// Dir is the crawl directory. The WARC files go to its folder "archive", or into segments.
	Dir      string
	Segments Segments
	// Prefix and Agent begin and end the names of WARC files. Empty means "orbweaver" and "agent". Every character
	// other than a letter, digit, dot, hyphen or underscore becomes an underscore.
	Prefix, Agent string
	// MaxBytes is the maximum size of a WARC file. Only a file with a single exchange may be larger. Zero means 1 GB.
	MaxBytes int64
	// Level is the compression level, 1 to 9. Zero means 1, the fastest; -1 means none. A body that the server sent
	// compressed is never compressed again.
	Level int
	// Info describes the crawl in the warcinfo record at the beginning of each file. Its usual fields are software,
	// operator, robots, http-header-user-agent, hostname and isPartOf. The Writer adds format and conformsTo.
	Info []Field
	// RevisitBytes bounds the memory for known payloads, of which each takes about 105 bytes. Zero means 32 MiB. If it
	// is negative, the Writer remembers no payload.
	RevisitBytes int64
	// Earlier knows the payloads of earlier crawls. Nil: there are none.
	Earlier Earlier
	// Clock tells the time for file names and warcinfo records. Nil means clock.System.
	Clock clock.Clock
	// FS is the filesystem of the archive. Nil means the machine's filesystem.
	FS disk.FS

	largeBytes, runSpan int64 // for tests; zero means the constant
}

func (c Config) withDefaults() Config {
	c.Prefix, c.Agent = disk.SafeName(cmp.Or(c.Prefix, "orbweaver")), disk.SafeName(cmp.Or(c.Agent, "agent"))
	if c.MaxBytes <= 0 {
		c.MaxBytes = 1e9
	}
	switch {
	case c.Level == 0:
		c.Level = 1
	case c.Level < 0:
		c.Level = -1
	case c.Level > 9:
		c.Level = 9
	}
	c.RevisitBytes = cmp.Or(c.RevisitBytes, 32<<20)
	c.Clock = clock.Or(c.Clock)
	c.FS = cmp.Or(c.FS, disk.OS)
	c.largeBytes, c.runSpan = cmp.Or(c.largeBytes, largeBytes), cmp.Or(c.runSpan, runSpan)
	return c
}

// Earlier knows the payloads of earlier crawls. Safe for concurrent use.
type Earlier interface {
	// Find returns the record of an earlier crawl that holds the payload of an Exchange, which has size bytes and these
	// digests (see Digests). Original.Date has whole seconds. The error is one of this machine. It blocks for a read
	// of the disk at most.
	Find(body, stored [20]byte, size int64) (o Original, ok bool, err error)
}

// ErrClosed is the error of every write after Close.
var ErrClosed = errors.New("the archive is closed")

const (
	openSuffix = ".open"
	warcSuffix = ".warc.gz"
	bufferSize = 256 << 10
)

// A Writer appends to the archive of a crawl. Its methods are safe for concurrent use. After an error of the disk it
// refuses all further writes: close it and Open a new one, which removes incomplete records.
type Writer struct {
	cfg   Config
	table *revisits
	pool  sync.Pool // of *group

	mu      sync.Mutex // guards all below, up to taskMu; held while records are appended, so that it orders them
	err     error      // of the first failed write, or ErrClosed
	streams []*stream  // by part; the first is the only one without segments
	segment segment
	// serial is the serial number of the next file.
	serial int
	tasks  []diskTask // in order; a task that is being done is no longer in it
	doing  []byte     // the index lines of the task that is being done
	found  *finder    // nil before the first Find

	findMu sync.Mutex // held while found is made; taken before the others

	written, ended atomic.Int64 // see Progress

	taskMu sync.Mutex // held while disk tasks are done; a holder of mu never takes it
	syncMu sync.Mutex // guards the streams' syncFile, also while it is synced; taken after mu or without mu
}

// maxTasks is how many disk tasks may wait. Each holds a run of index lines in memory.
const maxTasks = 4

// These functions return paths below the crawl directory.
func archiveDir(dir string) string { return filepath.Join(dir, "archive") }
func runsDir(dir string) string    { return filepath.Join(dir, "state", "index") }
func indexPath(dir string) string  { return filepath.Join(dir, "indexes", "index.cdxj") }

// Open prepares the archive of a crawl directory for writing. It creates the directories, repairs the files that a
// crash left unfinished, and reports them in Recovered. The first Write creates the first WARC file. The caller must
// Close the Writer. Only one Writer at a time may use a directory.
func Open(cfg Config) (*Writer, Recovered, error) {
	cfg = cfg.withDefaults()
	cfg.Dir = filepath.Clean(cfg.Dir)
	if err := MakeDirs(cfg.FS, cfg.Dir, archiveDir(cfg.Dir), runsDir(cfg.Dir)); err != nil {
		return nil, Recovered{}, fmt.Errorf("archive %s: %w", cfg.Dir, err)
	}
	rec, serial, err := recoverDir(cfg.FS, cfg.Dir)
	if err != nil {
		return nil, rec, fmt.Errorf("archive %s: %w", cfg.Dir, err)
	}
	w := &Writer{cfg: cfg, table: newRevisits(cfg.RevisitBytes), serial: serial, streams: streamsOf(cfg)}
	large := make(chan struct{}, maxLarge)
	w.pool.New = func() any { return newGroup(cfg.Level, cfg.largeBytes, large) }
	return w, rec, nil
}

// MakeDirs creates directories below root durably: it syncs every parent, because a power failure that loses a
// directory loses its files too. It syncs even if the directories exist, because an earlier process may have been
// killed before it synced them. Of a directory that is not below root, it syncs every parent there is.
func MakeDirs(fsys disk.FS, root string, dirs ...string) error {
	root = filepath.Clean(root)
	for _, d := range dirs {
		if err := fsys.MkdirAll(d, 0o755); err != nil {
			return err
		}
		for d = filepath.Clean(d); d != root && d != filepath.Dir(d); {
			d = filepath.Dir(d)
			if err := fsys.SyncDir(d); err != nil {
				return err
			}
		}
	}
	if err := fsys.SyncDir(filepath.Dir(root)); !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return nil // the user may write below root, but not in the directory above it
}

// Write archives one exchange. It returns when the records are in the buffer; Flush hands them to the operating system,
// Sync to the disk. The call that fills a file or a run of index lines blocks until these are on disk. Write does not
// keep x.
func (w *Writer) Write(x *Exchange) (Written, error) {
	g := w.pool.Get().(*group)
	defer func() {
		g.trim()
		w.pool.Put(g)
	}()
	for {
		revisit, err := g.encode(x, w)
		if err != nil {
			return Written{}, fmt.Errorf("archive %s: %w", x.URL, err)
		}
		done, tasks, err := w.append(x, g)
		if tasks && (err == nil || err == errOtherFile) {
			err = cmp.Or(w.runTasks(), err)
		}
		switch {
		case err == errOtherFile:
			continue
		case err != nil:
			return Written{}, fmt.Errorf("archive %s: %w", x.URL, err)
		}
		done.PayloadDigest, done.BodyDigest, done.Revisit, done.Original = g.digest, g.body, revisit, g.from
		done.Earlier = g.earlier
		return done, nil
	}
}

// errOtherFile means that the records name the warcinfo record of a file that is full.
var errOtherFile = errors.New("the records are for another file")

// append puts the records of the group next to each other into the file. tasks means that the caller must call
// runTasks. If the error is errOtherFile, the caller must encode the records again.
func (w *Writer) append(x *Exchange, g *group) (done Written, tasks bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.err == nil && len(w.tasks) >= maxTasks {
		w.mu.Unlock()
		w.runTasks() // its error is in w.err too
		w.mu.Lock()
	}
	if w.err != nil {
		return done, false, w.err
	}
	before := len(w.tasks)
	estimate := int64(len(g.out.b))
	if g.direct {
		estimate += int64(len(g.piecesHead)) + x.Response.Size()
	}
	s := g.stream
	switch {
	case w.segmentDue(estimate):
		w.err = w.endSegment()
	case s.file != nil && s.count > 0 && s.size+estimate > w.cfg.MaxBytes:
		w.err = w.rotate(s)
	}
	if w.err != nil {
		return done, false, w.err
	}
	if g.info != s.info.Load() {
		return done, len(w.tasks) > before, errOtherFile
	}
	size := s.size
	if s.file == nil {
		size = 0
		if w.err = w.begin(s); w.err != nil {
			return done, false, w.err
		}
	}
	done = Written{File: s.name, Offset: s.size, Length: int64(g.first)}
	if g.direct {
		if w.err = g.writePieces(x, s); w.err != nil {
			return done, false, w.err
		}
		done.Length = s.size - done.Offset
	}
	if _, w.err = s.Write(g.out.b); w.err != nil {
		return done, false, w.err
	}
	done.End = s.size
	s.count++
	w.segment.bytes += done.End - done.Offset
	w.written.Add(s.size - size)
	if len(g.cdx) > 0 {
		g.cdx = appendPlace(g.cdx, done.Length, done.Offset, s.name)
		w.found.note(s.part, g.cdx)
		if w.err = w.endRun(s, s.lines.add(g.cdx)); w.err != nil {
			return done, false, w.err
		}
	}
	if g.remember {
		w.table.add(&g.body, g.from)
	}
	return done, len(w.tasks) > before, nil
}

// runTasks does the waiting disk tasks in their order. It also waits for tasks that another goroutine has begun. If a
// task fails, its error becomes the Writer's.
func (w *Writer) runTasks() error {
	w.taskMu.Lock()
	defer w.taskMu.Unlock()
	for {
		w.mu.Lock()
		if w.err != nil && w.err != ErrClosed || len(w.tasks) == 0 {
			err := w.err
			w.mu.Unlock()
			if err == ErrClosed {
				return nil
			}
			return err
		}
		c := w.tasks[0]
		w.tasks = slices.Delete(w.tasks, 0, 1)
		w.doing = c.run.lines
		w.mu.Unlock()
		err := w.runTask(c)
		w.mu.Lock()
		w.doing = nil
		w.mu.Unlock()
		c.of.lines.recycle(c.run)
		if err != nil {
			w.mu.Lock()
			if w.err == nil || w.err == ErrClosed {
				w.err = err
			}
			w.mu.Unlock()
		}
	}
}

// closeFiles closes the handles of all files. The caller holds mu.
func (w *Writer) closeFiles() (err error) {
	w.syncMu.Lock()
	defer w.syncMu.Unlock()
	for _, s := range w.streams {
		if s.file != nil {
			err = errors.Join(err, s.file.Close(), s.syncFile.Close())
			s.file, s.syncFile = nil, nil
		}
	}
	return err
}

// Flush hands everything written so far to the operating system, so that it survives a kill of the process.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.flush()
}

// Show makes the record of done readable for other programs, in the file done.File, or while the Writer appends to it
// done.File and ".open". It does nothing if an earlier call has made it so.
func (w *Writer) Show(done Written) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.writing(done.File)
	if w.err == nil && (s == nil || done.End <= s.size-int64(s.out.Buffered())) {
		return nil
	}
	return w.flush()
}

// writing returns the stream that appends to a file; nil if none does. The caller holds mu.
func (w *Writer) writing(file string) *stream {
	for _, s := range w.streams {
		if s.file != nil && s.name == file {
			return s
		}
	}
	return nil
}

// flush flushes the buffers. The caller holds mu.
func (w *Writer) flush() error {
	for _, s := range w.streams {
		if w.err != nil {
			return w.err
		}
		if s.file == nil {
			continue
		}
		if err := s.out.Flush(); err != nil {
			w.err = err
			return fmt.Errorf("archive %s: %w", s.name, err)
		}
	}
	return w.err
}

// Sync flushes, and waits until everything written so far is on the disk, so that it survives a power failure. Other
// goroutines may write meanwhile.
func (w *Writer) Sync() error {
	w.mu.Lock()
	err := w.flush()
	open := w.unsynced()
	w.mu.Unlock()
	if err == nil {
		err = w.runTasks() // it syncs the files that are full
	}
	for s, f := range open {
		if err == nil {
			err = w.syncOpen(s, f)
		}
	}
	if err != nil {
		// The kernel may report a failed fsync only once, so the bytes count as lost and the Writer refuses writes.
		w.mu.Lock()
		defer w.mu.Unlock()
		w.err = cmp.Or(w.err, err)
		return fmt.Errorf("archive %s: %w", w.cfg.Dir, err)
	}
	return nil
}

// unsynced returns the handles to sync of the files that are being written. The caller holds mu.
func (w *Writer) unsynced() map[*stream]disk.File {
	open := make(map[*stream]disk.File, len(w.streams))
	for _, s := range w.streams {
		if s.file != nil {
			open[s] = s.syncFile
		}
	}
	return open
}

func (w *Writer) syncOpen(s *stream, syncFile disk.File) error {
	w.syncMu.Lock()
	if s.syncFile == syncFile {
		defer w.syncMu.Unlock()
		return syncFile.Sync()
	}
	w.syncMu.Unlock()
	return w.runTasks() // the file was rotated meanwhile, and its task syncs it
}

// Close finishes the current files and their index, and blocks until they are on disk. After a failed write it leaves
// the files unfinished, so that Open repairs them, and returns the error of that write. A second Close returns nil.
func (w *Writer) Close() error {
	w.mu.Lock()
	if errors.Is(w.err, ErrClosed) {
		w.mu.Unlock()
		return nil
	}
	if w.err == nil {
		w.err = w.endSegment()
	}
	w.mu.Unlock()
	err := w.runTasks()

	w.mu.Lock()
	defer w.mu.Unlock()
	w.closeFiles() // the error of a failed write came first and says more
	for _, c := range w.tasks {
		c.close() // as above
	}
	w.err, w.tasks = ErrClosed, nil
	if err != nil {
		return fmt.Errorf("archive %s: %w", w.cfg.Dir, err)
	}
	return nil
}
