package warc

import (
	"bytes"
	"compress/gzip"
	"crypto/sha1"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/andybalholm/brotli"
	"go.uber.org/goleak"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testclock"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/web/message"
)

var (
	testTime = time.Date(2024, 5, 6, 7, 8, 9, 123e6, time.UTC)
	testAddr = netip.MustParseAddr("192.0.2.7")
	testInfo = []Field{{"software", "orbweaver/test"}, {"robots", "obey"}, {"operator", "test@example.org"}}
)

func testConfig(dir string) Config {
	return Config{Dir: dir, Prefix: "test", Agent: "a1", Info: testInfo, Clock: testclock.At(testTime)}
}

// page returns an exchange whose response has this header and body.
func page(url, head, body string) *Exchange {
	head = strings.ReplaceAll(head, "\n", "\r\n") + "\r\n\r\n"
	over := Transport{HTTP: "http/1.1"}
	if strings.HasPrefix(url, "https:") {
		over.TLS, over.Cipher = tls.VersionTLS13, tls.TLS_AES_128_GCM_SHA256
	}
	return &Exchange{
		URL: url, Addr: testAddr, Began: testTime, Over: over,
		Request:  []byte("GET / HTTP/1.1\r\nHost: example.com\r\n\r\n"),
		Response: Bytes(head + body), HTTP: true, HeadLen: len(head), PayloadType: message.Identify([]byte(body), ""),
		Metadata: []Field{{"via", "http://example.com/"}, {"hopsFromSeed", "L"}},
	}
}

func gzipped(s string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write([]byte(s))
	z.Close()
	return b.String()
}

func brotlied(s string) string {
	var b bytes.Buffer
	z := brotli.NewWriter(&b)
	z.Write([]byte(s))
	z.Close()
	return b.String()
}

// chunked encodes s in chunks of n bytes, at most 255.
func chunked(s string, n int) string {
	const hex = "0123456789abcdef"
	var b strings.Builder
	for len(s) > 0 {
		k := min(n, len(s), 255)
		b.WriteString(string([]byte{hex[k>>4], hex[k&15]}) + "\r\n" + s[:k] + "\r\n")
		s = s[k:]
	}
	b.WriteString("0\r\n\r\n")
	return b.String()
}

var lorem = "<html><head><title>A page</title></head><body>" +
	strings.Repeat("<p>The quick brown fox jumps over the lazy dog.</p>\n", 40) + "</body></html>"

