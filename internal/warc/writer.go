package warc

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// Config tunes a Writer. Only Dir is needed.
type Config struct {
	// Dir is the crawl directory; the WARC files go to its archive folder.
	Dir string
	// Prefix and Agent begin and end the names of WARC files. Empty means
	// "orbweaver" and "agent". What is no letter, digit, dot, hyphen or
	// underscore becomes an underscore.
	Prefix, Agent string
	// MaxBytes is the size that a WARC file stays below, if no single exchange
	// is larger. Zero means 1 GB.
	MaxBytes int64
	// Level is the compression level, 1 to 9. Zero means 1, the fastest;
	// -1 means none. Bodies that came compressed are never compressed again.
	Level int
	// Info describes the crawl in the warcinfo record that begins each file:
	// software, operator, robots, http-header-user-agent, hostname, isPartOf.
	// The format and conformsTo fields are added.
	Info []Field
	// RevisitBytes bounds the memory that knows the payloads archived so far,
	// some 105 bytes each. Zero means 32 MiB; less than zero: no payload is
	// recognized again.
	RevisitBytes int64
	// Now dates files. Nil means time.Now.
	Now func() time.Time
	// FS is where the files are. Nil means the machine's.
	FS disk.FS

	largeBytes int64 // zero means the constant
}

func (c Config) withDefaults() Config {
	c.Prefix, c.Agent = fileSafe(c.Prefix, "orbweaver"), fileSafe(c.Agent, "agent")
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
	if c.RevisitBytes == 0 {
		c.RevisitBytes = 32 << 20
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.FS == nil {
		c.FS = disk.OS
	}
	if c.largeBytes == 0 {
		c.largeBytes = largeBytes
	}
	return c
}

func fileSafe(s, none string) string {
	if s == "" {
		return none
	}
	if s[0] == '.' {
		s = "_" + s[1:] // a hidden file, or a way up
	}
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '-' || r == '_' {
			return r
		}
		return '_'
	}, s)
}

// ErrClosed is a Writer that was closed.
var ErrClosed = errors.New("archive closed")

const (
	openSuffix = ".open"
	warcSuffix = ".warc.gz"
	bufferSize = 256 << 10
)

// A Writer appends to a crawl's archive. All methods are safe for concurrent
// use. After an error of the disk it takes nothing more: Open again, and what
// was half written is gone.
type Writer struct {
	cfg   Config
	table *revisits
	pool  sync.Pool // of *group

	mu     sync.Mutex // guards all below; it orders the appends, so it is held while they are written
	err    error      // of the first failed write, or ErrClosed
	file   disk.File  // nil between files
	name   string     // of file when it is finished
	out    *bufio.Writer
	size   int64 // bytes appended to file, buffered ones too
	groups int   // exchanges in file
	serial int   // of the next file
	lines  runs
	chores []chore // in order; what has been taken out is being done

	choreMu sync.Mutex // held while chores are done; never taken by a holder of mu
	syncMu  sync.Mutex // guards twin, also while it is synced; taken after mu or alone
	twin    disk.File  // second handle of file: fsync needs not stop the appends
}

// maxChores is how many may wait: each holds a run of index lines in memory.
const maxChores = 4

// archiveDir and runsDir are the folders below the crawl directory.
func archiveDir(dir string) string { return filepath.Join(dir, "archive") }
func runsDir(dir string) string    { return filepath.Join(dir, "state", "index") }
func indexPath(dir string) string  { return filepath.Join(dir, "indexes", "index.cdxj") }

// Open prepares the archive of a crawl directory for writing: it repairs what
// a crash left and says so. The first WARC file is begun by the first Write.
func Open(cfg Config) (*Writer, Recovered, error) {
	cfg = cfg.withDefaults()
	cfg.Dir = filepath.Clean(cfg.Dir)
	if err := makeDirs(cfg.FS, cfg.Dir, archiveDir(cfg.Dir), runsDir(cfg.Dir)); err != nil {
		return nil, Recovered{}, fmt.Errorf("archive %s: %w", cfg.Dir, err)
	}
	rec, serial, err := recoverDir(cfg.FS, cfg.Dir)
	if err != nil {
		return nil, rec, fmt.Errorf("archive %s: %w", cfg.Dir, err)
	}
	w := &Writer{cfg: cfg, table: newRevisits(cfg.RevisitBytes), serial: serial}
	w.out = bufio.NewWriterSize(nil, bufferSize)
	w.lines = runs{fs: cfg.FS, dir: runsDir(cfg.Dir), spare: make(chan []byte, 1)}
	large := make(chan struct{}, maxLarge)
	w.pool.New = func() any { return newGroup(cfg.Level, cfg.largeBytes, large) }
	return w, rec, nil
}

