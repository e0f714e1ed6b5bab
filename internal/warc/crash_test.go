package warc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"testing"

	"github.com/klauspost/compress/gzip"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
)

// A promise is an exchange that a Flush or Sync has made durable.
type promise struct {
	url string
	at  Written
}

// crawlOn writes a small archive of several files, with a Flush or Sync now and then, until it is done or the disk
// fails. It returns the exchanges that the last Flush and the last Sync covered.
func crawlOn(fsys disk.FS, from int, segments Segments) (flushed, synced []promise, err error) {
	cfg := testConfig("/c")
	cfg.Segments = segments
	cfg.FS, cfg.MaxBytes, cfg.runSpan = fsys, 7000, 2000
	cfg.Level = -1 // no compression: to set up a compressor takes most of the time
	w, _, err := Open(cfg)
	if err != nil {
		return nil, nil, err
	}
	var written []promise
	for i := from; i < from+12; i++ {
		// Every second one is a revisit.
		body := fmt.Sprint(i/2, lorem[:700])
		x := page(fmt.Sprintf("http://example.com/%d", i), "HTTP/1.1 200 OK\nContent-Type: image/gif", body)
		x.Robots = i%6 == 4
		at, err := w.Write(x)
		if err != nil {
			return flushed, synced, errors.Join(err, refuses(w))
		}
		written = append(written, promise{x.URL, at})
		if i%3 == 1 {
			if err := w.Flush(); err != nil {
				return flushed, synced, errors.Join(err, refuses(w))
			}
			flushed = append([]promise(nil), written...)
		}
		if i%4 == 3 {
			if err := w.Sync(); err != nil {
				return flushed, synced, errors.Join(err, refuses(w))
			}
			flushed = append([]promise(nil), written...)
			synced = flushed
		}
	}
	if err := w.Close(); err != nil {
		return flushed, synced, err
	}
	return written, written, nil
}

// errTookMore means that a Writer accepted a call after a failed write.
var errTookMore = errors.New("writer took more after an error")

// refuses calls the methods of a Writer after an error. It returns errTookMore if one of them succeeds.
func refuses(w *Writer) error {
	_, werr := w.Write(page("http://example.com/late", "HTTP/1.1 200 OK", "late"))
	if werr == nil || w.Flush() == nil || w.Sync() == nil || w.Close() == nil {
		return errTookMore
	}
	return nil
}

// checkRead checks that a reader of the archive finds all promised exchanges, although nobody has repaired it.
func checkRead(fsys disk.FS, promised []promise) error {
	if err := fsys.MkdirAll("/t", 0o755); err != nil {
		return err
	}
	s, err := WriteSupplement(fsys, "/c", func() (string, error) { return "/t", nil },
		func(done, total int64) error { return nil })
	if err != nil && (len(promised) > 0 || !errors.Is(err, fs.ErrNotExist)) {
		return err
	}
	if err := s.Flaws.err(); err != nil {
		return err
	}
	for _, p := range promised {
		found, err := Lookup(fsys, Place{Dir: "/c", Extra: s.Path}, p.url)
		if err != nil || len(found) != 1 || found[0].File != p.at.File || found[0].Offset != p.at.Offset {
			return fmt.Errorf("%s: found %+v, %v, want it once in %+v", p.url, found, err, p.at)
		}
	}
	return fsys.RemoveAll("/t")
}

// checkReopened checks that a reader finds all promised exchanges, and opens the archive again. It checks that every
// file is complete, that all promised exchanges are there, and that the index matches the records.
func checkReopened(fsys disk.FS, promised []promise) error {
	if err := checkRead(fsys, promised); err != nil {
		return fmt.Errorf("read: %w", err)
	}
	cfg := testConfig("/c")
	cfg.FS = fsys
	w, rec, err := Open(cfg)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	valid := rec.Valid()
	for _, p := range promised {
		if n, recovered := valid[p.at.File]; recovered && n < p.at.End {
			return fmt.Errorf("%s: %s has %d bytes after recovery, want at least %d", p.url, p.at.File, n, p.at.End)
		}
		f, err := OpenWARC(fsys, "/c", p.at.File)
		if err != nil {
			return fmt.Errorf("%s: %w", p.url, err)
		}
		b, err := io.ReadAll(f)
		if err != nil {
			return fmt.Errorf("%s: %w", p.url, err)
		}
		r, err := At(bytes.NewReader(b), p.at.Offset)
		if err != nil || r.URL() != p.url {
			return fmt.Errorf("%s: not at %d of %s: %w", p.url, p.at.Offset, p.at.File, err)
		}
	}
	files, err := Files(fsys, "/c")
	if err != nil {
		return err
	}
	var want []byte
	for _, e := range files {
		if e.Open {
			return fmt.Errorf("%s was not finished", e.Path)
		}
		b, err := disk.ReadFile(fsys, e.Path, 1<<20)
		if err != nil {
			return err
		}
		rep, err := new(Verifier).Verify(bytes.NewReader(b))
		if err != nil || rep.Errors+rep.Warnings > 0 {
			return fmt.Errorf("%s: %v %w", e.Path, rep.Problems, err)
		}
		err = Index(bytes.NewReader(b), e.Name, func(l []byte) error { want = append(want, l...); return nil })
		if err != nil {
			return err
		}
	}
	if err := BuildIndex(fsys, "/c"); err != nil {
		return err
	}
	got, err := disk.ReadFile(fsys, "/c/indexes/index.cdxj", 1<<20)
	if err != nil {
		return err
	}
	if w := bytes.Join(sortLines(want), nil); !bytes.Equal(got, w) {
		return fmt.Errorf("the index has %d bytes, a scan of the files gives %d", len(got), len(w))
	}
	return nil
}