// everyKind returns an exchange of every kind that a crawl meets.
func everyKind() []*Exchange {
	plain := page("http://example.com/", "HTTP/1.1 200 OK\nContent-Type: text/html; charset=utf-8", lorem)
	plain.Metadata = append(plain.Metadata, Field{FieldCharset, "windows-1251"}, Field{FieldLanguages, "rus,eng"})
	late := *plain
	late.Began = testTime.Add(3 * time.Second)
	copyOf := page("http://example.com/copy", "HTTP/1.1 200 OK\nContent-Type: text/html; charset=utf-8\nX-Other: 1",
		lorem)
	cut := page("http://example.com/cut", "HTTP/1.1 200 OK\nContent-Type: text/html\nContent-Length: 100000", lorem)
	cut.Truncated = "length"
	garbage := &Exchange{URL: "http://example.com/garbage", Addr: testAddr, Began: testTime, Request: plain.Request,
		Response: Bytes("SSH-2.0-OpenSSH_9.9\r\n\x00\xff\n\nx")}
	nothing := &Exchange{URL: "http://example.com/nothing", Began: testTime, Request: plain.Request,
		Metadata: []Field{{"note", "nothing\r\ncame"}}}
	same := page("http://example.com/", "HTTP/1.1 304 Not Modified\nETag: \"x\"", "")
	same.NotModified = &Original{URL: plain.URL, Date: plain.Began}
	odd := page("http://example.com/odd", "HTTP/1.1 200 OK\nContent-Type: text/html\n \t\nX: y", "body")
	lf := &Exchange{URL: "http://example.com/lf", Began: testTime,
		Response: Bytes("HTTP/1.0 200 OK\nContent-Type: text/plain\n\nline\n"), HTTP: true, HeadLen: 43}
	lf.HeadLen = strings.Index(string(lf.Response.(Bytes)), "\n\n") + 2
	return []*Exchange{
		plain, &late, copyOf, cut, garbage, nothing, same, odd, lf,
		page("http://example.com/chunked", "HTTP/1.1 200 OK\nContent-Type: text/html\nTransfer-Encoding: chunked",
			chunked(lorem+"1", 100)),
		page("http://example.com/chunked-gzip",
			"HTTP/1.1 200 OK\nContent-Type: text/html\nContent-Encoding: gzip\nTransfer-Encoding: chunked",
			chunked(gzipped(lorem+"2"), 50)),
		page("http://example.com/chunked-trailer",
			"HTTP/1.1 200 OK\nContent-Type: text/html\nTransfer-Encoding: chunked",
			strings.TrimSuffix(chunked(lorem+"3", 77), "\r\n")+"X-Trailer: 1\r\n\r\n"),
		page("http://example.com/chunked-broken",
			"HTTP/1.1 200 OK\nContent-Type: text/html\nTransfer-Encoding: chunked", "zz\r\nnot chunked at all"),
		page("http://example.com/gzip?b=2&a=1", "HTTP/1.1 200 OK\nContent-Type: text/html\nContent-Encoding: gzip",
			gzipped(lorem+"4")),
		page("https://example.com/br", "HTTP/1.1 200 OK\nContent-Type: text/html\nContent-Encoding: br",
			brotlied(lorem+"5")),
		page("https://example.com:8443/a.png", "HTTP/1.1 200 OK\nContent-Type: image/png",
			"\x89PNG\r\n\x1a\n"+strings.Repeat("\x01\x02", 70000)),
		page("http://www.example.com/empty", "HTTP/1.1 204 No Content", ""),
		page("http://example.com/moved", "HTTP/1.1 301 Moved Permanently\nLocation: /new", ""),
		page("https://example.com/moved", "HTTP/1.1 302 Found\nLocation: http://b.example/\u00fc?\"\x01\xff\\ x#y", ""),
		page("http://example.com/moved-far", "HTTP/1.1 308 Far\nLocation: /"+strings.Repeat("x", 10_000), ""),
		page("http://example.com/moved-mail", "HTTP/1.1 303 See\nLocation: mailto:a@example.org", ""),
		page("http://example.com/error", "HTTP/1.1 500 Oops\nContent-Type: text/html", "sorry"),
		page("http://example.com/notype", "HTTP/1.1 200 OK\nX-A: \xe9\"\\", "no type"),
		page("http://example.com/oddtype", "HTTP/1.1 200 OK\nContent-Type: t\xc3\xa9xt/\"x\\ ;y", "odd type"),
		page("http://example.com/blankline", "HTTP/1.1 200 OK\n\x1c\nContent-Type: image/png", "blank to Python"),
		page("http://example.com/nbsp", "HTTP/1.1 200 OK\n\u00a0\nContent-Type: image/png", "blank as well"),
		page("http://example.com/nostatus", "HTTP/1.1", "no status"),
		page("http://[2001:db8::1]/", "HTTP/1.1 200 OK\nContent-Type: text/plain", "six"),
	}
}

// writeAll archives the exchanges and returns where each was put.
func writeAll(t testing.TB, cfg Config, xs []*Exchange) []Written {
	t.Helper()
	w, _, err := Open(cfg)
	must.Do(t, err)
	var ws []Written
	for _, x := range xs {
		done, err := w.Write(x)
		must.Do(t, err)
		ws = append(ws, done)
	}
	must.Do(t, w.Close())
	return ws
}

func warcFiles(t testing.TB, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "archive", "*"))
	must.Do(t, err)
	return files
}

