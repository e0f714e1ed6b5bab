package node

import (
	"context"
	"errors"
	"fmt"
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

// Vacant returns an error, a disk.ErrLocked, if a process has the crawl directory open. It changes nothing in dir.
func Vacant(dir string) error {
	pid, err := CrawledBy(dir)
	if err != nil || pid == 0 {
		return nil // to open the crawl finds out the rest
	}
	if pid == os.Getpid() {
		return &busyError{fmt.Sprintf("%s is being crawled by this process; wait until it has closed the crawl, "+
			"or choose another directory", dir)}
	}
	text := fmt.Sprintf("%s is being crawled by process %d", dir, pid)
	if _, err := os.Stat(filepath.Join(dir, APIFile)); err == nil {
		return &busyError{text + "; use \"orbweaver ctl\" to see and control it, or choose another --dir"}
	}
	return &busyError{fmt.Sprintf("%s; stop it with \"kill %d\", or choose another --dir", text, pid)}
}

// vacant returns an error if another process has the crawl directory open.
func (a *Agent) vacant() error {
	if a.cfg.FS != disk.OS {
		return nil // only the machine's files tell the process; a.fs.Lock finds out the rest
	}
	return Vacant(a.cfg.Dir)
}

// denied turns an error of the crawl directory dir into a *ConfigError if the file system refuses the access, and
// leaves all others as they are.
func denied(dir string, err error) error {
	if text, ok := disk.Refusal(dir, err); ok {
		return configErrorf("--dir %s: %s", dir, text)
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

func (u *unanswered) Error() string { return u.addr + ": " + u.why() }

func (u *unanswered) why() string {
	why := called.ReplaceAllString(u.err.Error(), "")
	var no syscall.Errno
	var name *net.DNSError
	var refusal *rpc.Refusal
	switch {
	case errors.As(u.err, &refusal):
		why = refusal.Text
	case errors.Is(u.err, rpc.ErrAgain):
		why = "that agent looks for the others, too"
	case rpc.Lasting(u.err) != nil && !errors.Is(u.err, rpc.ErrRejected):
		why = rpc.Lasting(u.err).Error()
	case errors.Is(u.err, rpc.ErrSilent):
		why = rpc.ErrSilent.Error()
	case errors.Is(u.err, rpc.ErrHungUp):
		why = rpc.ErrHungUp.Error()
	case errors.As(u.err, &name) && name.IsNotFound:
		why = "no such host"
	case errors.As(u.err, &no):
		why = no.Error()
	case errors.Is(u.err, context.DeadlineExceeded), errors.Is(u.err, os.ErrDeadlineExceeded):
		why = "no answer in time"
	}
	return why
}

// joinRemedy returns what the operator can do about an error that lasts, with a semicolon in front.
func joinRemedy(err error) string {
	_, foreign := errors.AsType[*rpc.ForeignError](err)
	switch {
	case foreign:
		return "; give the address of an agent's --listen"
	case errors.Is(err, rpc.ErrStranger):
		return "; give both agents keys that one \"orbweaver cluster keys\" made"
	case errors.Is(err, rpc.ErrKeysThere), errors.Is(err, rpc.ErrKeysHere):
		return "; give --keys to all agents"
	}
	return ""
}
