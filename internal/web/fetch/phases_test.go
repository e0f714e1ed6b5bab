package fetch

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// seconds are what a Histogram has counted.
type seconds []float64

func (s *seconds) Observe(n float64) { *s = append(*s, n) }

// Each phase is counted once with its time, without the time of a pacer. A kept connection has only the last two, and a
// phase that fails is not counted.
func TestPhases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca := newAuthority(t)
		secure := serveTLS(ca.config("a.example"), func(c net.Conn) {
			for br := bufio.NewReader(c); ; {
				if _, err := readRequest(br); err != nil {
					return
				}
				time.Sleep(2 * time.Second)
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe")
				time.Sleep(3 * time.Second)
				_, _ = io.WriteString(c, "llo")
			}
		})
		var connect, handshake, wait, receive seconds
		cfg := shortTimes
		cfg.CA, cfg.Phases = ca.pool, Phases{&connect, &handshake, &wait, &receive}
		f, n := piped(t, cfg, func(c net.Conn) {
			time.Sleep(300 * time.Millisecond)
			secure(c)
		})
		f.cfg.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			time.Sleep(time.Second)
			return n.dial(ctx, network, addr)
		}
		for _, c := range []struct {
			name, url string
			pacer     Pacer
			ends      string
			want      string
		}{
			{"new", "https://a.example/", nil, "complete", "[1] [0.3] [2] [3]"},
			{"kept", "https://a.example/", nil, "complete", "[1] [0.3] [2 2] [3 3]"},
			{"paced", "https://a.example/", &slowPacer{send: time.Minute, next: time.Minute}, "complete",
				"[1] [0.3] [2 2 2] [3 3 0]"}, // the server sends the rest while the pacer holds the fetch back
			{"failed", "https://b.example/", nil, "tls", "[1 1] [0.3] [2 2 2] [3 3 0]"},
		} {
			r := mustFetch(t, f, Request{URL: mustURL(t, c.url), Pacer: c.pacer})
			got := fmt.Sprint(connect, handshake, wait, receive)
			if outcome(r) != c.ends || got != c.want {
				t.Errorf("%s: %s, %s, want %s, %s", c.name, outcome(r), got, c.ends, c.want)
			}
		}
	})
}
