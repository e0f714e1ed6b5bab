package replay

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/inbound"
	"github.com/orbweaver/orbweaver/internal/output/captures"
	"github.com/orbweaver/orbweaver/internal/output/rewrite"
	"github.com/orbweaver/orbweaver/internal/web/parse"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A PlainConfig describes a Plain. Its functions must be safe for concurrent use.
type PlainConfig struct {
	// Path is where the handler is mounted, with a slash at its end.
	Path string
	// Valid reports whether a key opens the archive.
	Valid func(key string) bool
	// Open opens the capture of a URL that is nearest to a time. ok is false if there is none. Plain closes it.
	Open func(ctx context.Context, u weburl.URL, at time.Time) (m *captures.Message, ok bool, err error)
	// MaxPage bounds how many bytes of a page are rewritten and sent. Zero means 8 MiB.
	MaxPage int64
}

// Plain serves archived pages at paths of a server that has pages of its own, without their scripts:
//
//	PATH KEY/TIME?u=URL -> nearest capture -> rewritten page
//
// Each response has a Content-Security-Policy with a sandbox, so that a browser gives it an origin of its own, also
// outside of a frame: it runs no script, sends no form, follows no refresh and opens no window, and its requests have
// no cookies of the server (SameSite). The policy permits images, styles, fonts and media below PATH alone. Frames
// within a page stay empty. So a page needs the key in its paths; the key must open nothing but the archive.
// It implements http.Handler.
type Plain struct{ cfg PlainConfig }

// NewPlain returns a Plain.
func NewPlain(cfg PlainConfig) *Plain {
	cfg.MaxPage = cmp.Or(cfg.MaxPage, 8<<20)
	return &Plain{cfg}
}

// path returns the path of a URL at a time.
func (s *Plain) path(key, at, u string) string {
	return s.cfg.Path + key + "/" + at + "?u=" + strings.ReplaceAll(url.QueryEscape(u), "+", "%20")
}

func (s *Plain) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	scheme := "http://"
	if r.TLS != nil {
		scheme = "https://"
	}
	own := scheme + r.Host // the caller has checked it
	from := own + s.cfg.Path
	h := w.Header()
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'; img-src "+from+" data:; media-src "+from+
		"; font-src "+from+" data:; style-src "+from+" 'unsafe-inline'; base-uri 'none'; form-action 'none'; "+
		"frame-ancestors "+own)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-DNS-Prefetch-Control", "off")
	h.Set("Cache-Control", "no-store")
	h.Set("Permissions-Policy", forbidden)
	h.Set("Cross-Origin-Resource-Policy", "cross-origin") // the frame has another origin
	key, at, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, s.cfg.Path), "/")
	if !s.cfg.Valid(key) {
		s.notice(w, http.StatusForbidden, "This address is too old", "",
			"Open the page again in the console. An address of an archived page is valid for an hour or two.")
		return
	}
	if r.Header.Get("Sec-Fetch-Dest") == "font" {
		h.Set("Access-Control-Allow-Origin", "*")
	}
	typed := r.URL.Query().Get("u")
	u, err := weburl.Parse(typed)
	when, err2 := time.Parse(captures.TimeFormat, at)
	if err := errors.Join(err, err2); err != nil {
		s.notice(w, http.StatusBadRequest, "This is not the address of an archived page", typed, err.Error())
		return
	}
	m, ok, err := s.cfg.Open(r.Context(), u, when)
	switch {
	case err != nil:
		s.notice(w, http.StatusServiceUnavailable, "The archive cannot be read", u.String(), err.Error())
		return
	case !ok:
		s.notice(w, http.StatusNotFound, "Not in this archive", u.String(),
			"The crawl has not reached this URL yet, or did not keep the response.")
		return
	}
	defer m.Close()
	s.answer(w, r, u, key, at, m)
}

