package replay

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/output/captures"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/parse"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

const (
	pagesShown = 50
	hostsShown = 100
)

// viewer answers a request to the viewer's own origin.
func (s *Server) viewer(w http.ResponseWriter, r *http.Request) {
	name, ok := strings.CutPrefix(r.URL.Path, "/"+s.token+"/")
	if !ok {
		s.fail(w, http.StatusNotFound, "Open the URL that \"orbweaver replay\" printed: it has a secret part.")
		return
	}
	// Other sites may lead a reader here, but must not load anything.
	site := r.Header.Get("Sec-Fetch-Site")
	if site != "" && site != "none" && site != "same-origin" && r.Header.Get("Sec-Fetch-Dest") != "document" {
		s.fail(w, http.StatusForbidden, "Only the pages of the replay itself may read this.")
		return
	}
	w.Header().Set("Cross-Origin-Opener-Policy", "same-origin")
	w.Header().Set("X-Frame-Options", "DENY")
	var err error
	switch name {
	case "":
		err = s.start(w, r)
	case "view":
		err = s.view(w, r)
	case "captures":
		err = s.list(w, r)
	case "info":
		err = s.info(w, r)
	case "save":
		err = s.save(w, r)
	case "viewer.css", "viewer.js", "page.css":
		s.asset(w, r, name)
	default:
		s.fail(w, http.StatusNotFound, "The replay has no such page.")
	}
	if bad, ok := err.(*badRequest); ok {
		s.fail(w, http.StatusBadRequest, bad.text)
	} else if err != nil {
		s.fail(w, http.StatusInternalServerError, err.Error())
	}
}

// A badRequest error says what is wrong with a request.
type badRequest struct{ text string }

func (e *badRequest) Error() string { return e.text }

// asset answers with a style or a script.
func (s *Server) asset(w http.ResponseWriter, r *http.Request, name string) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	http.ServeFileFS(w, r, assets, "assets/"+name)
}

// page answers with a page of the viewer.
func (s *Server) page(w http.ResponseWriter, name string, data any) error {
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, name, data); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(b.Bytes()) // a failed write means that the browser has gone
	return nil
}

// viewURL returns the viewer's URL for u at a time.
func (s *Server) viewURL(u weburl.URL, at string) string {
	return s.URL() + viewQuery(u.String(), at)
}

// viewQuery returns the viewer's URL for u at a time, relative to the start page.
func viewQuery(u, at string) string {
	return "view?" + url.Values{"at": {at}, "url": {u}}.Encode()
}

// A row is an archived page in the list of the start page.
type row struct {
	Title, URL, View string
	Time             string
	Status, MIME     string
	Captures         int
	All              string // the URL of the list of captures
}

// start answers with the list of pages.
func (s *Server) start(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	text := strings.TrimSpace(q.Get("q"))
	if u, ok := typedURL(text); ok {
		found, err := s.archive.Captures(u.String())
		if err != nil {
			return err
		}
		if len(found) > 0 || strings.Contains(text, "://") {
			http.Redirect(w, r, s.viewURL(u, newest(found, u)), http.StatusSeeOther)
			return nil
		}
	}
	query := captures.Query{From: q.Get("from"), Host: q.Get("host"), Text: text, All: q.Get("all") != "",
		Max: pagesShown}
	pages, next, err := s.archive.Pages(r.Context(), query)
	if err == nil && len(pages) == 0 && next == "" && text == "" && query.From == "" {
		query.All = true // an archive or a host with files only
		q.Set("all", "1")
		pages, next, err = s.archive.Pages(r.Context(), query)
	}
	if err != nil {
		return err
	}
	hosts, nextHost, err := s.archive.Hosts(r.Context(), q.Get("hosts"), hostsShown)
	if err != nil {
		return err
	}
	data := struct {
		Name, Q, Host, HostName string
		All                     bool
		First, FirstHosts       bool
		Pages                   []row
		Hosts                   []hostLink
		Next, NextHosts, Toggle string
	}{Name: s.name, Q: text, Host: query.Host, All: query.All,
		First: query.From == "", FirstHosts: q.Get("hosts") == ""}
	for _, p := range pages {
		if r := s.row(r.Context(), p); r.MIME != notPage || query.All {
			data.Pages = append(data.Pages, r)
		}
	}
	with := func(name, value string) string {
		v := url.Values{}
		for _, k := range []string{"q", "host", "all", "from", "hosts"} {
			if q.Get(k) != "" {
				v.Set(k, q.Get(k))
			}
		}
		if v.Set(name, value); value == "" {
			v.Del(name)
		}
		if name != "from" && name != "hosts" {
			v.Del("from")
		}
		return "?" + v.Encode()
	}
	if next != "" {
		data.Next = with("from", next)
	}
	if nextHost != "" {
		data.NextHosts = with("hosts", nextHost)
	}
	data.Toggle = with("all", map[bool]string{false: "1", true: ""}[query.All])
	for _, h := range hosts {
		data.Hosts = append(data.Hosts, hostLink{h.Name, with("host", h.SURT), h.SURT == query.Host})
		if h.SURT == query.Host {
			data.HostName = h.Name
		}
	}
	return s.page(w, "start.html", data)
}