func TestRotation(t *testing.T) {
	dir := t.TempDir()
	cfg := testConfig(dir)
	cfg.MaxBytes, cfg.RevisitBytes = 6000, -1
	var xs []*Exchange
	for range 30 {
		xs = append(xs, page("http://example.com/", "HTTP/1.1 200 OK\nContent-Type: image/png", lorem))
	}
	ws := writeAll(t, cfg, xs)
	files := warcFiles(t, dir)
	if len(files) < 10 {
		t.Fatalf("got %d files, want at least 10", len(files))
	}
	name := regexp.MustCompile(`^test-20240506070809123-000(\d\d)-a1\.warc\.gz$`)
	for i, f := range files {
		info, err := os.Stat(f)
		must.Do(t, err)
		if info.Size() > cfg.MaxBytes {
			t.Errorf("%s has %d bytes, want at most %d", f, info.Size(), cfg.MaxBytes)
		}
		m := name.FindStringSubmatch(filepath.Base(f))
		if m == nil || m[1] != fmt.Sprintf("%02d", i) {
			t.Errorf("file %d has the name %s", i, f)
		}
		types := recordTypesOf(t, f)
		if types[0] != "warcinfo" || (len(types)-1)%3 != 0 {
			t.Errorf("%s: got records %v, want a warcinfo and then three for each exchange", f, types)
		}
		for k := 1; k < len(types); k += 3 {
			if got := strings.Join(types[k:k+3], " "); got != "response request metadata" {
				t.Errorf("%s: an exchange has the records %s", f, got)
			}
		}
	}
	for _, w := range ws {
		checkWritten(t, dir, w, "http://example.com/")
	}
}

func recordTypesOf(t testing.TB, file string) (types []string) {
	t.Helper()
	f, err := os.Open(file)
	must.Do(t, err)
	defer f.Close()
	if err := List(f, func(r Row) error { types = append(types, r.Type); return nil }); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return types
}

// checkWritten reads the record at the place that w names and checks its URL and length. It adds the content to the
// header, for the function content.
func checkWritten(t testing.TB, dir string, w Written, url string) *Record {
	t.Helper()
	f, err := OpenWARC(nil, dir, w.File)
	must.Do(t, err)
	t.Cleanup(func() { f.Close() })
	rec, err := At(f, w.Offset)
	must.Do(t, err)
	if rec.URL() != url {
		t.Errorf("record of %s, want %s", rec.URL(), url)
	}
	content, err := io.ReadAll(rec)
	must.Do(t, err)
	must.Do(t, rec.r.Finish())
	if rec.Length != w.Length {
		t.Errorf("length %d, want %d", rec.Length, w.Length)
	}
	rec.Header = append(rec.Header, Field{"test-content", string(content)})
	return rec
}

func content(rec *Record) string { return rec.Header.Value("test-content") }

func TestRecords(t *testing.T) {
	dir := t.TempDir()
	xs := everyKind()
	ws := writeAll(t, testConfig(dir), xs)
	kinds := map[int]string{1: "revisit", 2: "revisit", 4: "resource", 6: "revisit"}
	for i, x := range xs {
		if x.Response == nil {
			continue
		}
		rec := checkWritten(t, dir, ws[i], x.URL)
		kind := kinds[i]
		if kind == "" {
			kind = "response"
		}
		if rec.Type() != kind {
			t.Errorf("%s: %s record, want %s", x.URL, rec.Type(), kind)
		}
		want := string(x.Response.(Bytes))
		if kind == "revisit" {
			want = want[:x.HeadLen]
		}
		if content(rec) != want {
			t.Errorf("%s: the content differs from what the server sent", x.URL)
		}
		if got, want := rec.Date(), x.Began.Format("2006-01-02T15:04:05.000Z"); got != want {
			t.Errorf("%s: date %s, want %s", x.URL, got, want)
		}
		if got := rec.Header.Value("WARC-Truncated"); got != x.Truncated {
			t.Errorf("%s: WARC-Truncated %q, want %q", x.URL, got, x.Truncated)
		}
		digest := sha1.Sum(x.Response.(Bytes)[x.HeadLen:])
		if ws[i].PayloadDigest != digest {
			t.Errorf("%s: payload digest %x, want %x", x.URL, ws[i].PayloadDigest, digest)
		}
		if got := rec.Header.Value("WARC-Payload-Digest"); got != "" && got != ws[i].Digest() {
			t.Errorf("%s: WARC-Payload-Digest %s, want %s", x.URL, got, ws[i].Digest())
		}
	}
	first := checkWritten(t, dir, ws[0], xs[0].URL)
	for _, i := range []int{1, 2} {
		rec := checkWritten(t, dir, ws[i], xs[i].URL)
		got := []string{rec.Header.Value("WARC-Profile"), rec.Header.Value("WARC-Refers-To"),
			rec.Header.Value("WARC-Refers-To-Target-URI"), rec.Header.Value("WARC-Refers-To-Date")}
		want := []string{ProfileIdentical, first.Header.Value("WARC-Record-ID"), xs[0].URL, "2024-05-06T07:08:09.123Z"}
		if !slices.Equal(got, want) || !ws[i].Revisit {
			t.Errorf("revisit %d: %q, want %q", i, got, want)
		}
	}
	// Original is the record that holds the payload, for the original itself and for its revisits.
	for _, i := range []int{0, 1, 2} {
		o := ws[i].Original
		if got := string(appendID(nil, o.ID)); got != first.Header.Value("WARC-Record-ID") || o.URL != xs[0].URL ||
			!o.Date.Equal(xs[0].Began) {
			t.Errorf("original of %d: %s %+v", i, got, o)
		}
	}
	if o := ws[6].Original; o != *xs[6].NotModified {
		t.Errorf("original of the 304: got %+v, want %+v", o, *xs[6].NotModified)
	}
	if o := ws[4].Original; o != (Original{}) {
		t.Errorf("original of a response that is not HTTP: got %+v, want none", o)
	}
	if rec := checkWritten(t, dir, ws[6], xs[6].URL); rec.Header.Value("WARC-Profile") != ProfileNotModified {
		t.Errorf("304: got profile %s, want %s", rec.Header.Value("WARC-Profile"), ProfileNotModified)
	}
}

