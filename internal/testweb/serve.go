package testweb

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// serve answers one request and reports it to the tracker.
func (w *Web) serve(rw http.ResponseWriter, req *http.Request) {
	c, ok := req.Context().Value(connKey{}).(*conn)
	if !ok {
		http.Error(rw, "no connection", http.StatusInternalServerError)
		return
	}
	proxied := req.Method == http.MethodConnect || isAbsolute(req.RequestURI)
	status, why := 0, ""
	if proxied {
		status, why = w.refusal(req, c)
	}
	if req.Method == http.MethodConnect && status == 0 {
		w.tunnel(rw, req, c)
		return
	}
	host := req.Host
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		host = host[:i]
	}
	st := w.sites[host]
	if st == nil {
		host = strings.ToLower(strings.TrimSuffix(host, "."))
		st = w.sites[host]
	}
	isOrigin := false
	var number int64
	if st == nil {
		number, isOrigin = w.originOf(c, host)
	}
	var state *hostState
	switch {
	case isOrigin:
		state = w.track.originHost(c, number)
	case st == nil:
		state = w.track.hostOf(unknownHost, nil) // one entry for all names, so that clients cannot fill the memory
	default:
		state = w.track.hostOf(host, st)
	}
	target := req.RequestURI
	if isAbsolute(target) {
		_, rest, _ := strings.Cut(target, "://")
		_, rest, _ = strings.Cut(rest, "/")
		target = "/" + rest
	}
	r := newRequest(c, state, target, req.Method)
	r.port, r.file = w.portOf(req.Host), isFile(req.Header.Get("Sec-Fetch-Dest"))
	r.unserved = status != 0 || st == nil && !isOrigin
	switch {
	case req.Method == http.MethodConnect:
		r.asked = strings.Clone(req.Host)
	case r.unserved:
		r.asked = urlOf(c.secure, req.Host, target)
	}
	rec := &recorder{ResponseWriter: rw, r: r, c: c}
	if isOrigin && status == 0 && w.serveOrigin(rec, c, req, number) {
		return
	}
	c.start(r, req.ContentLength != 0)
	w.track.begin(c, r)
	if d := c.latency(); d > 0 && !pause(w, req, d) {
		panic(http.ErrAbortHandler)
	}
	switch {
	case status == http.StatusMethodNotAllowed:
		w.refuse(rec, c, noNumber)
	case status != 0:
		http.Error(rec, why, status)
	case isOrigin:
		w.refuse(rec, c, number)
	case st == nil:
		w.unknown(rec, req)
	default:
		st.serve(w, c, rec, req)
	}
	if r.status == 0 && !rec.hijacked {
		rec.WriteHeader(http.StatusOK)
	}
	if !rec.failed && !rec.hijacked && (rec.length < 0 || rec.length == r.bytes || req.Method == http.MethodHead) {
		c.complete(r)
	}
}

// refuse answers a method that is not supported. robots.txt applies to every method, so refuse asks the Origin whether
// it forbids the target; host is noNumber if the Origin does not have the host.
func (w *Web) refuse(rw *recorder, c *conn, host int64) {
	if r := rw.r; host >= 0 && strings.HasPrefix(r.target, "/") {
		buf := responses.Get().(*[]byte)
		q := Query{Host: host, Target: r.target, Secure: c.secure, Port: r.port, Head: true}
		out, rep := w.cfg.Origin.Answer((*buf)[:0], q)
		keepBuffer(buf, out)
		if rep.Denied {
			w.track.denied(r, rep.Rule)
		}
	}
	rw.Header().Set("Allow", "GET, HEAD")
	rw.WriteHeader(http.StatusMethodNotAllowed)
}

// serve lets the parts of the site answer, in the order that the documentation of Site gives.
func (s *site) serve(w *Web, c *conn, rw *recorder, req *http.Request) {
	if s.Scheme != "" && (s.Scheme == "https") != c.secure {
		u := s.Scheme + "://" + s.Host + rw.r.target
		http.Redirect(rw, req, u, http.StatusMovedPermanently)
		return
	}
	if applyRules(s.rules, w, rw, req) {
		return
	}
	if s.Robots != "" && req.URL.Path == "/robots.txt" {
		rw.Header().Set("Content-Type", "text/plain; charset=utf-8")
		io.WriteString(rw, s.Robots)
		return
	}
	for i := range s.folders {
		if s.folders[i].serve(rw, req) {
			return
		}
	}
	switch {
	case s.Raw != nil:
		w.serveRaw(s.Raw, rw, req)
	case s.Handler != nil:
		s.Handler.ServeHTTP(rw, req)
	default:
		notFound(rw, req)
	}
}

func notFound(rw http.ResponseWriter, req *http.Request) {
	rw.Header().Set("Content-Type", "text/html; charset=utf-8")
	rw.WriteHeader(http.StatusNotFound)
	fmt.Fprintf(rw, "<!doctype html><title>Not found</title><h1>Not found</h1><p>There is no %s here.\n",
		html.EscapeString(req.URL.Path))
}