// A hostLink is a host in the list of the start page.
type hostLink struct {
	Name, Href string
	Chosen     bool
}

// typedURL returns the URL that a reader has typed. ok is false if the text is not one.
func typedURL(text string) (u weburl.URL, ok bool) {
	if text == "" || strings.ContainsAny(text, " \t") {
		return u, false
	}
	if !strings.Contains(text, "://") {
		if host, _, _ := strings.Cut(text, "/"); !strings.Contains(host, ".") {
			return u, false
		}
		text = "http://" + text
	}
	u, err := weburl.Parse(text)
	return u, err == nil
}

// newest returns the time of the newest capture of u among all, or the present time.
func newest(all []captures.Capture, u weburl.URL) string {
	if exact := captures.Exact(all, u); len(exact) > 0 {
		return exact[len(exact)-1].Time
	}
	return time.Now().UTC().Format(captures.TimeFormat)
}

// row returns the list's row for a page.
func (s *Server) row(ctx context.Context, p captures.Listed) row {
	c := p.Newest
	r := row{URL: c.URL, View: viewQuery(c.URL, c.Time), Time: c.Time, Status: c.Status, MIME: c.MIME,
		Captures: p.Captures, All: "captures?" + url.Values{"url": {c.URL}}.Encode()}
	if t := c.Type(); t.Essence != "" && !t.IsHTML() {
		return r
	}
	title, isPage := s.title(ctx, c)
	if r.Title = title; c.Type().Essence == "" {
		r.MIME = ""
		if !isPage {
			r.MIME = notPage
		}
	}
	return r
}

// notPage is the row's type of a revisit that is no page: the index does not say what a revisit is.
const notPage = "file"

// titleBytes is how much of a page is read to find its title.
const titleBytes = 64 << 10

// title returns the title of a page, or "" if it cannot be read or has none, and whether it is an HTML
// page.
func (s *Server) title(ctx context.Context, c captures.Capture) (title string, isPage bool) {
	m, err := s.archive.Open(ctx, c)
	if err != nil {
		return "", true // the page says why when the reader opens it
	}
	defer m.Close()
	if m.Status >= 300 || !m.Type().IsHTML() {
		return "", false
	}
	body, _ := io.ReadAll(io.LimitReader(m.Body, titleBytes)) // a damaged page may have a title, too
	u, err := weburl.Parse(c.URL)
	if err != nil {
		return "", true
	}
	var p parse.Page
	parse.Parse(parse.Input{URL: u, Header: m.Header, Body: body},
		parse.Options{MaxLinks: 1}, &p)
	return p.Title, true
}

// asked returns the URL and the time that a request's query names. If the query has no time, asked returns the
// time of the newest capture.
func (s *Server) asked(r *http.Request) (u weburl.URL, at string, all []captures.Capture, err error) {
	q := r.URL.Query()
	u, err = weburl.Parse(q.Get("url"))
	if err != nil {
		return u, "", nil, &badRequest{fmt.Sprintf("url=%q: %v", q.Get("url"), err)}
	}
	if all, err = s.archive.Captures(u.String()); err != nil {
		return u, "", nil, err
	}
	at = q.Get("at")
	if at == "" {
		at = newest(all, u)
	}
	if !isTime(at) {
		return u, "", nil, &badRequest{fmt.Sprintf("at=%q: not a time of 14 digits", at)}
	}
	return u, at, all, nil
}

// nearest returns the capture of u whose time is nearest to at, which is one of asked. ok is false if there is none.
func (s *Server) nearest(u weburl.URL, at string) (c captures.Capture, ok bool, err error) {
	when, err := time.Parse(captures.TimeFormat, at)
	if err != nil {
		return c, false, &badRequest{fmt.Sprintf("at=%q: not a time", at)}
	}
	return s.archive.Nearest(u, when)
}

// view answers with the viewer: a bar and the frame of an archived page.
func (s *Server) view(w http.ResponseWriter, r *http.Request) error {
	u, at, _, err := s.asked(r)
	if err != nil {
		return err
	}
	frame := s.contentURL(u, at, "")
	if frame == "" {
		return &badRequest{"The host name of this URL is too long to be replayed."}
	}
	return s.page(w, "view.html", struct {
		Name, URL, At, Frame, Prefix, Port string
		Scripts                            bool
	}{s.name, u.String(), at, frame, s.secret, s.port, confines(r)})
}

