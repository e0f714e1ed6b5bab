package testweb

import (
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
)

// TestIdleConnectionsAreCheap: a connection that waits for its next request, or for a server that hangs, holds no
// buffer and has a small stack.
func TestIdleConnectionsAreCheap(t *testing.T) {
	testtier.OnlyIdle(t, "it compares the memory of 1,500 connections")
	for path, size := range map[string]int{"/1": 22300, "/hang": 100, "/wait": 0} {
		t.Run(path[1:], func(t *testing.T) { idleConnections(t, path, size) })
	}
}

func idleConnections(t *testing.T, path string, size int) {
	const n, most = 1500, 16 << 10
	w := serving(t, Config{Origin: &fakeOrigin{hosts: 10000, pages: 100, size: 22300, replies: map[string]Reply{
		"/hang": {Status: 200, Page: 2, Fault: HangAfter, Cut: 100},
		"/wait": {Status: 200, Page: 3, Wait: time.Hour},
	}}})
	used := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapInuse + m.StackInuse)
	}
	before := used()
	buf := make([]byte, 64<<10)
	for range n {
		fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
		must.Do(t, err)
		defer syscall.Close(fd)
		to := &syscall.SockaddrInet4{Port: w.HTTPPort(), Addr: [4]byte{127, 0, 0, 1}}
		must.Do(t, syscall.Connect(fd, to))
		must.Get(syscall.Write(fd, []byte("GET "+path+" HTTP/1.1\r\nHost: h1.made.example\r\n\r\n")))(t)
		for got := 0; got < size; {
			k, err := syscall.Read(fd, buf)
			if err != nil || k == 0 {
				t.Fatalf("read: %d, %v", k, err)
			}
			got += k
		}
	}
	until(t, "all answered or waiting", func() bool { k := w.Count(); return k.Pages == n || k.Active == n })
	per := (used() - before) / n
	t.Logf("%d bytes for each connection", per)
	if per > most {
		t.Errorf("got %d bytes for each connection, want at most %d", per, most)
	}
}
