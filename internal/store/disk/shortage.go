package disk

import (
	"errors"
	"io/fs"
	"syscall"
	"time"
)

// IsShortage reports whether err means that the process or the machine has no free file descriptor.
func IsShortage(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

const (
	// shortageFirst and shortageMost are the first and the longest pause before Outlast retries an operation.
	// The pause doubles between them.
	shortageFirst, shortageMost = 5 * time.Millisecond, 250 * time.Millisecond
	// shortageLimit is the total time of the pauses after which Outlast returns the error.
	shortageLimit = 30 * time.Second
)

// Patient returns an FS like base that survives a shortage of file descriptors. An operation that needs a descriptor
// asks spare and retries for up to 30 s. The methods of spare must not use the FS.
func Patient(base FS, spare Spare) FS { return patient{base, spare} }

// A Spare has file descriptors that the process can spare. Safe for concurrent use.
type Spare interface {
	// Relieve closes some of them.
	Relieve()
}

type patient struct {
	FS
	spare Spare
}

func (p patient) retry(op func() error) error { return Outlast(p.spare, op) }

// Outlast calls op until its result is not a shortage of file descriptors (IsShortage), for up to 30 s, and returns
// the last result. Before each retry it asks spare, unless spare is nil, and sleeps 5 ms to 250 ms.
func Outlast(spare Spare, op func() error) error {
	pause := shortageFirst
	for waited := time.Duration(0); ; {
		err := op()
		if !IsShortage(err) || waited >= shortageLimit {
			return err
		}
		if spare != nil {
			spare.Relieve()
		}
		time.Sleep(pause)
		waited += pause
		pause = min(2*pause, shortageMost)
	}
}

func (p patient) OpenFile(name string, flag int, perm fs.FileMode) (f File, err error) {
	err = p.retry(func() (err error) { f, err = p.FS.OpenFile(name, flag, perm); return err })
	return f, err
}

func (p patient) ReadDir(dir string) (entries []fs.DirEntry, err error) {
	err = p.retry(func() (err error) { entries, err = p.FS.ReadDir(dir); return err })
	return entries, err
}

func (p patient) RemoveAll(name string) error {
	return p.retry(func() error { return p.FS.RemoveAll(name) })
}

func (p patient) SyncDir(dir string) error {
	return p.retry(func() error { return p.FS.SyncDir(dir) })
}