// makeDirs creates folders below root so that they survive a power failure:
// a file in a folder is lost with the folder. That is done although they may
// exist, for whoever made them may not have come to it.
func makeDirs(fsys disk.FS, root string, dirs ...string) error {
	for _, d := range dirs {
		if err := fsys.MkdirAll(d, 0o755); err != nil {
			return err
		}
		for d != root {
			d = filepath.Dir(d)
			if err := fsys.SyncDir(d); err != nil {
				return err
			}
		}
	}
	if err := fsys.SyncDir(filepath.Dir(root)); !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return nil // the folder above is not ours
}

// Remember makes payloads of this digest revisits of url's record of that date:
// how a crawl that is resumed gets its memory back.
func (w *Writer) Remember(digest [20]byte, url string, date time.Time) {
	w.table.add(&digest, Original{URL: url, Date: date})
}

// Write archives one exchange. It returns when the records are in the buffer:
// Flush hands them to the operating system, Sync to the disk. x is not kept.
func (w *Writer) Write(x *Exchange) (Written, error) {
	g := w.pool.Get().(*group)
	defer func() {
		g.trim()
		w.pool.Put(g)
	}()
	revisit, err := g.encode(x, w.table)
	if err != nil {
		return Written{}, fmt.Errorf("archive %s: %w", x.URL, err)
	}
	done, chores, err := w.append(x, g)
	if err == nil && chores {
		err = w.settle()
	}
	if err != nil {
		return Written{}, fmt.Errorf("archive %s: %w", x.URL, err)
	}
	done.PayloadDigest, done.Revisit, done.Original = g.digest, revisit, g.from
	return done, nil
}

// append puts the group's records behind each other into the file. chores says
// that settle is to be called.
func (w *Writer) append(x *Exchange, g *group) (done Written, chores bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.err == nil && len(w.chores) >= maxChores {
		w.mu.Unlock()
		w.settle() // its error is in w.err
		w.mu.Lock()
	}
	if w.err != nil {
		return done, false, w.err
	}
	before := len(w.chores)
	estimate := int64(len(g.out.b))
	if g.late {
		estimate += int64(len(g.lateHead)) + x.Response.Size()
	}
	if w.file != nil && w.groups > 0 && w.size+estimate > w.cfg.MaxBytes {
		if w.err = w.rotate(); w.err != nil {
			return done, false, w.err
		}
	}
	if w.file == nil {
		if w.err = w.begin(); w.err != nil {
			return done, false, w.err
		}
	}
	done = Written{File: w.name, Offset: w.size, Length: int64(g.first)}
	if g.late {
		if w.err = g.writeLate(x, appender{w}); w.err != nil {
			return done, false, w.err
		}
		done.Length = w.size - done.Offset
	}
	if _, w.err = (appender{w}).Write(g.out.b); w.err != nil {
		return done, false, w.err
	}
	done.End = w.size
	w.groups++
	if len(g.cdx) > 0 {
		g.cdx = appendPlace(g.cdx, done.Length, done.Offset, w.name)
		if w.lines.add(g.cdx) {
			w.chores = append(w.chores, chore{run: w.lines.next(w.name)})
		}
	}
	if g.fresh {
		w.table.add(&g.digest, Original{URL: x.URL, Date: x.Began.Truncate(time.Millisecond), ID: g.id})
	}
	return done, len(w.chores) > before, nil
}

// An appender counts what goes into the file; mu is held.
type appender struct{ w *Writer }

func (a appender) Write(p []byte) (int, error) {
	n, err := a.w.out.Write(p)
	a.w.size += int64(n)
	return n, err
}

// begin creates the next file with its warcinfo record; mu is held.
func (w *Writer) begin() error {
	now := w.cfg.Now()
	name := fmt.Sprintf("%s-%s-%05d-%s%s", w.cfg.Prefix, stamp17(now), w.serial, w.cfg.Agent, warcSuffix)
	path := filepath.Join(archiveDir(w.cfg.Dir), name+openSuffix)
	f, err := w.cfg.FS.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	twin, err := w.cfg.FS.OpenFile(path, os.O_WRONLY, 0)
	if err == nil {
		err = w.cfg.FS.SyncDir(archiveDir(w.cfg.Dir))
	}
	if err != nil {
		f.Close()
		return err
	}
	w.syncMu.Lock()
	w.twin = twin
	w.syncMu.Unlock()
	w.file, w.name, w.size, w.groups = f, name, 0, 0
	w.out.Reset(f)
	w.serial++

	g := w.pool.Get().(*group)
	defer w.pool.Put(g)
	g.out.b = g.out.b[:0]
	g.fields = appendFields(g.fields[:0], append([]Field{
		{"format", "WARC File Format 1.1"},
		{"conformsTo", "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/"},
	}, w.cfg.Info...))
	g.dates(now)
	g.start("warcinfo", g.newID(), "")
	g.field("WARC-Filename", name)
	if err := g.small(typeFields, g.fields); err != nil {
		return err
	}
	_, err = appender{w}.Write(g.out.b)
	return err
}

// A chore is work of the disk that the appends need not wait for.
type chore struct {
	run  run       // of index lines to be sorted and written
	name string    // of a file to be finished; empty: none
	file disk.File // it
	twin disk.File
}

