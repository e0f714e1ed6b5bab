package dns

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// watched is a Dial that counts the queries of each socket and records which sockets are closed.
type watched struct {
	reply func(socket int, query []byte) [][]byte
	mu    sync.Mutex // guards the fields below
	asked []int
	open  []bool
}

type watchedConn struct {
	*script
	w *watched
	n int
}

func (c *watchedConn) Close() error {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	c.w.open[c.n] = false
	return nil
}

func (w *watched) dial(_ context.Context, network, _ string) (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(w.asked)
	w.asked, w.open = append(w.asked, 0), append(w.open, true)
	return &watchedConn{&script{network: network, reply: func(_ string, q []byte) [][]byte {
		w.mu.Lock()
		w.asked[n]++
		w.mu.Unlock()
		return w.reply(n, q)
	}}, w, n}, nil
}

// A socket sends at most 64 queries, for at most a second, and none after it received anything but
// the reply.
func TestSockets(t *testing.T) {
	good := func(_ int, q []byte) [][]byte { return [][]byte{answer(q, "192.0.2.1")} }
	for _, tc := range []struct {
		name    string
		reply   func(int, []byte) [][]byte
		lookups int
		pause   time.Duration
		want    []int // queries of each socket
		open    int   // open sockets at the end
	}{
		{"many", good, 130, 0, []int{64, 64, 2}, 1},
		{"slow", good, 7, 300 * time.Millisecond, []int{4, 3}, 1},
		{"rare", good, 3, time.Second, []int{1, 1, 1}, 1},
		{"forgery first", func(s int, q []byte) [][]byte {
			bad := answer(q, "192.0.2.66")
			bad[0]++
			return [][]byte{bad, answer(q, "192.0.2.1")}
		}, 3, 0, []int{1, 1, 1}, 0},
		{"silence", func(s int, q []byte) [][]byte {
			if s%2 == 0 {
				return nil
			}
			return [][]byte{answer(q, "192.0.2.1")}
		}, 3, 0, []int{1, 3}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &watched{reply: tc.reply}
				r := open(t, Config{Servers: []string{"192.0.2.53"}, Dial: w.dial})
				for i := range tc.lookups {
					must.Get(r.Lookup(t.Context(), fmt.Sprintf("h%d.example", i)))(t)
					time.Sleep(tc.pause)
				}
				if !slices.Equal(w.asked, tc.want) {
					t.Errorf("got %v queries a socket, want %v", w.asked, tc.want)
				}
				count := func() (n int) {
					for _, open := range w.open {
						if open {
							n++
						}
					}
					return n
				}
				if got := count(); got != tc.open {
					t.Errorf("%d sockets are open, want %d", got, tc.open)
				}
				r.Close()
				if got := count(); got != 0 {
					t.Errorf("%d sockets are open after Close, want 0", got)
				}
			})
		})
	}
}

// Two concurrent queries never share a socket, and each has its own id.
func TestSocketsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		busy := map[int]bool{}
		w := &watched{}
		w.reply = func(s int, q []byte) [][]byte {
			mu.Lock()
			if busy[s] {
				t.Errorf("socket %d has two queries at once", s)
			}
			busy[s] = true
			mu.Unlock()
			time.Sleep(10 * time.Millisecond)
			mu.Lock()
			busy[s] = false
			mu.Unlock()
			return [][]byte{answer(q, "192.0.2.1")}
		}
		r := open(t, Config{Servers: []string{"192.0.2.53"}, Dial: w.dial, Concurrency: 8})
		var wg sync.WaitGroup
		for i := range 200 {
			wg.Go(func() {
				if _, err := r.Lookup(t.Context(), fmt.Sprintf("h%d.example", i)); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if n := len(w.asked); n > 8 {
			t.Errorf("got %d sockets for 8 queries at once, want at most 8", n)
		}
	})
}

// relieved counts the calls of a disk.Spare.
type relieved int

func (n *relieved) Relieve() { *n++ }

// A shortage of file descriptors is not the name server's failure: the resolver asks again when it
// is over. Meanwhile it asks the caller to close what it can spare.
func TestShortage(t *testing.T) {
	for _, network := range []string{"udp", "tcp"} {
		t.Run(network, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var spare relieved
				began := time.Now()
				w := &watched{reply: func(_ int, q []byte) [][]byte {
					r := answer(q, "192.0.2.1")
					if network == "tcp" && time.Since(began) < 20*time.Second {
						r[2] |= 2 // truncated
					}
					return [][]byte{r}
				}}
				r, err := New(Config{
					Servers: []string{"192.0.2.53"}, Spare: &spare,
					Dial: func(ctx context.Context, n, addr string) (net.Conn, error) {
						if n == network && time.Since(began) < 20*time.Second {
							err := os.NewSyscallError("socket", syscall.EMFILE)
							return nil, &net.OpError{Op: "dial", Net: n, Err: err}
						}
						return w.dial(ctx, n, addr)
					},
				})
				must.Do(t, err)
				defer r.Close()
				ans, err := r.Lookup(t.Context(), "a.example")
				took := time.Since(began)
				if err != nil || len(ans.Addrs) != 1 || took < 20*time.Second || took > 21*time.Second {
					t.Errorf("got %v, %v after %v, want one address after 20 s to 21 s", ans, err, took)
				}
				if spare == 0 {
					t.Error("Relieve was not called")
				}
			})
		})
	}
}
