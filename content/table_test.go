package content

import (
	"context"
	"crypto/sha1"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/orbweaver/orbweaver/disk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const tableDir = "/state/contents"

// A running is a Table whose Run is under way.
type running struct {
	*Table
	stop  context.CancelFunc
	ended chan error
}

func start(t *testing.T, fs disk.FS, cfg Config) *running {
	t.Helper()
	table, err := Open(fs, tableDir, cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	r := &running{table, stop, make(chan error, 1)}
	go func() { r.ended <- table.Run(ctx) }()
	return r
}

func (r *running) end() error {
	r.stop()
	return errors.Join(<-r.ended, r.Close())
}

func digestOf(n int) Digest { return sha1.Sum(fmt.Append(nil, n)) }

func pageOf(n int) Page {
	return Page{URL: fmt.Sprintf("http://h%d.example/%d", n%7, n), Date: time.UnixMilli(1700000000000 + int64(n)).UTC()}
}

func memory(t *testing.T) *disk.Mem {
	t.Helper()
	m := disk.NewMem()
	if err := errors.Join(m.MkdirAll("/state", 0o755), m.SyncDir("/")); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestTable holds a Table to a map: after kills exactly, after power failures
// but for what it may have forgotten.
func TestTable(t *testing.T) {
	for i := range 30 {
		seed := rand.Uint64()
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Logf("seed %d", seed)
			rng := rand.New(rand.NewPCG(seed, 0))
			mem := memory(t)
			cfg := Config{MemoryBytes: 1, SyncEvery: time.Duration(1+rng.IntN(5)) * time.Millisecond}
			if i%3 == 0 {
				cfg.MemoryBytes = 0
			}
			model := map[Digest]Page{}
			fuzzy := map[Digest][]Page{} // who may be first after a power failure
			r := start(t, mem, cfg)
			for range 60 + rng.IntN(100) {
				var qs []Question
				for range 1 + rng.IntN(40) {
					qs = append(qs, Question{digestOf(rng.IntN(600)), pageOf(rng.IntN(3000))})
				}
				answers, err := r.Ask(t.Context(), qs)
				if err != nil {
					t.Fatal(err)
				}
				for j, a := range answers {
					q := qs[j]
					if ps, ok := fuzzy[q.Digest]; ok {
						// The first of them that is still known, or none.
						delete(fuzzy, q.Digest)
						for _, p := range ps {
							if a.First && p.URL == q.Page.URL || !a.First && p == a.Page {
								model[q.Digest] = p
							}
						}
					}
					first, known := model[q.Digest]
					if !known {
						first = q.Page
						model[q.Digest] = first
					}
					want := Answer{First: true}
					if first.URL != q.Page.URL {
						want = Answer{Page: first}
					}
					if a != want {
						t.Fatalf("%+v is answered %+v, want %+v", q, a, want)
					}
				}
				switch rng.IntN(20) {
				case 0: // an ordinary end
					if err := r.end(); err != nil {
						t.Fatal(err)
					}
					r = start(t, mem, cfg)
				case 1: // a kill
					mem = mem.Clone()
					r.end()
					r = start(t, mem, cfg)
				case 2: // a power failure
					mem = mem.Crash(rng.Uint64())
					r.end()
					for d, p := range model {
						fuzzy[d] = append(fuzzy[d], p)
					}
					clear(model)
					r = start(t, mem, cfg)
				}
			}
			if err := r.end(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// A power failure takes nothing that a sync has kept.
func TestSynced(t *testing.T) {
	mem := memory(t)
	for round := range 20 {
		r := start(t, mem, Config{MemoryBytes: 1, SyncEvery: time.Millisecond})
		var qs []Question
		for n := range 50 {
			qs = append(qs, Question{digestOf(round*50 + n), pageOf(round*50 + n)})
		}
		if _, err := r.Ask(t.Context(), qs); err != nil {
			t.Fatal(err)
		}
		if err := r.end(); err != nil {
			t.Fatal(err)
		}
		mem = mem.Crash(uint64(round))
	}
	r := start(t, mem, Config{MemoryBytes: 1})
	defer r.end()
	for n := range 20 * 50 {
		a, err := r.Ask(t.Context(), []Question{{digestOf(n), Page{URL: "http://other.example/", Date: time.Unix(1, 0)}}})
		if err != nil || a[0].First || a[0].Page != pageOf(n) {
			t.Fatalf("content %d: %+v, %v", n, a, err)
		}
	}
}

// Many ask at once: each content has one first page, and all hear of it.
func TestAskers(t *testing.T) {
	r := start(t, memory(t), Config{MemoryBytes: 1, SyncEvery: time.Millisecond})
	var mu sync.Mutex
	firsts := map[Digest]map[string]bool{}
	note := func(d Digest, url string) {
		mu.Lock()
		defer mu.Unlock()
		if firsts[d] == nil {
			firsts[d] = map[string]bool{}
		}
		firsts[d][url] = true
	}
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 1))
			for n := range 200 {
				q := Question{digestOf(rng.IntN(300)), pageOf(1000*i + n)}
				a, err := r.Ask(context.Background(), []Question{q})
				switch {
				case err != nil:
					t.Error(err)
				case a[0].First:
					note(q.Digest, q.Page.URL)
				default:
					note(q.Digest, a[0].Page.URL)
				}
			}
		})
	}
	wg.Wait()
	for d, urls := range firsts {
		if len(urls) != 1 {
			t.Errorf("%x has the first pages %v", d, urls)
		}
	}
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Ask(t.Context(), []Question{{digestOf(1), pageOf(1)}}); !errors.Is(err, ErrClosed) {
		t.Errorf("closed, it answers %v", err)
	}
}

// What is damaged is as if it were not there: a content is new again, and the
// others are known.
func TestDamage(t *testing.T) {
	const all = 150
	mem := memory(t)
	cfg := Config{MemoryBytes: 1, SyncEvery: time.Millisecond}
	onDisk := func() (runs []string) {
		entries, err := mem.ReadDir(tableDir + "/keys")
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), "run-") {
				runs = append(runs, tableDir+"/keys/"+e.Name())
			}
		}
		return runs
	}
	fill := func() {
		r := start(t, mem, cfg)
		for n := 0; n < all || len(onDisk()) == 0; n++ { // keys go to disk behind the answers
			if n > 1000*all {
				t.Fatal("nothing is on disk")
			}
			if _, err := r.Ask(t.Context(), []Question{{digestOf(n % all), pageOf(n % all)}}); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.end(); err != nil {
			t.Fatal(err)
		}
	}
	fill()
	flip := func(name string, at int64) {
		f, err := mem.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		b := make([]byte, 1)
		f.ReadAt(b, at)
		b[0] ^= 0x40
		f.Seek(at, 0)
		if _, err := f.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	count := func(then func()) (known int) {
		r := start(t, mem, cfg)
		for n := range all {
			if n == all/4 && then != nil {
				then()
			}
			a, err := r.Ask(t.Context(), []Question{{digestOf(n), Page{URL: "http://other.example/", Date: time.Unix(1, 0)}}})
			if err != nil {
				t.Fatal(err)
			}
			if !a[0].First {
				if known++; a[0].Page != pageOf(n) {
					t.Fatalf("content %d is said to be first at %+v", n, a[0].Page)
				}
			}
		}
		if err := r.end(); err != nil {
			t.Fatal(err)
		}
		return known
	}
	flipRuns := func() {
		runs := onDisk()
		for _, name := range runs {
			info, err := mem.Stat(name)
			if err != nil {
				t.Fatal(err)
			}
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

// A disk that fails ends Run, and no asker waits for ever.
func TestFullDisk(t *testing.T) {
	faulty := disk.NewFaulty(memory(t), nil)
	r := start(t, faulty, Config{SyncEvery: time.Hour})
	faulty.Break(disk.FullAfter(500))
	var err error
	for n := range 100 {
		if _, err = r.Ask(t.Context(), []Question{{digestOf(n), pageOf(n)}}); err != nil {
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
	for _, p := range []Page{{}, {URL: string(make([]byte, MaxURL+1))}, {URL: "http://a.example/", Date: time.UnixMilli(-1)}, {URL: "http://a.example/", Date: time.UnixMilli(maxMillis + 1)}} {
		if CheckPage(p) == nil {
			t.Errorf("%.40q at %s is a page", p.URL, p.Date)
		}
	}
}

func TestRecent(t *testing.T) {
	r := NewRecent(100)
	for n := range 1000 {
		r.Add(digestOf(n), pageOf(n))
		r.Add(digestOf(n), pageOf(n+1)) // does not hold
		if p, ok := r.First(digestOf(0)); !ok || p != pageOf(0) {
			t.Fatalf("after %d others what is asked for again is forgotten: %+v %v", n, p, ok)
		}
	}
	known := 0
	for n := range 1000 {
		if p, ok := r.First(digestOf(n)); ok {
			if known++; p != pageOf(n) {
				t.Errorf("content %d: %+v", n, p)
			}
		}
	}
	if known < 49 || known > 100 {
		t.Errorf("%d contents known, of at most 100", known)
	}
	if _, ok := r.First(digestOf(990)); !ok {
		t.Error("one that came lately is forgotten")
	}
}

// FuzzEntry: what is read is what would be written.
func FuzzEntry(f *testing.F) {
	e := entry{digestOf(1), pageOf(1)}
	f.Add(e.appendTo(nil))
	f.Add(append(e.appendTo(nil), 1, 2, 3))
	f.Add([]byte{})
	f.Add(make([]byte, entryHead))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, n, err := decodeEntry(b)
		if err != nil {
			return
		}
		if err := CheckPage(e.page); err != nil {
			t.Fatal(err)
		}
		if again := e.appendTo(nil); string(again) != string(b[:n]) {
			t.Fatalf("%x is written as %x", b[:n], again)
		}
	})
}
