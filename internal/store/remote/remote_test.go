package remote_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/object"
	"github.com/orbweaver/orbweaver/internal/store/object/folder"
	"github.com/orbweaver/orbweaver/internal/store/object/s3"
	"github.com/orbweaver/orbweaver/internal/store/remote"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/teststore"
)

const root = "s3:/bucket"

// fill puts random files into a store and into a directory.
func fill(t *testing.T, s *object.Store, fsys disk.FS, seed uint64) (names []string) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 2))
	must.Do(t, fsys.MkdirAll(root, 0o755))
	for i := range 60 {
		key := fmt.Sprintf("f%d", i)
		for range r.IntN(4) {
			key = []string{"a", "a-b", "a.b", "ab", "c d", "é"}[r.IntN(6)] + "/" + key
		}
		size := []int{0, 1, 1000, 64 << 10, 64<<10 + 1, 300_000, 3 << 20}[r.IntN(7)]
		data := make([]byte, size)
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		must.Get(s.Put(t.Context(), key, bytes.NewReader(data), object.Condition{}))(t)
		name := filepath.Join(root, key)
		must.Do(t, fsys.MkdirAll(filepath.Dir(name), 0o755))
		must.Do(t, disk.WriteFile(fsys, name, data))
		names = append(names, name)
	}
	return names
}

// agree compares a store with a directory that has the same files.
func agree(t *testing.T, far, near disk.FS, names []string, seed uint64) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 3))
	asked := slices.Clone(names)
	for _, n := range names {
		asked = append(asked, filepath.Dir(n), n+"x", n[:len(n)-1], filepath.Join(filepath.Dir(n), "none"), root)
	}
	r.Shuffle(len(asked), func(i, j int) { asked[i], asked[j] = asked[j], asked[i] })
	for _, name := range asked {
		want, wantErr := near.Stat(name)
		got, err := far.Stat(name)
		switch {
		case wantErr != nil:
			if !errors.Is(err, fs.ErrNotExist) {
				t.Fatalf("stat %s: %v, want %v", name, err, wantErr)
			}
			continue
		case err != nil:
			t.Fatalf("stat %s: %v", name, err)
		case got.Name() != want.Name() || got.IsDir() != want.IsDir() || !want.IsDir() && got.Size() != want.Size():
			t.Fatalf("stat %s: %v, want %v", name, got, want)
		}
		if want.IsDir() {
			if got, want := listing(t, far, name), listing(t, near, name); !slices.Equal(got, want) {
				t.Fatalf("%s has %q, want %q", name, got, want)
			}
			continue
		}
		sameBytes(t, r, far, near, name)
	}
}

func listing(t *testing.T, fsys disk.FS, name string) (names []string) {
	t.Helper()
	for _, e := range must.Get(fsys.ReadDir(name))(t) {
		names = append(names, fmt.Sprint(e.Name(), " ", e.IsDir()))
	}
	return names
}

// sameBytes reads a file at random places, and as a whole in pieces.
func sameBytes(t *testing.T, r *rand.Rand, far, near disk.FS, name string) {
	t.Helper()
	want := must.Get(disk.ReadFile(near, name, 1<<30))(t)
	f := must.Get(far.OpenFile(name, os.O_RDONLY, 0))(t)
	if r.IntN(2) == 0 {
		f.Close()
		at := r.IntN(len(want) + 1)
		f = must.Get(disk.OpenRange(far, name, int64(at), int64(r.IntN(len(want)-at+1))))(t)
	}
	defer f.Close()
	for range 20 {
		off := r.IntN(len(want) + 10)
		p := make([]byte, r.IntN(200_000))
		n, err := f.ReadAt(p, int64(off))
		rest := want[min(off, len(want)):]
		if k := min(len(p), len(rest)); n != k || !bytes.Equal(p[:n], rest[:k]) || (n < len(p)) != (err == io.EOF) ||
			err != nil && err != io.EOF {
			t.Fatalf("%s at %d of %d: %d bytes of %d, %v", name, off, len(want), n, len(p), err)
		}
	}
	at := int64(r.IntN(len(want) + 1))
	must.Get(f.Seek(at, io.SeekStart))(t)
	got, err := io.ReadAll(f)
	if err != nil || !bytes.Equal(got, want[at:]) {
		t.Fatalf("%s from %d: %d bytes of %d, %v", name, at, len(got), len(want), err)
	}
	if end := must.Get(f.Seek(0, io.SeekEnd))(t); end != int64(len(want)) {
		t.Fatalf("%s ends at %d of %d", name, end, len(want))
	}
}

