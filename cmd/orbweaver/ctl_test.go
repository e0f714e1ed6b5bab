package main

import (
	"bytes"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/orbweaver/orbweaver/internal/node"
)

// rude is a listener that closes its first connections, as an agent under a flood of
// connections does: some with a reset.
type rude struct {
	net.Listener
	left atomic.Int32
}

func (l *rude) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil || l.left.Add(-1) < 0 {
			return conn, err
		}
		if l.left.Load()%2 == 0 {
			conn.(*net.TCPConn).SetLinger(0)
		}
		conn.Close()
	}
}

func TestCtlInsists(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &rude{Listener: ln}
	l.left.Store(5)
	var asked atomic.Int32
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		w.Write([]byte(r.Method + " " + r.URL.Path + " " + r.Header.Get("Authorization")))
	})}
	done := make(chan struct{})
	go func() { defer close(done); server.Serve(l) }()
	t.Cleanup(func() { server.Close(); <-done })

	dir := t.TempDir()
	access, err := json.Marshal(node.APIAccess{Addr: ln.Addr().String(), Token: "x"})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "state"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, node.APIFile), access, 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	c := CtlCmd{Dir: dir}
	if err := c.ask(&out, "POST", "/leave"); err != nil || out.String() != "POST /leave Bearer x" || asked.Load() != 1 {
		t.Errorf("got %q, %v, asked %d times", out.String(), err, asked.Load())
	}
	if l.left.Load() != -1 {
		t.Errorf("%d connections are left", l.left.Load())
	}
}
