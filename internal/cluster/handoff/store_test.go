package handoff_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/handoff"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/journal"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

var update = flag.Bool("update", false, "write the golden files")

func openStore(t testing.TB, fs disk.FS, cfg handoff.Config) *handoff.Store {
	t.Helper()
	s, err := handoff.Open(fs, "r", cfg)
	must(t, err)
	return s
}

func accept(number uint64, url string) handoff.Record {
	u := weburl.MustParse(url)
	return handoff.Record{Kind: handoff.Accept, Host: u.Key().Host, Path: u.Key().Path, Number: number,
		Link: weburl.Link{URL: u, Hops: "L"}.AppendTo(nil)}
}

func finish(number uint64, url string) handoff.Record {
	k := weburl.MustParse(url).Key()
	return handoff.Record{Kind: handoff.Finish, Host: k.Host, Path: k.Path, Number: number}
}

func TestNumbers(t *testing.T) {
	fs := testdisk.NewMem()
	s := openStore(t, fs, handoff.Config{})
	id := source(1)
	batch := encode([]handoff.Record{accept(1, "http://a.example/")})
	var gap *handoff.GapError
	if err := s.Append(id, 2, batch); !errors.Is(err, handoff.ErrGap) || !errors.As(err, &gap) || gap.Have != 0 ||
		gap.Got != 2 {
		t.Errorf("the first batch has number 2: %v", err)
	}
	must(t, s.Append(id, 1, batch))
	must(t, s.Append(id, 1, batch))
	must(t, s.Append(id, 0, batch))
	must(t, s.Append(id, 2, nil))
	if last, err := s.Sync(id); err != nil || last != 2 {
		t.Errorf("Sync = %d, %v, want 2", last, err)
	}
	if last, err := s.Sync(source(2)); err != nil || last != 0 {
		t.Errorf("Sync of an unknown source = %d, %v", last, err)
	}
	must(t, s.Compact(ctx, id))
	must(t, s.Close())
	s = openStore(t, fs, handoff.Config{})
	if last, err := s.Sync(id); err != nil || last != 2 {
		t.Errorf("Sync after a Compact and a start = %d, %v, want 2", last, err)
	}
	if err := s.Append(id, 4, batch); !errors.Is(err, handoff.ErrGap) {
		t.Errorf("batch 4 behind 2: %v", err)
	}
	infos := s.Sources()
	if len(infos) != 1 || infos[0].Source != id || infos[0].Last != 2 || infos[0].Pending != 1 || infos[0].Hosts != 1 {
		t.Errorf("Sources() = %+v", infos)
	}
	for _, name := range []string{"", "A", "a/b", "..", "a_b", "-a"} {
		if err := s.Append(handoff.Source{Name: name}, 1, batch); !errors.Is(err, handoff.ErrSource) {
			t.Errorf("a source by the name of %q: %v", name, err)
		}
	}
	must(t, s.Close())
	if err := s.Append(id, 3, batch); !errors.Is(err, handoff.ErrClosed) {
		t.Errorf("Append after Close: %v", err)
	}
}

