package consensus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

const (
	// MaxCommand is the limit of a command in bytes.
	MaxCommand = 1 << 20
	// MaxMembers is the limit of a group.
	MaxMembers = 9

	// maxAppend bounds the entries in one call, and those that are written at once.
	maxAppend = 8
	// maxProposals bounds the commands under way.
	maxProposals = 64

	// heartbeatTimeout is how long a member waits for its leader. It then waits up to as long again, at random.
	heartbeatTimeout = time.Second
	// electionTimeout is how long a candidate waits for votes, and up to as long again.
	electionTimeout = time.Second
	// lease is how long a leader trusts the answers of a majority.
	lease = time.Second
	// rpcTimeout bounds a call from sending it to its answer, except calls with a large snapshot.
	rpcTimeout = 5 * time.Second
	// trailingLogs is how many entries a snapshot leaves, so that a member that is slightly behind needs no snapshot.
	trailingLogs = 128
)

// A Machine is the state that the members agree on. All members apply the same commands in the same order. Its
// methods are called from one goroutine at a time. They must not call methods of the Node that block.
type Machine interface {
	// Apply applies the committed command with this index. Indexes grow, but not all have a command. The result is
	// that of Propose at the member that proposed the command. Apply must not keep command.
	Apply(index uint64, command []byte) (result any)
	// Snapshot returns a fixed view of the state.
	Snapshot() (Snapshot, error)
	// Restore replaces the state with that of a snapshot. An error stops the node.
	Restore(r io.Reader) error
}

// A Snapshot is a view of a Machine's state that later calls of Apply do not change.
type Snapshot interface {
	// Write writes the state to w, beside calls of Apply. It must return the errors of w.
	Write(w io.Writer) error
	// Release is called once, after Write or instead of it.
	Release()
}

// Config says what a Node needs.
type Config struct {
	FS disk.FS
	// Dir is the directory of the node's files. Open makes it. The caller has it locked.
	Dir string
	// Members are the addresses of all members of the group, Self among them: the same list at each of them, in any
	// order. It never changes.
	Members []string
	// Self is this member's address.
	Self string
	// Network connects the members. The node closes it. A group of one needs none.
	Network Network
	Machine Machine
	Events  Events // nil drops them
	// SnapshotBytes is how much the log grows at least until the next snapshot. It also grows at least by the size of
	// the last one. Zero means 64 MiB.
	SnapshotBytes int64
	// SegmentBytes is the size at which a new file of the log begins. Zero means 8 MiB.
	SegmentBytes int64
}

// Errors of Propose and Verify, and of Open.
var (
	// ErrNotLeader means that another member leads, or nobody: the command has not been proposed.
	ErrNotLeader = errors.New("this coordinator does not lead")
	// ErrUnknown means that the command may be committed later, or never.
	ErrUnknown = errors.New("it is not known whether the command will be committed")
	// ErrStopped means that the node is closed or its disk has failed: the command has not been proposed.
	ErrStopped = errors.New("this coordinator has stopped")
	// ErrTooLarge means that the command has more than MaxCommand bytes.
	ErrTooLarge = errors.New("command too large")
	// ErrMembers means that Config.Members is not a valid list, or not that of the group in the directory.
	ErrMembers = errors.New("list of coordinators")
)

// A Node is a member of the group. Safe for concurrent use.
type Node struct {
	cfg       Config
	health    *health
	votes     *voteStore
	log       *logStore
	snapshots *snapshotStore
	layer     *layer
	// transport implements raft.Transport and raft.WithPreVote.
	transport *transport
	machine   *machine
	raft      atomic.Pointer[raft.Raft] // nil until this member takes part
	ready     atomic.Uint64             // the term in which this member leads and has applied all earlier entries

	ctx       context.Context // ends with Close or a failure
	cancel    context.CancelFunc
	changes   chan struct{}
	failures  chan error
	done      chan struct{} // everything has ended
	snapshot  chan struct{} // the log has grown
	verifying chan struct{} // one place, for the verification under way
	slots     chan struct{} // one for each proposal

	mu      sync.Mutex     // guards the fields below
	calls   sync.WaitGroup // of raft; Add only under mu, while closing is false
	closing bool
	next    *verification
	closed  error // the result of Close
}

// Events receives what a person may want to know.
type Events interface {
	// Event notes an event with pairs of names and values. It must not block. Safe for concurrent use.
	Event(name string, fields ...any)
}

type silent struct{}

func (silent) Event(string, ...any) {}

