package mirror

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/output/captures"
	"github.com/orbweaver/orbweaver/internal/output/rewrite"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/parse"
)

// A Config describes a mirror.
type Config struct {
	Archive *captures.Archive
	// Dir is the directory to write. It must be missing or empty, unless Overwrite is set.
	Dir string
	// Overwrite replaces Dir if it holds a mirror.
	Overwrite bool
	// At is the time to show: of each URL the nearest capture. The zero time means the newest captures.
	At time.Time
	// MaxPage bounds the memory for rewriting: longer pages are written with their links unchanged.
	// Zero means 64 MiB.
	MaxPage int64
	// FS is the filesystem of the mirror. Nil means the machine's.
	FS disk.FS
}

// A Result says what a mirror contains.
type Result struct {
	Type  string `json:"type"` // "mirror"
	Files int64  `json:"files"`
	Pages int64  `json:"pages"` // HTML pages among the files
	Bytes int64  `json:"bytes"`
	Hosts int64  `json:"hosts"`
	// Redirects are URLs whose links lead to their targets.
	Redirects int64 `json:"redirects"`
	// LeftOut are URLs of which the archive has only errors, or revisits without their original.
	LeftOut int64 `json:"left_out"`
	// Incomplete are files of which the archive has only a part.
	Incomplete int64 `json:"incomplete"`
	// TooLong are pages over MaxPage, whose links are unchanged.
	TooLong int64 `json:"too_long"`
}

// Errors of Write that the user can avoid.
var (
	ErrNotEmpty = errors.New("the directory is not empty")
	ErrNoMirror = errors.New("the directory holds other files than a mirror")
)

// A Mirror is being written.
type Mirror struct {
	cfg    Config
	fs     disk.FS
	tree   string // the files, until they are complete
	temp   string
	table  table
	result Result
	hosts  []byte // rows of the start page
	last   string // host of the last page, as its sort keys begin
}

// Write writes a mirror. If ctx ends, or after an error, Dir is as before.
func Write(ctx context.Context, cfg Config) (res Result, err error) {
	m := &Mirror{cfg: cfg, fs: cfg.FS, result: Result{Type: "mirror"}}
	if m.fs == nil {
		m.fs = disk.OS
	}
	if m.cfg.At.IsZero() {
		m.cfg.At = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	if m.cfg.MaxPage <= 0 {
		m.cfg.MaxPage = 64 << 20
	}
	m.cfg.Dir = filepath.Clean(cfg.Dir)
	if err := m.check(); err != nil {
		return res, err
	}
	partial := m.cfg.Dir + ".partial"
	m.tree, m.temp = filepath.Join(partial, "tree"), filepath.Join(partial, "temp")
	if err := m.fs.MkdirAll(partial, 0o777); err != nil {
		return res, err
	}
	lock, err := disk.Lock(m.fs, partial)
	if err != nil {
		return res, err
	}
	defer func() {
		err = errors.Join(err, m.table.close(), lock.Close())
		if removed := m.fs.RemoveAll(partial); err == nil {
			err = removed
		}
	}()
	for _, dir := range []string{m.tree, m.temp} { // a killed run may have left them
		if err := m.fs.RemoveAll(dir); err != nil {
			return res, err
		}
		if err := m.fs.MkdirAll(dir, 0o777); err != nil {
			return res, err
		}
	}
	if err := m.plan(ctx); err != nil {
		return res, err
	}
	if err := m.choices(ctx, false, m.file); err != nil {
		return res, err
	}
	if err := m.finish(); err != nil {
		return res, err
	}
	return m.result, m.install(filepath.Join(partial, "old"))
}

// check refuses a directory that must not be replaced.
func (m *Mirror) check() error {
	entries, err := m.fs.ReadDir(m.cfg.Dir)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && len(entries) == 0:
		return nil
	case err != nil:
		return err
	case !m.cfg.Overwrite:
		return fmt.Errorf("%s: %w", m.cfg.Dir, ErrNotEmpty)
	}
	var old Result
	b, err := disk.ReadFile(m.fs, filepath.Join(m.cfg.Dir, markerFile), 1<<20)
	if err != nil || json.Unmarshal(b, &old) != nil || old.Type != "mirror" {
		return fmt.Errorf("%s: %w", m.cfg.Dir, ErrNoMirror)
	}
	return nil
}

// install gives the tree its name. What was there moves to old, which the caller deletes.
func (m *Mirror) install(old string) error {
	if err := m.check(); err != nil { // the directory may have changed since
		return err
	}
	if err := m.fs.RemoveAll(old); err != nil {
		return err
	}
	moved := true
	if err := m.fs.Rename(m.cfg.Dir, old); errors.Is(err, fs.ErrNotExist) {
		moved = false
	} else if err != nil {
		return err
	}
	err := m.fs.Rename(m.tree, m.cfg.Dir)
	if err != nil && moved {
		err = errors.Join(err, m.fs.Rename(old, m.cfg.Dir))
	}
	return err
}

