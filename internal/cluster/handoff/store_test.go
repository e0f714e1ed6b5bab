package handoff_test

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/handoff"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/journal"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

var update = flag.Bool("update", false, "write the golden files")

func openStore(t testing.TB, fs disk.FS, cfg handoff.Config) *handoff.Store {
	t.Helper()
	s, err := handoff.Open(fs, "r", cfg)
	must.Do(t, err)
	return s
}

func accept(number uint64, url string) handoff.Record {
	u := weburl.MustParse(url)
	return handoff.Record{Kind: handoff.Accept, Host: link.KeyOf(u).Host, Path: link.KeyOf(u).Path, Number: number,
		Link: link.Link{URL: u, Hops: "L"}.AppendTo(nil)}
}

func finish(number uint64, url string) handoff.Record {
	u := weburl.MustParse(url)
	return handoff.Record{Kind: handoff.Finish, Host: link.KeyOf(u).Host, Path: link.KeyOf(u).Path, Number: number,
		Link: link.Link{URL: u, Hops: "L"}.AppendTo(nil)}
}

// key returns the record of a finished URL of which only the key is known.
func key(url string) handoff.Record {
	k := link.KeyOf(weburl.MustParse(url))
	return handoff.Record{Kind: handoff.Known, Host: k.Host, Width: 64, Paths: []uint64{k.Path}}
}

func named(disposition byte, url string) handoff.Record {
	u := weburl.MustParse(url)
	k := link.KeyOf(u)
	return handoff.Record{Kind: handoff.Named, Host: k.Host, Path: k.Path, Disposition: disposition,
		Link: link.Link{URL: u}.AppendTo(nil)}
}

func TestSources(t *testing.T) {
	fs := testdisk.NewMem()
	s := openStore(t, fs, handoff.Config{})
	id := source(1)
	batch := encode([]handoff.Record{accept(1, "http://a.example/")})
	must.Do(t, s.Sync(id))
	if infos := s.Sources(); len(infos) != 0 {
		t.Errorf("before the first batch: Sources() = %+v", infos)
	}
	must.Do(t, s.Append(id, nil))
	must.Do(t, s.Append(id, batch))
	must.Do(t, s.Sync(id))
	must.Do(t, s.Compact(ctx, id))
	must.Do(t, s.Close())
	s = openStore(t, fs, handoff.Config{})
	infos := s.Sources()
	if len(infos) != 1 || infos[0].Source != id || infos[0].Bytes < int64(len(batch)) {
		t.Errorf("Sources() = %+v", infos)
	}
	for _, name := range []string{"", "A", "a/b", "..", "a_b", "-a"} {
		if err := s.Append(handoff.Source{Name: name}, batch); !errors.Is(err, handoff.ErrSource) {
			t.Errorf("a source by the name of %q: %v", name, err)
		}
	}
	must.Do(t, s.Close())
	if err := s.Append(id, batch); !errors.Is(err, handoff.ErrClosed) {
		t.Errorf("Append after Close: %v", err)
	}
}

