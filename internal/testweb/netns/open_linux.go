package netns

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A Namespace is a network namespace with open sockets, in which a command can run.
type Namespace struct {
	// Sockets are open until Close, or until the caller closes them.
	Sockets Sockets
	// CA is the name of the file of the web's authority, which exists while the command runs.
	CA string

	cmd  *exec.Cmd
	conn *net.UnixConn // to Enter
	dir  string        // the files to mount
	done chan struct{} // closed when the process has ended
	over error         // of cmd.Wait; valid when done is closed
}

// The files in Namespace.dir.
const (
	caFile     = "ca.pem"
	mountsFile = "mounts.json" // maps files of the machine to names in the folder
)

// endPatience is how long a command may run after a SIGTERM, when the context of Run has ended.
const endPatience = 30 * time.Second

// Open makes the namespace and its sockets. If the system does not allow that, the error wraps ErrUnsupported.
func Open(cfg Config) (*Namespace, error) {
	// Root makes namespaces without a user namespace, so that the command keeps root's privileges. In a container root
	// may lack the capability for it.
	users := []bool{true}
	if os.Geteuid() == 0 {
		users = []bool{false, true}
	}
	var err error
	for _, user := range users {
		var n *Namespace
		if n, err = open(cfg, user); err == nil || !errors.Is(err, ErrUnsupported) {
			return n, err
		}
	}
	return nil, err
}

// open makes the namespace, inside a new user namespace if user is set.
func open(cfg Config, user bool) (_ *Namespace, err error) {
	n := &Namespace{done: make(chan struct{})}
	if n.dir, err = os.MkdirTemp("", "orbweaver-testweb-"); err != nil {
		return nil, err
	}
	n.CA = filepath.Join(n.dir, caFile)
	defer func() {
		if err != nil {
			n.Close()
		}
	}()
	if err := os.Chmod(n.dir, 0o755); err != nil { // the command may change its user
		return nil, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("socketpair: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "enter"), os.NewFile(uintptr(pair[1]), "enter")
	defer theirs.Close()
	c, err := net.FileConn(ours)
	ours.Close()
	if err != nil {
		return nil, err
	}
	n.conn = c.(*net.UnixConn)
	n.cmd = command(cfg, user, n.dir, n.CA)
	n.cmd.ExtraFiles = []*os.File{theirs}
	if err := n.cmd.Start(); err != nil {
		n.cmd = nil
		return nil, denied(err)
	}
	go func() {
		n.over = n.cmd.Wait()
		close(n.done)
	}()
	theirs.Close() // so that reads end when the process has ended
	return n, n.receive(len(cfg.Ports))
}

// command returns the process that calls Enter.
func command(cfg Config, user bool, dir, ca string) *exec.Cmd {
	ports := make([]string, len(cfg.Ports))
	for i, p := range cfg.Ports {
		ports[i] = strconv.Itoa(p)
	}
	args := slices.Clone(cfg.Enter)
	if len(cfg.Addrs) > 0 {
		addrs := make([]string, len(cfg.Addrs))
		for i, a := range cfg.Addrs {
			addrs[i] = a.String()
		}
		args = append(args, "--addrs="+strings.Join(addrs, ","))
	}
	args = append(args, strings.Join(ports, ","), dir, "--")
	args = append(args, cfg.Command...)
	cmd := &exec.Cmd{Path: "/proc/self/exe", Args: args, Env: Environ(cfg.Env, ca),
		Stdin: cfg.Stdin, Stdout: cfg.Stdout, Stderr: cfg.Stderr}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS}
	if !user {
		return cmd
	}
	a := cmd.SysProcAttr
	a.Cloneflags |= unix.CLONE_NEWUSER
	// The user keeps its number. Ambient capabilities outlive the exec, and hold in the new namespaces only.
	a.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
	a.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
	a.AmbientCaps = []uintptr{unix.CAP_NET_ADMIN, unix.CAP_NET_BIND_SERVICE, unix.CAP_SYS_ADMIN}
	return cmd
}

// denied wraps the errors by which a system says that it does not allow namespaces.
func denied(err error) error {
	for _, e := range []error{unix.EPERM, unix.EACCES, unix.EINVAL, unix.ENOSYS} {
		if errors.Is(err, e) {
			return fmt.Errorf("%w: %w", ErrUnsupported, e)
		}
	}
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EUSERS) { // clone(2): a limit of namespaces
		return fmt.Errorf("%w: a limit in /proc/sys/user is reached", ErrUnsupported)
	}
	return err
}

// A reply is what Enter says: an error, or the sockets that come with it.
type reply struct {
	Error  string `json:"error,omitempty"`
	Denied bool   `json:"denied,omitempty"` // the error means that the system does not allow it
}

func (r reply) err() error {
	switch {
	case r.Error == "":
		return nil
	case r.Denied:
		return fmt.Errorf("%w: %s", ErrUnsupported, r.Error)
	}
	return errors.New(r.Error)
}