// Open opens the files of a member and lets it take part. If its directory is empty, it first asks the other members,
// in the background, and takes part when enough of them have answered: see the package comment.
func Open(cfg Config) (*Node, error) {
	cfg.Events = cmp.Or[Events](cfg.Events, silent{})
	cfg.SnapshotBytes = cmp.Or(cfg.SnapshotBytes, 64<<20)
	cfg.SegmentBytes = cmp.Or(cfg.SegmentBytes, 8<<20)
	if err := checkMembers(cfg.Members, cfg.Self); err != nil {
		return nil, err
	}
	if cfg.Network == nil && len(cfg.Members) > 1 {
		return nil, fmt.Errorf("%w: a group of %d needs a network", ErrMembers, len(cfg.Members))
	}
	cfg.Members = slices.Sorted(slices.Values(cfg.Members))
	n := &Node{
		cfg: cfg, health: newHealth(), changes: make(chan struct{}, 1), failures: make(chan error, 1),
		done: make(chan struct{}), snapshot: make(chan struct{}, 1), slots: make(chan struct{}, maxProposals),
		verifying: make(chan struct{}, 1),
	}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.machine = &machine{n}
	empty, err := n.openFiles()
	if err != nil {
		n.cancel()
		return nil, fmt.Errorf("open %s: %w", cfg.Dir, err)
	}
	n.listen()
	if empty && len(cfg.Members) == 1 {
		n.bootstrap()
		empty = false
	}
	if !empty {
		err = n.launch()
	}
	if err == nil {
		err = n.health.err()
	}
	if err != nil {
		n.shutdown()
		return nil, fmt.Errorf("open %s: %w", cfg.Dir, err)
	}
	go n.run(empty)
	return n, nil
}

func checkMembers(members []string, self string) error {
	switch {
	case len(members) == 0 || len(members) > MaxMembers:
		return fmt.Errorf("%w: it has %d addresses; give 1, 3 or 5, at most %d", ErrMembers, len(members), MaxMembers)
	case !slices.Contains(members, self):
		return fmt.Errorf("%w: %s is not among %s", ErrMembers, self, strings.Join(members, " "))
	}
	seen := map[string]bool{}
	for _, m := range members {
		if m == "" || seen[m] {
			return fmt.Errorf("%w: the address %q is there twice, or is empty", ErrMembers, m)
		}
		seen[m] = true
	}
	return nil
}

// openFiles reads the directory and restores the machine. empty reports that this member has never taken part.
func (n *Node) openFiles() (empty bool, err error) {
	fs, dir := n.cfg.FS, n.cfg.Dir
	if err := fs.MkdirAll(dir, 0o755); err != nil {
		return false, err
	}
	if err := fs.SyncDir(filepath.Dir(dir)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return false, err
	}
	if n.votes, err = openVotes(fs, dir, n.health); err != nil {
		return false, err
	}
	if n.log, err = openLog(fs, dir, n.cfg.SegmentBytes, n.health); err != nil {
		return false, err
	}
	n.snapshots = &snapshotStore{fs: fs, dir: dir, health: n.health, log: n.log,
		stopping: n.ctx.Done()}
	if err = n.openState(); err != nil {
		return false, errors.Join(err, n.log.close())
	}
	v := n.votes.get()
	index, _ := n.lastEntry()
	return index == 0 && v.term <= 1 && v.candidate == nil, nil
}

// openState brings the log and the newest snapshot together.
func (n *Node) openState() error {
	s := n.snapshots
	if err := errors.Join(s.clean(), s.prune()); err != nil {
		return err
	}
	metas, err := s.List()
	if err != nil {
		return err
	}
	var newest raft.SnapshotMeta
	if len(metas) > 0 {
		newest = *metas[0]
	}
	first, _ := n.log.FirstIndex()
	tail := n.log.tail()
	if first > newest.Index+1 {
		return &DamageError{segmentName(n.cfg.Dir, first), 0, fmt.Sprintf(
			"the log begins with entry %d; the entries from %d on are missing", first, newest.Index+1)}
	}
	if tail.index > 0 && (n.votes.get().term == 0 || tail.term > n.votes.get().term) {
		return &DamageError{n.votes.name, 0, fmt.Sprintf("it is older than the log, which has term %d", tail.term)}
	}
	// A snapshot of another member replaces a log that does not have its last entry.
	if tail.index > 0 && newest.Index > 0 && first <= newest.Index && n.log.term(newest.Index) != newest.Term {
		if err := n.log.DeleteRange(first, tail.index); err != nil {
			return err
		}
	}
	if err := n.checkGroup(newest); err != nil || newest.Index == 0 {
		return err
	}
	_, r, err := s.Open(newest.ID)
	if err != nil {
		return err
	}
	return errors.Join(n.machine.restore(r), r.Close())
}

