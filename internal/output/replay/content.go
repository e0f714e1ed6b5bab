package replay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/output/captures"
	"github.com/orbweaver/orbweaver/internal/output/rewrite"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/message"
	"github.com/orbweaver/orbweaver/internal/web/parse"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

const (
	// scriptPath is where each content origin has frame.js.
	scriptPath = "/.orbweaver-replay/frame.js"
	// stylePath is where each content origin has the style of this package's own pages.
	stylePath = "/.orbweaver-replay/page.css"
	// head is inserted into each page.
	head = `<script src="` + scriptPath + `"></script>`
)

// content answers a request to a content origin.
func (s *Server) content(w http.ResponseWriter, r *http.Request, p place) {
	h := w.Header()
	policy := s.pagePolicy
	if confines(r) {
		policy += " allow-scripts"
	}
	h.Set("Content-Security-Policy", policy)
	h.Set("Connection-Allowlist", s.allowlist)
	h.Set("Cross-Origin-Resource-Policy", "cross-origin")
	h.Del("X-Content-Type-Options") // as the archived server did: it decides how browsers read a body
	dest := r.Header.Get("Sec-Fetch-Dest")
	switch {
	case dest == "":
		s.fail(w, http.StatusForbidden, "Archived pages require a browser that sends Sec-Fetch-Dest: "+
			"Chromium 80, Firefox 90, Safari 16.4, or a later version.")
		return
	case dest == "document":
		// A page must not be outside of the viewer's frame, from which it cannot navigate away.
		http.Redirect(w, r, s.viewURL(p.url, p.at), http.StatusSeeOther)
		return
	case dest == "serviceworker" || r.Header.Get("Service-Worker") != "" || r.Header.Get("Upgrade") != "":
		s.fail(w, http.StatusForbidden, "The replay has no service workers and no upgraded connections.")
		return
	}
	if origin := r.Header.Get("Origin"); origin == "null" || s.isContentOrigin(origin) {
		h.Set("Access-Control-Allow-Origin", origin)
		h.Set("Access-Control-Allow-Credentials", "true")
		h.Set("Vary", "Origin")
	}
	if r.URL.Path == scriptPath || r.URL.Path == stylePath {
		s.asset(w, r, r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:])
		return
	}
	if err := s.capture(w, r, p, dest); err != nil {
		s.failed(r.Context(), w, p, err)
	}
}

// firstConfining is the first version of Chromium that obeys Connection-Allowlist.
const firstConfining = 152

var chromium = regexp.MustCompile(`Chrome/(\d+)\.`)

// confines reports whether the browser obeys Connection-Allowlist. A script can make other browsers
// look up a name or open a connection, which no Content-Security-Policy prevents. There, archived
// pages are shown without scripts.
func confines(r *http.Request) bool {
	m := chromium.FindStringSubmatch(r.Header.Get("User-Agent"))
	if m == nil {
		return false
	}
	version, err := strconv.Atoi(m[1])
	return err == nil && version >= firstConfining
}

// isContentOrigin reports whether an Origin field names a content origin.
func (s *Server) isContentOrigin(origin string) bool {
	return strings.HasPrefix(origin, "http://"+s.secret+"-") && strings.HasSuffix(origin, ".localhost:"+s.port)
}

// capture answers with the nearest capture. If it returns an error, it has not answered yet.
func (s *Server) capture(w http.ResponseWriter, r *http.Request, p place, dest string) error {
	at, err := time.Parse(captures.TimeFormat, p.at)
	if err != nil {
		return &missing{fmt.Sprintf("%s is not a time.", p.at)}
	}
	c, ok, err := s.archive.Nearest(p.url, at)
	if err != nil {
		return err
	}
	if !ok {
		return &missing{"The crawl did not reach this URL, or did not keep the response."}
	}
	m, err := s.archive.Open(r.Context(), c)
	if err != nil {
		return err
	}
	defer m.Close()
	if location := m.Header.Get("Location"); m.Status >= 300 && m.Status < 400 && location != "" {
		return s.redirect(w, p, m, location)
	}
	s.header(w.Header(), p, m)
	if !rewritable(dest) {
		raw(w, r, m)
		return nil
	}
	if isFile(dest, m) {
		s.file(w, p, c, m)
		return nil
	}
	select {
	case s.busy <- struct{}{}:
	case <-r.Context().Done():
		return r.Context().Err()
	}
	defer func() { <-s.busy }()
	text, err := io.ReadAll(io.LimitReader(m.Body, s.maxPage))
	if err != nil && len(text) == 0 {
		return bodyError(m, err)
	}
	res := rewrite.Document(
		parse.Input{URL: p.url, Header: m.Header, Body: text},
		rewrite.Rules{Map: func(ref rewrite.Ref) string { return s.mapped(ref, p.at) }, Head: head,
			SameFrame: !confines(r)}) // where frame.js does not do that
	var more [1]byte
	n, _ := io.ReadFull(m.Body, more[:])
	if n == 0 || !res.Converted { // otherwise the rest has another encoding, and the text stays as it is
		text = res.Body
		if res.Charset != "" {
			w.Header().Set("Content-Type", typeOf(res.Kind, m)+"; charset="+res.Charset)
		}
	}
	w.WriteHeader(status(m))
	if _, err := w.Write(text); err == nil && n > 0 {
		_, _ = io.Copy(w, io.MultiReader(bytes.NewReader(more[:]), m.Body)) // as in raw
	}
	return nil
}