// file writes the file of one URL.
func (m *Mirror) file(c choice) error {
	if !c.target.IsZero() {
		return nil
	}
	kind, name, ok, err := m.table.find(c.url)
	if err != nil {
		return err
	}
	if !ok || kind != 'f' {
		return fmt.Errorf("%s: the index has changed; stop the crawl first", c.url)
	}
	if !filepath.IsLocal(name) {
		return fmt.Errorf("%s: the name %q leads out of the directory", c.url, name)
	}
	full := filepath.Join(m.tree, filepath.FromSlash(name))
	if err := m.fs.MkdirAll(filepath.Dir(full), 0o777); err != nil {
		return err
	}
	f, err := m.fs.OpenFile(full, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	n, err := m.content(f, c, name)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	m.result.Files++
	m.result.Bytes += n
	m.note(c, name)
	return nil
}

// content writes the content of a file: with links changed if it is a page or a style sheet. A record
// that cannot be read to its end gives a shorter file.
func (m *Mirror) content(f disk.File, c choice, name string) (n int64, err error) {
	msg, err := m.cfg.Archive.Open(c.capture)
	if errors.Is(err, warc.ErrDamaged) || errors.Is(err, warc.ErrNoOriginal) {
		m.result.Incomplete++
		return 0, nil // a file without content: other pages link to it
	}
	if err != nil {
		return 0, err
	}
	defer msg.Close()
	body := &source{r: msg.Body}
	if msg.Truncated != "" {
		body.broken = true
	}
	defer func() {
		if body.broken {
			m.result.Incomplete++
		}
	}()
	switch c.mime {
	case "text/html", "application/xhtml+xml", "text/css", "image/svg+xml":
	default:
		return io.Copy(f, body)
	}
	text, err := io.ReadAll(io.LimitReader(body, m.cfg.MaxPage+1))
	if err != nil {
		return 0, err
	}
	if int64(len(text)) > m.cfg.MaxPage {
		m.result.TooLong++
		return io.Copy(f, io.MultiReader(bytes.NewReader(text), body))
	}
	var failed error
	res := rewrite.Document(parse.Input{URL: c.url, ContentType: msg.Header.Value("Content-Type"), Body: text},
		rewrite.Rules{DeclareCharset: true, Map: func(ref rewrite.Ref) string {
			to, err := m.link(name, ref)
			failed = errors.Join(failed, err)
			return to
		}})
	if failed != nil {
		return 0, failed
	}
	written, err := f.Write(res.Body)
	return int64(written), err
}

// A source reads an archived body. It ends where the body is damaged.
type source struct {
	r      io.Reader
	broken bool
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	var disk *fs.PathError
	if err != nil && err != io.EOF && !errors.As(err, &disk) {
		s.broken = true
		err = io.EOF
	}
	return n, err
}

// link returns the reference of the file name to what ref names.
func (m *Mirror) link(name string, ref rewrite.Ref) (string, error) {
	if ref.Use == rewrite.Base {
		return "", nil
	}
	to, ok, err := m.table.fileOf(ref.URL)
	if err != nil {
		return "", err
	}
	if !ok {
		return ref.URL.String() + ref.Fragment, nil
	}
	return relative(name, to) + ref.Fragment, nil
}

// maxHosts is how many hosts the start page lists.
const maxHosts = 10_000

// note adds the first page of a host to the start page.
func (m *Mirror) note(c choice, name string) {
	if !captures.IsHTML(c.mime) {
		return
	}
	m.result.Pages++
	if host, _, _ := strings.Cut(c.capture.SURT, ")"); host != m.last {
		m.last = host
		if m.result.Hosts++; m.result.Hosts > maxHosts {
			return
		}
		m.hosts = fmt.Appendf(m.hosts, "<li><a href=\"%s\">%s</a>\n", html.EscapeString(relative(startPage, name)),
			html.EscapeString(c.url.String()))
	}
}

// finish writes the start page and the marker.
func (m *Mirror) finish() error {
	page := `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Archived pages</title>
<style>body{font:16px/1.6 system-ui,sans-serif;max-width:50rem;margin:3rem auto;padding:0 1rem}</style>
</head><body><h1>Archived pages</h1>
<ul>
` + string(m.hosts) + "</ul>\n"
	if more := m.result.Hosts - maxHosts; more > 0 {
		page += fmt.Sprintf("<p>%d more hosts have directories beside this file.</p>\n", more)
	}
	if err := disk.WriteFile(m.fs, filepath.Join(m.tree, startPage), []byte(page+"</body></html>\n")); err != nil {
		return err
	}
	b, err := json.MarshalIndent(m.result, "", "  ")
	if err != nil {
		return err
	}
	return disk.WriteFile(m.fs, filepath.Join(m.tree, markerFile), append(b, '\n'))
}
