package testdisk

import (
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"
	"syscall"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// Mem is a file system in memory for tests. It knows which bytes a power failure would lose: the writes to a file
// since its last Sync, and the entries created, renamed or removed since the last SyncDir of their directory. The Sync
// of a file does not make its directory entry durable.
//
// Relative and absolute names refer to the same tree. Modification times come from a counter, so that a test run can
// be repeated exactly. It implements FS.
type Mem struct {
	mu    sync.Mutex // guards everything below and every node
	root  *node
	log   []entryOps // directory changes that no SyncDir has covered yet, in order
	locks map[string]bool
	ticks int64 // the counter behind modification times
}

// A node is a file or a directory.
type node struct {
	mode fs.FileMode
	mod  int64

	data    []byte   // what a reader sees
	synced  []byte   // what the last Sync made durable
	pending []change // the changes that lead from synced to data

	kids, onDisk map[string]*node // entries, and the durable ones; nil for a file
}

// A change writes data at offset off. With nil data it truncates the file to off bytes.
type change struct {
	off  int64
	data []byte
}

// entryOps is one change of the tree: all of its entries change, or none does.
type entryOps []entryOp

// An entryOp sets the entry name of dir to n, or removes it if n is nil.
type entryOp struct {
	dir  *node
	name string
	n    *node
}

// NewMem returns an empty file system.
func NewMem() *Mem {
	m := &Mem{locks: map[string]bool{}}
	m.root = m.newNode(fs.ModeDir | 0o755)
	return m
}

// Crash returns a copy of m as a power failure at this moment would leave it; m stays unchanged. Each unsynced change
// is lost, kept, or kept in part: a torn write, a hole of zeros, or a later write without the earlier one. seed decides
// which.
func (m *Mem) Crash(seed uint64) *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	rng := rand.New(rand.NewPCG(seed, 0x5eed))

	// Each directory keeps its synced entries. Of its later changes it keeps a prefix, as a journaling file system
	// does, or any subset, as POSIX allows.
	entries := map[*node]map[string]*node{}
	of := func(d *node) map[string]*node {
		if entries[d] == nil {
			entries[d] = map[string]*node{}
			for name, n := range d.onDisk {
				entries[d][name] = n
			}
		}
		return entries[d]
	}
	left := map[*node]int{}
	for _, ops := range m.log {
		left[ops[0].dir]++
	}
	drawn, unordered := map[*node]bool{}, map[*node]bool{}
	for _, ops := range m.log {
		d := ops[0].dir
		if !drawn[d] {
			drawn[d] = true
			switch rng.IntN(5) {
			case 0:
				left[d] = 0
			case 1: // all of them
			case 2:
				unordered[d] = true
			default:
				left[d] = rng.IntN(left[d] + 1)
			}
		}
		if left[d]--; left[d] < 0 || unordered[d] && rng.IntN(2) == 0 {
			continue
		}
		for _, op := range ops {
			if op.n == nil {
				delete(of(op.dir), op.name)
			} else {
				of(op.dir)[op.name] = op.n
			}
		}
	}
	return m.copyTree(of, func(n *node) []byte { return n.crash(rng) })
}

// CrashOf returns a copy of m after a power failure that hits only chosen files. For each file whose full name
// satisfies lost, all unsynced bytes are lost, and so is an unsynced name. All other files keep everything. A disk may
// store files in another order than the program wrote them; this simulates such an order.
func (m *Mem) CrashOf(lost func(name string) bool) *Mem {
	c := m.Clone()
	m.mu.Lock()
	defer m.mu.Unlock()
	var walk func(from, to *node, dir string)
	walk = func(from, to *node, dir string) {
		for name, k := range to.kids {
			n, path := from.kids[name], dir+"/"+name
			switch {
			case n.kids != nil:
				walk(n, k, path)
			case !lost(path):
			case from.onDisk[name] != n:
				delete(to.kids, name)
				delete(to.onDisk, name)
			default:
				k.data, k.synced = slices.Clone(n.synced), slices.Clone(n.synced)
			}
		}
	}
	walk(m.root, c.root, "")
	return c
}

// Clone returns a copy of m as a kill of the process at this moment would leave it: with everything that was written.
func (m *Mem) Clone() *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.copyTree(
		func(d *node) map[string]*node { return d.kids },
		func(n *node) []byte { return slices.Clone(n.data) })
}

