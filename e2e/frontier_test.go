package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/orbweaver/orbweaver/internal/urlfrontier/pb"
)

// frontierClient returns a client of "orbweaver frontier" that speaks gRPC.
func frontierClient(t *testing.T, addr string) pb.URLFrontierClient {
	t.Helper()
	onlyHTTP2 := new(http.Protocols)
	onlyHTTP2.SetUnencryptedHTTP2(true)
	tr := &http.Transport{Protocols: onlyHTTP2}
	t.Cleanup(tr.CloseIdleConnections)
	return pb.NewURLFrontierClient(&http.Client{Transport: tr}, "http://"+addr, connect.WithGRPC())
}

func discoveredURL(u string) *pb.URLItem {
	return &pb.URLItem{Item: &pb.URLItem_Discovered{Discovered: &pb.DiscoveredURLItem{Info: &pb.URLInfo{Url: u}}}}
}

// TestFrontierKilled: kill -9 ends "orbweaver frontier" while four clients put URLs and lease them. After the restart
// every acknowledged URL is known, and no leased URL is given again.
func TestFrontierKilled(t *testing.T) {
	weighs(t, 2)
	dir, addr := filepath.Join(t.TempDir(), "urls"), port(t)
	p := start(t, "frontier", dir, "--listen", addr)
	p.says(t, "frontier at "+addr)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if _, err := frontierClient(t, addr).SetDelay(ctx, &pb.QueueDelayParams{}); err != nil { // no delay
		t.Fatal(err)
	}
	const enough = 2000 // acknowledged URLs until the kill
	var mu sync.Mutex
	acked, leased := map[string]bool{}, map[string]bool{}
	var clients sync.WaitGroup
	for c := range 4 {
		client := frontierClient(t, addr)
		clients.Go(func() {
			stream, err := client.PutURLs(ctx)
			if err != nil {
				return // the server is gone
			}
			clients.Go(func() {
				for i := 0; ; i++ {
					if stream.Send(discoveredURL(fmt.Sprintf("http://h%d-%d.example/%d", c, i%50, i))) != nil {
						return // the server is gone
					}
				}
			})
			for {
				ack, err := stream.Receive()
				if err != nil {
					_ = stream.CloseRequest() // the server is gone
					_ = stream.CloseResponse()
					return
				}
				mu.Lock()
				if acked[ack.ID] = true; len(acked) == enough {
					p.cmd.Process.Kill()
				}
				mu.Unlock()
			}
		})
		clients.Go(func() {
			for ctx.Err() == nil {
				urls, err := leasedBy(ctx, client, &pb.GetParams{MaxQueues: 10, DelayRequestable: 3600})
				mu.Lock()
				for _, u := range urls {
					leased[u] = true
				}
				mu.Unlock()
				if err != nil {
					return // the server is gone
				}
			}
		})
	}
	clients.Wait()
	if len(acked) < enough || len(leased) == 0 {
		t.Fatalf("%d URLs were acknowledged and %d leased before the kill", len(acked), len(leased))
	}
	p = start(t, "frontier", dir, "--listen", addr)
	p.says(t, "frontier at "+addr)
	client := frontierClient(t, addr)
	for u := range acked {
		if _, err := client.GetURLStatus(ctx, &pb.URLStatusRequest{Url: u}); err != nil {
			t.Fatalf("%s was acknowledged and is lost: %v", u, err)
		}
	}
	again := 0
	for {
		urls, err := leasedBy(ctx, client, &pb.GetParams{DelayRequestable: 3600})
		if err != nil {
			t.Fatal(err)
		}
		if len(urls) == 0 {
			break
		}
		for _, u := range urls {
			if again++; leased[u] {
				t.Fatalf("%s was leased before the kill and is given again", u)
			}
		}
	}
	t.Logf("%d URLs acknowledged, %d leased, %d given after the restart", len(acked), len(leased), again)
	if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if !ended(p, time.Minute) || p.code() != 0 {
		t.Errorf("Ctrl-C: code %d\n%s", p.code(), p.out.String())
	}
}

// leasedBy reads the URLs that a call of GetURLs gives.
func leasedBy(ctx context.Context, client pb.URLFrontierClient, q *pb.GetParams) (urls []string, err error) {
	stream, err := client.GetURLs(ctx, q)
	if err != nil {
		return nil, err
	}
	for stream.Receive() {
		urls = append(urls, stream.Msg().Url)
	}
	return urls, errors.Join(stream.Err(), stream.Close())
}
