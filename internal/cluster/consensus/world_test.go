package consensus

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/simnet"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A wire is the network of a group. Machines can be cut off from all others.
type wire struct {
	*simnet.Network
	mu    sync.Mutex // guards apart
	apart map[int]bool
}

func newWire(latency time.Duration) *wire {
	w := &wire{Network: simnet.New(1), apart: map[int]bool{}}
	w.Follow(func(from, to int) simnet.Path {
		w.mu.Lock()
		defer w.mu.Unlock()
		return simnet.Path{Latency: latency, Cut: w.apart[from] || w.apart[to]}
	})
	return w
}

// A port is a member's Network.
type port struct {
	*simnet.Machine
	net.Listener
}

// port connects a machine, which listens on addr. It replaces an earlier one with the address.
func (w *wire) port(number int, addr string) (port, error) {
	m := w.Machine(number, netip.MustParseAddrPort(addr).Addr())
	streams, _, err := m.Listen(addr)
	return port{m, streams}, err
}

func (p port) Dial(ctx context.Context, addr string) (net.Conn, error) {
	return p.Machine.Dial(ctx, "tcp", addr)
}

// part cuts the member off from all others, or connects it again.
func (m *member) part(cut bool) {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	m.w.apart[m.number] = cut
}

// A judge knows what was committed. It fails if two members apply different commands at an index.
type judge struct {
	mu       sync.Mutex // guards the fields below
	applied  map[uint64]string
	acked    map[string]uint64 // commands whose Propose succeeded
	problems []string
}

func newJudge() *judge { return &judge{applied: map[uint64]string{}, acked: map[string]uint64{}} }

func (j *judge) apply(who string, index uint64, command string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if was, ok := j.applied[index]; ok && was != command {
		p := fmt.Sprintf("%s applies %q at %d; %q was applied there", who, command, index, was)
		j.problems = append(j.problems, p)
	}
	j.applied[index] = command
}

func (j *judge) ack(command string, index uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.acked[command] = index
}

// check compares the books of members, which have applied everything, with what was acknowledged.
func (j *judge) check(t *testing.T, books ...*book) {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, p := range j.problems {
		t.Error(p)
	}
	for _, b := range books {
		has := map[string]uint64{}
		for _, l := range b.all() {
			if _, twice := has[l.Command]; twice {
				t.Errorf("%s has %q twice", b.who, l.Command)
			}
			has[l.Command] = l.Index
		}
		for c, i := range j.acked {
			if has[c] != i {
				t.Errorf("%s has %q at %d; it was acknowledged at %d", b.who, c, has[c], i)
			}
		}
	}
}

// A book is a Machine that keeps all commands.
type book struct {
	who   string
	judge *judge

	mu    sync.Mutex // guards lines
	lines []bookLine
}

type bookLine struct {
	Index   uint64
	Command string
}

func (b *book) all() []bookLine {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.lines)
}

func (b *book) Apply(index uint64, command []byte) any {
	b.judge.apply(b.who, index, string(command))
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := len(b.lines); n > 0 && b.lines[n-1].Index >= index {
		b.judge.apply(b.who, index, fmt.Sprintf("%s after %d", command, b.lines[n-1].Index))
	}
	b.lines = append(b.lines, bookLine{index, string(command)})
	return index
}

func (b *book) Snapshot() (Snapshot, error) { return bookView(b.all()), nil }

func (b *book) Restore(r io.Reader) error {
	var lines []bookLine
	if err := gob.NewDecoder(r).Decode(&lines); err != nil {
		return err
	}
	for _, l := range lines {
		b.judge.apply(b.who, l.Index, l.Command)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines = lines
	return nil
}

type bookView []bookLine

func (v bookView) Write(w io.Writer) error { return gob.NewEncoder(w).Encode([]bookLine(v)) }
func (v bookView) Release()                {}

// A member is a machine of the group with its disk. It implements Events.
type member struct {
	t      *testing.T
	w      *wire
	number int
	addr   string
	all    []string
	mem    *testdisk.Mem
	hook   func(testdisk.Call) testdisk.Fault
	stall  atomic.Int64 // how long the next sync takes

	machine *simnet.Machine
	fs      *testdisk.Faulty
	book    *book
	node    *Node
	judge   *judge

	mu     sync.Mutex // guards events
	events []string
}

// open starts the member on its disk.
func (m *member) open() error {
	network, err := m.w.port(m.number, m.addr)
	if err != nil {
		return err
	}
	m.machine = network.Machine
	m.fs = testdisk.NewFaulty(m.mem, m.hook)
	m.book = &book{who: m.addr, judge: m.judge}
	cfg := Config{FS: slowDisk{m.fs, &m.stall}, Dir: "d/raft", Members: m.all, Self: m.addr, Network: network,
		Machine: m.book, Events: m, SnapshotBytes: 3 << 10, SegmentBytes: 1 << 10}
	m.node, err = Open(cfg)
	return err
}

func (m *member) start() {
	m.t.Helper()
	if err := m.open(); err != nil {
		m.t.Fatalf("open %s: %v", m.addr, err)
	}
}

func (m *member) Event(name string, fields ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.events = append(m.events, strings.TrimSpace(fmt.Sprintln(append([]any{name}, fields...)...)))
}

func (m *member) noted(name string) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.events {
		if len(e) >= len(name) && e[:len(name)] == name {
			n++
		}
	}
	return n
}

