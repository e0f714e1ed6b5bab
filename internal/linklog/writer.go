package linklog

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/cespare/xxhash/v2"
	"github.com/klauspost/compress/gzip"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/lines"
)

// Folder is the folder of the link log in a crawl directory.
const Folder = "links"

const (
	openSuffix = ".jsonl.open"
	gzSuffix   = ".jsonl.gz"
	// defaultMax is the default of Config.MaxBytes: compressed, the files have some 10 to 20 MB.
	defaultMax = 128 << 20
	// unsynced is more than a crawl writes between two syncs.
	unsynced = 64 << 20
)

// Config tunes a Writer. Only Dir is needed.
type Config struct {
	// Dir is the crawl directory.
	Dir string
	// Prefix and Agent begin and end the names of the files, as those of WARC files. Empty means "orbweaver" and
	// "agent".
	Prefix, Agent string
	// MaxBytes is the size at which a file is compressed and the next one begins, in bytes before compression. The
	// Writer looks at each Sync, so a file may be larger by what is written between two of them. Zero means 128 MiB.
	MaxBytes int64
	// Clock tells the time for file names. Nil means clock.System.
	Clock clock.Clock
	// FS is the file system. Nil means the machine's.
	FS disk.FS
}

// A Writer writes the link log of a crawl. A nil Writer writes nothing. After an error of the disk it writes nothing
// more, and Flush, Sync and Close return that error.
type Writer struct {
	cfg Config
	dir string
	// left are the files that the last process left open.
	left []string

	mu     sync.Mutex // guards the fields below; held while lines are added and flushed, never during a sync
	cur    *lines.File
	serial int   // of the next file
	err    error // of a file that could not be finished

	syncMu  sync.Mutex     // held by Sync and Close
	closed  bool           // guarded by syncMu
	packing sync.WaitGroup // files that are being compressed
	packMu  sync.Mutex     // held while a file is compressed, because each takes a processor and a buffer
}

// fileName matches the name of a file; group 1 is its serial number.
var fileName = regexp.MustCompile(`-\d{17}-(\d{5,9})-.*\.jsonl\.(open|gz)$`)

// Open opens the link log of a crawl directory for writing. It continues the last file if a kill has left it open, and
// compresses the others. The caller must Close the Writer. Only one Writer at a time may use a directory.
func Open(cfg Config) (*Writer, error) {
	cfg.Prefix, cfg.Agent = disk.SafeName(cmp.Or(cfg.Prefix, "orbweaver")), disk.SafeName(cmp.Or(cfg.Agent, "agent"))
	if cfg.MaxBytes <= 0 {
		cfg.MaxBytes = defaultMax
	}
	cfg.Clock = clock.Or(cfg.Clock)
	cfg.FS = cmp.Or(cfg.FS, disk.OS)
	w := &Writer{cfg: cfg, dir: filepath.Join(cfg.Dir, Folder)}
	if err := w.open(); err != nil {
		return nil, fmt.Errorf("link log: %w", err)
	}
	return w, nil
}

// A Tail knows the last lines that the last process wrote, if it ended without Close.
type Tail struct {
	lines map[tailLine]struct{}
}

// A tailLine identifies a line. The hash keeps a million lines small.
type tailLine struct {
	url    uint64
	status int
}

// Tail returns the lines of the files that the last process left open. It returns nil if there is no such file: then
// that process has synced all of its lines. For a nil Writer it returns nil, too. Call it before Write.
func (w *Writer) Tail() (*Tail, error) {
	if w == nil || len(w.left) == 0 {
		return nil, nil
	}
	t := &Tail{map[tailLine]struct{}{}}
	var d Damage
	for _, name := range w.left {
		err := readFile(w.cfg.FS, name, &d, heads, func(p *PageLine) error {
			t.lines[tailLine{xxhash.Sum64String(p.URL), p.Status}] = struct{}{}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return t, nil
}

// Has reports whether one of the lines is about a visit to url that ended with status. A nil Tail has all.
func (t *Tail) Has(url string, status int) bool {
	if t == nil {
		return true
	}
	_, ok := t.lines[tailLine{xxhash.Sum64String(url), status}]
	return ok
}

func (w *Writer) open() error {
	if err := w.cfg.FS.MkdirAll(w.dir, 0o755); err != nil {
		return err
	}
	if err := w.cfg.FS.SyncDir(filepath.Dir(w.dir)); err != nil {
		return err
	}
	left, err := w.recover()
	if err != nil {
		return err
	}
	w.left = left
	last := w.nextName()
	if n := len(left); n > 0 {
		last, left = left[n-1], left[:n-1]
	}
	if w.cur, err = lines.Open(w.cfg.FS, last, unsynced); err != nil {
		return err
	}
	for _, name := range left {
		w.pack(name)
	}
	return nil
}

// recover returns the files that the last process has left open, in their order. It removes those that it has
// compressed already.
func (w *Writer) recover() (left []string, err error) {
	entries, err := w.cfg.FS.ReadDir(w.dir)
	if err != nil {
		return nil, err
	}
	have := map[string]bool{}
	for _, e := range entries {
		have[e.Name()] = true
		if m := fileName.FindStringSubmatch(e.Name()); m != nil {
			n, _ := strconv.Atoi(m[1]) // at most nine digits, so it fits
			w.serial = max(w.serial, n+1)
		}
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), openSuffix)
		path := filepath.Join(w.dir, e.Name())
		switch {
		case strings.HasSuffix(e.Name(), gzSuffix+".tmp"), ok && have[name+gzSuffix]:
			if err := w.cfg.FS.Remove(path); err != nil {
				return nil, err
			}
		case ok:
			left = append(left, path)
		}
	}
	return left, nil
}

// nextName returns the path of the next open file.
func (w *Writer) nextName() string {
	t := strings.Replace(w.cfg.Clock.Now().UTC().Format("20060102150405.000"), ".", "", 1)
	name := fmt.Sprintf("%s-%s-%05d-%s%s", w.cfg.Prefix, t, w.serial, w.cfg.Agent, openSuffix)
	w.serial++
	return filepath.Join(w.dir, name)
}

// Write adds a line to the buffer. Flush returns the error if the line cannot be written.
func (w *Writer) Write(l *Line) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cur.Add(l.appendTo)
}

