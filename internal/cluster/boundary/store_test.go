package boundary

import (
	"fmt"
	"io"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

func open(t *testing.T, fs disk.FS) *Store {
	t.Helper()
	s := must.Get(Open(fs, "/boundary", StoreConfig{fileBytes: 4 << 10}))(t)
	return s
}

func write(t *testing.T, s *Store, n int) link.Stored {
	t.Helper()
	head := "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
	at := must.Get(s.Write(&warc.Exchange{
		URL: fmt.Sprintf("http://a.example/%d", n), Addr: netip.MustParseAddr("192.0.2.1"),
		Began:   time.Unix(int64(n), 0),
		Request: []byte("GET / HTTP/1.1\r\n\r\n"), HTTP: true, HeadLen: len(head),
		Response: warc.Bytes(head + strings.Repeat(fmt.Sprint(n, " "), 300)),
		Metadata: []warc.Field{{Name: "fetchTimeMs", Value: "5"}},
	}))(t)
	return at
}

// read returns the URL of the page at a place, and the number of its records.
func read(t *testing.T, s *Store, at link.Stored) (url string, records int) {
	t.Helper()
	r := must.Get(s.Read(at))(t)
	defer r.Close()
	for in := warc.NewReader(r); ; records++ {
		rec, err := in.Next()
		if err == io.EOF {
			return url, records
		}
		must.Do(t, err)
		if rec.Type() == "response" {
			url = rec.URL()
		}
	}
}

func files(t *testing.T, fs disk.FS) (n int) {
	t.Helper()
	entries := must.Get(fs.ReadDir("/boundary/archive"))(t)
	return len(entries)
}

// TestStore: each page can be read until it is released, and a file is removed with its last page.
func TestStore(t *testing.T) {
	fs := testdisk.NewMem()
	s := open(t, fs)
	var all []link.Stored
	for n := range 40 {
		all = append(all, write(t, s, n))
	}
	for n, at := range all {
		if url, records := read(t, s, at); url != fmt.Sprintf("http://a.example/%d", n) || records != 3 {
			t.Fatalf("page %d: %d records of %q", n, records, url)
		}
	}
	if s.Waiting() != 40 || files(t, fs) < 3 {
		t.Fatalf("%d pages in %d files", s.Waiting(), files(t, fs))
	}
	must.Do(t, s.Release(all))
	if s.Waiting() != 0 || files(t, fs) != 1 {
		t.Errorf("%d pages in %d files are left; want the file that is being written", s.Waiting(), files(t, fs))
	}
	if err := s.Close(); err != nil || files(t, fs) != 0 {
		t.Errorf("after Close: %v, %d files", err, files(t, fs))
	}
}

// TestKilled: after a power failure, the pages that were synced are whole, and files without waiting pages are removed.
func TestKilled(t *testing.T) {
	for seed := range uint64(20) {
		fs := testdisk.NewMem()
		s := open(t, fs)
		var synced, later []link.Stored
		for n := range 20 {
			synced = append(synced, write(t, s, n))
		}
		must.Do(t, s.Sync())
		for n := range 10 {
			later = append(later, write(t, s, 20+n))
		}
		crashed := fs.Crash(seed)
		s = open(t, crashed)
		for n, at := range synced[10:] {
			whole, err := s.Hold(at)
			if err != nil || !whole {
				t.Fatalf("seed %d, page %d: %v, %v", seed, 10+n, whole, err)
			}
			if url, _ := read(t, s, at); url != fmt.Sprintf("http://a.example/%d", 10+n) {
				t.Fatalf("seed %d: page %d is %q", seed, 10+n, url)
			}
		}
		for n, at := range later {
			if whole, err := s.Hold(at); err != nil {
				t.Fatal(err)
			} else if whole {
				if url, _ := read(t, s, at); url != fmt.Sprintf("http://a.example/%d", 20+n) {
					t.Fatalf("seed %d: a page that was not synced is whole, but is %q", seed, url)
				}
			}
		}
		must.Do(t, s.Tidy())
		kept := map[string]bool{}
		for _, at := range synced[10:] {
			kept[at.File] = true
		}
		if n := files(t, crashed); n < len(kept) || n > len(kept)+len(later) {
			t.Errorf("seed %d: %d files, at least %d have waiting pages", seed, n, len(kept))
		}
	}
}

// TestForeignPlaces: a place that this Store cannot have made is not whole, whatever its name.
func TestForeignPlaces(t *testing.T) {
	s := open(t, testdisk.NewMem())
	write(t, s, 1)
	for _, at := range []link.Stored{{File: "../state"}, {}, {File: "none.warc.gz", To: 5}, {File: "a/b", To: 1}} {
		if whole, err := s.Hold(at); whole || err != nil {
			t.Errorf("Hold(%v) = %v, %v", at, whole, err)
		}
	}
	if err := s.Release([]link.Stored{{File: "none.warc.gz"}}); err != nil {
		t.Error(err)
	}
}
