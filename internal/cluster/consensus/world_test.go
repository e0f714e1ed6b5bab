package consensus

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A wire connects machines in virtual time. Data arrives in order after the latency. While a direction is cut, it
// waits, as a stream that repeats its segments.
type wire struct {
	mu      sync.Mutex // guards the fields below
	latency time.Duration
	cut     map[string]bool // "from to"
	ends    map[string]*end
}

func newWire(latency time.Duration) *wire {
	return &wire{latency: latency, cut: map[string]bool{}, ends: map[string]*end{}}
}

// part cuts all lines between the machine a and the others, or restores them.
func (w *wire) part(cut bool, a string, others ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, b := range others {
		if a != b {
			w.cut[a+" "+b], w.cut[b+" "+a] = cut, cut
		}
	}
}

func (w *wire) isCut(from, to string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cut[from+" "+to]
}

// An end is a machine's Network.
type end struct {
	w        *wire
	addr     string
	incoming chan net.Conn
	gone     chan struct{}
	once     sync.Once

	mu    sync.Mutex // guards conns
	conns []*pipe
}

// machine connects a machine. It replaces an earlier one with the address.
func (w *wire) machine(addr string) *end {
	e := &end{w: w, addr: addr, incoming: make(chan net.Conn, 64), gone: make(chan struct{})}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ends[addr] = e
	return e
}

func (e *end) Accept() (net.Conn, error) {
	select {
	case c := <-e.incoming:
		return c, nil
	case <-e.gone:
		return nil, net.ErrClosed
	}
}

func (e *end) Close() error {
	e.once.Do(func() { close(e.gone) })
	return nil
}

// vanish resets all connections of the machine.
func (e *end) vanish() {
	e.Close()
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, p := range e.conns {
		p.end(net.ErrClosed)
		p.peer.end(io.ErrUnexpectedEOF)
	}
}

func (e *end) Dial(ctx context.Context, addr string) (net.Conn, error) {
	for {
		sleep(ctx, 2*e.w.latency+time.Millisecond)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if !e.w.isCut(e.addr, addr) && !e.w.isCut(addr, e.addr) {
			break
		}
	}
	e.w.mu.Lock()
	to := e.w.ends[addr]
	e.w.mu.Unlock()
	if to == nil {
		return nil, errors.New("refused")
	}
	ours, theirs := &pipe{w: e.w, from: e.addr, to: addr}, &pipe{w: e.w, from: addr, to: e.addr}
	ours.cond.L, theirs.cond.L, ours.peer, theirs.peer = &ours.mu, &theirs.mu, theirs, ours
	select {
	case <-to.gone:
		return nil, errors.New("refused")
	case to.incoming <- theirs:
	}
	for m, p := range map[*end]*pipe{e: ours, to: theirs} {
		m.mu.Lock()
		m.conns = append(m.conns, p)
		m.mu.Unlock()
	}
	return ours, nil
}

// A pipe is one side of a connection.
type pipe struct {
	w        *wire
	from, to string
	peer     *pipe

	mu    sync.Mutex // guards the fields below
	cond  sync.Cond
	out   []piece // on their way to the peer
	in    []byte
	err   error // after in
	until time.Time
	alarm *time.Timer
}

// A piece is data, or the end of it.
type piece struct {
	b   []byte
	err error
}

func (p *pipe) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.in) == 0 && p.err == nil {
		if !p.until.IsZero() && !time.Now().Before(p.until) {
			return 0, os.ErrDeadlineExceeded
		}
		p.cond.Wait()
	}
	if len(p.in) == 0 {
		return 0, p.err
	}
	n := copy(b, p.in)
	p.in = p.in[n:]
	return n, nil
}

func (p *pipe) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return 0, p.err
	}
	p.send(piece{b: bytes.Clone(b)})
	return len(b), nil
}

// send puts g on its way. The caller holds mu.
func (p *pipe) send(g piece) {
	p.out = append(p.out, g)
	time.AfterFunc(p.w.latency, p.deliver)
}

// deliver gives the peer the oldest segment. Each segment has one call.
func (p *pipe) deliver() {
	if p.w.isCut(p.from, p.to) {
		time.AfterFunc(100*time.Millisecond, p.deliver)
		return
	}
	p.mu.Lock()
	g := p.out[0]
	p.out = p.out[1:]
	p.mu.Unlock()
	if g.err != nil {
		p.peer.end(g.err)
		return
	}
	p.peer.mu.Lock()
	defer p.peer.mu.Unlock()
	if p.peer.err == nil {
		p.peer.in = append(p.peer.in, g.b...)
		p.peer.cond.Broadcast()
	}
}

func (p *pipe) end(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = err
		p.cond.Broadcast()
	}
}

func (p *pipe) Close() error {
	p.end(net.ErrClosed)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.send(piece{err: io.EOF})
	if p.alarm != nil {
		p.alarm.Stop()
	}
	return nil
}

func (p *pipe) SetReadDeadline(t time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.until = t
	if p.alarm != nil {
		p.alarm.Stop()
	}
	if !t.IsZero() {
		p.alarm = time.AfterFunc(time.Until(t), func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.cond.Broadcast()
		})
	}
	return nil
}

func (p *pipe) SetDeadline(t time.Time) error    { return p.SetReadDeadline(t) }
func (p *pipe) SetWriteDeadline(time.Time) error { return nil } // writing never blocks
func (p *pipe) LocalAddr() net.Addr              { return address(p.from) }
func (p *pipe) RemoteAddr() net.Addr             { return address(p.to) }

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

// A member is a machine of the group with its disk.
type member struct {
	t     *testing.T
	w     *wire
	addr  string
	all   []string
	mem   *testdisk.Mem
	hook  func(testdisk.Call) testdisk.Fault
	stall atomic.Int64 // how long the next sync takes

	end   *end
	fs    *testdisk.Faulty
	book  *book
	node  *Node
	judge *judge

	mu     sync.Mutex // guards events
	events []string
}

// open starts the member on its disk.
func (m *member) open() error {
	m.end = m.w.machine(m.addr)
	m.fs = testdisk.NewFaulty(m.mem, m.hook)
	m.book = &book{who: m.addr, judge: m.judge}
	cfg := Config{FS: m.fs, Dir: "d/raft", Members: m.all, Self: m.addr, Network: m.end, Machine: m.book, Event: m.note}
	cfg.FS, cfg.SnapshotBytes, cfg.SegmentBytes = slowDisk{m.fs, &m.stall}, 3<<10, 1<<10
	var err error
	m.node, err = Open(cfg)
	return err
}

func (m *member) start() {
	m.t.Helper()
	if err := m.open(); err != nil {
		m.t.Fatalf("open %s: %v", m.addr, err)
	}
}

func (m *member) note(name string, fields ...any) {
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
func (m *member) kill() { m.replace(m.mem.Clone()) }

// lose ends the member as a power failure does.
func (m *member) lose(seed uint64) { m.replace(m.mem.Crash(seed)) }

func (m *member) replace(left *testdisk.Mem) {
	m.fs.Break(testdisk.FailFrom(0, errors.New("off")))
	m.end.vanish()
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
		all = append(all, fmt.Sprintf("m%d:1", i+1))
	}
	for _, a := range all {
		mem := testdisk.NewMem()
		if err := errors.Join(mem.MkdirAll("d", 0o755), mem.SyncDir(".")); err != nil {
			t.Fatal(err)
		}
		g.members = append(g.members, &member{t: t, w: g.w, addr: a, all: all, mem: mem, judge: g.judge})
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
