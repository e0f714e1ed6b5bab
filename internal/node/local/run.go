package local

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/gone"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/node/operate"
	"github.com/orbweaver/orbweaver/internal/report"
)

// A Run is the run of this agent. Safe for concurrent use.
type Run interface {
	// Status returns the state of the crawl. It is nil before the crawl begins.
	Status() *crawl.Status
	// Counts returns what this run of the crawl has counted. Its maps are not changed.
	Counts() report.Counts
	// Waits returns what an agent of a cluster waits for before its crawl begins. ok is false for others.
	Waits() (w Waiting, ok bool)
	// Sizes returns how large the main data structures are.
	Sizes(s *crawl.Status) []Size
	// Cluster returns what the agent knows of its cluster; nil: it has none.
	Cluster() Cluster
	// Leave hands all hosts to the other agents, and ends the run.
	Leave(ctx context.Context) (string, error)
}

// A Cluster is what an agent knows of its cluster. Safe for concurrent use.
type Cluster interface {
	// Address returns this agent's address for the others, and Instance the identity of its crawl directory.
	Address() string
	Instance() string
	// Absent returns the names of the agents that were there in this or an earlier run and are not now.
	Absent() []string
	// Gone returns the agents that have gone, with their last counts as far as they are known.
	Gone() []gone.Agent
	// Heard returns what another agent has told of its counts last; nil: nothing.
	Heard(agent string) *gone.Counts
}

// A Waiting is what an agent waits for before its crawl starts.
type Waiting struct {
	Type   string   `json:"type"`        // "waiting"
	For    string   `json:"waiting_for"` // what the agent waits for, in words
	Agents []string `json:"agents"`      // the agents that are present
}

// A Size is how large a main data structure of an agent is.
type Size struct {
	Name    string `json:"name"`
	Entries int64  `json:"entries,omitempty"`
	// Memory is what the structure takes in RAM, and Limit the most that it may take: its share of the agent's memory.
	// If Limit is zero, the structure has no limit of its own.
	Memory int64 `json:"memory_bytes"`
	Limit  int64 `json:"memory_limit_bytes,omitempty"`
	Disk   int64 `json:"disk_bytes,omitempty"`
}

// startPatience is how long a call waits for the crawl to begin. A crawl begins some milliseconds
// after its API, unless it waits for other agents.
const startPatience = 5 * time.Second

// stateOf returns the state of the crawl or, before the crawl begins, what the agent waits for.
func stateOf(r Run) any {
	for end := time.Now().Add(startPatience); ; time.Sleep(startPatience / 1000) {
		if s := r.Status(); s != nil {
			return s
		}
		if w, ok := r.Waits(); ok {
			return w
		}
		if time.Now().After(end) {
			return Waiting{Type: "waiting", For: "the start of the crawl", Agents: []string{}}
		}
	}
}

// notStarted says in place of an error what an agent waits for whose crawl has not begun.
func notStarted(r Run, err error) error {
	if !errors.Is(err, crawl.ErrNotRunning) {
		return err
	}
	if w, ok := r.Waits(); ok {
		return fmt.Errorf("the crawl has not started: the agent waits for %s", w.For)
	}
	return err
}

// ofHost calls fn with a host name as people type it. Before the crawl begins, the error says what the agent waits for.
func ofHost(r Run, s string, fn func(host string) (string, error)) (string, error) {
	host, err := input.Host(s)
	if err != nil {
		return "", fmt.Errorf("%w: %w", operate.ErrHost, err)
	}
	text, err := fn(host)
	return text, notStarted(r, err)
}

// Panicked returns a function that writes a call that has panicked to the events.
func Panicked(events *report.Events) func(call string, value any, stack []byte) {
	return func(call string, value any, stack []byte) {
		events.Write("call-panicked", report.F("call", call), report.F("error", fmt.Sprint(value)),
			report.F("stack", string(stack)))
	}
}
