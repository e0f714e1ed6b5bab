//go:build unix

package disk_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

func writeText(t *testing.T, name, text string) {
	t.Helper()
	must.Do(t, disk.WriteOutput(disk.OS, name, func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	}))
}

// The file of an output is replaced, and what is no file stays what it is.
func TestWriteOutput(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, os.MkdirAll(filepath.Join(dir, "deep", "er"), 0o755))
	link := func(to, name string) string {
		name = filepath.Join(dir, name)
		must.Do(t, os.Symlink(to, name))
		return name
	}
	link("deep/er", "short")
	for _, c := range []struct{ name, file string }{
		{filepath.Join(dir, "plain"), "plain"},
		{link("target", "link"), "target"},
		{link("link", "link-to-link"), "target"},
		{link(filepath.Join(dir, "deep", "absolute"), "absolute"), "deep/absolute"},
		{link("../beside", "deep/er/up"), "deep/beside"},
		{filepath.Join(dir, "short", "up"), "deep/beside"},
		{link("short/../parent", "through"), "deep/parent"},
	} {
		for _, text := range []string{"first", "2nd"} { // the first creates the file
			writeText(t, c.name, text)
			if b, err := os.ReadFile(filepath.Join(dir, c.file)); string(b) != text {
				t.Errorf("%s: %s has %q, not %q; %v", c.name, c.file, b, text, err)
			}
		}
		if info, err := os.Lstat(c.name); err != nil || info.Mode().IsRegular() != (filepath.Base(c.name) == "plain") {
			t.Errorf("%s is another kind of file now: %v, %v", c.name, info.Mode(), err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.tmp")); left != nil {
		t.Errorf("temporary files stay: %v", left)
	}

	// Files of others that have the name of a temporary file stay.
	kept := filepath.Join(dir, "kept")
	must.Do(t, errors.Join(os.WriteFile(kept, []byte("kept"), 0o644), os.Symlink(kept, filepath.Join(dir, "own.tmp")),
		os.WriteFile(filepath.Join(dir, "own.1.tmp"), []byte("kept"), 0o644)))
	writeText(t, filepath.Join(dir, "own"), "text")
	for name, want := range map[string]string{"own": "text", "kept": "kept", "own.tmp": "kept", "own.1.tmp": "kept"} {
		if b, err := os.ReadFile(filepath.Join(dir, name)); string(b) != want {
			t.Errorf("%s has %q, %v, want %q", name, b, err, want)
		}
	}

	failed := errors.New("failed")
	err := disk.WriteOutput(disk.OS, filepath.Join(dir, "link"), func(io.Writer) error { return failed })
	if b, _ := os.ReadFile(filepath.Join(dir, "target")); !errors.Is(err, failed) || string(b) != "2nd" {
		t.Errorf("after an error the file has %q; %v", b, err)
	}
	loop := link("loop", "loop")
	if err := disk.WriteOutput(disk.OS, loop, func(io.Writer) error { return nil }); !errors.Is(err, syscall.ELOOP) {
		t.Errorf("a loop of links: %v", err)
	}
}

// A named pipe gets the bytes, also through a link, and stays a pipe.
func TestWriteOutputPipe(t *testing.T) {
	dir := t.TempDir()
	pipe, link := filepath.Join(dir, "pipe"), filepath.Join(dir, "link")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	must.Do(t, os.Symlink("pipe", link))
	for _, name := range []string{pipe, link} {
		r, err := os.OpenFile(pipe, os.O_RDONLY|syscall.O_NONBLOCK, 0) // does not wait for a writer
		must.Do(t, err)
		writeText(t, name, "some text")
		b, err := io.ReadAll(r)
		if err := errors.Join(err, r.Close()); string(b) != "some text" || err != nil {
			t.Errorf("%s: the reader got %q; %v", name, b, err)
		}
		if info, err := os.Lstat(pipe); err != nil || info.Mode().Type() != os.ModeNamedPipe {
			t.Fatalf("%s is no pipe any more: %v", pipe, err)
		}
	}
}
