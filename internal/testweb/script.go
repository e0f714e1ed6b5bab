package testweb

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// A Rule is one way in which a site misbehaves or answers. It applies to the requests that Path, First and Every
// select. Wait alone delays the ordinary answer; the other fields replace it.
type Rule struct {
	// Path is a prefix of the URL path. Empty means every path but /robots.txt.
	Path string
	// First limits the rule to the first n requests that match Path; zero: no limit.
	First int64
	// Every limits the rule to each k-th request that matches Path; zero: no limit.
	Every int64
	// Wait is the time before the answer.
	Wait time.Duration
	// Hang never answers, Reset closes the connection with RST, Empty closes it without sending a byte.
	Hang, Reset, Empty bool
	// Status, Location, RetryAfter (in whole seconds), Header and Body make up the answer.
	Status     int
	Location   string
	RetryAfter time.Duration
	Header     map[string]string
	Body       string
}

type ruleState struct {
	Rule
	n *atomic.Int64 // requests that matched Path
}

func newRuleStates(rs []Rule) []ruleState {
	out := make([]ruleState, len(rs))
	for i, r := range rs {
		out[i] = ruleState{r, new(atomic.Int64)}
	}
	return out
}

// applyRules answers with the first rule that applies. It reports whether one did.
func applyRules(rs []ruleState, w *Web, rw *recorder, req *http.Request) bool {
	for i := range rs {
		r := &rs[i]
		if r.Path == "" && req.URL.Path == "/robots.txt" || !strings.HasPrefix(req.URL.Path, r.Path) {
			continue
		}
		n := r.n.Add(1)
		if r.First > 0 && n > r.First || r.Every > 0 && n%r.Every != 0 {
			continue
		}
		if r.Wait > 0 && !pause(w, req, r.Wait) {
			panic(http.ErrAbortHandler)
		}
		switch {
		case r.Hang:
			pause(w, req, 24*time.Hour)
			panic(http.ErrAbortHandler)
		case r.Reset:
			req.Context().Value(connKey{}).(*conn).reset()
			panic(http.ErrAbortHandler)
		case r.Empty:
			panic(http.ErrAbortHandler)
		case r.Status == 0 && r.Location == "" && r.Body == "":
			continue
		}
		h := rw.Header()
		for k, v := range r.Header {
			h.Set(k, v)
		}
		if r.Location != "" {
			h.Set("Location", r.Location)
		}
		if r.RetryAfter > 0 {
			h.Set("Retry-After", strconv.Itoa(int(r.RetryAfter.Seconds())))
		}
		status := r.Status
		if status == 0 && r.Location != "" {
			status = http.StatusFound
		}
		if h.Get("Content-Type") == "" && r.Body != "" {
			h.Set("Content-Type", "text/html; charset=utf-8")
		}
		if status != 0 {
			rw.WriteHeader(status)
		}
		io.WriteString(rw, r.Body)
		return true
	}
	return false
}

// pause waits for d. It reports whether the client is still connected and the Web still running then.
func pause(w *Web, req *http.Request, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-req.Context().Done():
	case <-w.shut:
	}
	return false
}

// Documents are a Handler of responses that are made once. Its fields and documents are set before it serves.
type Documents struct {
	Modified time.Time // of all documents
	Missing  string    // the HTML of a 404
	Gzip     bool      // compresses text for clients that accept it
	files    map[string]*file
}

// Add adds a document at a path with a query. It also answers other queries, if the path has no document with these.
func (d *Documents) Add(target, ctype string, data []byte) {
	d.put(target, made(ctype, data, d.Modified))
}

// Redirect adds a redirect to a URL.
func (d *Documents) Redirect(target, to string, status int) {
	d.put(target, &file{redirect: to, status: status})
}

func (d *Documents) put(target string, f *file) {
	if d.files == nil {
		d.files = map[string]*file{}
	}
	d.files[target] = f
}

func (d *Documents) ServeHTTP(rw http.ResponseWriter, req *http.Request) {
	f := d.files[req.URL.RequestURI()]
	switch {
	case f != nil && f.redirect != "":
		http.Redirect(rw, req, f.redirect, f.status)
	case f != nil:
		f.serve(rw, req, d.Gzip)
	case d.Missing != "":
		rw.Header().Set("Content-Type", "text/html; charset=utf-8")
		rw.WriteHeader(http.StatusNotFound)
		io.WriteString(rw, d.Missing)
	default:
		notFound(rw, req)
	}
}

// Pages returns a site of a few pages. It maps path and query to HTML. A page that begins with "->" redirects to the
// URL after that.
func Pages(pages map[string]string) http.Handler {
	d := &Documents{Modified: indexTime}
	for target, body := range pages {
		if to, ok := strings.CutPrefix(body, "->"); ok {
			d.Redirect(target, strings.TrimSpace(to), http.StatusFound)
			continue
		}
		path, _, _ := strings.Cut(target, "?")
		d.Add(target, contentType(path, []byte(body)), []byte(body))
	}
	return d
}