func TestMalformedBatches(t *testing.T) {
	s := openStore(t, testdisk.NewMem(), handoff.Config{})
	defer s.Close()
	good := encode([]handoff.Record{accept(1, "http://a.example/")})
	for name, bad := range map[string][]byte{
		"kind":             {'Z', 0},
		"journal's kind":   {'S', 1, 0},
		"cut off":          good[:len(good)-1],
		"length":           {'B', 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1},
		"short host":       {'B', 3, 1, 2, 3},
		"long host":        {'G', 9, 1, 2, 3, 4, 5, 6, 7, 8, 9},
		"no link":          {'A', 1, 1},
		"link to nothing":  {'A', 6, 1, 0, 0, 0, 0, 0},
		"link and more":    append([]byte{'A', good[1] + 1}, append(slices.Clone(good[2:]), 0)...),
		"finish":           {'F', 16, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8},
		"width 0":          {'K', 10, 1, 2, 3, 4, 5, 6, 7, 8, 0, 1},
		"width 65":         {'K', 10, 1, 2, 3, 4, 5, 6, 7, 8, 65, 1},
		"no paths":         {'K', 9, 1, 2, 3, 4, 5, 6, 7, 8, 8},
		"half a path":      {'K', 10, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1},
		"wide path":        {'K', 10, 1, 2, 3, 4, 5, 6, 7, 8, 7, 0x80},
		"order of paths":   {'K', 11, 1, 2, 3, 4, 5, 6, 7, 8, 8, 2, 1},
		"clock's host":     {'C', 4, 1, 'A', 0, 0},
		"clock's path":     {'C', 6, 3, 'a', '/', 'b', 0, 0},
		"clock's time":     {'C', 3, 1, 'a', 0},
		"an eternal pause": {'C', 12, 1, 'a', 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f},
		"much state":       encode([]handoff.Record{{Kind: handoff.Finish, State: make([]byte, handoff.MaxState+1)}}),
		"many paths": encode([]handoff.Record{{Kind: handoff.Known, Width: 64,
			Paths: ascending(handoff.MaxPaths + 1)}}),
	} {
		var re *handoff.RecordError
		err := s.Append(source(1), 1, append(slices.Clone(good), bad...))
		if !errors.Is(err, handoff.ErrRecord) || !errors.As(err, &re) || re.Index != 1 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := s.Append(source(1), 1, make([]byte, handoff.MaxBatch+1)); !errors.Is(err, handoff.ErrTooLarge) {
		t.Errorf("a large batch: %v", err)
	}
	if got, _, err := imported(s, source(1), nil); got != "" || err != nil {
		t.Errorf("of refused batches there is %q, %v", got, err)
	}
	must(t, s.Append(source(1), 1, encode([]handoff.Record{
		{Kind: handoff.Known, Width: 64, Paths: ascending(handoff.MaxPaths)},
		{Kind: handoff.Clock, Name: "[::1]", Quiet: handoff.MaxPause},
		{Kind: handoff.Finish, State: make([]byte, handoff.MaxState)},
	})))
}

func ascending(n int) (ps []uint64) {
	for i := range n {
		ps = append(ps, uint64(i)<<40)
	}
	return ps
}

// TestDropSource: imported and dropped records are gone, unless the source has sent more.
func TestDropSource(t *testing.T) {
	fs := testdisk.NewMem()
	s := openStore(t, fs, handoff.Config{})
	id := source(1)
	must(t, s.Append(id, 1, encode([]handoff.Record{accept(1, "http://a.example/"), accept(2, "http://b.example/")})))
	_, mark, err := imported(s, id, nil)
	must(t, err)
	must(t, s.Append(id, 2, encode([]handoff.Record{accept(3, "http://a.example/3")})))
	if err := s.DropSource(ctx, mark); !errors.Is(err, handoff.ErrNewer) {
		t.Errorf("DropSource without an Import: %v", err)
	}
	_, mark, err = imported(s, id, nil)
	must(t, err)
	must(t, s.DropSource(ctx, mark))
	if infos := s.Sources(); len(infos) != 0 {
		t.Errorf("after DropSource there is %+v", infos)
	}
	must(t, s.Append(id, 1, encode([]handoff.Record{accept(9, "http://a.example/9")})))
	must(t, s.Close())
	s = openStore(t, fs.Crash(1), handoff.Config{})
	defer s.Close()
	if got, _, err := imported(s, id, nil); err != nil || strings.Count(got, "pending") != 1 ||
		!strings.Contains(got, "pending 9 ") {
		t.Errorf("the records after DropSource are %q, %v", got, err)
	}
}

// TestDamage flips bits. The damage names the source, an Import returns only records that were
// sent, and other sources are not affected.
func TestDamage(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	build := func() (*testdisk.Mem, []*story) {
		fs := testdisk.NewMem()
		s := openStore(t, fs, handoff.Config{PartBytes: 500})
		sts := []*story{{id: source(0)}, {id: source(1)}}
		for _, st := range sts {
			for n := range 30 {
				rs := randomBatch(rng)
				must(t, s.Append(st.id, uint64(n+1), encode(rs)))
				st.log, st.number = append(st.log, rs), append(st.number, uint64(n+1))
				if n == 20 {
					must(t, s.Compact(ctx, st.id))
				}
				_, err := s.Sync(st.id)
				must(t, err)
			}
		}
		must(t, s.Close())
		return fs, sts
	}
	kinds := map[string]int{}
	for range 150 {
		fs, sts := build()
		hurt := filepath.Join("r", fmt.Sprintf("%x-%s", sts[0].id.Instance, sts[0].id.Name))
		es, err := fs.ReadDir(hurt)
		must(t, err)
		name := es[rng.IntN(len(es))].Name()
		b, err := disk.ReadFile(fs, filepath.Join(hurt, name), 1<<20)
		must(t, err)
		at := rng.IntN(len(b))
		b[at] ^= 1 << rng.IntN(8)
		must(t, disk.WriteFile(fs, filepath.Join(hurt, name), b))
		s, err := handoff.Open(fs, "r", handoff.Config{})
		if err != nil {
			// Another version is not damage: its records must not be deleted.
			if !errors.Is(err, journal.ErrVersion) {
				t.Fatalf("%s byte %d: %v", name, at, err)
			}
			kinds["version"]++
			continue
		}
		text, _, err := imported(s, sts[0].id, nil)
		for l := range strings.Lines(text) {
			if l, ok := strings.CutSuffix(l, "\n"); ok && strings.HasPrefix(l, "pending") &&
				!slices.ContainsFunc(slices.Concat(sts[0].log...), func(r handoff.Record) bool {
					return r.Kind == handoff.Accept && pendingText(r) == l
				}) {
				t.Fatalf("%s byte %d: the Import returned a record that was not sent: %s", name, at, l)
			} else if ok {
				kinds["salvaged lines"]++
			}
		}
		switch {
		case errors.Is(err, handoff.ErrDamaged):
			kinds["damage"]++
			d := s.Damaged()
			if len(d) != 1 || d[0].Source != sts[0].id || !strings.Contains(d[0].Error(), "journal") &&
				!strings.Contains(d[0].Error(), "part") && !strings.Contains(d[0].Error(), "snapshot") {
				t.Fatalf("%s byte %d: Damaged() = %v", name, at, d)
			}
			if err := s.Append(sts[0].id, 31, nil); !errors.Is(err, handoff.ErrDamaged) {
				t.Fatalf("Append to a damaged source: %v", err)
			}
			if _, err := s.Sync(sts[0].id); !errors.Is(err, handoff.ErrDamaged) {
				t.Fatalf("Sync of a damaged source: %v", err)
			}
			if err := s.Compact(ctx, sts[0].id); !errors.Is(err, handoff.ErrDamaged) {
				t.Fatalf("Compact of a damaged source: %v", err)
			}
			must(t, s.Reset(ctx, sts[0].id))
			if len(s.Damaged()) != 0 {
				t.Fatalf("damaged after Reset")
			}
			again := &story{id: sts[0].id}
			must(t, s.Append(again.id, 1, encode(sts[0].log[0])))
			again.log, again.number = sts[0].log[:1], []uint64{1}
			must(t, again.check(s))
		case errors.Is(err, journal.ErrVersion):
			kinds["version"]++
		case err != nil:
			t.Fatalf("%s byte %d: %v", name, at, err)
		default: // damaged last frames look like a torn end
			kinds["torn"]++
			if err := sts[0].survive(s); err != nil && !strings.HasPrefix(name, "journal") {
				t.Fatalf("%s byte %d: %v", name, at, err)
			}
		}
		must(t, sts[1].check(s))
		must(t, s.Close())
	}
	t.Logf("of 150: %v", kinds)
	if kinds["damage"] < 50 {
		t.Errorf("only %d flipped bits were damage", kinds["damage"])
	}
}

// TestMissingPart: a missing file is damage, found when it is read.
func TestMissingPart(t *testing.T) {
	fs := testdisk.NewMem()
	s := openStore(t, fs, handoff.Config{})
	id := source(3)
	must(t, s.Append(id, 1, encode([]handoff.Record{accept(1, "http://a.example/")})))
	must(t, s.Compact(ctx, id))
	must(t, s.Append(id, 2, encode([]handoff.Record{accept(2, "http://b.example/")})))
	dir := filepath.Join("r", fmt.Sprintf("%x-%s", id.Instance, id.Name))
	es, err := fs.ReadDir(dir)
	must(t, err)
	for _, e := range es {
		if strings.HasPrefix(e.Name(), "part-") {
			must(t, fs.Remove(filepath.Join(dir, e.Name())))
		}
	}
	if err := s.Compact(ctx, id); !errors.Is(err, handoff.ErrDamaged) {
		t.Errorf("Compact without a part: %v", err)
	}
	if d := s.Damaged(); len(d) != 1 {
		t.Errorf("Damaged() = %v", d)
	}
	must(t, s.Close())
}

// TestGolden: files of this version stay readable, and are still written in the same way.
func TestGolden(t *testing.T) {
	fs := testdisk.NewMem()
	s := openStore(t, fs, handoff.Config{})
	id := source(1)
	a := weburl.HostKey("a.example")
	state := finish(2, "http://a.example/2")
	state.State, state.Disposition = []byte("state"), 3
	must(t, s.Append(id, 1, encode([]handoff.Record{
		accept(1, "http://a.example/1"), accept(2, "http://a.example/2"), accept(3, "http://a.example/3"), state,
		finish(3, "http://a.example/3"),
		{Kind: handoff.Known, Host: a, Width: 38, Paths: []uint64{1, 1 << 37}},
		{Kind: handoff.Clock, Name: "a.example", Quiet: 90 * time.Second, Pause: 2 * time.Second,
			State: []byte("slow")},
		{Kind: handoff.Begin, Host: a}, accept(4, "http://a.example/4"), finish(1, "http://a.example/1"),
		accept(5, "http://b.example/"), finish(5, "http://b.example/"),
	})))
	must(t, s.Compact(ctx, id))
	must(t,
		s.Append(id, 2, encode([]handoff.Record{{Kind: handoff.End, Host: a}})))
	must(t, s.Close())
	dir := filepath.Join("r", fmt.Sprintf("%x-%s", id.Instance, id.Name))
	es, err := fs.ReadDir(dir)
	must(t, err)
	golden := testdisk.NewMem()
	must(t, golden.MkdirAll(dir, 0o755))
	for _, e := range es {
		got, err := disk.ReadFile(fs, filepath.Join(dir, e.Name()), 1<<20)
		must(t, err)
		name := filepath.Join("testdata", "v1", e.Name())
		if *update {
			must(t, os.MkdirAll(filepath.Dir(name), 0o755))
			must(t, os.WriteFile(name, got, 0o644))
		}
		want, err := os.ReadFile(name)
		must(t, err)
		if string(got) != string(want) {
			t.Errorf("%s: written is\n%x\ngolden is\n%x", name, got, want)
		}
		must(t, disk.WriteFile(golden, filepath.Join(dir, e.Name()), want))
	}
	s = openStore(t, golden, handoff.Config{})
	defer s.Close()
	got, _, err := imported(s, id, nil)
	must(t, err)
	b := weburl.MustParse("http://b.example/").Key()
	want := fmt.Sprintf("host %x clock -\n%s\nfinished %x 0 0 \nhost %x clock -\nfinished %x 0 0 \n", a,
		pendingText(accept(4, "http://a.example/4")), weburl.MustParse("http://a.example/1").Key().Path, b.Host, b.Path)
	if got != want {
		t.Errorf("the golden files have\n%swant\n%s", got, want)
	}
}

// FuzzDecode: a decoded record is encoded to the same bytes, and Append accepts exactly what Decode
// accepts.
func FuzzDecode(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 60 {
		r := randomRecord(rng)
		f.Add(r.AppendTo(nil))
	}
	s, err := handoff.Open(testdisk.NewMem(), "r", handoff.Config{})
	must(f, err)
	f.Cleanup(func() { _ = s.Close() })
	f.Fuzz(func(t *testing.T, data []byte) {
		r, n, err := handoff.Decode(data, nil)
		if err != nil {
			if !errors.Is(err, handoff.ErrRecord) {
				t.Fatal(err)
			}
			if aerr := s.Append(source(1), 0, data); len(data) > 0 && aerr == nil {
				t.Fatalf("Append takes what Decode refuses: %v", err)
			}
			return
		}
		b := r.AppendTo(nil)
		again, m, err := handoff.Decode(b, nil)
		if err != nil || m != len(b) || fmt.Sprintf("%+v", again) != fmt.Sprintf("%+v", r) {
			t.Fatalf("%+v became %+v, %v", r, again, err)
		}
		if n <= handoff.MaxBatch {
			must(t, s.Append(source(1), 0, data[:n]))
		}
	})
}

// TestMemory imports a million records, half of them of one host.
func TestMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("a million records")
	}
	const limit = 16 << 20
	s, err := handoff.Open(disk.OS, t.TempDir(), handoff.Config{MemoryBytes: limit})
	must(t, err)
	id := source(1)
	var b []byte
	batch, accepts := uint64(0), 0
	ship := func() {
		batch++
		must(t, s.Append(id, batch, b))
		b = b[:0]
	}
	via := "http://www.via.example/" + strings.Repeat("v", 60)
	for i := range 600_000 {
		host := "giant.example"
		if i%2 == 0 {
			host = fmt.Sprintf("h%d.example", i%20_000)
		}
		u := weburl.MustParse(fmt.Sprintf("http://%s/some/path/to/page-%d.html", host, i))
		// Numbers are not in the order of arrival.
		r := handoff.Record{Kind: handoff.Accept, Number: uint64(i ^ 0x155),
			Link: weburl.Link{URL: u, Via: via, Hops: "LL"}.AppendTo(nil)}
		accepts++
		b = r.AppendTo(b)
		if i%3 > 0 {
			k := u.Key()
			f := handoff.Record{Kind: handoff.Finish, Host: k.Host, Path: k.Path, Number: r.Number}
			b = f.AppendTo(b)
		}
		if len(b) > 200_000 {
			ship()
		}
	}
	ship()
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	check := func(when string) {
		pending, finished, last := 0, 0, make(map[uint64]uint64, 30_000)
		before, peak := heap(), int64(0)
		_, err := s.Import(ctx, id, nil, handoff.Funcs{
			Pending: func(rs []handoff.Record) error {
				for _, r := range rs {
					if r.Number < last[r.Host] {
						return fmt.Errorf("number %d behind %d", r.Number, last[r.Host])
					}
					last[r.Host] = r.Number
				}
				if pending += len(rs); len(rs) > 1000 { // of the large host
					peak = max(peak, heap()-before)
				}
				return nil
			},
			Finished: func(rs []handoff.Record) error {
				if finished += len(rs); len(rs) > 1000 && finished%8 == 0 {
					peak = max(peak, heap()-before)
				}
				return nil
			},
		})
		must(t, err)
		if pending != 200_000 || finished != 400_000 {
			t.Errorf("%s: %d pending and %d finished, want 200000 and 400000", when, pending, finished)
		}
		if peak > limit || peak == 0 {
			t.Errorf("%s: the heap grew by %d octets, limit %d", when, peak, limit)
		}
		t.Logf("%s: the heap grew by %d octets", when, peak)
	}
	check("as it came")
	before := s.Sources()[0].Bytes
	must(t, s.Compact(ctx, id))
	after := s.Sources()[0]
	t.Logf("1000000 records: %d octets, compacted %d", before, after.Bytes)
	if after.Pending != 200_000 || after.Finished != 400_000 || after.Bytes > before*2/5 {
		t.Errorf("compacted %+v, it was %d octets", after, before)
	}
	check("compacted")
	must(t, s.Close())
}
