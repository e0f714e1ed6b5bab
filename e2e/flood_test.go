package e2e

import (
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testweb"
	"github.com/orbweaver/orbweaver/internal/testweb/gen"
)

// Other users of the machine open silent connections to the API and to the agents' port, more than
// the crawl may have file descriptors. The crawl continues, answers its operator, and misses no
// page.
func TestFlood(t *testing.T) {
	weighs(t, 3)
	const delay, descriptors, callers = 20 * time.Millisecond, "160", 400
	made := must.Get(gen.New(gen.Plain(31, 12)))(t)
	truth := must.Get(made.Reachable(gen.Bounds{Seeds: []gen.Seed{{}}, Robots: true}))(t)
	// One page waits until the operator was answered, so that the crawl is not over before.
	answered := make(chan struct{})
	answer := sync.OnceFunc(func() { close(answered) })
	defer answer()
	held := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			http.NotFound(w, r)
			return
		}
		select {
		case <-answered:
		case <-r.Context().Done():
		}
		io.WriteString(w, "held")
	})
	web := serve(t, testweb.Config{Origin: made, Truth: truth, Promise: testweb.Promise{HostDelay: delay},
		Sites: []testweb.Site{{Host: "held.example", Handler: held, Scheme: "http"}}})
	dir, addr := filepath.Join(t.TempDir(), "a1"), port(t)
	args := flags(t, web, dir, "--quiet", "--scope", "any", "--delay", delay.String(), "--ip-delay", "0",
		"--site-delay", "0",
		"--workers", "48", "--api", "127.0.0.1:0", "--name", "a1", "--listen", addr, "--retries", "100",
		made.URL(0, 0), "http://held.example/")
	p := startCommand(t, exec.Command("sh", append([]string{"-c", "ulimit -n " + descriptors + `; exec "$0" "$@"`,
		orbweaver}, args...)...))

	api := apiOf(t, dir)
	over := make(chan struct{})
	var flood sync.WaitGroup
	for i := range callers {
		to := api.Addr
		if i%2 == 0 {
			to = addr
		}
		flood.Go(func() {
			for {
				if conn, err := net.Dial("tcp", to); err == nil {
					done := make(chan struct{})
					go func() { defer close(done); io.Copy(io.Discard, conn) }()
					select {
					case <-done: // the crawl closed the connection: try once more
					case <-over:
					}
					conn.Close()
					<-done
				}
				select {
				case <-over:
					return
				case <-time.After(200 * time.Millisecond):
				}
			}
		})
	}
	defer flood.Wait()
	defer close(over)
	for range 5 {
		if r := crawl(t.Context(), t, "ctl", "--dir", dir, "status", "--json"); r.code != 0 {
			t.Errorf("the operator is not answered: %d\n%s", r.code, r.stderr)
		}
	}
	answer()
	if !ended(p, 3*time.Minute) {
		t.Fatalf("the crawl does not end:\n%s\n%s", tail(p.out.String()), events(t, dir))
	}
	if code := p.code(); code != 0 {
		t.Errorf("exit code %d\n%s", code, tail(p.out.String()))
	}
	noViolations(t, web)
	if r := web.Report(); r.Origin.Missed > 0 || r.Origin.Twice > 0 {
		t.Errorf("%d pages missed, %d fetched twice", r.Origin.Missed, r.Origin.Twice)
	}
}
