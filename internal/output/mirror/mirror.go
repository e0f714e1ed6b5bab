package mirror

import (
	"bytes"
	"cmp"
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

	"github.com/dustin/go-humanize/english"

	"github.com/orbweaver/orbweaver/internal/output/captures"
	"github.com/orbweaver/orbweaver/internal/output/rewrite"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/message"
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
	// MaxUnpacked bounds the bytes of a file, because a small compressed record may unpack to any size. A file may
	// also have 20 times the size of its record. Zero means 256 MiB.
	MaxUnpacked int64
	// FS is the filesystem of the mirror. Nil means the machine's.
	FS disk.FS
	// Step is called often, if it is not nil, with the number of URLs that are done. total is 0 while Write chooses the
	// captures, and the number of all URLs while it writes the files.
	Step func(done, total int64)
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
	// The URLs without a file: the archive has only errors and empty responses of them, redirects to
	// themselves or to no web page, revisits whose original is in another archive, or damaged records.
	Errors     int64 `json:"errors"`
	Nowhere    int64 `json:"redirects_nowhere"`
	NoOriginal int64 `json:"no_original"`
	Damaged    int64 `json:"damaged"`
	// Incomplete are files of which the archive has only a part.
	Incomplete int64 `json:"incomplete"`
	// Unreadable are files without content, because the record is damaged or its WARC file is missing.
	Unreadable int64 `json:"unreadable"`
	// Unsupported are files without content, because it has too many content codings.
	Unsupported int64 `json:"unsupported"`
	// Cut are files that end at MaxUnpacked.
	Cut int64 `json:"cut"`
	// TooLong are pages over MaxPage, whose links are unchanged.
	TooLong int64 `json:"too_long"`
	// Faults are the first WARC files that are damaged or missing. OtherFaults counts the records of others.
	Faults      []Fault `json:"faults,omitempty"`
	OtherFaults int64   `json:"other_faults,omitempty"`
}

// A Fault is a WARC file with records that cannot be read.
type Fault struct {
	File    string `json:"file"`
	Records int64  `json:"records"` // that the mirror needs
	Missing bool   `json:"missing,omitempty"`
	Error   string `json:"error"` // of the first of them
}

// maxFaults is how many files a Result names.
const maxFaults = 20

// Errors of Write that the user can avoid.
var (
	ErrNotEmpty = errors.New("the directory is not empty")
	ErrNoMirror = errors.New("the directory holds other files than a mirror")
	ErrNothing  = errors.New("the archive has no page and no file that a mirror could show")
)

// A Mirror is being written.
type Mirror struct {
	cfg     Config
	fs      disk.FS
	tree    string // the files, until they are complete
	temp    string
	table   table
	planned int64 // files
	urls    int64 // in the archive; 0 while they are counted
	// counting is true while captures are chosen for the first time.
	counting bool
	result   Result
	rows     []byte // of the start page
	host     listed // the last one
}

