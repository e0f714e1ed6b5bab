package testweb

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/klauspost/compress/gzip"
)

// A Folder is a set of files that a host serves. Symbolic links are followed, even out of the folder. The path of a URL
// cannot leave the folder.
type Folder struct {
	Host string
	// Prefix is the URL path below which the files appear, such as "/docs/2.4". Empty is the root.
	Prefix string
	// Dir is the directory of the files. It may be empty if Index is set.
	Dir string
	// Index is the HTML of the first page if Dir has none.
	Index string
	// Listing serves a directory without an index page as a list of links. Otherwise such a directory is a 404.
	Listing bool
	// Suffix is a suffix, such as ".html", that URLs may leave out: /page is page.html, if there is no file "page".
	// Empty: there is none.
	Suffix string
	// Scheme is Site.Scheme, for a host that has no Site.
	Scheme string
	// Home is the path of the page at which a crawl begins. Empty means Prefix with a slash; NoHome means that the
	// folder has no seed.
	Home string
}

// NoHome is the Home of a folder that is reached from other folders.
const NoHome = "-"

// Seed returns the URL of the folder's home page; empty with NoHome.
func (f Folder) Seed() string {
	if f.Home == NoHome {
		return ""
	}
	scheme := f.Scheme
	if scheme == "" {
		scheme = "https"
	}
	home := f.Home
	if home == "" {
		home = strings.TrimSuffix(f.Prefix, "/") + "/"
	}
	return scheme + "://" + f.Host + pathEscapeURL(home)
}

// ValidSuffix reports whether s may be the Suffix of a Folder: a dot, and behind it no slash and no further dot.
func ValidSuffix(s string) bool {
	return len(s) > 1 && s[0] == '.' && !strings.ContainsAny(s[1:], "./\\\x00")
}

const (
	maxCached    = 16 << 20 // bytes; a larger file is read from disk for each request
	defaultCache = 256 << 20
)

// A mount is a Folder that is being served.
type mount struct {
	Folder
	prefix string // with a slash at the end
	cache  *fileCache
	gzip   bool
}

func newMount(f Folder, c *fileCache, gz bool) (mount, error) {
	if f.Dir != "" || f.Index == "" {
		st, err := os.Stat(f.Dir)
		if err != nil {
			return mount{}, fmt.Errorf("folder %s: %w", f.Host, err)
		}
		if !st.IsDir() {
			return mount{}, fmt.Errorf("folder %s: %w", f.Host,
				&fs.PathError{Op: "open", Path: f.Dir, Err: syscall.ENOTDIR})
		}
		d, err := os.Open(f.Dir) // the names in it
		if err == nil {
			d.Close()
			_, err = os.Stat(f.Dir + "/.") // the files in it
		}
		if err != nil {
			return mount{}, fmt.Errorf("folder %s: %w", f.Host, err)
		}
	}
	return mount{Folder: f, prefix: strings.TrimSuffix(path.Clean("/"+f.Prefix), "/") + "/", cache: c, gzip: gz}, nil
}

// A file is the content that a folder serves for a path, or the fact that it serves none.
type file struct {
	name      string // on disk
	stamp     stamp  // of the file name, taken before the file was read
	ctype     string
	etag      string
	modified  time.Time
	header    string  // modified, as an HTTP date
	data      []byte  // nil: too large for the cache
	dependsOn []stamp // the files and directories on which the content depends; none: it never changes
	redirect  string  // the URL to which the response redirects, such as the path of a directory with its slash
	status    int     // of the redirect; 0: 301
	unpack    bool    // the file on disk is gzipped
	missing   bool    // the folder has nothing for the path

	zip    sync.Once
	zipped []byte // data in gzip; nil if that is not shorter
}

// indexTime is the Last-Modified of pages that are not files.
var indexTime = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)

// clean converts the path of a URL to a path in the folder. It fails if the path contains a hidden name, such as "..".
func clean(p string) (string, bool) {
	if strings.ContainsAny(p, "\x00\\") {
		return "", false
	}
	for part := range strings.SplitSeq(p, "/") {
		if strings.HasPrefix(part, ".") && part != ".well-known" {
			return "", false
		}
	}
	return p, true
}

// text returns the content of a small file, nil if there is none.
func (m *mount) text(p string) []byte {
	if f := m.find(p); f != nil {
		return f.data
	}
	return nil
}