// TestOneURL: the state of a URL that several records concern.
func TestOneURL(t *testing.T) {
	const url = "http://a.example/1"
	with := func(number uint64, disposition byte, state string) handoff.Record {
		r := finish(number, url)
		r.Disposition, r.State = disposition, []byte(state)
		return r
	}
	bare, pending := key(url), accept(7, url)
	archived, lost := named(handoff.Archived, url), named(handoff.Lost, url)
	of, other := lost, lost
	of.Archive, other.Archive = source(2).Archive(), source(3).Archive()
	for name, c := range map[string]struct {
		records []handoff.Record
		want    []handoff.Record
	}{
		"two accepts":          {[]handoff.Record{pending, accept(8, url)}, []handoff.Record{pending}},
		"an accept comes late": {[]handoff.Record{with(1, 0, ""), pending}, []handoff.Record{with(1, 0, "")}},
		"a key and an accept":  {[]handoff.Record{bare, pending, bare}, []handoff.Record{bare}},
		"a key and a finish":   {[]handoff.Record{bare, with(1, 0, ""), bare}, []handoff.Record{with(1, 0, "")}},
		"the last finish": {[]handoff.Record{with(2, 0, "old"), with(1, 0, "new")},
			[]handoff.Record{with(1, 0, "new")}},
		"no new state": {[]handoff.Record{with(1, 0, "state"), with(2, 0, "")},
			[]handoff.Record{with(2, 0, "state")}},
		"the largest disposition": {[]handoff.Record{with(1, handoff.Archived, ""), with(2, 0, "")},
			[]handoff.Record{with(2, handoff.Archived, "")}},
		"a name alone":         {[]handoff.Record{archived, archived}, []handoff.Record{archived}},
		"two names":            {[]handoff.Record{lost, archived}, []handoff.Record{lost}},
		"names of archives":    {[]handoff.Record{lost, of, other, archived}, []handoff.Record{of}},
		"a name and an accept": {[]handoff.Record{archived, pending}, []handoff.Record{pending, archived}},
		"a name and a key":     {[]handoff.Record{archived, bare}, []handoff.Record{bare, archived}},
		"a name and a finish":  {[]handoff.Record{lost, with(1, 0, "")}, []handoff.Record{with(1, 0, ""), lost}},
		"a finish with a name": {[]handoff.Record{with(1, handoff.Archived, ""), lost},
			[]handoff.Record{with(1, handoff.Archived, "")}},
		"a name before a finish": {[]handoff.Record{archived, pending, with(1, handoff.Archived, "")},
			[]handoff.Record{with(1, handoff.Archived, "")}},
	} {
		s := openStore(t, testdisk.NewMem(), handoff.Config{})
		for i := range c.records {
			must.Do(t, s.Append(source(1), encode(c.records[i:i+1])))
		}
		for _, when := range []string{"as it came", "compacted"} {
			var got []byte
			_, err := s.Import(ctx, source(1), func(r *handoff.Record) error { got = r.AppendTo(got); return nil })
			must.Do(t, err)
			if want := encode(c.want); string(got) != string(want) {
				t.Errorf("%s, %s: %x, want %x", name, when, got, want)
			}
			must.Do(t, s.Compact(ctx, source(1)))
		}
		must.Do(t, s.Close())
	}
}

// TestManyKeys: keys are grouped, each of them once.
func TestManyKeys(t *testing.T) {
	s := openStore(t, testdisk.NewMem(), handoff.Config{})
	defer s.Close()
	for _, width := range []uint8{64, 38} {
		var all []uint64
		for i := range uint64(2*handoff.MaxPaths + 5) {
			all = append(all, i<<20)
		}
		for half := range slices.Chunk(all, handoff.MaxPaths/2) {
			r := handoff.Record{Kind: handoff.Known, Host: 1, Width: width, Paths: half}
			b := encode([]handoff.Record{r, r})
			must.Do(t, s.Append(source(1), b))
		}
	}
	for _, when := range []string{"as it came", "compacted"} {
		var got []string
		_, err := s.Import(ctx, source(1), func(r *handoff.Record) error {
			got = append(got, fmt.Sprint(r.Width, len(r.Paths), r.Paths[0]>>20))
			return nil
		})
		must.Do(t, err)
		if want := "[64 4096 0 64 4096 4096 64 5 8192 38 4096 0 38 4096 4096 38 5 8192]"; fmt.Sprint(got) != want {
			t.Errorf("%s: groups %v, want %s", when, got, want)
		}
		must.Do(t, s.Compact(ctx, source(1)))
	}
}

