//go:build linux

package e2e

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// A wire is a network in this process. It reads the packets of a place from a TUN device and writes
// them to the device of their destination: at once, later, or never. So loss, latency and
// partitions need no support of the kernel.
//
// Places have addresses of 10.77.0.0/24. 127.0.0.0/8 except 127.0.0.1 belongs to the web's place,
// so that a testweb keeps its hosts' addresses.
type wire struct {
	places []*place // the web's is the first
	rule   atomic.Pointer[func(from, to int) path]
	heard  atomic.Pointer[func(packet []byte)] // nil: no tap
	seed   uint64

	mu      sync.Mutex // guards the fields below
	rng     *rand.Rand
	late    map[[2]int]chan delayed
	stopped bool

	over    chan struct{}
	running sync.WaitGroup

	carried, lost atomic.Int64 // packets
}

// A path says how packets get from one place to another.
type path struct {
	cut     bool
	loss    float64
	latency time.Duration
}

type delayed struct {
	at     time.Time
	packet []byte
}

// lateMost bounds the delayed packets between two places; more are lost, as in a router.
const lateMost = 4096

// A place is a network namespace without a name. It ends with its last process and socket, so a
// killed test leaves nothing behind.
type place struct {
	addr netip.Addr
	do   chan func() // run by the thread in the namespace
	tun  *os.File
}

// canStory returns what this machine lacks for stories, or "" if it lacks nothing.
func canStory() string {
	if os.Geteuid() != 0 {
		return "root, for network namespaces"
	}
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		return "TUN devices: " + err.Error()
	}
	if _, err := exec.LookPath("ip"); err != nil {
		return "iproute2: " + err.Error()
	}
	return ""
}

// newWire returns a wire between a place for the web and a place for each agent.
func newWire(t *testing.T, agents int, seed uint64) *wire {
	t.Helper()
	if lack := canStory(); lack != "" {
		missing(t, lack)
	}
	w := &wire{seed: seed, rng: rand.New(rand.NewPCG(seed, 0x77697265)), late: map[[2]int]chan delayed{},
		over: make(chan struct{})}
	w.follow(func(int, int) path { return path{} })
	t.Cleanup(w.close)
	for i := range agents + 1 {
		p, err := newPlace(netip.AddrFrom4([4]byte{10, 77, 0, byte(1 + i)}), i == 0)
		if err != nil {
			t.Fatalf("place %d: %v", i, err)
		}
		w.places = append(w.places, p)
	}
	for i := range w.places {
		w.running.Go(func() { w.carry(i) })
	}
	return w
}

func newPlace(addr netip.Addr, web bool) (*place, error) {
	p := &place{addr: addr, do: make(chan func())}
	made := make(chan error)
	go func() {
		// The thread stays locked: it ends with the goroutine, because no other goroutine could use
		// a thread in another namespace.
		runtime.LockOSThread()
		err := unix.Unshare(unix.CLONE_NEWNET)
		made <- err
		if err != nil {
			return
		}
		for f := range p.do {
			f()
		}
	}()
	if err := <-made; err != nil {
		return nil, fmt.Errorf("unshare: %w", err)
	}
	var err error
	p.within(func() { err = p.furnish(web) })
	return p, err
}

// within runs f on the thread in the place. Sockets that f opens and processes that f starts are in
// the place.
func (p *place) within(f func()) {
	done := make(chan struct{})
	p.do <- func() { defer close(done); f() }
	<-done
}

// furnish gives the place its device and its routes.
func (p *place) furnish(web bool) error {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	ifr, err := unix.NewIfreq("wire")
	if err != nil {
		return err
	}
	ifr.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, ifr); err != nil {
		return fmt.Errorf("TUNSETIFF: %w", err)
	}
	p.tun = os.NewFile(uintptr(fd), "tun") // not before: an idle device cannot be polled
	// Pages arrive in one piece. Between agents packets have the usual size.
	setup := []string{
		"link set lo up",
		"address add " + p.addr.String() + "/32 dev wire",
		"link set wire mtu 65520 up",
	}
	if web {
		setup = append(setup, "route add 10.77.0.0/24 dev wire")
	} else {
		setup = append(setup,
			"route add 10.77.0.0/24 dev wire mtu 1500 advmss 1460 src "+p.addr.String(),
			"route delete table local local 127.0.0.0/8 dev lo",
			"route add 127.0.0.0/8 dev wire src "+p.addr.String())
	}
	for _, name := range []string{"all/route_localnet", "wire/route_localnet"} {
		if err := os.WriteFile("/proc/sys/net/ipv4/conf/"+name, []byte("1"), 0o644); err != nil {
			return err
		}
	}
	for _, name := range []string{"all/rp_filter", "wire/rp_filter"} {
		if err := os.WriteFile("/proc/sys/net/ipv4/conf/"+name, []byte("0"), 0o644); err != nil {
			return err
		}
	}
	for _, line := range setup {
		if out, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", line, err, out)
		}
	}
	return nil
}

