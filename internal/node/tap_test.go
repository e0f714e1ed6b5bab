package node_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
)

// A tap is a network without keys that shows the calls which agents make to each other.
type tap struct {
	rpc.Network
	// heard is called with each request of a call, decompressed. Safe for concurrent use.
	heard func(path, caller string, body []byte)
	// answered returns what the caller gets in place of the answer of an address. Safe for concurrent use.
	answered func(addr, path string, body []byte) []byte
}

// Dial connects through a proxy, unless the stream carries gossip.
func (t *tap) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := t.Network.Dial(ctx, network, addr)
	if err != nil || network != "tcp" {
		return conn, err
	}
	here, there := net.Pipe()
	go t.carry(there, conn, addr)
	return &namedConn{here, conn}, nil
}

// A namedConn is a connection with the addresses of another one.
type namedConn struct {
	net.Conn
	of net.Conn
}

func (c *namedConn) LocalAddr() net.Addr  { return c.of.LocalAddr() }
func (c *namedConn) RemoteAddr() net.Addr { return c.of.RemoteAddr() }

// http2Begins begins a connection of calls.
const http2Begins = "PRI * HTTP/2.0"

// carry connects two ends of a stream to an address.
func (t *tap) carry(there, conn net.Conn, addr string) {
	in := bufio.NewReader(there)
	first, err := in.Peek(1)
	if err == nil && first[0] == http2Begins[0] {
		first, err = in.Peek(len(http2Begins))
	}
	read := &tappedConn{Conn: there, r: in, other: conn}
	if err == nil && string(first) == http2Begins {
		t.serve(read, &tappedConn{Conn: conn, r: conn, other: there}, addr)
		return
	}
	go func() {
		io.Copy(conn, read)
		conn.Close()
	}()
	io.Copy(there, conn)
	there.Close()
	conn.Close()
}

// A tappedConn closes the other end with itself.
type tappedConn struct {
	net.Conn
	r     io.Reader
	other net.Conn
	once  sync.Once
	ended chan struct{}
}

func (c *tappedConn) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	if err == io.EOF {
		c.other.Close()
	}
	return n, err
}

func (c *tappedConn) Close() error {
	c.once.Do(func() {
		if c.ended != nil {
			close(c.ended)
		}
	})
	c.other.Close()
	return c.Conn.Close()
}

// serve passes on the calls of one connection to an address.
func (t *tap) serve(there, conn *tappedConn, addr string) {
	tr := &http.Transport{Protocols: new(http.Protocols), DisableCompression: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil }}
	tr.Protocols.SetUnencryptedHTTP2(true)
	defer tr.CloseIdleConnections()
	quiet := log.New(io.Discard, "", 0)
	proxy := &httputil.ReverseProxy{Transport: tr, ErrorLog: quiet, Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host = "http", r.In.Host
		if !isStream(r.In.Header) {
			r.Out.Header.Del("Accept-Encoding")
		}
	}, ModifyResponse: func(res *http.Response) error {
		if isStream(res.Header) {
			return nil
		}
		body, err := io.ReadAll(res.Body)
		if err != nil {
			return err
		}
		res.Body.Close()
		body = t.answered(addr, res.Request.URL.Path, body)
		res.Body, res.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		res.Header.Set("Content-Length", strconv.Itoa(len(body)))
		return nil
	}}
	s := &http.Server{Protocols: new(http.Protocols), ErrorLog: quiet,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer func() { // the proxy panics if the answer breaks off
				if recover() != nil {
					panic(http.ErrAbortHandler)
				}
			}()
			if !isStream(r.Header) {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					panic(http.ErrAbortHandler)
				}
				r.Body = io.NopCloser(bytes.NewReader(body))
				if plain, err := unpacked(r.Header.Get("Content-Encoding"), body); err == nil {
					t.heard(r.URL.Path, r.Header.Get(callerHeader), plain)
				}
			}
			proxy.ServeHTTP(w, r)
		})}
	s.Protocols.SetUnencryptedHTTP2(true)
	there.ended = make(chan struct{})
	s.Serve(&oneConn{c: there})
	s.Close()
}

func isStream(h http.Header) bool { return strings.Contains(h.Get("Content-Type"), "connect") }

// callerHeader is the header in which an agent says who it is.
const callerHeader = "Orbweaver-Caller"

func unpacked(encoding string, body []byte) ([]byte, error) {
	if encoding != "zstd" {
		return body, nil
	}
	d, err := zstd.NewReader(bytes.NewReader(body), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return io.ReadAll(d)
}

// A oneConn is a listener with one connection. It ends with the connection.
type oneConn struct {
	c     *tappedConn
	given bool
}

func (o *oneConn) Accept() (net.Conn, error) {
	if !o.given {
		o.given = true
		return o.c, nil
	}
	<-o.c.ended
	return nil, io.EOF
}

func (o *oneConn) Close() error   { return nil }
func (o *oneConn) Addr() net.Addr { return o.c.LocalAddr() }
