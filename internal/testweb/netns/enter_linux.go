package netns

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// enterFD is the descriptor of the connection to the process that called Open.
const enterFD = 3

// nscd is the folder of a name service cache, which libc asks through a socket in the file system before it reads
// nsswitch.conf.
const nscd = "/run/nscd"

// Enter furnishes the namespaces of this process and executes the command in its place. addrs, ports, dir and command
// are the arguments that Open has appended, and env is the environment of this process. Enter returns only if that
// fails, or if the other process has ended. It tells that process the error.
func Enter(addrs []netip.Addr, ports []int, dir string, command, env []string) error {
	conn := os.NewFile(enterFD, "open")
	if conn == nil {
		return errors.New("this command is for the program's own use")
	}
	unix.CloseOnExec(enterFD)
	err := enter(conn, addrs, ports, dir, command, env)
	if err == nil {
		return nil
	}
	r := reply{Error: err.Error(), Denied: errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES)}
	b, merr := json.Marshal(r)
	_, werr := conn.Write(b)
	return errors.Join(merr, werr)
}

func enter(conn *os.File, addrs []netip.Addr, ports []int, dir string, command, env []string) error {
	if err := loopbackUp(addrs); err != nil {
		return fmt.Errorf("device lo: %w", err)
	}
	for _, p := range ports {
		if err := listen(conn, "0.0.0.0:"+strconv.Itoa(p)); err != nil {
			return err
		}
	}
	if err := listen(conn, "127.0.0.1:53"); err != nil {
		return err
	}
	udp, err := net.ListenPacket("udp4", "127.0.0.1:53")
	if err != nil {
		return err
	}
	if err := send(conn, udp.(*net.UDPConn)); err != nil {
		return err
	}
	if n, err := conn.Read(make([]byte, 1)); err != nil || n == 0 {
		return nil // the other process does not want the command any more
	}
	if err := mount(dir); err != nil {
		return err
	}
	// Capabilities belong to threads. Exec keeps those of its own thread.
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	if err := syscall.Exec(command[0], command, env); err != nil {
		return fmt.Errorf("%s: %w", command[0], err)
	}
	return nil
}

// loopbackUp starts the device lo and gives it further addresses.
func loopbackUp(addrs []netip.Addr) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo); err != nil {
		return err
	}
	for i, a := range addrs {
		alias, err := unix.NewIfreq("lo:" + strconv.Itoa(i)) // a label, by which the second call finds the address
		if err != nil {
			return err
		}
		mask := []byte{255, 255, 255, 255} // without it the device would have the whole network of the address
		if err := setAddr(fd, unix.SIOCSIFADDR, alias, a.AsSlice()); err != nil {
			return fmt.Errorf("address %s: %w", a, err)
		}
		if err := setAddr(fd, unix.SIOCSIFNETMASK, alias, mask); err != nil {
			return fmt.Errorf("address %s: %w", a, err)
		}
	}
	return nil
}

// setAddr makes a call of netdevice(7) that has an address.
func setAddr(fd int, call uint, device *unix.Ifreq, addr []byte) error {
	if err := device.SetInet4Addr(addr); err != nil {
		return err
	}
	return unix.IoctlIfreq(fd, call, device)
}

// listen opens a TCP socket and sends it to the other process.
func listen(conn *os.File, addr string) error {
	l, err := net.Listen("tcp4", addr)
	if err != nil {
		return err
	}
	return send(conn, l.(*net.TCPListener))
}

// send sends a socket to the other process, and closes it here.
func send(conn *os.File, socket interface {
	File() (*os.File, error)
	Close() error
}) error {
	f, err := socket.File()
	if err != nil {
		return err
	}
	defer socket.Close()
	defer f.Close()
	return unix.Sendmsg(int(conn.Fd()), []byte{socketMark}, unix.UnixRights(int(f.Fd())), nil, 0)
}

// mount mounts the files of the folder over those of the machine, in this mount namespace only.
func mount(dir string) error {
	b, err := os.ReadFile(filepath.Join(dir, mountsFile))
	if err != nil {
		return err
	}
	var mounts map[string]string
	if err := json.Unmarshal(b, &mounts); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("private mounts: %w", err)
	}
	targets := slices.Sorted(maps.Keys(mounts))
	for _, t := range targets {
		if err := unix.Mount(filepath.Join(dir, mounts[t]), t, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mount over %s: %w", t, err)
		}
	}
	if _, err := os.Stat(nscd); err == nil {
		if err := unix.Mount("tmpfs", nscd, "tmpfs", 0, "size=4k"); err != nil {
			return fmt.Errorf("mount over %s: %w", nscd, err)
		}
	}
	return nil
}
