package admin

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime/pprof"
	"runtime/trace"
	"strconv"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
)

const (
	profilePath = "/debug/pprof/"
	// profileTime is the length of a processor profile or a trace, if the caller names none.
	profileTime = 30 * time.Second
	// longestProfile bounds it.
	longestProfile = 5 * time.Minute
)

// profiles adds the profiles of the process to mux, which must be behind the token. The paths are those of package
// net/http/pprof, so "go tool pprof" and others find them. That package cannot be used: importing it also adds them to
// the default mux of the process, which a program that uses our library may serve to the world.
//
// A profile takes processor time and shows how the process works, so it is answered only over loopback.
func profiles(mux *http.ServeMux) {
	handle := func(path string, h http.HandlerFunc) {
		mux.HandleFunc("GET "+profilePath+path, func(w http.ResponseWriter, r *http.Request) {
			if !overLoopback(r) {
				http.Error(w, "profiles are answered only over loopback: ask on the agent's own machine",
					http.StatusForbidden)
				return
			}
			h(w, r)
		})
	}
	handle("{$}", index)
	handle("{name}", lookup)
	handle("profile", during(func(w io.Writer) (func(), error) {
		return pprof.StopCPUProfile, pprof.StartCPUProfile(w)
	}))
	handle("trace", during(func(w io.Writer) (func(), error) { return trace.Stop, trace.Start(w) }))
}

// index lists the profiles.
func index(w http.ResponseWriter, _ *http.Request) {
	fmt.Fprintln(w, "profile?seconds=30\ntrace?seconds=30")
	for _, p := range pprof.Profiles() {
		fmt.Fprintf(w, "%s?debug=1\t%d\n", p.Name(), p.Count())
	}
}

// lookup writes one profile: compressed, or with debug=1 or 2 as text.
func lookup(w http.ResponseWriter, r *http.Request) {
	p := pprof.Lookup(r.PathValue("name"))
	if p == nil {
		http.Error(w, "there is no such profile; /debug/pprof/ lists them", http.StatusNotFound)
		return
	}
	debug, _ := strconv.Atoi(r.FormValue("debug")) // not a number: compressed
	if w.Header().Set("Content-Type", "application/octet-stream"); debug > 0 {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	}
	_ = p.WriteTo(w, debug) // the caller has hung up
}

// during records until the seconds of the request are over, or the caller has hung up, or the server closes. start
// returns how to end what it has started.
func during(start func(io.Writer) (end func(), err error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		d := profileTime
		if s := r.FormValue("seconds"); s != "" {
			n, err := strconv.ParseFloat(s, 64)
			if d = time.Duration(n * float64(time.Second)); err != nil || !(n > 0) || n > longestProfile.Seconds() {
				http.Error(w, fmt.Sprintf("seconds=%.20q: give a number from 0 to %v", s, longestProfile.Seconds()),
					http.StatusBadRequest)
				return
			}
		}
		var b bytes.Buffer
		// The server bounds the time of an answer. This one takes as long as the caller wants.
		if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(d + writeTimeout)); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		end, err := start(&b)
		if err != nil {
			http.Error(w, "another profile of this kind is being recorded; try again later: "+err.Error(),
				http.StatusServiceUnavailable)
			return
		}
		clock.Pause(r.Context(), d)
		end()
		w.Header().Set("Content-Type", "application/octet-stream")
		_, _ = w.Write(b.Bytes()) // the caller has hung up
	}
}

// overLoopback reports whether both ends of the request's connection are loopback addresses.
func overLoopback(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return false
	}
	for _, addr := range []string{local.String(), r.RemoteAddr} {
		host, _, err := net.SplitHostPort(addr)
		if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
			return false
		}
	}
	return true
}
