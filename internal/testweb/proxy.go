package testweb

import (
	"bytes"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// A Web is also an HTTP proxy to itself, for crawlers that cannot use its name server and ports:
//
//	GET http://HOST/PATH   the request is served like one that came to HOST directly
//	CONNECT HOST:443       the connection becomes one to the address of HOST, for HTTPS
//
// A name without an address, known or not, is answered with 502 or 504, as by a proxy that cannot look it up. Such a
// request reaches no server: it is counted and in the log, but no promise applies to it. Requests in plain HTTP all
// come to the address of the proxy, so the report's facts by address say nothing about them.

// isAbsolute reports whether a request target is in absolute form, as for a proxy (RFC 9112, 3.2.2).
func isAbsolute(target string) bool {
	return target != "" && target[0] != '/' && strings.Index(target, "://") > 0
}

// gatewayStatus is the status with which a proxy answers a request for a host with a DNS fault.
func gatewayStatus(f DNSFault) int {
	if f == NoAnswer {
		return http.StatusGatewayTimeout
	}
	return http.StatusBadGateway
}

// refusal returns the status with which the proxy refuses a request, and the reason. The status is 0 if the proxy
// passes the request on. CONNECT is refused if the caller of New has opened the sockets, because their ports may belong
// to others in this network namespace.
func (w *Web) refusal(req *http.Request, c *conn) (status int, why string) {
	host, port, err := net.SplitHostPort(req.Host)
	if err != nil {
		host, port = req.Host, "80"
	}
	_, fault := w.resolve(host)
	switch {
	case req.Method == http.MethodConnect && (c.secure || w.cfg.Sockets != nil):
		return http.StatusMethodNotAllowed, ""
	case fault != "":
		return gatewayStatus(fault), "no address of " + host
	case w.ports[port] == "" || err != nil && req.Method == http.MethodConnect:
		return http.StatusBadGateway, req.Host + ": the test web does not have this port"
	}
	return 0, ""
}

// tunnel answers a CONNECT request, and gives the client's connection to the servers as one to the host. A second
// connection would outlive the client's for a moment, and the client would be blamed for it.
func (w *Web) tunnel(rw http.ResponseWriter, req *http.Request, c *conn) {
	host, port, _ := net.SplitHostPort(req.Host)
	local, _ := w.Lookup(host) // refusal has checked both
	f := w.front
	f.loops.Add(1) // before Hijack, after which net/http does not wait for the connection
	_, buf, err := http.NewResponseController(rw).Hijack()
	if err != nil {
		f.loops.Done()
		return
	}
	c.SetDeadline(time.Time{})
	if _, err := c.Write([]byte("HTTP/1.1 200 Connection established\r\n\r\n")); err != nil {
		c.Close()
		f.loops.Done()
		return
	}
	ahead, _ := buf.Reader.Peek(buf.Reader.Buffered())
	c.leave()
	secure := w.ports[port] == strconv.Itoa(w.HTTPSPort())
	k := w.newConn(c.tcp, local, secure, bytes.Join([][]byte{ahead, c.pre}, nil), c.raws, c.live)
	if w.cfg.Origin != nil {
		go f.run(k)
		return
	}
	f.handOver(k)
	f.loops.Done()
}

// leave ends the conn, but not its TCP connection.
func (c *conn) leave() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.web.track.closed(c)
	c.live.del(c)
}