// checkGroup compares the members with those on disk.
func (n *Node) checkGroup(newest raft.SnapshotMeta) error {
	has := newest.Configuration
	if newest.Index == 0 {
		var l raft.Log
		if err := n.log.GetLog(1, &l); errors.Is(err, raft.ErrLogNotFound) {
			return nil
		} else if err != nil || n.health.err() != nil {
			return errors.Join(err, n.health.err())
		}
		if l.Type != raft.LogConfiguration {
			return &DamageError{segmentName(n.cfg.Dir, 1), segmentHead, "the first entry is not the list of members"}
		}
		has = raft.DecodeConfiguration(l.Data) // cannot fail: the checksum is right
	}
	var members []string
	for _, s := range has.Servers {
		members = append(members, string(s.Address))
	}
	if slices.Sort(members); !slices.Equal(members, n.cfg.Members) {
		return fmt.Errorf("%w: the group in %s has %s, not %s; a group keeps its members: "+
			"give the former, or another directory",
			ErrMembers, n.cfg.Dir, strings.Join(members, " "), strings.Join(n.cfg.Members, " "))
	}
	return nil
}

// listen accepts connections of the other members.
func (n *Node) listen() {
	l := &layer{
		network: n.cfg.Network, self: n.cfg.Self, group: checksum([]byte(strings.Join(n.cfg.Members, "\n"))),
		most: maxConns * (len(n.cfg.Members) - 1), health: n.health, voter: n, events: n.cfg.Events,
		incoming: make(chan net.Conn), conns: map[*conn]struct{}{},
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	n.layer = l
	if l.network != nil {
		l.running.Add(1)
		go l.serve()
	}
}

// launch starts raft.
func (n *Node) launch() error {
	t := &transport{
		NetworkTransport: raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
			Stream: n.layer, MaxPool: 3, MaxRPCsInFlight: 1, Timeout: rpcTimeout, Logger: hclog.NewNullLogger(),
			MsgpackUseNewTimeFormat: true,
		}),
		self: n.cfg.Self, members: n.cfg.Members, encoded: n.configuration(),
		voter: n, events: n.cfg.Events,
	}
	t.start()
	n.transport = t
	r, err := raft.NewRaft(&raft.Config{
		ProtocolVersion: raft.ProtocolVersionMax, LocalID: raft.ServerID(n.cfg.Self),
		HeartbeatTimeout: heartbeatTimeout, ElectionTimeout: electionTimeout, LeaderLeaseTimeout: lease,
		CommitTimeout: 100 * time.Millisecond, MaxAppendEntries: maxAppend, TrailingLogs: trailingLogs,
		// The node asks for snapshots itself.
		SnapshotInterval: time.Hour, SnapshotThreshold: math.MaxUint64,
		// openState has restored the machine.
		NoSnapshotRestoreOnStart: true, NoLegacyTelemetry: true, Logger: hclog.NewNullLogger(),
	}, n.machine, n.log, n.votes, n.snapshots, t)
	if err != nil {
		return err
	}
	n.raft.Store(r)
	t.raft.Store(r)
	r.RegisterObserver(raft.NewObserver(nil, false, n.observe))
	if r.State() == raft.Leader { // before there was an observer
		n.prepare(r.CurrentTerm())
	}
	n.layer.mu.Lock()
	n.layer.ready = true
	n.layer.mu.Unlock()
	return nil
}

// run lets a new member find out how it starts, and waits for the end.
func (n *Node) run(empty bool) {
	var snapshots sync.WaitGroup
	snapshots.Go(n.takeSnapshots)
	if empty && n.settle() && n.health.err() == nil {
		if err := n.launch(); err != nil {
			n.health.fail(err)
		}
	}
	select {
	case <-n.ctx.Done():
	case <-n.health.failed:
	}
	n.cancel()
	err := n.shutdown()
	snapshots.Wait()
	n.mu.Lock()
	n.closed = err
	n.mu.Unlock()
	close(n.done)
	if err := n.health.err(); err != nil {
		n.cfg.Events.Event("consensus-failed", "cause", err.Error())
		n.failures <- err
	}
	close(n.failures)
}

// shutdown ends everything that launch and listen have begun. The order matters: raft answers the calls under way as
// long as it runs, and never after; it ends when no call of another member is open; nothing uses the files after it.
func (n *Node) shutdown() error {
	n.mu.Lock()
	n.closing = true
	n.mu.Unlock()
	n.cancel()
	n.calls.Wait()
	r := n.raft.Load()
	var f raft.Future
	if r != nil {
		f = r.Shutdown()
	}
	err := n.layer.Close()
	if f != nil {
		err = errors.Join(err, f.Error())
	}
	if n.transport != nil {
		err = errors.Join(err, n.transport.Close())
		n.transport.close()
	}
	n.layer.wait()
	return errors.Join(err, n.log.close())
}

// Close ends this member's part and waits for everything that Open began. Commands under way are answered first. The
// error is the first failure of the disk, if there was one.
func (n *Node) Close() error {
	n.cancel()
	<-n.done
	if err := n.health.err(); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.closed
}

// Failed returns a channel that gets the error if the disk or the machine fails. The member's part has then ended. The
// channel is closed after that, and by Close.
func (n *Node) Failed() <-chan error { return n.failures }