// raw answers with the archived body as it is. If its size is known, it serves a part of it, too: a
// browser that plays a video asks for parts.
func raw(w http.ResponseWriter, r *http.Request, m *captures.Message) {
	if m.Size >= 0 && status(m) == http.StatusOK && !strings.Contains(r.Header.Get("Range"), ",") {
		http.ServeContent(w, r, "", time.Time{}, &forward{r: m.Body, size: m.Size})
		return
	}
	w.WriteHeader(status(m))
	_, _ = io.Copy(w, m.Body) // the browser has gone, or the archived body is cut off
}

// A forward is an io.ReadSeeker that reads no byte twice: a Seek to before what was read makes the
// next Read fail.
type forward struct {
	r             io.Reader
	size, at, pos int64 // at is the place of r, and pos that of the next Read
}

func (f *forward) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += f.pos
	case io.SeekEnd:
		offset += f.size
	}
	if offset < 0 {
		return 0, fs.ErrInvalid
	}
	f.pos = offset
	return offset, nil
}

func (f *forward) Read(p []byte) (int, error) {
	if f.pos < f.at {
		return 0, fs.ErrInvalid
	}
	skipped, err := io.CopyN(io.Discard, f.r, f.pos-f.at)
	f.at += skipped
	if err != nil {
		return 0, err
	}
	n, err := f.r.Read(p)
	f.at += int64(n)
	f.pos = f.at
	return n, err
}

// mapped returns the reference that leads to the same URL on this server.
func (s *Server) mapped(ref rewrite.Ref, at string) string {
	if ref.Relative {
		return ""
	}
	return s.contentURL(ref.URL, at, ref.Fragment)
}

// status returns the status of an answer with the body of m.
func status(m *captures.Message) int {
	if m.Status < 200 || m.Status == http.StatusNotModified || m.Status == http.StatusPartialContent {
		return http.StatusOK
	}
	return m.Status
}

// header copies the fields that say how to read the body.
func (s *Server) header(h http.Header, p place, m *captures.Message) {
	h["Content-Type"] = nil // net/http must not guess it
	for _, name := range []string{"Content-Type", "Content-Language", "X-Content-Type-Options"} {
		for _, v := range m.Header.Values(name) {
			if v != "" && !strings.ContainsAny(v, "\r\n\x00") {
				h.Add(name, v) // the browser judges several values as this package does
			}
		}
	}
	if v := []byte(m.Header.Get("Refresh")); len(v) > 0 {
		if from, to, ok := parse.RefreshURL(v); ok {
			if u, err := p.url.ResolveBytes(v[from:to]); err == nil {
				delay, _, _ := bytes.Cut(v[:from], []byte{';'})
				h.Set("Refresh", string(bytes.TrimSpace(delay))+";url="+s.contentURL(u, p.at, ""))
			}
		}
	}
	h.Set("X-Archive-Truncated", m.Truncated)
	if m.Truncated == "" {
		h.Del("X-Archive-Truncated")
	}
}

// redirect answers with a redirect within the archive.
func (s *Server) redirect(w http.ResponseWriter, p place, m *captures.Message, location string) error {
	target, fragment, _ := strings.Cut(location, "#")
	u, err := p.url.Resolve(target)
	if err != nil {
		return &missing{"The archived server redirects to a place that is not a web page: " + location}
	}
	if fragment != "" {
		fragment = "#" + fragment
	}
	to := s.contentURL(u, p.at, fragment)
	if to == "" || u == p.url {
		return &missing{"The archived server redirects this page to itself: " + location}
	}
	w.Header().Set("Location", to)
	w.WriteHeader(m.Status)
	return nil
}

// rewritable reports whether a browser that requests a resource for dest may find references in it.
func rewritable(dest string) bool {
	switch dest {
	case "iframe", "frame", "object", "embed", "style":
		return true
	}
	return false
}

// isFile reports whether m is shown as a file, because a browser would show it without telling the
// viewer, or would want to save it.
func isFile(dest string, m *captures.Message) bool {
	if dest != "iframe" && dest != "frame" {
		return false
	}
	switch t := m.Type().Essence; {
	case t == "", strings.HasPrefix(t, "text/"), strings.HasSuffix(t, "+xml"), strings.HasSuffix(t, "/xml"),
		strings.HasSuffix(t, "json"), t == "application/javascript":
		return false
	}
	return true
}

// typeOf returns the media type of a rewritten document.
func typeOf(kind parse.Kind, m *captures.Message) string {
	switch kind {
	case parse.HTML:
		return "text/html"
	case parse.CSS:
		return "text/css"
	}
	return m.Type().Essence
}

