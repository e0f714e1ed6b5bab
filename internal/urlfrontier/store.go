package urlfrontier

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/heap"
	"github.com/orbweaver/orbweaver/internal/store/journal"
	"github.com/orbweaver/orbweaver/internal/urlfrontier/pb"
)

// Config tunes a Store. The zero Config is valid.
type Config struct {
	// MemoryBytes bounds the RAM of the URLs. What is known of known URLs may take an eighth more. Zero means 2 GiB.
	MemoryBytes int64
	// SnapshotBytes is the size of the journal from which on snapshots are written. Zero means 64 MiB.
	SnapshotBytes int64
}

// defaultDelay is the delay of queues in seconds, until SetDelay sets another. It is that of the reference server.
const defaultDelay = 1

// The kinds of records in the journal.
const (
	kindGeneral byte = 1 + iota
	kindQueue
	kindStored
	kindLeased
	kindDeleted
)

// ErrFormat reports a journal that another version of this program wrote.
var ErrFormat = errors.New("the journal is of another version of this program, or of another program")

// errFull reports that there is no memory for a new URL or queue.
var errFull = errors.New("the memory for URLs is full: wait until queues are deleted, or restart with more memory")

// A Store has the URLs of all crawls. Its methods are safe for concurrent use. Times are in milliseconds since 1970.
type Store struct {
	cfg  Config
	lock io.Closer

	mu       sync.Mutex // guards everything below; not held during an fsync
	j        *journal.Journal
	crawls   map[string]*crawl
	ready    heap.Heap[*queue] // the queues of all crawls, by wake
	inactive bool
	delay    int64 // seconds
	number   uint64
	bytes    int64 // of RAM

	appended, synced uint64 // number of changes; of those that are durable
	syncing          bool
	changed          *sync.Cond // one of synced, syncing, snapshotting and err has changed
	snapshotting     bool       // a checkpoint is being written
	snapshot         int64      // bytes of the last snapshot
	moves            int        // how often a URL or a queue has left its place
	err              error      // the first error: nothing is answered any more
	failed           chan struct{}
}

// Open opens the Store in dir, or creates one. It reads the whole journal.
func Open(fs disk.FS, dir string, cfg Config) (*Store, error) {
	if cfg.MemoryBytes <= 0 {
		cfg.MemoryBytes = 2 << 30
	}
	if cfg.SnapshotBytes <= 0 {
		cfg.SnapshotBytes = 64 << 20
	}
	if err := fs.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if err := fs.SyncDir(filepath.Dir(filepath.Clean(dir))); err != nil {
		return nil, err
	}
	lock, err := disk.Lock(fs, dir)
	if err != nil {
		return nil, err
	}
	s := &Store{cfg: cfg, lock: lock, crawls: map[string]*crawl{}, delay: defaultDelay, failed: make(chan struct{}),
		ready: heap.Heap[*queue]{Less: before, Place: func(q *queue) *int { return &q.there }}}
	s.changed = sync.NewCond(&s.mu)
	dir = filepath.Join(dir, "journal")
	if s.j, err = journal.Open(fs, dir, journal.Config{}); err == nil {
		if _, err = journal.Replay(fs, dir, s.replay); err == nil {
			s.rewakeAll()
			return s, nil
		}
		_ = s.j.Close() // the caller needs the first error
	}
	_ = lock.Close() // likewise
	return nil, fmt.Errorf("open frontier %s: %w", filepath.Dir(dir), err)
}

// Close syncs all changes and closes the Store.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.syncing || s.snapshotting {
		s.changed.Wait()
	}
	err := s.j.Close()
	if s.err != nil {
		err = s.err
	}
	if s.err == nil {
		s.err = errors.New("the frontier is closed")
	}
	s.changed.Broadcast()
	return cmp.Or(err, s.lock.Close())
}

// Failed is closed when a change could not be written. Err returns the error then.
func (s *Store) Failed() <-chan struct{} { return s.failed }

// Err returns why the Store answers nothing more, or nil.
func (s *Store) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// URLs returns the number of known URLs.
func (s *Store) URLs() (n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.crawls {
		n += int64(len(c.urls))
	}
	return n
}

// replay applies a record of the journal.
func (s *Store) replay(kind byte, payload []byte) error {
	var m proto.Message
	switch kind {
	case kindGeneral:
		m = &pb.General{}
	case kindQueue:
		m = &pb.Queue{}
	case kindStored:
		m = &pb.Stored{}
	case kindLeased:
		m = &pb.Leased{}
	case kindDeleted:
		m = &pb.Deleted{}
	default:
		return fmt.Errorf("%w: a record of kind %d", ErrFormat, kind)
	}
	if err := proto.Unmarshal(payload, m); err != nil {
		return fmt.Errorf("%w: a record of kind %d: %w", ErrFormat, kind, err)
	}
	s.apply(m)
	return nil
}

