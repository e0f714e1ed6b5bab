package crawldir

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// A directory holds a crawl if it has a Marker. A file, and what is below a file, is refused with words for people.
func TestHoldsCrawl(t *testing.T) {
	dir := t.TempDir()
	check := func(at string, holds, program bool) {
		t.Helper()
		got, err := HoldsCrawl(nil, at)
		made, merr := MadeByProgram(at)
		if got != holds || made != program || err != nil || merr != nil {
			t.Errorf("%s: holds %v, %v; made by a program %v, %v", at, got, err, made, merr)
		}
	}
	write := func(name, text string) {
		t.Helper()
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	check(dir, false, false)
	check(filepath.Join(dir, "none"), false, false)
	write(Marker, "seeds: []\n")
	check(dir, true, false)
	write(Marker, ProgramMark+" Continue it with that program.\n{}\n")
	check(dir, true, true)
	_, err := HoldsCrawl(nil, filepath.Join(dir, Marker))
	if err == nil || !strings.Contains(err.Error(), "is a file") {
		t.Errorf("a file: %v", err)
	}
}

// A directory that a process has open is refused, and the text says how to go on.
func TestVacant(t *testing.T) {
	dir := t.TempDir()
	state := filepath.Join(dir, "state")
	if err := Vacant(dir); err != nil {
		t.Errorf("an empty directory: %v", err)
	}
	must.Do(t, os.Mkdir(state, 0o700))
	lock, err := disk.Lock(disk.OS, state)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	must.Do(t, err)
	pid, err := CrawledBy(dir)
	if pid != os.Getpid() || err != nil {
		t.Errorf("crawled by %d, %v", pid, err)
	}
	if err := Vacant(dir); !errors.Is(err, disk.ErrLocked) || !strings.Contains(err.Error(), "by this process") {
		t.Errorf("an open directory: %v", err)
	}
	must.Do(t, lock.Close())
	if err := Vacant(dir); err != nil {
		t.Errorf("a closed directory: %v", err)
	}
}

// A refusal of the file system names the directory; other errors stay as they are.
func TestDenied(t *testing.T) {
	other := errors.New("other")
	if err := Denied("d", other); err != other {
		t.Error(err)
	}
	refusal := &os.PathError{Op: "open", Path: "d/x", Err: syscall.EACCES}
	if err := Denied("d", refusal); err == nil || !strings.Contains(err.Error(), "dir d: ") {
		t.Error(err)
	}
}
