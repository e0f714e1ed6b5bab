package disk

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// ErrTooLarge means that a file is longer than the limit of its reader.
var ErrTooLarge = errors.New("file too large")

// WriteFile replaces the content of name with data. After an error, a crash or a power failure, name holds either
// all of its old bytes or all of data. If WriteFile returns nil, name holds data durably. It writes name.tmp first;
// only a crash leaves that file behind.
func WriteFile(fs FS, name string, data []byte) error {
	return replace(fs, name, all(data), 0o644)
}

// WriteStream is WriteFile for data that need not be in memory as a whole: write passes it to w, which has a buffer.
// If write returns an error, name keeps its old bytes.
func WriteStream(fs FS, name string, write func(w io.Writer) error) error {
	return replace(fs, name, buffered(write), 0o644)
}

// buffered gives write a buffer.
func buffered(write func(w io.Writer) error) func(io.Writer) error {
	return func(w io.Writer) error {
		b := bufio.NewWriterSize(w, 64<<10)
		return errors.Join(write(b), b.Flush())
	}
}

// WriteSecret is WriteFile with permissions 0600. Use it for a token or a password.
func WriteSecret(fs FS, name string, data []byte) error {
	// A name.tmp that a crash left behind would keep its permissions.
	if err := fs.Remove(name + ".tmp"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return replace(fs, name, all(data), 0o600)
}

func all(data []byte) func(io.Writer) error {
	return func(w io.Writer) error { _, err := w.Write(data); return err }
}

func replace(fs FS, name string, write func(w io.Writer) error, perm os.FileMode) error {
	tmp := name + ".tmp"
	f, err := fs.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, perm)
	if err != nil {
		_ = fs.Remove(tmp) // best effort: the caller needs the first error
		return fmt.Errorf("write %s: %w", name, err)
	}
	return finish(fs, f, tmp, name, write)
}

// finish writes the temporary file f, which has the name tmp, and renames it to name.
func finish(fs FS, f File, tmp, name string, write func(w io.Writer) error) error {
	err := writeSynced(f, write)
	if err == nil {
		err = fs.Rename(tmp, name)
	}
	if err != nil {
		_ = fs.Remove(tmp) // best effort: the caller needs the first error
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := fs.SyncDir(filepath.Dir(name)); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// writeSynced writes and closes f.
func writeSynced(f File, write func(w io.Writer) error) error {
	err := write(f)
	if err == nil {
		err = f.Sync()
	}
	return cmp.Or(err, f.Close())
}

// ReadFile returns the content of name. If the file is longer than max bytes, the error is ErrTooLarge.
func ReadFile(fs FS, name string, max int64) ([]byte, error) {
	f, err := fs.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, max+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if int64(len(b)) > max {
		return nil, fmt.Errorf("read %s: %w (over %d bytes)", name, ErrTooLarge, max)
	}
	return b, nil
}