// Flush hands all lines to the operating system, so that they survive a kill of the process.
func (w *Writer) Flush() error {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.flush()
}

// flush is Flush. The caller holds mu.
func (w *Writer) flush() error {
	err := w.cur.Flush()
	if errors.Is(err, lines.ErrClosed) {
		err = nil
	}
	return errors.Join(w.err, err)
}

// Sync flushes, and waits until all lines are on the disk, so that they survive a power failure. If the file is full,
// Sync begins the next one, and leaves the compression of the full one to a goroutine that Close waits for. Other
// goroutines may write meanwhile.
func (w *Writer) Sync() error {
	if w == nil {
		return nil
	}
	w.syncMu.Lock()
	defer w.syncMu.Unlock()
	w.mu.Lock()
	cur, err := w.cur, w.err
	w.mu.Unlock()
	if err == nil && !w.closed {
		err = cur.Sync()
	}
	if err == nil && !w.closed && cur.Size() >= w.cfg.MaxBytes {
		if err = w.rotate(); err != nil {
			w.fail(err)
		}
	}
	return err
}

// rotate begins the next file. The caller holds syncMu.
func (w *Writer) rotate() error {
	next, err := lines.Open(w.cfg.FS, w.nextName(), unsynced)
	if err != nil {
		return fmt.Errorf("link log: %w", err)
	}
	w.mu.Lock()
	full := w.cur
	w.cur = next
	err = full.Flush() // before a Flush of the Writer says that all lines are written
	w.mu.Unlock()
	if err = errors.Join(err, full.Close()); err != nil {
		return err
	}
	w.pack(full.Name())
	return nil
}

// pack compresses an open file beside the crawl.
func (w *Writer) pack(name string) {
	w.packing.Go(func() {
		w.packMu.Lock()
		defer w.packMu.Unlock()
		if err := pack(w.cfg.FS, name); err != nil {
			w.fail(err)
		}
	})
}

func (w *Writer) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = cmp.Or(w.err, err)
}

// pack replaces a closed file by its compressed form, or removes it if it is empty. A kill leaves the file as it was,
// or both: then the compressed one is complete.
func pack(fsys disk.FS, name string) error {
	err := compress(fsys, name)
	if err == nil {
		err = fsys.Remove(name)
	}
	if err == nil {
		err = fsys.SyncDir(filepath.Dir(name))
	}
	if err != nil {
		return fmt.Errorf("link log: compress %s: %w", name, err)
	}
	return nil
}

func compress(fsys disk.FS, name string) error {
	f, err := fsys.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || st.Size() == 0 {
		return err
	}
	return disk.WriteStream(fsys, strings.TrimSuffix(name, openSuffix)+gzSuffix, func(out io.Writer) error {
		z, err := gzip.NewWriterLevel(out, level)
		if err != nil {
			return err
		}
		_, err = io.Copy(z, f)
		return errors.Join(err, z.Close())
	})
}

// level of compression: a file takes a tenth of the time of the pages' own processing.
const level = 4

// Close finishes the last file. It blocks until all files are compressed and on the disk. After an error it leaves
// files open, for the next Open, and returns the error. A second Close does nothing.
func (w *Writer) Close() error {
	if w == nil {
		return nil
	}
	w.syncMu.Lock()
	defer w.syncMu.Unlock()
	if w.closed {
		return nil
	}
	w.closed = true
	err := w.cur.Close()
	w.packing.Wait()
	w.mu.Lock()
	err = errors.Join(w.err, err)
	w.mu.Unlock()
	if err == nil {
		err = pack(w.cfg.FS, w.cur.Name())
	}
	return err
}

// Files returns the files of the link log in a crawl directory, in the order in which they were written. A crawl
// without a link log has none. The crawl may be running.
func Files(fsys disk.FS, dir string) ([]string, error) {
	folder := filepath.Join(dir, Folder)
	entries, err := fsys.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("link log: %w", err)
	}
	have := map[string]bool{}
	for _, e := range entries {
		have[e.Name()] = true
	}
	var files []string
	for _, e := range entries {
		name, open := strings.CutSuffix(e.Name(), openSuffix)
		if open && !have[name+gzSuffix] || strings.HasSuffix(e.Name(), gzSuffix) {
			files = append(files, filepath.Join(folder, e.Name()))
		}
	}
	return files, nil
}