// A spilled is a Body that is not in memory.
type spilled struct{ io.ReaderAt }

func (s spilled) Size() int64         { return s.ReaderAt.(Bytes).Size() }
func (spilled) Bytes() ([]byte, bool) { return nil, false }

func TestSpilledAndLarge(t *testing.T) {
	large := strings.Repeat(lorem, 3000) // 6 MB
	for _, mime := range []string{"text/html", "image/png"} {
		for _, inMemory := range []bool{true, false} {
			for _, level := range []int{-1, 0, 9} {
				dir := t.TempDir()
				cfg := testConfig(dir)
				cfg.Level = level
				if level == 0 { // compress the large responses directly into the file
					cfg.largeBytes = 4 << 20
				}
				x := page("http://example.com/large", "HTTP/1.1 200 OK\nContent-Type: "+mime, large)
				small := page("http://example.com/small", "HTTP/1.1 200 OK\nContent-Type: "+mime, "small")
				again := page("http://example.com/again", "HTTP/1.1 200 OK\nContent-Type: "+mime, large)
				xs := []*Exchange{x, small, again}
				if !inMemory {
					for _, x := range xs {
						x.Response = spilled{x.Response.(Bytes)}
					}
				}
				ws := writeAll(t, cfg, xs)
				if got := content(checkWritten(t, dir, ws[0], x.URL)); !strings.HasSuffix(got, large) {
					t.Errorf("%s: large body differs", mime)
				}
				if got := content(checkWritten(t, dir, ws[1], small.URL)); !strings.HasSuffix(got, "small") {
					t.Errorf("%s: small body differs", mime)
				}
				if !ws[2].Revisit || ws[1].Revisit {
					t.Errorf("revisits: got %v, %v, want true, false", ws[2].Revisit, ws[1].Revisit)
				}
				if packed := ws[0].Length < int64(len(large))/2; packed != (mime == "text/html" && level >= 0) {
					t.Errorf("%s, level %d: %d bytes became a record of %d", mime, level, len(large), ws[0].Length)
				}
				for _, f := range warcFiles(t, dir) {
					verifyClean(t, f)
				}
			}
		}
	}
}

func verifyClean(t testing.TB, file string) *Report {
	t.Helper()
	f, err := os.Open(file)
	must.Do(t, err)
	defer f.Close()
	rep, err := new(Verifier).Verify(f)
	must.Do(t, err)
	if rep.Errors+rep.Warnings > 0 {
		t.Errorf("%s: %v", file, rep.Problems)
	}
	return rep
}

