package textweb

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
)

// A Diary holds what the agents of a test share: the web, random numbers, and the log that a
// failure prints. Its methods are safe for concurrent use.
type Diary struct {
	Web *Web

	mu  sync.Mutex // guards the fields below
	rng *rand.Rand
	Log strings.Builder
}

// NewDiary returns a diary on a web. stream distinguishes the random numbers of the diary from
// others of the same seed.
func NewDiary(web *Web, seed, stream uint64) Diary {
	return Diary{Web: web, rng: rand.New(rand.NewPCG(seed, stream))}
}

// Roll returns a random number below n.
func (d *Diary) Roll(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rng.IntN(n)
}

// Note adds a line to the log.
func (d *Diary) Note(format string, a ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	fmt.Fprintf(&d.Log, "%s "+format+"\n", append([]any{time.Since(d.Web.Start)}, a...)...)
}

// Text returns the log so far.
func (d *Diary) Text() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.Log.String()
}
