package review

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

// at is the time at which the crawls of the tests begin.
var at = time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)

// A world is a disk with crawls.
type world struct {
	t    *testing.T
	fs   *testdisk.Mem
	held map[string]bool // directories that a process has open
}

func newWorld(t *testing.T) *world { return &world{t, testdisk.NewMem(), map[string]bool{}} }

// write writes a file below the crawl directory dir.
func (w *world) write(dir, name, text string) {
	w.t.Helper()
	name = filepath.Join(dir, name)
	if err := w.fs.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		w.t.Fatal(err)
	}
	f, err := w.fs.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := f.Write([]byte(text)); err != nil {
		w.t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		w.t.Fatal(err)
	}
}

// log writes crawl.log. A line without a time is a second after the one before it.
func (w *world) log(dir string, lines ...report.Line) {
	var b []byte
	now := at
	for _, l := range lines {
		if l.Time.IsZero() {
			now = now.Add(time.Second)
			l.Time = now
		}
		b = l.AppendTo(b)
	}
	w.write(dir, "logs/crawl.log", string(b))
}

func (w *world) json(dir, name string, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		w.t.Fatal(err)
	}
	w.write(dir, name, string(b))
}

// read reviews the crawls.
func (w *world) read(cfg Config, dirs ...string) *Review {
	w.t.Helper()
	cfg.FS = w.fs
	cfg.Held = func(dir string) (bool, error) { return w.held[filepath.Dir(dir)], nil }
	r, err := Read(w.t.Context(), dirs, cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// page returns the line of a page that took ms milliseconds.
func page(url string, size, ms int64) report.Line {
	return report.Line{Code: 200, Size: size, URL: url, Hops: "L", Via: "http://a.example/", MIME: "text/html",
		Thread: 1, Began: at, Took: time.Duration(ms) * time.Millisecond, Seed: "a.example"}
}

// failed returns the line of a URL without a response.
func failed(url, kind string) report.Line {
	return report.Line{Code: report.CodeTooManyRetries, Size: -1, URL: url, Hops: "L", Via: "http://a.example/",
		Thread: 1, Notes: []string{"5t", "error:" + kind, "cause:i/o%20timeout"}}
}

// status returns the line of a response with a status and a path.
func status(code int, url, hops, via string, notes ...string) report.Line {
	return report.Line{Code: code, Size: 100, URL: url, Hops: hops, Via: via, MIME: "text/html", Thread: 1, Began: at,
		Took: time.Millisecond, Notes: notes}
}

func join(lines ...string) string {
	var b bytes.Buffer
	for _, l := range lines {
		b.WriteString(l + "\n")
	}
	return b.String()
}
