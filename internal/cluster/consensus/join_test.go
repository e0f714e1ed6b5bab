package consensus

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/simnet"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

// wipe ends the member and gives it an empty disk.
func (m *member) wipe() {
	m.t.Helper()
	mem := testdisk.NewMem()
	if err := errors.Join(mem.MkdirAll("d", 0o755), mem.SyncDir(".")); err != nil {
		m.t.Fatal(err)
	}
	m.replace(mem, (*simnet.Machine).Kill)
}

// TestFounding starts members late: a group begins when all of its members are there.
func TestFounding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 3, 20*time.Millisecond)
		g.members[0].start()
		time.Sleep(7 * time.Second)
		g.members[1].start()
		time.Sleep(30 * time.Second)
		if l := g.leading(); l != nil {
			t.Errorf("%s leads; the third member has never been there", l.addr)
		}
		if _, err := g.members[0].node.Propose(t.Context(), nil); !errors.Is(err, ErrNotLeader) {
			t.Errorf("a command before the group exists: %v", err)
		}
		g.members[1].kill() // and it returns with the little that it has
		g.members[1].start()
		g.members[2].start()
		g.propose(g.leader(), 3)
		g.agree()
		s := g.members[0]
		if s.noted("consensus-waiting for "+s.all[1]+" "+s.all[2]) == 0 || s.noted("consensus-founded") != 1 {
			t.Errorf("events: %q", s.events)
		}
		g.stop()
	})
}

// TestLostDirectory checks that a member that has lost its directory does not help to elect a leader that lacks
// commands, that it gets everything again, and that it then has its vote.
func TestLostDirectory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 3, time.Millisecond)
		g.start()
		a := g.leader()
		var others []*member
		for _, m := range g.members {
			if m != a {
				others = append(others, m)
			}
		}
		b, c := others[0], others[1]
		g.propose(a, 3)
		g.agree()
		c.part(true) // c lacks what follows
		g.propose(a, 30)
		b.wipe()
		a.kill()
		c.part(false)
		b.start()
		time.Sleep(time.Minute)
		if l := g.leading(); l != nil {
			t.Fatalf("%s leads without the commands that only %s has", l.addr, a.addr)
		}
		a.start()
		g.agree()
		if b.noted("consensus-catching-up") != 1 || b.noted("consensus-caught-up") != 1 {
			t.Errorf("events: %q", b.events)
		}
		a.kill() // b's vote is needed
		g.propose(g.leader(), 5)
		g.agree()

		// The directory is lost again, and the member is restarted while it has no vote.
		b.wipe()
		a.start()
		g.leader()
		b.start()
		if !within(time.Minute, func() bool { return b.noted("consensus-catching-up") == 2 }) {
			t.Fatal("the member does not catch up")
		}
		b.kill()
		b.start()
		g.agree()
		a.kill()
		g.propose(g.leader(), 1)
		g.agree()
		g.stop()
	})
}

// TestMostDirectoriesLost checks that members with empty directories say what they wait for, if too few of the others
// have theirs, and that they say nothing of the kind if one member alone has lost its directory.
func TestMostDirectoriesLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 3, time.Millisecond)
		g.start()
		g.propose(g.leader(), 3)
		g.agree()
		a, b, c := g.members[0], g.members[1], g.members[2]
		b.wipe()
		b.start()
		g.agree()
		if n := b.noted("consensus-waiting for  whole"); n != 0 {
			t.Errorf("%d events of a single loss: %q", n, b.events)
		}
		b.wipe()
		c.wipe()
		b.start()
		c.start()
		time.Sleep(time.Minute)
		for _, m := range []*member{b, c} {
			if n := m.noted("consensus-waiting for  whole 1"); n != 1 {
				t.Errorf("%d events: %q", n, m.events)
			}
		}
		if g.leading() != nil || a.noted("consensus-waiting") > 1 {
			t.Error("a member leads without a majority")
		}
		g.stop()
	})
}