func (m *Mem) copyTree(entries func(*node) map[string]*node, data func(*node) []byte) *Mem {
	c := NewMem()
	c.ticks = m.ticks
	seen := map[*node]*node{} // a half durable rename leaves one file under two names
	var walk func(from, to *node)
	walk = func(from, to *node) {
		kids := entries(from)
		for _, name := range sortedNames(kids) {
			n := kids[name]
			if seen[n] == nil {
				k := c.newNode(n.mode)
				k.mod, seen[n] = n.mod, k
				if n.kids == nil {
					k.data = data(n)
					k.synced = slices.Clone(k.data)
				} else {
					walk(n, k)
				}
			}
			to.kids[name], to.onDisk[name] = seen[n], seen[n]
		}
	}
	walk(m.root, c.root)
	return c
}

// crash returns the bytes that n holds after a power failure.
func (n *node) crash(rng *rand.Rand) []byte {
	out := slices.Clone(n.synced)
	if len(n.pending) == 0 {
		return out
	}
	rule := rng.IntN(10)
	cut := rng.IntN(len(n.pending))
	for i, c := range n.pending {
		switch {
		case rule < 2: // no write reached the disk
			return out
		case rule < 4: // all writes did
		case rule < 9: // a prefix did, and its last write is torn
			if i > cut {
				return out
			}
			if i == cut && c.data != nil {
				whole := len(c.data)
				c.data = c.data[:rng.IntN(whole+1)]
				if rule == 8 { // the new size reached the disk, the data did not
					c.data = append(slices.Clone(c.data), make([]byte, whole-len(c.data))...)
				}
			}
		default: // any subset did
			if rng.IntN(2) == 0 {
				continue
			}
		}
		out = c.apply(out)
	}
	return out
}

func (c change) apply(b []byte) []byte {
	if c.data == nil {
		if c.off <= int64(len(b)) {
			return b[:c.off]
		}
		return append(b, make([]byte, c.off-int64(len(b)))...)
	}
	if hole := c.off - int64(len(b)); hole > 0 {
		b = append(b, make([]byte, hole)...)
	}
	k := copy(b[c.off:], c.data)
	return append(b, c.data[k:]...)
}

func (n *node) change(m *Mem, c change) {
	m.ticks++
	n.mod = m.ticks
	n.data = c.apply(n.data)
	n.pending = append(n.pending, c)
}

func (m *Mem) newNode(mode fs.FileMode) *node {
	n := &node{mode: mode, mod: m.ticks}
	if mode.IsDir() {
		n.kids, n.onDisk = map[string]*node{}, map[string]*node{}
	}
	return n
}

func (m *Mem) set(ops ...entryOp) {
	m.ticks++
	for _, op := range ops {
		op.dir.mod = m.ticks
		if op.n == nil {
			delete(op.dir.kids, op.name)
		} else {
			op.dir.kids[op.name] = op.n
		}
	}
	m.log = append(m.log, ops)
}

func split(name string) []string {
	name = strings.Trim(filepath.ToSlash(filepath.Clean(name)), "/")
	if name == "" || name == "." {
		return nil
	}
	return strings.Split(name, "/")
}

// find returns the node called name and its directory. If only the last element of name is missing, n is nil and err
// is nil. For the root, dir is nil.
func (m *Mem) find(name string) (dir *node, base string, n *node, err error) {
	parts := split(name)
	n = m.root
	for i, p := range parts {
		if n.kids == nil {
			return nil, "", nil, syscall.ENOTDIR
		}
		dir, base, n = n, p, n.kids[p]
		if n == nil && i < len(parts)-1 {
			return nil, "", nil, syscall.ENOENT
		}
	}
	return dir, base, n, nil
}

func (m *Mem) existing(name string) (dir *node, base string, n *node, err error) {
	dir, base, n, err = m.find(name)
	if err == nil && n == nil {
		err = syscall.ENOENT
	}
	return dir, base, n, err
}

