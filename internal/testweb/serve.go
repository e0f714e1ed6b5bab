package testweb

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
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
	if req.Method == http.MethodConnect {
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
		state = w.track.hostOf("(unknown)", nil) // one entry for all names, so that clients cannot fill the memory
	default:
		state = w.track.hostOf(host, st)
	}
	target := req.RequestURI
	var fault DNSFault                                                // of a host that is asked through the proxy
	if i := strings.Index(target, "://"); i > 0 && target[0] != '/' { // absolute form (RFC 9112, 3.2.2)
		_, rest, _ := strings.Cut(target[i+3:], "/")
		target = "/" + rest
		_, fault = w.resolve(host)
	}
	r := newRequest(c, state, target, req.Method)
	r.port = w.portOf(req.Host)
	rec := &recorder{ResponseWriter: rw, r: r, c: c}
	if isOrigin && fault == "" && w.serveOrigin(rec, c, req, number) {
		return
	}
	c.start(r, req.ContentLength != 0)
	w.track.begin(c, r)
	if d := c.latency(); d > 0 && !pause(w, req, d) {
		panic(http.ErrAbortHandler)
	}
	switch {
	case fault != "" && (st != nil || isOrigin): // unknown names get a page that says which hosts there are
		http.Error(rec, "no address of "+host, gatewayStatus(fault))
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

// refuse answers a method that the Origin does not support. robots.txt applies to every method, so refuse asks the
// Origin whether it forbids the target.
func (w *Web) refuse(rw *recorder, c *conn, host int64) {
	if r := rw.r; strings.HasPrefix(r.target, "/") {
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
//	GET  /.testweb/ca.pem   the certificate of the authority
//	POST /.testweb/reset    forget everything; the parameters delay, ip-delay and site-delay change the promise
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
	mux.HandleFunc("GET /.testweb/ca.pem", func(rw http.ResponseWriter, _ *http.Request) { rw.Write(w.CAPEM()) })
	mux.HandleFunc("POST /.testweb/reset", func(rw http.ResponseWriter, req *http.Request) {
		p := w.track.promised()
		q := req.URL.Query()
		delays := map[string]*time.Duration{
			"delay": &p.HostDelay, "ip-delay": &p.AddrDelay, "site-delay": &p.SiteDelay,
		}
		for name, d := range delays {
			if !q.Has(name) {
				continue
			}
			v, err := time.ParseDuration(q.Get(name))
			if err != nil {
				text := fmt.Sprintf("parameter %s: %v; want a duration such as 500ms", name, err)
				http.Error(rw, text, http.StatusBadRequest)
				return
			}
			*d = v
		}
		w.Reset(p)
	})
	return mux
}