func TestRemember(t *testing.T) {
	dir := t.TempDir()
	w, _, err := Open(testConfig(dir))
	must.Do(t, err)
	x := page("http://example.com/new", "HTTP/1.1 200 OK", lorem)
	w.RememberRecord(sha1.Sum([]byte(lorem)),
		Original{URL: "http://example.com/old", Date: testTime.Add(-time.Hour)})
	done, err := w.Write(x)
	must.Do(t, err)
	must.Do(t, w.Close())
	rec := checkWritten(t, dir, done, x.URL)
	got := []string{rec.Header.Value("WARC-Refers-To"), rec.Header.Value("WARC-Refers-To-Target-URI"),
		rec.Header.Value("WARC-Refers-To-Date")}
	if want := []string{"", "http://example.com/old", "2024-05-06T06:08:09.123Z"}; !slices.Equal(got, want) {
		t.Errorf("refers to %q, want %q", got, want)
	}
	if _, err := w.Write(x); !errors.Is(err, ErrClosed) {
		t.Errorf("write after close: got %v, want ErrClosed", err)
	}
	if err := w.Close(); err != nil {
		t.Errorf("second close: got %v, want nil", err)
	}
}

func TestHostileFields(t *testing.T) {
	dir := t.TempDir()
	cfg := testConfig(dir)
	cfg.Prefix, cfg.Agent = "../a b", "x/y\n"
	x := page("http://example.com/\r\nWARC-Type: request\r\n\r\n", "HTTP/1.1 200 OK", "x")
	x.Metadata = []Field{{"a: b\r\nc", "v\r\n\r\nWARC/1.1"}, {"", "dropped"}, {"utf8", "é"}}
	x.Truncated = "because\r\nX: y"
	ws := writeAll(t, cfg, []*Exchange{x})
	if want := "_._a_b-20240506070809123-00000-x_y_.warc.gz"; ws[0].File != want {
		t.Errorf("file %q, want %q", ws[0].File, want)
	}
	file := warcFiles(t, dir)[0]
	verifyClean(t, file)
	if got, want := strings.Join(recordTypesOf(t, file), " "), "warcinfo response request metadata"; got != want {
		t.Errorf("records %s, want %s", got, want)
	}
	rec := checkWritten(t, dir, ws[0], "http://example.com/%0D%0AWARC-Type:%20request%0D%0A%0D%0A")
	if got := rec.Header.Value("WARC-Truncated"); got != "unspecified" {
		t.Errorf("WARC-Truncated: got %q, want unspecified", got)
	}
}

// TestConcurrentWrites writes from several goroutines, which also call Sync.
func TestConcurrentWrites(t *testing.T) {
	defer goleak.VerifyNone(t)
	dir := t.TempDir()
	cfg := testConfig(dir)
	cfg.MaxBytes = 40000
	w, _, err := Open(cfg)
	must.Do(t, err)
	var wg sync.WaitGroup
	results := make([][]Written, 4)
	for i := range results {
		wg.Go(func() {
			for k := range 60 {
				x := page(fmt.Sprintf("http://h%d.example.com/%d", i, k), "HTTP/1.1 200 OK\nContent-Type: text/html",
					fmt.Sprint(lorem, i, k))
				done, err := w.Write(x)
				if err != nil {
					t.Error(err)
					return
				}
				results[i] = append(results[i], done)
				if k%10 == 9 {
					if err := w.Sync(); err != nil {
						t.Error(err)
					}
					if file, n := w.Position(); file == done.File && n < done.End {
						t.Errorf("%s: %d bytes flushed, want %d", file, n, done.End)
					}
				}
			}
		})
	}
	wg.Wait()
	must.Do(t, w.Close())
	for i, ws := range results {
		for k, done := range ws {
			checkWritten(t, dir, done, fmt.Sprintf("http://h%d.example.com/%d", i, k))
		}
	}
	must.Do(t, BuildIndex(nil, dir))
	for i := range results {
		url := fmt.Sprintf("http://h%d.example.com/%d", i, 7)
		found, err := Lookup(nil, Place{Dir: dir}, url)
		if err != nil || len(found) != 1 || found[0].URL != url {
			t.Errorf("look-up of %s: %v %v", url, found, err)
		}
	}
}