// start starts a process in the place. The process ends with the place.
func (p *place) start(cmd *exec.Cmd) (err error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.within(func() { err = cmd.Start() })
	return err
}

// follow applies rule to all packets from now on. Place 0 is the web's.
func (w *wire) follow(rule func(from, to int) path) { w.rule.Store(&rule) }

func (w *wire) close() {
	w.mu.Lock()
	w.stopped = true
	w.mu.Unlock()
	close(w.over)
	for _, p := range w.places {
		p.tun.Close()
		close(p.do)
	}
	w.running.Wait()
}

// carry forwards the packets of one place.
func (w *wire) carry(from int) {
	b := make([]byte, 1<<16)
	for {
		n, err := w.places[from].tun.Read(b)
		if err != nil {
			return
		}
		to, ok := w.placeOf(b[:n])
		if !ok || to == from {
			continue
		}
		if hear := w.heard.Load(); hear != nil {
			(*hear)(b[:n])
		}
		switch p := (*w.rule.Load())(from, to); {
		case p.cut || p.loss > 0 && w.chance() < p.loss:
			w.lost.Add(1)
		case p.latency > 0:
			w.delay(from, to, p.latency, b[:n])
		default:
			w.carried.Add(1)
			w.places[to].tun.Write(b[:n]) // a full queue drops it
		}
	}
}

// placeOf returns the destination of an IPv4 packet.
func (w *wire) placeOf(packet []byte) (int, bool) {
	if len(packet) < 20 || packet[0]>>4 != 4 {
		return 0, false
	}
	to := netip.AddrFrom4([4]byte(packet[16:20]))
	if to.IsLoopback() {
		return 0, true
	}
	for i, p := range w.places {
		if p.addr == to {
			return i, true
		}
	}
	return 0, false
}

func (w *wire) chance() float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rng.Float64()
}

// delay delivers a packet later, behind those before it.
func (w *wire) delay(from, to int, by time.Duration, packet []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return
	}
	way := w.late[[2]int{from, to}]
	if way == nil {
		way = make(chan delayed, lateMost)
		w.late[[2]int{from, to}] = way
		w.running.Go(func() {
			for {
				select {
				case d := <-way:
					select {
					case <-time.After(time.Until(d.at)):
					case <-w.over:
						return
					}
					w.carried.Add(1)
					w.places[to].tun.Write(d.packet)
				case <-w.over:
					return
				}
			}
		})
	}
	select {
	case way <- delayed{time.Now().Add(by), append([]byte(nil), packet...)}:
	default:
		w.lost.Add(1)
	}
}

// The wire itself is tested: a packet arrives, late, sometimes or never, by its rule.
func TestWire(t *testing.T) {
	w := newWire(t, 2, 1)
	var l net.Listener
	var err error
	w.places[1].within(func() { l, err = net.Listen("tcp4", w.places[1].addr.String()+":0") })
	must.Do(t, err)
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); io.Copy(c, c) }()
		}
	}()
	// echo returns the round-trip time of a text.
	echo := func() (took time.Duration, err error) {
		began := time.Now()
		var c net.Conn
		w.places[2].within(func() { c, err = net.DialTimeout("tcp4", l.Addr().String(), 2*time.Second) })
		if err != nil {
			return 0, err
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(20 * time.Second))
		text := bytes.Repeat([]byte("0123456789abcdef"), 4096)
		go c.Write(text)
		got := make([]byte, len(text))
		if _, err := io.ReadFull(c, got); err != nil {
			return 0, err
		}
		if !bytes.Equal(got, text) {
			t.Error("another text came back")
		}
		return time.Since(began), nil
	}
	if took, err := echo(); err != nil {
		t.Fatalf("%v after %v; %d packets, %d lost", err, took, w.carried.Load(), w.lost.Load())
	}
	w.follow(func(int, int) path { return path{latency: 60 * time.Millisecond} })
	if took, err := echo(); err != nil || took < 240*time.Millisecond { // connect, then the text
		t.Errorf("with 60 ms each way: %v, %v", took, err)
	}
	w.follow(func(int, int) path { return path{loss: 0.2} })
	if _, err := echo(); err != nil || w.lost.Load() == 0 {
		t.Errorf("with losses: %v, %d lost", err, w.lost.Load())
	}
	w.follow(func(int, int) path { return path{cut: true} })
	if _, err := echo(); err == nil {
		t.Error("a cut wire carries")
	}
	w.follow(func(int, int) path { return path{} })
	if _, err := echo(); err != nil {
		t.Errorf("healed: %v", err)
	}
}