// A missing error says why there is nothing to show.
type missing struct{ text string }

func (e *missing) Error() string { return e.text }

// A notice is a page of this server in place of an archived one.
type notice struct {
	Title, Text string
	URL         string
	Near        []near
	Image, Src  string // the element that shows a file (img, video, audio), and its URL
	Type, Size  string
}

// A near is an archived URL close to one that is missing.
type near struct{ URL, Href, Time string }

// failed answers with a page that says why the URL cannot be shown.
func (s *Server) failed(ctx context.Context, w http.ResponseWriter, p place, err error) {
	n := notice{Title: "Not in this archive", URL: p.url.String(), Text: err.Error()}
	status := http.StatusNotFound
	var gone *missing
	switch {
	case errors.As(err, &gone):
		n.Near = s.near(ctx, p)
	case errors.Is(err, warc.ErrNoOriginal):
		n.Title = "The content is in another archive"
		_, original, _ := strings.Cut(err.Error(), warc.ErrNoOriginal.Error()+": ")
		n.Text = "This archive refers to a record with the same content: " + original + ". Another agent or an " +
			"earlier crawl has archived it. Give the crawl directory that has it, too."
	case errors.Is(err, message.ErrLayers):
		n.Title, status = "This page cannot be shown", http.StatusNotImplemented
		n.Text = "The server sent it with too many content codings, one over the other. " +
			"Save in the bar above writes it to your disk as the server sent it."
	case errors.Is(err, message.ErrTooLong):
		n.Title, status = "This page cannot be shown", http.StatusNotImplemented
		n.Text = "It is small, and unpacks to more than is read. Save in the bar above writes it to your disk as the " +
			"server sent it."
	case errors.Is(err, message.ErrCoding):
		n.Title, status = "This page cannot be shown", http.StatusNotImplemented
		n.Text = "The server sent it broken: " + err.Error() + ". Save in the bar above writes it to your disk as " +
			"the server sent it."
	case isUnreadable(err):
		n.Title, status = "This page cannot be read", http.StatusInternalServerError
		n.Text = "Its record in the archive is damaged, or the WARC file is missing. Pages with other records " +
			"are not affected. " + err.Error()
	default:
		n.Title, status = "The archive cannot be read", http.StatusInternalServerError
	}
	s.notice(w, status, n)
}

// bodyError returns the error of a body that cannot be read at all: what the server sent is broken, or the archive is.
func bodyError(m *captures.Message, err error) error {
	_, disk := errors.AsType[*fs.PathError](err)
	if disk || errors.Is(err, warc.ErrDamaged) {
		return warc.Unreadable(m.File, err)
	}
	return err
}

// isUnreadable reports whether err concerns one record, and not the whole archive.
func isUnreadable(err error) bool {
	_, ok := errors.AsType[*warc.UnreadableError](err)
	return ok
}

// maxNear is how many similar URLs a page for a missing one names.
const maxNear = 8

// near returns archived URLs of the same host whose sort keys follow, or else begin the host.
func (s *Server) near(ctx context.Context, p place) (list []near) {
	key := p.url.SURT()
	host, _, _ := strings.Cut(key, ")")
	seen := map[string]bool{}
	for _, from := range []string{key, host + ")"} {
		pages, _, err := s.archive.Pages(ctx, captures.Query{From: from, Host: host + ")", Max: maxNear - len(list)})
		if err != nil {
			return list // the list is only a help
		}
		for _, page := range pages {
			u, err := weburl.Parse(page.Newest.URL)
			if err != nil || seen[page.SURT] {
				continue
			}
			seen[page.SURT] = true
			list = append(list, near{u.String(), s.contentURL(u, p.at, ""), page.Newest.Time})
		}
	}
	return list
}

// file answers with a page that shows a file which is no page, or says how to save it.
func (s *Server) file(w http.ResponseWriter, p place, c captures.Capture, m *captures.Message) {
	t := m.Type().Essence
	n := notice{Title: "File", URL: p.url.String(), Src: p.url.RequestURI(), Type: t, Size: size(m.Size)}
	if m.Size < 0 {
		n.Size = size(c.Length) + " in the archive"
	}
	switch major, _, _ := strings.Cut(t, "/"); major {
	case "image":
		n.Image = "img"
	case "video", "audio":
		n.Image = major
	}
	s.notice(w, http.StatusOK, n)
}

// notice answers with a page of this server in a content origin.
func (s *Server) notice(w http.ResponseWriter, status int, n notice) {
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, "notice.html", n); err != nil {
		s.fail(w, http.StatusInternalServerError, err.Error())
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // a failed write means that the browser has gone
}

// size returns a number of bytes as people write it.
func size(n int64) string {
	switch {
	case n < 1000:
		return fmt.Sprintf("%d B", n)
	case n < 1000_000:
		return fmt.Sprintf("%.1f kB", float64(n)/1000)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1000_000)
}
