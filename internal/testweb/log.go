package testweb

import (
	"io"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"
)

// An Entry describes one finished request. In Log, a URL whose path and query exceed 64 KiB is shortened, and ends in
// its length and a hash.
type Entry struct {
	Began, Ended time.Time
	URL          string
	Method       string
	Status       int
	Bytes        int64 // of the body, as sent
	Conn         int64 // number of the connection, from 1
	Remote       netip.AddrPort
	Aborted      bool // the client closed before the end of the response
	Broken       bool // the site stopped before the end of the response
}

// AppendTSV appends the entry as a line with tabs: begin and end in seconds since 1970 with microseconds, connection,
// method, status, bytes, result (ok, aborted or broken), URL.
func (e Entry) AppendTSV(b []byte) []byte {
	sec := func(t time.Time) {
		us := t.UnixMicro()
		b = strconv.AppendInt(b, us/1e6, 10)
		b = append(b, '.')
		f := strconv.Itoa(int(us%1e6) + 1e6)
		b = append(append(b, f[1:]...), '\t')
	}
	sec(e.Began)
	sec(e.Ended)
	b = append(strconv.AppendInt(b, e.Conn, 10), '\t')
	b = append(append(b, e.Method...), '\t')
	b = append(strconv.AppendInt(b, int64(e.Status), 10), '\t')
	b = append(strconv.AppendInt(b, e.Bytes, 10), '\t')
	switch {
	case e.Aborted:
		b = append(b, "aborted\t"...)
	case e.Broken:
		b = append(b, "broken\t"...)
	default:
		b = append(b, "ok\t"...)
	}
	return append(append(b, e.URL...), '\n')
}

// A requestLog keeps the newest requests and, if Config.Log is set, writes a line for each. It keeps requests to the
// Origin's hosts only if Config.LogEntries is set, because to keep them costs more than to answer them.
type requestLog struct {
	keepOrigin bool // requests to the Origin's hosts are kept too

	mu   sync.Mutex // guards the fields below
	ring []Entry
	n    int64
	out  io.Writer // nil: no lines are written
	line []byte
}

func (l *requestLog) open(cfg Config) {
	n := cfg.LogEntries
	l.keepOrigin = n > 0
	if n <= 0 {
		n = 65536
	}
	l.ring = make([]Entry, n)
	l.out = cfg.Log
}

func (l *requestLog) reset() {
	l.mu.Lock()
	clear(l.ring)
	l.n = 0
	l.mu.Unlock()
}

// add keeps the request and writes its line.
func (l *requestLog) add(t *tracker, r *request, end int64) {
	keep := l.keepOrigin || r.host.named()
	if !keep && l.out == nil {
		return
	}
	e := Entry{
		Began: t.time(r.begin), Ended: t.time(end), URL: r.url(t), Method: r.method, Status: r.status, Bytes: r.bytes,
		Conn: r.conn, Remote: r.remote, Aborted: r.aborted, Broken: !r.complete && !r.aborted,
	}
	l.mu.Lock()
	if keep {
		l.ring[l.n%int64(len(l.ring))] = e
		l.n++
	}
	if l.out != nil {
		switch { // a line may have the whole URL
		case r.asked != "":
			e.URL = r.asked
		case r.path != r.target:
			e.URL = r.with(t, r.target)
		}
		l.line = e.AppendTSV(l.line[:0])
		l.out.Write(l.line) // the caller of New notices the error
	}
	l.mu.Unlock()
}

// close ends the writing of lines.
func (l *requestLog) close() {
	l.mu.Lock()
	l.out = nil
	l.mu.Unlock()
}

// Log returns the newest finished requests, at most Config.LogEntries, in order of their begin.
func (w *Web) Log() []Entry {
	l := &w.track.log
	l.mu.Lock()
	n := min(l.n, int64(len(l.ring)))
	es := slices.Clone(l.ring[:n])
	l.mu.Unlock()
	slices.SortStableFunc(es, func(a, b Entry) int { return a.Began.Compare(b.Began) })
	return es
}
