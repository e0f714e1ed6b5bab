package gossip

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/orbweaver/orbweaver/internal/clock"
)

// maxPacket is the largest packet of UDP.
const maxPacket = 64 << 10

// A transport is memberlist's access to the network of the Config. It opens and closes no sockets:
// the caller of Open owns them.
type transport struct {
	config  *Config
	self    netip.AddrPort
	began   time.Time
	ctx     context.Context
	stop    context.CancelFunc
	packets chan *memberlist.Packet
	streams chan net.Conn
	heard   *hearing
	wg      sync.WaitGroup
}

var _ memberlist.NodeAwareTransport = (*transport)(nil)

func newTransport(cfg *Config, self netip.AddrPort, heard *hearing) *transport {
	t := &transport{config: cfg, self: self, began: time.Now(), packets: make(chan *memberlist.Packet),
		streams: make(chan net.Conn), heard: heard}
	t.ctx, t.stop = context.WithCancel(context.Background())
	t.wg.Go(t.receive)
	t.wg.Go(t.accept)
	return t
}

func (t *transport) receive() {
	b := make([]byte, maxPacket)
	for {
		n, from, err := t.config.Packets.ReadFrom(b)
		if t.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			// On some systems a refused packet shows as an error here. Reading goes on.
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				clock.Pause(t.ctx, 10*time.Millisecond)
			}
			continue
		}
		if n == 0 {
			continue
		}
		// This comes before the packet can be answered.
		t.heard.note(from)
		p := &memberlist.Packet{Buf: append([]byte(nil), b[:n]...), From: from, Timestamp: t.began} // see pings
		select {
		case t.packets <- p:
		case <-t.ctx.Done():
			return
		}
	}
}

func (t *transport) accept() {
	for {
		conn, err := t.config.Streams.Accept()
		if err != nil {
			if t.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			clock.Pause(t.ctx, 10*time.Millisecond)
			continue
		}
		conn = t.own(conn)
		select {
		case t.streams <- conn:
		case <-t.ctx.Done():
			conn.Close()
			return
		}
	}
}

// FinalAdvertiseAddr returns Config.Advertise.
func (t *transport) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return net.IP(t.self.Addr().AsSlice()), int(t.self.Port()), nil
}

// WriteTo sends a packet.
func (t *transport) WriteTo(b []byte, addr string) (time.Time, error) {
	to, err := netip.ParseAddrPort(addr)
	if err != nil {
		return time.Time{}, err
	}
	_, err = t.config.Packets.WriteTo(b, net.UDPAddrFromAddrPort(to))
	return time.Now(), err
}

// WriteToAddress sends a packet.
func (t *transport) WriteToAddress(b []byte, addr memberlist.Address) (time.Time, error) {
	return t.WriteTo(b, addr.Addr)
}

// PacketCh returns the channel of incoming packets.
func (t *transport) PacketCh() <-chan *memberlist.Packet { return t.packets }

// DialTimeout opens a stream to any agent at an address.
func (t *transport) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	return t.DialAddressTimeout(memberlist.Address{Addr: addr}, timeout)
}

// DialAddressTimeout opens a stream to the agent with a known name. Dial refuses any other agent.
func (t *transport) DialAddressTimeout(addr memberlist.Address, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(t.ctx, timeout)
	defer cancel()
	conn, err := t.config.Calls.Dial(ctx, addr.Addr, addr.Name)
	if err != nil {
		return nil, err
	}
	return t.own(conn), nil
}

// own makes a stream end with the transport. Otherwise memberlist would wait for it.
func (t *transport) own(conn net.Conn) net.Conn {
	return &owned{conn, context.AfterFunc(t.ctx, func() { conn.Close() })}
}

type owned struct {
	net.Conn
	stop func() bool
}

func (o *owned) Close() error {
	o.stop()
	return o.Conn.Close()
}

// StreamCh returns the channel of incoming streams.
func (t *transport) StreamCh() <-chan net.Conn { return t.streams }

// Shutdown returns when all readers have ended.
func (t *transport) Shutdown() error {
	t.stop()
	// The sockets belong to the caller and stay open. Only the read is interrupted.
	t.config.Packets.SetReadDeadline(time.Unix(1, 0))
	err := t.config.Streams.Close()
	t.wg.Wait()
	return err
}
