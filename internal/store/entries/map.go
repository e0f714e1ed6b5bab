package entries

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"slices"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/keyset/drum"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// Config tunes a Map.
type Config struct {
	Shape
	// Name is the name of the file of entries.
	Name string
	// Keys appends the keys of the entry with this data to dst. Open calls it for entries whose keys are not on disk.
	Keys func(dst []link.Key, data []byte) []link.Key
	// Keep: a key that an entry has stays with it. Otherwise the entry that was appended last has it. After a kill the
	// last one may have it all the same.
	Keep bool
	// MemoryBytes bounds the RAM of drum.
	MemoryBytes int64
}

// A Place is the answer for a key: the offset of an entry in the file.
type Place struct {
	Known bool
	At    int64
}

// A Map finds entries by key. One goroutine owns it.
type Map struct {
	cfg  Config
	fs   disk.FS
	dir  string
	file *file
	drum *drum.Store

	// base is the number in drum of the first of the current questions. Keys that a killed process
	// left held in drum have other numbers.
	base    uint64
	found   []Place
	items   []drum.Item // questions
	puts    []drum.Item // of Append
	aux     []byte
	keys    []link.Key
	dirty   bool
	syncing *syncing // nil: no sync is running
}

// A syncing is a sync that is running.
type syncing struct {
	of   *drum.Syncing
	size int64
	done chan error
}

// Open opens or creates the Map in dir, which belongs to the Map.
func Open(fs disk.FS, dir string, cfg Config) (*Map, error) {
	m := &Map{cfg: cfg, fs: fs, dir: dir, base: rand.Uint64()}
	if err := fs.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if err := fs.SyncDir(filepath.Dir(dir)); err != nil {
		return nil, err
	}
	var err error
	if m.file, err = openFile(fs, dir, filepath.Join(dir, cfg.Name), cfg.Shape); err != nil {
		return nil, err
	}
	if err = m.open(); err != nil {
		m.file.f.Close() // the caller needs the first error
		if m.drum != nil {
			m.drum.Close() // likewise
		}
		return nil, err
	}
	return m, nil
}

func (m *Map) keysDir() string { return filepath.Join(m.dir, "keys") }

// open opens drum and adds the entries that drum does not have on disk.
func (m *Map) open() error {
	length, err := m.file.length()
	if err != nil {
		return err
	}
	m.file.size = length
	from, err := m.openKeys()
	if err == nil && from <= length {
		err = m.restore(from)
	}
	if isDamage(err) || err == nil && (from > length || m.file.size < from) {
		m.file.size = length
		return m.anew()
	}
	return err
}

func isDamage(err error) bool {
	_, damage := errors.AsType[*drum.Damage](err)
	return damage
}

// openKeys opens drum. from is the offset up to which drum has the file.
func (m *Map) openKeys() (from int64, err error) {
	m.drum, err = drum.Open(m.fs, m.keysDir(),
		drum.Config{MemoryBytes: m.cfg.MemoryBytes, Values: true, Known: true, Journal: true}, m.take)
	if errors.Is(err, drum.ErrManifest) {
		if err = m.fs.RemoveAll(m.keysDir()); err == nil {
			return m.openKeys()
		}
	}
	if err != nil {
		return 0, err
	}
	if len(m.drum.Damaged()) > 0 {
		d := m.drum.Damaged()[0]
		return 0, &d
	}
	from = int64(len(m.cfg.Magic))
	if mark := m.drum.Mark(); len(mark) == 8 {
		from = int64(binary.LittleEndian.Uint64(mark))
	}
	return from, nil
}

// anew rebuilds drum's part from the file.
func (m *Map) anew() error {
	if m.drum != nil {
		m.drum.Close() // an error does not matter: it is deleted
		m.drum = nil
	}
	if err := m.fs.RemoveAll(m.keysDir()); err != nil {
		return err
	}
	if err := m.file.f.Sync(); err != nil { // drum must never be ahead of the file
		return err
	}
	from, err := m.openKeys()
	if err != nil {
		return err
	}
	return m.restore(from)
}

// restore adds to drum the keys of the entries in the file from an offset on. It cuts off a torn end.
func (m *Map) restore(from int64) error {
	var items []drum.Item
	give := func() error {
		err := m.drum.RestoreValues(items)
		items = items[:0]
		return err
	}
	end, err := m.file.each(from, m.file.size, func(off int64, data []byte) error {
		m.keys = m.cfg.Keys(m.keys[:0], data)
		for _, k := range m.keys {
			items = append(items, drum.Item{Key: k, Value: uint64(off)})
		}
		if len(items) < 1024 {
			return nil
		}
		return give()
	})
	if err == nil {
		err = give()
	}
	if err != nil {
		return err
	}
	if end < m.file.size {
		return m.file.cut(end)
	}
	return nil
}

// Look looks keys up. The answers, one for each key, are valid until the next call. It blocks for a pass of drum if
// drum cannot answer from RAM.
func (m *Map) Look(keys []link.Key) ([]Place, error) {
	n := len(keys)
	m.found, m.items = append(m.found[:0], make([]Place, n)...), m.items[:0]
	m.aux = slices.Grow(m.aux[:0], 8*n)
	for i, k := range keys {
		m.aux = binary.BigEndian.AppendUint64(m.aux, m.base+uint64(i))
		m.items = append(m.items, drum.Item{Key: k, Aux: m.aux[8*i : 8*i+8]})
	}
	err := m.look()
	if isDamage(err) {
		if err = m.mend(err); err == nil {
			err = m.look()
		}
	}
	m.base += uint64(n)
	return m.found, err
}

