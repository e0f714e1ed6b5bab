package disk

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// LockName is the file in a locked directory that names the holder.
const LockName = "lock"

// ErrLocked is a directory that another process, or another part of this one,
// has open.
var ErrLocked = errors.New("in use")

// Lock makes the caller the only one to have dir open, until it closes the
// lock or its process ends, however it ends. The error names the holder and
// is ErrLocked. dir must exist. The file dir/lock stays behind and means
// nothing by itself.
func Lock(fs FS, dir string) (io.Closer, error) {
	c, err := lock(fs, filepath.Join(dir, LockName))
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	return c, nil
}

// A locker is an FS that can lock a file by name.
type locker interface {
	lock(name string) (io.Closer, error)
}

func lock(fs FS, name string) (io.Closer, error) {
	if l, ok := fs.(locker); ok {
		return l.lock(name)
	}
	return nil, errors.ErrUnsupported
}

// lockedBy is ErrLocked with what the lock file says about the holder, which
// may be anything.
func lockedBy(content []byte) error {
	if pid, err := strconv.Atoi(strings.TrimSpace(string(content))); err == nil && pid > 0 {
		return fmt.Errorf("%w by process %d", ErrLocked, pid)
	}
	return ErrLocked
}

// A closeOnce is a lock of a Mem.
type closeOnce struct {
	once sync.Once
	f    func()
}

func (c *closeOnce) Close() error {
	c.once.Do(c.f)
	return nil
}

// lock holds within this Mem only: its copies are other disks.
func (m *Mem) lock(name string) (io.Closer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, n, err := m.find(name)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	key := strings.Join(split(name), "/")
	if m.locks[key] {
		return nil, lockedBy([]byte(pid()))
	}
	if n == nil {
		n = m.newNode(0o600)
		m.set(entryOp{dir, base, n})
	}
	n.change(m, change{})
	n.change(m, change{0, []byte(pid())})
	m.locks[key] = true
	return &closeOnce{f: func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.locks, key)
	}}, nil
}
