package testweb

import (
	"bufio"
	"bytes"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A RawFunc answers a request with any bytes, which need not be HTTP. If keep is true, the connection stays open for
// another request.
type RawFunc func(c *RawConn, req *http.Request) (keep bool)

// RawConn is the connection on which a RawFunc writes. It belongs to the goroutine of the RawFunc.
type RawConn struct {
	conn *conn
	in   *bufio.Reader
	web  *Web
	r    *request
	err  error
}

// Write sends p unchanged. An error means that the client has closed.
func (c *RawConn) Write(p []byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	if c.r.status == 0 && len(p) >= 12 && bytes.HasPrefix(p, []byte("HTTP/")) {
		if i := bytes.IndexByte(p, ' '); i > 0 && i+4 <= len(p) {
			c.r.status, _ = strconv.Atoi(string(p[i+1 : i+4]))
		}
		header, _, _ := bytes.Cut(p, []byte("\r\n\r\n"))
		c.r.coded = bytes.Contains(bytes.ToLower(header), []byte("\ncontent-encoding:"))
	}
	n, err := c.conn.Write(p)
	c.r.bytes += int64(n)
	c.err = err
	return n, err
}

// WriteString is Write for a string.
func (c *RawConn) WriteString(s string) error {
	_, err := c.Write([]byte(s))
	return err
}

// Wait waits for d. It reports whether the client is still connected and the Web is still running.
func (c *RawConn) Wait(d time.Duration) bool {
	if c.err != nil {
		return false
	}
	until := time.Now().Add(d)
	for {
		select {
		case <-c.web.shut:
			c.err = net.ErrClosed
			return false
		default:
		}
		left := time.Until(until)
		if left <= 0 {
			return true
		}
		// Wake up now and then: the Web may shut down, and bytes that the client sends meanwhile may hide that it has
		// closed.
		left = min(left, 200*time.Millisecond)
		if c.in.Buffered() > 0 {
			time.Sleep(min(left, 20*time.Millisecond))
			if peerClosed(c.conn.tcp) {
				c.err = net.ErrClosed
				return false
			}
			continue
		}
		c.conn.SetReadDeadline(time.Now().Add(left))
		_, err := c.in.Peek(1)
		c.conn.SetReadDeadline(time.Time{})
		if err != nil && !isTimeout(err) {
			c.err = err
			return false
		}
	}
}

// Hang waits until the client closes.
func (c *RawConn) Hang() { c.Wait(24 * time.Hour) }

// Reset closes the connection with RST.
func (c *RawConn) Reset() {
	c.conn.reset()
	c.err = net.ErrClosed
}

// serveRaw takes the connection from net/http and lets f answer its requests.
func (w *Web) serveRaw(f RawFunc, rw *recorder, req *http.Request) {
	k := req.Context().Value(connKey{}).(*conn)
	k.raws.Add(1)
	defer k.raws.Done()
	rw.hijacked = true
	_, buf, err := http.NewResponseController(rw.ResponseWriter).Hijack()
	if err != nil {
		rw.failed = true
		return
	}
	defer k.Close()
	k.SetDeadline(time.Time{})
	c := &RawConn{conn: k, in: buf.Reader, web: w, r: rw.r}
	for {
		keep := f(c, req)
		if c.err == nil {
			k.complete(c.r)
		}
		if !keep || c.err != nil {
			return
		}
		k.finish(false)
		k.SetReadDeadline(time.Now().Add(time.Minute))
		req, err = http.ReadRequest(c.in)
		if err != nil || !strings.EqualFold(hostOnly(req.Host), rw.r.host.extra.name) {
			return
		}
		k.SetReadDeadline(time.Time{})
		old := c.r
		c.r = newRequest(k, w.track.hostOf(old.host.extra.name, old.host.extra.site), req.RequestURI, req.Method)
		c.r.file = isFile(req.Header.Get("Sec-Fetch-Dest"))
		k.start(c.r, req.ContentLength != 0)
		w.track.begin(k, c.r)
		if !c.Wait(k.latency()) {
			return
		}
	}
}

func hostOnly(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		return h
	}
	return host
}

// RawReplies returns a site of raw responses and their names. The site answers /NAME with the bytes of the file
// NAME.http in dir, and then closes the connection. The path / links to all of them.
func RawReplies(dir string) (RawFunc, []string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, err
	}
	replies := map[string][]byte{}
	var names []string
	var index strings.Builder
	index.WriteString("<!doctype html><title>Raw replies</title><ul>\n")
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".http")
		if !ok {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, nil, err
		}
		replies["/"+name] = b
		names = append(names, name)
		index.WriteString("<li><a href=\"/" + name + "\">" + name + "</a>\n")
	}
	page := okPage(index.String())
	return func(c *RawConn, req *http.Request) bool {
		switch b, ok := replies[req.URL.Path]; {
		case ok:
			c.Write(b)
		case req.URL.Path == "/":
			c.WriteString(page)
		default:
			c.WriteString("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		}
		return false
	}, names, nil
}

// okPage returns a whole response with an HTML page.
func okPage(body string) string {
	return "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: " + strconv.Itoa(len(body)) +
		"\r\nConnection: close\r\n\r\n" + body
}
