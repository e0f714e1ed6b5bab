//go:build unix

package gossip

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
)

// These tests use processes on loopback, with real sockets and signals.

const (
	roleEnv = "ORBWEAVER_TEST_MEMBER" // name of the agent, then the address to join
	pace    = 100 * time.Millisecond
)

func TestMain(m *testing.M) {
	if role := os.Getenv(roleEnv); role != "" {
		child(strings.Fields(role))
		return
	}
	os.Exit(m.Run())
}

// opened returns a Member on free loopback ports.
func opened(name string) (*Member, func(), error) {
	var udp net.PacketConn
	var tcp net.Listener
	var err error
	for range 20 {
		if tcp, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return nil, nil, err
		}
		if udp, err = net.ListenPacket("udp", tcp.Addr().String()); err == nil {
			break
		}
		tcp.Close()
	}
	if err != nil {
		return nil, nil, err
	}
	addr := tcp.Addr().String()
	m, err := Open(Config{
		Self:      Agent{Name: name, Capacity: 1, Instance: [16]byte{1, name[len(name)-1]}, Boot: 1, Addr: addr},
		Advertise: netip.MustParseAddrPort(addr), Secret: []byte(strings.Repeat("s", 32)), Label: "test",
		Packets: udp, Streams: tcp, Interval: pace,
		Dial: func(ctx context.Context, addr, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", addr)
		},
		Hello: func(context.Context, string) error { return nil },
	})
	if err != nil {
		return nil, nil, err
	}
	return m, func() { m.Close(); udp.Close() }, nil
}

// child is a process that joins. It ends when its standard input ends.
func child(args []string) {
	m, end, err := opened(args[0])
	if err == nil {
		err = m.Join(context.Background(), args[1:])
	}
	if err == nil {
		m.Announce(context.Background(), Up)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("joined")
	bufio.NewReader(os.Stdin).ReadString('\n')
	end()
}

// TestProcesses: a stopped process is taken for dead, and comes back as the same agent when it
// continues. A killed process is dropped.
func TestProcesses(t *testing.T) {
	testtier.OnlySoak(t, "it waits on real clocks; TestFrozen and TestDeath tell the same in virtual time")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var ours []*Member
	for _, name := range []string{"a1", "a2"} {
		m, end, err := opened(name)
		if err != nil {
			t.Fatal(err)
		}
		defer end()
		var seeds []string
		for _, other := range ours {
			seeds = append(seeds, other.config.Self.Addr)
		}
		if err := m.Join(t.Context(), seeds); err != nil {
			t.Fatal(err)
		}
		if err := m.Announce(t.Context(), Up); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Log(err)
		}
		ours = append(ours, m)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), roleEnv+"=a3 "+ours[0].config.Self.Addr)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer sync.OnceFunc(func() { cmd.Process.Kill(); in.Close(); cmd.Wait() })()

	wait := func(what string, ok func(*View) bool) {
		t.Helper()
		begin := time.Now()
		for {
			done := true
			for _, m := range ours {
				done = done && ok(m.View())
			}
			if done {
				t.Logf("%s after %v", what, time.Since(begin).Round(10*time.Millisecond))
				return
			}
			if time.Since(begin) > 2*time.Minute {
				t.Fatalf("not %s: %v, %v", what, names(ours[0].View().Agents), names(ours[1].View().Agents))
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	all := func(v *View) bool {
		a, ok := v.Agent("a3")
		return ok && len(v.Agents) == 3 && len(v.Lost) == 0 && a.State == Up && a.Boot == 1
	}
	two := func(v *View) bool { return len(v.Agents) == 2 && len(v.Lost) == 1 && v.Lost[0].Name == "a3" }
	wait("three", all)
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	wait("without the one that is stopped", two)
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	wait("three again", all)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	wait("without the one that was killed", two)
	for _, m := range ours {
		select {
		case err := <-m.Failed():
			t.Error(err)
		default:
		}
	}
}
