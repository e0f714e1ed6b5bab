package testweb

import (
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// A Web is also an HTTP proxy to itself, for crawlers that cannot use its name server and ports:
//
//	GET http://HOST/PATH   the request is served like one that came to HOST directly
//	CONNECT HOST:443       the bytes are passed on to the listener for HTTPS, at the address of HOST
//
// A host without an address is answered with 502 or 504, as by a proxy that cannot look it up. Requests in plain HTTP
// all come to the address of the proxy, so the report's facts by address say nothing about them.

// gatewayStatus is the status with which a proxy answers a request for a host with a DNS fault.
func gatewayStatus(f DNSFault) int {
	if f == NoAnswer {
		return http.StatusGatewayTimeout
	}
	return http.StatusBadGateway
}

// tunnel answers a CONNECT request, and passes on bytes until both ends have closed. It is refused if the caller of New
// has opened the sockets, because their ports may belong to others in this network namespace.
func (w *Web) tunnel(rw http.ResponseWriter, req *http.Request, c *conn) {
	if c.secure || w.cfg.Sockets != nil {
		rw.Header().Set("Allow", "GET, HEAD")
		rw.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	host, port, err := net.SplitHostPort(req.Host)
	if err != nil || w.ports[port] == "" {
		http.Error(rw, "CONNECT "+req.Host+": the test web does not have this port", http.StatusBadGateway)
		return
	}
	if _, fault := w.resolve(host); fault != "" {
		http.Error(rw, "CONNECT "+req.Host+": no address", gatewayStatus(fault))
		return
	}
	up, err := w.DialContext(req.Context(), "tcp", req.Host)
	if err != nil {
		http.Error(rw, "CONNECT "+req.Host+": no connection", http.StatusBadGateway)
		return
	}
	defer up.Close()
	c.raws.Add(1)
	defer c.raws.Done()
	_, buf, err := http.NewResponseController(rw).Hijack()
	if err != nil {
		return
	}
	defer c.Close()
	c.SetDeadline(time.Time{})
	if _, err := c.Write([]byte("HTTP/1.1 200 Connection established\r\n\r\n")); err != nil {
		return
	}
	var both sync.WaitGroup
	both.Go(func() {
		io.Copy(up, buf.Reader) // an error ends the tunnel
		up.(*net.TCPConn).CloseWrite()
	})
	io.Copy(c.tcp, up)
	c.tcp.CloseWrite()
	both.Wait()
}
