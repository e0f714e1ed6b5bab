package contents

import (
	"context"
	"crypto/sha1"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const tableDir = "/state/contents"

// A running is a Table with a running Run.
type running struct {
	*Table
	stop  context.CancelFunc
	ended chan error
}

func start(t *testing.T, fs disk.FS, cfg Config) *running {
	t.Helper()
	table := must.Get(Open(fs, tableDir, cfg))(t)
	ctx, stop := context.WithCancel(context.Background())
	r := &running{table, stop, make(chan error, 1)}
	go func() { r.ended <- table.Run(ctx) }()
	return r
}

func (r *running) kill() error {
	r.stop()
	return errors.Join(<-r.ended, r.Close())
}

func (r *running) end(t *testing.T) {
	t.Helper()
	must.Do(t, r.kill())
}

// ask asks one question, whose answer is not an error.
func (r *running) ask(t *testing.T, q Question) Answer {
	t.Helper()
	answers := must.Get(r.Ask(t.Context(), []Question{q}))(t)
	return answers[0]
}

// poke changes an octet of a file.
func poke(t *testing.T, mem *testdisk.Mem, name string, at int64, change func(b byte) byte) {
	t.Helper()
	f := must.Get(mem.OpenFile(name, os.O_RDWR, 0))(t)
	defer f.Close()
	b := make([]byte, 1)
	f.ReadAt(b, at)
	b[0] = change(b[0])
	f.Seek(at, io.SeekStart)
	must.Get(f.Write(b))(t)
}

func digestOf(n int) Digest { return sha1.Sum(fmt.Append(nil, n)) }

func pageOf(n int) Original {
	p := Original{URL: fmt.Sprintf("http://h%d.example/%d", n%7, n),
		Date: time.UnixMilli(1700000000000 + int64(n)).UTC()}
	if n%2 == 1 {
		p.Stored = digestOf(-n)
	}
	return p
}

var otherPage = Original{URL: "http://other.example/", Date: time.Unix(1, 0)}

func memory(t *testing.T) *testdisk.Mem {
	t.Helper()
	m := testdisk.NewMem()
	must.Do(t, errors.Join(m.MkdirAll("/state", 0o755), m.SyncDir("/")))
	return m
}

// A model is a Table made of maps.
type model struct {
	archived map[Digest]Original
	claims   map[Digest]Original
}

func (m *model) ask(q Question) Answer {
	first, known := m.archived[q.Digest]
	if !known && q.Archived {
		first, known = q.Page, true
		m.archived[q.Digest] = first
	}
	if known && first.URL != q.Page.URL {
		return Answer{Page: first}
	}
	if known {
		return Answer{First: true}
	}
	claimant, claimed := m.claims[q.Digest]
	if !claimed {
		m.claims[q.Digest] = q.Page
	}
	if claimed && claimant.URL != q.Page.URL {
		return Answer{Claimed: true}
	}
	return Answer{First: true}
}

// crash asks r which contents it still knows after a power failure.
func (m *model) crash(t *testing.T, r *running) {
	t.Helper()
	probe := Original{URL: "http://probe.example/", Date: time.UnixMilli(1).UTC()}
	before := m.archived
	m.archived = map[Digest]Original{}
	for d, p := range before {
		switch got := r.ask(t, Question{Digest: d, Page: probe}); got {
		case Answer{Page: p}:
			m.archived[d] = p
		case Answer{First: true}:
			m.claims[d] = probe
		default:
			t.Fatalf("after a power failure %x is answered %+v, want %+v or nothing", d, got, p)
		}
	}
}

// TestTable compares a Table with a model. After a kill it may differ only in the claims. After a
// power failure it may also lack the entries since the last sync.
func TestTable(t *testing.T) {
	for i := range 30 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			rng := testseed.Rand(t)
			mem := memory(t)
			cfg := Config{MemoryBytes: 1, SyncEvery: time.Duration(1+rng.IntN(5)) * time.Millisecond}
			if i%3 == 0 {
				cfg.MemoryBytes = 0
			}
			m := model{map[Digest]Original{}, map[Digest]Original{}}
			r := start(t, mem, cfg)
			for range 60 + rng.IntN(100) {
				var qs []Question
				for range 1 + rng.IntN(40) {
					qs = append(qs, Question{digestOf(rng.IntN(600)), pageOf(rng.IntN(3000)), rng.IntN(3) == 0})
				}
				answers := must.Get(r.Ask(t.Context(), qs))(t)
				for j, got := range answers {
					if want := m.ask(qs[j]); got != want {
						t.Fatalf("%+v is answered %+v, want %+v", qs[j], got, want)
					}
				}
				switch rng.IntN(20) {
				case 0: // an ordinary end
					r.end(t)
					clear(m.claims)
					r = start(t, mem, cfg)
				case 1: // a kill
					mem = mem.Clone()
					r.kill()
					clear(m.claims)
					r = start(t, mem, cfg)
				case 2: // a power failure
					mem = mem.Crash(rng.Uint64())
					r.kill()
					clear(m.claims)
					r = start(t, mem, cfg)
					m.crash(t, r)
				}
			}
			r.end(t)
		})
	}
}