// TestEveryWriteFails lets the disk fail at its first, second, … change, once or for good. Then it opens the archive:
// after a kill, where everything written is left, and after power failures, where only synced data is certain.
func TestEveryWriteFails(t *testing.T) {
	for name, segments := range map[string]Segments{
		"folder": {}, "segments": {Crawl: "c", Bytes: 9000}, "long segments": {Crawl: "c"},
	} {
		t.Run(name, func(t *testing.T) { everyWriteFails(t, segments) })
	}
}

func everyWriteFails(t *testing.T, segments Segments) {
	counted := testdisk.NewFaulty(testdisk.NewMem(), nil)
	if _, _, err := crawlOn(counted, 0, segments); err != nil {
		t.Fatal(err)
	}
	_, changes := counted.Calls()
	if changes < 50 {
		t.Fatalf("the crawl makes only %d changes to the disk", changes)
	}
	hooks := map[string]func(int64, error) func(testdisk.Call) testdisk.Fault{
		"from": testdisk.FailFrom, "at": testdisk.FailAt,
	}
	for name, hook := range hooks {
		for n := int64(1); n <= changes; n += int64(testtier.Rounds(5, 1)) {
			mem := testdisk.NewMem()
			flushed, synced, err := crawlOn(testdisk.NewFaulty(mem, hook(n, syscall.ENOSPC)), 0, segments)
			if err == nil || !disk.IsFull(err) || errors.Is(err, errTookMore) {
				t.Errorf("%s change %d: crawl ended with %v", name, n, err)
			}
			if err := checkReopened(mem.Clone(), flushed); err != nil {
				t.Errorf("%s change %d, killed: %v", name, n, err)
			}
			for seed := range uint64(3) {
				if err := checkReopened(mem.Crash(seed), synced); err != nil {
					t.Errorf("%s change %d, power lost (seed %d): %v", name, n, seed, err)
				}
			}
			// The disk has room again, and the crawl continues in the same directory.
			if _, _, err := crawlOn(mem, 100, segments); err != nil {
				t.Errorf("%s change %d, resumed: %v", name, n, err)
			}
			if err := checkReopened(mem, flushed); err != nil {
				t.Errorf("%s change %d, after resuming: %v", name, n, err)
			}
		}
	}
}

// TestRecoveryFails lets the disk fail while Open repairs the archive.
func TestRecoveryFails(t *testing.T) {
	mem := testdisk.NewMem()
	flushed, _, err := crawlOn(testdisk.NewFaulty(mem, testdisk.FailFrom(40, syscall.EIO)), 0, Segments{})
	if err == nil || len(flushed) == 0 {
		t.Fatalf("crawl: error %v, %d exchanges flushed; want an error and some", err, len(flushed))
	}
	for n := int64(1); ; n++ {
		again := mem.Clone()
		faulty := testdisk.NewFaulty(again, testdisk.FailFrom(n, syscall.EIO))
		cfg := testConfig("/c")
		cfg.FS = faulty
		w, _, err := Open(cfg)
		if err == nil {
			w.Close()
			if n < 5 {
				t.Fatalf("the recovery makes only %d changes to the disk", n)
			}
			return
		}
		if !errors.Is(err, syscall.EIO) {
			t.Errorf("change %d: %v", n, err)
		}
		if err := checkReopened(again, flushed); err != nil {
			t.Errorf("change %d: %v", n, err)
		}
	}
}

// TestFullDisk writes to disks of many sizes until they are full.
func TestFullDisk(t *testing.T) {
	for room := int64(0); room < 24000; room += 211 {
		mem := testdisk.NewMem()
		flushed, _, err := crawlOn(testdisk.NewFaulty(mem, testdisk.FullAfter(room)), 0, Segments{})
		if err == nil {
			continue
		}
		if !disk.IsFull(err) || errors.Is(err, errTookMore) {
			t.Errorf("room %d: %v", room, err)
		}
		if err := checkReopened(mem, flushed); err != nil {
			t.Errorf("room %d: %v", room, err)
		}
	}
}

