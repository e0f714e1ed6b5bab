package urlfrontier

import (
	"errors"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"connectrpc.com/connect"

	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/urlfrontier/pb"
)

// When a sync fails, a PutURLs whose client is silent ends as well.
func TestSyncFails(t *testing.T) {
	faulty := testdisk.NewFaulty(testdisk.NewMem(), nil)
	_, _, client := served(t, faulty, Config{}, nil)
	faulty.Break(func(c testdisk.Call) testdisk.Fault {
		if c.Op == testdisk.OpSync {
			return testdisk.Fault{Err: syscall.EIO}
		}
		return testdisk.Fault{}
	})
	stream, err := client.PutURLs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(discovered("http://a.example/", "")); err != nil {
		t.Fatal(err)
	}
	_, err = stream.Receive()
	code(t, "a silent client", err, connect.CodeUnavailable)
	if err := errors.Join(stream.CloseRequest(), stream.CloseResponse()); err != nil && connect.CodeOf(err) !=
		connect.CodeUnavailable {
		t.Error(err)
	}
	_, err = client.ListCrawls(t.Context(), &pb.Local{})
	code(t, "another call", err, connect.CodeUnavailable)
}

// The store fails while a sync is under way, which fails, too. Close does not wait for ever.
func TestCloseAfterTwoFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		faulty := testdisk.NewFaulty(testdisk.NewMem(), nil)
		s := open(t, faulty, Config{})
		begun, release := make(chan struct{}), make(chan struct{})
		faulty.Break(func(c testdisk.Call) testdisk.Fault {
			if c.Op != testdisk.OpSync {
				return testdisk.Fault{}
			}
			close(begun)
			<-release
			return testdisk.Fault{Err: syscall.EIO}
		})
		_, change, err := s.Put(discovered("http://a.example/", ""), start)
		if err != nil {
			t.Fatal(err)
		}
		committed, closed := make(chan error, 1), make(chan error, 1)
		go func() { committed <- s.commit(change) }()
		<-begun
		go func() { closed <- s.Close() }()
		synctest.Wait()
		first := errors.New("another change could not be written")
		s.mu.Lock()
		_ = s.fail(first)
		s.mu.Unlock()
		synctest.Wait()
		close(release)
		if err := <-committed; !errors.Is(err, first) {
			t.Errorf("commit: %v", err)
		}
		if err := <-closed; !errors.Is(err, first) {
			t.Errorf("close: %v", err)
		}
	})
}

// What a client says of known URLs cannot fill the memory, and a change that needs no more memory is kept.
func TestFullOfMetadata(t *testing.T) {
	const most = 64 << 10
	s := open(t, testdisk.NewMem(), Config{MemoryBytes: most})
	defer s.Close()
	for _, url := range []string{"http://a.example/0", "http://a.example/1", "http://a.example/2"} {
		put(t, s, discovered(url, ""), start, pb.AckMessage_OK)
	}
	say := func(url, key string, bytes int) pb.AckMessage_Status {
		t.Helper()
		item := known(url, key, 0)
		item.GetKnown().Info.Metadata = map[string]*pb.StringList{"m": {Values: []string{strings.Repeat("x", bytes)}}}
		status, change, err := s.Put(item, start)
		must(t, s, change, err)
		return status
	}
	for i, want := range []pb.AckMessage_Status{pb.AckMessage_OK, pb.AckMessage_FAIL} {
		if got := say([]string{"http://a.example/0", "http://a.example/1"}[i], "", 50<<10); got != want {
			t.Errorf("metadata of 50 KiB: %s, want %s", got, want)
		}
	}
	for i := range 100 {
		say("http://a.example/1", strings.Repeat("k", 1+i), 0) // each makes a queue
	}
	if s.bytes > most+most/8 {
		t.Errorf("%d bytes, want at most %d", s.bytes, most+most/8)
	}
	if got := say("http://a.example/0", "", 49<<10); got != pb.AckMessage_OK {
		t.Errorf("less metadata: %s", got)
	}
}

// A server on loopback refuses the name of a page in a browser that resolves to its address.
func TestHostOfRequest(t *testing.T) {
	_, v, _ := served(t, testdisk.NewMem(), Config{}, nil)
	_, port, _ := strings.Cut(v.Addr(), ":")
	tr := &http.Transport{DisableKeepAlives: true}
	for host, want := range map[string]int{"evil.example:" + port: http.StatusMisdirectedRequest,
		"evil.example": http.StatusMisdirectedRequest, v.Addr(): http.StatusOK, "localhost:" + port: http.StatusOK,
		"[::1]:" + port: http.StatusOK} {
		req, _ := http.NewRequestWithContext(t.Context(), "POST", "http://"+v.Addr()+pb.URLFrontierListCrawlsProcedure,
			strings.NewReader("{}"))
		req.Host = host
		req.Header.Set("Content-Type", "application/json")
		res, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("Host %s: %s, want %d", host, res.Status, want)
		}
	}
}
