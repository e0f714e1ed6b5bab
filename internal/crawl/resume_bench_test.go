package crawl_test

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/journal"
	"github.com/orbweaver/orbweaver/internal/store/keyset"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/textweb"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

var (
	resumeURLs = flag.Float64("resume-millions", 0.02, "millions of finished and of pending URLs in BenchmarkResume")
	resumeDir  = flag.String("resume-dir", "", "directory of BenchmarkResume's crawl, which is kept for the next run")
)

// BenchmarkResume measures the restart of a crawl that was killed, with as many pending URLs as finished ones. Three
// quarters of its history are in a snapshot, the rest in segments. For the peak of the memory run it twice in the same
// -resume-dir: the first run writes the crawl.
func BenchmarkResume(b *testing.B) {
	crawl.OrdinarySizes()
	dir := *resumeDir
	if dir == "" {
		dir = b.TempDir()
	}
	crawl := resumable{n: int(*resumeURLs * 1e6), fs: disk.OS, s: &story{web: &textweb.Web{}, dir: dir}}
	crawl.s.fetch.UserAgent = "orbweaver"
	if _, err := os.Stat(filepath.Join(dir, "state")); err != nil {
		crawl.write(b)
	}
	for b.Loop() {
		var use syscall.Rusage
		must.Do(b, syscall.Getrusage(syscall.RUSAGE_SELF, &use))
		start, before := time.Now(), processor(&use)
		w, err := crawl.s.open(crawl.fs)
		must.Do(b, err)
		took := time.Since(start)
		if n := int64(crawl.n); w.rec.Finished != n || w.rec.Pending != n || w.rec.Repeated != 0 {
			b.Fatalf("recovered %+v", w.rec)
		}
		must.Do(b, syscall.Getrusage(syscall.RUSAGE_SELF, &use))
		b.ReportMetric(float64(2*crawl.n)/took.Seconds(), "urls/s")
		b.ReportMetric((processor(&use) - before).Seconds(), "cpu-s")
		b.ReportMetric(float64(use.Maxrss)/1024, "peak-MiB")
		b.StopTimer()
		must.Do(b, w.close())
		b.StartTimer()
	}
}

// processor returns the processor time.
func processor(u *syscall.Rusage) time.Duration {
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// resumable is a large crawl on disk. Each second accepted URL is finished, in the order of the numbers.
type resumable struct {
	n  int // of finished URLs
	fs disk.FS
	s  *story
}

// write writes the crawl: first a journal, then a checkpoint of it, then the rest of the journal.
func (r *resumable) write(b *testing.B) {
	dir := filepath.Join(r.s.dir, "state", "journal")
	must.Do(b, r.fs.MkdirAll(dir, 0o755))
	j, err := journal.Open(r.fs, dir, journal.Config{})
	must.Do(b, err)
	batch := []journal.Record{{Kind: state.Crawl, Payload: state.AppendCrawl(nil, keyset.Crawl{1})}}
	add := func(kind byte, p []byte) {
		if batch = append(batch, journal.Record{Kind: kind, Payload: p}); len(batch) == 1000 {
			must.Do(b, j.Append(batch))
			batch = batch[:0]
		}
	}
	visit := func(i int) {
		for n := 2 * i; n < 2*i+2; n++ {
			add(state.Accept, r.link(n).AppendTo(nil))
		}
		f := state.Finish{Link: r.link(i), Number: uint64(i + 1), Code: 200, Mime: "text/html",
			Size: 20000 + int64(i%1000), Began: time.UnixMicro(1_700_000_000_000_000 + int64(i)*1000),
			Took:  50 * time.Millisecond,
			Flags: state.FlagPage,
			File:  "archive/orbweaver-0001.warc.gz", End: int64(i) * 5000, Found: 20}
		binary.BigEndian.PutUint64(f.Digest[:], uint64(i)*0x9e3779b97f4a7c15)
		f.Link.Via = ""
		add(state.Finished, f.AppendTo(nil))
	}
	end := func() {
		// A record after the sync says that the others are durable.
		last := []journal.Record{{Kind: state.Span, Payload: []byte{0, 0, 0}}}
		must.Do(b, errors.Join(j.Append(batch), j.Sync(), j.Append(last)))
		batch = batch[:0]
	}
	first := r.n / 4 * 3
	for i := range first {
		visit(i)
	}
	end()
	must.Do(b, j.Close())
	r.save(b)
	j, err = journal.Open(r.fs, dir, journal.Config{})
	must.Do(b, err)
	for i := first; i < r.n; i++ {
		visit(i)
	}
	end()
	must.Do(b, j.Close())
	r.save(b) // writes the keys
}

// save opens the crawl and writes a checkpoint.
func (r *resumable) save(b *testing.B) {
	w := r.s.opened(b, r.fs)
	must.Do(b, w.Orders.Pause(b.Context(), true))
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	end := w.running(ctx)
	for w.View.Status() == nil {
		time.Sleep(time.Millisecond)
	}
	_, err := w.Orders.Checkpoint(ctx)
	must.Do(b, err)
	cancel()
	_, err = end()
	must.Do(b, err)
	must.Do(b, w.close())
}

// link returns the URL with number n+1.
func (r *resumable) link(n int) link.Link {
	const hosts = 50_000
	u := func(n int) string { return fmt.Sprintf("http://h%d.example/some/path/page-%d.html", n*7919%hosts, n) }
	return link.Link{URL: weburl.MustParse(u(n)), Via: u(n / 2), Hops: "LLLL", Seed: "h1.example"}
}