// TestBarred checks that a member that is catching up neither gives nor gets votes, also after a restart.
func TestBarred(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 3, time.Millisecond)
		g.start()
		g.propose(g.leader(), 3)
		g.agree()
		a, b, c := g.members[0], g.members[1], g.members[2]
		for _, m := range g.members {
			m.stop()
		}
		v := must.Get(openVotes(b.mem, "d/raft", newHealth()))(t)
		v.change(func(v *votes) { v.missingTerm, v.missingIndex = v.term+5, 1 })
		b.start()
		c.start()
		time.Sleep(30 * time.Second)
		if l := g.leading(); l != nil {
			t.Fatalf("%s leads with the vote of a member that is catching up", l.addr)
		}
		if b.node.Status().Voting {
			t.Error("the member that is catching up says that it votes")
		}
		a.start()
		if l := g.leader(); l == b {
			t.Error("the member that is catching up leads")
		}
		g.agree()
		g.stop()
	})
}

func TestDecide(t *testing.T) {
	empty, fresh := standing{}, standing{stateMember, 1, 1, 1}
	began, catching := standing{stateMember, 4, 9, 3}, standing{stateCatchingUp, 4, 9, 3}
	for _, tt := range []struct {
		members int
		answers []standing
		aged    bool
		want    verdict
	}{
		{3, nil, true, wait},
		{3, []standing{empty}, true, wait},
		{3, []standing{empty, empty}, false, found},
		{3, []standing{empty, fresh}, false, found},
		{3, []standing{fresh, fresh}, true, found},
		{3, []standing{empty, began}, true, wait},
		{3, []standing{began}, true, wait},
		{3, []standing{fresh, began}, false, wait},
		{3, []standing{fresh, began}, true, rejoin},
		{3, []standing{catching, began}, true, wait},
		{3, []standing{catching, empty}, true, wait},
		{2, []standing{empty}, false, found},
		{2, []standing{began}, true, wait},
		{5, []standing{began, began}, true, wait},
		{5, []standing{began, began, began}, true, rejoin},
		{5, []standing{began, began, catching, empty}, true, wait},
	} {
		if got := decide(tt.members, tt.answers, tt.aged); got != tt.want {
			t.Errorf("decide(%d, %v, %v) = %d, want %d", tt.members, tt.answers, tt.aged, got, tt.want)
		}
	}
	for _, s := range []standing{empty, fresh, began, catching} {
		b := s.appendTo(nil)
		if got, err := parseStanding(b); err != nil || got != s || len(b) != standingSize {
			t.Errorf("parseStanding: %v, %v, want %v", got, err, s)
		}
		b[3] ^= 1
		if _, err := parseStanding(b); err == nil {
			t.Error("a damaged standing is read")
		}
	}
}