// TestClaimIsNoOriginal: a page asked, and its agent was killed before it was archived. The Table
// must not name that page.
func TestClaimIsNoOriginal(t *testing.T) {
	r := start(t, memory(t), Config{})
	defer r.kill()
	ask := func(q Question, want Answer) {
		t.Helper()
		if got := r.ask(t, q); got != want {
			t.Fatalf("%s: %+v, want %+v", q.Page.URL, got, want)
		}
	}
	d := digestOf(1)
	killed, other, third := pageOf(1), pageOf(2), pageOf(3)
	ask(Question{Digest: d, Page: killed}, Answer{First: true})
	ask(Question{Digest: d, Page: other}, Answer{Claimed: true})
	ask(Question{Digest: d, Page: killed}, Answer{First: true}) // its new agent has fetched it
	ask(Question{Digest: d, Page: other, Archived: true}, Answer{First: true})
	ask(Question{Digest: d, Page: third}, Answer{Page: other})
	ask(Question{Digest: d, Page: killed, Archived: true}, Answer{Page: other})
	ask(Question{Digest: d, Page: other}, Answer{First: true})
}

// TestSynced: a power failure loses no content that a sync has covered.
func TestSynced(t *testing.T) {
	mem := memory(t)
	for round := range 20 {
		r := start(t, mem, Config{MemoryBytes: 1, SyncEvery: time.Millisecond})
		var qs []Question
		for n := range 50 {
			qs = append(qs, Question{digestOf(round*50 + n), pageOf(round*50 + n), true})
		}
		must.Get(r.Ask(t.Context(), qs))(t)
		r.end(t)
		mem = mem.Crash(uint64(round))
	}
	r := start(t, mem, Config{MemoryBytes: 1})
	defer r.kill()
	for n := range 20 * 50 {
		if a := r.ask(t, Question{Digest: digestOf(n), Page: otherPage}); a.First || a.Page != pageOf(n) {
			t.Fatalf("content %d: %+v", n, a)
		}
	}
}

// TestAskers has concurrent askers. For each content, the Table names one page, and that page was
// reported as archived.
func TestAskers(t *testing.T) {
	r := start(t, memory(t), Config{MemoryBytes: 1, SyncEvery: time.Millisecond})
	var mu sync.Mutex // guards archived and named
	archived, named := map[Digest]map[Original]bool{}, map[Digest]map[Original]bool{}
	note := func(in map[Digest]map[Original]bool, d Digest, p Original) {
		mu.Lock()
		defer mu.Unlock()
		if in[d] == nil {
			in[d] = map[Original]bool{}
		}
		in[d][p] = true
	}
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 1))
			for n := range 200 {
				q := Question{Digest: digestOf(rng.IntN(300)), Page: pageOf(1000*i + n)}
				for {
					a, err := r.Ask(context.Background(), []Question{q})
					if err != nil {
						t.Error(err)
						return
					}
					if a[0].Page.URL != "" {
						note(named, q.Digest, a[0].Page)
						break
					}
					if q.Archived || rng.IntN(3) == 0 { // otherwise its agent was killed, or no longer waits
						break
					}
					q.Archived = true
					note(archived, q.Digest, q.Page)
				}
			}
		})
	}
	wg.Wait()
	for d, pages := range named {
		if len(pages) != 1 {
			t.Errorf("%x has the first pages %v", d, pages)
		}
		for p := range pages {
			if !archived[d][p] {
				t.Errorf("%x is named as %v, which was not reported as archived", d, p)
			}
		}
	}
	if len(named) == 0 {
		t.Error("no page was named")
	}
	r.end(t)
	if _, err := r.Ask(t.Context(), []Question{{Digest: digestOf(1), Page: pageOf(1)}}); !errors.Is(err, ErrClosed) {
		t.Errorf("closed, it answers %v", err)
	}
}