// TestCutAnywhere truncates a file at every byte, and appends garbage at some of them.
func TestCutAnywhere(t *testing.T) {
	mem := testdisk.NewMem()
	cfg := testConfig("/c")
	cfg.FS = mem
	ws := writeAll(t, cfg, everyKind()[:5])
	whole, err := disk.ReadFile(mem, "/c/archive/"+ws[0].File, 1<<20)
	must.Do(t, err)
	var ends []int64 // of records
	err = List(bytes.NewReader(whole), func(r Row) error { ends = append(ends, r.Offset+r.Length); return nil })
	must.Do(t, err)
	for cut := 0; cut < len(whole); cut += testtier.Rounds(5, 1) {
		for _, tail := range []string{"", "\x00\x00\x00\x00", "WARC/1.1\r\n", string(whole[:40])} {
			mem := testdisk.NewMem()
			must.Do(t, mem.MkdirAll("/c/archive", 0o755))
			torn := append(bytes.Clone(whole[:cut]), tail...)
			good := cut // the tail may begin with the bytes that were cut off
			for good < min(len(torn), len(whole)) && torn[good] == whole[good] {
				good++
			}
			want := int64(0)
			if int64(good) >= ends[1] { // Open removes a file that holds only a warcinfo record
				for _, e := range ends {
					if e <= int64(good) {
						want = e
					}
				}
			}
			must.Do(t, disk.WriteFile(mem, "/c/archive/"+ws[0].File+openSuffix, torn))
			cfg.FS = mem
			w, rec, err := Open(cfg)
			if err != nil {
				t.Fatalf("cut at %d: %v", cut, err)
			}
			w.Close()
			if len(rec.Files) != 1 || rec.Files[0].Bytes != want || rec.Files[0].Cut != int64(len(torn))-want {
				t.Fatalf("cut at %d: recovered %+v, want %d bytes", cut, rec.Files, want)
			}
			left, err := disk.ReadFile(mem, "/c/archive/"+ws[0].File, 1<<20)
			if want == 0 {
				if !errors.Is(err, os.ErrNotExist) {
					t.Fatalf("cut at %d: %v", cut, err)
				}
			} else if err != nil || !bytes.Equal(left, whole[:want]) {
				t.Fatalf("cut at %d: %d bytes left, want %d (%v)", cut, len(left), want, err)
			}
			if cut%50 != 0 {
				break // most places are tested with one tail only
			}
		}
	}
}

// TestVerifyFindsDamage flips bits and truncates: no damaged copy passes.
func TestVerifyFindsDamage(t *testing.T) {
	dir := t.TempDir()
	writeAll(t, testConfig(dir), everyKind()[:9])
	file := warcFiles(t, dir)[0]
	whole, err := os.ReadFile(file)
	must.Do(t, err)
	ends := map[int]bool{0: true}
	err = List(bytes.NewReader(whole), func(r Row) error { ends[int(r.Offset+r.Length)] = true; return nil })
	must.Do(t, err)
	var plain []byte
	{
		r := NewReader(bytes.NewReader(whole))
		for {
			rec, err := r.Next()
			if err == io.EOF {
				break
			}
			must.Do(t, err)
			plain = append(plain, rec.Version+"\r\n"...)
			for _, f := range rec.Header {
				plain = append(plain, f.Name+": "+f.Value+"\r\n"...)
			}
			b, err := io.ReadAll(rec)
			must.Do(t, err)
			plain = append(append(append(plain, "\r\n"...), b...), recordEnd...)
		}
	}
	if rep, err := new(Verifier).Verify(bytes.NewReader(plain)); err != nil || !rep.OK() {
		t.Fatal(rep, err)
	}
	for i := range whole {
		if i%7 > 0 && !ends[i] {
			continue
		}
		if rep, err := new(Verifier).Verify(bytes.NewReader(whole[:i])); err != nil || rep.OK() != ends[i] {
			t.Errorf("cut at %d: got OK %v (%v), want %v", i, rep.OK(), err, ends[i])
		}
	}
	// Some bits of a gzip file carry no information: a member's flags, time and OS, and the padding of its blocks'
	// headers. A flip of such a bit may pass, because the file still has the same content.
	harmless := func(bad []byte) bool {
		r, err := gzip.NewReader(bytes.NewReader(bad))
		if err != nil {
			return false
		}
		b, err := io.ReadAll(r)
		return err == nil && bytes.Equal(b, plain)
	}
	for i := 0; i < len(whole); i += 7 {
		bad := bytes.Clone(whole)
		bad[i] ^= 1 << (i % 8)
		rep, err := new(Verifier).Verify(bytes.NewReader(bad))
		must.Do(t, err)
		if rep.OK() && !harmless(bad) {
			t.Errorf("a flip of bit %d of byte %d was not found", i%8, i)
		}
	}
	// In a plain file a digest covers every content byte.
	at := bytes.Index(plain, []byte("quick brown"))
	bad := bytes.Clone(plain)
	bad[at] = 'Q'
	if rep, err := new(Verifier).Verify(bytes.NewReader(bad)); err != nil || rep.Errors != 2 {
		t.Errorf("changed content: %d errors (%v), want 2: block and payload digest", rep.Errors, err)
	}
	// Verify checks the records behind the damage too.
	bad = bytes.Clone(whole)
	bad[500] ^= 0xff
	rep, err := new(Verifier).Verify(bytes.NewReader(bad))
	if err != nil || rep.OK() || rep.Records < int64(len(ends))-4 {
		t.Errorf("after damage %d of %d records were read (%v)", rep.Records, len(ends)-1, err)
	}
}