// look asks drum for m.items and returns when drum has answered.
func (m *Map) look() error {
	if err := m.drum.Check(m.items); err != nil {
		return err
	}
	return m.drum.Flush()
}

// take stores drum's answers.
func (m *Map) take(items []drum.Item) error {
	for _, it := range items {
		if len(it.Aux) != 8 {
			continue // of Append, or left from a damaged entry
		}
		if i := binary.BigEndian.Uint64(it.Aux) - m.base; i < uint64(len(m.found)) {
			m.found[i] = Place{it.Known, int64(it.Value)}
		}
	}
	return nil
}

// At returns head and tail of the entry at a Place. They are valid until the next call. If there is none, the error is
// ErrEntry.
func (m *Map) At(off int64) (data []byte, err error) { return m.file.at(off) }

// Append stores encoded entries (Shape.Encode), one after the other. An entry that is damaged here is a broken
// invariant of the caller.
func (m *Map) Append(encoded []byte) error {
	if len(encoded) == 0 {
		return nil
	}
	at := m.file.size
	m.keys, m.puts = m.keys[:0], m.puts[:0]
	for b := encoded; len(b) > 0; {
		data, n, err := m.cfg.Decode(b)
		if err != nil {
			return err
		}
		m.keys = m.cfg.Keys(m.keys, data)
		for _, k := range m.keys[len(m.puts):] {
			m.puts = append(m.puts, drum.Item{Key: k, Value: uint64(at)})
		}
		at += int64(n)
		b = b[n:]
	}
	if m.cfg.Keep {
		if err := m.keep(); err != nil {
			return err
		}
	}
	m.dirty = true
	if err := m.file.write(encoded); err != nil {
		return err
	}
	if err := m.mend(m.drum.Update(m.puts)); err != nil || !m.drum.WantsSync() {
		return err
	}
	return m.Sync() // drum's table is full, and cannot be written before the entries are durable
}

// keep leaves in m.puts the keys that no entry has, the first of equal ones last. It looks them up, since an item of
// drum.Add may be held: after a power failure it would give its key to an entry that the file has lost.
func (m *Map) keep() error {
	found, err := m.Look(m.keys)
	if err != nil {
		return err
	}
	n := 0
	for i, it := range m.puts {
		if !found[i].Known {
			m.puts[n] = it
			n++
		}
	}
	m.puts = m.puts[:n]
	slices.Reverse(m.puts)
	return nil
}

// Ready returns a channel that receives a value when the owner should call Emit.
func (m *Map) Ready() <-chan struct{} { return m.drum.Ready() }

// Emit does work that waits.
func (m *Map) Emit() error { return m.mend(m.drum.Emit()) }

// mend rebuilds drum's part if it is damaged: the file has all of it.
func (m *Map) mend(err error) error {
	if !isDamage(err) {
		return err
	}
	if err := m.waitSync(); err != nil {
		return err
	}
	return m.anew()
}

// Synced returns a channel that receives the result of the running sync, for EndSync. It is nil if no sync is running.
func (m *Map) Synced() <-chan error {
	if m.syncing == nil {
		return nil
	}
	return m.syncing.done
}

// BeginSync starts to make all entries durable, unless a sync is running or there is nothing to do.
func (m *Map) BeginSync() error {
	if m.syncing != nil || !m.dirty {
		return nil
	}
	of, err := m.drum.BeginSync()
	if err != nil {
		return err
	}
	s := &syncing{of: of, size: m.file.size, done: make(chan error, 1)}
	m.syncing, m.dirty = s, false
	f := m.file.f
	go func() { s.done <- errors.Join(of.Run(), f.Sync()) }()
	return nil
}

// EndSync processes the result of a sync.
func (m *Map) EndSync(err error) error {
	s := m.syncing
	m.syncing = nil
	return m.mend(m.drum.EndSync(s.of, err, binary.LittleEndian.AppendUint64(nil, uint64(s.size))))
}

// waitSync waits for the running sync, if there is one.
func (m *Map) waitSync() error {
	if m.syncing == nil {
		return nil
	}
	return m.EndSync(<-m.syncing.done)
}

// Sync makes all entries durable.
func (m *Map) Sync() error {
	if err := m.waitSync(); err != nil {
		return err
	}
	if err := m.BeginSync(); err != nil {
		return err
	}
	return m.waitSync()
}

// Size returns the length of the file of entries, and the bytes that drum has on disk and in RAM.
func (m *Map) Size() (file, disk, memory int64) {
	s := m.drum.Stats()
	return m.file.size, s.DiskBytes, s.MemoryBytes
}

// Close closes the files. It does not make entries durable.
func (m *Map) Close() error {
	var err error
	if m.syncing != nil { // after an error
		err = <-m.syncing.done
		m.syncing = nil
	}
	if m.drum != nil {
		err = errors.Join(err, m.drum.Close())
	}
	return errors.Join(err, m.file.f.Close())
}
