package report

import "sync"

const (
	// recentMost and recentBytes bound the last events that Since returns.
	recentMost  = 500
	recentBytes = 256 << 10
)

// recent holds the last events, so that operators can follow them. Safe for concurrent use.
type recent struct {
	mu    sync.Mutex // guards the fields below
	lines []string
	bytes int
	next  uint64        // number of the next event
	more  chan struct{} // closed when it comes
}

func newRecent() *recent { return &recent{more: make(chan struct{})} }

func (r *recent) add(line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, line)
	r.bytes += len(line)
	for len(r.lines) > recentMost || r.bytes > recentBytes && len(r.lines) > 1 {
		r.bytes -= len(r.lines[0])
		r.lines[0] = ""
		r.lines = r.lines[1:]
	}
	r.next++
	close(r.more)
	r.more = make(chan struct{})
}

// Since returns the events of this process from the one with the number n on, as JSON objects. Events are numbered from
// 0. Only the last ones are kept: the returned events end with the number next-1. more is closed when the next event
// comes.
func (e *Events) Since(n uint64) (events []string, next uint64, more <-chan struct{}) {
	r := e.last
	r.mu.Lock()
	defer r.mu.Unlock()
	missing := min(r.next-min(n, r.next), uint64(len(r.lines)))
	return append(events, r.lines[len(r.lines)-int(missing):]...), r.next, r.more
}