// change appends records to the journal and applies them. It returns the number of the change, for commit. The caller
// holds mu.
func (s *Store) change(ms ...proto.Message) (uint64, error) {
	if s.err != nil {
		return 0, s.err
	}
	batch := make([]journal.Record, len(ms))
	for i, m := range ms {
		r, err := record(m)
		if err != nil {
			return 0, err
		}
		batch[i] = r
	}
	if err := s.j.Append(batch); err != nil {
		return 0, s.fail(err)
	}
	for _, m := range ms {
		s.apply(m)
	}
	s.appended++
	return s.appended, nil
}

// record encodes a change.
func record(m proto.Message) (journal.Record, error) {
	var kind byte
	switch m.(type) {
	case *pb.General:
		kind = kindGeneral
	case *pb.Queue:
		kind = kindQueue
	case *pb.Stored:
		kind = kindStored
	case *pb.Leased:
		kind = kindLeased
	case *pb.Deleted:
		kind = kindDeleted
	}
	b, err := proto.Marshal(m)
	return journal.Record{Kind: kind, Payload: b}, err
}

// fail ends the Store. The caller holds mu.
func (s *Store) fail(err error) error {
	if s.err == nil {
		s.err = err
		close(s.failed)
		s.changed.Broadcast()
	}
	return s.err
}

// commit blocks until a change is durable. Callers that wait at the same time share a sync.
func (s *Store) commit(change uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.synced < change {
		switch {
		case s.err != nil:
			return s.err
		case s.syncing:
			s.changed.Wait()
			continue
		}
		upTo := s.appended
		sync, err := s.j.BeginSync()
		if err != nil {
			return s.fail(err)
		}
		s.syncing = true
		s.mu.Unlock()
		err = sync.Run()
		s.mu.Lock()
		s.syncing = false
		s.changed.Broadcast()
		if err = s.j.EndSync(sync, err); err != nil {
			return s.fail(err)
		}
		s.synced = upTo
		if since := s.j.SinceSnapshot(); !s.snapshotting && since > max(s.cfg.SnapshotBytes, 2*s.snapshot) {
			s.snapshotting = true
			go s.checkpoint()
		}
	}
	return nil
}

// writtenAtOnce is the number of URLs that a checkpoint writes while other calls wait. Only TestMain changes it.
var writtenAtOnce = 500

// errMoved reports that URLs have left their places while a snapshot was written.
var errMoved = errors.New("a queue or a URL has moved")

// checkpoint writes a snapshot in place of the journal, while other calls go on. The snapshot may have changes that are
// also in the journal behind it. Each record says the whole of what it changes, so a replay of both ends as the journal
// does. If something leaves its place meanwhile, the snapshot could miss it: then checkpoint begins again, and the last
// time calls have to wait. It runs on a goroutine of its own, for which Close waits.
func (s *Store) checkpoint() {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	for try := 1; try <= 3; try++ {
		if err = s.writeSnapshot(try == 3); !errors.Is(err, errMoved) {
			break
		}
	}
	s.snapshotting = false
	s.changed.Broadcast()
	if err != nil && s.err == nil {
		_ = s.fail(err) // the Store reports it
	}
}

// writeSnapshot is one try of checkpoint. The caller holds mu, which it gives up for moments unless calls wait.
func (s *Store) writeSnapshot(wait bool) error {
	for s.syncing { // the journal allows no other sync meanwhile
		s.changed.Wait()
	}
	if s.err != nil {
		return s.err
	}
	c, err := s.j.Begin()
	if err != nil {
		return err
	}
	moves := s.moves
	write := func(m proto.Message) {
		if err == nil {
			var r journal.Record
			if r, err = record(m); err == nil {
				err = c.Append(r.Kind, r.Payload)
			}
		}
	}
	pause := func() {
		if !wait && err == nil {
			s.mu.Unlock()
			s.mu.Lock()
			if s.moves != moves {
				err = errMoved
			}
		}
	}
	write(s.general())
	for _, id := range sortedIDs(s.crawls) {
		crawl := s.crawls[id]
		for i := 0; i < len(crawl.list) && err == nil; i++ {
			q := crawl.list[i]
			write(q.settings())
			for k := 0; k < len(q.all) && err == nil; k++ {
				write(&pb.Stored{Item: q.all[k].item(), LeaseMs: q.all[k].lease})
				if k%writtenAtOnce == writtenAtOnce-1 {
					pause()
				}
			}
			if i%writtenAtOnce == writtenAtOnce-1 {
				pause()
			}
		}
	}
	if err != nil {
		c.Abandon()
		return err
	}
	size := c.Bytes()
	s.mu.Unlock()
	err = c.Finish() // it syncs, or abandons the snapshot
	s.mu.Lock()
	for s.syncing {
		s.changed.Wait()
	}
	if err := s.j.Adopt(c, err); err != nil {
		return err
	}
	s.snapshot = size
	return nil
}

func sortedIDs(m map[string]*crawl) []string { return slices.Sorted(maps.Keys(m)) }
