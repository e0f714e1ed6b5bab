package handoff_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/orbweaver/orbweaver/internal/cluster/handoff"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

// TestTogether ships, syncs, imports and compacts at once.
func TestTogether(t *testing.T) { synctest.Test(t, together) }

func together(t *testing.T) {
	s := openStore(t, testdisk.NewMem(), handoff.Config{CompactBytes: 20000, BufferBytes: 1000})
	running, stop := context.WithCancel(ctx)
	var compacting, shipping sync.WaitGroup
	compacting.Go(func() {
		if err := s.Run(running); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	var stories [3]*story
	for i := range stories {
		st := &story{id: source(i)}
		stories[i] = st
		rng := rand.New(rand.NewPCG(uint64(i), 9))
		shipping.Go(func() {
			for n := range 300 {
				if err := st.append(s, randomBatch(rng)); err != nil {
					t.Errorf("Append: %v", err)
					return
				}
				if n%10 == 0 {
					if err := s.Sync(st.id); err != nil {
						t.Errorf("Sync: %v", err)
					}
				}
				if n%100 == 50 {
					if err := st.check(s); err != nil {
						t.Errorf("source %d batch %d: %v", i, n, err)
					}
				}
			}
		})
	}
	shipping.Wait()
	for _, st := range stories {
		if err := st.check(s); err != nil {
			t.Error(err)
		}
	}
	// Run compacts the rest by itself.
	synctest.Wait()
	for _, st := range stories {
		if snapshot, since := s.Sizes(st.id); snapshot == 0 || since > 40000 {
			t.Errorf("%v: Run leaves %d octets since a snapshot of %d", st.id, since, snapshot)
		}
	}
	stop()
	compacting.Wait()
	must.Do(t, s.Close())
}

// TestImportGoesFirst: an Import does not wait for a Compact.
func TestImportGoesFirst(t *testing.T) { synctest.Test(t, importGoesFirst) }

func importGoesFirst(t *testing.T) {
	mem := testdisk.NewMem()
	var once sync.Once
	reached, goOn := make(chan struct{}), make(chan struct{})
	fs := testdisk.NewFaulty(mem, nil)
	s := openStore(t, fs, handoff.Config{})
	defer s.Close()
	big := func() (rs []handoff.Record) {
		for i := range 9000 {
			rs = append(rs, finish(0, fmt.Sprintf("http://a.example/%d", i)))
		}
		return rs
	}()
	id := source(1)
	must.Do(t, s.Append(id, encode(big)))
	must.Do(t, s.Append(source(2), encode([]handoff.Record{accept(1, "http://b.example/")})))
	fs.Break(func(c testdisk.Call) testdisk.Fault {
		if c.Op == testdisk.OpOpen && strings.Contains(c.Name, id.Name) {
			once.Do(func() { close(reached); <-goOn })
		}
		return testdisk.Fault{}
	})
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.Compact(ctx, id); err != nil {
			t.Errorf("Compact: %v", err)
		}
	})
	<-reached
	wg.Go(func() {
		_, err := s.Import(ctx, source(2), func(*handoff.Record) error {
			if snapshot, _ := s.Sizes(id); snapshot > 0 {
				t.Error("the Import waited for the Compact")
			}
			return nil
		})
		if err != nil {
			t.Errorf("Import: %v", err)
		}
	})
	synctest.Wait() // the Import waits for the Compact to yield
	close(goOn)
	wg.Wait()
	if snapshot, _ := s.Sizes(id); snapshot == 0 {
		t.Error("the interrupted Compact was not repeated")
	}
}

// TestCancelled: if a context or a func ends an Import, nothing stays open.
func TestCancelled(t *testing.T) {
	fs := testdisk.NewMem()
	s := openStore(t, fs, handoff.Config{})
	defer s.Close()
	id := source(1)
	var rs []handoff.Record
	for i := range 5000 {
		rs = append(rs, accept(uint64(i), fmt.Sprintf("http://a.example/%d", i)),
			accept(uint64(i), fmt.Sprintf("http://b.example/%d", i)))
	}
	must.Do(t, s.Append(id, encode(rs)))
	over, cancel := context.WithCancel(ctx)
	enough := errors.New("enough")
	for _, end := range []struct {
		want error
		fn   func() error
		most int // calls
	}{
		{enough, func() error { return enough }, 1},
		{context.Canceled, func() error { cancel(); return nil }, 1024},
	} {
		calls := 0
		_, err := s.Import(over, id, func(*handoff.Record) error {
			calls++
			return end.fn()
		})
		if !errors.Is(err, end.want) || calls == 0 || calls > end.most {
			t.Errorf("Import that should end with %v: %v after %d calls", end.want, err, calls)
		}
	}
	if err := s.Compact(over, id); !errors.Is(err, context.Canceled) {
		t.Errorf("Compact without time: %v", err)
	}
	es, err := fs.ReadDir("r/sort")
	must.Do(t, err)
	if len(es) > 0 {
		t.Errorf("%d files of a sort stay", len(es))
	}
	st := &story{id: id, log: [][]handoff.Record{rs}}
	must.Do(t, st.check(s))
}
