package warc

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
)

// readFound returns the wire of the newest response of url; "" if the archive has none.
func readFound(w *Writer, url string) (string, error) {
	c, err := w.Find(url)
	if err != nil || c == nil {
		return "", err
	}
	r, err := w.OpenCapture(c)
	if err != nil {
		return "", err
	}
	defer r.Close()
	rec, wire, size, err := ReadCapture(r)
	if err != nil {
		return "", err
	}
	b, err := io.ReadAll(wire)
	if err == nil && (int64(len(b)) != size || rec.URL() != url) {
		err = fmt.Errorf("%d bytes of %d for a record of %s", len(b), size, rec.URL())
	}
	return string(b), err
}

// TestFind compares what a Writer finds with a map, while several goroutines write, and after restarts.
func TestFind(t *testing.T) {
	rng := rand.New(rand.NewPCG(testseed.New(t), 1))
	fsys := testdisk.NewMem()
	want := map[string]string{}
	open := func() *Writer {
		w, _, err := Open(Config{Dir: "/crawl", FS: fsys, MaxBytes: 20_000, Agent: "a"})
		must.Do(t, err)
		return w
	}
	check := func(w *Writer) {
		t.Helper()
		for url, wire := range want {
			if got, err := readFound(w, url); err != nil || got != wire {
				t.Fatalf("%s: found %q, %v; want %q", url, got, err, wire)
			}
		}
		for _, url := range []string{"http://a.example/none", "http://www.a.example/p1", "https://a.example/p1"} {
			if got, err := readFound(w, url); err != nil || got != "" {
				t.Fatalf("%s, which was not archived: found %q, %v", url, got, err)
			}
		}
	}
	w := open()
	n := 0
	for round := range 6 {
		if round != 1 { // in one run nothing is found before the end
			check(w)
		}
		var wg sync.WaitGroup
		for range 4 {
			var xs []*Exchange
			for range 20 {
				n++
				// A third of the bodies came before: their records are revisits, with a header of their own.
				body := fmt.Sprintf("body %d %s", n-n%3*rng.IntN(3), strings.Repeat("text ", rng.IntN(100)))
				if n%3 > 0 {
					body = fmt.Sprintf("body %d", n%7)
				}
				x := page(fmt.Sprintf("http://a.example/p%d", n), fmt.Sprintf("HTTP/1.1 200 OK\nX-Number: %d", n), body)
				x.Began = testTime.Add(time.Duration(n) * time.Second)
				wire, _ := x.Response.Bytes()
				want[x.URL] = string(wire)
				xs = append(xs, x)
			}
			wg.Go(func() {
				for _, x := range xs {
					if _, err := w.Write(x); err != nil {
						t.Error(err)
						return
					}
					wire, _ := x.Response.Bytes()
					if got, err := readFound(w, x.URL); round != 1 && (err != nil || got != string(wire)) {
						t.Errorf("%s: found %q, %v; want %q", x.URL, got, err, wire)
					}
				}
			})
		}
		wg.Wait()
		switch round % 3 {
		case 0:
			must.Do(t, w.Close())
			w = open()
		case 1: // the process is killed
			must.Do(t, w.Flush())
			fsys = fsys.Clone()
			w.Close() // its disk is gone
			w = open()
		}
	}
	check(w)

	// The newest of several responses counts.
	again := page("http://a.example/p1", "HTTP/1.1 404 Not Found", "gone")
	again.Began = testTime.Add(time.Hour)
	wire, _ := again.Response.Bytes()
	must.Get(w.Write(again))(t)
	if got, err := readFound(w, again.URL); err != nil || got != string(wire) {
		t.Errorf("found %q, %v; want the newer response", got, err)
	}
	// A file that was moved away.
	c, err := w.Find("http://a.example/p2")
	must.Do(t, err)
	must.Do(t, fsys.Remove("/crawl/archive/"+c[0].File))
	if _, err = w.OpenCapture(c); err == nil {
		t.Error("a record without its file was opened")
	} else if _, ok := errors.AsType[*UnreadableError](err); !ok {
		t.Errorf("%v is not an UnreadableError", err)
	}
	must.Do(t, w.Close())
}

// TestFindWithoutFilters checks the search of runs for which there are no filters.
func TestFindWithoutFilters(t *testing.T) {
	fsys := testdisk.NewMem()
	w, _, err := Open(Config{Dir: "/crawl", FS: fsys, MaxBytes: 1})
	must.Do(t, err)
	defer w.Close()
	for i := range 20 {
		if i == 10 {
			d, err := w.finder()
			must.Do(t, err)
			d.room = 0
		}
		x := page(fmt.Sprintf("http://a.example/%d", i), "HTTP/1.1 200 OK", fmt.Sprint("page ", i))
		must.Get(w.Write(x))(t)
	}
	for i := range 21 {
		got, err := readFound(w, fmt.Sprintf("http://a.example/%d", i))
		if err != nil || (got != "") != (i < 20) || !strings.HasSuffix(got, fmt.Sprint("page ", i)) && i < 20 {
			t.Errorf("page %d: %q, %v", i, got, err)
		}
	}
}
