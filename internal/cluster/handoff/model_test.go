package handoff_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/orbweaver/orbweaver/internal/cluster/handoff"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var ctx = context.Background()

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func source(n int) handoff.Source {
	return handoff.Source{Name: fmt.Sprintf("a%d", n), Instance: [16]byte{byte(n), 0xaa}}
}

// A model is the state that one source's records result in, as maps.
type model map[uint64]*modelHost

type modelHost struct {
	epoch int
	open  bool
	urls  map[uint64]modelURL
	known []modelText
	clock *modelText
}

type modelURL struct {
	pending bool
	rec     handoff.Record
	epoch   int
}

type modelText struct {
	text  string
	epoch int
}

func (m model) host(key uint64) *modelHost {
	if m[key] == nil {
		m[key] = &modelHost{urls: map[uint64]modelURL{}}
	}
	return m[key]
}

func (m model) apply(r handoff.Record) {
	h := m.host(r.Host)
	u, there := h.urls[r.Path]
	same := there && u.epoch == h.epoch
	switch r.Kind {
	case handoff.Accept:
		if !same {
			h.urls[r.Path] = modelURL{true, r, h.epoch}
		}
	case handoff.Finish:
		if same && !u.pending && len(r.State) == 0 {
			r.State = u.rec.State
		}
		h.urls[r.Path] = modelURL{false, r, h.epoch}
	case handoff.Known:
		h.known = append(h.known, modelText{fmt.Sprint(r.Width, r.Paths), h.epoch})
	case handoff.Clock:
		h.clock = &modelText{clockText(r), h.epoch}
	case handoff.Begin:
		h.epoch++
		h.open = true
	case handoff.End:
		if !h.open {
			return
		}
		h.open = false
		maps.DeleteFunc(h.urls, func(_ uint64, u modelURL) bool { return u.epoch < h.epoch })
		h.known = slices.DeleteFunc(h.known, func(k modelText) bool { return k.epoch < h.epoch })
		if h.clock != nil && h.clock.epoch < h.epoch {
			h.clock = nil
		}
	}
}

func clockText(r handoff.Record) string {
	return fmt.Sprintf("%s %v %v %x", r.Name, r.Quiet, r.Pause, r.State)
}

func finishText(r handoff.Record) string {
	if r.Disposition == 0 && len(r.State) == 0 {
		r.Number = 0
	}
	return fmt.Sprintf("finished %x %d %d %x", r.Path, r.Number, r.Disposition, r.State)
}

func pendingText(r handoff.Record) string {
	return fmt.Sprintf("pending %d %x %x", r.Number, r.Path, r.Link)
}

// text returns a model as text, host by host.
func (m model) text(wanted func(uint64) bool) string {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(m)) {
		h := m[key]
		if wanted != nil && !wanted(key) || len(h.urls)+len(h.known) == 0 && h.clock == nil {
			continue
		}
		clock := "-"
		if h.clock != nil {
			clock = h.clock.text
		}
		var pending []handoff.Record
		var done, known []string
		for _, u := range h.urls {
			if u.pending {
				pending = append(pending, u.rec)
			} else {
				done = append(done, finishText(u.rec))
			}
		}
		for _, k := range h.known {
			known = append(known, k.text)
		}
		slices.SortFunc(pending, func(a, b handoff.Record) int {
			if a.Number != b.Number {
				return int(int64(a.Number) - int64(b.Number))
			}
			if a.Path < b.Path {
				return -1
			}
			return 1
		})
		writeHost(&b, key, clock, pending, done, known)
	}
	return b.String()
}

func writeHost(b *strings.Builder, key uint64, clock string, pending []handoff.Record, done, known []string) {
	fmt.Fprintf(b, "host %x clock %s\n", key, clock)
	for _, r := range pending {
		fmt.Fprintln(b, pendingText(r))
	}
	sort.Strings(done)
	sort.Strings(known)
	for _, l := range append(done, known...) {
		fmt.Fprintln(b, l)
	}
}