// TestDamagedDirectory checks what Open says of damaged and missing files, and that a member without its newest
// snapshot has everything in the one before and the log.
func TestDamagedDirectory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 1, 0)
		m := g.members[0]
		m.start()
		g.propose(g.leader(), 300)
		g.agree()
		m.stop()
		whole := m.mem
		fails := func(want string, change func(*testdisk.Mem) error) {
			t.Helper()
			m.mem = whole.Clone()
			must.Do(t, change(m.mem))
			m.judge = newJudge() // a machine may get damaged data before Open fails
			err := m.open()
			if err == nil {
				m.stop()
			}
			m.judge = g.judge
			if m.node = nil; !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), want) {
				t.Errorf("open: %v; want damage of %s", err, want)
			}
		}
		flip := func(name string, at int) func(*testdisk.Mem) error {
			return func(mem *testdisk.Mem) error {
				b, err := disk.ReadFile(mem, "d/raft/"+name, 1<<20)
				if err != nil {
					return err
				}
				b[at] ^= 1
				return disk.WriteFile(mem, "d/raft/"+name, b)
			}
		}
		es := must.Get(whole.ReadDir("d/raft"))(t)
		var logs, snapshots []string
		for _, e := range es {
			switch {
			case strings.HasPrefix(e.Name(), "log-"):
				logs = append(logs, e.Name())
			case strings.HasPrefix(e.Name(), "snapshot-"):
				snapshots = append(snapshots, e.Name())
			}
		}
		if len(logs) < 3 || len(snapshots) != 2 {
			t.Fatalf("logs %q, snapshots %q", logs, snapshots)
		}
		fails("vote", flip("vote", 20))
		fails("vote", func(m *testdisk.Mem) error { return m.Remove("d/raft/vote") })
		fails(logs[0], flip(logs[0], 100))
		fails(logs[2], func(m *testdisk.Mem) error { return m.Remove("d/raft/" + logs[1]) })
		fails(snapshots[1], flip(snapshots[1], 5))
		fails(snapshots[1], flip(snapshots[1], 300))
		fails(logs[0], func(m *testdisk.Mem) error {
			return errors.Join(m.Remove("d/raft/"+snapshots[0]), m.Remove("d/raft/"+snapshots[1]))
		})

		m.mem = whole.Clone()
		must.Do(t, m.mem.Remove("d/raft/"+snapshots[1]))
		m.start()
		g.propose(g.leader(), 1)
		g.agree()
		g.stop()
	})
}

// TestStrangeBytes sends a member what no member sends.
func TestStrangeBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 3, time.Millisecond)
		g.start()
		m := g.leader()
		stranger := g.w.Machine(99, netip.MustParseAddr("10.0.0.99"))
		hello := func(purpose byte, group uint32) []byte {
			return le.AppendUint32(append([]byte(helloMagic), purpose), group)
		}
		ours := m.node.layer.group
		long := append(hello(purposeRaft, ours), "\x00\x81\xa6Leader\xc6\x7f\xff\xff\xff"...) // a field of 2 GiB
		long = append(long, make([]byte, maxMessage)...)
		for _, tt := range []struct {
			what string
			send []byte
			want string // the event
		}{
			{"another protocol", []byte("GET / HTTP/1.1\r\n\r\n"), "another protocol or version"},
			{"another group", hello(purposeRaft, ours+1), "another list of coordinators"},
			{"another purpose", hello('?', ours), "unknown purpose"},
			{"an unknown call", append(hello(purposeRaft, ours), 77), ""},
			{"bytes that are no call", append(hello(purposeRaft, ours), 0, 0xff, 0xff, 0xff), ""},
			{"an endless call", long, "a message of more than"},
			{"half a hello", []byte("owr"), ""},
		} {
			c := must.Get(stranger.Dial(t.Context(), "tcp", m.addr))(t)
			m.mu.Lock()
			m.events = nil
			m.mu.Unlock()
			must.Get(c.Write(tt.send))(t)
			_ = c.SetReadDeadline(time.Now().Add(2 * slowest))
			if _, err := c.Read(make([]byte, 1)); err == nil || strings.Contains(err.Error(), "timeout") {
				t.Errorf("%s: the connection stays open (%v)", tt.what, err)
			}
			c.Close()
			m.mu.Lock()
			got := fmt.Sprint(m.events)
			m.mu.Unlock()
			if tt.want != "" && !strings.Contains(got, tt.want) {
				t.Errorf("%s: events %s, want %q", tt.what, got, tt.want)
			}
		}
		var cs []interface{ Close() error }
		for range 3 * maxConns {
			c := must.Get(stranger.Dial(t.Context(), "tcp", m.addr))(t)
			cs = append(cs, c)
		}
		time.Sleep(time.Second)
		m.mu.Lock()
		got := fmt.Sprint(m.events)
		m.mu.Unlock()
		if !strings.Contains(got, "cause too many connections") {
			t.Errorf("events: %s", got)
		}
		for _, c := range cs {
			c.Close()
		}
		g.propose(g.leader(), 5)
		g.agree()
		g.stop()
	})
}

