package handoff

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/journal"
	"github.com/orbweaver/orbweaver/internal/wake"
)

// Config tunes a Store. The zero Config has usable defaults.
type Config struct {
	// MemoryBytes bounds the buffers of a compaction or an Import; only one of them runs at a
	// time. Zero means 64 MiB; the least value is 8 MiB.
	MemoryBytes int64
	// BufferBytes is the size of the write buffer of each source. Zero means 1 MiB.
	BufferBytes int
	// CompactBytes is the least number of bytes that a source sends between two compactions.
	// Zero means 64 MiB.
	CompactBytes int64
	// PartBytes is the size of the files that a compaction writes. Zero means 64 MiB.
	PartBytes int64
}

const (
	minMemory = 8 << 20
	// maxSources bounds the sources, each of which has a file open.
	maxSources = 4096
	sortDir    = "sort"
	gonePrefix = "gone-"
)

// Errors of this package; test with errors.Is.
var (
	// ErrSource reports an invalid source, or one source too many.
	ErrSource = errors.New("no such source")
	// ErrDamaged reports a source whose files do not hold what was written. The error is a
	// *Damage.
	ErrDamaged = errors.New("replica damaged")
	// ErrVersion reports a source whose records another version of this program wrote.
	ErrVersion = errors.New("replica of another version")
	// ErrNewer reports a source that has sent more since the Import.
	ErrNewer = errors.New("the source has sent more")
	// ErrClosed reports a closed Store.
	ErrClosed = errors.New("replica store closed")
)

// A Source is an agent's instance that ships its records.
type Source struct {
	Name     string
	Instance [16]byte
}

// Counter identifies the source in counts of pages: a number made of its instance, which is random.
func (s Source) Counter() uint64 { return binary.BigEndian.Uint64(s.Instance[:]) }

func (s Source) String() string { return s.Name + "/" + hex.EncodeToString(s.Instance[:4]) }

// Archive names the source's archive in lists of lost archives.
func (s Source) Archive() string { return s.Name + "-" + hex.EncodeToString(s.Instance[:4]) }

// IsArchive reports whether Source.Archive may return a name.
func IsArchive(name string) bool {
	at := strings.LastIndexByte(name, '-')
	return at >= 0 && nameForm.MatchString(name[:at]) && instanceForm.MatchString(name[at+1:])
}

var instanceForm = regexp.MustCompile(`^[0-9a-f]{8}$`)

var nameForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$`)

// dir is the name of the source's directory.
func (s Source) dir() string { return hex.EncodeToString(s.Instance[:]) + "-" + s.Name }

func parseDir(base string) (s Source, ok bool) {
	id, name, ok := strings.Cut(base, "-")
	b, err := hex.DecodeString(id)
	if !ok || err != nil || len(b) != len(s.Instance) || !nameForm.MatchString(name) {
		return s, false
	}
	s.Name, s.Instance = name, [16]byte(b)
	return s, s.dir() == base
}

// A Damage reports a damaged source. After a Reset the source must ship all of its hosts again.
type Damage struct {
	Source Source
	Err    error // with file and offset
}

func (d *Damage) Error() string { return fmt.Sprintf("%v: of %v: %v", ErrDamaged, d.Source, d.Err) }

// Is makes a Damage an ErrDamaged.
func (d *Damage) Is(target error) bool { return target == ErrDamaged }

// Unwrap returns the error with file and offset.
func (d *Damage) Unwrap() error { return d.Err }

// A Store keeps the records that other agents ship. Safe for concurrent use.
type Store struct {
	fs  disk.FS
	dir string
	cfg Config

	work chan struct{} // has an element while a source's files are read or replaced as a whole
	wake chan struct{} // has one when a source wants to be compacted

	mu      sync.Mutex // guards the fields below
	sources map[Source]*source
	closed  bool
	urgent  int                // number of callers that wait for work and must not wait for a compaction
	yield   context.CancelFunc // ends the running compaction
}

// Open opens the Store in dir, which belongs to the Store. The parent of dir must exist durably.
// Open reads what each source has sent since its last compaction. It returns a Store even if a
// source is damaged: see Sources.
func Open(fs disk.FS, dir string, cfg Config) (*Store, error) {
	cfg.MemoryBytes = cmp.Or(cfg.MemoryBytes, 64<<20)
	cfg.MemoryBytes = max(cfg.MemoryBytes, minMemory)
	if cfg.CompactBytes <= 0 {
		cfg.CompactBytes = 64 << 20
	}
	if cfg.PartBytes <= 0 {
		cfg.PartBytes = 64 << 20
	}
	s := &Store{fs: fs, dir: dir, cfg: cfg, sources: map[Source]*source{}, work: make(chan struct{}, 1),
		wake: make(chan struct{}, 1)}
	if err := s.open(); err != nil {
		_ = s.Close() // nothing was appended
		return nil, fmt.Errorf("open replicas %s: %w", dir, err)
	}
	return s, nil
}

func (s *Store) open() error {
	if err := s.fs.MkdirAll(s.dir, 0o755); err != nil {
		return err
	}
	if err := s.fs.SyncDir(filepath.Dir(filepath.Clean(s.dir))); err != nil {
		return err
	}
	es, err := s.fs.ReadDir(s.dir)
	if err != nil {
		return err
	}
	for _, e := range es {
		name := e.Name()
		if name == sortDir || strings.HasPrefix(name, gonePrefix) {
			if err := s.fs.RemoveAll(filepath.Join(s.dir, name)); err != nil {
				return err
			}
			continue
		}
		id, ok := parseDir(name)
		if !ok {
			continue
		}
		o := newSource(s, id)
		if err := o.open(); err != nil {
			return err
		}
		s.sources[id] = o
	}
	return s.fs.MkdirAll(filepath.Join(s.dir, sortDir), 0o755)
}

// source returns the source with an id. If there is none, it makes one if make is set, and else
// returns nil.
func (s *Store) source(id Source, make bool) (*source, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	o := s.sources[id]
	if o == nil && make {
		if !nameForm.MatchString(id.Name) {
			return nil, fmt.Errorf("%w: name %.64q", ErrSource, id.Name)
		}
		if len(s.sources) >= maxSources {
			return nil, fmt.Errorf("%w: there are %d already", ErrSource, len(s.sources))
		}
		o = newSource(s, id)
		s.sources[id] = o
	}
	return o, nil
}

// Append adds a batch of concatenated encoded Records, as a whole or not at all. It copies data.
// The caller may acknowledge the batch only after Sync. Repeating the last batch changes nothing.
// If anything in the batch is malformed, the error is an ErrRecord or ErrTooLarge, and Append
// keeps nothing of it.
func (s *Store) Append(id Source, data []byte) error {
	batch, err := parse(data)
	if err != nil {
		return fmt.Errorf("batch of %v: %w", id, err)
	}
	for {
		o, err := s.source(id, true)
		if err != nil {
			return err
		}
		wants, gone, err := o.append(batch)
		if gone {
			continue // it was removed just now, and starts again
		}
		if wants {
			s.poke()
		}
		return err
	}
}

// parse checks a batch and converts it to journal records.
func parse(data []byte) (batch []journal.Record, err error) {
	if len(data) > MaxBatch {
		return nil, fmt.Errorf("%w: %d octets, limit %d", ErrTooLarge, len(data), MaxBatch)
	}
	var paths []uint64
	for len(data) > 0 {
		r, n, err := Decode(data, paths)
		if err != nil {
			err.(*RecordError).Index = len(batch)
			return nil, err
		}
		if r.Kind == Known {
			paths = r.Paths
		}
		_, w := binary.Uvarint(data[1:])
		batch = append(batch, journal.Record{Kind: byte(r.Kind), Payload: data[1+w : n]})
		data = data[n:]
	}
	return batch, nil
}

// Sync makes all appended batches of a source durable. The caller may then acknowledge them. For a
// source without records, Sync does nothing.
func (s *Store) Sync(id Source) error {
	o, err := s.source(id, false)
	if o == nil || err != nil {
		return err
	}
	return o.sync()
}

// Info describes the records of a source.
type Info struct {
	Source Source
	Bytes  int64 // on disk or in buffers
}

// Sources returns the sources that have sent records, sorted by name.
func (s *Store) Sources() []Info {
	var infos []Info
	for _, o := range s.all() {
		if i, ok := o.info(); ok {
			infos = append(infos, i)
		}
	}
	return infos
}

// all returns the sources in order.
func (s *Store) all() []*source {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Collect(maps.Values(s.sources))
	slices.SortFunc(all, func(a, b *source) int {
		if c := strings.Compare(a.id.Name, b.id.Name); c != 0 {
			return c
		}
		return strings.Compare(a.id.dir(), b.id.dir())
	})
	return all
}

// DropSource deletes all records of a source, after an Import that returned mark. If the source
// has sent more since, the error is ErrNewer.
func (s *Store) DropSource(ctx context.Context, mark Mark) error {
	return s.forget(ctx, mark.of, &mark)
}

// Reset deletes all records of a source. Its agent must ship everything again.
func (s *Store) Reset(ctx context.Context, id Source) error {
	o, err := s.source(id, false)
	if o == nil || err != nil {
		return err
	}
	return s.forget(ctx, o, nil)
}

func (s *Store) forget(ctx context.Context, o *source, mark *Mark) error {
	release, err := s.seize(ctx)
	if err != nil {
		return fmt.Errorf("forget %v: %w", o.id, err)
	}
	defer release()
	was, err := o.remove(mark)
	if err != nil {
		return fmt.Errorf("forget %v: %w", o.id, err)
	}
	s.mu.Lock()
	if s.sources[o.id] == o {
		delete(s.sources, o.id)
	}
	s.mu.Unlock()
	if was == "" {
		return nil
	}
	if err := s.fs.RemoveAll(was); err != nil {
		return fmt.Errorf("forget %v: %w", o.id, err)
	}
	return nil
}

// seize takes work. It interrupts a running compaction.
func (s *Store) seize(ctx context.Context) (release func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.urgent++
	if s.yield != nil {
		s.yield()
	}
	s.mu.Unlock()
	done := func() {
		s.mu.Lock()
		s.urgent--
		s.mu.Unlock()
		s.poke() // a compaction may have been interrupted
	}
	select {
	case s.work <- struct{}{}:
		return func() { <-s.work; done() }, nil
	case <-ctx.Done():
		done()
		return nil, ctx.Err()
	}
}

// poke wakes Run.
func (s *Store) poke() {
	wake.Up(s.wake) // Run is about to look at all sources anyway
}

// Close syncs the appended batches and closes the files. Call it after Import and Run
// have returned. It returns the first error.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	var first error
	for _, o := range s.all() {
		if err := o.close(); err != nil && first == nil {
			first = fmt.Errorf("close replica of %v: %w", o.id, err)
		}
	}
	return first
}