// imported returns the result of an Import as text, like model.text. It checks the order of the
// calls.
func imported(s *handoff.Store, id handoff.Source,
	wanted func(uint64) bool) (text string, mark handoff.Mark, err error) {
	var b strings.Builder
	var host uint64
	var clock string
	var pending []handoff.Record
	var done, known []string
	any := false
	end := func() {
		if any {
			writeHost(&b, host, clock, pending, done, known)
		}
		clock, pending, done, known = "-", nil, nil, nil
	}
	at := func(key uint64) error {
		if any && key < host {
			return fmt.Errorf("host %x behind host %x", key, host)
		}
		if !any || key != host {
			end()
			any, host = true, key
		}
		return nil
	}
	end()
	mark, err = s.Import(ctx, id, wanted, handoff.Funcs{
		Clock: func(c handoff.Record) error {
			if err := at(c.Host); err != nil {
				return err
			}
			if clock != "-" || len(pending)+len(done)+len(known) > 0 {
				return fmt.Errorf("a clock is not the first of its host, or not alone")
			}
			clock = clockText(c)
			return nil
		},
		Pending: func(links []handoff.Record) error {
			for _, r := range links {
				if err := at(r.Host); err != nil {
					return err
				}
				if len(known) > 0 {
					return fmt.Errorf("a pending link behind known keys")
				}
				r.Link = slices.Clone(r.Link)
				pending = append(pending, r)
			}
			return nil
		},
		Finished: func(urls []handoff.Record) error {
			for _, r := range urls {
				if err := at(r.Host); err != nil {
					return err
				}
				done = append(done, finishText(r))
			}
			return nil
		},
		Known: func(r handoff.Record) error {
			err := at(r.Host)
			known = append(known, fmt.Sprint(r.Width, r.Paths))
			return err
		},
	})
	end()
	return b.String(), mark, err
}

// The URLs are few, so that several records concern the same one.
func randomURL(rng *rand.Rand) weburl.URL {
	return weburl.MustParse(fmt.Sprintf("http://h%d.example/%d", rng.IntN(5), rng.IntN(8)))
}

func randomRecord(rng *rand.Rand) handoff.Record {
	u := randomURL(rng)
	k := u.Key()
	r := handoff.Record{Host: k.Host, Path: k.Path, Number: uint64(rng.IntN(1000))}
	switch n := rng.IntN(40); {
	case n < 16:
		r.Kind = handoff.Accept
		r.Link = weburl.Link{URL: u, Via: "http://v.example/" + strings.Repeat("x", rng.IntN(60)), Hops: "L",
			Level: uint8(n)}.AppendTo(nil)
	case n < 29:
		r.Kind, r.Disposition = handoff.Finish, byte(rng.IntN(2))
		r.State = []byte(strings.Repeat("s", max(0, rng.IntN(6)-3)))
	case n < 32:
		r.Kind, r.Width = handoff.Known, uint8(1+rng.IntN(64))
		for range 1 + rng.IntN(5) {
			r.Paths = append(r.Paths, rng.Uint64()>>(64-r.Width))
		}
		slices.Sort(r.Paths)
		r.Paths = slices.Compact(r.Paths)
	case n < 34:
		r.Kind, r.Name = handoff.Clock, u.Host()
		r.Quiet, r.Pause = time.Duration(rng.IntN(1e9))*time.Microsecond, time.Second
	case n < 37:
		r.Kind = handoff.Begin
	default:
		r.Kind = handoff.End
	}
	return r
}

func randomBatch(rng *rand.Rand) (rs []handoff.Record) {
	for range rng.IntN(12) {
		rs = append(rs, randomRecord(rng))
	}
	return rs
}

func encode(rs []handoff.Record) (b []byte) {
	for i := range rs {
		b = rs[i].AppendTo(b)
	}
	return b
}

// A story is the sequence of batches of one source.
type story struct {
	id     handoff.Source
	log    [][]handoff.Record
	number []uint64 // of each batch
	synced int      // length of the durable part of log
}

func (st *story) last() (n uint64) {
	for _, v := range st.number {
		n = max(n, v)
	}
	return n
}

func (st *story) model() model {
	m := model{}
	for _, rs := range st.log {
		for _, r := range rs {
			m.apply(r)
		}
	}
	return m
}

// step does a random operation.
func (st *story) step(s *handoff.Store, rng *rand.Rand) error {
	switch op := rng.IntN(40); {
	case op < 28:
		rs := randomBatch(rng)
		n := st.last() + 1
		if err := s.Append(st.id, n, encode(rs)); err != nil {
			return err
		}
		st.log, st.number = append(st.log, rs), append(st.number, n)
		if rng.IntN(4) == 0 { // a repeated batch must change nothing
			if err := s.Append(st.id, 1+rng.Uint64N(n), encode(randomBatch(rng))); err != nil {
				return err
			}
		}
	case op < 33:
		last, err := s.Sync(st.id)
		if err != nil {
			return err
		}
		if last != st.last() {
			return fmt.Errorf("Sync = %d, want %d", last, st.last())
		}
		st.synced = len(st.log)
	case op < 36:
		return s.Compact(ctx, st.id)
	default:
		return st.check(s)
	}
	return nil
}

// differ returns an error with the differences.
func differ(got, want string) error {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	var b strings.Builder
	for _, l := range g {
		if !slices.Contains(w, l) {
			fmt.Fprintf(&b, "\n\tis there: %s", l)
		}
	}
	for _, l := range w {
		if !slices.Contains(g, l) {
			fmt.Fprintf(&b, "\n\tis not:   %s", l)
		}
	}
	if b.Len() == 0 {
		b.WriteString("\n\tonly the order: " + got + want)
	}
	return fmt.Errorf("the imported state is wrong:%s", b.String())
}