// info answers with what the bar says of a page.
func (s *Server) info(w http.ResponseWriter, r *http.Request) error {
	u, at, all, err := s.asked(r)
	if err != nil {
		return err
	}
	type answer struct {
		URL      string `json:"url"`
		Found    bool   `json:"found"`
		Time     string `json:"time,omitempty"`
		Day      string `json:"day,omitempty"`
		Status   int    `json:"status,omitempty"`
		Cut      string `json:"truncated,omitempty"`
		Long     string `json:"long,omitempty"` // how much of a long page is rewritten
		Count    int    `json:"count"`
		Previous string `json:"previous,omitempty"`
		Next     string `json:"next,omitempty"`
	}
	a := answer{URL: u.String()}
	exact := captures.Exact(all, u)
	a.Count = len(all) // as in the list of pages and in the list to which the count leads
	c, ok, err := s.nearest(u, at)
	if err != nil {
		return err
	}
	if ok {
		a.Found, a.Time, a.Day = true, c.Time, day(c.Time)
		i := slices.IndexFunc(exact, func(x captures.Capture) bool { return x.Time == c.Time })
		for j := i - 1; j >= 0 && a.Previous == ""; j-- {
			if exact[j].Time != c.Time {
				a.Previous = exact[j].Time
			}
		}
		for j := max(i, 0); j < len(exact) && a.Next == ""; j++ {
			if exact[j].Time > c.Time {
				a.Next = exact[j].Time
			}
		}
		if m, err := s.archive.Open(r.Context(), c); err == nil {
			a.Status, a.Cut = m.Status, m.Truncated
			if m.Type().IsHTML() {
				if n, _ := io.CopyN(io.Discard, m.Body, s.maxPage+1); n > s.maxPage { // a damaged page is short
					a.Long = size(s.maxPage)
				}
			}
			if err := m.Close(); err != nil {
				return err
			}
		}
	}
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(a)
}

// list answers with the captures of a URL, newest first.
func (s *Server) list(w http.ResponseWriter, r *http.Request) error {
	u, _, all, err := s.asked(r)
	if err != nil {
		return err
	}
	type capture struct{ URL, Time, View, Status, MIME, Size string }
	data := struct {
		Name, URL string
		Captures  []capture
	}{Name: s.name, URL: u.String()}
	for _, c := range slices.Backward(all) {
		if len(data.Captures) == maxListed {
			break
		}
		mime := c.MIME
		if c.Revisit() {
			mime = "same content as before"
		}
		data.Captures = append(data.Captures,
			capture{c.URL, c.Time, viewQuery(c.URL, c.Time), c.Status, mime, size(c.Length)})
	}
	return s.page(w, "captures.html", data)
}

// maxListed is how many captures the list of a URL shows.
const maxListed = 1000

// save answers with the body of a capture, to be saved as a file.
func (s *Server) save(w http.ResponseWriter, r *http.Request) error {
	u, at, all, err := s.asked(r)
	if err != nil {
		return err
	}
	c, ok, err := s.nearest(u, at)
	if err != nil {
		return err
	}
	if !ok || len(all) == 0 {
		return &badRequest{u.String() + " is not in the archive."}
	}
	m, body, err := s.readable(r.Context(), c)
	if err != nil {
		return err
	}
	defer m.Close()
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	h.Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", fileName(u)))
	_, _ = io.Copy(w, body) // the browser has gone, or the archived body is cut off
	return nil
}

// readable opens a capture, without its content codings if the body can be decoded. body is that of m.
func (s *Server) readable(ctx context.Context, c captures.Capture) (m *captures.Message, body io.Reader, err error) {
	if m, err = s.archive.Open(ctx, c); err == nil {
		b := bufio.NewReader(m.Body)
		if _, err = b.Peek(1); err == nil || err == io.EOF {
			return m, b, nil
		}
		err = errors.Join(bodyError(m, err), m.Close())
	}
	if !warc.Undecodable(err) {
		return nil, nil, err
	}
	if m, err = s.archive.OpenCoded(ctx, c); err != nil {
		return nil, nil, err
	}
	return m, m.Body, nil
}

// fileName returns a name for a file with the content of u: ASCII letters, digits, dots, hyphens and
// underscores.
func fileName(u weburl.URL) string {
	base := path.Base(u.Path())
	if base == "/" || base == "." {
		base = u.Host() + ".html"
	}
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '-', r == '_':
			return r
		}
		return '_'
	}, base)
	return strings.TrimLeft(name[:min(len(name), 100)], ".")
}
