package drum

import (
	"fmt"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// Commit gives what is held to the operating system: from here on it outlives
// a kill of the process. The owner commits before it commits that the page
// from which items came is done.
func (s *Store) Commit() error {
	if s.err != nil {
		return s.err
	}
	if err := s.commit(); err != nil {
		return s.fail(err)
	}
	return nil
}

// A Syncing is a sync on its way.
type Syncing struct {
	vol    *volume
	scribe *scribe
	parts  []*part
	sizes  []int64
	last   []*sheet      // what is on its way to each part; nil: nothing
	named  bool          // the directory has all names
	spent  []*generation // were emitted before it began
	pass   *pass         // whose table was frozen as it began
}

// WantsSync says that a pass waits for BeginSync, and what is held for the pass.
func (s *Store) WantsSync() bool {
	return s.cfg.Journal && s.state == preparing && s.pass.flush && closed(s.pass.ready)
}

// SetMark gives a Store the mark that goes with its next manifest if it has none.
func (s *Store) SetMark(mark []byte) {
	if len(s.mark) == 0 {
		s.mark = mark
	}
}

// BeginSync begins to make durable what is held; at EndSync it is. What was
// emitted until here must be in what the owner makes durable meanwhile. At most
// one sync is on its way.
func (s *Store) BeginSync() (*Syncing, error) {
	if s.err != nil {
		return nil, s.err
	}
	if err := s.writeFrame(); err != nil {
		return nil, s.fail(err)
	}
	t := &Syncing{vol: s.vol, scribe: s.scribe, named: true, spent: s.spent}
	s.spent = nil
	if s.WantsSync() {
		t.pass = s.pass
		if err := s.freeze(); err != nil {
			return nil, s.fail(err)
		}
	}
	for _, p := range s.parts {
		if p.away > 0 || p.size > p.clean {
			var last *sheet
			if p.away > 0 {
				last = p.last
			}
			t.parts, t.sizes, t.last = append(t.parts, p), append(t.sizes, p.size), append(t.last, last)
			t.named = t.named && p.named
		}
	}
	return t, nil
}

// Run does what takes time. It may be called by another goroutine than the
// Store's owner.
func (t *Syncing) Run() error {
	for i, p := range t.parts {
		if sh := t.last[i]; sh != nil {
			if err := t.scribe.wait(sh); err != nil {
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

// EndSync takes note of a Syncing that has run with this error, if that of the
// Store or of the owner's own copy failed. mark is where the owner's copy
// ended when BeginSync was called.
func (s *Store) EndSync(t *Syncing, err error, mark []byte) error {
	if s.err != nil {
		return s.err
	}
	if err != nil {
		return s.fail(err)
	}
	if err := s.take(s.scribe.most); err != nil { // what Run waited for is written
		return s.fail(err)
	}
	for i, p := range t.parts {
		p.synced, p.clean, p.named = t.sizes[i], t.sizes[i], true
		if p.size > p.synced || p.away > 0 {
			continue // a later sync will say so
		}
		// An empty frame tells Open that what is before it cannot be torn.
		note := make([]byte, frameHead)
		sealFrame(note, 0, 0, p.synced)
		if err := s.writePart(p, note); err != nil {
			return s.fail(err)
		}
		p.clean = p.size
	}
	for _, g := range t.spent {
		s.remove(g)
	}
	if t.pass != nil {
		t.pass.confirm(mark)
	}
	return nil
}

// spend is called when all of a generation has been emitted. Its files go when
// the owner has a durable copy.
func (s *Store) spend(g *generation) {
	if s.cfg.Journal {
		s.spent = append(s.spent, g)
	} else {
		s.remove(g)
	}
}

// remove deletes a generation's files beside the intake. What a crash brings
// back is asked for once more and known.
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
			_ = f.Close() // all of it was read
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

// Save answers everything that is held and brings all keys to disk, with mark
// as the owner's position: nothing has to be restored after Open. It takes as
// long as a pass. What was emitted must be durable at the owner before, but for
// what Save itself emits.
func (s *Store) Save(mark []byte) error {
	if err := s.Flush(); err != nil {
		return err
	}
	if err := s.quiet(); err != nil {
		return err
	}
	return s.flushTable(mark)
}

// flushTable brings the table to disk and waits for it. It needs an idle Store
// and leaves what is held as it is.
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

// endFlush waits for what flushTable has begun.
func (s *Store) endFlush() error {
	<-s.pass.done
	if err := s.adopt(); err != nil {
		return err
	}
	s.pass, s.state = nil, idle
	return s.settle()
}

// settle waits until the manifest names all runs.
func (s *Store) settle() error {
	if s.pub == nil {
		return nil
	}
	if !closed(s.pub.confirmed) {
		return ErrSyncing
	}
	<-s.pub.published
	if err := s.published(); err != nil {
		return s.fail(err)
	}
	return nil
}
