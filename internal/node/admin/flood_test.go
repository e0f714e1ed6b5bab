package admin

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
)

// listen returns a Server that knows one token. change changes its configuration.
func listen(t *testing.T, change func(*Config)) *Server {
	t.Helper()
	cfg := Config{Addr: "127.0.0.1:0", Token: "secret", Operator: operator{}, Ready: func() bool { return true },
		Metrics: prometheus.NewRegistry()}
	change(&cfg)
	s := must.Get(Listen(cfg))(t)
	t.Cleanup(func() { s.Close() })
	return s
}

// A connection of a test asks over and over.
type asking struct {
	net.Conn
	in *bufio.Reader
}

func dial(t *testing.T, s *Server) *asking {
	t.Helper()
	conn := must.Get(net.Dial("tcp", s.Addr()))(t)
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(time.Minute))
	return &asking{conn, bufio.NewReader(conn)}
}

func (a *asking) status(token string) (int, error) {
	_, err := fmt.Fprintf(a, "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", token)
	if err != nil {
		return 0, err
	}
	res, err := http.ReadResponse(a.in, nil)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return res.StatusCode, err
}

// However many connections other users of the machine open, the Server keeps no more
// than its share, one with the token stays open, and the operator's next one is
// answered.
func TestIdleFlood(t *testing.T) {
	s := listen(t, func(*Config) {})
	ours := dial(t, s)
	if code, err := ours.status("secret"); code != 200 || err != nil {
		t.Fatal(code, err)
	}
	n := testtier.Rounds(4*maxConns, 2000)
	if most := disk.MaxOpen(); most > 0 {
		n = min(n, most/4)
	}
	var silent []*asking
	for i := range n {
		c := dial(t, s)
		switch i % 3 {
		case 1: // a header that does not end
			io.WriteString(c, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n")
		case 2: // a wrong token, and then nothing
			io.WriteString(c, "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer wrong\r\n\r\n")
		}
		silent = append(silent, c)
	}
	if code, err := ours.status("secret"); code != 200 || err != nil {
		t.Errorf("a connection with the token: %d, %v", code, err)
	}
	if code, err := dial(t, s).status("secret"); code != 200 || err != nil {
		t.Errorf("the operator's next connection: %d, %v", code, err)
	}
	// All but the last ones are closed: nothing waits for a time-out. The server closes those with a wrong token by
	// itself, which leaves room for others.
	for i, c := range silent[:n-2*maxConns] {
		if _, err := io.Copy(io.Discard, c.in); err != nil {
			if e, ok := err.(net.Error); ok && e.Timeout() {
				t.Fatalf("connection %d of %d stays open", i, n)
			}
		}
	}
}

// The server has a time-out for each phase of a connection.
func TestTimeouts(t *testing.T) {
	h := listen(t, func(*Config) {}).http
	for what, d := range map[string]time.Duration{
		"header": h.ReadHeaderTimeout, "request": h.ReadTimeout, "answer": h.WriteTimeout,
		"idle connection": h.IdleTimeout,
	} {
		if d <= 0 || d > time.Minute {
			t.Errorf("the time for a %s is %s", what, d)
		}
	}
}