// A testVoter is a voter that has nothing on its disk.
type testVoter struct{ catchesUp bool }

func (testVoter) standing() standing { return standing{} }
func (v testVoter) barred() bool     { return v.catchesUp }

// TestCheck checks which calls raft never sees.
func TestCheck(t *testing.T) {
	tr := &transport{self: "a:1", members: []string{"a:1", "b:1", "c:1"}, encoded: []byte("list"),
		voter: testVoter{}}
	h := raft.RPCHeader{ProtocolVersion: 3, ID: []byte("b:1"), Addr: []byte("b:1")}
	entries := func(ls ...*raft.Log) *raft.AppendEntriesRequest {
		return &raft.AppendEntriesRequest{RPCHeader: h, Term: 5, PrevLogEntry: 7, PrevLogTerm: 3, Entries: ls}
	}
	snapshot := func(size int64, list string) *raft.InstallSnapshotRequest {
		return &raft.InstallSnapshotRequest{RPCHeader: h, SnapshotVersion: 1, Term: 5, LastLogIndex: 9, LastLogTerm: 4,
			Size: size, Configuration: []byte(list)}
	}
	vote := func(id, addr string) *raft.RequestVoteRequest {
		return &raft.RequestVoteRequest{RPCHeader: raft.RPCHeader{ID: []byte(id), Addr: []byte(addr)}}
	}
	many := make([]*raft.Log, maxAppend+1)
	for i := range many {
		many[i] = &raft.Log{Index: uint64(8 + i), Term: 4}
	}
	for _, tt := range []struct {
		call any
		want string
	}{
		{entries(), ""},
		{entries(many[:maxAppend]...), ""},
		{entries(many...), "9 entries in a call"},
		{entries(nil), "do not follow"},
		{entries(&raft.Log{Index: 9, Term: 4}), "do not follow"},
		{entries(&raft.Log{Index: 8, Term: 2}), "do not follow"},
		{entries(&raft.Log{Index: 8, Term: 6}), "do not follow"},
		{entries(&raft.Log{Index: 8, Term: 5, Data: make([]byte, maxEntry+1)}), "too large"},
		{entries(&raft.Log{Index: 8, Term: 5, Type: 9}), "unknown type 9"},
		{entries(&raft.Log{Index: 8, Term: 5, Type: raft.LogRemovePeerDeprecated}), "unknown type"},
		{entries(&raft.Log{Index: 8, Term: 5, Type: raft.LogConfiguration, Data: []byte("other")}), "other members"},
		{entries(&raft.Log{Index: 8, Term: 5, Type: raft.LogConfiguration, Data: []byte("list")}), ""},
		{snapshot(5, "list"), ""},
		{snapshot(-5, "list"), "malformed"},
		{snapshot(5, "other"), "other members"},
		{&raft.RequestVoteRequest{RPCHeader: h}, ""},
		{&raft.RequestVoteRequest{RPCHeader: h, LeadershipTransfer: true}, "not transferred"},
		{&raft.RequestPreVoteRequest{RPCHeader: h}, ""},
		{&raft.RequestPreVoteRequest{}, "no other member"},
		{vote("a:1", "a:1"), "no other member"},
		{vote("b:1", "c:1"), "no other member"},
		{&raft.TimeoutNowRequest{RPCHeader: h}, "unexpected call"},
		{5, "unknown call"},
	} {
		err := tr.check(tt.call)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("check(%+v) = %v, want %q", tt.call, err, tt.want)
		}
	}
	tr.voter = testVoter{catchesUp: true}
	for _, c := range []any{&raft.RequestVoteRequest{RPCHeader: h}, &raft.RequestPreVoteRequest{RPCHeader: h}} {
		if err := tr.check(c); !errors.Is(err, errCatchingUp) {
			t.Errorf("check(%T) while catching up: %v", c, err)
		}
	}
}
