package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"syscall"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// busyError reports a crawl directory that another process has open. It is a disk.ErrLocked.
type busyError struct{ text string }

func (e *busyError) Error() string { return e.text }
func (e *busyError) Unwrap() error { return disk.ErrLocked }

// CrawledBy returns the process that crawls in dir, or 0 if none does. It changes nothing in dir.
func CrawledBy(dir string) (pid int, err error) { return disk.Holder(filepath.Join(dir, "state")) }

// busy returns the error for a crawl directory that the process pid has open.
func (a *Agent) busy(pid int) error {
	if pid == os.Getpid() {
		return &busyError{fmt.Sprintf("%s is being crawled by this process; wait until it has closed the crawl, "+
			"or choose another directory", a.cfg.Dir)}
	}
	text := fmt.Sprintf("%s is being crawled by process %d", a.cfg.Dir, pid)
	if _, err := a.fs.Stat(a.dir(APIFile)); err == nil {
		return &busyError{text + "; use \"orbweaver ctl\" to see and control it, or choose another --dir"}
	}
	return &busyError{fmt.Sprintf("%s; stop it with \"kill %d\", or choose another --dir", text, pid)}
}

// vacant returns an error if another process has the crawl directory open.
func (a *Agent) vacant() error {
	if a.cfg.FS != disk.OS {
		return nil // only the machine's files tell the process; a.fs.Lock finds out the rest
	}
	if pid, err := CrawledBy(a.cfg.Dir); err == nil && pid != 0 {
		return a.busy(pid)
	}
	return nil
}

// denied turns an error of the crawl directory into a *ConfigError if the file system refuses the
// access, and leaves all others as they are.
func (a *Agent) denied(err error) error {
	path := a.cfg.Dir
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		path = p.Path
	}
	switch {
	case errors.Is(err, fs.ErrPermission):
		return configErrorf("--dir %s: no permission for %s; choose a directory that this user can write, "+
			"or change its owner", a.cfg.Dir, path)
	case errors.Is(err, syscall.EROFS):
		return configErrorf("--dir %s: the file system of %s is read-only; choose another directory", a.cfg.Dir, path)
	case errors.Is(err, syscall.ENAMETOOLONG):
		return configErrorf("--dir %s: the name is too long for the file system; choose a shorter one", a.cfg.Dir)
	case errors.Is(err, syscall.ENOTDIR):
		return configErrorf("--dir %s: this is a file, or below a file; name a directory", a.cfg.Dir)
	}
	return err
}

// An unanswered error says why the agent at an address does not admit this one, in few words.
type unanswered struct {
	addr string
	err  error
}

func (u *unanswered) Unwrap() error { return u.err }

// called matches the call and the address that errors of package rpc begin with.
var called = regexp.MustCompile(`^[A-Z][a-z]+ \S+?(?: \(\S+\))?: `)

func (u *unanswered) Error() string {
	why := called.ReplaceAllString(u.err.Error(), "")
	var no syscall.Errno
	var name *net.DNSError
	var refusal *rpc.Refusal
	switch {
	case errors.As(u.err, &refusal):
		why = refusal.Text
	case errors.Is(u.err, rpc.ErrAgain):
		why = "that agent looks for the others, too"
	case errors.As(u.err, &name) && name.IsNotFound:
		why = "no such host"
	case errors.As(u.err, &no):
		why = no.Error()
	case errors.Is(u.err, context.DeadlineExceeded), errors.Is(u.err, os.ErrDeadlineExceeded):
		why = "no answer in time"
	}
	return u.addr + ": " + why
}