// kill ends the member as a kill of its process does: everything that was written stays.
func (m *member) kill() { m.replace(m.mem.Clone(), (*simnet.Machine).Kill) }

// lose ends the member as a power failure does.
func (m *member) lose(seed uint64) { m.replace(m.mem.Crash(seed), (*simnet.Machine).Vanish) }

func (m *member) replace(left *testdisk.Mem, off func(*simnet.Machine)) {
	m.fs.Break(testdisk.FailFrom(0, errors.New("off")))
	off(m.machine)
	if m.node != nil {
		_ = m.node.Close() // the failure that Break makes is possible
	}
	m.node, m.mem, m.hook = nil, left, nil
}

// stop ends the member properly.
func (m *member) stop() {
	m.t.Helper()
	if m.node == nil {
		return
	}
	if err := m.node.Close(); err != nil {
		m.t.Errorf("close %s: %v", m.addr, err)
	}
	m.node = nil
}

// A group is a set of members, and a judge.
type group struct {
	t       *testing.T
	w       *wire
	judge   *judge
	members []*member
	n       int
}

func newGroup(t *testing.T, size int, latency time.Duration) *group {
	g := &group{t: t, w: newWire(latency), judge: newJudge()}
	var all []string
	for i := range size {
		all = append(all, fmt.Sprintf("10.0.0.%d:1", i+1))
	}
	for i, a := range all {
		mem := testdisk.NewMem()
		must.Do(t, errors.Join(mem.MkdirAll("d", 0o755), mem.SyncDir(".")))
		m := &member{t: t, w: g.w, number: i + 1, addr: a, all: all, mem: mem, judge: g.judge}
		m.machine = m.w.Machine(m.number, netip.MustParseAddrPort(a).Addr()) // it refuses connections
		g.members = append(g.members, m)
	}
	t.Cleanup(func() { // after a failure
		for _, m := range g.members {
			if m.node != nil {
				m.kill()
			}
		}
	})
	return g
}

func (g *group) start() {
	g.t.Helper()
	for _, m := range g.members {
		m.start()
	}
}

func (g *group) stop() {
	g.t.Helper()
	for _, m := range g.members {
		m.stop()
	}
}

// within waits until ok, for at most d of virtual time.
func within(d time.Duration, ok func() bool) bool {
	for end := time.Now().Add(d); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// leader waits for a leader other than not.
func (g *group) leader(not ...*member) *member {
	g.t.Helper()
	var l *member
	if !within(time.Minute, func() bool { l = g.leading(not...); return l != nil }) {
		g.t.Fatal("no leader after a minute")
	}
	return l
}

func (g *group) leading(not ...*member) *member {
	for _, m := range g.members {
		if m.node == nil || slices.Contains(not, m) {
			continue
		}
		if _, self := m.node.Leader(); self {
			return m
		}
	}
	return nil
}

// propose proposes new commands at m until n of them are committed.
func (g *group) propose(m *member, n int) {
	g.t.Helper()
	for range n {
		if err := g.try(context.Background(), m, 40); err != nil {
			g.t.Fatalf("propose at %s: %v", m.addr, err)
		}
		time.Sleep(time.Millisecond) // what runs beside the commands gets its turn
	}
}

// try proposes one new command of about size bytes at m.
func (g *group) try(ctx context.Context, m *member, size int) error {
	g.judge.mu.Lock()
	g.n++
	c := fmt.Sprintf("%0*d", size, g.n)
	g.judge.mu.Unlock()
	r, err := m.node.Propose(ctx, []byte(c))
	if err == nil {
		g.judge.ack(c, r.(uint64))
	}
	return err
}

// agree waits until all running members have applied what was acknowledged, and checks them.
func (g *group) agree() {
	g.t.Helper()
	var books []*book
	for _, m := range g.members {
		if m.node == nil {
			continue
		}
		books = append(books, m.book)
		if !within(time.Minute, func() bool {
			g.judge.mu.Lock()
			defer g.judge.mu.Unlock()
			has := map[string]bool{}
			for _, l := range m.book.all() {
				has[l.Command] = true
			}
			for c := range g.judge.acked {
				if !has[c] {
					return false
				}
			}
			return true
		}) {
			g.t.Errorf("%s does not apply everything: %+v", m.addr, m.node.Status())
		}
	}
	g.judge.check(g.t, books...)
}

// A slowDisk is a disk whose syncs can take a while.
type slowDisk struct {
	disk.FS
	stall *atomic.Int64
}

func (d slowDisk) OpenFile(name string, flag int, perm fs.FileMode) (disk.File, error) {
	f, err := d.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return slowFile{f, d.stall}, nil
}

type slowFile struct {
	disk.File
	stall *atomic.Int64
}

func (f slowFile) Sync() error {
	time.Sleep(time.Duration(f.stall.Swap(0)))
	return f.File.Sync()
}
