package handoff_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/orbweaver/orbweaver/internal/cluster/handoff"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var ctx = context.Background()

func source(n int) handoff.Source {
	return handoff.Source{Name: fmt.Sprintf("a%d", n), Instance: [16]byte{byte(n), 0xaa}}
}

// A model is the state that one source's records result in, as maps.
type model map[uint64]*modelHost

type modelHost struct {
	clock string
	urls  map[uint64]handoff.Record // the Accept, the merged Finish, or a Known for a key alone
	known map[string]bool           // truncated keys
	named map[uint64]handoff.Record
	pages map[uint64]uint64 // by Counter
}

func (m model) apply(r handoff.Record) {
	h := m[r.Host]
	if h == nil {
		h = &modelHost{clock: "-", urls: map[uint64]handoff.Record{}, known: map[string]bool{},
			named: map[uint64]handoff.Record{}, pages: map[uint64]uint64{}}
		m[r.Host] = h
	}
	was, there := h.urls[r.Path]
	switch {
	case r.Kind == handoff.Clock:
		h.clock = clockText(&r)
	case r.Kind == handoff.Pages:
		h.pages[r.Counter] = max(h.pages[r.Counter], r.Pages)
	case r.Kind == handoff.Named:
		was := h.named[r.Path]
		if r.Disposition > was.Disposition || r.Disposition == was.Disposition && was.Archive == "" && r.Archive != "" {
			h.named[r.Path] = r
		}
	case r.Kind == handoff.Accept && !there:
		h.urls[r.Path] = r
	case r.Kind == handoff.Finish:
		if was.Kind == handoff.Finish {
			r.Disposition, r.Pages = max(r.Disposition, was.Disposition), max(r.Pages, was.Pages)
			if len(r.State) == 0 {
				r.State = was.State
			}
		}
		h.urls[r.Path] = r
	case r.Kind == handoff.Known && r.Width < 64:
		for _, p := range r.Paths {
			h.known[knownText(r.Width, p)] = true
		}
	case r.Kind == handoff.Known:
		for _, p := range r.Paths {
			if h.urls[p].Kind != handoff.Finish {
				h.urls[p] = handoff.Record{Kind: handoff.Known}
			}
		}
	}
}

func clockText(r *handoff.Record) string { return fmt.Sprintf("%s %+v", r.Name, r.Politeness) }

func pagesText(counter, pages uint64) string { return fmt.Sprintf("counter %016x %d", counter, pages) }

func keyText(path uint64) string { return fmt.Sprintf("finished %016x", path) }

func finishText(r *handoff.Record) string {
	return fmt.Sprintf("finished %016x %d %d %d %x %x", r.Path, r.Number, r.Disposition, r.Pages, r.Link, r.State)
}

func pendingText(r *handoff.Record) string {
	return fmt.Sprintf("pending %d %x %x", r.Number, r.Path, r.Link)
}

func namedText(r *handoff.Record) string {
	return fmt.Sprintf("named %016x %d %q %x", r.Path, r.Disposition, r.Archive, r.Link)
}

func knownText(width uint8, path uint64) string { return fmt.Sprintf("known %02d %016x", width, path) }

// text returns a model as text, host by host.
func (m model) text() string {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(m)) {
		h := m[key]
		var pending []handoff.Record
		var done []string
		for counter, n := range h.pages {
			done = append(done, pagesText(counter, n))
		}
		for path, r := range h.urls {
			switch r.Kind {
			case handoff.Accept:
				pending = append(pending, r)
			case handoff.Finish:
				done = append(done, finishText(&r))
			default:
				done = append(done, keyText(path))
			}
		}
		slices.SortFunc(pending, func(a, b handoff.Record) int {
			return cmp.Or(cmp.Compare(a.Number, b.Number), cmp.Compare(a.Path, b.Path))
		})
		var links []string
		for i := range pending {
			links = append(links, pendingText(&pending[i]))
		}
		for _, path := range slices.Sorted(maps.Keys(h.named)) {
			if r := h.named[path]; h.urls[path].Disposition == 0 {
				links = append(links, namedText(&r))
			}
		}
		writeHost(&b, key, h.clock, done, links, slices.Sorted(maps.Keys(h.known)))
	}
	return b.String()
}