// find returns the file for a URL path, from the cache or from disk; nil if the folder has none.
func (m *mount) find(p string) *file {
	rest, ok := strings.CutPrefix(p, m.prefix)
	if !ok {
		if p+"/" == m.prefix {
			return &file{redirect: pathEscapeURL(m.prefix)}
		}
		return nil
	}
	key := m.Host + " " + m.prefix + " " + p
	if f := m.cache.get(key); f != nil && f.current() {
		if f.missing {
			return nil
		}
		return f
	}
	dependsOn := m.stamps(rest)
	f, err := m.read(rest, p)
	switch {
	case err != nil && rest == "" && m.Index != "":
		f = made(contentType("index.html", []byte(m.Index)), []byte(m.Index), indexTime)
	case err != nil:
		f = &file{missing: true}
	}
	f.dependsOn = dependsOn
	if f.name != "" && (len(dependsOn) == 0 || f.name != dependsOn[0].name) {
		f.dependsOn = append(f.dependsOn, f.stamp)
	}
	m.cache.put(key, f)
	if f.missing {
		return nil
	}
	return f
}

// read looks for rest in the folder: under its own name, gzipped (as Debian stores documents), or with a language
// suffix (as Apache stores translations).
func (m *mount) read(rest, p string) (*file, error) {
	name, ok := clean(rest)
	if !ok || m.Dir == "" {
		return nil, fs.ErrNotExist
	}
	full := filepath.Join(m.Dir, filepath.FromSlash(name))
	st, err := os.Stat(full)
	switch {
	case err == nil && st.IsDir():
		if rest != "" && !strings.HasSuffix(rest, "/") {
			return &file{redirect: pathEscapeURL(p + "/")}, nil
		}
		for _, index := range []string{"index.html", "index.htm"} {
			if f, err := m.variant(filepath.Join(full, index)); err == nil {
				return f, nil
			}
		}
		if m.Listing {
			return listing(full, p)
		}
		return nil, fs.ErrNotExist
	case strings.HasSuffix(rest, "/"):
		return nil, fs.ErrNotExist // such as "page.html/"
	}
	if f, err := m.variant(full); err == nil || m.Suffix == "" {
		return f, err
	}
	return open(full+m.Suffix, full+m.Suffix, false)
}

func (m *mount) variant(full string) (*file, error) {
	if f, err := open(full, full, false); err == nil {
		return f, nil
	}
	if f, err := open(full+".gz", full, true); err == nil {
		return f, nil
	}
	languages := []string{".en", ".en.utf8"}
	if all, err := filepath.Glob(globQuote(full) + ".*"); err == nil {
		languages = append(languages, suffixes(all, full)...)
	}
	for _, l := range languages {
		if language.FindString(l) != l {
			continue
		}
		if f, err := open(full+l, full, false); err == nil {
			if _, cs, ok := strings.Cut(l[1:], "."); ok {
				f.ctype = strings.Split(f.ctype, ";")[0] + "; charset=" + charsetName(cs)
			}
			return f, nil
		}
	}
	return nil, fs.ErrNotExist
}

// language matches a suffix of a language and perhaps a character set, as in index.html.ja.utf8.
var language = regexp.MustCompile(`\.[a-z]{2}(-[a-z]{2})?(\.[a-z0-9-]+)?$`)

func charsetName(s string) string {
	switch s {
	case "utf8":
		return "utf-8"
	case "euc-kr", "koi8-r", "iso-2022-jp":
		return s
	}
	return s
}