// unknown tells a person with a browser which hosts there are.
func (w *Web) unknown(rw http.ResponseWriter, req *http.Request) {
	rw.Header().Set("Content-Type", "text/plain; charset=utf-8")
	rw.WriteHeader(http.StatusMisdirectedRequest)
	fmt.Fprintf(rw, "This is a test web. It has no host %q, but these:\n\n", req.Host)
	for i, h := range w.Hosts() {
		if i == 1000 {
			fmt.Fprintln(rw, "...")
			break
		}
		fmt.Fprintf(rw, "%s\t%s\n", w.sites[h].addr, h)
	}
}

// A recorder notes facts about a response while it is written.
type recorder struct {
	http.ResponseWriter
	r        *request
	c        *conn
	length   int64 // Content-Length; -1: unknown
	wrote    bool
	failed   bool
	hijacked bool
}

// Unwrap lets http.ResponseController reach the connection.
func (rw *recorder) Unwrap() http.ResponseWriter { return rw.ResponseWriter }

func (rw *recorder) WriteHeader(code int) {
	if code >= 200 && !rw.wrote {
		rw.wrote = true
		rw.r.status = code
		rw.length = -1
		h := rw.Header()
		rw.r.coded = h.Get("Content-Encoding") != ""
		rw.r.codable = strings.EqualFold(h.Get("Vary"), "Accept-Encoding")
		if v := h.Get("Content-Length"); v != "" {
			fmt.Sscan(v, &rw.length)
		}
		if code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable {
			rw.r.retry = retryAfter(h.Get("Retry-After"), time.Now())
		}
	}
	rw.ResponseWriter.WriteHeader(code)
}

func (rw *recorder) Write(p []byte) (int, error) {
	if !rw.wrote {
		rw.WriteHeader(http.StatusOK)
	}
	rw.c.hold = !rw.c.secure && len(p) > 4096
	n, err := rw.ResponseWriter.Write(p)
	if e := rw.c.release(); err == nil {
		err = e
	}
	rw.r.bytes += int64(n)
	if err != nil && err != http.ErrBodyNotAllowed {
		rw.failed = true
	}
	return n, err
}

// controlHandler serves the report and other facts:
//
//	GET  /.testweb/report   Report as JSON
//	GET  /.testweb/count    Count as JSON, which costs nearly nothing
//	GET  /.testweb/urls     the requested URLs with their number of answers (Web.Fetched)
//	GET  /.testweb/log      the newest requests as lines (Entry.AppendTSV)
//	GET  /.testweb/pages    the pages that need scripts (Config.Apps): URL, tab, the text that they then show
//	GET  /.testweb/ca.pem   the certificate of the authority
//	POST /.testweb/reset    forget everything; the parameters delay, ip-delay, site-delay and views change the promise
func (w *Web) controlHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.testweb/report", func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		e := json.NewEncoder(rw)
		e.SetIndent("", "  ")
		e.Encode(w.Report())
	})
	mux.HandleFunc("GET /.testweb/count", func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		json.NewEncoder(rw).Encode(w.Count())
	})
	mux.HandleFunc("GET /.testweb/urls", func(rw http.ResponseWriter, _ *http.Request) {
		for u, n := range w.Fetched() {
			fmt.Fprintf(rw, "%d\t%s\n", n, u)
		}
	})
	mux.HandleFunc("GET /.testweb/log", func(rw http.ResponseWriter, _ *http.Request) {
		var b []byte
		for _, e := range w.Log() {
			b = e.AppendTSV(b[:0])
			rw.Write(b)
		}
	})
	mux.HandleFunc("GET /.testweb/pages", func(rw http.ResponseWriter, _ *http.Request) {
		for _, app := range w.cfg.Apps {
			for _, p := range app.Pages {
				fmt.Fprintf(rw, "%s\t%s\n", p.URL, p.Mark)
			}
		}
	})
	mux.HandleFunc("GET /.testweb/ca.pem", func(rw http.ResponseWriter, _ *http.Request) { rw.Write(w.CAPEM()) })
	mux.HandleFunc("POST /.testweb/reset", func(rw http.ResponseWriter, req *http.Request) {
		p := w.track.promised()
		if err := req.ParseForm(); err != nil {
			http.Error(rw, "the parameters cannot be read: "+err.Error(), http.StatusBadRequest)
			return
		}
		q := req.Form // of the URL and of a form in the body
		delays := map[string]*time.Duration{
			"delay": &p.HostDelay, "ip-delay": &p.AddrDelay, "site-delay": &p.SiteDelay,
			"views": &p.Views,
		}
		for _, name := range slices.Sorted(maps.Keys(q)) {
			d, text := delays[name], ""
			v, err := time.ParseDuration(q.Get(name))
			switch {
			case d == nil:
				text = fmt.Sprintf("no parameter %q; there are delay, ip-delay, site-delay and views", name)
			case len(q[name]) > 1:
				text = fmt.Sprintf("parameter %s: given more than once; give it once", name)
			case err != nil || v < 0:
				text = fmt.Sprintf("parameter %s: %q is not a duration such as 500ms, or 0", name, q.Get(name))
			default:
				*d = v
				continue
			}
			http.Error(rw, text, http.StatusBadRequest)
			return
		}
		w.Reset(p)
	})
	return mux
}
