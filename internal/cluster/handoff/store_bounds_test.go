package handoff_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/handoff"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

// TestTogether ships, syncs, imports and compacts at once.
func TestTogether(t *testing.T) {
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
				rs := randomBatch(rng)
				if err := s.Append(st.id, uint64(n+1), encode(rs)); err != nil {
					t.Errorf("Append: %v", err)
					return
				}
				st.log, st.number = append(st.log, rs), append(st.number, uint64(n+1))
				if n%10 == 0 {
					if last, err := s.Sync(st.id); err != nil || last != uint64(n+1) {
						t.Errorf("Sync = %d, %v", last, err)
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
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		infos := s.Sources()
		if !slices.ContainsFunc(infos, func(i handoff.Info) bool { return i.Hosts == 0 || i.Since > 40000 }) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("Run does not compact: %+v", infos)
		}
	}
	stop()
	compacting.Wait()
	must(t, s.Close())
}

// TestImportGoesFirst: an Import does not wait for a Compact.
func TestImportGoesFirst(t *testing.T) {
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
	must(t, s.Append(id, 1, encode(big)))
	must(t, s.Append(source(2), 1, encode([]handoff.Record{accept(1, "http://b.example/")})))
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
	done := make(chan error)
	order := make(chan string, 2)
	wg.Go(func() {
		_, err := s.Import(ctx, source(2), nil, handoff.Funcs{Pending: func([]handoff.Record) error {
			infos := s.Sources()
			order <- fmt.Sprintf("imported while %d hosts are compacted", infos[0].Hosts)
			return nil
		}})
		done <- err
	})
	for s.Urgent() == 0 {
		time.Sleep(time.Millisecond)
	}
	close(goOn)
	must(t, <-done)
	if got, want := <-order, "imported while 0 hosts are compacted"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	wg.Wait()
	if infos := s.Sources(); infos[0].Hosts != 1 || infos[0].Finished != 9000 {
		t.Errorf("the interrupted Compact left %+v", infos[0])
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
	must(t, s.Append(id, 1, encode(rs)))
	over, cancel := context.WithCancel(ctx)
	enough := errors.New("enough")
	for _, end := range []struct {
		want error
		fn   func([]handoff.Record) error
	}{
		{enough, func([]handoff.Record) error { return enough }},
		{context.Canceled, func([]handoff.Record) error { cancel(); return nil }},
	} {
		calls := 0
		_, err := s.Import(over, id, nil, handoff.Funcs{Pending: func(rs []handoff.Record) error {
			calls++
			return end.fn(rs)
		}})
		if !errors.Is(err, end.want) || calls == 0 || calls > 5 {
			t.Errorf("Import that should end with %v: %v after %d calls", end.want, err, calls)
		}
	}
	if err := s.Compact(over, id); !errors.Is(err, context.Canceled) {
		t.Errorf("Compact without time: %v", err)
	}
	es, err := fs.ReadDir("r/sort")
	must(t, err)
	if len(es) > 0 {
		t.Errorf("%d files of a sort stay", len(es))
	}
	st := &story{id: id, log: [][]handoff.Record{rs}}
	must(t, st.check(s))
}
