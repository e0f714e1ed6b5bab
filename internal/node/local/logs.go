package local

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// Logs are the logs below a crawl directory.
type Logs struct {
	FS  disk.FS
	Dir string
}

func (l *Logs) crawlLog() string { return filepath.Join(l.Dir, "logs", "crawl.log") }

func (l *Logs) skipped() string { return filepath.Join(l.Dir, "reports", "skipped.jsonl") }

// searchBack passes the last lines of a log that contain a text to fn, the last one first, until fn returns false. It
// reads a bounded part of the log.
func (l *Logs) searchBack(ctx context.Context, name, text string, fn func(line string) bool) {
	f, err := l.FS.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return
	}
	_ = backwards(f, info.Size(), logSearch, func(line string) bool {
		return ctx.Err() == nil && (!strings.Contains(line, text) || fn(line))
	})
}

// finishText describes a line of crawl.log.
func finishText(l *report.Line) string {
	what := report.CodeText(l.Code)
	if l.Code > 0 {
		what = strings.TrimSpace(fmt.Sprint("status ", l.Code, " ", http.StatusText(l.Code)))
	}
	if l.MIME != "" && l.MIME != "-" {
		what += ", " + l.MIME
	}
	if l.Size > 0 {
		what += ", " + humanize.Bytes(uint64(l.Size))
	}
	for _, note := range l.Notes {
		if name, value, ok := strings.Cut(note, ":"); ok && (name == "error" || name == "cause" || name == "rule") {
			if plain, err := url.PathUnescape(value); err == nil {
				value = plain
			}
			what += "; " + name + ": " + report.OneLine(value)
		}
	}
	return "at " + l.Time.UTC().Format("2006-01-02 15:04:05Z") + ": " + what
}

// hostOf returns the host of a URL in the log, which may be a DNS look-up of Heritrix.
func hostOf(u string) string {
	if host, ok := strings.CutPrefix(u, "dns:"); ok {
		return host
	}
	if u, err := url.Parse(u); err == nil {
		return u.Hostname()
	}
	return ""
}

// backwards passes the complete lines of the first size bytes of r to fn, the last one first, until fn returns false.
// It reads at most about most bytes.
func backwards(r io.ReaderAt, size, most int64, fn func(line string) bool) error {
	var rest []byte // the beginning of the line that the piece before has cut
	first := true   // what follows the last newline is an incomplete line
	for end, piece := size, int64(64<<10); end > 0 && size-end < most; end -= min(piece, end) {
		b := make([]byte, min(piece, end))
		if _, err := r.ReadAt(b, end-int64(len(b))); err != nil && err != io.EOF {
			return fmt.Errorf("log: %w", err)
		}
		b = append(b, rest...)
		for {
			i := bytes.LastIndexByte(b, '\n')
			if i < 0 {
				break
			}
			if line := b[i+1:]; !first && len(line) > 0 && !fn(string(line)) {
				return nil
			}
			b, first = b[:i], false
		}
		rest = b
		if end <= piece && !first && len(rest) > 0 {
			fn(string(rest))
		}
	}
	return nil
}