// rotate takes leave of the file; a chore finishes it. mu is held.
func (w *Writer) rotate() error {
	if err := w.out.Flush(); err != nil {
		return err
	}
	c := chore{run: w.lines.last(w.name), name: w.name, file: w.file}
	w.syncMu.Lock()
	c.twin, w.twin = w.twin, nil
	w.syncMu.Unlock()
	w.file = nil
	w.chores = append(w.chores, c)
	return nil
}

// settle does the chores that wait, in their order, and returns when they and
// those that another goroutine had begun are done. Its error is the Writer's.
func (w *Writer) settle() error {
	w.choreMu.Lock()
	defer w.choreMu.Unlock()
	for {
		w.mu.Lock()
		if w.err != nil && w.err != ErrClosed || len(w.chores) == 0 {
			err := w.err
			w.mu.Unlock()
			if err == ErrClosed {
				return nil
			}
			return err
		}
		c := w.chores[0]
		w.chores = slices.Delete(w.chores, 0, 1)
		w.mu.Unlock()
		if err := w.do(c); err != nil {
			w.mu.Lock()
			if w.err == nil || w.err == ErrClosed {
				w.err = err
			}
			w.mu.Unlock()
		}
	}
}

// do does one chore; choreMu is held.
func (w *Writer) do(c chore) (err error) {
	defer func() { err = errors.Join(err, c.close()) }()
	// The index is whole before the name is: Open rebuilds it for files that
	// are still open, and trusts it for others.
	if err := w.lines.write(c.run); err != nil {
		return err
	}
	if c.name == "" {
		return nil
	}
	if err := c.file.Sync(); err != nil {
		return err
	}
	if err := c.close(); err != nil {
		return err
	}
	dir := archiveDir(w.cfg.Dir)
	path := filepath.Join(dir, c.name)
	if err := w.cfg.FS.Rename(path+openSuffix, path); err != nil {
		return err
	}
	return w.cfg.FS.SyncDir(dir)
}

// close closes the handles that are still open.
func (c *chore) close() (err error) {
	if c.file != nil {
		err = errors.Join(c.file.Close(), c.twin.Close())
		c.file, c.twin = nil, nil
	}
	return err
}

// closeFiles closes both handles; mu is held.
func (w *Writer) closeFiles() error {
	if w.file == nil {
		return nil
	}
	w.syncMu.Lock()
	defer w.syncMu.Unlock()
	err := errors.Join(w.file.Close(), w.twin.Close())
	w.file, w.twin = nil, nil
	return err
}

// Flush hands everything written so far to the operating system: it survives
// a kill of the process.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err := w.flush()
	return err
}

// flush says which handle to sync; mu is held.
func (w *Writer) flush() (disk.File, error) {
	if w.err != nil {
		return nil, w.err
	}
	if w.file == nil {
		return nil, nil
	}
	if err := w.out.Flush(); err != nil {
		w.err = err
		return nil, fmt.Errorf("archive %s: %w", w.name, err)
	}
	return w.twin, nil
}

// Sync is Flush, and the bytes survive a power failure. Writes go on
// meanwhile.
func (w *Writer) Sync() error {
	w.mu.Lock()
	twin, err := w.flush()
	name := w.name
	w.mu.Unlock()
	if err == nil {
		err = w.settle() // a file that is full is synced there
	}
	if err == nil && twin != nil {
		err = w.syncTwin(twin)
	}
	if err != nil {
		// What an fsync failed to write may be lost without a second report.
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.err == nil {
			w.err = err
		}
		return fmt.Errorf("archive %s: %w", name, err)
	}
	return nil
}

func (w *Writer) syncTwin(twin disk.File) error {
	w.syncMu.Lock()
	if w.twin == twin {
		defer w.syncMu.Unlock()
		return twin.Sync()
	}
	w.syncMu.Unlock()
	return w.settle() // rotated meanwhile
}

// Position is the file being written, by its final name, and how many bytes of
// it Flush has handed over. The name is empty between files.
func (w *Writer) Position() (file string, validBytes int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.file == nil {
		return "", 0
	}
	return w.name, w.size - int64(w.out.Buffered())
}

// Close finishes the file being written. After a failed write it leaves the
// file as it is, for Open to repair, and returns that write's error.
func (w *Writer) Close() error {
	w.mu.Lock()
	if errors.Is(w.err, ErrClosed) {
		w.mu.Unlock()
		return nil
	}
	if w.err == nil && w.file != nil {
		w.err = w.rotate()
	}
	w.mu.Unlock()
	err := w.settle()

	w.mu.Lock()
	defer w.mu.Unlock()
	w.closeFiles() // a failed write came first and says more
	for _, c := range w.chores {
		c.close() // likewise
	}
	w.err, w.chores = ErrClosed, nil
	if err != nil {
		return fmt.Errorf("archive %s: %w", w.name, err)
	}
	return nil
}
