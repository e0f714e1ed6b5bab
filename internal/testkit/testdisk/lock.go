package testdisk

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// A heldLock is a lock in a Mem.
type heldLock struct {
	once sync.Once
	m    *Mem
	key  string
}

func (l *heldLock) Close() error {
	l.once.Do(func() {
		l.m.mu.Lock()
		defer l.m.mu.Unlock()
		delete(l.m.locks, l.key)
	})
	return nil
}

// Lock implements FS. It excludes other callers on this Mem only. The copies that Clone and Crash return have no locks.
func (m *Mem) Lock(name string) (io.Closer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, n, err := m.find(name)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	key := strings.Join(split(name), "/")
	if m.locks[key] {
		return nil, fmt.Errorf("%w by this process; wait until it has closed the directory, or use another one",
			disk.ErrLocked)
	}
	if n == nil {
		n = m.newNode(0o600)
		m.set(entryOp{dir, base, n})
	}
	n.change(m, change{})
	n.change(m, change{0, fmt.Appendln(nil, os.Getpid())})
	m.locks[key] = true
	return &heldLock{m: m, key: key}, nil
}
