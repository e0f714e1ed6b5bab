package node

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync"

	"github.com/orbweaver/orbweaver/internal/cluster/assignment"
	"github.com/orbweaver/orbweaver/internal/cluster/consensus"
	"github.com/orbweaver/orbweaver/internal/cluster/coordinator"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/report"
)

// admitted reports whether a caller is an agent of the roster.
func (c *Coordinator) admitted(from rpc.Caller) bool {
	r := c.machine.Roster()
	m, ok := r.Member(from.Name)
	return ok && m.Instance == from.Instance
}

func coordinatorCaller(from rpc.Caller) coordinator.Caller {
	return coordinator.Caller{Name: from.Name, Instance: from.Instance, Boot: from.Boot, Crawl: from.Crawl}
}

// coordinatorAnswer turns an error of package coordinator into that of package rpc.
func (c *Coordinator) coordinatorAnswer(err error) error {
	if n, ok := errors.AsType[*coordinator.NotLeader](err); ok {
		if n.Leader == coordinatorAlone {
			return &rpc.NotLeader{}
		}
		return &rpc.NotLeader{Leader: n.Leader}
	}
	if r, ok := errors.AsType[*coordinator.Refusal](err); ok {
		return &rpc.Refusal{Reason: r.Kind, Text: r.Text}
	}
	if errors.Is(err, coordinator.ErrAgain) {
		return rpc.ErrAgain
	}
	return err
}

func (c *Coordinator) discover(ctx context.Context, from rpc.Caller, d rpc.Discovery) ([]rpc.HostAnswer, error) {
	as, err := c.logic.Discover(ctx, coordinatorCaller(from), d.Hosts, d.Unchecked)
	if err != nil {
		return nil, c.coordinatorAnswer(err)
	}
	answers := make([]rpc.HostAnswer, len(as))
	for i, a := range as {
		answers[i] = rpc.HostAnswer{State: rpc.HostState(a.State), After: a.After}
	}
	return answers, nil
}

func (c *Coordinator) follow(ctx context.Context, from rpc.Caller, f rpc.Follow) (rpc.Followed, error) {
	r := f.Report
	a, err := c.logic.Follow(ctx, coordinatorCaller(from), coordinator.Follow{
		From: f.From, Wait: f.Wait, Stamp: f.Stamp,
		Report: coordinator.Report{Capacity: r.Capacity, Addr: r.Addr, State: assignment.State(r.State), Term: r.Term,
			Hosts: r.Hosts, URLs: r.URLs, Heard: r.Heard, Settings: r.Settings}})
	if err != nil {
		return rpc.Followed{}, c.coordinatorAnswer(err)
	}
	return rpc.Followed{Entries: a.Entries, Last: a.Last, Term: a.Term, Member: a.Member, Crawl: a.Crawl,
		Stamp: a.Stamp}, nil
}

func (c *Coordinator) finish(ctx context.Context, from rpc.Caller, f rpc.Finish) error {
	return c.coordinatorAnswer(c.logic.Finish(ctx, coordinatorCaller(from), f.Term, f.Number))
}

// forget takes an agent off the roster at a person's word.
func (c *Coordinator) forget(ctx context.Context, from rpc.Caller, agent string) error {
	err := c.logic.Forget(ctx, agent)
	if err == nil {
		c.events.add("agent-forgotten", "agent", agent, "by", from.Name)
	}
	return c.coordinatorAnswer(err)
}

// A raftNetwork is the consensus.Network of a coordinator.
type raftNetwork struct {
	net.Listener
	c *Coordinator
}

// Dial implements consensus.Network.
func (n raftNetwork) Dial(ctx context.Context, addr string) (net.Conn, error) {
	return rpc.DialRaft(ctx, n.c.keys, n.c.cfg.Network.Dial, addr, "")
}

// A replicated machine is the consensus.Machine of a coordinator.
type replicated struct{ *coordinator.Machine }

// Snapshot implements consensus.Machine.
func (r replicated) Snapshot() (consensus.Snapshot, error) {
	s, err := r.Machine.Snapshot()
	if err != nil {
		return nil, err // not a nil Snapshot in an interface
	}
	return s, nil
}

// parsePort reads the number of a port.
func parsePort(s string) (uint64, bool) {
	n, err := strconv.ParseUint(s, 10, 16)
	return n, err == nil
}

// An eventQueue writes events in a goroutine of its own, because parts that have events must not wait for the disk.
type eventQueue struct {
	log  *report.Events
	also func(name string, fields ...any) // may be nil
	wake chan struct{}

	mu     sync.Mutex // guards queued; not held during I/O
	queued []queuedEvent
}

type queuedEvent struct {
	name   string
	fields []report.Field
}

// maxQueuedEvents bounds the events in RAM. If the disk stands still, later ones are dropped.
const maxQueuedEvents = 4096

func newEventQueue(log *report.Events, also func(name string, fields ...any)) *eventQueue {
	return &eventQueue{log: log, also: also, wake: make(chan struct{}, 1)}
}

// add queues an event with pairs of names and values. It does not block.
func (q *eventQueue) add(name string, fields ...any) {
	e := queuedEvent{name: name, fields: eventFields(fields)}
	q.mu.Lock()
	if len(q.queued) < maxQueuedEvents {
		q.queued = append(q.queued, e)
	}
	q.mu.Unlock()
	if q.also != nil {
		q.also(name, fields...)
	}
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// eventFields returns the fields of an event that are given as pairs of names and values.
func eventFields(pairs []any) (fs []report.Field) {
	for i := 0; i+1 < len(pairs); i += 2 {
		fs = append(fs, report.F(pairs[i].(string), pairs[i+1]))
	}
	return fs
}

// write writes the queued events.
func (q *eventQueue) write() error {
	q.mu.Lock()
	events := q.queued
	q.queued = nil
	q.mu.Unlock()
	for _, e := range events {
		q.log.Write(e.name, e.fields...)
	}
	return q.log.Flush()
}

// run writes events until ctx ends or the disk fails.
func (q *eventQueue) run(ctx context.Context) error {
	for {
		select {
		case <-q.wake:
		case <-ctx.Done():
			return nil
		}
		if err := q.write(); err != nil {
			return err
		}
	}
}

// close writes what is queued and closes the file.
func (q *eventQueue) close() error { return errors.Join(q.write(), q.log.Close()) }