// answer answers with a capture.
func (s *Plain) answer(w http.ResponseWriter, r *http.Request, u weburl.URL, key, at string, m *captures.Message) {
	h := w.Header()
	if location := m.Header.Get("Location"); m.Status >= 300 && m.Status < 400 && location != "" {
		target, _, _ := strings.Cut(location, "#")
		to, err := u.Resolve(target)
		if err != nil || to == u {
			s.notice(w, http.StatusNotFound, "A redirect to nowhere", u.String(), location)
			return
		}
		h.Set("Location", s.path(key, at, to.String()))
		w.WriteHeader(http.StatusFound)
		return
	}
	h["Content-Type"] = nil // net/http must not guess it
	for _, v := range m.Header.Values("Content-Type") {
		if v != "" && !strings.ContainsAny(v, "\r\n\x00") {
			h.Add("Content-Type", v)
		}
	}
	dest := r.Header.Get("Sec-Fetch-Dest")
	if dest == "document" {
		dest = "iframe"
	}
	if isFile(dest, m) {
		s.file(w, r, u, m)
		return
	}
	if dest != "" && !rewritable(dest) {
		w.WriteHeader(status(m))
		_, _ = io.Copy(w, io.LimitReader(m.Body, s.cfg.MaxPage)) // a failed write means that the browser has gone
		return
	}
	text, err := s.read(r.Context(), m.Body)
	if errors.Is(err, errBusy) {
		s.notice(w, http.StatusServiceUnavailable, "Too many pages at once", u.String(),
			"The server rewrites as many large pages as its memory permits. Open this one again.")
		return
	}
	if err != nil && len(text) == 0 {
		s.notice(w, http.StatusInternalServerError, "This page cannot be read", u.String(), err.Error())
		return
	}
	res := rewrite.Document(parse.Input{URL: u, Header: m.Header, Body: text}, rewrite.Rules{SameFrame: true,
		Map: func(ref rewrite.Ref) string {
			if ref.Use == rewrite.Base || ref.Text && ref.Relative {
				return ""
			}
			if ref.Fragment != "" && ref.URL == u {
				return ref.Fragment
			}
			return s.path(key, at, ref.URL.String()) + ref.Fragment
		}})
	if res.Charset != "" {
		h.Set("Content-Type", typeOf(res.Kind, m)+"; charset="+res.Charset)
	}
	w.WriteHeader(status(m))
	_, _ = w.Write(res.Body)
}

const (
	// smallPage is the size of pages that any request may read, and rewriteCost what a byte of larger ones takes.
	smallPage, rewriteCost = 128 << 10, 4
	// roomWait bounds the wait for room.
	roomWait = 10 * time.Second
)

// errBusy means that other pages take all room.
var errBusy = errors.New("no room")

// read reads a page to rewrite, if there is room for it (inbound.Take).
func (s *Plain) read(ctx context.Context, body io.Reader) (text []byte, err error) {
	text, err = io.ReadAll(io.LimitReader(body, min(smallPage, s.cfg.MaxPage)))
	if err != nil || len(text) < smallPage {
		return text, err
	}
	ctx, cancel := context.WithTimeout(ctx, roomWait)
	defer cancel()
	if _, err := inbound.Take(ctx, rewriteCost*s.cfg.MaxPage); err != nil {
		return nil, errBusy
	}
	rest, err := io.ReadAll(io.LimitReader(body, s.cfg.MaxPage-smallPage))
	return append(text, rest...), err
}

// file answers with a page about a file that is no page, with its picture if it is one.
func (s *Plain) file(w http.ResponseWriter, r *http.Request, u weburl.URL, m *captures.Message) {
	n := plainNotice{Title: "A file", URL: u.String(), Text: m.Type().Essence}
	if strings.HasPrefix(n.Text, "image/") {
		n.Image = r.URL.RequestURI()
	}
	s.write(w, http.StatusOK, n)
}

// A plainNotice is a page of this server in place of an archived one.
type plainNotice struct{ Title, URL, Text, Image string }

func (s *Plain) notice(w http.ResponseWriter, status int, title, u, text string) {
	s.write(w, status, plainNotice{Title: title, URL: u, Text: text})
}

func (s *Plain) write(w http.ResponseWriter, status int, n plainNotice) {
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, "plain.html", n); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // a failed write means that the browser has gone
}