func globQuote(s string) string {
	return strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`, `\`, `\\`).Replace(s)
}

func suffixes(all []string, prefix string) []string {
	out := make([]string, 0, len(all))
	for _, a := range all {
		out = append(out, strings.TrimPrefix(a, prefix))
	}
	slices.Sort(out)
	return out
}

// open reads the file disk. The name `as`, under which it is served, determines its type.
func open(disk, as string, unpack bool) (*file, error) {
	h, err := os.Open(disk)
	if err != nil {
		return nil, err
	}
	defer h.Close()
	st, err := h.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, errors.New("not a file")
	}
	f := &file{name: disk, stamp: stampOf(disk, st), modified: st.ModTime(),
		header: st.ModTime().UTC().Format(http.TimeFormat), unpack: unpack,
		etag: fmt.Sprintf(`"%x-%x"`, st.Size(), st.ModTime().UnixNano())}
	var in io.Reader = h
	if unpack {
		if in, err = gzip.NewReader(h); err != nil {
			return nil, err
		}
	}
	b, err := io.ReadAll(io.LimitReader(in, maxCached+1))
	if err != nil {
		return nil, err
	}
	if l := language.FindString(as); types[path.Ext(as)] == "" && l != "" &&
		types[path.Ext(strings.TrimSuffix(as, l))] != "" {
		as = strings.TrimSuffix(as, l)
	}
	f.ctype = contentType(as, b)
	if len(b) <= maxCached {
		f.data, f.etag = b, etagOf(b)
	}
	return f, nil
}

// ownCharset matches in a document that declares its own character set.
var ownCharset = regexp.MustCompile(`(?i)charset\s*=|<\?xml[^>]*encoding`)

// contentType derives the type from the suffix of the name, or else from the data. Text gets a charset, unless an HTML
// document declares its own.
func contentType(name string, data []byte) string {
	ext := strings.ToLower(path.Ext(name))
	t := types[ext]
	if t == "" {
		t, _, _ = strings.Cut(mime.TypeByExtension(ext), ";")
	}
	switch {
	case t == "" && ext == "" && len(data) > 0 && data[0] == '<', strings.HasSuffix(name, "/"):
		t = "text/html"
	case t == "" && ext == "" && utf8.Valid(data[:min(len(data), 512)]):
		t = "text/plain"
	case t == "":
		return "application/octet-stream"
	}
	if !strings.HasPrefix(t, "text/") || t == "text/html" && ownCharset.Match(data[:min(len(data), 1024)]) {
		return t
	}
	if !utf8.Valid(data) && len(data) <= maxCached {
		return t + "; charset=iso-8859-1"
	}
	return t + "; charset=utf-8"
}

// types are the media types of common suffixes, so that they do not depend on the machine's table.
var types = map[string]string{
	".html": "text/html", ".htm": "text/html", ".xhtml": "application/xhtml+xml", ".css": "text/css",
	".js": "text/javascript", ".json": "application/json", ".xml": "application/xml", ".rss": "application/rss+xml",
	".atom": "application/atom+xml", ".svg": "image/svg+xml", ".png": "image/png", ".gif": "image/gif",
	".jpg":  "image/jpeg",
	".jpeg": "image/jpeg", ".ico": "image/x-icon", ".webp": "image/webp", ".woff": "font/woff", ".woff2": "font/woff2",
	".txt": "text/plain", ".md": "text/markdown", ".pdf": "application/pdf", ".gz": "application/gzip",
	".py": "text/x-python", ".c": "text/x-c", ".h": "text/x-c", ".xpm": "image/x-xpixmap",
	".inv": "application/octet-stream",
}

// listing returns a page that links to the entries of a directory.
func listing(dir, p string) (*file, error) {
	es, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "<!doctype html><title>%s</title><h1>%[1]s</h1><ul>\n", p)
	for _, e := range es {
		name := e.Name()
		if strings.HasPrefix(name, ".") {
			continue
		}
		if st, err := os.Stat(filepath.Join(dir, name)); err == nil && st.IsDir() {
			name += "/"
		}
		fmt.Fprintf(&b, "<li><a href=\"%s\">%s</a>\n", pathEscape(name), name)
	}
	st, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	return made("text/html; charset=utf-8", b.Bytes(), st.ModTime()), nil
}

// made returns a file that is not on the disk.
func made(ctype string, data []byte, modified time.Time) *file {
	return &file{ctype: ctype, data: data, modified: modified, header: modified.UTC().Format(http.TimeFormat),
		etag: etagOf(data)}
}

var pathEscape = strings.NewReplacer("%", "%25", "?", "%3F", "#", "%23", "\"", "%22", "<", "%3C", ">", "%3E", " ",
	"%20", "&", "&amp;", ":", "%3A").Replace

// serve responds with a file. It reports whether the folder has one.
func (m *mount) serve(rw *recorder, req *http.Request) bool {
	f := m.find(req.URL.Path)
	return f != nil && f.serve(rw, req, m.gzip)
}

// serve responds with the file, compressed if gz is set and the client accepts it. It returns false if the file cannot
// be read any more.
func (f *file) serve(rw http.ResponseWriter, req *http.Request, gz bool) bool {
	h := rw.Header()
	if f.redirect != "" {
		u := f.redirect
		if req.URL.RawQuery != "" {
			u += "?" + req.URL.RawQuery
		}
		http.Redirect(rw, req, u, cmp.Or(f.status, http.StatusMovedPermanently))
		return true
	}
	if req.Method != http.MethodGet && req.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		rw.WriteHeader(http.StatusMethodNotAllowed)
		return true
	}
	h["Content-Type"] = []string{f.ctype}
	modified := f.modified
	if f.recent(time.Now()) {
		modified = time.Time{} // so no Last-Modified, because the file may change again within the same second
	} else {
		h["Last-Modified"] = []string{f.header}
	}
	etag, body := f.etag, f.data
	if gz && f.data != nil && compressible(f.ctype) {
		if z := f.inGzip(); z != nil {
			h["Vary"] = []string{"Accept-Encoding"}
			if acceptsGzip(req) {
				etag, body = strings.TrimSuffix(etag, `"`)+`-gz"`, z
				h["Content-Encoding"] = []string{"gzip"}
			}
		}
	}
	h["Etag"] = []string{etag}
	if f.data == nil {
		return f.serveLarge(rw, req, modified)
	}
	none := strings.Join(req.Header.Values("If-None-Match"), ", ")
	if none != "" && MatchesETag(none, etag) || none == "" && !modified.IsZero() && notModified(req, modified) {
		rw.WriteHeader(http.StatusNotModified)
		return true
	}
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	rw.WriteHeader(http.StatusOK)
	if req.Method != http.MethodHead {
		rw.Write(body)
	}
	return true
}

func pathEscapeURL(p string) string {
	return strings.NewReplacer("%", "%25", "?", "%3F", "#", "%23", " ", "%20").Replace(p)
}

func notModified(req *http.Request, modified time.Time) bool {
	t, err := http.ParseTime(req.Header.Get("If-Modified-Since"))
	return err == nil && !modified.Truncate(time.Second).After(t)
}

// serveLarge streams a file that is not in the cache. If modified is zero, the response has no Last-Modified.
func (f *file) serveLarge(rw http.ResponseWriter, req *http.Request, modified time.Time) bool {
	h, err := os.Open(f.name)
	if err != nil {
		return false
	}
	defer h.Close()
	if !f.unpack {
		http.ServeContent(rw, req, "", modified, h)
		return true
	}
	z, err := gzip.NewReader(h)
	if err != nil {
		return false
	}
	io.Copy(rw, z)
	return true
}

func compressible(ctype string) bool {
	return strings.HasPrefix(ctype, "text/") || strings.Contains(ctype, "xml") || strings.Contains(ctype, "json")
}

func acceptsGzip(req *http.Request) bool { return takesGzip(req.Header.Get("Accept-Encoding")) }

// fileCache keeps files in memory, up to a limit. If it is full, it drops files in the random order of a map: a crawl
// fetches each page once, so no other order would be better.
type fileCache struct {
	limit  int64
	shards [16]cacheShard
}

type cacheShard struct {
	mu   sync.RWMutex // guards m
	m    map[string]*file
	size atomic.Int64
}

func newFileCache(limit int64) *fileCache {
	if limit == 0 {
		limit = defaultCache
	}
	c := &fileCache{limit: limit / 16}
	for i := range c.shards {
		c.shards[i].m = map[string]*file{}
	}
	return c
}

var cacheSeed = maphash.MakeSeed()

func (c *fileCache) shard(key string) *cacheShard {
	return &c.shards[maphash.String(cacheSeed, key)%16]
}

func (c *fileCache) get(key string) *file {
	s := c.shard(key)
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.m[key]
}

// weight estimates the bytes that a file occupies. It includes its gzipped form, which may be added later.
func (f *file) weight(key string) int64 { return int64(len(key)+len(f.data)*5/4) + 400 }

func (c *fileCache) put(key string, f *file) {
	s := c.shard(key)
	w := f.weight(key)
	if w > c.limit {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.m[key]; old != nil { // the file has changed since
		delete(s.m, key)
		s.size.Add(-old.weight(key))
	}
	for k, old := range s.m {
		if s.size.Load()+w <= c.limit {
			break
		}
		delete(s.m, k)
		s.size.Add(-old.weight(k))
	}
	s.m[key] = f
	s.size.Add(w)
}

// inGzip returns the file in gzip, which it makes once; nil if that is not shorter.
func (f *file) inGzip() []byte {
	f.zip.Do(func() {
		var b bytes.Buffer
		z, _ := gzip.NewWriterLevel(&b, 6)
		z.Write(f.data)
		z.Close()
		if b.Len() < len(f.data) {
			f.zipped = slices.Clip(b.Bytes())
		}
	})
	return f.zipped
}
