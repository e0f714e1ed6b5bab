package urlfrontier

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	"github.com/orbweaver/orbweaver/internal/testkit/simnet"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/urlfrontier/pb"
)

// servedInside is served for a test in virtual time. The caller calls end.
func servedInside(t *testing.T) (s *Store, client pb.URLFrontierClient, end func()) {
	t.Helper()
	s = open(t, testdisk.NewMem(), Config{MemoryBytes: 1 << 20})
	loop := simnet.New(1).Machine(0, netip.MustParseAddr("127.0.0.1"))
	ln, packets, err := loop.Listen("127.0.0.1:7071")
	if err != nil {
		t.Fatal(err)
	}
	v := Serve(s, ln, nil)
	tr := &http.Transport{Protocols: new(http.Protocols), DialContext: loop.Dial}
	tr.Protocols.SetUnencryptedHTTP2(true)
	return s, pb.NewURLFrontierClient(&http.Client{Transport: tr}, "http://"+v.Addr(), connect.WithGRPC()), func() {
		tr.CloseIdleConnections()
		v.Close()
		s.Close()
		packets.Close()
	}
}

// While a sync is under way, the server reads only as many URLs as it can acknowledge later in bounded memory.
func TestAcknowledgementsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, client, end := servedInside(t)
		defer end()
		s.mu.Lock()
		s.syncing = true
		s.mu.Unlock()
		stream, err := client.PutURLs(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		const items, idBytes = 100, 60_000
		go func() {
			for i := range items {
				item := discovered("http://a.example/"+strings.Repeat("x", i), "")
				if item.ID = strings.Repeat("i", idBytes); stream.Send(item) != nil {
					return
				}
			}
			stream.CloseRequest()
		}()
		time.Sleep(time.Minute)
		if n := s.URLs(); n == 0 || n > waitingBytes/idBytes+1 {
			t.Errorf("%d URLs are read whose acknowledgements wait", n)
		}
		s.mu.Lock()
		s.syncing = false
		s.changed.Broadcast()
		s.mu.Unlock()
		for i := range items {
			if ack, err := stream.Receive(); err != nil || ack.Status != pb.AckMessage_OK {
				t.Fatalf("acknowledgement %d: %s, %v", i, ack.GetStatus(), err)
			}
		}
		if err := stream.CloseResponse(); err != nil {
			t.Error(err)
		}
	})
}

// Streams of URLs have room for their memory. They hold up no other calls. A message has a bounded number of fields.
func TestCallsHaveRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, client, end := servedInside(t)
		defer end()
		const most = leastRoom / largeBytes
		for i := range most + 1 {
			stream, err := client.PutURLs(t.Context())
			if err == nil {
				_ = stream.Send(discovered("http://a.example/", "")) // Receive has the cause
				_, err = stream.Receive()
			}
			if got := connect.CodeOf(err); (err != nil) != (i == most) || err != nil && got != connect.CodeUnavailable {
				t.Errorf("stream %d: %v", i, err)
			}
		}
		if _, err := client.ListCrawls(t.Context(), &pb.Local{}); err != nil {
			t.Errorf("a call beside streams: %v", err)
		}
	})
	_, _, client := served(t, testdisk.NewMem(), Config{}, nil)
	many := discovered("http://a.example/", "")
	info := many.GetDiscovered().Info
	info.Metadata = map[string]*pb.StringList{"m": {Values: make([]string, 40_000)}}
	_, err := putAll(t.Context(), client, many)
	code(t, "a message of 40,000 fields", err, connect.CodeInvalidArgument)
}
