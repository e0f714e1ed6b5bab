package fetch

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// drip serves head at once, and then text: part bytes in each interval.
func drip(head, text string, part int, every time.Duration) func(net.Conn) {
	return func(c net.Conn) {
		br := bufio.NewReader(c)
		if _, err := readRequest(br); err != nil {
			return
		}
		if _, err := io.WriteString(c, head); err != nil {
			return
		}
		for at := 0; at < len(text); at += part {
			time.Sleep(every)
			if _, err := io.WriteString(c, text[at:min(at+part, len(text))]); err != nil {
				return
			}
		}
		io.Copy(io.Discard, br)
	}
}

func chunked(text string, size int) string {
	var b strings.Builder
	for at := 0; at < len(text); at += size {
		part := text[at:min(at+size, len(text))]
		fmt.Fprintf(&b, "%x\r\n%s\r\n", len(part), part)
	}
	return b.String() + "0\r\n\r\n"
}

// A response that is faster than MinRate is read to its end. A slower one is cut off.
func TestMinRate(t *testing.T) {
	text := strings.Repeat("x", 20<<10)
	length := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", len(text))
	const byChunks = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	for _, c := range []struct {
		name       string
		head, text string
		part       int
		every      time.Duration
		cfg        Config
		want       string
		from, to   time.Duration
	}{
		{"1 KB/s", length, text, 1000, time.Second, Config{}, "complete ", 20 * time.Second, 22 * time.Second},
		{"120 B/s, in bursts", length, text, 3480, 29 * time.Second, Config{IdleTimeout: time.Minute}, "complete ",
			170 * time.Second, 175 * time.Second},
		{"1 byte in 8 s", length, text, 1, 8 * time.Second, Config{}, "truncated-time timeout-rate",
			30 * time.Second, 32 * time.Second},
		{"1 byte in 8 s, no bound", length, text, 1, 8 * time.Second, Config{MinRate: -1},
			"truncated-time timeout-total", 5 * time.Minute, 5 * time.Minute},
		{"100 B/s, bound of 60", length, text, 100, time.Second, Config{MinRate: 60}, "complete ",
			205 * time.Second, 206 * time.Second},
		{"50 B/s", length, text, 50, time.Second, Config{}, "truncated-time timeout-rate",
			59 * time.Second, 62 * time.Second},
		{"chunks of 1 byte in 8 s", byChunks, chunked(text, 1), 6, 8 * time.Second, Config{},
			"truncated-time timeout-rate", 30 * time.Second, 32 * time.Second},
		{"chunks, 1 KB/s", byChunks, chunked(text, 500), 1000, time.Second, Config{}, "complete ",
			20 * time.Second, 22 * time.Second},
		{"header, 1 byte in 8 s", "", length, 1, 8 * time.Second, Config{}, "timeout-rate ",
			36 * time.Second, 40 * time.Second},
		{"header, 10 B/s", "", length + text, 10, time.Second, Config{}, "truncated-time timeout-rate",
			31 * time.Second, 36 * time.Second},
		{"interim responses", "", strings.Repeat("HTTP/1.1 103 Early\r\n\r\n", 10) + length, 1, 8 * time.Second,
			Config{}, "timeout-rate ", 36 * time.Second, 41 * time.Second},
		{"silence after the header", length, text, len(text), 25 * time.Second, Config{IdleTimeout: time.Minute},
			"complete ", 25 * time.Second, 25 * time.Second},
		{"1000 bytes every 29 s", "", length + text, 1000, 29 * time.Second,
			Config{IdleTimeout: time.Minute, TotalTimeout: time.Hour}, "truncated-time timeout-rate",
			40 * time.Second, 90 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, _ := piped(t, c.cfg, drip(c.head, c.text, c.part, c.every))
				r := must.Get(f.Fetch(context.Background(), Request{URL: mustURL(t, "http://a.example/")}))(t)
				defer r.Release()
				check(t, r)
				if got := outcome(r) + " " + r.Note; got != c.want || r.Duration < c.from || r.Duration > c.to {
					t.Errorf("got %s after %s with %d bytes, want %s after %s to %s", got, r.Duration, r.Wire.Size(),
						c.want, c.from, c.to)
				}
			})
		})
	}
}

// A response that is marked as slow goes to a file from then on, and no byte is lost.
func TestSlowResponseSpills(t *testing.T) {
	for _, coding := range []string{"length", "chunks"} {
		t.Run(coding, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var b bytes.Buffer
				for i := 0; b.Len() < 600<<10; i++ {
					fmt.Fprintln(&b, i)
				}
				text := b.String()
				head := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", len(text))
				wire := text
				if coding == "chunks" {
					head, wire = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", chunked(text, 10_000)
				}
				f, _ := piped(t, Config{SpillDir: t.TempDir()}, drip(head, wire, 100_000, time.Second))
				watch := new(Watch)
				any := func(int64) bool { return true }
				watch.Slow(any)
				watch.Reset()
				held := []int64{watch.Held()}
				watched := make(chan struct{})
				go func() {
					defer close(watched)
					time.Sleep(3500 * time.Millisecond)
					held = append(held, watch.Held())
					watch.Slow(any)
					time.Sleep(time.Second)
					held = append(held, watch.Held())
				}()
				r, err := f.Fetch(context.Background(), Request{URL: mustURL(t, "http://a.example/"), Watch: watch})
				must.Do(t, err)
				defer r.Release()
				check(t, r)
				if got := string(payloadBytes(t, r)); outcome(r) != "complete" || got != text {
					t.Errorf("got %s, %d bytes of %d", outcome(r), len(got), len(text))
				}
				<-watched
				if held[0] != firstBuffer || held[1] < 300_000 || held[2] != firstBuffer {
					t.Errorf("got %d bytes held, want %d, more than 300000, %d", held, firstBuffer, firstBuffer)
				}
			})
		})
	}
}

// TestSlowHeader checks that the header of a slow response takes memory while grow permits it.
// Without permission the fetch fails as too slow.
func TestSlowHeader(t *testing.T) {
	head := "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX: " + strings.Repeat("x", 150<<10) + "\r\n\r\n"
	for _, c := range []struct {
		room int64
		want string
		held int64
	}{
		{1 << 30, "complete", 256 << 10},
		{256<<10 - firstBuffer, "complete", 256 << 10},
		{256<<10 - firstBuffer - 1, "timeout-rate", 128 << 10},
		{0, "timeout-rate", firstBuffer},
	} {
		synctest.Test(t, func(t *testing.T) {
			f, _ := piped(t, Config{}, drip("", head, 10_000, time.Second))
			var watch Watch
			room := c.room
			watch.Slow(func(more int64) bool {
				if room < more {
					return false
				}
				room -= more
				return true
			})
			r, err := f.Fetch(context.Background(), Request{URL: mustURL(t, "http://a.example/"), Watch: &watch})
			must.Do(t, err)
			defer r.Release()
			got, charged := strings.TrimSpace(outcome(r)), c.room-room
			if got != c.want || watch.Held() != c.held || charged != c.held-firstBuffer {
				t.Errorf("room of %d: got %s, %d bytes held, %d charged, want %s, %d",
					c.room, got, watch.Held(), charged, c.want, c.held)
			}
		})
	}
}
