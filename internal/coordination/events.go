package coordination

import (
	"context"
	"errors"
	"sync"

	"github.com/orbweaver/orbweaver/internal/cluster/consensus"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/wake"
)

// An eventQueue writes events in a goroutine of its own, because parts that have events must not wait for the disk.
type eventQueue struct {
	log  *report.Events
	also consensus.Events // may be nil
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

func newEventQueue(log *report.Events, also consensus.Events) *eventQueue {
	return &eventQueue{log: log, also: also, wake: make(chan struct{}, 1)}
}

// Event queues an event with pairs of names and values. It does not block.
func (q *eventQueue) Event(name string, fields ...any) {
	e := queuedEvent{name: name, fields: report.Pairs(fields)}
	q.mu.Lock()
	if len(q.queued) < maxQueuedEvents {
		q.queued = append(q.queued, e)
	}
	q.mu.Unlock()
	if q.also != nil {
		q.also.Event(name, fields...)
	}
	wake.Up(q.wake)
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
