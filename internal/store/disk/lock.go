package disk

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// LockName is the name of the lock file in a locked directory. The file holds the process id of its last holder.
const LockName = "lock"

// ErrLocked means that another process, or another part of this process, has the directory open.
var ErrLocked = errors.New("in use")

// Lock gives the caller exclusive use of dir until it closes the lock or the process ends, even by a kill. It does
// not wait: if the directory is locked, the error is ErrLocked and names the process that holds the lock. dir must
// exist. The file dir/lock stays behind after Close; its presence does not mean that dir is locked.
func Lock(fs FS, dir string) (io.Closer, error) {
	c, err := fs.Lock(filepath.Join(dir, LockName))
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	return c, nil
}

// lockedBy returns ErrLocked with the process id in content, the bytes of the lock file. content is untrusted.
func lockedBy(content []byte) error {
	pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
	switch {
	case err == nil && pid == os.Getpid():
		return fmt.Errorf("%w by this process; wait until it has closed the directory, or use another one", ErrLocked)
	case err == nil && pid > 0:
		return fmt.Errorf("%w by process %d; stop that process or use another directory", ErrLocked, pid)
	}
	return ErrLocked
}

// Held reports whether a process has dir locked. It takes no lock for longer than it looks. If dir has no lock file,
// nobody has it locked.
func Held(dir string) (bool, error) { return held(filepath.Join(dir, LockName)) }