// A slowSync is a disk whose fsync of a file blocks until the test releases it.
type slowSync struct {
	disk.FS
	entered chan struct{}
	release chan struct{}
}

type slowFile struct {
	disk.File
	fs *slowSync
}

func (s *slowSync) OpenFile(name string, flag int, perm os.FileMode) (disk.File, error) {
	f, err := s.FS.OpenFile(name, flag, perm)
	return &slowFile{f, s}, err
}

func (f *slowFile) Sync() error {
	f.fs.entered <- struct{}{}
	<-f.fs.release
	return f.File.Sync()
}

// TestWritesGoOnWhileAFileIsFinished: only the goroutine that fills a file waits for the disk.
func TestWritesGoOnWhileAFileIsFinished(t *testing.T) {
	defer goleak.VerifyNone(t)
	slow := &slowSync{testdisk.NewMem(), make(chan struct{}), make(chan struct{})}
	cfg := testConfig("/c")
	cfg.FS, cfg.MaxBytes, cfg.Level = slow, 7000, -1
	w, _, err := Open(cfg)
	must.Do(t, err)
	write := func(i int) Written {
		done, err := w.Write(page(fmt.Sprintf("http://example.com/%d", i), "HTTP/1.1 200 OK\nContent-Type: image/gif",
			fmt.Sprint(i, lorem[:700])))
		if err != nil {
			t.Error(err)
		}
		return done
	}
	first := write(0)
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 1; write(i).File == first.File; i++ {
		}
	})
	<-slow.entered // the first file's index: the goroutine that filled the file waits
	second := write(100)
	must.Do(t, w.Flush())
	if file, n := w.Position(); second.File == first.File || file != second.File || n < second.End {
		t.Errorf("wrote to %s after %s; %d bytes of %s are flushed", second.File, first.File, n, file)
	}
	if _, err := slow.Stat("/c/archive/" + first.File); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s has its final name before it is on the disk: %v", first.File, err)
	}
	synced := make(chan error)
	wg.Go(func() { synced <- w.Sync() })
	select {
	case err := <-synced:
		t.Fatalf("Sync returned (%v) before the first file was on the disk", err)
	case slow.release <- struct{}{}:
	}
	go func() { // releases all later calls
		for {
			select {
			case <-slow.entered:
				slow.release <- struct{}{}
			case slow.release <- struct{}{}:
				return
			}
		}
	}()
	if err := <-synced; err != nil {
		t.Error(err)
	}
	if _, err := slow.Stat("/c/archive/" + first.File); err != nil {
		t.Error(err)
	}
	wg.Wait()
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	<-slow.release // ends the goroutine above
}

// A waiting body blocks each read until the test releases it.
type waiting struct {
	b                Bytes
	reached, release chan struct{}
}

func (w waiting) Size() int64         { return w.b.Size() }
func (waiting) Bytes() ([]byte, bool) { return nil, false }

func (w waiting) ReadAt(p []byte, off int64) (int, error) {
	w.reached <- struct{}{}
	<-w.release
	return w.b.ReadAt(p, off)
}

// TestLargeResponsesStopNobody: while a response that is not in memory is compressed, other goroutines can write.
func TestLargeResponsesStopNobody(t *testing.T) {
	w, _, err := Open(testConfig(t.TempDir()))
	must.Do(t, err)
	x := page("http://example.com/large", "HTTP/1.1 200 OK\nContent-Type: text/html", strings.Repeat(lorem, 400))
	body := waiting{x.Response.(Bytes), make(chan struct{}), make(chan struct{})}
	x.Response = body
	done := make(chan error)
	go func() {
		_, err := w.Write(x)
		done <- err
	}()
	n := 0
	for open := true; open; {
		select {
		case <-body.reached:
			n++
			must.Get(w.Write(page(fmt.Sprintf("http://example.com/%d", n), "HTTP/1.1 200 OK",
				fmt.Sprint(n))))(t)
			body.release <- struct{}{}
		case err := <-done:
			must.Do(t, err)
			open = false
		}
	}
	if n < 2*len(body.b)/chunkSize {
		t.Errorf("the body was read in %d pieces, want two passes: digests and file", n)
	}
	must.Do(t, w.Close())
}
