package spare

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

const of = "a2-01020304"

// send sends a file in parts of n bytes, and continues wherever the store says.
func send(s *Store, name string, content []byte, n int) error {
	f, err := DigestOf(name, bytes.NewReader(content))
	if err != nil {
		return err
	}
	have, err := s.Append(of, f, 0, nil)
	for tries := 0; err == nil && have < f.Size; tries++ {
		if tries > len(content)/n+3 {
			return errors.New("no end")
		}
		have, err = s.Append(of, f, have, content[have:min(int(have)+n, len(content))])
	}
	return err
}

// archive returns a WARC file with a response of each URL.
func archive(urls ...string) []byte {
	var b bytes.Buffer
	for _, u := range urls {
		body := "HTTP/1.1 200 OK\r\n\r\nhello"
		fmt.Fprintf(&b, "WARC/1.1\r\nWARC-Type: response\r\nWARC-Record-ID: <urn:uuid:1>\r\n"+
			"WARC-Date: 2000-01-01T00:00:00Z\r\nWARC-Target-URI: %s\r\nContent-Length: %d\r\n\r\n%s\r\n\r\n",
			u, len(body), body)
	}
	return b.Bytes()
}

func keysOf(urls ...string) (keys []link.Key) {
	for _, u := range urls {
		keys = append(keys, link.KeyOf(weburl.MustParse(u)))
	}
	return keys
}

// TestStore: a copy counts when all its bytes are there. A new process knows it, and continues a part.
func TestStore(t *testing.T) {
	mem := testdisk.NewMem()
	content := archive("http://a.example/", "http://a.example/1", "http://b.example/")
	must.Do(t, send(New(mem, "/c", 1<<20), "x-1.warc.gz", content, 100))
	second := archive("http://c.example/")
	f := must.Get(DigestOf("x-2.warc.gz", bytes.NewReader(second)))(t)
	if have, err := New(mem, "/c", 1<<20).Append(of, f, 0, second[:50]); have != 50 || err != nil {
		t.Fatalf("%d bytes, %v", have, err)
	}
	s := New(mem, "/c", 1<<20)
	has := func(want ...bool) {
		t.Helper()
		damaged, bad := s.Read(t.Context(), of)
		got, err := s.Has(of, keysOf("http://a.example/1", "http://b.example/", "http://c.example/",
			"http://none.example/"))
		err = errors.Join(err, bad)
		if !slices.Equal(got, want) || len(damaged) > 0 || err != nil {
			t.Errorf("has %v, damaged %v, %v; want %v", got, damaged, err, want)
		}
	}
	if _, err := s.Has(of, keysOf("http://a.example/")); !errors.Is(err, ErrNotRead) {
		t.Errorf("before Read: %v", err)
	}
	has(true, true, false, false)
	if have, err := s.Append(of, f, 10, second[10:20]); have != 50 || err != nil { // of another process of the sender
		t.Errorf("%d bytes after a repeated part, %v", have, err)
	}
	must.Do(t, send(s, f.Name, second, 30))
	has(true, true, true, false)
	if files, n, err := s.Count(); files != 2 || n != int64(len(content)+len(second)) || err != nil {
		t.Errorf("%d files, %d bytes, %v", files, n, err)
	}
	if err := s.Drop(of); err != nil {
		t.Error(err)
	}
	has(false, false, false, false)
}

// TestDamage: a copy with another digest does not count, and a part with another digest begins anew.
func TestDamage(t *testing.T) {
	mem := testdisk.NewMem()
	s := New(mem, "/c", 1<<20)
	for i, u := range []string{"http://a.example/", "http://b.example/"} {
		must.Do(t, send(s, fmt.Sprintf("x-%d.warc.gz", i), archive(u), 64))
	}
	name := "/c/" + of + "/archive/x-1.warc.gz"
	b, err := disk.ReadFile(mem, name, 1<<20)
	must.Do(t, err)
	b = bytes.Clone(b)
	b[len(b)/2] ^= 4
	must.Do(t, disk.WriteFile(mem, name, b))
	damaged, bad := s.Read(t.Context(), of)
	got, err := s.Has(of, keysOf("http://a.example/", "http://b.example/"))
	err = errors.Join(err, bad)
	if !slices.Equal(got, []bool{true, false}) || !slices.Equal(damaged, []string{"x-1.warc.gz"}) || err != nil {
		t.Errorf("has %v, damaged %v, %v", got, damaged, err)
	}
	if files, _, _ := New(mem, "/c", 1<<20).Count(); files != 1 {
		t.Errorf("%d files count", files)
	}
	f := File{"x-9.warc.gz", 4, sha256.Sum256([]byte("good"))}
	if have, err := s.Append(of, f, 0, []byte("evil")); have != 0 || err != nil {
		t.Errorf("%d bytes of a part without the digest, %v", have, err)
	}
	if have, err := s.Append(of, f, 0, []byte("good")); have != 4 || err != nil {
		t.Errorf("%d bytes, %v", have, err)
	}
}

// TestNames: a file's name leads to no other folder.
func TestNames(t *testing.T) {
	s := New(testdisk.NewMem(), "/c", 1<<20)
	for _, name := range []string{"", ".warc.gz", "../x.warc.gz", "a/b.warc.gz", "x.warc.gz.open", "x.txt",
		".x.warc.gz"} {
		if _, err := s.Append(of, File{Name: name, Size: 1}, 0, []byte("x")); !errors.Is(err, ErrName) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestPower: after a power failure at any call, or on a full disk, each file that counts is whole, and the sender can
// complete the others.
func TestPower(t *testing.T) {
	content := archive("http://a.example/", "http://a.example/1")
	r := testseed.Rand(t)
	for n := int64(1); ; n++ {
		mem := testdisk.NewMem()
		must.Do(t, mem.MkdirAll("/c", 0o755))
		must.Do(t, mem.SyncDir("/"))
		faulty := testdisk.NewFaulty(mem, testdisk.FailAt(n, syscall.ENOSPC))
		first := send(New(faulty, "/c", 1<<20), "x-1.warc.gz", content, 300)
		for _, left := range []*testdisk.Mem{mem.Clone(), mem.Crash(r.Uint64())} {
			s := New(left, "/c", 1<<20)
			files, err := s.Files(of)
			if err != nil || first == nil && len(files) == 0 {
				t.Fatalf("call %d (%v): the files %v, %v", n, first, files, err)
			}
			if len(files) > 0 {
				if damaged, err := s.Read(t.Context(), of); len(damaged) > 0 || err != nil {
					t.Fatalf("call %d: damaged %v, %v", n, damaged, err)
				}
			}
			if err := send(s, "x-1.warc.gz", content, 300); err != nil {
				t.Fatalf("call %d: %v", n, err)
			}
			if _, err := s.Read(t.Context(), of); err != nil {
				t.Fatalf("call %d: %v", n, err)
			}
			if got, err := s.Has(of, keysOf("http://a.example/1")); err != nil || !got[0] {
				t.Fatalf("call %d: has %v, %v", n, got, err)
			}
		}
		if first == nil {
			return
		}
	}
}

// TestSumFile: sha256sum reads the files with the digests.
func TestSumFile(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, send(New(disk.OS, dir, 1<<20), "x-1.warc.gz", []byte("hello"), 2))
	b, err := os.ReadFile(filepath.Join(dir, of, "x-1.warc.gz.sha256"))
	want := fmt.Sprintf("%x  archive/x-1.warc.gz\n", sha256.Sum256([]byte("hello")))
	if err != nil || string(b) != want {
		t.Errorf("%q, %v", b, err)
	}
}
