package fetch

import (
	"context"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// If no descriptor is left for a connection, idle connections are closed, and the host is not
// blamed.
func TestDialWithoutDescriptors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, n := piped(t, Config{IdleKeep: time.Hour}, each(okReply))
		for _, host := range []string{"a", "b", "c", "d"} {
			mustFetch(t, f, Request{URL: mustURL(t, "http://"+host+".example/")})
		}
		kept, lack := f.idle.len(), 0
		dial := f.dialer.cfg.Dial
		f.dialer.cfg.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if f.idle.len() == kept { // every descriptor is taken
				lack++
				return nil, &net.OpError{Op: "dial", Net: network, Err: os.NewSyscallError("socket", syscall.EMFILE)}
			}
			return dial(ctx, network, addr)
		}
		r := mustFetch(t, f, Request{URL: mustURL(t, "http://e.example/")})
		if outcome(r) != "complete" || kept != 4 || lack != 1 || f.idle.len() != 3 {
			t.Errorf("got %s %v after %d refusals with %d idle connections, want complete after 1 with 3",
				outcome(r), r.Failure, lack, f.idle.len())
		}
		// A lasting shortage ends with the time limit for connecting.
		f.dialer.cfg.Dial = func(context.Context, string, string) (net.Conn, error) {
			return nil, os.NewSyscallError("socket", syscall.EMFILE)
		}
		began := time.Now()
		r = mustFetch(t, f, Request{URL: mustURL(t, "http://f.example/")})
		if r.Failure == nil || r.Failure.Kind != Connect || time.Since(began) > f.cfg.ConnectTimeout {
			t.Errorf("got %v after %s, want connect within ConnectTimeout", r.Failure, time.Since(began))
		}
		f.Close()
		n.open.Wait()
	})
}
