package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"
	"time"

	"github.com/orbweaver/orbweaver/internal/cli"
	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/web/fetch"
	"github.com/orbweaver/orbweaver/internal/web/parse"
)

// A streamedPage is a line of --stream jsonl.
type streamedPage struct {
	Type      string       `json:"type"`
	URL       string       `json:"url"`
	Status    int          `json:"status"`
	MIME      string       `json:"mime,omitempty"`
	Title     string       `json:"title,omitempty"`
	Depth     int          `json:"depth"`
	Via       string       `json:"via,omitempty"`
	Time      report.Stamp `json:"time"`
	TookS     float64      `json:"took_s"`
	Size      int64        `json:"size"`
	Digest    string       `json:"digest,omitempty"`
	File      string       `json:"file,omitempty"`
	Offset    *int64       `json:"offset,omitempty"`
	Duplicate bool         `json:"duplicate,omitempty"`
	Truncated bool         `json:"truncated,omitempty"`
	Robots    string       `json:"robots,omitempty"`
	Again     bool         `json:"again,omitempty"`
	Links     []string     `json:"links"`
}

// newStreamedPage returns the line of a page.
func newStreamedPage(p *node.Page) *streamedPage {
	s := &streamedPage{
		Type: "page", URL: p.Link.URL.String(), Status: p.Status, MIME: p.MIME, Depth: p.Link.Depth(),
		Via: p.Link.Via, Time: report.Stamp{Time: p.Began},
		TookS: p.Took.Round(time.Millisecond).Seconds(), Size: p.Size,
		Duplicate: p.Duplicate, Truncated: p.Cut, Again: p.Again, Robots: p.Directives.String(), Links: []string{},
	}
	if w := &p.Written; w.File != "" {
		s.Digest, s.File, s.Offset = w.Digest(), w.File, &w.Offset
	}
	if in := p.Parsed; in != nil {
		s.Title = in.Title
		in.Each(func(l *parse.Link, _, _ []byte) { s.Links = append(s.Links, l.URL.String()) })
	}
	if to, ok := fetch.Redirect(&fetch.Response{Status: p.Status, Header: p.Header}); ok {
		if u, err := p.Link.URL.Resolve(to); err == nil {
			s.Links = append(s.Links, u.String())
		}
	}
	return s
}

// A stream writes a line for each page. One goroutine writes, so that a page whose line waits for a slow reader can be
// given up when the crawl ends.
type stream struct {
	out   io.Writer
	lines chan streamedLine // not buffered: each page waits until its line is written

	mu  sync.Mutex // guards err
	err error      // of the first failed write
}

type streamedLine struct {
	text    []byte
	written chan error // buffered: the writer does not wait for a page that was given up
}

// stream lets the crawl of cfg write its pages to the output of d if --stream is set. The summary of d then goes to
// errs. The caller calls end when the crawl is over. Its error says why lines could not be written. A closed pipe is no
// error: it has stopped the crawl like a signal.
func (c *CrawlCmd) stream(cfg *node.Config, d *display, errs io.Writer) (end func() error) {
	if c.Stream == "" {
		return func() error { return nil }
	}
	s := &stream{out: pipe{d.out, d, stdout}, lines: make(chan streamedLine)}
	d.plain = cli.Terminal(d.out) != nil
	d.out = errs
	go s.write()
	cfg.Pages, cfg.PagesTo = s, "the reader of --stream"
	// The writer may be within a write to a pipe that nobody reads. So end does not wait for it, and the end of the
	// process ends it.
	return func() error {
		close(s.lines)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.err == nil || errors.Is(s.err, syscall.EPIPE) {
			return nil
		}
		return fmt.Errorf("--stream: %w", s.err)
	}
}

// streamBatch bounds the bytes that are written at once.
const streamBatch = 64 << 10

// write writes lines until the crawl is over. After an error it writes nothing more.
func (s *stream) write() {
	var err error
	var text []byte
	for line := range s.lines {
		text = append(text[:0], line.text...)
		waiting := []chan error{line.written}
		for more := true; more && len(text) < streamBatch; {
			select {
			case line, more = <-s.lines:
				if more {
					text, waiting = append(text, line.text...), append(waiting, line.written)
				}
			default:
				more = false
			}
		}
		if err == nil {
			if _, err = s.out.Write(text); err != nil {
				s.mu.Lock()
				s.err = err
				s.mu.Unlock()
			}
		}
		for _, w := range waiting {
			w <- err
		}
	}
}

// Receive implements visit.Pages: it writes the line of p, whose record can be read then. It returns when the line is
// written, so a slow reader slows the crawl. If the line cannot be written, or if ctx is done before, it returns an
// error: then the page is left to the next run.
func (s *stream) Receive(ctx context.Context, p *node.Page) error {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if err := errors.Join(enc.Encode(newStreamedPage(p)), p.ShowRecord()); err != nil {
		return err
	}
	line := streamedLine{text.Bytes(), make(chan error, 1)}
	select {
	case s.lines <- line:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-line.written:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
