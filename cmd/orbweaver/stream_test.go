package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testweb"
	"github.com/orbweaver/orbweaver/internal/testweb/demo"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A streaming is a stream into a pipe, and the pages that were given to it.
type streaming struct {
	pages   visit.Pages
	end     func() error
	reader  *io.PipeReader
	results chan error
}

func newStreaming() *streaming {
	r, w := io.Pipe()
	var cfg node.Config
	end := (&CrawlCmd{Stream: "jsonl"}).stream(&cfg, &display{out: w}, io.Discard)
	return &streaming{cfg.Pages, end, r, make(chan error, 100)}
}

// give gives n pages to the stream, each in a goroutine of its own as the workers of a crawl do.
func (s *streaming) give(ctx context.Context, n int) {
	for i := range n {
		go func() {
			u := weburl.MustParse(fmt.Sprintf("http://a.example/%d", i))
			s.results <- s.pages.Receive(ctx, &visit.Page{Link: link.Link{URL: u}, Status: 200})
		}()
	}
	synctest.Wait()
}

// While nobody reads, no page is finished. When the reader reads, each page has its line.
func TestStreamWaitsForItsReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreaming()
		s.give(t.Context(), 10)
		if len(s.results) > 0 {
			t.Fatalf("%d pages are finished before their lines are read", len(s.results))
		}
		text := make(chan string)
		go func() {
			var b strings.Builder
			for buf := make([]byte, 7); strings.Count(b.String(), "\n") < 10; { // reads stop within lines
				n, err := s.reader.Read(buf)
				b.Write(buf[:n])
				if err != nil {
					t.Error(err)
					break
				}
			}
			text <- b.String()
		}()
		lines := <-text
		synctest.Wait()
		for range 10 {
			if err := <-s.results; err != nil {
				t.Error(err)
			}
		}
		for i := range 10 {
			want := fmt.Sprintf(`{"type":"page","url":"http://a.example/%d","status":200,`, i)
			if !strings.Contains(lines, want) {
				t.Errorf("no line begins with %s:\n%s", want, lines)
			}
		}
		if err := s.end(); err != nil {
			t.Error(err)
		}
	})
}

// If the crawl ends while nobody reads, the pages are left to the next run.
func TestStreamGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreaming()
		ctx, cancel := context.WithCancel(t.Context())
		s.give(ctx, 10)
		cancel()
		synctest.Wait()
		for range 10 {
			if err := <-s.results; !errors.Is(err, context.Canceled) {
				t.Errorf("error %v", err)
			}
		}
		if err := s.end(); err != nil {
			t.Error(err)
		}
		s.reader.Close() // the process would end here
	})
}

// After a failed write each page gets its error, and so does the caller, except that of a closed pipe.
func TestStreamFails(t *testing.T) {
	for _, failure := range []error{syscall.ENOSPC, syscall.EPIPE} {
		synctest.Test(t, func(t *testing.T) {
			stopped := false
			var cfg node.Config
			d := &display{out: failing{failure}, stop: func(error) { stopped = true }}
			end := (&CrawlCmd{Stream: "jsonl"}).stream(&cfg, d, io.Discard)
			s := &streaming{pages: cfg.Pages, end: end, results: make(chan error, 100)}
			s.give(t.Context(), 3)
			for range 3 {
				if err := <-s.results; !errors.Is(err, failure) {
					t.Errorf("error %v", err)
				}
			}
			err := s.end()
			if closed := failure == syscall.EPIPE; stopped != closed || closed && err != nil ||
				!closed && (!errors.Is(err, failure) || exitCode(err, io.Discard) != exitDiskFull) {
				t.Errorf("%v: stopped %v, end %v", failure, stopped, err)
			}
		})
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// A recordReader reads the record of each line at once, as a program does that gets the lines.
type recordReader struct {
	t    *testing.T
	dir  string
	rest []byte
	read int
}

func (r *recordReader) Write(p []byte) (int, error) {
	r.rest = append(r.rest, p...)
	for {
		line, rest, ok := bytes.Cut(r.rest, []byte("\n"))
		if !ok {
			return len(p), nil
		}
		r.rest = rest
		var page streamedPage
		if err := json.Unmarshal(line, &page); err != nil || page.Offset == nil {
			r.t.Errorf("%s: %v", line, err)
			continue
		}
		rec, f, err := warc.OpenRecord(nil, r.dir, warc.Line{File: page.File, Offset: *page.Offset})
		if err == nil {
			_, err = io.Copy(io.Discard, rec)
			f.Close()
		}
		if err != nil || rec.URL() != page.URL {
			r.t.Errorf("the record of %s: %v", page.URL, err)
		}
		r.read++
	}
}

// When the line of a page comes, its record can be read.
func TestStreamedRecordIsThere(t *testing.T) {
	web := must.Get(testweb.New(testweb.Config{Sites: demo.Sites()}))(t)
	defer web.Start()()
	var errs bytes.Buffer
	r := &recordReader{t: t, dir: filepath.Join(t.TempDir(), "crawl")}
	if code := run([]string{"crawl", "--stream", "jsonl", "--dir", r.dir, "--contact", "x@example.org",
		"--allow-private", "--scope", "any", "--exclude", "library|tidewatch", "--delay", "0s", "--retries", "0",
		"--warc-size", "1MB", "--dns", web.DNSAddr(), "--connect-to", strings.Join(web.ConnectTo(), ","),
		demo.Seeds()[0]}, r, &errs); code != 0 || r.read < 100 {
		t.Errorf("exit code %d after %d pages: %s", code, r.read, &errs)
	}
}
