package crawl

import (
	"context"
	"errors"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/ledger"
	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// A Cluster is the rest of the cluster, as the crawl loop of one agent sees it. The loop of a single
// agent has the Cluster that Alone returns. The dispatcher calls all methods, except those that are
// safe for concurrent use.
type Cluster interface {
	// Bind gives the Cluster its loop. The loop calls Bind once, before all other methods.
	Bind(loop *Loop)
	clusterHosts
	clusterRecords
	clusterTurns
}

// clusterHosts answers: whose is this link, and may it be visited now?
type clusterHosts interface {
	visit.Others
	// KnownOwner is Owner for a person's question: if the owner is not known, nobody is asked for it. Safe for
	// concurrent use.
	KnownOwner(host string) (agent string, mine bool)
	// Class tells what a link is that the seen-set has found new under a key.
	Class(key link.Key, l link.Link) Class
	// Direct sets the destination of a seed if every agent may fetch it.
	Direct(seed *link.Link)
	// MayVisit reports whether t, just taken from the frontier, may be visited. If not, the Cluster
	// has put t away.
	MayVisit(t *frontier.Task, now time.Time) bool
	// Permit returns the permission to contact the addresses and domains that the host shares with
	// hosts of other agents. Nil means that the host shares none.
	Permit(host string) *visit.Permit
	// Obstacles returns the conditions of the cluster under which this agent may begin no visit. They come after Bind.
	Obstacles() []Obstacle
	// SendAway takes a link that was withdrawn from the frontier because its host has another owner
	// now. sent is false if the operator has dropped the link.
	SendAway(w frontier.Waiting) (sent bool, err error)
	// MayCarry reports whether Carry can take a state of this host: its owner is known, and not too many
	// states wait.
	MayCarry(host string) bool
	// Carry sends a Planner's state of a URL to the owner of its host. It keeps l and planned.
	Carry(l link.Link, planned []byte)
	// PagesElsewhere returns how many pages of a host other agents have fetched, as far as this agent has
	// been told. Before a visit that MayVisit allows, it has been told of all that their last owners know.
	PagesElsewhere(host string) int64
}

// clusterRecords follows what the journal gets, and has records of its own there.
type clusterRecords interface {
	// Keys returns the keys of the seen-set.
	Keys() ledger.Keys
	// Accepted is told of each accepted link with its encoding.
	Accepted(class Class, number uint64, l link.Link, enc []byte) error
	// Finished is told of each finish. Both are in the present batch.
	Finished(f *state.Finish)
	// Archived is told that a page, which First was asked about, is archived in full. Its finish is
	// in the present batch.
	Archived(digest [20]byte, page warc.Original)
	// Depart is told that the present batch will have the finish of a URL whose page Export has stored. From now on
	// the page waits for its agent.
	Depart(page link.Link) error
	// Rests is told how long a host must rest.
	Rests(st frontier.HostState, now time.Time)
	// Forget is told that the seen-set may have lost some of its keys.
	Forget()
	// Prepare adds the records that a sync must cover.
	Prepare()
	// Committed is told that all records so far are written.
	Committed(now time.Time)
	// Syncing is told that a sync begins. The caller calls durable when all records so far are
	// durable.
	Syncing() (durable func())

	// Save writes the Cluster's records into a checkpoint.
	Save(put func(kind byte, p []byte) error) error
	// Load reads such a record, before Away and Requeue.
	Load(kind byte, p []byte) error
	// Away takes a pending link of an earlier run if this agent must not visit it.
	Away(l link.Link, number uint64) (away bool, err error)
	// Requeue takes a link of an earlier run that another agent crawls. again reports that it stands for a page that is
	// lost: the URL must be fetched again.
	Requeue(number uint64, enc []byte) (again bool, err error)
	// Recovered is told that the journal has been read.
	Recovered()
}

// clusterTurns lets the Cluster do its work on the dispatcher, and answers: is all done?
type clusterTurns interface {
	// Recall takes a link that the Planner wants, if the Planner is a Sharer. The Cluster asks the
	// agents what they know of the URL, and lets the owner fetch it if needed.
	Recall(l link.Link) (taken bool)
	// Tick does what is due. wake is the time of the next work; zero means not before an answer
	// arrives. Work in the background uses the context.
	Tick(work context.Context, now time.Time) (wake time.Time)
	// Deliver acknowledges and ships what is durable. wake is as with Tick.
	Deliver(work context.Context, now time.Time) (wake time.Time)
	// WantsSync reports that an answer to another agent waits for the next sync.
	WantsSync() bool
	// Settled reports that no link is on its way to another agent, and nothing waits for a sync.
	Settled() bool
	// Waits reports that the loop has to wait for other agents if it has no work itself.
	Waits() bool
	// Rest is called when no work is left here. It reports whether the Cluster decides about the end.
	Rest() bool
	// Lingers reports whether a stop must wait until other agents have what this one knows.
	Lingers(now time.Time) bool
	// Outgoing returns the number of links that wait to be sent to other agents.
	Outgoing() int64
	// Status returns the counts of the cluster, for the Status.
	Status(now time.Time) ClusterStatus
	// Ended is told that the run has ended.
	Ended()
}

// A Class tells what an accepted link is.
type Class byte

// The classes are the kinds of their records in the journal.
const (
	// Own is a link that this agent crawls.
	Own = Class(state.Accept)
	// Outgoing is a link that another agent crawls, and that this agent has found.
	Outgoing = Class(state.Outgoing)
	// Passed is a link of a host that was given away after the link was found.
	Passed = Class(state.Passed)
)

// ClusterStatus is the part of a Status that tells of other agents.
type ClusterStatus struct {
	Waits    string           `json:"-"`                // what this agent waits for, in words; see Status.WaitsFor
	Leaving  string           `json:"-"`                // the same of an agent that leaves; "": it does not leave
	Agents   []string         `json:"agents,omitempty"` // the agents that are present
	Outgoing int64            `json:"urls_outgoing"`    // waiting to be sent to other agents
	Received int64            `json:"urls_received"`    // from other agents, in this run
	Copying  int64            `json:"copies_outgoing"`  // records waiting to be sent to heirs
	CopyLagS float64          `json:"copies_lag_s"`     // age of the oldest of them, in seconds
	Leases   *report.Leases   `json:"leases,omitempty"`
	Moves    *report.Moves    `json:"moves,omitempty"` // of hosts between agents
	Contents *report.Contents `json:"contents,omitempty"`
	Boundary *report.Boundary `json:"boundary,omitempty"` // pages on their way between agents
	// Categories are those of this agent's pages, by name, and the others of pages that it keeps.
	Categories []report.Category `json:"categories,omitempty"`
	Lost       *report.Lost      `json:"lost,omitempty"` // archives that were lost with other agents
	// ArchiveCopies counts archive files that are copied to other agents.
	ArchiveCopies *report.ArchiveCopies `json:"archive_copies,omitempty"`
	Exchange      *report.Exchange      `json:"exchange,omitempty"` // messages to other agents, in this run
	Sites         *report.Sites         `json:"sites,omitempty"`    // what the coordinators say
}

// ErrAlone reports a link from another agent to a crawl without other agents.
var ErrAlone = errors.New("this crawl has no other agents")

// alone is the Cluster of a single agent.
type alone struct{}

// Alone returns the Cluster of a single agent.
func Alone() Cluster { return alone{} }

func (alone) Bind(*Loop)                                   {}
func (alone) Direct(*link.Link)                            {}
func (alone) Keeps(link.Destination) bool                  { return true }
func (alone) Owner(string) (string, bool)                  { return "", true }
func (alone) KnownOwner(string) (string, bool)             { return "", true }
func (alone) Class(link.Key, link.Link) Class              { return Own }
func (alone) MayVisit(*frontier.Task, time.Time) bool      { return true }
func (alone) Permit(string) *visit.Permit                  { return nil }
func (alone) Obstacles() []Obstacle                        { return nil }
func (alone) SendAway(frontier.Waiting) (bool, error)      { return false, nil }
func (alone) MayCarry(string) bool                         { return false }
func (alone) Carry(link.Link, []byte)                      {}
func (alone) PagesElsewhere(string) int64                  { return 0 }
func (alone) Keys() ledger.Keys                            { return ledger.PlainKeys{} }
func (alone) Finished(*state.Finish)                       {}
func (alone) Archived([20]byte, warc.Original)             {}
func (alone) Rests(frontier.HostState, time.Time)          {}
func (alone) Prepare()                                     {}
func (alone) Forget()                                      {}
func (alone) Committed(time.Time)                          {}
func (alone) Syncing() func()                              { return func() {} }
func (alone) Save(func(byte, []byte) error) error          { return nil }
func (alone) Load(byte, []byte) error                      { return ErrAlone }
func (alone) Away(link.Link, uint64) (bool, error)         { return false, nil }
func (alone) Requeue(uint64, []byte) (bool, error)         { return false, ErrAlone }
func (alone) Recovered()                                   {}
func (alone) Recall(link.Link) bool                        { return false }
func (alone) Tick(context.Context, time.Time) time.Time    { return time.Time{} }
func (alone) Deliver(context.Context, time.Time) time.Time { return time.Time{} }
func (alone) WantsSync() bool                              { return false }
func (alone) Settled() bool                                { return true }
func (alone) Waits() bool                                  { return false }
func (alone) Rest() bool                                   { return false }
func (alone) Lingers(time.Time) bool                       { return false }
func (alone) Outgoing() int64                              { return 0 }
func (alone) Status(time.Time) ClusterStatus               { return ClusterStatus{} }
func (alone) Ended()                                       {}

func (alone) Accepted(Class, uint64, link.Link, []byte) error { return nil }

func (alone) Depart(link.Link) error { return nil }

func (alone) Export(context.Context, link.Link, *warc.Exchange, func([]byte) ([]byte, error)) (page link.Link,
	category string, away bool, err error) {
	return page, "", false, nil
}

func (alone) First(context.Context, *warc.Exchange, int64) (first warc.Original, duplicate, asked bool, err error) {
	return first, false, false, nil
}
