package urlfrontier

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/testclock"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/urlfrontier/pb"
)

// served serves a store until the test ends, and returns a client that speaks gRPC.
func served(t *testing.T, fs disk.FS, cfg Config, at clock.Clock) (*Store, *Server, pb.URLFrontierClient) {
	t.Helper()
	s := open(t, fs, cfg)
	ln, err := Listen("127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	v := Serve(s, ln, at)
	client, closeIdle := clientOf(v.Addr())
	t.Cleanup(func() {
		closeIdle()
		v.Close()
		s.Close()
	})
	return s, v, client
}

func clientOf(addr string) (client pb.URLFrontierClient, closeIdle func()) {
	onlyHTTP2 := new(http.Protocols)
	onlyHTTP2.SetUnencryptedHTTP2(true)
	tr := &http.Transport{Protocols: onlyHTTP2}
	client = pb.NewURLFrontierClient(&http.Client{Transport: tr}, "http://"+addr, connect.WithGRPC())
	return client, tr.CloseIdleConnections
}

// putAll sends URLs over one stream and returns the statuses by ID.
func putAll(
	ctx context.Context, client pb.URLFrontierClient, items ...*pb.URLItem,
) (map[string]pb.AckMessage_Status, error) {
	stream, err := client.PutURLs(ctx)
	if err != nil {
		return nil, err
	}
	sent := make(chan error, 1)
	go func() {
		var err error
		for _, item := range items {
			if err = stream.Send(item); err != nil {
				break
			}
		}
		stream.CloseRequest()
		sent <- err
	}()
	got := map[string]pb.AckMessage_Status{}
	for {
		ack, err := stream.Receive()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			<-sent
			return got, err
		}
		got[ack.ID] = ack.Status
	}
	err = <-sent
	return got, errors.Join(err, stream.CloseResponse())
}

// urlsOf reads a stream of URLs.
func urlsOf(ctx context.Context, client pb.URLFrontierClient, p *pb.GetParams) (urls []string, err error) {
	stream, err := client.GetURLs(ctx, p)
	if err != nil {
		return nil, err
	}
	for stream.Receive() {
		urls = append(urls, stream.Msg().Url)
	}
	return urls, errors.Join(stream.Err(), stream.Close())
}

