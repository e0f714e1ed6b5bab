package drum

import (
	"fmt"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// Commit writes all held items to the operating system and waits for that. They then survive a kill of the process. The
// owner must call it before it commits that the page with these items is finished.
func (s *Store) Commit() error {
	if s.err != nil {
		return s.err
	}
	if err := s.commit(); err != nil {
		return s.fail(err)
	}
	return nil
}

// A Syncing is a sync in progress.
type Syncing struct {
	vol        *volume
	heldWriter *heldWriter
	parts      []*part
	sizes      []int64
	last       []*pendingFrame // the last pending frame of each part, or nil
	named      bool            // the names of all parts are durable
	retired    []*generation   // emitted before the sync began
	pass       *pass           // the pass that began with the sync
}

// WantsSync reports whether a pass waits for BeginSync. The held items wait for that pass.
func (s *Store) WantsSync() bool {
	return s.cfg.Journal && s.state == preparing && s.pass.flush && closed(s.pass.ready)
}

// SetMark sets the mark of the next manifest if the Store has no mark yet.
func (s *Store) SetMark(mark []byte) {
	if len(s.mark) == 0 {
		s.mark = mark
	}
}

// BeginSync starts to make the held items durable; they are durable at EndSync. Meanwhile the owner must make its copy
// of everything emitted so far durable. At most one sync may be in progress.
func (s *Store) BeginSync() (*Syncing, error) {
	if s.err != nil {
		return nil, s.err
	}
	if err := s.writeFrame(); err != nil {
		return nil, s.fail(err)
	}
	t := &Syncing{vol: s.vol, heldWriter: s.heldWriter, named: true, retired: s.retired}
	s.retired = nil
	if s.WantsSync() {
		t.pass = s.pass
		if err := s.freeze(); err != nil {
			return nil, s.fail(err)
		}
	}
	for _, p := range s.parts {
		if p.pending > 0 || p.size > p.clean {
			var last *pendingFrame
			if p.pending > 0 {
				last = p.last
			}
			t.parts, t.sizes, t.last = append(t.parts, p), append(t.sizes, p.size), append(t.last, last)
			t.named = t.named && p.named
		}
	}
	return t, nil
}

// Run waits for pending writes and calls fsync. Any goroutine may call it.
func (t *Syncing) Run() error {
	for i, p := range t.parts {
		if sh := t.last[i]; sh != nil {
			if err := t.heldWriter.wait(sh); err != nil {
				return err
			}
			t.sizes[i] = sh.at.off + int64(sh.at.size)
		}
		if err := p.file.Sync(); err != nil {
			return fmt.Errorf("sync held items: %w", err)
		}
	}
	if !t.named {
		if err := t.vol.fs.SyncDir(t.vol.dir); err != nil {
			return fmt.Errorf("sync drum: %w", err)
		}
	}
	return nil
}

// EndSync records the result of a Syncing. err is the error of Run or of the owner's own sync; it is final. mark is the
// end of the owner's copy when it called BeginSync.
func (s *Store) EndSync(t *Syncing, err error, mark []byte) error {
	if s.err != nil {
		return s.err
	}
	if err != nil {
		return s.fail(err)
	}
	if err := s.collectFrames(s.heldWriter.most); err != nil { // Run has waited for these writes
		return s.fail(err)
	}
	for i, p := range t.parts {
		p.synced, p.clean, p.named = t.sizes[i], t.sizes[i], true
		if p.size > p.synced || p.pending > 0 {
			continue // a later sync will write the note
		}
		// An empty frame tells Open that nothing before it can be torn.
		note := make([]byte, frameHead)
		sealFrame(note, 0, 0, p.synced)
		if err := s.writePart(p, note); err != nil {
			return s.fail(err)
		}
		p.clean = p.size
	}
	for _, g := range t.retired {
		s.remove(g)
	}
	if t.pass != nil {
		t.pass.confirm(mark)
	}
	return nil
}

// retire is called when all items of a generation were emitted. Its files are removed once the owner's copy is durable.
func (s *Store) retire(g *generation) {
	if s.cfg.Journal {
		s.retired = append(s.retired, g)
	} else {
		s.remove(g)
	}
}

// remove deletes the files of a generation in the background. If a crash brings a file back, its items are looked up
// again and turn out to be known.
func (s *Store) remove(g *generation) {
	var files []disk.File
	var names []string
	for _, p := range g.parts {
		files, names = append(files, p.file), append(names, p.name)
		s.parts = without(s.parts, p)
	}
	for _, sp := range g.spills {
		names = append(names, sp.name)
	}
	s.work.Add(1)
	go func() {
		defer s.work.Done()
		for _, f := range files {
			_ = f.Close() // everything in it was read
		}
		for _, name := range names {
			_ = s.vol.fs.Remove(name)
		}
	}()
}

func without(parts []*part, p *part) []*part {
	out := parts[:0]
	for _, q := range parts {
		if q != p {
			out = append(out, q)
		}
	}
	return out
}

// Save answers all held items and writes all keys to disk, with mark as the owner's position. The owner's copy of the
// keys must be durable up to there, and no sync may be in progress. Save blocks for two passes.
func (s *Store) Save(mark []byte) error {
	if err := s.Flush(); err != nil {
		return err
	}
	if err := s.quiesce(); err != nil {
		return err
	}
	return s.flushTable(mark)
}

// flushTable writes the table to disk and waits for that. The Store must be idle. Held items stay held.
func (s *Store) flushTable(mark []byte) error {
	if err := s.writeFrame(); err != nil {
		return s.fail(err)
	}
	p := s.newPass(true)
	p.allocate(s.planFilters())
	p.confirm(mark)
	held, part := s.gen, s.part
	s.gen = &generation{slab: log{pool: s.pool}}
	s.pass, s.state = p, preparing
	err := s.freeze()
	s.gen, s.part = held, part
	if err != nil {
		return s.fail(err)
	}
	return s.endFlush()
}

// endFlush waits for the pass of flushTable.
func (s *Store) endFlush() error {
	<-s.pass.done
	if err := s.adopt(); err != nil {
		return err
	}
	s.pass, s.state = nil, idle
	return s.awaitManifest()
}

// awaitManifest waits until the manifest names all runs.
func (s *Store) awaitManifest() error {
	if s.pub == nil {
		return nil
	}
	if !closed(s.pub.confirmed) {
		return ErrSyncing
	}
	<-s.pub.published
	if err := s.notePublished(); err != nil {
		return s.fail(err)
	}
	return nil
}