// Write writes a mirror. If ctx ends, or after an error, Dir is as before. With ErrNothing, the result
// says which URLs have no file.
func Write(ctx context.Context, cfg Config) (res Result, err error) {
	m := &Mirror{cfg: cfg, fs: cfg.FS, result: Result{Type: "mirror"}}
	m.fs = cmp.Or(m.fs, disk.OS)
	if m.cfg.At.IsZero() {
		m.cfg.At = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	if m.cfg.MaxPage <= 0 {
		m.cfg.MaxPage = 64 << 20
	}
	if m.cfg.MaxUnpacked <= 0 {
		m.cfg.MaxUnpacked = 256 << 20
	}
	m.cfg.Dir = filepath.Clean(cfg.Dir)
	if err := m.check(); err != nil {
		return res, err
	}
	if err := m.fs.MkdirAll(filepath.Dir(m.cfg.Dir), 0o777); err != nil {
		return res, err
	}
	work, err := disk.OpenWork(m.fs, m.cfg.Dir+".partial")
	if err != nil {
		return res, err
	}
	defer func() { err = errors.Join(err, m.table.close(), work.Close()) }()
	m.tree, m.temp = filepath.Join(work.Dir, "tree"), filepath.Join(work.Dir, "temp")
	for _, dir := range []string{m.tree, m.temp} {
		if err := m.fs.Mkdir(dir, 0o777); err != nil {
			return res, err
		}
	}
	if err := m.plan(ctx); err != nil {
		return res, err
	}
	if m.planned == 0 {
		return m.result, ErrNothing
	}
	if err := m.choices(ctx, false, func(c choice) error { return m.file(ctx, c) }); err != nil {
		return res, err
	}
	if err := m.finish(); err != nil {
		return res, err
	}
	return m.result, m.install(filepath.Join(work.Dir, "old"))
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
func (m *Mirror) file(ctx context.Context, c choice) error {
	if !c.target.IsZero() {
		return nil
	}
	kind, name, ok, err := m.table.find(c.url)
	if err != nil {
		return err
	}
	if !ok || kind != 'f' {
		return fmt.Errorf("%s: the crawl has archived it meanwhile; run the command again", c.url)
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
	n, err := m.content(ctx, f, c, name)
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

// fault notes that a record of a WARC file cannot be read.
func (m *Mirror) fault(file string, err error) {
	for i := range m.result.Faults {
		if m.result.Faults[i].File == file {
			m.result.Faults[i].Records++
			return
		}
	}
	if len(m.result.Faults) == maxFaults {
		m.result.OtherFaults++
		return
	}
	m.result.Faults = append(m.result.Faults, Fault{file, 1, errors.Is(err, fs.ErrNotExist), err.Error()})
}

// content writes the content of a file: with links changed if it is a page or a style sheet. A record
// that cannot be read to its end gives a shorter file.
func (m *Mirror) content(ctx context.Context, f disk.File, c choice, name string) (n int64, err error) {
	msg, err := m.cfg.Archive.Open(ctx, c.capture)
	unreadable, ok := errors.AsType[*warc.UnreadableError](err)
	switch {
	case errors.Is(err, message.ErrLayers):
		m.result.Unsupported++
		return m.blank(f, c, "It has too many content codings, one over the other.")
	case ok:
		m.result.Unreadable++
		m.fault(unreadable.Path, unreadable.Err)
		return m.blank(f, c, "Its record is damaged, or the WARC file is missing.")
	case err != nil:
		return 0, err
	}
	defer msg.Close()
	body := &source{r: msg.Body, left: max(m.cfg.MaxUnpacked, maxRatio*msg.Stored)}
	if msg.Truncated != "" {
		body.broken = true
	}
	defer func() {
		switch {
		case body.left < 0:
			m.result.Cut++
		case body.broken:
			m.result.Incomplete++
		}
		if body.damage != nil {
			m.fault(msg.File, body.damage)
		}
	}()
	if t := c.mime.Essence; t != "text/html" && t != "text/css" && !c.mime.IsXML() {
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
	res := rewrite.Document(parse.Input{URL: c.url, Header: msg.Header, Body: text},
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

// blank writes the file of a URL whose content cannot be read: other files link to it. A page says why.
func (m *Mirror) blank(f disk.File, c choice, why string) (int64, error) {
	if !c.mime.IsHTML() {
		return 0, nil
	}
	u := html.EscapeString(c.url.String())
	n, err := fmt.Fprintf(f, `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Unreadable page</title></head>
<body><h1>Unreadable page</h1><p>The archive does not give the content of this page. %s</p>
<p>On the live web: <a href="%s">%[2]s</a></p></body></html>
`, why, u)
	return int64(n), err
}

// maxRatio is how many times its stored size a file may have beyond MaxUnpacked. Text rarely shrinks more.
const maxRatio = 20

// A source reads an archived body. It ends where the body is damaged, or too long.
type source struct {
	r      io.Reader
	left   int64 // bytes that may still be read; negative after the end of a body that is too long
	broken bool
	damage error // of the WARC file, not of the body that the server sent
}

func (s *source) Read(p []byte) (int, error) {
	if s.left < 0 {
		return 0, io.EOF
	}
	n, err := s.r.Read(p)
	if s.left -= int64(n); s.left < 0 {
		return n + int(s.left), io.EOF
	}
	switch _, disk := errors.AsType[*fs.PathError](err); {
	case errors.Is(err, message.ErrTooLong):
		s.left = -1
		return n, io.EOF
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), disk:
	case err != nil && err != io.EOF:
		s.broken = true
		if errors.Is(err, warc.ErrDamaged) {
			s.damage = err
		}
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
	if !ok && ref.Text && ref.Relative {
		return "", nil
	}
	if !ok {
		return ref.URL.String() + ref.Fragment, nil
	}
	return relative(name, to) + ref.Fragment, nil
}

const (
	// maxHosts is how many hosts the start page lists.
	maxHosts = 10_000
	// maxFiles is how many files it lists of a host without a page, while it has at most maxRows bytes.
	maxFiles = 100
	maxRows  = 4 << 20
)

// note counts a file, and keeps it for the start page if it is the first page of its host, or one of
// the first files.
func (m *Mirror) note(c choice, name string) {
	if host, _, _ := strings.Cut(c.capture.SURT, ")"); host != m.host.key {
		m.list()
		m.host = listed{key: host}
		m.result.Hosts++
	}
	row := fmt.Sprintf("<li><a href=\"%s\">%s</a>\n", html.EscapeString(relative(startPage, name)),
		html.EscapeString(c.url.String()))
	if c.mime.IsHTML() {
		m.result.Pages++
		if !m.host.page {
			m.host.rows, m.host.page = []string{row}, true
		}
	} else if !m.host.page && len(m.host.rows) < maxFiles {
		m.host.rows = append(m.host.rows, row)
	}
}

// A listed is a host on the start page.
type listed struct {
	key  string // as the sort keys of its URLs begin
	rows []string
	page bool // rows has its first page, not files
}

// list adds the last host to the start page.
func (m *Mirror) list() {
	if len(m.rows) > maxRows {
		m.host.rows = m.host.rows[:1]
	}
	if m.result.Hosts <= maxHosts {
		m.rows = append(m.rows, strings.Join(m.host.rows, "")...)
	}
}

// finish writes the start page and the marker.
func (m *Mirror) finish() error {
	m.list()
	page := `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Archived pages</title>
<style>body{font:16px/1.6 system-ui,sans-serif;max-width:50rem;margin:3rem auto;padding:0 1rem}</style>
</head><body><h1>Archived pages</h1>
<ul>
` + string(m.rows) + "</ul>\n"
	if more := m.result.Hosts - maxHosts; more > 0 {
		page += fmt.Sprintf("<p>%s beside this file.</p>\n",
			english.Plural(int(more), "more host has a directory", "more hosts have directories"))
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