// TestDamage: a damaged entry counts as missing. Its content is new again, and all others are
// known.
func TestDamage(t *testing.T) {
	const all = 150
	mem := memory(t)
	cfg := Config{MemoryBytes: 1, SyncEvery: time.Millisecond}
	onDisk := func() (runs []string) {
		entries := must.Get(mem.ReadDir(tableDir + "/keys"))(t)
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), "run-") {
				runs = append(runs, tableDir+"/keys/"+e.Name())
			}
		}
		return runs
	}
	fill := func() {
		r := start(t, mem, cfg)
		for n := 0; n < all || len(onDisk()) == 0; n++ { // keys reach the disk after the answers
			if n > 1000*all {
				t.Fatal("nothing is on disk")
			}
			r.ask(t, Question{digestOf(n % all), pageOf(n % all), true})
		}
		r.end(t)
	}
	fill()
	flip := func(name string, at int64) { poke(t, mem, name, at, func(b byte) byte { return b ^ 0x40 }) }
	count := func(then func()) (known int) {
		r := start(t, mem, cfg)
		for n := range all {
			if n == all/4 && then != nil {
				then()
			}
			if a := r.ask(t, Question{Digest: digestOf(n), Page: otherPage}); !a.First {
				if known++; a.Page != pageOf(n) {
					t.Fatalf("content %d is said to be first at %+v", n, a.Page)
				}
			}
		}
		r.end(t)
		return known
	}
	flipRuns := func() {
		runs := onDisk()
		for _, name := range runs {
			info := must.Get(mem.Stat(name))(t)
			flip(name, info.Size()/2)
		}
		if len(runs) == 0 {
			t.Fatal("nothing is on disk")
		}
	}
	flipRuns()
	if n := count(nil); n != all {
		t.Errorf("%d contents known with damaged runs, want all: the file has them", n)
	}
	fill()
	if n := count(flipRuns); n != all {
		t.Errorf("%d contents known with runs that are damaged while it runs, want all", n)
	}
	flip(tableDir+"/"+fileName, 12)
	if n := count(nil); n != all-1 {
		t.Errorf("%d contents known with one damaged in the file, want all others", n)
	}
}

// TestVersions: Open refuses a file of another version and leaves it unchanged.
func TestVersions(t *testing.T) {
	mem := memory(t)
	cfg := Config{MemoryBytes: 1, SyncEvery: time.Millisecond}
	ask := func(r *running, page Original) (first int) {
		for n := range 150 {
			if r.ask(t, Question{digestOf(n), page, true}).First {
				first++
			}
		}
		return first
	}
	setVersion := func(v byte) { poke(t, mem, tableDir+"/"+fileName, 7, func(byte) byte { return v }) }
	r := start(t, mem, cfg)
	if n := ask(r, pageOf(1)); n != 150 {
		t.Errorf("%d pages are the first with their content, want 150", n)
	}
	r.end(t)
	setVersion(3)
	_, err := Open(mem, tableDir, cfg)
	if err == nil || !strings.Contains(err.Error(), "continue with the program that wrote it") {
		t.Errorf("a file of version 3: %v", err)
	}
	setVersion(1)
	r = start(t, mem, cfg)
	if n := ask(r, otherPage); n != 0 {
		t.Errorf("%d of 150 contents are unknown after a file of a later version was refused", n)
	}
	r.end(t)
}

// TestFullDisk: a failing disk ends Run, and no caller of Ask waits forever.
func TestFullDisk(t *testing.T) {
	faulty := testdisk.NewFaulty(memory(t), nil)
	r := start(t, faulty, Config{SyncEvery: time.Hour})
	faulty.Break(testdisk.FullAfter(500))
	var err error
	for n := range 100 {
		if _, err = r.Ask(t.Context(), []Question{{digestOf(n), pageOf(n), true}}); err != nil {
			break
		}
	}
	if !errors.Is(err, ErrClosed) {
		t.Errorf("asked on a full disk: %v", err)
	}
	if err := <-r.ended; !disk.IsFull(err) {
		t.Errorf("Run ended with %v", err)
	}
	r.stop()
	r.Close()
}

func TestCheckPage(t *testing.T) {
	for _, p := range []Original{{}, {URL: string(make([]byte, MaxURL+1))},
		{URL: "http://a.example/", Date: time.UnixMilli(-1)},
		{URL: "http://a.example/", Date: time.UnixMilli(maxMillis + 1)}} {
		if CheckPage(p) == nil {
			t.Errorf("%.40q at %s is a page", p.URL, p.Date)
		}
	}
}

// FuzzEntry: a decoded entry is encoded to the same bytes.
func FuzzEntry(f *testing.F) {
	e := entry{digestOf(1), pageOf(1)}
	f.Add(e.appendTo(nil))
	f.Add(append(e.appendTo(nil), 1, 2, 3))
	f.Add([]byte{})
	f.Add(make([]byte, entryHead))
	f.Fuzz(func(t *testing.T, b []byte) {
		data, n, err := shape.Decode(b)
		if err != nil {
			return
		}
		e, err := entryOf(data)
		if err != nil {
			return
		}
		must.Do(t, CheckPage(e.page))
		if again := e.appendTo(nil); string(again) != string(b[:n]) {
			t.Fatalf("%x is written as %x", b[:n], again)
		}
	})
}