func pathError(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

func (m *Mem) OpenFile(name string, flag int, perm fs.FileMode) (disk.File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, n, err := m.find(name)
	switch {
	case err != nil:
	case n == nil && flag&os.O_CREATE == 0:
		err = syscall.ENOENT
	case n == nil:
		n = m.newNode(perm.Perm())
		m.set(entryOp{dir, base, n})
	case flag&os.O_CREATE != 0 && flag&os.O_EXCL != 0:
		err = syscall.EEXIST
	case n.kids != nil:
		err = syscall.EISDIR
	case flag&os.O_TRUNC != 0 && len(n.data) > 0:
		n.change(m, change{})
	}
	if err != nil {
		return nil, pathError("open", name, err)
	}
	return &memFile{m: m, n: n, name: name, flag: flag}, nil
}

func (m *Mem) Rename(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	fdir, fbase, n, err := m.existing(from)
	if err == nil {
		var tdir, old *node
		var tbase string
		tdir, tbase, old, err = m.find(to)
		switch {
		case err != nil:
		case fdir == nil || tdir == nil:
			err = syscall.EBUSY
		case old == n:
			return nil
		case n.kids != nil && strings.HasPrefix(strings.Join(split(to), "/")+"/", strings.Join(split(from), "/")+"/"):
			err = syscall.EINVAL // a directory cannot move into itself
		case old != nil && old.kids != nil && n.kids == nil:
			err = syscall.EEXIST
		case old != nil && old.kids == nil && n.kids != nil:
			err = syscall.ENOTDIR
		case old != nil && len(old.kids) > 0:
			err = syscall.ENOTEMPTY
		default:
			m.set(entryOp{tdir, tbase, n}, entryOp{fdir, fbase, nil})
		}
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}

func (m *Mem) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, n, err := m.existing(name)
	switch {
	case err != nil:
	case dir == nil:
		err = syscall.EBUSY
	case len(n.kids) > 0:
		err = syscall.ENOTEMPTY
	default:
		m.set(entryOp{dir, base, nil})
	}
	return pathError("remove", name, err)
}

func (m *Mem) RemoveAll(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, n, err := m.find(name)
	if err == syscall.ENOENT || err == nil && n == nil {
		return nil
	}
	if err != nil {
		return pathError("removeall", name, err)
	}
	m.removeKids(n)
	if dir != nil {
		m.set(entryOp{dir, base, nil})
	}
	return nil
}

func (m *Mem) removeKids(n *node) {
	for _, name := range sortedNames(n.kids) {
		m.removeKids(n.kids[name])
		m.set(entryOp{n, name, nil})
	}
}

func (m *Mem) MkdirAll(dir string, perm fs.FileMode) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.root
	for _, p := range split(dir) {
		if n.kids == nil {
			return pathError("mkdir", dir, syscall.ENOTDIR)
		}
		k := n.kids[p]
		if k == nil {
			k = m.newNode(fs.ModeDir | perm.Perm())
			m.set(entryOp{n, p, k})
		}
		n = k
	}
	if n.kids == nil {
		return pathError("mkdir", dir, syscall.ENOTDIR)
	}
	return nil
}

func (m *Mem) Mkdir(dir string, perm fs.FileMode) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	parent, base, n, err := m.find(dir)
	switch {
	case err != nil:
	case n != nil:
		err = syscall.EEXIST
	case parent.kids == nil:
		err = syscall.ENOTDIR
	default:
		m.set(entryOp{parent, base, m.newNode(fs.ModeDir | perm.Perm())})
	}
	return pathError("mkdir", dir, err)
}

// ReadDir implements FS. The entries are sorted by name.
func (m *Mem) ReadDir(dir string) ([]fs.DirEntry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, _, n, err := m.existing(dir)
	if err == nil && n.kids == nil {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return nil, pathError("open", dir, err)
	}
	var out []fs.DirEntry
	for _, name := range sortedNames(n.kids) {
		out = append(out, fs.FileInfoToDirEntry(n.kids[name].info(name)))
	}
	return out, nil
}

// Chmod implements FS. It sets permissions, durably at once. No test depends on a crash of it.
func (m *Mem) Chmod(name string, perm fs.FileMode) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, _, n, err := m.existing(name)
	if err != nil {
		return pathError("chmod", name, err)
	}
	n.mode = n.mode&fs.ModeType | perm.Perm()
	return nil
}

func (m *Mem) Stat(name string) (fs.FileInfo, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, _, n, err := m.existing(name)
	if err != nil {
		return nil, pathError("stat", name, err)
	}
	return n.info(filepath.Base(name)), nil
}

func (m *Mem) SyncDir(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, _, n, err := m.existing(dir)
	if err == nil && n.kids == nil {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return pathError("sync", dir, err)
	}
	rest := m.log[:0]
	for _, ops := range m.log {
		if !slices.ContainsFunc(ops, func(op entryOp) bool { return op.dir == n }) {
			rest = append(rest, ops)
			continue
		}
		for _, op := range ops {
			if op.n == nil {
				delete(op.dir.onDisk, op.name)
			} else {
				op.dir.onDisk[op.name] = op.n
			}
		}
	}
	clear(m.log[len(rest):])
	m.log = rest
	return nil
}

func sortedNames(kids map[string]*node) []string {
	names := slices.Collect(maps.Keys(kids))
	sort.Strings(names)
	return names
}
