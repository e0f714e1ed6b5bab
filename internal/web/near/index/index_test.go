package index

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
	"github.com/orbweaver/orbweaver/internal/web/near"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const dir = "/state/near"

// A running is an Index with a running Run.
type running struct {
	*Index
	t     *testing.T
	stop  context.CancelFunc
	ended chan error
}

func start(t *testing.T, fs disk.FS, cfg Config) *running {
	t.Helper()
	x := must.Get(Open(fs, dir, cfg))(t)
	ctx, stop := context.WithCancel(context.Background())
	r := &running{x, t, stop, make(chan error, 1)}
	go func() { r.ended <- x.Run(ctx) }()
	return r
}

func (r *running) end() {
	r.t.Helper()
	r.stop()
	if err := errors.Join(<-r.ended, r.Close()); err != nil {
		r.t.Fatal(err)
	}
}

// find asks for a page, and archives it if it is new. It returns the URL of the first page.
func (r *running) find(text, url string) string {
	r.t.Helper()
	first, claim, err := r.Find(r.t.Context(), sketchOf(text), Original{URL: url})
	if err != nil {
		r.t.Fatal(err)
	}
	if claim != nil {
		claim.Archived(time.UnixMilli(1700000000000))
	}
	if first == nil {
		return ""
	}
	return first.URL
}

func sketchOf(text string) near.Sketch {
	var m near.Scratch
	s, ok := m.Of([]byte(text))
	if !ok {
		panic("a short text")
	}
	return s
}

// text returns the nth text, of 200 words, with some words changed.
func text(n uint64, changed int) string {
	r := rand.New(rand.NewPCG(n, 1))
	var ws []string
	for range 200 {
		ws = append(ws, fmt.Sprintf("w%x", r.Uint32()))
	}
	for i := range changed {
		ws[i*199/max(1, changed)] += "x"
	}
	return strings.Join(ws, " ")
}

func memory(t *testing.T) *testdisk.Mem {
	t.Helper()
	m := testdisk.NewMem()
	must.Do(t, errors.Join(m.MkdirAll("/state", 0o755), m.SyncDir("/")))
	return m
}

func TestFind(t *testing.T) {
	r := start(t, memory(t), Config{})
	defer r.end()
	for _, c := range []struct {
		text, url, want string
	}{
		{text(1, 0), "http://a.example/", ""},
		{text(1, 0), "http://b.example/", "http://a.example/"}, // equal
		{text(1, 1), "http://c.example/", "http://a.example/"}, // one word of 200
		{text(1, 20), "http://d.example/", ""},                 // too many words
		{text(1, 20), "http://e.example/", "http://d.example/"},
		{text(2, 0), "http://f.example/", ""},
		{text(1, 1), "http://a.example/", ""}, // the same page again
	} {
		if got := r.find(c.text, c.url); got != c.want {
			t.Errorf("%s is a near-duplicate of %q, want %q", c.url, got, c.want)
		}
		r.Syncing()()
	}
}

// TestDurable checks that pages whose finish is not durable are not on disk after a kill, and others are.
func TestDurable(t *testing.T) {
	mem := memory(t)
	r := start(t, mem, Config{SyncEvery: time.Hour})
	r.find(text(1, 0), "http://a.example/")
	durable := r.Syncing()
	r.find(text(2, 0), "http://b.example/")
	durable()
	r.end() // stores a, and not b, as a sync that ended before the process was killed
	r = start(t, mem, Config{})
	defer r.end()
	if got := r.find(text(1, 1), "http://c.example/"); got != "http://a.example/" {
		t.Errorf("a page like a is a near-duplicate of %q", got)
	}
	if got := r.find(text(2, 1), "http://d.example/"); got != "" {
		t.Errorf("a page like b is a near-duplicate of %q, whose finish is not durable", got)
	}
}

// TestClaim checks that a page waits for a similar one that is about to be archived.
func TestClaim(t *testing.T) {
	for _, archived := range []bool{true, false} {
		r := start(t, memory(t), Config{Patience: time.Hour})
		_, claim, err := r.Find(t.Context(), sketchOf(text(1, 0)), Original{URL: "http://a.example/"})
		if err != nil || claim == nil {
			t.Fatalf("the first page has no claim: %v", err)
		}
		found := make(chan string)
		go func() { found <- r.find(text(1, 1), "http://b.example/") }()
		want := ""
		if archived {
			claim.Archived(time.Now())
			want = "http://a.example/"
		} else {
			claim.Release()
		}
		if got := <-found; got != want {
			t.Errorf("the second page is a near-duplicate of %q, want %q", got, want)
		}
		r.end()
	}
}

// TestPatience checks that a page does not wait forever for another one.
func TestPatience(t *testing.T) {
	r := start(t, memory(t), Config{Patience: time.Millisecond})
	defer r.end()
	_, claim, err := r.Find(t.Context(), sketchOf(text(1, 0)), Original{URL: "http://a.example/"})
	must.Do(t, err)
	defer claim.Release()
	if got := r.find(text(1, 0), "http://b.example/"); got != "" {
		t.Errorf("a page that is not archived counts: %q", got)
	}
}

// TestCrash compares an Index with a map over power failures: it never names a page that was not archived, and knows
// all pages of ended syncs.
func TestCrash(t *testing.T) {
	rng := testseed.Rand(t)
	mem := memory(t)
	first := map[uint64]string{} // by text
	for run := range 8 {
		r := start(t, mem, Config{MemoryBytes: 1, SyncEvery: time.Millisecond})
		seen := map[uint64]bool{} // in this run
		for i := range 150 {
			n := rng.Uint64N(400)
			url := fmt.Sprintf("http://h%d.example/%d/%d", n, run, i)
			got := r.find(text(n, 0), url)
			if got != "" && got != first[n] {
				t.Fatalf("%s is a near-duplicate of %q, want %q or nothing", url, got, first[n])
			}
			if got == "" {
				if seen[n] {
					t.Fatalf("%s is no near-duplicate, although %s was stored", url, first[n])
				}
				first[n] = url
			}
			seen[n] = true
			if rng.IntN(4) == 0 {
				r.Syncing()()
			}
		}
		r.Syncing()()
		if run%2 == 0 {
			mem = mem.Crash(rng.Uint64())
			r.stop()
			<-r.ended
			r.Close() // of the old disk
			continue
		}
		r.end()
	}
}

func TestAskers(t *testing.T) {
	r := start(t, memory(t), Config{MemoryBytes: 1})
	defer r.end()
	var wg sync.WaitGroup
	news := make([]int, 8)
	for w := range news {
		wg.Go(func() {
			for n := range uint64(60) {
				if r.find(text(n, 0), fmt.Sprintf("http://h%d.example/%d", w, n)) == "" {
					news[w]++
				}
				if n%10 == 0 && w == 0 {
					r.Syncing()()
				}
			}
		})
	}
	wg.Wait()
	all := 0
	for _, n := range news {
		all += n
	}
	if all != 60 {
		t.Errorf("%d pages are new, want one of each of 60 texts", all)
	}
}

func TestClosed(t *testing.T) {
	mem := memory(t)
	r := start(t, mem, Config{SyncEvery: time.Hour})
	r.find(text(1, 0), "http://a.example/")
	r.stop()
	<-r.ended
	_, _, err := r.Find(t.Context(), sketchOf(text(2, 0)), Original{URL: "http://b.example/"})
	if !errors.Is(err, ErrClosed) {
		t.Errorf("a closed index answers %v", err)
	}
	r.Close()
}
