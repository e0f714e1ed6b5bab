package outbox

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// A Saved tells which state of an agent is saved where it outlives the agent's disk.
type Saved struct {
	// Boot is the number of the start of the process that has saved it. It grows with each start of the agent.
	Boot uint64
	// Number is that of the state. The states of a process have growing numbers, and it begins one when the one before
	// is saved.
	Number uint64
	// Left means that the agent has left, and that the other agents have what it knew.
	Left bool
}

// Kept holds the links that other agents have received, until a saved state of the receiver has them. If the receiver
// is set back to an older state, its links go out again.
//
//	Done -> Add -> Settle: the state that is saved now + 1 may have been begun before the link arrived, so the
//	link waits for the state + 2 -> Settle: that one is saved: end
//
// Its files are not for recovery: its owner has the links in a journal. One goroutine owns a Kept.
type Kept struct {
	fs     disk.FS
	dir    string
	memory int64
	n, of  int64 // links; queues so far
	agents map[string]*keptFor
}

// keptFor has the links that one process of an agent has received.
type keptFor struct {
	*Queue
	boot uint64
	due  []keptUntil // its last links are not in due yet
	rest int64       // how many these are
}

// A keptUntil is a number of links that wait for a saved state.
type keptUntil struct {
	links int64
	state uint64
}

// OpenKept returns an empty Kept with its files in dir. It deletes the content of dir. Each agent takes about memory
// octets of RAM.
func OpenKept(fs disk.FS, dir string, memory int64) (*Kept, error) {
	if _, err := openFolder(fs, dir); err != nil {
		return nil, err
	}
	return &Kept{fs: fs, dir: dir, memory: memory, agents: map[string]*keptFor{}}, nil
}

// Close deletes the files.
func (k *Kept) Close() error {
	var errs []error
	for _, a := range k.agents {
		errs = append(errs, a.Close())
	}
	clear(k.agents)
	return errors.Join(errs...)
}

// Len returns the number of links.
func (k *Kept) Len() int64 {
	if k == nil {
		return 0
	}
	return k.n
}

// AddBatch adds the links of a batch that has arrived. boot is the number of the start of the receiving process, or an
// earlier one: the caller asks before it sends.
func (k *Kept) AddBatch(b *Batch, boot uint64) error {
	from := 0
	for i, end := range b.ends {
		if err := k.Add(b.Agent, boot, b.Numbers[i], b.Links[from:end]); err != nil {
			return err
		}
		from = end
	}
	return nil
}

// Add adds a link that has arrived at an agent; see AddBatch. The link is kept even if Add returns an error, which is
// one of the disk.
func (k *Kept) Add(agent string, boot, number uint64, link []byte) error {
	a := k.agents[agent]
	if a == nil {
		k.of++
		q, err := OpenQueue(k.fs, filepath.Join(k.dir, fmt.Sprint(k.of)), k.memory)
		if err != nil {
			return err
		}
		a = &keptFor{Queue: q, boot: boot}
		k.agents[agent] = a
	}
	a.boot = min(a.boot, boot) // if the process is another one by now, its links go out again, with those before them
	k.n++
	a.rest++
	return a.Push(number, 0, link)
}

// Settle takes out the links that the saved states have (end), and those that go out again because another process has
// saved the agent's state (again). An entry is valid until the function returns. After an error of one of them, its
// link is still kept.
func (k *Kept) Settle(saved map[string]Saved, end, again func(e Entry) error) error {
	for _, agent := range slices.Sorted(maps.Keys(k.agents)) {
		s, a := saved[agent], k.agents[agent]
		switch {
		case s.Left || s.Boot > a.boot:
			if err := k.take(a, a.n, again); err != nil {
				return err
			}
			a.due, a.rest = nil, 0
		case s.Boot == a.boot && s.Boot > 0:
			for len(a.due) > 0 && a.due[0].state <= s.Number {
				before := a.n
				err := k.take(a, a.due[0].links, end)
				if a.due[0].links -= before - a.n; err != nil {
					return err
				}
				a.due = a.due[1:]
			}
			if a.rest > 0 {
				a.due, a.rest = append(a.due, keptUntil{a.rest, s.Number + 2}), 0
			}
		}
		if a.n == 0 {
			delete(k.agents, agent)
			if err := a.Close(); err != nil {
				return err
			}
		}
	}
	return nil
}

// take removes links from the front of a queue, after fn has had them.
func (k *Kept) take(a *keptFor, links int64, fn func(e Entry) error) error {
	for ; links > 0; links-- {
		e, ok, err := a.Peek()
		switch {
		case err != nil:
			return err
		case !ok:
			return ErrDamaged
		}
		if err := fn(e); err != nil {
			return err
		}
		a.Pop()
		k.n--
	}
	return nil
}
