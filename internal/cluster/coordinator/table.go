package coordinator

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/orbweaver/orbweaver/internal/cluster/assignment"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/keyset/drum"
)

// A table is the paper's SiteURL table: the hosts that have an agent, each with the number of its entry. Its calls
// return when all answers have come: that takes a pass of package drum for the hosts of which the filter alone cannot
// say that they are new. Safe for concurrent use.
type table struct {
	// use is held during a call. It is no mutex, because a call may wait for a timer: in virtual time, a goroutine
	// that waits for a mutex keeps the clock from going on.
	use     chan struct{}
	store   *drum.Store
	answers []verdict
	got     int
	items   []drum.Item
	aux     []byte
}

// A verdict is the table's answer for a host.
type verdict struct {
	number uint64 // of the host's entry
	known  bool
}

func openTable(fs disk.FS, dir string, memory int64) (*table, error) {
	t := &table{use: make(chan struct{}, 1)}
	store, err := drum.Open(fs, dir, drum.Config{MemoryBytes: memory, Values: true, Known: true}, t.emit)
	if err != nil {
		return nil, fmt.Errorf("table of hosts: %w", err)
	}
	t.store = store
	return t, nil
}

func (t *table) emit(items []drum.Item) error {
	for _, it := range items {
		i := binary.LittleEndian.Uint32(it.Aux)
		t.answers[i] = verdict{it.Value, it.Known}
		t.got++
	}
	return nil
}

// ask calls do with hosts and waits for all answers. The result is valid until leave.
func (t *table) ask(do func([]drum.Item) error, hosts []string, number uint64) ([]verdict, error) {
	n := len(hosts)
	t.items, t.aux = slices.Grow(t.items[:0], n), slices.Grow(t.aux[:0], 4*n)
	for i, h := range hosts {
		t.aux = binary.LittleEndian.AppendUint32(t.aux, uint32(i))
		t.items = append(t.items, drum.Item{Key: assignment.Key(h), Aux: t.aux[4*i:], Value: number})
		t.items[i].Aux = t.items[i].Aux[:4:4]
	}
	t.answers, t.got = slices.Grow(t.answers[:0], n)[:n], 0
	err := do(t.items)
	if err == nil && t.got < n {
		err = t.store.Flush()
	}
	if err == nil && t.got != n {
		err = fmt.Errorf("%d answers for %d hosts", t.got, n)
	}
	if err != nil {
		return nil, fmt.Errorf("table of hosts: %w", err)
	}
	return t.answers, nil
}

// add adds the hosts that are not in the table, with a number. It returns the indices of these, in their order. Of
// equal hosts one is added.
func (t *table) add(hosts []string, number uint64) (added []int, err error) {
	t.use <- struct{}{}
	defer func() { <-t.use }()
	answers, err := t.ask(t.store.Add, hosts, number)
	for i, a := range answers {
		if !a.known {
			added = append(added, i)
		}
	}
	return added, err
}

// check returns the numbers of hosts, 0 for those that are not in the table.
func (t *table) check(hosts []string) (numbers []uint64, err error) {
	t.use <- struct{}{}
	defer func() { <-t.use }()
	answers, err := t.ask(t.store.Check, hosts, 0)
	numbers = make([]uint64, len(answers))
	for i, a := range answers {
		if a.known {
			numbers[i] = a.number
		}
	}
	return numbers, err
}

// restore adds hosts that are not in the table.
func (t *table) restore(hosts []string, number uint64) error {
	t.use <- struct{}{}
	defer func() { <-t.use }()
	t.items = t.items[:0]
	for _, h := range hosts {
		t.items = append(t.items, drum.Item{Key: assignment.Key(h), Value: number})
	}
	if err := t.store.RestoreValues(t.items); err != nil {
		return fmt.Errorf("table of hosts: %w", err)
	}
	return nil
}

// bytes returns the memory and the disk space that the table uses.
func (t *table) bytes() (memory, disk int64) {
	t.use <- struct{}{}
	defer func() { <-t.use }()
	s := t.store.Stats()
	return s.MemoryBytes, s.DiskBytes + s.HeldBytes
}

func (t *table) close() error {
	t.use <- struct{}{}
	defer func() { <-t.use }()
	return t.store.Close()
}