// TestLikeADirectory compares stores with a directory: one that fails as real ones do, a folder, and one of others.
func TestLikeADirectory(t *testing.T) {
	t.Run("simulated", func(t *testing.T) {
		for seed := range uint64(6) {
			synctest.Test(t, func(t *testing.T) {
				sim := teststore.NewSim(seed, teststore.Traits{})
				mem := testdisk.NewMem()
				s := object.New(sim, "s3://bucket", object.Config{})
				names := fill(t, s, mem, seed)
				sim.Fail(teststore.Faults{Delay: time.Second, Busy: 0.05, Broken: 0.05, LostRequest: 0.05,
					LostAnswer: 0.05, TornAnswer: 0.1})
				agree(t, remote.New(t.Context(), s, root, remote.Config{Memory: 1 << 20}), mem, names, seed)
			})
		}
	})
	t.Run("folder", func(t *testing.T) {
		mem := testdisk.NewMem()
		s := object.New(must.Get(folder.Open(disk.OS, t.TempDir()))(t), "file:///folder", object.Config{})
		names := fill(t, s, mem, 1)
		agree(t, remote.New(t.Context(), s, root, remote.Config{}), mem, names, 1)
	})
	t.Run("S3", func(t *testing.T) {
		backend := s3mem.New()
		must.Do(t, backend.CreateBucket("bucket"))
		server := httptest.NewServer(gofakes3.New(backend, gofakes3.WithLogger(gofakes3.DiscardLog())).Server())
		defer server.Close()
		b := must.Get(s3.Open(must.Get(url.Parse("s3://bucket/x"))(t), env{"AWS_ENDPOINT_URL_S3": server.URL,
			"AWS_ACCESS_KEY_ID": "A", "AWS_SECRET_ACCESS_KEY": "B"}, s3.Options{}))(t)
		mem := testdisk.NewMem()
		s := object.New(b, b.Base(), object.Config{Tries: 3})
		names := fill(t, s, mem, 1)
		agree(t, remote.New(t.Context(), s, root, remote.Config{}), mem, names, 1)
	})
}

// An env is an environment.
type env map[string]string

func (e env) LookupEnv(name string) (string, bool) { v, ok := e[name]; return v, ok }

// world is a store with a few objects, read without faults.
func world(t *testing.T, objects map[string]string) (*teststore.Sim, *object.Store, *remote.FS) {
	t.Helper()
	sim := teststore.NewSim(1, teststore.Traits{})
	s := object.New(sim, "s3://bucket", object.Config{Tries: 2})
	for key, text := range objects {
		must.Get(s.Put(t.Context(), key, strings.NewReader(text), object.Condition{}))(t)
	}
	return sim, s, remote.New(t.Context(), s, root, remote.Config{})
}

// TestRequests counts requests: a reader of one record makes one, a reader that goes on makes few, and a list of a
// folder passes over what is below its folders.
func TestRequests(t *testing.T) {
	objects := map[string]string{"c/large": strings.Repeat("0123456789", 2<<20), "c/next": "x"}
	for i := range 3 {
		for j := range 1500 {
			objects[fmt.Sprintf("c/s%d/f%04d", i, j)] = ""
		}
	}
	_, _, f := world(t, objects)
	step := func(what string, want remote.Requests, do func()) {
		t.Helper()
		before := f.Requests()
		do()
		got := f.Requests()
		got.Lists, got.Reads, got.Stats = got.Lists-before.Lists, got.Reads-before.Reads, got.Stats-before.Stats
		if got.Bytes = 0; got != want {
			t.Errorf("%s: %+v, want %+v", what, got, want)
		}
	}
	step("one record", remote.Requests{Reads: 1}, func() {
		file := must.Get(f.OpenRange(root+"/c/large", 12_345_678, 700_000))(t)
		defer file.Close()
		must.Get(file.Seek(12_345_678, io.SeekStart))(t)
		b := must.Get(io.ReadAll(io.LimitReader(file, 700_000)))(t)
		if string(b[:4]) != "8901" || len(b) != 700_000 {
			t.Errorf("%d bytes: %.10q", len(b), b)
		}
	})
	step("a folder with folders", remote.Requests{Lists: 4}, func() {
		if got := listing(t, f, root+"/c"); !slices.Equal(got, []string{"large false", "next false", "s0 true",
			"s1 true", "s2 true"}) {
			t.Errorf("%q", got)
		}
	})
	step("the first folder", remote.Requests{Lists: 2}, func() { listing(t, f, root) })
	step("what is known", remote.Requests{}, func() {
		listing(t, f, root+"/c")
		listing(t, f, root)
		must.Get(f.Stat(root + "/c/next"))(t)
		must.Get(f.Stat(root + "/c/s2"))(t)
		must.Get(f.OpenFile(root+"/c/next", os.O_RDONLY, 0))(t)
		if _, err := f.Stat(root + "/c/none"); !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	})
	step("20 MB to the end", remote.Requests{Reads: 11}, func() {
		file := must.Get(f.OpenFile(root+"/c/large", os.O_RDONLY, 0))(t)
		defer file.Close()
		if n := must.Get(io.Copy(io.Discard, file))(t); n != 20<<20 {
			t.Errorf("%d bytes", n)
		}
	})
}

