package fetch

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// A slowPacer lets requests wait for a time, and so does each read after the first.
type slowPacer struct {
	send, next time.Duration
	sent, got  int
	expected   int64
}

func (p *slowPacer) Send(ctx context.Context) error { p.sent++; return wait(ctx, p.send) }

func (p *slowPacer) Next(ctx context.Context) (int, error) {
	if p.got == 0 {
		return 20, nil
	}
	return 20, wait(ctx, p.next)
}

func (p *slowPacer) Expect(n int64) { p.expected = n }

func (p *slowPacer) Receive(n int) { p.got += n }

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// The time that a pacer takes is not the server's: no timeout ends the fetch, and the response does not count it.
func TestPacer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reply := "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
		f, _ := piped(t, shortTimes, func(c net.Conn) {
			defer c.Close()
			answer([]byte(reply), true)(c)
		})
		defer f.Close()
		p := &slowPacer{send: time.Minute, next: time.Minute}
		began := time.Now()
		r := mustFetch(t, f, Request{URL: mustURL(t, "http://a.example/"), Pacer: p})
		if outcome(r) != "complete" || r.Duration > time.Second || r.Began.Sub(began) != time.Minute {
			t.Errorf("%s, took %s, began after %s", outcome(r), r.Duration, r.Began.Sub(began))
		}
		if p.sent != 1 || p.got != len(reply) || p.expected != int64(len(reply)) {
			t.Errorf("%d requests, %d bytes, %d expected, want 1 and %d", p.sent, p.got, p.expected, len(reply))
		}
		r.Release()

		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, err := f.Fetch(ctx, Request{URL: mustURL(t, "http://a.example/"), Pacer: p}); !errors.Is(err,
			context.DeadlineExceeded) {
			t.Errorf("a fetch that ends before its turn: %v", err)
		}
	})
}
