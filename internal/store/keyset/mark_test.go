package keyset

import (
	"errors"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// TestBind checks that a Store refuses another crawl than the one that wrote it.
func TestBind(t *testing.T) {
	fs := testdisk.NewMem()
	nothing := func([]Item) error { return nil }
	s := must.Get(Open(fs, "seen", Config{MemoryBytes: 1}, nothing))(t)
	mine, other := Crawl{1, 2}, Crawl{3}
	must.Do(t, s.Bind(mine))
	var keys []link.Key
	for i := range uint64(200) {
		keys = append(keys, link.Key{Host: i << 56, Path: i})
	}
	if err := s.Restore(keys); err != nil { // this writes some of them to disk
		t.Fatal(err)
	}
	must.Do(t, s.Close())
	s = must.Get(Open(fs, "seen", Config{MemoryBytes: 1}, nothing))(t)
	if s.Mark() != 0 || s.Len() == 0 {
		t.Errorf("mark %d, %d keys; want mark 0 and some keys", s.Mark(), s.Len())
	}
	if err := s.Bind(other); !errors.Is(err, ErrCrawl) {
		t.Errorf("Bind to another crawl: %v, want ErrCrawl", err)
	}
	if err := s.Bind(mine); err != nil {
		t.Error(err)
	}
	must.Do(t, s.Close())
}

func FuzzMark(f *testing.F) {
	f.Add(appendMark(nil, Crawl{1}, 1<<40))
	f.Add([]byte{5}) // the format of an earlier version
	f.Fuzz(func(t *testing.T, m []byte) {
		c, n, err := parseMark(m)
		if err != nil {
			if !errors.Is(err, ErrVersion) {
				t.Fatal(err)
			}
			return
		}
		if c2, n2, err := parseMark(appendMark(nil, c, n)); err != nil || c2 != c || n2 != n {
			t.Fatalf("mark %x gave %s, %d; encoding these gave %s, %d, %v", m, c, n, c2, n2, err)
		}
	})
}