// receive receives the sockets: one message for each TCP port, and two of the name server.
func (n *Namespace) receive(ports int) error {
	for i := range ports + 2 {
		f, err := n.receiveFile()
		if err != nil {
			return err
		}
		if i == ports+1 {
			n.Sockets.DNSUDP, err = net.FilePacketConn(f)
		} else {
			var l net.Listener
			if l, err = net.FileListener(f); err == nil && i < ports {
				n.Sockets.TCP = append(n.Sockets.TCP, l)
			} else if err == nil {
				n.Sockets.DNSTCP = l
			}
		}
		f.Close()
		if err != nil {
			return fmt.Errorf("socket of the namespace: %w", err)
		}
	}
	return nil
}

// socketMark is the byte that comes with each socket. Other messages are JSON.
const socketMark = 's'

func (n *Namespace) receiveFile() (*os.File, error) {
	var first [1]byte
	oob := make([]byte, unix.CmsgSpace(4))
	k, m, _, _, err := n.conn.ReadMsgUnix(first[:], oob)
	if err != nil || k == 0 {
		<-n.done
		return nil, fmt.Errorf("the process in the namespace ended: %w", errors.Join(err, n.over))
	}
	if first[0] != socketMark {
		rest, err := io.ReadAll(n.conn)
		return nil, errors.Join(err, parseReply(append(first[:], rest...)))
	}
	all, err := unix.ParseSocketControlMessage(oob[:m])
	if err != nil || len(all) != 1 {
		return nil, fmt.Errorf("no socket came from the namespace: %w", err)
	}
	fds, err := unix.ParseUnixRights(&all[0])
	if err != nil || len(fds) != 1 {
		return nil, fmt.Errorf("no socket came from the namespace: %w", err)
	}
	unix.CloseOnExec(fds[0])
	unix.SetNonblock(fds[0], true)
	return os.NewFile(uintptr(fds[0]), "socket"), nil
}

func parseReply(b []byte) error {
	var r reply
	if err := json.Unmarshal(b, &r); err != nil {
		return fmt.Errorf("the process in the namespace says %q", b)
	}
	return r.err()
}

// Run executes the command, which trusts the authority with the certificate ca (PEM), and blocks until it ends. It
// returns the exit code; 128 + N if signal N killed the command. Signals from the channel are passed on, except those
// that the terminal sends to the command itself. When ctx ends, the command gets SIGTERM, and SIGKILL 30 s later.
func (n *Namespace) Run(ctx context.Context, ca []byte, signals <-chan os.Signal) (code int, err error) {
	if err := n.writeFiles(ca); err != nil {
		return 0, err
	}
	if _, err := n.conn.Write([]byte{'\n'}); err != nil {
		return 0, err
	}
	// The other end closes when the command is executed. Otherwise it says why it is not.
	switch b, err := io.ReadAll(n.conn); {
	case err != nil:
		return 0, err
	case len(b) > 0:
		return 0, parseReply(b)
	}
	ended := ctx.Done()
	var kill <-chan time.Time
	for {
		select {
		case <-n.done:
			return exitCode(n.cmd, n.over)
		case s := <-signals:
			if (s == unix.SIGINT || s == unix.SIGQUIT) && inForeground() {
				continue
			}
			n.cmd.Process.Signal(s) // an error means that it has just ended
		case <-ended:
			ended = nil
			n.cmd.Process.Signal(unix.SIGTERM)
			kill = time.After(endPatience)
		case <-kill:
			n.cmd.Process.Kill()
		}
	}
}

func exitCode(cmd *exec.Cmd, err error) (int, error) {
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		return 0, err
	}
	if s := cmd.ProcessState.Sys().(syscall.WaitStatus); s.Signaled() {
		return 128 + int(s.Signal()), nil
	}
	return cmd.ProcessState.ExitCode(), nil
}

// inForeground reports whether the terminal sends its signals to this process, and so to its children as well.
func inForeground() bool {
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	defer tty.Close()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// writeFiles writes the files that Enter mounts. Files that the machine does not have cannot be replaced. Without them
// programs ask the name server at 127.0.0.1, and Environ names the authority.
func (n *Namespace) writeFiles(ca []byte) error {
	mounts := map[string]string{}
	write := func(name string, content []byte, targets ...string) error {
		for _, t := range targets {
			if info, err := os.Stat(t); err == nil && info.Mode().IsRegular() {
				mounts[t] = name
			}
		}
		return os.WriteFile(filepath.Join(n.dir, name), content, 0o644)
	}
	nsswitch, err := os.ReadFile("/etc/nsswitch.conf")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	for target, content := range resolverFiles(string(nsswitch), host) {
		if err := write(filepath.Base(target), []byte(content), target); err != nil {
			return err
		}
	}
	if err := write(caFile, ca, certFiles...); err != nil {
		return err
	}
	b, err := json.Marshal(mounts)
	if err != nil {
		return err
	}
	return write(mountsFile, b)
}

// Close closes the sockets, ends the process if Run was not called, and removes the files.
func (n *Namespace) Close() {
	n.Sockets.Close()
	if n.conn != nil {
		n.conn.Close()
	}
	if n.cmd != nil {
		<-n.done // without Run the process ends, because the connection is closed
	}
	os.RemoveAll(n.dir)
}