func TestMalformedBatches(t *testing.T) {
	s := openStore(t, testdisk.NewMem(), handoff.Config{})
	defer s.Close()
	good := encode([]handoff.Record{accept(1, "http://a.example/")})
	link := func(via string) []byte {
		return link.Link{URL: weburl.MustParse("http://a.example/"), Via: via}.AppendTo(nil)
	}
	record := func(kind byte, parts ...[]byte) []byte {
		p := slices.Concat(parts...)
		return append(binary.AppendUvarint([]byte{kind}, uint64(len(p))), p...)
	}
	for name, bad := range map[string][]byte{
		"kind":             {'Z', 0},
		"journal's kind":   {'V', 1, 2},
		"cut off":          good[:len(good)-1],
		"length":           {'K', 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1},
		"long length":      append([]byte{'A', good[1] | 0x80, 0}, good[2:]...),
		"short host":       {'K', 3, 1, 2, 3},
		"no link":          {'A', 1, 1},
		"link to nothing":  {'A', 6, 1, 0, 0, 0, 0, 0},
		"link and more":    record('A', good[2:], []byte{0}),
		"long number":      record('A', []byte{0x81, 0}, link("")),
		"finish":           {'F', 1, 1},
		"finished nothing": {'F', 7, 1, 0, 0, 0, 0, 0, 0},
		"no finished link": {'F', 2, 1, 0},
		"disposition 3":    record('F', []byte{1, 3}, link("")),
		"via of a finish":  record('F', []byte{1, 0}, link("http://v.example/")),
		"width 0":          {'K', 10, 1, 2, 3, 4, 5, 6, 7, 8, 0, 1},
		"width 65":         {'K', 10, 1, 2, 3, 4, 5, 6, 7, 8, 65, 1},
		"no paths":         {'K', 9, 1, 2, 3, 4, 5, 6, 7, 8, 8},
		"half a path":      {'K', 10, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1},
		"wide path":        {'K', 10, 1, 2, 3, 4, 5, 6, 7, 8, 7, 0x80},
		"order of paths":   {'K', 11, 1, 2, 3, 4, 5, 6, 7, 8, 8, 2, 1},
		"clock's host":     {'C', 7, 1, 'A', 0, 0, 0, 0, 0},
		"clock's path":     {'C', 9, 3, 'a', '/', 'b', 0, 0, 0, 0, 0},
		"clock's time":     {'C', 6, 1, 'a', 0, 0, 0, 0},
		"clock and more":   {'C', 8, 1, 'a', 0, 0, 0, 0, 0, 0},
		"pages of nobody":  {'P', 2, 1, 'a'},
		"no pages":         {'P', 11, 1, 'a', 0, 0, 0, 0, 0, 0, 0, 1, 0},
		"pages and more":   {'P', 12, 1, 'a', 0, 0, 0, 0, 0, 0, 0, 1, 1, 0},
		"ever more pages":  record('P', []byte{1, 'a', 0, 0, 0, 0, 0, 0, 0, 1}, binary.AppendUvarint(nil, 1<<32)),
		"a page of none":   record('F', []byte{1, 0x80, 0}, link("")),
		"disposition 2":    record('F', []byte{1, 0x82, 1}, link("")),
		"many pauses":      {'C', 7, 1, 'a', 65, 0, 0, 0, 0},
		"half blocked":     {'C', 7, 1, 'a', 0, 2, 0, 0, 0},
		"an eternal pause": record('C', []byte{1, 'a', 0, 0, 0, 0}, binary.AppendUvarint(nil,
			uint64(handoff.MaxPause.Microseconds()+1))),
		"another host's origin": failing(handoff.Origin{Name: "http://b", Cause: "tls", Failures: 1}),
		"a page as origin":      failing(handoff.Origin{Name: "http://a/1", Cause: "tls", Failures: 1}),
		"a port by its number":  failing(handoff.Origin{Name: "http://a:80", Cause: "tls", Failures: 1}),
		"an origin in words":    failing(handoff.Origin{Name: "http://a", Cause: "it is gone", Failures: 1}),
		"an origin that works":  failing(handoff.Origin{Name: "http://a", Cause: "tls"}),
		"many origins": failing(slices.Repeat([]handoff.Origin{{Name: "http://a", Cause: "tls", Failures: 1}},
			handoff.MaxOrigins+1)...),
		"much state": record('F', []byte{1, 0}, link(""), make([]byte, handoff.MaxState+1)),
		"many paths": encode([]handoff.Record{{Kind: handoff.Known, Width: 64,
			Paths: ascending(handoff.MaxPaths + 1)}}),
	} {
		var re *handoff.RecordError
		err := s.Append(source(1), append(slices.Clone(good), bad...))
		if !errors.Is(err, handoff.ErrRecord) || !errors.As(err, &re) || re.Index != 1 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := s.Append(source(1), make([]byte, handoff.MaxBatch+1)); !errors.Is(err, handoff.ErrTooLarge) {
		t.Errorf("a large batch: %v", err)
	}
	if got, _, err := imported(s, source(1)); got != "" || err != nil {
		t.Errorf("of refused batches there is %q, %v", got, err)
	}
	must.Do(t, s.Append(source(1), encode([]handoff.Record{
		{Kind: handoff.Known, Width: 64, Paths: ascending(handoff.MaxPaths)},
		{Kind: handoff.Clock, Name: "[::1]", Politeness: handoff.Politeness{Delay: handoff.MaxPause,
			Quiet: handoff.MaxPause, SlowFor: handoff.MaxPause, Slow: handoff.MaxSlow,
			Origins: slices.Repeat([]handoff.Origin{{Name: "https://[::1]:8443", Cause: "timeout-connect",
				Failures: 255, Quiet: handoff.MaxPause}}, handoff.MaxOrigins)}},
		{Kind: handoff.Finish, Link: link(""), Disposition: handoff.Archived, State: make([]byte, handoff.MaxState)},
	})))
}

// failing returns a Clock with failing origins.
func failing(origins ...handoff.Origin) []byte {
	r := handoff.Record{Kind: handoff.Clock, Name: "a", Politeness: handoff.Politeness{Origins: origins}}
	return r.AppendTo(nil)
}

// TestRest: times are rounded up, so that no host is asked too early.
func TestRest(t *testing.T) {
	r := handoff.Record{Kind: handoff.Clock, Name: "a.example", Politeness: handoff.Politeness{Delay: time.Second,
		Quiet: 1500*time.Microsecond + 1, SlowFor: -time.Second, Slow: 3}}
	got, _, err := handoff.Decode(r.AppendTo(nil), nil)
	must.Do(t, err)
	want := handoff.Politeness{Delay: time.Second, Quiet: 1501 * time.Microsecond, Slow: 3}
	if !reflect.DeepEqual(got.Politeness, want) || got.Name != r.Name || got.Host != link.HostKey(r.Name) {
		t.Errorf("%+v came back as %+v", r, got)
	}
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
	must.Do(t, s.Append(id, encode([]handoff.Record{accept(1, "http://a.example/"), accept(2, "http://b.example/")})))
	_, mark, err := imported(s, id)
	must.Do(t, err)
	must.Do(t, s.Append(id, encode([]handoff.Record{accept(3, "http://a.example/3")})))
	if err := s.DropSource(ctx, mark); !errors.Is(err, handoff.ErrNewer) {
		t.Errorf("DropSource without an Import: %v", err)
	}
	_, mark, err = imported(s, id)
	must.Do(t, err)
	must.Do(t, s.DropSource(ctx, mark))
	if infos := s.Sources(); len(infos) != 0 {
		t.Errorf("after DropSource there is %+v", infos)
	}
	must.Do(t, s.Append(id, encode([]handoff.Record{accept(9, "http://a.example/9")})))
	must.Do(t, s.Close())
	s = openStore(t, fs.Crash(1), handoff.Config{})
	defer s.Close()
	if got, _, err := imported(s, id); err != nil || strings.Count(got, "pending") != 1 ||
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
				must.Do(t, st.append(s, randomBatch(rng)))
				if n == 20 {
					must.Do(t, s.Compact(ctx, st.id))
				}
				must.Do(t, s.Sync(st.id))
			}
		}
		must.Do(t, s.Close())
		return fs, sts
	}
	kinds, rounds := map[string]int{}, testtier.Rounds(60, 150)
	for range rounds {
		fs, sts := build()
		hurt := filepath.Join("r", fmt.Sprintf("%x-%s", sts[0].id.Instance, sts[0].id.Name))
		es, err := fs.ReadDir(hurt)
		must.Do(t, err)
		name := es[rng.IntN(len(es))].Name()
		b, err := disk.ReadFile(fs, filepath.Join(hurt, name), 1<<20)
		must.Do(t, err)
		at := rng.IntN(len(b))
		b[at] ^= 1 << rng.IntN(8)
		must.Do(t, disk.WriteFile(fs, filepath.Join(hurt, name), b))
		s, err := handoff.Open(fs, "r", handoff.Config{})
		if err != nil {
			// Another version is not damage: its records must not be deleted.
			if !errors.Is(err, journal.ErrVersion) {
				t.Fatalf("%s byte %d: %v", name, at, err)
			}
			kinds["version"]++
			continue
		}
		text, _, err := imported(s, sts[0].id)
		for l := range strings.Lines(text) {
			if l, ok := strings.CutSuffix(l, "\n"); ok && strings.HasPrefix(l, "pending") &&
				!slices.ContainsFunc(slices.Concat(sts[0].log...), func(r handoff.Record) bool {
					return r.Kind == handoff.Accept && pendingText(&r) == l
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
			if err := s.Append(sts[0].id, nil); !errors.Is(err, handoff.ErrDamaged) {
				t.Fatalf("Append to a damaged source: %v", err)
			}
			if err := s.Sync(sts[0].id); !errors.Is(err, handoff.ErrDamaged) {
				t.Fatalf("Sync of a damaged source: %v", err)
			}
			if err := s.Compact(ctx, sts[0].id); !errors.Is(err, handoff.ErrDamaged) {
				t.Fatalf("Compact of a damaged source: %v", err)
			}
			must.Do(t, s.Reset(ctx, sts[0].id))
			if len(s.Damaged()) != 0 {
				t.Fatalf("damaged after Reset")
			}
			again := &story{id: sts[0].id}
			must.Do(t, again.append(s, sts[0].log[0]))
			must.Do(t, again.check(s))
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
		must.Do(t, sts[1].check(s))
		must.Do(t, s.Close())
	}
	t.Logf("of %d: %v", rounds, kinds)
	if kinds["damage"] < rounds/3 {
		t.Errorf("only %d flipped bits were damage", kinds["damage"])
	}
}

// TestMissingPart: a missing file is damage, found when it is read.
func TestMissingPart(t *testing.T) {
	fs := testdisk.NewMem()
	s := openStore(t, fs, handoff.Config{})
	id := source(3)
	must.Do(t, s.Append(id, encode([]handoff.Record{accept(1, "http://a.example/")})))
	must.Do(t, s.Compact(ctx, id))
	must.Do(t, s.Append(id, encode([]handoff.Record{accept(2, "http://b.example/")})))
	dir := filepath.Join("r", fmt.Sprintf("%x-%s", id.Instance, id.Name))
	es, err := fs.ReadDir(dir)
	must.Do(t, err)
	for _, e := range es {
		if strings.HasPrefix(e.Name(), "part-") {
			must.Do(t, fs.Remove(filepath.Join(dir, e.Name())))
		}
	}
	if err := s.Compact(ctx, id); !errors.Is(err, handoff.ErrDamaged) {
		t.Errorf("Compact without a part: %v", err)
	}
	if d := s.Damaged(); len(d) != 1 {
		t.Errorf("Damaged() = %v", d)
	}
	must.Do(t, s.Close())
}

// TestGolden: files of this version stay readable, and are still written in the same way.
func TestGolden(t *testing.T) {
	fs := testdisk.NewMem()
	s := openStore(t, fs, handoff.Config{})
	id := source(1)
	a := link.HostKey("a.example")
	state := finish(2, "http://a.example/2")
	state.State, state.Disposition, state.Pages = []byte("state"), handoff.Archived, 3
	pages := handoff.Record{Kind: handoff.Pages, Host: a, Name: "a.example", Counter: 7, Pages: 300}
	clock := handoff.Record{Kind: handoff.Clock, Name: "a.example", Politeness: handoff.Politeness{
		Delay: 2 * time.Second, Quiet: 90 * time.Second, SlowFor: time.Minute, Slow: 3,
		Origins: []handoff.Origin{{Name: "https://a.example", Cause: "connect", Failures: 2, Quiet: time.Minute}}}}
	of := named(handoff.Lost, "http://a.example/1")
	of.Archive = source(2).Archive()
	must.Do(t, s.Append(id, encode([]handoff.Record{
		accept(1, "http://a.example/1"), accept(2, "http://a.example/2"), state, key("http://a.example/3"), clock,
		{Kind: handoff.Known, Host: a, Width: 38, Paths: []uint64{1, 1 << 37}},
		named(handoff.Lost, "http://a.example/3"), of, pages,
		accept(4, "http://b.example/"), finish(4, "http://b.example/"),
	})))
	must.Do(t, s.Compact(ctx, id))
	must.Do(t, s.Append(id, encode([]handoff.Record{finish(0, "http://a.example/3")})))
	must.Do(t, s.Close())
	dir := filepath.Join("r", fmt.Sprintf("%x-%s", id.Instance, id.Name))
	es, err := fs.ReadDir(dir)
	must.Do(t, err)
	golden := testdisk.NewMem()
	must.Do(t, golden.MkdirAll(dir, 0o755))
	for _, e := range es {
		got, err := disk.ReadFile(fs, filepath.Join(dir, e.Name()), 1<<20)
		must.Do(t, err)
		name := filepath.Join("testdata", "v1", e.Name())
		if *update {
			must.Do(t, os.MkdirAll(filepath.Dir(name), 0o755))
			must.Do(t, os.WriteFile(name, got, 0o644))
		}
		want, err := os.ReadFile(name)
		must.Do(t, err)
		if string(got) != string(want) {
			t.Errorf("%s: written is\n%x\ngolden is\n%x", name, got, want)
		}
		must.Do(t, disk.WriteFile(golden, filepath.Join(dir, e.Name()), want))
	}
	s = openStore(t, golden, handoff.Config{})
	defer s.Close()
	got, _, err := imported(s, id)
	must.Do(t, err)
	m := model{}
	for _, r := range []handoff.Record{accept(1, "http://a.example/1"), state, pages,
		named(handoff.Lost, "http://a.example/3"), of, finish(0, "http://a.example/3"),
		finish(4, "http://b.example/"), {Kind: handoff.Known, Host: a, Width: 38, Paths: []uint64{1, 1 << 37}},
		{Kind: clock.Kind, Host: a, Name: clock.Name, Politeness: clock.Politeness}} {
		m.apply(r)
	}
	if want := m.text(); got != want {
		t.Errorf("the golden files have\n%swant\n%s", got, want)
	}
}

// TestMemory imports many records, half of them of one host: a million in the soak.
func TestMemory(t *testing.T) {
	links := testtier.Rounds(60_000, 600_000)
	limit := int64(28 * links)
	s, err := handoff.Open(disk.OS, t.TempDir(), handoff.Config{MemoryBytes: limit})
	must.Do(t, err)
	id := source(1)
	var b []byte
	ship := func() {
		must.Do(t, s.Append(id, b))
		b = b[:0]
	}
	via := "http://www.via.example/" + strings.Repeat("v", 60)
	for i := range links {
		host := "giant.example"
		if i%2 == 0 {
			host = fmt.Sprintf("h%d.example", i%(links/30))
		}
		u := weburl.MustParse(fmt.Sprintf("http://%s/some/path/to/page-%d.html", host, i))
		// Numbers are not in the order of arrival.
		r := handoff.Record{Kind: handoff.Accept, Number: uint64(i ^ 0x155),
			Link: link.Link{URL: u, Via: via, Hops: "LL"}.AppendTo(nil)}
		b = r.AppendTo(b)
		switch i % 3 {
		case 1:
			f := handoff.Record{Kind: handoff.Finish, Number: r.Number, Link: link.Link{URL: u}.AppendTo(nil)}
			b = f.AppendTo(b)
		case 2:
			k := link.KeyOf(u)
			f := handoff.Record{Kind: handoff.Known, Host: k.Host, Width: 64, Paths: []uint64{k.Path}}
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
		pending, finished, keys, last := 0, 0, 0, make(map[uint64]uint64, links/20)
		giant := link.HostKey("giant.example")
		before, peak := heap(), int64(0)
		_, err := s.Import(ctx, id, func(r *handoff.Record) error {
			switch r.Kind {
			case handoff.Accept:
				if r.Number < last[r.Host] {
					return fmt.Errorf("number %d behind %d", r.Number, last[r.Host])
				}
				last[r.Host] = r.Number
				pending++
			case handoff.Finish:
				finished++
			case handoff.Known:
				keys += len(r.Paths)
			}
			if r.Host == giant && (pending+finished)%(links/150) == 0 {
				peak = max(peak, heap()-before)
			}
			return nil
		})
		must.Do(t, err)
		if pending != links/3 || finished != links/3 || keys != links/3 {
			t.Errorf("%s: %d pending, %d finished, %d keys, want %d of each", when, pending, finished, keys, links/3)
		}
		if peak > limit || peak == 0 {
			t.Errorf("%s: the heap grew by %d octets, limit %d", when, peak, limit)
		}
		t.Logf("%s: the heap grew by %d octets", when, peak)
	}
	check("as it came")
	before := s.Sources()[0].Bytes
	must.Do(t, s.Compact(ctx, id))
	after := s.Sources()[0].Bytes
	t.Logf("%d records: %d octets, compacted %d", 5*links/3, before, after)
	if after > before/2 {
		t.Errorf("compacted %d octets, it was %d", after, before)
	}
	check("compacted")
	must.Do(t, s.Close())
}
