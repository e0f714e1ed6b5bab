//go:build unix

// Package testcost answers: what does this process spend in a benchmark? To leave out the
// cost of a server, the server runs in another process.
//
// Only tests import this package.
package testcost

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	// address is the variable with the first line of a server that runs already.
	address = "ORBWEAVER_BENCH_SERVER"
	// serve is the variable that makes the test TestBenchServer serve.
	serve = "ORBWEAVER_BENCH_SERVE"
)

// CPU returns the user and system time of this process so far.
func CPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Heap returns the bytes of the heap in use, after a collection that also empties pools.
func Heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // frees what the first collection has moved out of the pools
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// StartServer runs TestBenchServer of this test binary in another process until b ends, and
// returns its first line of output. If ORBWEAVER_BENCH_SERVER is set, StartServer returns its
// value instead.
func StartServer(b *testing.B) string {
	b.Helper()
	if line := os.Getenv(address); line != "" {
		return line
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestBenchServer$")
	cmd.Env = append(os.Environ(), serve+"=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	r := bufio.NewReader(out)
	b.Cleanup(func() { in.Close(); io.Copy(io.Discard, r); cmd.Wait() })
	line, err := r.ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// IsServer skips t unless StartServer runs it. The process ends when the benchmark ends.
func IsServer(t *testing.T) {
	t.Helper()
	if os.Getenv(serve) == "" {
		t.Skip("only a benchmark runs this server")
	}
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
}