func code(t *testing.T, what string, err error, want connect.Code) {
	t.Helper()
	if connect.CodeOf(err) != want {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

// TestCalls makes each call of the API once, as a client of gRPC.
func TestCalls(t *testing.T) {
	now := time.UnixMilli(start)
	_, v, client := served(t, testdisk.NewMem(), Config{}, testclock.Func(func() time.Time { return now }))
	ctx := t.Context()
	withID := discovered("http://a.example/3", "")
	withID.ID = "third"
	acks, err := putAll(ctx, client, discovered("http://a.example/1", ""), discovered("http://a.example/2", ""), withID,
		discovered("http://a.example/1", ""), known("http://b.example/1", "", 0), discovered("nonsense", ""))
	const ok = pb.AckMessage_OK
	if err != nil || len(acks) != 5 || acks["http://a.example/2"] != ok || acks["third"] != ok ||
		acks["http://b.example/1"] != ok || acks["nonsense"] != pb.AckMessage_SKIPPED {
		t.Fatalf("acknowledged: %v, %v", acks, err)
	}
	if l, err := client.ListNodes(ctx, &pb.Empty{}); err != nil || len(l.Values) != 1 || l.Values[0] != v.Addr() {
		t.Errorf("nodes: %v, %v", l, err)
	}
	if l, err := client.ListCrawls(ctx, &pb.Local{}); err != nil || len(l.Values) != 1 || l.Values[0] != "DEFAULT" {
		t.Errorf("crawls: %v, %v", l, err)
	}
	if l, err := client.ListQueues(ctx, &pb.Pagination{}); err != nil || l.Total != 1 || l.Values[0] != "a.example" {
		t.Errorf("queues: %v, %v", l, err)
	}
	l, err := client.ListQueues(ctx, &pb.Pagination{IncludeInactive: true, Start: 1, Size: 1})
	if err != nil || l.Total != 2 || l.Size != 1 || l.Values[0] != "b.example" {
		t.Errorf("all queues: %v, %v", l, err)
	}
	got, err := urlsOf(ctx, client, &pb.GetParams{MaxUrlsPerQueue: 2, DelayRequestable: 100})
	if err != nil || strings.Join(got, " ") != "http://a.example/1 http://a.example/2" {
		t.Errorf("taken: %q, %v", got, err)
	}
	stats, err := client.GetStats(ctx, &pb.QueueWithinCrawlParams{})
	if err != nil || stats.Size != 3 || stats.InProcess != 2 || stats.NumberOfQueues != 2 ||
		stats.Counts["completed"] != 1 || stats.Counts["active_queues"] != 1 || stats.CrawlID != "DEFAULT" {
		t.Errorf("stats: %v, %v", stats, err)
	}
	stats, err = client.GetStats(ctx, &pb.QueueWithinCrawlParams{Key: "b.example"})
	if err != nil || stats.Size != 0 || stats.Counts["completed"] != 1 {
		t.Errorf("stats of a queue: %v, %v", stats, err)
	}
	item, err := client.GetURLStatus(ctx, &pb.URLStatusRequest{Url: "http://b.example/1"})
	if err != nil || item.GetKnown().GetInfo().GetKey() != "b.example" || item.CreationDate != uint64(start/1000) {
		t.Errorf("status: %v, %v", item, err)
	}
	_, err = client.GetURLStatus(ctx, &pb.URLStatusRequest{Url: "http://b.example/1", Key: "a.example"})
	code(t, "status in another queue", err, connect.CodeNotFound)
	listed := func(p *pb.ListUrlParams) (urls []string) {
		stream, err := client.ListURLs(ctx, p)
		if err != nil {
			t.Fatal(err)
		}
		for stream.Receive() {
			info, _ := infoOf(stream.Msg())
			urls = append(urls, strings.TrimPrefix(info.Url, "http://"))
		}
		if err := errors.Join(stream.Err(), stream.Close()); err != nil {
			t.Error(err)
		}
		return urls
	}
	filter, yes := "EXAMPLE/1", true
	same(t, "listed", listed(&pb.ListUrlParams{Start: 1, Size: 2}), []string{"a.example/2", "a.example/3"})
	same(t, "listed by filter", listed(&pb.ListUrlParams{Filter: &filter, IgnoreCase: &yes}),
		[]string{"a.example/1", "b.example/1"})
	same(t, "listed of a queue", listed(&pb.ListUrlParams{Key: "b.example"}), []string{"b.example/1"})
	if n, err := client.CountURLs(ctx, &pb.CountUrlParams{}); err != nil || n.Value != 4 {
		t.Errorf("count: %v, %v", n, err)
	}
	n, err := client.CountURLs(ctx, &pb.CountUrlParams{Filter: &filter})
	if err != nil || n.Value != 0 {
		t.Errorf("count by filter: %v, %v", n, err)
	}
	now = now.Add(time.Minute)
	for what, call := range map[string]func() error{
		"block": func() error {
			until := uint64(now.Unix()) + 10
			_, err := client.BlockQueueUntil(ctx, &pb.BlockQueueParams{Key: "a.example", Time: until})
			return err
		},
		"limit": func() error {
			_, err := client.SetCrawlLimit(ctx, &pb.CrawlLimitParams{Key: "c.example", Limit: 7})
			return err
		},
		"delay": func() error {
			_, err := client.SetDelay(ctx, &pb.QueueDelayParams{Key: "a.example", DelayRequestable: 5})
			return err
		},
		"general delay": func() error {
			_, err := client.SetDelay(ctx, &pb.QueueDelayParams{DelayRequestable: 3})
			return err
		},
		"inactive": func() error { _, err := client.SetActive(ctx, &pb.Active{}); return err },
	} {
		if err := call(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if b, err := client.GetActive(ctx, &pb.Local{}); err != nil || b.State {
		t.Errorf("active: %v, %v", b, err)
	}
	if _, err := client.SetActive(ctx, &pb.Active{State: true}); err != nil {
		t.Error(err)
	}
	if got, err := urlsOf(ctx, client, &pb.GetParams{}); err != nil || len(got) != 0 {
		t.Errorf("of a blocked queue: %q, %v", got, err)
	}
	now = now.Add(time.Minute)
	got, err = urlsOf(ctx, client, &pb.GetParams{Key: "a.example"})
	if err != nil || len(got) != 3 {
		t.Errorf("by key: %q, %v", got, err)
	}
	if n, err := client.DeleteQueue(ctx, &pb.QueueWithinCrawlParams{Key: "a.example"}); err != nil || n.Value != 3 {
		t.Errorf("deleted: %v, %v", n, err)
	}
	if n, err := client.DeleteCrawl(ctx, &pb.DeleteCrawlMessage{}); err != nil || n.Value != 1 {
		t.Errorf("deleted: %v, %v", n, err)
	}
	_, err = client.SetLogLevel(ctx, &pb.LogLevelParams{})
	code(t, "log level", err, connect.CodeUnimplemented)
}

// TestHostileCalls: wrong calls end with a code, and the server goes on.
func TestHostileCalls(t *testing.T) {
	_, v, client := served(t, testdisk.NewMem(), Config{}, nil)
	ctx := t.Context()
	long := strings.Repeat("k", MaxName+1)
	_, err := client.SetDelay(ctx, &pb.QueueDelayParams{Key: long})
	code(t, "a long key", err, connect.CodeInvalidArgument)
	_, err = client.BlockQueueUntil(ctx, &pb.BlockQueueParams{Key: ""})
	code(t, "no key", err, connect.CodeInvalidArgument)
	_, err = client.GetStats(ctx, &pb.QueueWithinCrawlParams{CrawlID: long})
	code(t, "a long crawl", err, connect.CodeInvalidArgument)
	_, err = urlsOf(ctx, client, &pb.GetParams{Item: &pb.GetParams_CrawlID{CrawlID: "a\x01"}})
	code(t, "a crawl with a control character", err, connect.CodeInvalidArgument)
	_, err = putAll(ctx, client, discovered("http://a.example/"+strings.Repeat("u", maxMessage), ""))
	code(t, "a huge message", err, connect.CodeResourceExhausted)
	acks, err := putAll(ctx, client, discovered("http://a.example/"+strings.Repeat("u", MaxURL), ""))
	if err != nil || len(acks) != 1 {
		t.Errorf("a long URL: %v, %v", acks, err)
	}
	for _, status := range acks {
		if status != pb.AckMessage_SKIPPED {
			t.Errorf("a long URL: %v", status)
		}
	}
	// What a page in a browser, or a client of another version, may send.
	req, _ := http.NewRequestWithContext(ctx, "POST", "http://"+v.Addr()+pb.URLFrontierDeleteCrawlProcedure,
		strings.NewReader("{}"))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Origin", "https://evil.example")
	tr := &http.Transport{DisableKeepAlives: true}
	res, err := tr.RoundTrip(req)
	if err != nil || res.StatusCode != http.StatusForbidden {
		t.Errorf("a page in a browser: %v, %v", res, err)
	}
	res.Body.Close()
	other := connect.NewClient[pb.Empty, pb.Empty](&http.Client{Transport: tr},
		"http://"+v.Addr()+"/urlfrontier.URLFrontier/PutDiscovered", connect.WithGRPC())
	_, err = other.CallUnary(ctx, connect.NewRequest(&pb.Empty{}))
	code(t, "a call of another version", err, connect.CodeUnimplemented)
	if acks, err := putAll(ctx, client, discovered("http://a.example/", "")); err != nil || len(acks) != 1 {
		t.Errorf("afterwards: %v, %v", acks, err)
	}
}

func TestListen(t *testing.T) {
	if _, err := Listen("0.0.0.0:0", false); !errors.Is(err, ErrAddr) {
		t.Errorf("all addresses: %v", err)
	}
	if _, err := Listen("localhost", false); err == nil {
		t.Error("no port is accepted")
	}
	ln, err := Listen("0.0.0.0:0", true)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(ln.Addr().String(), true); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("the same port: %v", err)
	}
	ln.Close()
}

// TestConcurrentClients: clients that put the same URLs and take them at the same time. Each URL is given once.
func TestConcurrentClients(t *testing.T) {
	fs := testdisk.NewMem()
	_, v, client := served(t, fs, Config{SnapshotBytes: 20_000}, nil)
	ctx := t.Context()
	if _, err := client.SetDelay(ctx, &pb.QueueDelayParams{}); err != nil { // no delay
		t.Fatal(err)
	}
	const clients, urls = 4, 500
	var mu sync.Mutex
	given, accepted := map[string]int{}, 0
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			client, closeIdle := clientOf(v.Addr())
			defer closeIdle()
			var items []*pb.URLItem
			for k := range urls {
				k = (k + i*urls/clients) % urls
				items = append(items, discovered(fmt.Sprintf("http://h%d.example/%d", k%17, k), ""))
			}
			acks, err := putAll(ctx, client, items...)
			if err != nil || len(acks) != urls {
				t.Errorf("%d acknowledged: %v", len(acks), err)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, status := range acks {
				if status == pb.AckMessage_OK {
					accepted++
				}
			}
		})
		wg.Go(func() {
			client, closeIdle := clientOf(v.Addr())
			defer closeIdle()
			for {
				got, err := urlsOf(ctx, client, &pb.GetParams{MaxQueues: 5, MaxUrlsPerQueue: 0, DelayRequestable: 3600})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for _, u := range got {
					given[u]++
				}
				done := len(given) == urls
				mu.Unlock()
				if done || ctx.Err() != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	if accepted != urls || len(given) != urls {
		t.Errorf("%d URLs were accepted and %d given, want %d", accepted, len(given), urls)
	}
	for u, n := range given {
		if n != 1 {
			t.Errorf("%s was given %d times", u, n)
		}
	}
}

// TestKillInTheMiddle: a client sends URLs while the machine loses its power. Every acknowledged URL is there after the
// restart, and none that was given is given again before its lease ends.
func TestKillInTheMiddle(t *testing.T) {
	mem := testdisk.NewMem()
	fs := testdisk.NewFaulty(mem, nil)
	s, _, client := served(t, fs, Config{SnapshotBytes: 5000}, nil)
	ctx := t.Context()
	if _, err := client.SetDelay(ctx, &pb.QueueDelayParams{}); err != nil { // no delay
		t.Fatal(err)
	}
	var first []*pb.URLItem
	for i := range 50 {
		first = append(first, discovered(fmt.Sprintf("http://a.example/%d", i), ""))
	}
	if _, err := putAll(ctx, client, first...); err != nil {
		t.Fatal(err)
	}
	given, err := urlsOf(ctx, client, &pb.GetParams{MaxUrlsPerQueue: 20, DelayRequestable: 3600})
	if err != nil || len(given) != 20 {
		t.Fatalf("given: %q, %v", given, err)
	}
	_, changes := fs.Calls()
	fs.Break(testdisk.FailFrom(changes+20, errors.New("the power is off")))
	acked := map[string]bool{}
	for i := 0; ; i++ {
		u := fmt.Sprintf("http://b.example/%d", i)
		acks, err := putAll(ctx, client, discovered(u, ""))
		if err != nil {
			code(t, "after the failure", err, connect.CodeUnavailable)
			break
		}
		acked[u] = acks[u] == pb.AckMessage_OK
	}
	if <-s.Failed(); len(acked) == 0 {
		t.Fatal("the power went off too early")
	}
	_, _, again := served(t, mem.Crash(1), Config{}, nil)
	for u := range acked {
		if _, err := again.GetURLStatus(ctx, &pb.URLStatusRequest{Url: u}); err != nil {
			t.Errorf("%s was acknowledged and is lost: %v", u, err)
		}
	}
	got, err := urlsOf(ctx, again, &pb.GetParams{Key: "a.example"})
	if err != nil || len(got) != len(first)-len(given) {
		t.Fatalf("after the restart %d URLs are given, want %d: %v", len(got), len(first)-len(given), err)
	}
	for _, u := range got {
		for _, before := range given {
			if u == before {
				t.Errorf("%s was given twice", u)
			}
		}
	}
}