func writeHost(b *strings.Builder, key uint64, clock string, done, links, known []string) {
	fmt.Fprintf(b, "host %x clock %s\n", key, clock)
	slices.Sort(done)
	for _, l := range slices.Concat(done, links, known) {
		fmt.Fprintln(b, l)
	}
}

// An importer turns the calls of an Import into text, like model.text. It checks their order.
type importer struct {
	b      *strings.Builder
	any    bool
	host   uint64
	clock  string
	last   handoff.Record // the previous Record of the host, or the zero Record
	finish uint64         // path of the host's last Finish
	key    uint64         // the host's last whole key

	done, links, known []string
}

// rank returns the place of a kind in the order of a host's records.
func rank(r *handoff.Record) int {
	switch {
	case r.Kind == handoff.Clock:
		return 1
	case r.Kind == handoff.Pages:
		return 2
	case r.Kind == handoff.Finish, r.Kind == handoff.Known && r.Width == 64:
		return 3
	case r.Kind == handoff.Accept:
		return 4
	case r.Kind == handoff.Named:
		return 5
	case r.Kind == handoff.Known:
		return 6
	}
	return 0
}

func (im *importer) end() {
	if im.any {
		writeHost(im.b, im.host, im.clock, im.done, im.links, im.known)
	}
	*im = importer{b: im.b, clock: "-"}
}

func (im *importer) record(r *handoff.Record) error {
	if im.any && r.Host < im.host {
		return fmt.Errorf("host %x behind host %x", r.Host, im.host)
	}
	if !im.any || r.Host != im.host {
		im.end()
		im.any, im.host = true, r.Host
	}
	l := &im.last
	switch {
	case rank(r) == 0, rank(r) < rank(l), r.Kind == handoff.Clock && l.Kind == handoff.Clock:
		return fmt.Errorf("a record of kind %q behind kind %q", r.Kind, l.Kind)
	case r.Kind == handoff.Pages && l.Kind == handoff.Pages && r.Counter <= l.Counter:
		return fmt.Errorf("counter %x behind %x", r.Counter, l.Counter)
	case r.Kind == handoff.Finish && len(im.done) > 0 && r.Path <= im.finish && im.finish > 0:
		return fmt.Errorf("finish %x behind %x", r.Path, im.finish)
	case r.Kind == handoff.Accept && l.Kind == handoff.Accept && r.Number < l.Number:
		return fmt.Errorf("link %d behind %d", r.Number, l.Number)
	case r.Kind == handoff.Named && l.Kind == handoff.Named && r.Path <= l.Path:
		return fmt.Errorf("name %x behind %x", r.Path, l.Path)
	case r.Kind == handoff.Known && l.Kind == handoff.Known && rank(r) == rank(l):
		if r.Width < l.Width || r.Width == l.Width && len(l.Paths) < handoff.MaxPaths {
			return fmt.Errorf("keys of width %d behind %d keys of width %d", r.Width, len(l.Paths), l.Width)
		}
	}
	switch {
	case r.Kind == handoff.Clock:
		im.clock = clockText(r)
	case r.Kind == handoff.Pages:
		im.done = append(im.done, pagesText(r.Counter, r.Pages))
	case r.Kind == handoff.Finish:
		im.finish = r.Path
		im.done = append(im.done, finishText(r))
	case r.Kind == handoff.Accept:
		im.links = append(im.links, pendingText(r))
	case r.Kind == handoff.Named:
		im.links = append(im.links, namedText(r))
	case r.Width == 64:
		if r.Paths[0] <= im.key && im.key > 0 {
			return fmt.Errorf("key %x behind %x", r.Paths[0], im.key)
		}
		im.key = r.Paths[len(r.Paths)-1]
		for _, p := range r.Paths {
			im.done = append(im.done, keyText(p))
		}
	default:
		for _, p := range r.Paths {
			im.known = append(im.known, knownText(r.Width, p))
		}
	}
	*l = *r
	l.Paths = slices.Clone(r.Paths)
	return nil
}