// check imports and compares with the model.
func (st *story) check(s *handoff.Store) error {
	got, _, err := imported(s, st.id, nil)
	if err != nil {
		return err
	}
	if want := st.model().text(nil); got != want {
		return differ(got, want)
	}
	half := func(h uint64) bool { return h%2 == 0 }
	if got, _, err = imported(s, st.id, half); err != nil {
		return err
	}
	if want := st.model().text(half); got != want {
		return fmt.Errorf("half the hosts: %w", differ(got, want))
	}
	return nil
}

// survive cuts the story off at the store's last batch. The store must have all synced batches.
func (st *story) survive(s *handoff.Store) error {
	last, err := s.Sync(st.id)
	if err != nil {
		return err
	}
	n := slices.Index(st.number, last) + 1
	if last > st.last() {
		return fmt.Errorf("the store has batch %d, which was never sent", last)
	}
	if n < st.synced {
		if i := slices.IndexFunc(st.number[n:st.synced], func(v uint64) bool { return v > 0 }); i >= 0 {
			return fmt.Errorf("batch %d is the last, %d entries were synced", last, st.synced)
		}
		n = st.synced
	}
	st.log, st.number, st.synced = st.log[:n], st.number[:n], n
	return st.check(s)
}

// TestModel does random operations, with kills and power failures, and compares with maps.
func TestModel(t *testing.T) {
	stories := uint64(60)
	if testing.Short() {
		stories = 10
	}
	for seed := range stories {
		rng := rand.New(rand.NewPCG(seed, 1))
		fs := testdisk.NewMem()
		sources := []*story{{id: source(0)}, {id: source(1)}}
		cfg := handoff.Config{BufferBytes: 1 << rng.IntN(12), PartBytes: 1 << (8 + rng.IntN(8))}
		for generation := range 5 {
			s, err := handoff.Open(fs, "r", cfg)
			if err != nil {
				t.Fatalf("seed %d generation %d: %v", seed, generation, err)
			}
			if d := s.Damaged(); len(d) > 0 {
				t.Fatalf("seed %d generation %d: %v", seed, generation, d[0])
			}
			for _, st := range sources {
				if err := st.survive(s); err != nil {
					t.Fatalf("seed %d generation %d: %v", seed, generation, err)
				}
			}
			for n := range rng.IntN(60) {
				if err := sources[rng.IntN(2)].step(s, rng); err != nil {
					t.Fatalf("seed %d generation %d step %d: %v", seed, generation, n, err)
				}
			}
			old := fs
			switch rng.IntN(3) {
			case 0:
				fs = fs.Clone() // a kill
			case 1:
				fs = fs.Crash(rng.Uint64())
			}
			must(t, s.Close())
			if fs == old {
				for _, st := range sources {
					st.synced = len(st.log)
				}
			}
		}
	}
}

// TestFaultAtEveryOperation fails each change of the disk in turn, only that one or all from then
// on, with compactions in progress. Then the power fails, or the disk works again.
func TestFaultAtEveryOperation(t *testing.T) {
	failed := 0
	for seed := range uint64(1) {
		for n := int64(1); ; n++ {
			whole := true
			hooks := []func(testdisk.Call) testdisk.Fault{testdisk.FailAt(n, errIO), testdisk.FailFrom(n, errIO)}
			for i, hook := range hooks {
				mem := testdisk.NewMem()
				fs := testdisk.NewFaulty(mem, hook)
				rng := rand.New(rand.NewPCG(seed, 2))
				st := &story{id: source(0)}
				s, err := handoff.Open(fs, "r", handoff.Config{BufferBytes: 300, PartBytes: 400})
				for range 25 {
					if err != nil {
						break
					}
					err = st.step(s, rng)
				}
				if err != nil && !errors.Is(err, errIO) {
					t.Fatalf("seed %d n=%d hook %d: %v", seed, n, i, err)
				}
				if _, changes := fs.Calls(); changes >= n {
					whole = false
					failed++
				}
				for j, fs := range []disk.FS{mem.Crash(uint64(n)), mem.Clone()} {
					again, err := handoff.Open(fs, "r", handoff.Config{})
					if err != nil {
						t.Fatalf("seed %d n=%d hook %d: %v", seed, n, i, err)
					}
					if d := again.Damaged(); len(d) > 0 {
						t.Fatalf("seed %d n=%d hook %d: %v", seed, n, i, d[0])
					}
					lost := *st
					if err := lost.survive(again); err != nil {
						t.Fatalf("seed %d n=%d hook %d crash %d: %v", seed, n, i, j, err)
					}
					must(t, again.Close())
				}
				if s != nil {
					_ = s.Close() // may fail again
				}
			}
			if whole {
				break
			}
		}
	}
	if failed < 200 {
		t.Errorf("only %d operations failed", failed)
	}
}

var errIO = errors.New("input/output error")