// TestRefusals: nothing is written, and the error says where.
func TestRefusals(t *testing.T) {
	_, _, f := world(t, map[string]string{"a/b": "text"})
	file := must.Get(f.OpenFile(root+"/a/b", os.O_RDONLY, 0))(t)
	_, writes := f.OpenFile(root+"/a/b", os.O_WRONLY, 0)
	_, creates := f.OpenFile(root+"/a/c", os.O_RDONLY|os.O_CREATE, 0o644)
	_, locks := f.Lock(root + "/a/b")
	_, puts := file.Write([]byte("x"))
	for i, err := range []error{writes, creates, locks, puts, file.Sync(), file.Truncate(0), f.Remove(root + "/a/b"),
		f.RemoveAll(root + "/a"), f.Mkdir(root+"/a/b", 0), f.MkdirAll(root+"/a/b", 0), f.SyncDir(root + "/a/b"),
		f.Chmod(root+"/a/b", 0), f.Rename(root+"/a/b", root+"/c")} {
		if !errors.Is(err, remote.ErrReadOnly) || !strings.Contains(err.Error(), "s3://bucket/a") {
			t.Errorf("%d: %v", i, err)
		}
	}
	if _, err := f.OpenFile(root+"/a", os.O_RDONLY, 0); !errors.Is(err, syscall.EISDIR) {
		t.Error(err)
	}
	if _, err := f.ReadDir(root + "/a/b"); !errors.Is(err, syscall.ENOTDIR) {
		t.Error(err)
	}
	must.Do(t, file.Close())
	if _, err := file.Read(make([]byte, 1)); !errors.Is(err, fs.ErrClosed) {
		t.Error(err)
	}
	if err := file.Close(); !errors.Is(err, fs.ErrClosed) {
		t.Error(err)
	}
	for _, name := range []string{"/etc/passwd", root + "x", root + "/../secret", root + "/a\x00b", root + "/a\nb"} {
		if _, err := f.Stat(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: %v", name, err)
		}
	}
	_, _, f = world(t, nil)
	late := must.Get(f.OpenRange(root+"/z/none", 5, 10))(t)
	if _, err := late.ReadAt(make([]byte, 1), 5); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// TestReplaced: an object that is replaced between two reads is an error. If nothing was read yet, the new one is read.
func TestReplaced(t *testing.T) {
	_, s, f := world(t, map[string]string{"a": strings.Repeat("1", 200_000)})
	put := func(text string, n int) {
		must.Get(s.Put(t.Context(), "a", strings.NewReader(strings.Repeat(text, n)), object.Condition{}))(t)
	}
	open := func() disk.File { return must.Get(f.OpenFile(root+"/a", os.O_RDONLY, 0))(t) }
	file := open()
	put("2", 150_000)
	if b, err := io.ReadAll(file); err != nil || len(b) != 150_000 || b[0] != '2' {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	file = open()
	must.Get(file.ReadAt(make([]byte, 10), 0))(t)
	put("3", 150_000)
	if _, err := file.ReadAt(make([]byte, 10), 140_000); err != nil {
		t.Errorf("what is kept: %v", err)
	}
	put("4", 400_000)
	f = remote.New(t.Context(), s, root, remote.Config{})
	file = open()
	must.Get(file.ReadAt(make([]byte, 10), 0))(t)
	put("5", 400_000)
	if _, err := file.ReadAt(make([]byte, 10), 390_000); !errors.Is(err, remote.ErrReplaced) {
		t.Errorf("replaced: %v", err)
	}
	if b, err := io.ReadAll(open()); err != nil || b[0] != '5' || b[len(b)-1] != '5' {
		t.Errorf("opened again: %v", err)
	}
}

// A hostile store answers what the test says. It implements remote.Store.
type hostile struct {
	read func(offset, length int64) ([]byte, error)
	list func(after string) object.Page
	err  error
}

func (h *hostile) Location(key string) string { return "s3://hostile/" + key }

func (h *hostile) ReadTagged(ctx context.Context, _, _ string, offset, length int64) ([]byte, error) {
	if h.read == nil {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return h.read(offset, length)
}

func (h *hostile) List(_ context.Context, _, after string, _ int) (object.Page, error) {
	if h.err != nil {
		return object.Page{}, h.err
	}
	return h.list(after), nil
}

func (h *hostile) Stat(context.Context, string) (object.Info, error) {
	return object.Info{Key: "a", Size: 5, Tag: "t"}, nil
}

// TestHostile: what a store does wrong ends with an error, after bounded work.
func TestHostile(t *testing.T) {
	open := func(h *hostile) *remote.FS { return remote.New(t.Context(), h, root, remote.Config{}) }
	one := func(string) object.Page {
		return object.Page{Objects: []object.Info{{Key: "a", Size: 1 << 60, Tag: "t"}}}
	}
	for _, n := range []int{0, 1000} { // a list without an end, of strange names or of objects
		i := 0
		f := open(&hostile{list: func(string) (p object.Page) {
			for range n {
				i++
				p.Objects = append(p.Objects, object.Info{Key: fmt.Sprintf("k%09d", i)})
			}
			i++
			p.Next = fmt.Sprintf("k%09d", i)
			return p
		}})
		if _, err := f.ReadDir(root); !errors.Is(err, remote.ErrTooMany) {
			t.Errorf("a list without an end: %v", err)
		}
	}
	f := open(&hostile{list: one, read: func(int64, int64) ([]byte, error) { return []byte("short"), nil }})
	file := must.Get(f.OpenFile(root+"/a", os.O_RDONLY, 0))(t)
	if _, err := file.ReadAt(make([]byte, 10), 0); !errors.Is(err, remote.ErrReplaced) {
		t.Errorf("a wrong size: %v", err)
	}
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		f := remote.New(t.Context(), &hostile{list: one}, root, remote.Config{})
		file := must.Get(f.OpenFile(root+"/a", os.O_RDONLY, 0))(t)
		_, err := file.ReadAt(make([]byte, 10), 0)
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took != 2*time.Minute {
			t.Errorf("no answer: %v after %v", err, took)
		}
		ended, end := context.WithCancel(t.Context())
		end()
		f = remote.New(ended, &hostile{list: one}, root, remote.Config{})
		if _, err := must.Get(f.OpenFile(root+"/a", os.O_RDONLY, 0))(t).Read(make([]byte, 1)); !errors.Is(err,
			context.Canceled) {
			t.Errorf("ended: %v", err)
		}
	})
	f = open(&hostile{err: object.ErrDenied, read: func(int64, int64) ([]byte, error) { return []byte("hello"), nil }})
	file = must.Get(f.OpenFile(root+"/a", os.O_RDONLY, 0))(t) // without the right to list
	if b, err := io.ReadAll(file); err != nil || string(b) != "hello" {
		t.Errorf("without lists: %q, %v", b, err)
	}
	if _, err := f.ReadDir(root); !errors.Is(err, object.ErrDenied) {
		t.Errorf("without lists: %v", err)
	}
}

// TestMounted shows a store as a folder, beside other files.
func TestMounted(t *testing.T) {
	_, _, f := world(t, map[string]string{"a/b": "far"})
	mem := testdisk.NewMem()
	m := remote.NewMounted(mem)
	m.Add(f)
	must.Do(t, m.MkdirAll("/d", 0o755))
	must.Do(t, disk.WriteFile(m, "/d/b", []byte("near")))
	for name, want := range map[string]string{root + "/a/b": "far", "/d/b": "near"} {
		if got := must.Get(disk.ReadFile(m, name, 100))(t); string(got) != want {
			t.Errorf("%s has %q", name, got)
		}
	}
	if err := m.Rename("/d/b", root+"/a/c"); !errors.Is(err, remote.ErrReadOnly) {
		t.Error(err)
	}
}