// imported returns the result of an Import as text, like model.text.
func imported(s *handoff.Store, id handoff.Source) (text string, mark handoff.Mark, err error) {
	im := &importer{b: &strings.Builder{}, clock: "-"}
	mark, err = s.Import(ctx, id, im.record)
	im.end()
	return im.b.String(), mark, err
}

// The URLs are few, so that several records concern the same one.
func randomRecord(rng *rand.Rand) handoff.Record {
	host := fmt.Sprintf("h%d.example", rng.IntN(5))
	urls := make([]weburl.URL, 8)
	for i := range urls {
		urls[i] = weburl.MustParse(fmt.Sprintf("http://%s/%d", host, i))
	}
	u := urls[rng.IntN(len(urls))]
	r := handoff.Record{Host: link.KeyOf(u).Host}
	l := link.Link{URL: u, Hops: strings.Repeat("L", rng.IntN(3)), Level: uint8(rng.IntN(3))}
	switch n := rng.IntN(50); {
	case n >= 46:
		r.Kind, r.Name, r.Counter, r.Pages = handoff.Pages, host, uint64(rng.IntN(3)), uint64(1+rng.IntN(300))
	case n >= 40:
		r.Kind, r.Path, r.Disposition = handoff.Named, link.KeyOf(u).Path, handoff.Archived+byte(rng.IntN(2))
		r.Link = link.Link{URL: u}.AppendTo(nil)
		if r.Disposition == handoff.Lost && rng.IntN(2) == 0 {
			r.Archive = source(rng.IntN(3)).Archive()
		}
	case n < 16:
		l.Via = "http://v.example/" + strings.Repeat("x", rng.IntN(60))
		r.Kind, r.Path, r.Number = handoff.Accept, link.KeyOf(u).Path, uint64(rng.IntN(1000))
		if rng.IntN(20) == 0 {
			r.Number = math.MaxUint64
		}
		r.Link = l.AppendTo(nil)
	case n < 28:
		r.Kind, r.Path, r.Number = handoff.Finish, link.KeyOf(u).Path, uint64(rng.IntN(1000))
		r.Link, r.Disposition = l.AppendTo(nil), byte(rng.IntN(2))
		r.State = []byte(strings.Repeat("s", max(0, rng.IntN(6)-3)))
		r.Pages = uint64(max(0, rng.IntN(400)-200))
	case n < 32:
		r.Kind, r.Width = handoff.Known, 64
		for _, i := range rng.Perm(len(urls))[:1+rng.IntN(2)] {
			r.Paths = append(r.Paths, link.KeyOf(urls[i]).Path)
		}
		slices.Sort(r.Paths)
	case n < 37:
		r.Kind, r.Width = handoff.Known, uint8(1+rng.IntN(63))
		for range 1 + rng.IntN(5) {
			r.Paths = append(r.Paths, rng.Uint64()>>(64-min(r.Width, 4))<<(r.Width-min(r.Width, 4)))
		}
		slices.Sort(r.Paths)
		r.Paths = slices.Compact(r.Paths)
	default:
		us := func() time.Duration { return time.Duration(rng.IntN(1e9)) * time.Microsecond }
		r.Kind, r.Name = handoff.Clock, host
		r.Politeness = handoff.Politeness{Delay: us(), Quiet: us(), SlowFor: us(), Slow: uint8(rng.IntN(5))}
		for range max(0, rng.IntN(6)-3) {
			r.Politeness.Origins = append(r.Politeness.Origins, handoff.Origin{Name: "https://" + host,
				Cause: "timeout-connect", Failures: uint8(1 + rng.IntN(255)), Quiet: us()})
		}
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
	synced int // length of the durable part of log
}

// append ships a batch.
func (st *story) append(s *handoff.Store, rs []handoff.Record) error {
	if err := s.Append(st.id, encode(rs)); err != nil {
		return err
	}
	st.log = append(st.log, rs)
	return nil
}

func (st *story) model() model {
	m := model{}
	for _, r := range slices.Concat(st.log...) {
		m.apply(r)
	}
	return m
}

// step does a random operation.
func (st *story) step(s *handoff.Store, rng *rand.Rand) error {
	switch op := rng.IntN(40); {
	case op < 28:
		rs := randomBatch(rng)
		if err := st.append(s, rs); err != nil {
			return err
		}
		if rng.IntN(4) == 0 { // a repeated batch must change nothing
			return s.Append(st.id, encode(rs))
		}
	case op < 33:
		if err := s.Sync(st.id); err != nil {
			return err
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
	got, _, err := imported(s, st.id)
	if err != nil {
		return err
	}
	if want := st.model().text(); got != want {
		return differ(got, want)
	}
	return nil
}

// survive cuts the story off where the store ends. The store must have all synced batches, and of
// the others the first ones, each as a whole.
func (st *story) survive(s *handoff.Store) error {
	got, _, err := imported(s, st.id)
	if err != nil {
		return err
	}
	all := st.log
	for n := len(all); n >= st.synced; n-- {
		st.log = all[:n]
		if st.model().text() == got {
			st.synced = n
			return nil
		}
	}
	return fmt.Errorf("of %d batches, %d of them synced: %w", len(all), st.synced, differ(got, st.model().text()))
}

// TestModel does random operations, with kills and power failures, and compares with maps.
func TestModel(t *testing.T) {
	base := testseed.New(t)
	for seed := range uint64(testtier.Rounds(20, 300)) {
		rng := rand.New(rand.NewPCG(base, seed))
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
			must.Do(t, s.Close())
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
	failed, step := 0, testtier.Rounds(3, 1) // each operation in the soak
	for n := int64(1); ; n += int64(step) {
		whole := true
		hooks := []func(testdisk.Call) testdisk.Fault{testdisk.FailAt(n, errIO), testdisk.FailFrom(n, errIO)}
		for i, hook := range hooks {
			mem := testdisk.NewMem()
			fs := testdisk.NewFaulty(mem, hook)
			rng := rand.New(rand.NewPCG(0, 2))
			st := &story{id: source(0)}
			s, err := handoff.Open(fs, "r", handoff.Config{BufferBytes: 300, PartBytes: 400})
			for range 30 {
				if err != nil {
					break
				}
				err = st.step(s, rng)
			}
			if err != nil && !errors.Is(err, errIO) {
				t.Fatalf("n=%d hook %d: %v", n, i, err)
			}
			if _, changes := fs.Calls(); changes >= n {
				whole = false
				failed++
			}
			for j, fs := range []disk.FS{mem.Crash(uint64(n)), mem.Clone()} {
				again, err := handoff.Open(fs, "r", handoff.Config{})
				if err != nil {
					t.Fatalf("n=%d hook %d: %v", n, i, err)
				}
				if d := again.Damaged(); len(d) > 0 {
					t.Fatalf("n=%d hook %d: %v", n, i, d[0])
				}
				lost := *st
				if err := lost.survive(again); err != nil {
					t.Fatalf("n=%d hook %d crash %d: %v", n, i, j, err)
				}
				must.Do(t, again.Close())
			}
			if s != nil {
				_ = s.Close() // may fail again
			}
		}
		if whole {
			break
		}
	}
	if failed < 200/step {
		t.Errorf("only %d operations failed", failed)
	}
}

var errIO = errors.New("input/output error")
