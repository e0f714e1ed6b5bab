package journal_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/journal"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
)

// A model knows what a journal must hold (synced or committed batches) and may hold (appended batches). The batches
// are 0, 1, 2 and so on. Batch i has size(i) records. Each record names its batch and its place in the batch.
type model struct {
	appended, committed, synced int
}

func size(batch int) int { return 1 + batch%4 }

func recordsOf(batch int) []journal.Record {
	rs := make([]journal.Record, size(batch))
	for i := range rs {
		rs[i] = journal.Record{Kind: byte(i), Payload: payload(batch)}
	}
	return rs
}

func payload(batch int) []byte {
	b := binary.AppendUvarint(nil, uint64(batch))
	for i := range batch * 7 % 50 {
		b = append(b, byte(i*batch))
	}
	return b
}

// run does n random operations or stops at the first error. Each snapshot holds the same records as the batches that
// it replaces. Every replay is therefore a prefix of the batches.
func (m *model) run(j *journal.Journal, rng *rand.Rand, n int) error {
	for range n {
		switch op := rng.IntN(20); {
		case op < 12:
			m.appended++
			before := j.SegmentBytes()
			if err := j.Append(recordsOf(m.appended - 1)); err != nil {
				return err
			}
			if j.SegmentBytes() <= before {
				return fmt.Errorf("SegmentBytes did not grow after an Append")
			}
		case op < 16:
			if err := j.Commit(); err != nil {
				return err
			}
			m.committed = m.appended
		case op < 19:
			if err := j.Sync(); err != nil {
				return err
			}
			m.committed, m.synced = m.appended, m.appended
		default:
			abandoned := rng.IntN(2) == 0
			err := snapshot(j, func(add func(byte, []byte) error) error {
				for b := range m.appended {
					if abandoned && b == m.appended/2 {
						return errAbandoned
					}
					for i, r := range recordsOf(b) {
						if err := add(byte(i), r.Payload); err != nil {
							return err
						}
					}
				}
				return nil
			})
			if j.Err() == nil { // the rotation worked, even if the snapshot failed
				m.committed, m.synced = m.appended, m.appended
			}
			if err != nil && !errors.Is(err, errAbandoned) {
				return err
			}
		}
	}
	return nil
}

var errAbandoned = errors.New("abandoned")

// check replays and expects whole batches in order: at least min, at most all that were appended. It then sets the
// model to what it found.
func (m *model) check(fs disk.FS, min int) error {
	batch, place := 0, 0
	st, err := journal.Replay(fs, "j", func(kind byte, p []byte) error {
		if int(kind) != place || string(p) != string(payload(batch)) {
			return fmt.Errorf("record %d %x; want batch %d, record %d", kind, p, batch, place)
		}
		if place++; place == size(batch) {
			batch, place = batch+1, 0
		}
		return nil
	})
	switch {
	case err != nil:
		return fmt.Errorf("%w (%+v)", err, st)
	case place != 0:
		return fmt.Errorf("batch %d was replayed in part", batch)
	case batch < min || batch > m.appended:
		return fmt.Errorf("%d batches, want %d to %d (%+v)", batch, min, m.appended, st)
	}
	*m = model{batch, batch, m.synced}
	m.synced = min
	return nil
}

// TestCrashes kills the process or the machine repeatedly.
func TestCrashes(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 3))
		fs := testdisk.NewMem()
		var m model
		for generation := range 6 {
			j, err := journal.Open(fs, "j", journal.Config{BufferBytes: 1 << rng.IntN(12)})
			if err != nil {
				t.Fatalf("seed %d generation %d: %v", seed, generation, err)
			}
			if generation > 0 {
				m.synced = m.appended // Open syncs what it finds
			}
			if err := m.run(j, rng, rng.IntN(60)); err != nil {
				t.Fatalf("seed %d generation %d: %v", seed, generation, err)
			}
			how, min := "kill", m.committed
			if rng.IntN(2) == 0 {
				fs, how, min = fs.Crash(rng.Uint64()), "power failure", m.synced
			}
			if err := m.check(fs, min); err != nil {
				t.Fatalf("seed %d generation %d, %s: %v", seed, generation, how, err)
			}
		}
	}
}

// TestFaultAtEveryOperation fails each operation of a run in turn, either only that one or all from then on. Then it
// heals the disk. It also checks what a power failure would leave.
func TestFaultAtEveryOperation(t *testing.T) {
	for seed := range uint64(testtier.Rounds(1, 4)) {
		failed := 0
		for n := int64(1); ; n++ {
			whole := true
			for i, hook := range []func(testdisk.Call) testdisk.Fault{testdisk.FailAt(n, syscall.EIO),
				testdisk.FailFrom(n, syscall.ENOSPC)} {
				mem := testdisk.NewMem()
				fs := testdisk.NewFaulty(mem, hook)
				rng := rand.New(rand.NewPCG(seed, 4))
				var m model
				j, err := journal.Open(fs, "j", journal.Config{BufferBytes: 200})
				if err == nil {
					err = m.run(j, rng, 80)
					_ = j.Close() // may fail again or not: both are correct
				}
				if _, changes := fs.Calls(); changes >= n {
					whole = false
					failed++
				}
				if i == 1 && err != nil && !disk.IsFull(err) {
					t.Fatalf("seed %d n=%d: %v is not ENOSPC", seed, n, err)
				}
				fs.Heal()
				lost := m
				if err := lost.check(mem.Crash(uint64(n)), m.synced); err != nil {
					t.Fatalf("seed %d n=%d hook %d, power failure: %v", seed, n, i, err)
				}
				if err := m.check(fs, m.committed); err != nil {
					t.Fatalf("seed %d n=%d hook %d: %v", seed, n, i, err)
				}
				j, err = journal.Open(fs, "j", journal.Config{})
				if err != nil {
					t.Fatalf("seed %d n=%d hook %d, after Heal: %v", seed, n, i, err)
				}
				if err := m.run(j, rng, 20); err != nil {
					t.Fatalf("seed %d n=%d hook %d, after Heal: %v", seed, n, i, err)
				}
				must.Do(t, j.Close())
				if err := m.check(fs, m.appended); err != nil {
					t.Fatalf("seed %d n=%d hook %d, after Heal: %v", seed, n, i, err)
				}
			}
			if whole {
				break
			}
		}
		if failed < 40 {
			t.Errorf("seed %d: only %d operations failed, want at least 40", seed, failed)
		}
	}
}

// TestFaultInRecovery crashes a run and then fails each operation of the next Open in turn. A second Open must find
// the same batches.
func TestFaultInRecovery(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 5))
		mem := testdisk.NewMem()
		j := open(t, mem, "j", journal.Config{BufferBytes: 200})
		var before model
		if err := before.run(j, rng, 60); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		crashed := mem.Crash(seed)
		for n := int64(1); ; n++ {
			fs := testdisk.NewFaulty(crashed.Clone(), testdisk.FailFrom(n, syscall.EIO))
			m := before
			_, err := journal.Open(fs, "j", journal.Config{})
			fs.Heal()
			if err := m.check(fs, m.synced); err != nil {
				t.Fatalf("seed %d n=%d: %v", seed, n, err)
			}
			if _, err := journal.Open(fs, "j", journal.Config{}); err != nil {
				t.Fatalf("seed %d n=%d, second Open: %v", seed, n, err)
			}
			if err := m.check(fs, m.appended); err != nil {
				t.Fatalf("seed %d n=%d, second Open: %v", seed, n, err)
			}
			if err == nil {
				break
			}
		}
	}
}
